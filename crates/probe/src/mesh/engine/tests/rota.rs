//! Whose turn it is: rails, samples of other rails, and passes at a rate of their own.

use super::*;
use rdmascope_model::MeshSweep;
use std::collections::{BTreeMap, BTreeSet};

/// Peers of which each second one is on the other rail; the last one's is not known.
fn rails(hosts: usize) -> Arc<[Peer]> {
    let rail = |host: usize| if host == hosts - 1 { 0 } else { 1 + host as u32 % 2 };
    (0..hosts).map(|host| Peer { rail: rail(host), ..book(hosts)[host].clone() }).collect()
}

/// An engine alone with a book: whom it pings, in this order, answered by nobody.
fn alone(book: Arc<[Peer]>, grant: MeshGrant) -> Net {
    let mut net = Net::new(1);
    let now = Mono(net.now);
    net.engines[0].set_book(book, now);
    net.engines[0].set_grant(Some(grant), now);
    net.lose = |_, _| true;
    net
}

fn peers(net: &Net) -> Vec<EndpointName> {
    let peer = |(_, told): &(usize, Output)| match told {
        Output::Pings(peer, _) => Some(peer.clone()),
        _ => None,
    };
    net.told.iter().filter_map(peer).collect()
}

fn count(peers: &[EndpointName]) -> BTreeMap<EndpointName, usize> {
    let mut counts = BTreeMap::new();
    peers.iter().for_each(|peer| *counts.entry(peer.clone()).or_default() += 1);
    counts
}

#[test]
fn peers_of_the_own_rail_are_pinged_and_of_the_others_as_many_as_the_grant_says() {
    let short = MeshGrant { pings_per_batch: 3, pings_per_second: 100, ..grant(1_000 * SECOND) };
    let own: BTreeSet<_> = (2..20).step_by(2).map(name).chain([name(20)]).collect();
    for (every, share) in [(0, 0.0), (4, 0.25), (2, 0.5), (1, 0.5)] {
        let mut net = alone(rails(21), MeshGrant { cross_rail_every: every, ..short });
        net.run(60 * SECOND);
        let told = peers(&net);
        assert!(told.len() > 200, "{} batches", told.len());
        let cross = told.iter().filter(|peer| !own.contains(*peer)).count() as f64 / told.len() as f64;
        assert!((cross - share).abs() < 0.03, "{cross} of the batches went to other rails, not {share}");
        for (whose, mine) in [("own", true), ("other", false)] {
            let of: Vec<_> = told.iter().filter(|peer| own.contains(*peer) == mine).cloned().collect();
            let counts = count(&of);
            let (least, most) = (counts.values().min(), counts.values().max());
            let spread = most.zip(least).map_or(0, |(most, least)| most - least);
            assert!(spread <= 2, "{whose} rail: {counts:?}");
            let all = if mine { own.len() } else { 20 - own.len() };
            assert!(counts.len() == all || share == 0.0 && !mine, "{whose} rail: {counts:?}");
        }
    }
}

#[test]
fn a_pass_pings_each_peer_once_at_its_own_rate_and_then_all_is_as_before() {
    let sweep = MeshSweep { number: 7, pings_per_second: 500, pings_per_batch: 9, cross_rail: false };
    let usual = MeshGrant { cross_rail_every: 4, ..grant(1_000 * SECOND) };
    for (cross_rail, wanted) in [(false, 50), (true, 100)] {
        let passing = MeshGrant { sweep: Some(MeshSweep { cross_rail, ..sweep }), ..usual };
        let mut net = alone(rails(101), passing);
        // Renewed while it goes on and afterwards: it is the same pass.
        for _ in 0..4 {
            let until = net.now + SECOND / 2;
            net.run(until);
            let now = Mono(net.now);
            net.engines[0].set_grant(Some(passing), now);
        }
        let until = net.now + 4 * SECOND;
        net.run(until);
        let told = peers(&net);
        let told = &told[..wanted.min(told.len())];
        let counts = count(told);
        assert_eq!(counts.len(), wanted, "peers of a pass");
        assert!(counts.values().all(|times| *times == 1), "{counts:?}");
        let began = net.pings[0].0;
        let in_time = net.pings.iter().filter(|(at, _)| *at < 3 * SECOND + SECOND / 2).count();
        assert!(in_time >= wanted * 9, "the pass takes {} s at 500 a second, from {began}", wanted * 9 / 500);
        // From here on at 10 a second; another number begins another pass.
        let before = net.pings_of(0);
        let until = net.now + 10 * SECOND;
        net.run(until);
        assert!((95..=105).contains(&(net.pings_of(0) - before)), "{}", net.pings_of(0) - before);
        let again = MeshGrant { sweep: Some(MeshSweep { number: 8, cross_rail, ..sweep }), ..usual };
        let now = Mono(net.now);
        net.engines[0].set_grant(Some(again), now);
        let before = net.pings_of(0);
        let until = net.now + 3 * SECOND;
        net.run(until);
        assert!(net.pings_of(0) - before >= wanted * 9 - 60, "{}", net.pings_of(0) - before);
    }
}

#[test]
fn dead_peers_do_not_hold_a_pass_up() {
    let sweep = MeshSweep { number: 1, pings_per_second: 500, pings_per_batch: 9, cross_rail: true };
    let mut net = alone(book(301), MeshGrant { sweep: Some(sweep), ..grant(1_000 * SECOND) });
    let began = net.now;
    net.run(began + 8 * SECOND);
    let swift = net.pings.iter().filter(|(at, _)| *at < began + 7 * SECOND).count();
    assert!(
        swift >= 300 * 9,
        "{swift} of 2,700 pings in 7 s, of which 5.4 are needed, though nobody answers"
    );
}

#[test]
fn whatever_a_pass_asks_for_the_limits_hold() {
    let sweep =
        MeshSweep { number: 1, pings_per_second: u32::MAX, pings_per_batch: u32::MAX, cross_rail: true };
    let mut net = alone(book(101), MeshGrant { sweep: Some(sweep), ..grant(1_000 * SECOND) });
    for step in 0..40 {
        net.run(SECOND + step * 100 * MS);
        let next = MeshSweep { number: 2 + step, ..sweep };
        let now = Mono(net.now);
        net.engines[0].set_grant(Some(MeshGrant { sweep: Some(next), ..grant(1_000 * SECOND) }), now);
    }
    let times: Vec<u64> = net.pings.iter().map(|(at, _)| *at).collect();
    assert!(times.len() > 3_000, "{}", times.len());
    assert!(times.windows(1_003).all(|window| window[1_002] - window[0] > SECOND), "1,000 a second");
}
