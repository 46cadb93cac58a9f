//! Real iWARP connections, which the kernel's connection manager makes: the verbs transport alone, and a whole cluster.

use crate::conformance::manners;
use rdmascope_model::{EndpointInfo, Fabric, Role};
use rdmascope_tests::guest::{Cluster, SoftIwarp, wait_until};
use rdmascope_transport::conformance::{RealTime, Subject, check};
use rdmascope_transport::verbs::Verbs;
use rdmascope_transport::{PortReading, Transport};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn iwarp_on_real_devices_does_what_every_transport_must_do() {
    let iwarp = SoftIwarp::make();
    let mut drive = RealTime::new();
    let waker = drive.waker();
    let before = iwarp.received(2);
    let mut make = |role| -> (Box<dyn Transport>, EndpointInfo) {
        let end = if role == Role::Source { 1 } else { 2 };
        let name = format!("node/{}/1", iwarp.device(end));
        let info = EndpointInfo {
            gid: Some(format!("::ffff:{}", iwarp.address(end)).parse().expect("an address")),
            netdev: Some(iwarp.port(end)),
            ..EndpointInfo::bare(name.parse().expect("an endpoint name"), Fabric::Iwarp)
        };
        let nodes = Path::new("/dev/infiniband");
        (Box::new(Verbs::new(Arc::new(|_| PortReading::default()), waker.clone(), None, nodes)), info)
    };
    check(Subject { make: &mut make, drive: &mut drive, held: None, manners: &manners() });
    let moved = iwarp.received(2) - before;
    assert!(
        moved > 10 << 20,
        "what was measured went over the cable, and not through this machine: {moved} bytes"
    );
}

#[test]
fn a_pair_over_iwarp_is_probed_through_the_api_and_its_devices_can_be_removed_afterwards() {
    let iwarp = SoftIwarp::make();
    let mut cluster = Cluster::start([]);
    for end in [1, 2] {
        cluster.start_agent_of(&format!("iw-{end}"), &iwarp.device(end));
    }
    let api = cluster.api();
    let probe = |metric: &str| {
        let body = json!({"source": "iw-1", "target": "iw-2", "metric": metric, "drained": true});
        wait_until(&format!("{metric} over iWARP"), Duration::from_secs(120), || {
            let begun = api.post("/api/v1/probes", &body)?;
            if begun.status != 202 {
                return Err(begun.text);
            }
            let id = begun.body["id"].clone();
            let over = wait_until("the probe is over", Duration::from_secs(60), || {
                let view = api.json(&format!("/api/v1/probes/{id}"))?;
                if view["pair"].is_null() { Err(view.to_string()) } else { Ok(view) }
            });
            if over["state"] == json!("done") { Ok(over) } else { Err(over.to_string()) }
        })
    };
    let latency = probe("latency");
    assert!(latency["pair"]["latency"]["figures"]["p50_ns"].as_u64().is_some_and(|p50| p50 > 0), "{latency}");
    let bandwidth = probe("bandwidth");
    let figures = &bandwidth["pair"]["bandwidth"]["figures"];
    eprintln!("over Soft-iWARP: {} and {figures}", latency["pair"]["latency"]["figures"]);
    assert!(figures["average_bits_per_second"].as_u64().is_some_and(|bps| bps > 0), "{bandwidth}");
    // The agents still run, with nothing open that would keep the devices.
    drop(iwarp);
    wait_until("the devices are gone", Duration::from_secs(10), || {
        let left =
            ["siw1", "siw2"].iter().filter(|d| Path::new("/sys/class/infiniband").join(d).exists()).count();
        if left == 0 { Ok(()) } else { Err(format!("{left} devices are left")) }
    });
}
