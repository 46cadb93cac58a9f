//! Every step of a probe, made to fail: each ends in a typed cause with its step, its witness, the verb or status that failed
//! with errno and vendor code, and something to do next.

#[path = "../../sys/tests/fake/mod.rs"]
mod fake;
mod support;

use fake::Fake;
use rdmascope_model::{
    Cause, Effects, EndpointInfo, Failure, LatencySpec, LeaseId, Outcome, ProbeSpec, Role, Step,
};
use rdmascope_probe::TransportEvent;
use rdmascope_transport::Transport;
use rdmascope_transport::verbs::Verbs;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::park_timeout;
use std::time::{Duration, Instant};
use support::{NOW, STREAM, connect, failure, next, offer, plan, roce, waker};

/// Far more than any of these needs, so that silence counts as a failure after 3 s at the latest.
const LONG: Duration = Duration::from_secs(20);
/// A lease that ends soon: half a second of silence is enough.
const SHORT: Duration = Duration::from_secs(1);
const LEASE: LeaseId = LeaseId(1);
const PINGS: ProbeSpec = ProbeSpec::Latency(LatencySpec { samples: 300, warmup: 10, message_bytes: 8 });
const ROLES: [Role; 2] = [Role::Source, Role::Target];
/// Places in an offer.
const GID_AT: usize = 5;
const MTU_AT: usize = 31;
/// The code of 1024 bytes.
const MTU_1024: u8 = 3;
/// Enough messages to be in the middle of a probe.
const MIDDLE: i64 = 40;

/// Two ends over one fake library: `a/fake_0/1` measures to `b/fake_1/1`.
struct Lab {
    fake: Fake,
    nodes: PathBuf,
}

impl Lab {
    fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let fake = Fake::new();
        fake.set("devices", 2);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("causes-{}-{serial}", std::process::id());
        let nodes = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&nodes).expect("the target directory is writable");
        for node in ["uverbs0", "uverbs1"] {
            std::fs::write(nodes.join(node), "").expect("the folder is writable");
        }
        Self { fake, nodes }
    }

    /// Does something with these switches set.
    fn having<T>(&self, switches: &[(&str, i64)], act: impl FnOnce() -> T) -> T {
        self.set(switches);
        let made = act();
        switches.iter().for_each(|(name, _)| self.fake.set(name, 0));
        made
    }

    fn set(&self, switches: &[(&str, i64)]) {
        switches.iter().for_each(|(name, value)| self.fake.set(name, *value));
    }

    fn verbs(&self) -> Verbs {
        Verbs::new(
            Arc::new(|_| Effects { retransmits: Some(7), ..Effects::default() }.into()),
            waker(),
            Some(self.fake.path()),
            &self.nodes,
        )
    }

    fn asked(&self, role: Role, spec: ProbeSpec, expires_in: Duration) -> Verbs {
        self.asked_as(&roce(role), role, spec, expires_in)
    }

    fn asked_as(&self, end: &EndpointInfo, role: Role, spec: ProbeSpec, expires_in: Duration) -> Verbs {
        let mut verbs = self.verbs();
        verbs.prepare(&plan(role, LEASE.0, spec, expires_in), end, NOW);
        verbs
    }

    /// Both ends, connected with what `tamper` makes of the target's offer, and not started.
    fn connected(
        &self,
        spec: ProbeSpec,
        expires_in: Duration,
        tamper: impl Fn(&mut Vec<u8>),
    ) -> (Verbs, Verbs) {
        let mut source = self.asked(Role::Source, spec, expires_in);
        let mut target = self.asked(Role::Target, spec, expires_in);
        connect(&mut source, &mut target, LEASE, tamper);
        (source, target)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A folder left behind in the target directory harms nobody.
        drop(std::fs::remove_dir_all(&self.nodes));
    }
}

/// What a failure must say; `words` stand in the evidence.
#[track_caller]
fn says(failed: &Failure, role: Role, cause: Cause, step: Step, words: &[&str]) {
    assert_eq!((failed.cause, failed.step, failed.side), (cause, step, role.side()), "{failed}");
    for word in words {
        assert!(failed.evidence.contains(word), "no '{word}': {failed}");
    }
    assert!(failed.cause.next_step().len() > 20, "{failed}: nothing to do");
}

