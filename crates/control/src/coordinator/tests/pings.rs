//! What agents tell of their pings, and what the matrix makes of it.

use super::mesh::pinged;
use super::*;
use rdmascope_link::{NumberedHeard, NumberedReport, PingReport};
use rdmascope_localise::{CellState, Measured};
use rdmascope_model::{Delays, Heard, PackedPings, PingCounts, PingFigures, PingStats, StampClock};

const HEARD_NONE: &str = "the peer heard none";

fn stats(batch: u32, answered: bool) -> PingStats {
    let counts = |payload_bytes, sent: u32| PingCounts {
        payload_bytes,
        sent,
        answered: if answered { sent } else { 0 },
        lost_forward: answered.then_some(0),
        lost_backward: answered.then_some(0),
        ..PingCounts::default()
    };
    let usual = Delays { count: 40, min_ns: 1_000, p50_ns: 3_000, p99_ns: None, max_ns: 9_000 };
    let usual = answered.then_some(usual);
    PingStats {
        batch,
        clock: StampClock::Software,
        small: counts(64, 40),
        large: counts(4_096, 20),
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

fn report(bench: &Bench, source: &str, target: &str, stats: PingStats) -> PingReport {
    let name = |node: &str| format!("{node}/d/1").parse().unwrap();
    PingReport { local: name(source), peer: name(target), measured_at: bench.now.wall, stats }
}

fn heard(source: &str, target: &str, batch: u32, (small, large): (u32, u32)) -> Heard {
    let name = |node: &str| format!("{node}/d/1").parse().unwrap();
    Heard { local: name(target), peer: name(source), batch, small, large }
}

fn tell(bench: &mut Bench, connection: u64, reports: Vec<PingReport>, heard: Vec<Heard>) {
    bench.frame(connection, ToCoordinator::Pings { reports, heard });
}

fn ready() -> Bench {
    let mut bench = pinged(quiet(), 2);
    bench.take();
    bench
}

/// So many seconds in which both agents live.
fn live(bench: &mut Bench, seconds: u64) {
    for _ in 0..seconds {
        bench.pass(Duration::from_secs(1));
        tell(bench, 0, Vec::new(), Vec::new());
        tell(bench, 1, Vec::new(), Vec::new());
    }
}

#[track_caller]
fn evidence(bench: &Bench) -> String {
    match bench.cell(Metric::Ping, "n0", "n1") {
        Cell::Failed { failure, .. } => failure.evidence,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pings_that_are_answered_are_a_cell_of_their_direction() {
    let mut bench = ready();
    let reported = report(&bench, "n0", "n1", stats(1, true));
    tell(&mut bench, 0, vec![reported], Vec::new());
    let Cell::Known { at, measured: Measured::Ping(figures) } = bench.cell(Metric::Ping, "n0", "n1") else {
        panic!("{:?}", bench.cell(Metric::Ping, "n0", "n1"));
    };
    assert_eq!((at, figures.network.unwrap().p50_ns), (bench.now.wall, 3_000));
    assert_eq!(bench.cell(Metric::Ping, "n1", "n0"), Cell::Never);
    assert_eq!(bench.probed, [Probed::Pings(1)]);
}

/// An operator's sweep of pings over the only pair: one lease for both directions, of which the source tells this.
fn swept(told: PingStats) -> Bench {
    let mut bench = ready();
    bench.sweep(&[Metric::Ping]).unwrap();
    for (connection, plan) in bench.take_leases() {
        let told = Outcome::Pings(Box::new(told.clone()));
        bench.report(connection, &plan, if plan.role == Role::Source { told } else { Outcome::Served });
    }
    bench
}

#[test]
fn a_sweep_of_pings_fills_both_directions_each_with_its_own_losses() {
    let lossy = |c: PingCounts| PingCounts { answered: c.sent - 5, lost_forward: Some(5), ..c };
    let fine = stats(1, true);
    let slow = Delays { p50_ns: 7_000, ..fine.responder.unwrap() };
    let told =
        PingStats { small: lossy(fine.small), large: lossy(fine.large), responder: Some(slow), ..fine };
    let bench = swept(told);
    let seen = [("n0", "n1"), ("n1", "n0")].map(|(from, to)| match bench.cell(Metric::Ping, from, to) {
        Cell::Known { measured: Measured::Ping(f), .. } => {
            (f.small.lost_forward, f.large.lost_backward, f.responder.unwrap().p50_ns)
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(seen, [(Some(5), Some(0), 7_000), (Some(0), Some(5), 3_000)]);
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((&sweep.metrics[..], sweep.total, sweep.done, sweep.failed), (&[Metric::Ping][..], 1, 1, 0));
    assert_eq!(bench.probed, [Probed::Pings(1), Probed::Pings(1)]);
}

#[test]
fn a_sweep_whose_pings_nobody_answers_failed() {
    let bench = swept(stats(1, false));
    for (from, to) in [("n0", "n1"), ("n1", "n0")] {
        assert_eq!(bench.cause(Metric::Ping, from, to), Cause::NoFirstByte);
    }
    assert_eq!(bench.c.sweep().unwrap().failed, 1);
}

#[test]
fn silence_is_a_failure_that_the_responder_explains_later() {
    let mut bench = ready();
    let silent = report(&bench, "n0", "n1", stats(7, false));
    tell(&mut bench, 0, vec![silent], Vec::new());
    assert_eq!(bench.cause(Metric::Ping, "n0", "n1"), Cause::NoFirstByte);
    assert_eq!(bench.probed, [Probed::Failed(Metric::Ping, Cause::NoFirstByte)]);
    assert!(evidence(&bench).contains("not known"), "{}", evidence(&bench));
    tell(&mut bench, 1, Vec::new(), vec![heard("n0", "n1", 6, (40, 20))]);
    assert!(evidence(&bench).contains("not known"), "that was another batch");
    bench.pass(Duration::from_secs(4));
    tell(&mut bench, 1, Vec::new(), vec![heard("n0", "n1", 7, (0, 0))]);
    assert!(evidence(&bench).contains(HEARD_NONE), "{}", evidence(&bench));
    tell(&mut bench, 1, Vec::new(), vec![heard("n0", "n1", 7, (40, 20))]);
    assert!(evidence(&bench).contains(HEARD_NONE), "told once");
}

#[test]
fn the_responder_may_tell_first_but_not_long_before() {
    let mut bench = ready();
    for (waits, known) in [(0, true), (19, true), (60, false)] {
        let batch = 100 + waits;
        tell(&mut bench, 1, Vec::new(), vec![heard("n0", "n1", batch, (40, 20))]);
        live(&mut bench, waits.into());
        let silent = report(&bench, "n0", "n1", stats(batch, false));
        tell(&mut bench, 0, vec![silent], Vec::new());
        assert_eq!(
            evidence(&bench).contains("the answers were lost"),
            known,
            "{waits} s: {}",
            evidence(&bench)
        );
        bench.pass(Duration::from_millis(1));
    }
}

#[test]
fn what_one_responder_heard_of_several_explains_each_by_its_own() {
    let mut bench = pinged(quiet(), 3);
    bench.take();
    let told = vec![heard("n0", "n1", 7, (40, 20)), heard("n2", "n1", 7, (0, 0))];
    tell(&mut bench, 1, Vec::new(), told);
    for (connection, node, lost) in [(0, "n0", "the answers were lost"), (2, "n2", HEARD_NONE)] {
        let silent = report(&bench, node, "n1", stats(7, false));
        tell(&mut bench, connection, vec![silent], Vec::new());
        let Cell::Failed { failure, .. } = bench.cell(Metric::Ping, node, "n1") else {
            panic!("{node} heard nothing")
        };
        assert!(failure.evidence.contains(lost), "{node}: {}", failure.evidence);
    }
}

#[test]
fn a_batch_that_went_on_is_not_explained_by_what_was_heard_of_the_last_one() {
    let mut bench = ready();
    let silent = report(&bench, "n0", "n1", stats(7, false));
    tell(&mut bench, 0, vec![silent], Vec::new());
    bench.pass(Duration::from_secs(1));
    let answered = report(&bench, "n0", "n1", stats(8, true));
    tell(&mut bench, 0, vec![answered], Vec::new());
    tell(&mut bench, 1, Vec::new(), vec![heard("n0", "n1", 7, (0, 0))]);
    assert!(matches!(bench.cell(Metric::Ping, "n0", "n1"), Cell::Known { .. }));
    assert_eq!(bench.c.ping_news.unexplained(), 0);
}

#[test]
fn what_is_known_of_the_peer_says_more_than_silence() {
    let mut bench = ready();
    bench.handle(Event::Closed(ConnectionId(1)));
    let silent = report(&bench, "n0", "n1", stats(7, false));
    tell(&mut bench, 0, vec![silent], Vec::new());
    assert_eq!(bench.cause(Metric::Ping, "n0", "n1"), Cause::PeerGone);
    bench.hello(9, "n1", "m1");
    let down = EndpointInfo { unusable: Some(Cause::PortDown), ..endpoint("n1/d/1") };
    bench.inventory(9, vec![down]);
    bench.pass(Duration::from_secs(1));
    let silent = report(&bench, "n0", "n1", stats(8, false));
    tell(&mut bench, 0, vec![silent], Vec::new());
    assert_eq!(bench.cause(Metric::Ping, "n0", "n1"), Cause::PortDown);
    assert_eq!(bench.c.ping_news.unexplained(), 0, "there is nothing to explain");
}

#[test]
fn who_stays_away_has_no_fresh_pings_and_who_restarts_keeps_them() {
    let mut bench = ready();
    let (there, back) =
        (report(&bench, "n0", "n1", stats(1, true)), report(&bench, "n1", "n0", stats(1, true)));
    tell(&mut bench, 0, vec![there], Vec::new());
    tell(&mut bench, 1, vec![back], Vec::new());
    bench.pass(Duration::from_secs(1));
    bench.handle(Event::Closed(ConnectionId(1)));
    let beat = |bench: &mut Bench, seconds: u64| {
        for _ in 0..seconds {
            bench.pass(Duration::from_secs(1));
            tell(bench, 0, Vec::new(), Vec::new());
        }
    };
    beat(&mut bench, 14);
    let known = |bench: &Bench, a, b| matches!(bench.cell(Metric::Ping, a, b), Cell::Known { .. });
    assert!(known(&bench, "n0", "n1") && known(&bench, "n1", "n0"), "it may be a restart");
    bench.hello(9, "n1", "m1");
    bench.handle(Event::Closed(ConnectionId(9)));
    beat(&mut bench, 14);
    assert!(known(&bench, "n0", "n1"), "it was there in between");
    assert_eq!(bench.c.next_wakeup(), Some(bench.now.mono.after(Duration::from_secs(1))));
    beat(&mut bench, 1);
    assert_eq!(bench.cause(Metric::Ping, "n0", "n1"), Cause::PeerGone);
    assert_eq!(bench.cause(Metric::Ping, "n1", "n0"), Cause::AgentGone);
    assert_eq!(bench.cell(Metric::Latency, "n0", "n1"), Cell::Never, "nobody has probed that");
    let at = bench.cell(Metric::Ping, "n0", "n1").at();
    beat(&mut bench, 60);
    assert_eq!(bench.cell(Metric::Ping, "n0", "n1").at(), at, "told once");
}

#[test]
fn an_agent_tells_of_its_own_pings_only_and_of_batches_that_can_be() {
    let mut bench = ready();
    let foreign = report(&bench, "n0", "n1", stats(1, true));
    tell(&mut bench, 1, vec![foreign], vec![heard("n1", "n0", 1, (1, 1))]);
    let stranger = report(&bench, "n0", "n9", stats(1, true));
    let own = report(&bench, "n0", "n0", stats(1, true));
    let mut huge = report(&bench, "n0", "n1", stats(1, true));
    huge.stats.small.sent = 255;
    let mut nothing = report(&bench, "n0", "n1", stats(1, false));
    nothing.stats.small.sent = 0;
    nothing.stats.large.sent = 0;
    tell(&mut bench, 0, vec![stranger, own, huge, nothing], Vec::new());
    assert_eq!(bench.cell(Metric::Ping, "n0", "n1"), Cell::Never);
    assert_eq!(bench.c.matrix().len(), 2);
    assert!(bench.c.ping_news.is_empty());
}

/// A batch by the numbers of its ends.
fn numbered(bench: &Bench, [source, target]: [u32; 2], stats: &PingStats) -> NumberedReport {
    NumberedReport {
        local: source,
        peer: target,
        measured_at: bench.now.wall,
        batch: stats.batch,
        figures: PackedPings::pack(&PingFigures::from(stats)),
    }
}

#[test]
fn pings_by_numbers_are_the_same_cells_and_an_agent_tells_of_its_own_only() {
    let mut bench = ready();
    let [n0, n1] = ["n0", "n1"].map(|name| bench.c.find_endpoint(name).unwrap().0);
    let (answered, silent) = (stats(1, true), stats(2, false));
    let named = report(&bench, "n0", "n1", answered.clone());
    tell(&mut bench, 0, vec![named], Vec::new());
    let by_name = bench.cell(Metric::Ping, "n0", "n1");
    let mut bench = ready();
    let reports = [[n0, n1], [n0, 99], [99, n1], [n0, n0]];
    let reports = reports.map(|ends| numbered(&bench, ends, &answered)).to_vec();
    bench.frame(1, ToCoordinator::Numbered { reports: reports.clone(), heard: Vec::new() });
    assert_eq!(bench.cell(Metric::Ping, "n0", "n1"), Cell::Never, "that was the agent of n1");
    bench.frame(0, ToCoordinator::Numbered { reports, heard: Vec::new() });
    assert_eq!(bench.cell(Metric::Ping, "n0", "n1"), by_name);
    assert_eq!(bench.probed, [Probed::Pings(1)]);

    bench.pass(Duration::from_secs(1));
    let reports = vec![numbered(&bench, [n0, n1], &silent)];
    bench.frame(0, ToCoordinator::Numbered { reports, heard: Vec::new() });
    let heard = |local, peer| NumberedHeard { local, peer, batch: 2, small: 0, large: 0 };
    bench
        .frame(0, ToCoordinator::Numbered { reports: Vec::new(), heard: vec![heard(n1, n0), heard(99, n0)] });
    assert!(evidence(&bench).contains("not known"), "the agent of n0 cannot tell what n1 heard");
    bench
        .frame(1, ToCoordinator::Numbered { reports: Vec::new(), heard: vec![heard(n1, 99), heard(n1, n0)] });
    assert!(evidence(&bench).contains(HEARD_NONE), "{}", evidence(&bench));
}

#[test]
fn a_clock_that_is_wrong_makes_nothing_look_older_or_newer() {
    let mut bench = ready();
    let at = |bench: &Bench| bench.cell(Metric::Ping, "n0", "n1").at().unwrap();
    for (clock, trusted) in [(-20_000, true), (-21_000, false), (1, false), (-5_000, true)] {
        live(&mut bench, 30);
        let mut told = report(&bench, "n0", "n1", stats(1, true));
        told.measured_at = Wall(told.measured_at.0.saturating_add_signed(clock));
        let expected = if trusted { told.measured_at } else { bench.now.wall };
        tell(&mut bench, 0, vec![told], Vec::new());
        assert_eq!(at(&bench), expected, "{clock} ms");
    }
}

#[test]
fn a_restarted_coordinator_has_the_pings_back_with_their_time() {
    let mut bench = ready();
    let answered = report(&bench, "n0", "n1", stats(1, true));
    tell(&mut bench, 0, vec![answered], Vec::new());
    let silent = report(&bench, "n1", "n0", stats(1, false));
    tell(&mut bench, 1, vec![silent], Vec::new());
    let mut next = Bench::new(quiet());
    next.now = bench.now;
    let names = bench.c.kept_names();
    let numbers = next.c.restore_names(&names);
    for number in 0..2 {
        let mut kept = Vec::new();
        bench.c.keep(Metric::Ping, EndpointIndex(number), 2, &mut kept);
        assert_eq!(next.c.restore(&kept, &numbers, next.now), Ok(1));
    }
    for (source, target) in [("n0", "n1"), ("n1", "n0")] {
        assert_eq!(next.cell(Metric::Ping, source, target), bench.cell(Metric::Ping, source, target));
    }
    let state = next.cell(Metric::Ping, "n0", "n1").state(next.now.wall, Duration::from_secs(60));
    assert_eq!(state, CellState::Fresh);
}
