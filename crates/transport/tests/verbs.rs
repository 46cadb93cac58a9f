//! What is particular to verbs: which cause each failing step has, the GID by its address, and devices that are removed.

#[path = "../../sys/tests/fake/mod.rs"]
mod fake;
mod support;

use fake::Fake;
use rdmascope_model::{
    BandwidthSpec, Cause, Effects, EndpointInfo, Failure, LatencySpec, LeaseId, Outcome, ProbeSpec, Role,
    Step,
};
use rdmascope_probe::TransportEvent;
use rdmascope_transport::verbs::Verbs;
use rdmascope_transport::{PortReading, Transport};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::park_timeout;
use std::time::{Duration, Instant};
use support::{NOW, STREAM, connect, failure, next, offer, plan, roce, waker};

const LONG: Duration = Duration::from_secs(20);
const SPEC: ProbeSpec = ProbeSpec::Latency(LatencySpec { samples: 300, warmup: 10, message_bytes: 8 });
const LEASE: LeaseId = LeaseId(1);
/// Where the MTU code stands in an offer.
const MTU_AT: usize = 31;
const GID_AT: std::ops::Range<usize> = 5..21;

/// Two ends over one fake library, and the folder where its devices' nodes are.
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
        let nodes =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("nodes-{}-{serial}", std::process::id()));
        std::fs::create_dir_all(&nodes).expect("the target directory is writable");
        let lab = Self { fake, nodes };
        lab.add_node("uverbs0");
        lab.add_node("uverbs1");
        lab
    }

    fn add_node(&self, name: &str) {
        std::fs::write(self.nodes.join(name), "").expect("the folder is writable");
    }

    fn remove_node(&self, name: &str) {
        std::fs::remove_file(self.nodes.join(name)).expect("the node is there");
    }

    fn verbs(&self) -> Verbs {
        Verbs::new(
            Arc::new(|_| Effects { retransmits: Some(7), ..Effects::default() }.into()),
            waker(),
            Some(self.fake.path()),
            &self.nodes,
        )
    }

    /// A transport that was told to prepare.
    fn asked(&self, role: Role, spec: ProbeSpec, expires_in: Duration) -> Verbs {
        let mut verbs = self.verbs();
        verbs.prepare(&plan(role, LEASE.0, spec, expires_in), &roce(role), NOW);
        verbs
    }

    /// Both ends, connected and not started.
    fn connected(&self, spec: ProbeSpec, expires_in: Duration) -> (Verbs, Verbs) {
        let (mut source, mut target) =
            (self.asked(Role::Source, spec, expires_in), self.asked(Role::Target, spec, expires_in));
        connect(&mut source, &mut target, LEASE, |_| ());
        (source, target)
    }

    /// Why one end's attempt to connect fails.
    fn connect_failure(&self, tamper: impl Fn(&mut Vec<u8>)) -> Failure {
        let (mut source, mut target) =
            (self.asked(Role::Source, SPEC, LONG), self.asked(Role::Target, SPEC, LONG));
        offer(&mut source);
        let mut from_target = offer(&mut target);
        tamper(&mut from_target);
        source.connect(LEASE, &from_target, NOW);
        failure(&mut source)
    }

    fn wait(&self, what: &str, there: impl Fn(&Fake) -> bool) {
        let until = Instant::now() + LONG;
        while !there(&self.fake) {
            assert!(Instant::now() < until, "{what}");
            park_timeout(Duration::from_millis(1));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A folder left behind in the target directory harms nobody.
        drop(std::fs::remove_dir_all(&self.nodes));
    }
}