/// Device missing, permission, port, address, resources, INIT: at both ends, each in the words of its own device.
#[test]
fn what_fails_while_one_end_prepares() {
    let cases: [(&str, i64, Cause, Step, &str); 9] = [
        (
            "get_device_list",
            38,
            Cause::VerbsMissing,
            Step::Open,
            "ibv_get_device_list: Function not implemented (errno 38)",
        ),
        (
            "open_device",
            13,
            Cause::PermissionDenied,
            Step::Open,
            "ibv_open_device: Permission denied (errno 13)",
        ),
        ("open_device", 19, Cause::DeviceGone, Step::Open, "ibv_open_device: No such device (errno 19)"),
        ("port_down", 1, Cause::PortDown, Step::Open, "port state Down, physical state"),
        ("no_gids", 1, Cause::NoUsableGid, Step::Open, "has no RoCE v2 GID ::ffff:10.8.0."),
        ("alloc_pd", 12, Cause::NoResources, Step::Open, "ibv_alloc_pd: Cannot allocate memory (errno 12)"),
        ("create_cq", 12, Cause::NoResources, Step::Init, "ibv_create_cq: Cannot allocate memory (errno 12)"),
        ("create_qp", 12, Cause::NoResources, Step::Init, "ibv_create_qp: Cannot allocate memory (errno 12)"),
        (
            "modify_qp_init",
            22,
            Cause::BadParameters,
            Step::Init,
            "ibv_modify_qp(INIT): Invalid argument (errno 22)",
        ),
    ];
    let lab = Lab::new();
    for (switch, value, cause, step, words) in cases {
        for role in ROLES {
            let failed = lab.having(&[(switch, value)], || failure(&mut lab.asked(role, PINGS, LONG)));
            says(&failed, role, cause, step, &[words]);
        }
    }
    let missing = EndpointInfo { name: "a/fake_7/1".parse().expect("a name"), ..roce(Role::Source) };
    let failed = failure(&mut lab.asked_as(&missing, Role::Source, PINGS, LONG));
    says(&failed, Role::Source, Cause::DeviceGone, Step::Open, &["there is no RDMA device fake_7"]);
}

/// Pitfall 21: "Couldn't allocate MR" names the limit and how to raise it.
#[test]
fn locked_memory_that_is_limited_is_told_with_the_limit() {
    let hard = getrlimit(Resource::Memlock).maximum;
    setrlimit(Resource::Memlock, Rlimit { current: Some(65_536), maximum: hard })
        .expect("a limit may be lowered");
    let lab = Lab::new();
    lab.set(&[("reg_mr", 12)]);
    for role in ROLES {
        let failed = failure(&mut lab.asked(role, PINGS, LONG));
        let words =
            ["ibv_reg_mr: Cannot allocate memory (errno 12)", "locked memory is limited to 65536 bytes"];
        says(&failed, role, Cause::MemoryLock, Step::Open, &words);
        assert!(failed.cause.next_step().contains("LimitMEMLOCK"), "{failed}");
    }
}

/// Pitfall 1: a port with link-local and RoCE v1 entries only is refused before anything is sent, in the words of its table.
#[test]
fn a_port_without_a_routed_gid_is_refused_before_anything_is_sent() {
    let lab = Lab::new();
    // What is left are fe80::1 in both versions and 10.8.0.1 for RoCE v1.
    lab.set(&[("gids", 3)]);
    let failed = failure(&mut lab.asked(Role::Source, PINGS, LONG));
    let words = ["a/fake_0/1 has no RoCE v2 GID ::ffff:10.8.0.1", "it has: fe80::1"];
    says(&failed, Role::Source, Cause::NoUsableGid, Step::Open, &words);
    assert!(failed.evidence.ends_with("it has: fe80::1"), "{failed}");
    assert_eq!(lab.fake.get("pairs"), 0);
}

/// Addresses, RTR (the peer's address is resolved there) and RTS.
#[test]
fn what_fails_while_one_end_connects() {
    let cases: [(&str, i64, Cause, Step, &str); 6] = [
        (
            "modify_qp_rtr",
            110,
            Cause::NoRoute,
            Step::Rtr,
            "ibv_modify_qp(RTR): Connection timed out (errno 110)",
        ),
        ("modify_qp_rtr", 113, Cause::NoRoute, Step::Rtr, "ibv_modify_qp(RTR): No route to host (errno 113)"),
        (
            "modify_qp_rtr",
            22,
            Cause::BadParameters,
            Step::Rtr,
            "ibv_modify_qp(RTR): Invalid argument (errno 22)",
        ),
        (
            "modify_qp_rts",
            22,
            Cause::BadParameters,
            Step::Rts,
            "ibv_modify_qp(RTS): Invalid argument (errno 22)",
        ),
        (
            "query_gid_table",
            5,
            Cause::DeviceGone,
            Step::Rtr,
            "ibv_query_gid_table: Input/output error (errno 5)",
        ),
        ("no_gids", 1, Cause::NoUsableGid, Step::Rtr, "has no RoCE v2 GID ::ffff:10.8.0."),
    ];
    let lab = Lab::new();
    for (switch, value, cause, step, words) in cases {
        for role in ROLES {
            let mut verbs = lab.asked(role, PINGS, LONG);
            let mut other = lab.asked(other(role), PINGS, LONG);
            offer(&mut verbs);
            let theirs = offer(&mut other);
            let failed = lab.having(&[(switch, value)], || {
                verbs.connect(LEASE, &theirs, NOW);
                failure(&mut verbs)
            });
            says(&failed, role, cause, step, &[words]);
        }
    }
}

