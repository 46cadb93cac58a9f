//! What others send to the coordinator's port and what lies in its folder, behind one door: fuzz targets come in here, and routes and
//! readers stay private.

use crate::access::Access;
use crate::api::router;
use crate::hub::Hub;
use crate::snapshot::{HISTORY, MATRIX, read_from};
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use rdmascope_control::coordinator::Settings;
use rdmascope_host::Clock;
use rdmascope_model::EndpointName;
use std::sync::Arc;

/// Name and decoder.
type Decoder = (&'static str, fn(&[u8]));

/// All of them. Each takes any bytes, and panics only where what takes them is broken.
pub const DECODERS: [Decoder; 2] = [("api", api), ("snapshot-files", snapshot_files)];

/// A coordinator that has just started, and knows two endpoints by name.
fn hub() -> Option<Hub> {
    let hub = Hub::new(Settings::default(), 1, Clock::new(), Access::default(), false, 100).ok()?;
    let names: Vec<EndpointName> = ["a/d/1", "b/d/1"].iter().filter_map(|name| name.parse().ok()).collect();
    hub.write(|state, _| state.restore_names(&names));
    Some(hub)
}

/// A line `METHOD PATH?QUERY`, then the body. Nothing that is sent may be answered as our own fault.
fn api(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, body) = (String::from_utf8_lossy(&bytes[..end]), bytes.get(end + 1..).unwrap_or_default());
    let Some((method, uri)) = line.split_once(' ') else { return };
    let Ok(method) = Method::from_bytes(method.as_bytes()) else { return };
    let Ok(request) = Request::builder().method(method).uri(uri).body(Body::from(body.to_vec())) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let (Some(hub), Ok(runtime)) = (hub(), runtime) else { return };
    let service = TowerToHyperService::new(router(Arc::new(hub)));
    let Ok(answer) = runtime.block_on(service.call(request));
    assert_ne!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "{line}");
}

/// A file of the folder, read as each of the two.
fn snapshot_files(bytes: &[u8]) {
    for kept in [&MATRIX, &HISTORY] {
        if let Some(hub) = hub() {
            let taken = read_from(&hub, kept, &mut { bytes }).unwrap_or(0);
            assert!(taken <= bytes.len() / 8, "{taken} cells of {} bytes", bytes.len());
        }
    }
}