#[test]
fn each_step_of_setting_up_fails_with_its_own_cause() {
    let cases = [
        ("get_device_list", 38, Cause::VerbsMissing, Step::Open),
        ("open_device", 13, Cause::PermissionDenied, Step::Open),
        ("open_device", 19, Cause::DeviceGone, Step::Open),
        ("alloc_pd", 12, Cause::NoResources, Step::Open),
        ("query_port", 5, Cause::DeviceGone, Step::Open),
        ("port_down", 1, Cause::PortDown, Step::Open),
        ("no_gids", 1, Cause::NoUsableGid, Step::Open),
        ("create_comp_channel", 24, Cause::NoResources, Step::Init),
        ("create_cq", 12, Cause::NoResources, Step::Init),
        ("create_qp", 12, Cause::NoResources, Step::Init),
        ("modify_qp_init", 22, Cause::BadParameters, Step::Init),
    ];
    for (switch, value, cause, step) in cases {
        let lab = Lab::new();
        lab.fake.set(switch, value);
        let mut verbs = lab.asked(Role::Source, SPEC, LONG);
        let failed = failure(&mut verbs);
        assert_eq!((failed.cause, failed.step), (cause, step), "{switch}: {failed}");
        drop(verbs);
        lab.wait("everything is freed", |fake| fake.get("live") == 0);
        lab.fake.assert_nothing_left();
    }
}

#[test]
fn refused_memory_is_told_with_the_limit_where_there_is_one() {
    let lab = Lab::new();
    lab.fake.set("reg_mr", 12);
    let failed = failure(&mut lab.asked(Role::Source, SPEC, LONG));
    let unlimited = rustix::process::getrlimit(rustix::process::Resource::Memlock).current.is_none();
    let expected = if unlimited { Cause::NoResources } else { Cause::MemoryLock };
    assert_eq!((failed.cause, failed.step), (expected, Step::Open));
    assert!(failed.evidence.starts_with("fake_0: ibv_reg_mr: Cannot allocate memory (errno 12)"), "{failed}");
    assert_eq!(failed.evidence.contains("locked memory is limited to"), !unlimited, "{failed}");
}

#[test]
fn each_step_of_connecting_fails_with_its_own_cause() {
    let cases = [
        ("modify_qp_rtr", 113, Cause::NoRoute, Step::Rtr),
        ("modify_qp_rtr", 110, Cause::NoRoute, Step::Rtr),
        ("modify_qp_rtr", 22, Cause::BadParameters, Step::Rtr),
        ("modify_qp_rts", 22, Cause::BadParameters, Step::Rts),
        ("query_gid_table", 5, Cause::DeviceGone, Step::Rtr),
    ];
    for (switch, value, cause, step) in cases {
        let lab = Lab::new();
        let (mut source, mut target) =
            (lab.asked(Role::Source, SPEC, LONG), lab.asked(Role::Target, SPEC, LONG));
        offer(&mut source);
        let from_target = offer(&mut target);
        lab.fake.set(switch, value);
        source.connect(LEASE, &from_target, NOW);
        let failed = failure(&mut source);
        assert_eq!((failed.cause, failed.step), (cause, step), "{switch}: {failed}");
    }
}

#[test]
fn an_offer_that_cannot_work_is_refused_before_the_device_is_asked() {
    let lab = Lab::new();
    let other_family = lab.connect_failure(|offer| offer[GID_AT][..2].copy_from_slice(&[0x20, 0x01]));
    assert_eq!((other_family.cause, other_family.step), (Cause::AddressFamily, Step::Rtr));
    let small_buffer = lab.connect_failure(|offer| {
        let at = offer.len() - 1;
        offer[at] = 7;
    });
    assert_eq!((small_buffer.cause, small_buffer.step), (Cause::BadPeerData, Step::Exchange));
}

#[test]
fn the_gid_is_found_by_its_address_when_the_table_has_moved() {
    let lab = Lab::new();
    let (mut source, mut target) = (lab.asked(Role::Source, SPEC, LONG), lab.asked(Role::Target, SPEC, LONG));
    offer(&mut source);
    let from_target = offer(&mut target);
    lab.fake.set("gid_shift", 4);
    source.connect(LEASE, &from_target, NOW);
    assert_eq!(next(&mut source), TransportEvent::Connected);
    assert_eq!(lab.fake.get("sgid_index"), 7, "RoCE v2 of 10.8.0.1 was at 3");
}

