//! The mesh over devices that stamp datagrams, that do not, and whose clocks lie: whose stamps its figures are made of.

#[path = "../../sys/tests/fake/mod.rs"]
mod fake;
#[path = "support/lab.rs"]
mod lab;
#[path = "support/said.rs"]
mod said;
mod support;

use fake::Fake;
use lab::{Lab, info};
use rdmascope_model::{EndpointInfo, Fabric, LeaseId, Outcome, PingSpec, PingStats, StampClock};
use rdmascope_probe::mesh::{MeshCommand, MeshEvent};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// The devices' clocks: 48 bits, two nanoseconds a step.
const MASK: i64 = (1 << 48) - 1;
const KILOHERTZ: i64 = 500_000;
/// What each message takes by the devices' clocks, and what a ping and its answer take together.
const WIRE_STEPS: i64 = 500;
const ROUND_TRIP_NS: u64 = 2_000;

/// Two endpoints that ping each other on devices with these settings beside the usual ones.
fn lab(settings: &[(&str, i64)]) -> Lab {
    let fake = Fake::new();
    let usual = [
        ("devices", 2),
        ("stamps", 1),
        ("stamp_mask", MASK),
        ("stamp_khz", KILOHERTZ),
        ("stamp_wire", WIRE_STEPS),
    ];
    usual.iter().chain(settings).for_each(|(name, value)| fake.set(name, *value));
    let mut lab = Lab::with(fake);
    lab.open();
    lab.grant(60);
    lab
}

/// The next batch of a node for which that holds.
fn batch(lab: &mut Lab, node: &str, wanted: impl Fn(&PingStats) -> bool) -> PingStats {
    lab.wait("such a batch", |lab| {
        let stats = lab.events.iter().find_map(|event| match event {
            MeshEvent::Pings(local, _, stats) if local.node == node && wanted(stats) => {
                Some((**stats).clone())
            }
            _ => None,
        });
        if stats.is_some() {
            lab.events.clear();
        }
        stats
    })
}

/// All answered, and every figure of the network is what the devices' clocks say.
#[track_caller]
fn assert_by_devices(stats: &PingStats) {
    assert_eq!((stats.clock, stats.invalid_stamps), (StampClock::Hardware, 0), "{stats:?}");
    for (counts, network) in [(stats.small, stats.network), (stats.large, stats.network_large)] {
        let seen = network.map(|network| (network.count, network.min_ns, network.max_ns));
        assert_eq!(seen, Some((counts.answered, ROUND_TRIP_NS, ROUND_TRIP_NS)), "{stats:?}");
    }
}

#[test]
fn devices_that_stamp_are_tested_first_and_then_make_the_figures_also_when_their_clock_wraps() {
    // The clock of the first device, which the fake begins 77 s before the machine's, goes on with 0 six seconds from now.
    let now = clock_gettime(ClockId::Monotonic);
    let steps = (now.tv_sec + 77 + 6) * KILOHERTZ * 1000 + now.tv_nsec * KILOHERTZ / 1_000_000;
    let mut lab = lab(&[("stamp", MASK + 1 - steps)]);
    let wraps = Instant::now() + Duration::from_secs(6);
    assert_eq!(batch(&mut lab, "a", |_| true).clock, StampClock::Software, "not believed untested");
    let (mut before, mut after) = (0, 0);
    while after < 3 {
        let stats = batch(&mut lab, "a", |stats| stats.clock == StampClock::Hardware);
        assert_by_devices(&stats);
        let count = if Instant::now() < wraps { &mut before } else { &mut after };
        *count += 1;
    }
    assert!(before > 0, "the test was over before the clock wrapped");
    assert_by_devices(&batch(&mut lab, "b", |stats| stats.clock == StampClock::Hardware));
    assert_eq!(lab.fake.get("polls_open"), 0);
}

#[test]
fn nanoseconds_of_the_provider_and_infiniband_by_lid_work_as_well() {
    let mut nanoseconds = lab(&[("stamps", 2), ("stamp_khz", 1_000_000), ("stamp_wire", 1_000)]);
    assert_by_devices(&batch(&mut nanoseconds, "a", |stats| stats.clock == StampClock::Hardware));
    let fake = Fake::new();
    [("devices", 2), ("infiniband", 1), ("stamps", 2)].iter().for_each(|(name, on)| fake.set(name, *on));
    let mut lab = Lab::with(fake);
    let ends = [0, 1].map(|device| {
        let gid = Some(format!("fe80::200:0:0:{}", device + 1).parse().expect("a GID"));
        EndpointInfo { fabric: Fabric::InfiniBand, gid, ..info(device) }
    });
    lab.mesh.command(MeshCommand::Endpoints(ends.into()));
    lab.wait("both are open", |lab| (lab.addresses.len() == 2).then_some(()));
    lab.hand_out_book();
    lab.grant(60);
    let stats = lab.batch("b");
    assert_eq!((stats.small.answered, stats.large.answered), (20, 10));
}

