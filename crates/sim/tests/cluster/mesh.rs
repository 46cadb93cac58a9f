//! The mesh of pings over a whole cluster: addresses go round, grants come and go, and results reach the matrix.

use crate::common::*;
use rdmascope_control::coordinator::Settings;
use rdmascope_localise::{CellState, Measured};
use rdmascope_model::{DatagramAddress, Delays, Heard, Metric, PingCounts, PingStats, StampClock};
use rdmascope_probe::mesh::MeshEvent;
use rdmascope_sim::Cluster;
use std::collections::BTreeMap;

fn open(c: &mut Cluster, host: usize, queue_pair: u32) {
    let address = DatagramAddress {
        gid: "::ffff:10.0.0.1".parse().unwrap(),
        lid: 0,
        queue_pair,
        queue_key: 1,
        mtu_bytes: 4_096,
    };
    let name = c.endpoint(host);
    c.mesh_says(host, MeshEvent::Opened(name, address));
}

/// Queue pairs by node, as a node's mesh knows them.
fn book(c: &Cluster, host: usize) -> BTreeMap<String, Option<u32>> {
    let peers = c.mesh_told(host).book.iter();
    peers.map(|peer| (peer.name.node.clone(), peer.address.map(|a| a.queue_pair))).collect()
}

fn stats(batch: u32, answered: bool) -> PingStats {
    let counts = |payload_bytes, sent: u32| PingCounts {
        payload_bytes,
        sent,
        answered: if answered { sent } else { 0 },
        lost_forward: answered.then_some(0),
        lost_backward: answered.then_some(0),
        ..PingCounts::default()
    };
    let usual = Delays { count: 6, min_ns: 1_000, p50_ns: 3_000, p99_ns: None, max_ns: 9_000 };
    let usual = answered.then_some(usual);
    PingStats {
        batch,
        clock: StampClock::Hardware,
        small: counts(64, 6),
        large: counts(4_096, 3),
        network: usual,
        network_large: usual,
        responder: usual,
        prober: usual,
        host_delayed: 0,
        invalid_stamps: 0,
        stale: 0,
        labels: Vec::new(),
    }
}

fn meshed(nodes: usize) -> Cluster {
    meshed_by(nodes, Settings::default())
}

fn meshed_by(nodes: usize, settings: Settings) -> Cluster {
    let mut c = cluster(nodes, settings);
    (0..nodes).for_each(|host| open(&mut c, host, 100));
    c.run_for(seconds(3));
    c
}

#[test]
fn every_mesh_learns_every_address_and_of_a_restart_within_seconds() {
    let mut c = meshed(5);
    for host in 0..5 {
        assert_eq!(book(&c, host), (0..5).map(|i| (format!("node-{i}"), Some(100))).collect());
        assert!(c.mesh_told(host).grant.is_some_and(|grant| grant.until > c.now().mono));
    }
    c.kill_agent(2);
    c.start_agent(2);
    assert!(c.mesh_told(2).grant.is_none(), "a new process begins without");
    open(&mut c, 2, 200);
    c.run_for(seconds(5));
    for host in 0..5 {
        assert_eq!(book(&c, host)["node-2"], Some(200), "at node {host}");
        assert_eq!(book(&c, host).len(), 5);
    }
    c.run_for(seconds(300));
    assert!(c.fabric().borrow().history().is_empty(), "pings cover all pairs");
}

#[test]
fn grants_end_with_the_coordinator_and_come_back_with_the_next() {
    let mut c = meshed(3);
    c.kill_coordinator();
    c.run_for(seconds(50));
    assert!(c.mesh_told(0).grant.is_some(), "60 s from the last renewal");
    c.run_for(seconds(15));
    assert!((0..3).all(|host| c.mesh_told(host).grant.is_none()), "without a coordinator nothing is sent");
    assert_eq!(book(&c, 0).len(), 3, "others are answered all the same");
    c.start_coordinator();
    c.run_for(seconds(10));
    assert!((0..3).all(|host| c.mesh_told(host).grant.is_some()));
    open(&mut c, 1, 300);
    c.run_for(seconds(3));
    assert!((0..3).all(|host| book(&c, host)["node-1"] == Some(300)));
}

#[test]
fn what_meshes_find_is_in_the_matrix_and_who_heard_explains_silence() {
    // Nothing runs by itself, or the silent pair would be measured again at once, over a fabric that is well.
    let mut c = meshed_by(3, quiet());
    let (a, b) = (c.endpoint(0), c.endpoint(1));
    c.mesh_says(0, MeshEvent::Pings(a.clone(), b.clone(), Box::new(stats(1, true))));
    c.mesh_says(1, MeshEvent::Pings(b.clone(), a.clone(), Box::new(stats(1, false))));
    c.mesh_says(0, MeshEvent::Heard(Heard { local: a, peer: b, batch: 1, small: 6, large: 3 }));
    c.run_for(seconds(6));
    let (_, answered) = measured(&c, Metric::Ping, 0, 1);
    assert!(matches!(answered, Measured::Ping(figures) if figures.answered() == 9), "{answered:?}");
    assert_eq!(state(&c, Metric::Ping, 1, 0), CellState::Failed);
    let coordinator = c.coordinator();
    let index = |host| coordinator.matrix().find(&c.endpoint(host)).unwrap();
    let failure = coordinator.matrix().failure(Metric::Ping, index(1), index(0)).unwrap();
    assert!(failure.evidence.contains("the answers were lost"), "{}", failure.evidence);
    assert_eq!(state(&c, Metric::Ping, 0, 2), CellState::Never);
}

#[test]
fn endpoints_without_datagrams_are_probed_as_before() {
    let mut c = cluster(4, Settings::default());
    (0..2).for_each(|host| open(&mut c, host, 100));
    let coverage = Settings::default().coverage;
    c.run_for(coverage * 3);
    for (a, b) in pairs(4) {
        let connected = a >= 2 || b >= 2;
        let expected = if connected { CellState::Fresh } else { CellState::Never };
        assert_eq!(state(&c, Metric::Latency, a, b), expected, "{a} to {b}");
    }
}
