//! A mesh drawn by window and the same mesh packet by packet tell the same: at N = 32 endpoints, with trouble and without.
//!
//! Shares of n pings are compared with five standard deviations of the difference of two binomial draws of n.

use rdmascope_control::coordinator::Settings;
use rdmascope_localise::{Cell, Measured, Way};
use rdmascope_model::Metric;
use rdmascope_sim::suite::Suite;
use rdmascope_sim::{Cluster, Harm, Layout, Net, Parameters, Pinged, Pinging, Spot};
use std::time::Duration;

fn layout(hardware_stamps: bool) -> Layout {
    Layout {
        nodes: 16,
        rails: 2,
        leaves: 4,
        spines: 4,
        pods: 1,
        lonely: false,
        rates_gbps: vec![400],
        oversubscription: 1.0,
        hardware_stamps,
    }
}

/// What meshes told in 45 seconds, and the median over all pairs of their median round trip, nanoseconds.
struct Told {
    pinged: Pinged,
    round_trip_ns: f64,
    cells: usize,
}

fn parameters() -> Parameters {
    Suite::parse(include_str!("../../../tests/faults.yaml"))
        .expect("the file that is shipped is right")
        .fabric
}

fn run(pinging: Pinging, hardware: bool, seed: u64, change: fn(&mut Net)) -> Told {
    let parameters = parameters();
    let mut net = Net::new(&layout(hardware), &parameters, 11);
    change(&mut net);
    // A batch of 9 for each of 30 peers takes 27 s at 10 pings a second.
    let settings = Settings { coverage: Duration::from_secs(27), ..Settings::default() };
    let mut c = Cluster::over(net, seed, settings, pinging);
    // Agents that are not there yet answer nothing.
    c.run_for(Duration::from_secs(5));
    let began = c.pinged();
    c.run_for(Duration::from_secs(45));
    let matrix = c.coordinator().matrix();
    let mut trips: Vec<u64> = Vec::new();
    for (_, source) in matrix.endpoints() {
        for (_, target) in matrix.endpoints() {
            if let Cell::Known { measured: Measured::Ping(figures), .. } =
                matrix.cell(Metric::Ping, source, target)
            {
                trips.extend(figures.network.map(|network| network.p50_ns));
            }
        }
    }
    trips.sort_unstable();
    Told {
        pinged: c.pinged().since(&began),
        round_trip_ns: trips[trips.len() / 2] as f64,
        cells: trips.len(),
    }
}

#[track_caller]
fn near(what: &str, (a, of_a): (u64, u64), (b, of_b): (u64, u64)) {
    let [a, of_a, b, of_b] = [a, of_a, b, of_b].map(|count| count as f64);
    let share = (a + b) / (of_a + of_b);
    let allowed = 5.0 * (share * (1.0 - share) * (of_a.recip() + of_b.recip())).sqrt();
    assert!(
        (a / of_a - b / of_b).abs() <= allowed,
        "{what}: {a} of {of_a} by window, {b} of {of_b} by packet"
    );
}

#[track_caller]
fn agree(hardware: bool, change: fn(&mut Net)) -> [Pinged; 2] {
    let [window, packet] =
        [Pinging::ByWindow, Pinging::ByPacket].map(|pinging| run(pinging, hardware, 5, change));
    let (a, b) = (window.pinged, packet.pinged);
    let sent = |p: &Pinged, count| (count, p.sent);
    // A batch that ends at the border may be counted on either side of it: at most one for each endpoint, at both borders.
    let close = |what: &str, a: u64, b: u64| assert!(a.abs_diff(b) <= 2 * 32, "{what}: {a} and {b}");
    close("batches", a.batches, b.batches);
    close("pings", a.sent / 9, b.sent / 9);
    close("heard", a.heard[0], b.heard[0]);
    near("answered", sent(&a, a.answered), sent(&b, b.answered));
    near("lost there", sent(&a, a.forward), sent(&b, b.forward));
    near("lost back", sent(&a, a.backward), sent(&b, b.backward));
    near("heard", sent(&a, a.heard[1]), sent(&b, b.heard[1]));
    near("untold", (a.untold, a.batches), (b.untold, b.batches));
    let off = (window.round_trip_ns / packet.round_trip_ns - 1.0).abs();
    assert!(off < 0.02, "{} ns by window, {} ns by packet", window.round_trip_ns, packet.round_trip_ns);
    assert!(window.cells.abs_diff(packet.cells) < 30, "{} and {}", window.cells, packet.cells);
    [a, b]
}

fn harm(loss: f32) -> Harm {
    Harm { loss, ..Harm::default() }
}

#[test]
fn a_healthy_mesh_looks_the_same_by_window_and_by_packet() {
    for hardware in [true, false] {
        let [window, packet] = agree(hardware, |_| {});
        assert!(window.forward + window.backward <= 4 && packet.forward + packet.backward <= 4);
    }
}

#[test]
fn loss_in_one_direction_looks_the_same() {
    let [window, _] = agree(true, |net| {
        net.add_fault(Spot::Endpoint(3, Way::Out), harm(0.2));
        net.add_fault(Spot::Link(2, 1), harm(0.1));
        net.add_fault(Spot::Pair(8, 20, Way::Out), harm(1.0));
    });
    assert!(window.forward > 50 && window.backward > 50, "{window:?}");
}

#[test]
fn what_is_dead_looks_the_same() {
    let [window, _] = agree(true, |net| {
        net.add_fault(Spot::Endpoint(3, Way::Both), harm(1.0));
        net.add_fault(Spot::Endpoint(9, Way::In), harm(1.0));
        net.add_fault(Spot::LeafPair(1, 3, Way::Both), harm(1.0));
    });
    assert!(window.untold > 50, "{window:?}");
}

/// Stops come in bursts, so that pings are not independent of each other: shares are compared with the tenth of themselves.
#[test]
fn a_starved_host_looks_the_same() {
    let change = |net: &mut Net| net.starve(5, 0, 0.4);
    for hardware in [true, false] {
        let [a, b] =
            [Pinging::ByWindow, Pinging::ByPacket].map(|pinging| run(pinging, hardware, 5, change).pinged);
        let within = |what: &str, a: u64, b: u64, part: u64| {
            assert!(a.abs_diff(b) <= b / part + 10, "{what}: {a:?} by window, {b:?} by packet");
        };
        within("sent", a.sent, b.sent, 50);
        within("late", a.late, b.late, 4);
        within("delayed", a.delayed, b.delayed, 10);
        within("answered", a.answered, b.answered, 50);
        assert!(b.late > 20 && b.delayed > 100, "{b:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_a_copy_goes_on_as_the_original_would() {
    let parameters = parameters();
    for pinging in [Pinging::ByWindow, Pinging::ByPacket] {
        let trace = |seed: u64, fork: bool| {
            let net = Net::new(&layout(true), &parameters, 11);
            let mut c = Cluster::over(net, seed, Settings::default(), pinging);
            c.run_for(Duration::from_secs(8));
            let mut c = if fork { c.fork(7) } else { c };
            c.run_for(Duration::from_secs(5));
            c.trace()
        };
        assert_eq!(trace(1, false), trace(1, false), "{pinging:?}");
        assert_ne!(trace(1, false), trace(2, false), "{pinging:?}");
        assert_eq!(trace(1, true), trace(1, true), "{pinging:?}");
        assert_ne!(trace(1, true), trace(1, false), "a copy has chances of its own, {pinging:?}");
    }
}
