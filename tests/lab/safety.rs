//! A working cluster is not hurt: bandwidth is measured on idle ports only, and what somebody else sends makes a port busy.

use rdmascope_tests::guest::{Api, Cluster, Endpoint, Program, endpoints, wait_for_listener, wait_until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The idle gate looks back ten seconds; an emulated machine takes its time beside that.
const PATIENCE: Duration = Duration::from_secs(60);

/// Probes bandwidth from the first endpoint to the second as an operator does on a cluster that may be working.
fn probe(api: &Api) -> Value {
    let body = json!({"source": "lab-1", "target": "lab-2", "metric": "bandwidth"});
    let begun = api.post("/api/v1/probes", &body).expect("the coordinator answers");
    assert_eq!(begun.status, 202, "{}", begun.text);
    wait_until("the probe is over", PATIENCE, || {
        let view = api.json(&format!("/api/v1/probes/{}", begun.body["id"]))?;
        if view["pair"].is_null() { Err(view.to_string()) } else { Ok(view) }
    })
}

#[track_caller]
fn becomes(api: &Api, state: &str, what: &str) -> Value {
    wait_until(what, PATIENCE, || {
        let view = probe(api);
        if view["state"] == json!(state) { Ok(view) } else { Err(view.to_string()) }
    })
}

#[test]
fn bandwidth_needs_an_idle_port_and_somebody_elses_traffic_makes_it_busy() {
    let cluster = Cluster::start(endpoints());
    let api = cluster.api();
    api.wait_usable(endpoints());
    // Nobody has looked at the ports for ten seconds yet, and unknown counts as busy.
    let first = probe(&api);
    assert_eq!((&first["state"], &first["excluded"]), (&json!("excluded"), &json!("busy")), "{first}");
    becomes(&api, "done", "quiet ports may be measured");
    // Our own probe does not make the port busy for the next one.
    // An emulated machine that was not looked at for seconds is not known to be idle, and says so.
    let again = wait_until("the ports were looked at lately", PATIENCE, || {
        let again = probe(&api);
        let unseen = again["steps"].to_string().contains("cannot be told");
        if unseen { Err(again.to_string()) } else { Ok(again) }
    });
    assert_eq!(again["state"], json!("done"), "{again}");

    let (from, to) = (Endpoint(1), Endpoint(2));
    let arguments = ["-s", "65536", "-D", "20"];
    let mut server = Command::new("ib_write_bw");
    server.args(["-d", &to.device()]).args(arguments);
    let _server = Program::start("ib_write_bw (server)", &mut server, Path::new("/tmp/job-server.log"));
    wait_for_listener(18515);
    let mut client = Command::new("ib_write_bw");
    client.args(["-d", &from.device()]).args(arguments).arg(to.address());
    let _client = Program::start("ib_write_bw (client)", &mut client, Path::new("/tmp/job-client.log"));
    let busy = becomes(&api, "excluded", "the job's ports are busy");
    assert_eq!(busy["excluded"], json!("busy"), "{busy}");
    // Both agents looked who that is: the kernel names the process.
    assert!(busy["steps"].to_string().contains("(ib_write_bw, queue pairs: 1)"), "{busy}");
}
