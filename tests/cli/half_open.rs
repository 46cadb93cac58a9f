//! Connections of which one end is not there any more, as far as the other can tell: closed within a named time, and counted.

use crate::bad_input::{connect, hello, upgraded};
use crate::harness::{Cluster, PATIENCE};
use rdmascope_link::{PROTOCOL_MAX, PROTOCOL_MIN, PauseFlags, ToCoordinator};
use rdmascope_tests::guest::wait_until;
use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;
use std::time::Duration;
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

#[test]
fn who_stops_reading_is_let_go_and_counted_and_nobody_else_notices() {
    let cluster = Cluster::start(None, &["n1"]);
    cluster.wait_for_nodes(&["n1"]);
    // Small segments and a small window, so that little is enough to fill what lies between.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_tcp_mss(536).expect("small segments");
    socket.set_recv_buffer_size(2_048).expect("a small window");
    let address: SocketAddr = cluster.address.parse().expect("an address");
    socket.connect(&address.into()).expect("it listens");
    let mut agent = upgraded(&cluster.address, socket.into());
    agent.get_ref().set_write_timeout(Some(Duration::from_secs(1))).expect("a limit");
    agent.send(hello(PROTOCOL_MIN, PROTOCOL_MAX)).expect("it is let in");
    cluster.wait_for_nodes(&["n1", "stranger"]);
    // Each is answered, and no answer is read. When the coordinator is stuck with it, it reads nothing more either.
    let beat = ToCoordinator::heartbeat(PauseFlags::default()).encode();
    while agent.send(Message::Binary(beat.clone().into())).is_ok() {}
    wait_for_refused(&cluster, "stuck", 1);
    cluster.wait_for_nodes(&["n1"]);
}