#[test]
fn devices_that_do_not_stamp_or_whose_queues_with_stamps_fail_are_timed_by_the_program() {
    for without in [("stampless", 0b11), ("stamp_khz", 0), ("create_cq_ex", 24)] {
        let mut lab = lab(&[without]);
        for node in ["a", "b"] {
            let stats = batch(&mut lab, node, |_| true);
            let seen = (stats.clock, stats.invalid_stamps, stats.small.answered);
            assert_eq!(seen, (StampClock::Software, 0, 20), "{without:?}: {stats:?}");
        }
    }
}

#[test]
fn a_clock_that_lies_is_not_used_and_that_is_said_once_with_its_reason() {
    let heard = said::listen();
    let lies: [(&[(&str, i64)], &str); 4] = [
        (&[("stamp_stuck", 1)], "the driver leaves the device's stamps 0"),
        (&[("stamp_stuck", 4712)], "the device's clock ran 0.000 s while the machine's ran"),
        // 3 % too fast.
        (&[("stamp_runs_khz", KILOHERTZ * 103 / 100)], "the device's clock ran "),
        (&[("stamp_mask", 0b101)], "the device does not tell the rate of its clock"),
    ];
    let mut labs = lies.map(|(settings, _)| lab(settings));
    let until = Instant::now() + Duration::from_secs(6);
    for lab in &mut labs {
        for node in ["a", "b"] {
            // Long after the test of the clock, too.
            let mut late = false;
            while !late {
                late = Instant::now() > until;
                let stats = batch(lab, node, |_| true);
                assert_eq!((stats.clock, stats.invalid_stamps), (StampClock::Software, 0), "{stats:?}");
            }
        }
    }
    for endpoint in ["a/fake_0/1", "b/fake_1/1"] {
        for (_, reason) in &lies {
            let lines = heard();
            let of_this = |line: &&String| {
                let other =
                    lies.iter().any(|(_, longer)| longer.len() > reason.len() && line.contains(longer));
                line.contains(endpoint) && line.contains(reason) && !other
            };
            assert_eq!(lines.iter().filter(of_this).count(), 1, "{endpoint}, {reason}: {lines:?}");
        }
    }
}

#[test]
fn a_device_that_stamps_and_a_peer_that_does_not_go_by_both_programs_clocks() {
    let mut lab = lab(&[("stampless", 0b10)]);
    // Once its clock is trusted, each batch begins with it, until the peer's first answers tell that it has none.
    let stats = batch(&mut lab, "a", |stats| stats.invalid_stamps > 0);
    assert_eq!(stats.clock, StampClock::Software, "{stats:?}");
    assert!(stats.invalid_stamps <= 8, "{stats:?}");
    let timed = |stats: &PingStats| {
        let [small, large] =
            [stats.network, stats.network_large].map(|n| n.map_or(0, |network| network.count));
        small + large + stats.host_delayed + stats.invalid_stamps
    };
    assert!(stats.network.is_some() && timed(&stats) >= 30, "{stats:?}");
    // Asked for the program's, the device's end answers by that.
    for _ in 0..3 {
        let stats = batch(&mut lab, "b", |_| true);
        assert_eq!((stats.clock, stats.invalid_stamps), (StampClock::Software, 0), "{stats:?}");
        assert!(timed(&stats) >= 30, "{stats:?}");
    }
}

#[test]
fn second_acknowledgements_leave_soon_after_late_completions_of_the_first_ones() {
    let mut lab = lab(&[("late_sends_us", 3_000)]);
    assert_by_devices(&batch(&mut lab, "b", |stats| stats.clock == StampClock::Hardware));
    batch(&mut lab, "a", |stats| stats.clock == StampClock::Hardware);
    // Nothing but the lease wakes the responder up now.
    lab.mesh.command(MeshCommand::Grant(None));
    let ends = lab.lease(PingSpec { count: 4, labels: 1, interval: Duration::from_millis(150) });
    let Outcome::Pings(stats) = &ends[&LeaseId(1)] else { panic!("{ends:?}") };
    assert_eq!((stats.small.answered, stats.large.answered), (4, 4), "{stats:?}");
    assert_by_devices(stats);
}