#[test]
fn an_address_that_the_port_does_not_have_is_told_with_those_it_has() {
    let lab = Lab::new();
    let mut verbs = lab.verbs();
    let stranger = EndpointInfo { gid: Some("::ffff:192.0.2.1".parse().unwrap()), ..roce(Role::Source) };
    verbs.prepare(&plan(Role::Source, LEASE.0, SPEC, LONG), &stranger, NOW);
    let failed = failure(&mut verbs);
    assert_eq!(failed.cause, Cause::NoUsableGid);
    assert!(failed.evidence.contains("::ffff:10.8.0.1"), "{failed}");
    assert!(failed.evidence.contains("::ffff:192.0.2.1"), "{failed}");
}

#[test]
fn the_smaller_mtu_of_the_two_ends_is_used() {
    let lab = Lab::new();
    let (mut source, mut target) = (lab.asked(Role::Source, SPEC, LONG), lab.asked(Role::Target, SPEC, LONG));
    offer(&mut source);
    let mut from_target = offer(&mut target);
    assert_eq!(from_target[MTU_AT], 5, "4096 bytes");
    from_target[MTU_AT] = 3;
    source.connect(LEASE, &from_target, NOW);
    assert_eq!(next(&mut source), TransportEvent::Connected);
    assert_eq!(lab.fake.get("path_mtu"), 3);
}

#[test]
fn a_write_that_fails_is_told_by_its_completion_status() {
    let cases = [
        (12, Cause::RetryExceeded),
        (13, Cause::ReceiverNotReady),
        (10, Cause::RemoteAccess),
        (11, Cause::RemoteFault),
        (4, Cause::LocalFault),
    ];
    for spec in [SPEC, STREAM] {
        for (status, cause) in cases {
            let lab = Lab::new();
            let (mut source, _target) = lab.connected(spec, LONG);
            lab.fake.set("completion", status);
            source.start(LEASE, NOW);
            let failed = failure(&mut source);
            assert_eq!((failed.cause, failed.step), (cause, Step::FirstByte), "{failed}");
            assert!(failed.evidence.contains(&format!("status {status}")), "{failed}");
            assert!(failed.evidence.contains("vendor error 0x77"), "{failed}");
        }
    }
}

#[test]
fn a_wire_that_is_cut_is_told_before_the_lease_ends() {
    for spec in [SPEC, STREAM] {
        let lab = Lab::new();
        let (mut source, _target) = lab.connected(spec, Duration::from_secs(1));
        lab.fake.set("mute", 1);
        source.start(LEASE, NOW);
        let failed = failure(&mut source);
        assert_eq!((failed.cause, failed.step), (Cause::NoFirstByte, Step::FirstByte), "{failed}");
    }
}

#[test]
fn a_stream_whose_wire_is_cut_in_its_window_has_stalled_and_gives_no_figure() {
    let lab = Lab::new();
    let ProbeSpec::Bandwidth(stream) = STREAM else { unreachable!() };
    // The window's time is over long before silence counts as a failure.
    let spec = ProbeSpec::Bandwidth(BandwidthSpec { duration: Duration::from_millis(500), ..stream });
    let (mut source, _target) = lab.connected(spec, Duration::from_secs(4));
    lab.fake.set("mute_after", 100);
    source.start(LEASE, NOW);
    let failed = failure(&mut source);
    assert_eq!((failed.cause, failed.step), (Cause::Stalled, Step::Measure), "{failed}");
    assert!(failed.evidence.contains("after 100 acknowledged messages"), "{failed}");
}

#[test]
fn a_stream_of_few_messages_measures_the_second_half() {
    let lab = Lab::new();
    let ProbeSpec::Bandwidth(stream) = STREAM else { unreachable!() };
    for messages in [1_u64, 2, 3, 9] {
        let bytes_max = messages * u64::from(stream.message_bytes);
        let warmup = Duration::from_secs(5);
        let spec = ProbeSpec::Bandwidth(BandwidthSpec { warmup, bytes_max, ..stream });
        let (mut source, _target) = lab.connected(spec, LONG);
        source.start(LEASE, NOW);
        match next(&mut source) {
            TransportEvent::Finished(Outcome::Bandwidth(stats, _)) => {
                assert_eq!(u64::from(stats.completions), messages.div_ceil(2));
            }
            other => panic!("{messages} messages: {other:?}"),
        }
    }
}