fn other(role: Role) -> Role {
    if role == Role::Source { Role::Target } else { Role::Source }
}

/// Offers that cannot work are refused before the device is asked: pitfall 5 (families) and what another version sent.
#[test]
fn what_the_peer_offers_and_cannot_work() {
    let lab = Lab::new();
    let failed = |tamper: &dyn Fn(&mut Vec<u8>)| {
        let mut source = lab.asked(Role::Source, PINGS, LONG);
        let mut target = lab.asked(Role::Target, PINGS, LONG);
        offer(&mut source);
        let mut from_target = offer(&mut target);
        tamper(&mut from_target);
        source.connect(LEASE, &from_target, NOW);
        failure(&mut source)
    };
    let native = failed(&|offer| offer[GID_AT..GID_AT + 2].copy_from_slice(&[0x20, 0x01]));
    let words = ["own address 10.8.0.1", "peer's 2001:"];
    says(&native, Role::Source, Cause::AddressFamily, Step::Rtr, &words);
    let newer = failed(&|offer| offer[3] = b'9');
    says(&newer, Role::Source, Cause::BadPeerData, Step::Exchange, &["another transport", "version"]);
    let cut = failed(&|offer| offer.truncate(9));
    says(&cut, Role::Source, Cause::BadPeerData, Step::Exchange, &["of 9 bytes", "wrong length"]);
}

/// Pitfalls 2 and 3: an address is looked up each time, so neither other indices on the peer nor a table that moves between
/// preparing and connecting hurt a probe.
#[test]
fn a_gid_that_stands_or_moves_elsewhere_does_not_hurt() {
    let lab = Lab::new();
    for (before, between) in [(0, 0), (0, 4), (2, 9), (4, 0)] {
        lab.set(&[("gid_shift", before)]);
        let mut source = lab.asked(Role::Source, PINGS, LONG);
        let from_source = offer(&mut source);
        // The other node's table has other indices all along.
        lab.set(&[("gid_shift", before + 3)]);
        let mut target = lab.asked(Role::Target, PINGS, LONG);
        let from_target = offer(&mut target);
        target.connect(LEASE, &from_source, NOW);
        assert_eq!(next(&mut target), TransportEvent::Connected);
        assert_eq!(lab.fake.get("sgid_index"), 3 + before + 3, "the target's RoCE v2 entry of 10.8.0.2");
        lab.set(&[("gid_shift", between)]);
        source.connect(LEASE, &from_target, NOW);
        assert_eq!(next(&mut source), TransportEvent::Connected);
        assert_eq!(
            lab.fake.get("sgid_index"),
            3 + between,
            "the source's RoCE v2 entry of 10.8.0.1 as it is now"
        );
        target.start(LEASE, NOW);
        source.start(LEASE, NOW);
        match next(&mut source) {
            TransportEvent::Finished(Outcome::Latency(stats, _)) => assert_eq!(stats.count, 300),
            other => panic!("moved from {before} to {between}: {other:?}"),
        }
    }
}

const STATUSES: [(i64, Cause, &str); 10] = [
    (12, Cause::RetryExceeded, "IBV_WC_RETRY_EXC_ERR, status 12"),
    (20, Cause::RetryExceeded, "IBV_WC_RESP_TIMEOUT_ERR, status 20"),
    (13, Cause::ReceiverNotReady, "IBV_WC_RNR_RETRY_EXC_ERR, status 13"),
    (10, Cause::RemoteAccess, "IBV_WC_REM_ACCESS_ERR, status 10"),
    (9, Cause::RemoteFault, "IBV_WC_REM_INV_REQ_ERR, status 9"),
    (11, Cause::RemoteFault, "IBV_WC_REM_OP_ERR, status 11"),
    (7, Cause::RemoteFault, "IBV_WC_BAD_RESP_ERR, status 7"),
    (4, Cause::LocalFault, "IBV_WC_LOC_PROT_ERR, status 4"),
    (19, Cause::LocalFault, "IBV_WC_FATAL_ERR, status 19"),
    (77, Cause::LocalFault, "status 77"),
];

/// Each completion status by its name and number, with the vendor's code: pitfall 1's `status 12 / vendor 129`.
#[test]
fn each_status_at_the_first_message() {
    let lab = Lab::new();
    for spec in [PINGS, STREAM] {
        for (status, cause, name) in STATUSES {
            let (mut source, _target) = lab.connected(spec, LONG, |_| ());
            let failed = lab.having(&[("completion", status), ("vendor_error", 0x81)], || {
                source.start(LEASE, NOW);
                failure(&mut source)
            });
            says(&failed, Role::Source, cause, Step::FirstByte, &[name, "vendor error 0x81", "after 0"]);
        }
    }
}

