//! InfiniBand over a fake fabric that takes packets only to the right LID, in a common partition, and across subnets only with a network layer.

#[path = "../../sys/tests/fake/mod.rs"]
mod fake;
mod support;

use fake::Fake;
use rdmascope_model::{
    BandwidthSpec, Cause, Effects, EndpointInfo, Fabric, Failure, LatencySpec, LeaseId, Manner, Marks,
    Outcome, ProbePlan, ProbeSpec, Role, Step,
};
use rdmascope_probe::TransportEvent;
use rdmascope_transport::Transport;
use rdmascope_transport::verbs::Verbs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::{NOW, connect, endpoint, failure, next, plan, waker};

const LEASE: LeaseId = LeaseId(1);
const LATENCY: ProbeSpec = ProbeSpec::Latency(LatencySpec { samples: 40, warmup: 4, message_bytes: 8 });
const STREAM: ProbeSpec = ProbeSpec::Bandwidth(BandwidthSpec {
    message_bytes: 4096,
    depth: 4,
    warmup: Duration::from_millis(1),
    duration: Duration::from_millis(5),
    completions_min: 5,
    bytes_max: 1 << 30,
});

fn fabric(settings: &[(&str, i64)]) -> Fake {
    let fake = Fake::new();
    fake.set("devices", 2);
    fake.set("infiniband", 1);
    settings.iter().for_each(|(name, value)| fake.set(name, *value));
    fake
}

/// A port as the inventory tells it; in a subnet of its own where the fabric has several.
fn end(role: Role, subnets: bool) -> EndpointInfo {
    let (name, gid) = match (role, subnets) {
        (Role::Source, false) => ("a/fake_0/1", "fe80::200:0:0:1"),
        (Role::Target, false) => ("b/fake_1/1", "fe80::200:0:0:2"),
        (Role::Source, true) => ("a/fake_0/1", "fec0:0:0:1:200:0:0:1"),
        (Role::Target, true) => ("b/fake_1/1", "fec0:0:0:2:200:0:0:2"),
    };
    EndpointInfo { fabric: Fabric::InfiniBand, gid: Some(gid.parse().expect("a GID")), ..endpoint(name) }
}

fn marked(role: Role, spec: ProbeSpec, service_level: u8) -> ProbePlan {
    let marks = Marks { service_level, ..Marks::default() };
    let manner = Manner { marks, ..Manner::default() };
    ProbePlan { manner, ..plan(role, LEASE.0, spec, Duration::from_secs(20)) }
}

/// A whole probe, and what the source made of it.
fn probe(fake: &Fake, spec: ProbeSpec, service_level: u8) -> Outcome {
    let subnets = fake.get("subnets") != 0;
    let [mut source, mut target] = [Role::Source, Role::Target].map(|role| {
        let mut verbs = Verbs::new(
            Arc::new(|_| Effects { retransmits: Some(7), ..Effects::default() }.into()),
            waker(),
            Some(fake.path()),
            Path::new("/nonexistent"),
        );
        verbs.prepare(&marked(role, spec, service_level), &end(role, subnets), NOW);
        verbs
    });
    connect(&mut source, &mut target, LEASE, |_| ());
    target.start(LEASE, NOW);
    source.start(LEASE, NOW);
    loop {
        if let TransportEvent::Finished(outcome) = next(&mut source) {
            return outcome;
        }
    }
}

/// What both devices were told, by the fake's name for it.
fn told(fake: &Fake, what: &str) -> [i64; 2] {
    [0, 1].map(|device| fake.get(&format!("{what}_{device}")))
}

#[test]
fn two_ports_of_one_subnet_go_by_lid_alone() {
    let fake = fabric(&[]);
    for spec in [LATENCY, STREAM] {
        let outcome = probe(&fake, spec, 5);
        assert!(matches!(outcome, Outcome::Latency(..) | Outcome::Bandwidth(..)), "{outcome:?}");
        assert_eq!(told(&fake, "dlid"), [0x11, 0x10], "each other's LID");
        assert_eq!(told(&fake, "sl"), [5, 5]);
        assert_eq!(told(&fake, "is_global"), [0, 0]);
        assert_eq!(told(&fake, "path_bits"), [0, 0]);
    }
}

#[test]
fn ports_of_two_subnets_have_a_network_layer_that_may_cross_routers() {
    let fake = fabric(&[("subnets", 1)]);
    let outcome = probe(&fake, LATENCY, 0);
    assert!(matches!(outcome, Outcome::Latency(..)), "{outcome:?}");
    assert_eq!(told(&fake, "is_global"), [1, 1]);
    assert_eq!(told(&fake, "hop_limit"), [64, 64]);
    assert_eq!(told(&fake, "sl"), [0, 0]);
}

#[test]
fn the_default_partition_is_found_wherever_it_stands_in_the_table() {
    let tables: [([i64; 4], i64); 4] = [
        ([0x8001, 0, 0xffff, 0x7fff], 2),
        ([0x7fff, 0xffff, 0, 0], 1),
        ([0xffff, 0x8001, 0, 0], 0),
        // Not in the default partition: full members come before limited ones, and slots without a partition do not count.
        ([0, 0x8000, 0x0003, 0x8002], 3),
    ];
    for (table, index) in tables {
        let fake = fabric(&[]);
        (0..4).for_each(|slot| fake.set(&format!("pkey_{slot}"), table[slot]));
        let outcome = probe(&fake, LATENCY, 0);
        assert!(matches!(outcome, Outcome::Latency(..)), "{table:x?}: {outcome:?}");
        assert_eq!(told(&fake, "pkey_index"), [index, index], "{table:x?}");
    }
}

#[test]
fn two_limited_members_do_not_reach_each_other() {
    let fake = fabric(&[("pkey_0", 0x8001), ("pkey_1", 0x7fff)]);
    let outcome = probe(&fake, LATENCY, 0);
    let Outcome::Failed(failed) = outcome else { panic!("{outcome:?}") };
    assert_eq!((failed.cause, failed.step), (Cause::RetryExceeded, Step::FirstByte), "{failed}");
    assert_eq!(told(&fake, "pkey_index"), [1, 1], "the default partition, although it is no use here");
}

#[test]
fn a_port_without_a_partition_or_without_a_lid_is_told_by_name() {
    let prepared = |fake: &Fake| -> Failure {
        let mut verbs = Verbs::new(
            Arc::new(|_| Effects { retransmits: Some(7), ..Effects::default() }.into()),
            waker(),
            Some(fake.path()),
            Path::new("/nonexistent"),
        );
        verbs.prepare(&marked(Role::Source, LATENCY, 0), &end(Role::Source, false), NOW);
        failure(&mut verbs)
    };
    let failed = prepared(&fabric(&[("pkey_0", 0)]));
    assert_eq!((failed.cause, failed.step), (Cause::BadParameters, Step::Open));
    assert_eq!(failed.evidence, "a/fake_0/1 is in no partition: its P_Key table of 4 is empty");
    let failed = prepared(&fabric(&[("query_pkey", 5)]));
    assert_eq!(failed.step, Step::Open, "{failed}");
    assert!(failed.evidence.contains("ibv_query_pkey"), "{failed}");
}