#[test]
fn what_a_peer_may_reach_is_of_the_probes_size_zeroed_registered_anew_and_gone_with_the_probe() {
    // ibv_access_flags: what our device and the peer may write; reading (4), atomics (8) and binding (16) are not among them.
    const WRITES: i64 = 1 | 2;
    // Beside its messages a probe has room for signals of one byte each (`verbs/signals.rs`).
    const SIGNAL_BYTES: u64 = 64;
    let bytes = i64::try_from(SPEC.buffer_bytes() + SIGNAL_BYTES).expect("a small buffer");
    let lab = Lab::new();
    let seen = |what: &str| lab.fake.get(what);
    for probes in 1..=3 {
        let (mut source, mut target) = lab.connected(SPEC, LONG);
        assert_eq!(
            (seen("regions_made"), seen("regions_live")),
            (2 * probes, 2),
            "each end has one of its own"
        );
        assert_eq!((seen("region_bytes"), seen("region_zeroed"), seen("region_access")), (bytes, 1, WRITES));
        source.close(LEASE, NOW);
        target.close(LEASE, NOW);
        lab.wait("the memory is taken back while the transport lives on", |fake| {
            fake.get("regions_live") == 0
        });
    }
}

#[test]
fn without_the_library_every_probe_says_so() {
    let mut verbs = Verbs::new(
        Arc::new(|_| PortReading::default()),
        waker(),
        Some(Path::new("/nonexistent/lib.so")),
        Path::new("/none"),
    );
    verbs.prepare(&plan(Role::Source, LEASE.0, SPEC, LONG), &roce(Role::Source), NOW);
    let failed = failure(&mut verbs);
    assert_eq!((failed.cause, failed.step), (Cause::VerbsMissing, Step::Open));
    assert!(failed.evidence.contains("/nonexistent/lib.so cannot be loaded"), "{failed}");
}

#[test]
fn a_device_that_is_removed_is_let_go_whatever_its_probe_is_doing() {
    let lab = Lab::new();
    let open = |fake: &Fake| fake.get("contexts");
    // Idle: the probe is over, the device is still open.
    let (mut source, mut target) = lab.connected(SPEC, LONG);
    source.close(LEASE, NOW);
    target.close(LEASE, NOW);
    lab.wait("the probes are freed", |fake| fake.get("pairs") == 0);
    assert_eq!(open(&lab.fake), 2, "devices stay open between probes");
    lab.remove_node("uverbs0");
    lab.wait("an idle device is closed", |fake| open(fake) == 1);

    // Added again: the next probe opens it, and waits for its peer.
    lab.add_node("uverbs0");
    source.prepare(&plan(Role::Source, 2, SPEC, LONG), &roce(Role::Source), NOW);
    target.prepare(&plan(Role::Target, 2, SPEC, LONG), &roce(Role::Target), NOW);
    offer(&mut source);
    let from_target = offer(&mut target);
    assert_eq!(open(&lab.fake), 2);
    lab.remove_node("uverbs0");
    lab.wait("a device with a prepared probe is closed", |fake| open(fake) == 1);
    source.connect(LeaseId(2), &from_target, NOW);
    let failed = failure(&mut source);
    assert_eq!((failed.cause, failed.step), (Cause::DeviceGone, Step::Rtr), "{failed}");

    // In the middle of a measurement.
    lab.add_node("uverbs0");
    drop((source, target));
    let (mut source, mut target) = lab.connected(STREAM, LONG);
    target.start(LEASE, NOW);
    source.start(LEASE, NOW);
    lab.remove_node("uverbs0");
    let failed = failure(&mut source);
    assert_eq!((failed.cause, failed.step), (Cause::DeviceGone, Step::Measure), "{failed}");
    lab.wait("a measuring device is closed", |fake| open(fake) == 1);
    drop((source, target));
    lab.wait("everything is freed", |fake| fake.get("live") == 0);
    lab.fake.assert_nothing_left();
}