/// Pitfall 15: the same status in the middle is another cause, because another thing has to be looked for.
#[test]
fn each_status_in_the_middle() {
    let lab = Lab::new();
    lab.set(&[("completion_after", MIDDLE), ("vendor_error", 0x81)]);
    for spec in [PINGS, STREAM] {
        for (status, at_first, name) in STATUSES {
            let mut ends = <[Verbs; 2]>::from(lab.connected(spec, LONG, |_| ()));
            lab.set(&[("written", 0)]);
            let failed = lab.having(&[("completion", status)], || {
                ends.iter_mut().rev().for_each(|end| end.start(LEASE, NOW));
                first_failure(&mut ends)
            });
            let cause = if at_first == Cause::RetryExceeded { Cause::PathLost } else { at_first };
            says(&failed, role_of(&failed), cause, Step::Measure, &[name, "vendor error 0x81", "after "]);
            assert!(!failed.evidence.contains("after 0"), "{failed}");
        }
    }
}

fn role_of(failed: &Failure) -> Role {
    ROLES.into_iter().find(|role| role.side() == failed.side).expect("an end saw it")
}

/// In a ping-pong both ends write: whoever writes first after the fault sees it, and the other one hears nothing more.
fn first_failure(ends: &mut [Verbs; 2]) -> Failure {
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        for end in ends.iter_mut() {
            match end.poll(NOW) {
                Some((_, TransportEvent::Finished(Outcome::Failed(failure)))) => return failure,
                Some((_, TransportEvent::Effects(_))) | None => {}
                Some((_, other)) => panic!("no failure: {other:?}"),
            }
        }
        park_timeout(Duration::from_millis(1));
    }
    panic!("neither end told anything for {LONG:?}")
}

/// Pitfall 9 for connections: full packets are not acknowledged, and the ends' MTUs differ.
#[test]
fn full_packets_that_are_lost_between_different_mtus_are_the_mtus_fault() {
    let lab = Lab::new();
    let (mut source, _target) = lab.connected(STREAM, LONG, |offer| offer[MTU_AT] = MTU_1024);
    lab.set(&[("completion", 12)]);
    source.start(LEASE, NOW);
    let failed = failure(&mut source);
    let words = ["IBV_WC_RETRY_EXC_ERR, status 12", "own MTU 4096, peer's 1024"];
    says(&failed, Role::Source, Cause::MtuMismatch, Step::FirstByte, &words);
}

/// Time-outs: nothing came at all, or nothing more; and a peer whose queue pair is gone.
#[test]
fn silence_and_a_peer_that_is_gone() {
    let lab = Lab::new();
    for spec in [PINGS, STREAM] {
        let (mut source, _target) = lab.connected(spec, SHORT, |_| ());
        let failed = lab.having(&[("mute", 1)], || {
            source.start(LEASE, NOW);
            failure(&mut source)
        });
        says(&failed, Role::Source, Cause::NoFirstByte, Step::FirstByte, &["nothing from the peer for"]);

        let (mut source, mut target) = lab.connected(spec, SHORT, |_| ());
        lab.set(&[("written", 0)]);
        let failed = lab.having(&[("mute_after", MIDDLE)], || {
            target.start(LEASE, NOW);
            source.start(LEASE, NOW);
            failure(&mut source)
        });
        says(&failed, Role::Source, Cause::Stalled, Step::Measure, &["nothing from the peer for", "after "]);

        let (mut source, target) = lab.connected(spec, LONG, |_| ());
        drop(target);
        source.start(LEASE, NOW);
        let words = ["IBV_WC_RETRY_EXC_ERR, status 12", "vendor error 0x77"];
        says(&failure(&mut source), Role::Source, Cause::RetryExceeded, Step::FirstByte, &words);
    }
}

/// The own device fails in the middle of everything.
#[test]
fn a_device_that_fails_while_it_measures() {
    let cases: [(&str, i64, Cause, &str); 3] = [
        ("post_send", 5, Cause::DeviceGone, "ibv_post_send: Input/output error (errno 5)"),
        ("post_send", 22, Cause::LocalFault, "ibv_post_send: Invalid argument (errno 22)"),
        ("poll_cq", 5, Cause::DeviceGone, "ibv_poll_cq: Input/output error (errno 5)"),
    ];
    let lab = Lab::new();
    for spec in [PINGS, STREAM] {
        for (switch, value, cause, words) in cases {
            let (mut source, _target) = lab.connected(spec, LONG, |_| ());
            let failed = lab.having(&[(switch, value)], || {
                source.start(LEASE, NOW);
                failure(&mut source)
            });
            says(&failed, Role::Source, cause, Step::FirstByte, &[words]);
        }
    }
}
