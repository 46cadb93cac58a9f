//! The agent's own `/metrics` and `/healthz`: alerts on a node must survive the coordinator.

use crate::machine::Seen;
use crate::main_loop::outcome;
use crate::{Error, VERSION};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus::Registry;
use rdmascope_expose::api::{HealthView, PauseLevel};
use rdmascope_expose::metrics::{self, AgentInput, AgentOwn, CONTENT_TYPE, MeshInput};
use rdmascope_link::{PauseFlags, ProbeResult};
use rdmascope_model::Metric;
use rdmascope_probe::mesh::MeshHealth;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tracing::{error, info};

/// What is shown: written by the main loop, read by requests.
pub(crate) struct Shown {
    registry: Registry,
    pub(crate) own: AgentOwn,
    pub(crate) seen: Arc<Mutex<Seen>>,
    now: Mutex<Present>,
}

struct Present {
    connected: bool,
    paused: PauseFlags,
    mesh: Option<MeshInput>,
}

impl Shown {
    pub(crate) fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let own = AgentOwn::new(&registry)?;
        let now = Present { connected: false, paused: PauseFlags::default(), mesh: None };
        Ok(Self { registry, own, seen: Arc::default(), now: Mutex::new(now) })
    }

    pub(crate) fn state(&self, connected: bool, paused: PauseFlags) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.connected = connected;
        now.paused = paused;
    }

    /// How the mesh of pings does, and how many batches no coordinator was there for.
    pub(crate) fn mesh(&self, health: Option<MeshHealth>, dropped: u64) {
        let mesh = health.map(|health| MeshInput {
            endpoints: health.endpoints,
            receives_posted: health.receives_posted,
            receives_wanted: health.receives_wanted,
            refused: health.refused,
            dropped: health.dropped + dropped,
            longest_gap: Duration::from_nanos(health.longest_gap_ns),
            waited: health.waited_ns.map(Duration::from_nanos),
        });
        self.now.lock().unwrap_or_else(PoisonError::into_inner).mesh = mesh;
    }

    pub(crate) fn count(&self, results: &[ProbeResult]) {
        for result in results.iter().filter(|result| result.lease.is_some()) {
            self.own.probe(result.metric.map_or("report", Metric::as_str), outcome(&result.outcome));
        }
    }

    fn text(&self) -> prometheus::Result<String> {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let families = metrics::agent(&AgentInput {
            version: VERSION,
            snapshot: seen.begun.then_some(&seen.snapshot),
            findings: &seen.findings,
            kernel_log: seen.log.value(),
            took: &seen.took,
            retransmits: rdmascope_checks::counters::retransmits,
            paused: PauseLevel::of(now.paused.all, now.paused.bandwidth),
            uplink_connected: now.connected,
            mesh: now.mesh,
        });
        drop(seen);
        drop(now);
        Ok(families + &metrics::encode(&self.registry)?)
    }
}

/// Takes the port.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, shown: Arc<Shown>) {
    if let Ok(address) = listener.local_addr() {
        info!(%address, "agent serves /metrics and /healthz");
    }
    let router = Router::new().route("/metrics", get(all)).route("/healthz", get(healthz)).with_state(shown);
    if let Err(error) = axum::serve(listener, router).await {
        error!(%error, "the agent's own HTTP server stopped");
    }
}

async fn all(State(shown): State<Arc<Shown>>) -> Response {
    match shown.text() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn healthz() -> Response {
    axum::Json(HealthView::ok(VERSION)).into_response()
}
