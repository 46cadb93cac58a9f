//! Connections of which one end is not there any more, as far as the other can tell: closed within a named time, and counted.

use crate::bad_input::connect;
use crate::harness::{Cluster, PATIENCE};
use rdmascope_tests::guest::wait_until;
use tokio_tungstenite::tungstenite::Message;

/// Waits until so many connections of agents were refused for this reason.
#[track_caller]
fn wait_for_refused(cluster: &Cluster, reason: &str, times: u32) {
    wait_until(reason, PATIENCE, || {
        let metrics = cluster.api().get("/metrics")?.text;
        let name = format!("rdmascope_agents_refused_total{{reason=\"{reason}\"}}");
        let line = metrics.lines().find(|line| line.starts_with(&name)).ok_or("no such line")?;
        if line == format!("{name} {times}") { Ok(()) } else { Err(line.to_owned()) }
    });
}

#[test]
fn who_says_no_hello_is_let_go_and_counted() {
    let cluster = Cluster::start(None, &[]);
    wait_for_refused(&cluster, "silent", 0);
    let mut socket = connect(&cluster.address);
    // It says nothing, and neither does the coordinator until it has waited long enough.
    match socket.read() {
        Ok(Message::Close(Some(frame))) => assert_eq!(frame.reason.as_str(), "no hello within ten seconds"),
        other => panic!("not a close: {other:?}"),
    }
    wait_for_refused(&cluster, "silent", 1);
}
