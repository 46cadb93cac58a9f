//! Every fault of the simulation against the limits of real ports: the batch fails, and the right end is suspect.

use super::super::facts::{Facts, Pair};
use super::super::local;
use super::super::suspects::suspects;
use super::{Limit, Limits, alone, pairs};
use rdmascope_control::coordinator::{Miss, Settings, SweepOrder};
use rdmascope_expose::api::{EndpointView, PairState, Severity};
use rdmascope_localise::batch::{Judged, Preset};
use rdmascope_localise::pair::{ceiling_bps, expected_mtu};
use rdmascope_model::{EndpointInfo, EndpointName, Metric};
use rdmascope_sim::{Cluster, Shape};
use std::time::Duration;

const NODES: usize = 6;
const BROKEN: usize = 2;

/// A simulated stream reaches 90 to 98 % of its port's rate, each direction another share.
fn limits() -> Limits {
    Preset::from_name("100g").unwrap().limits.with(Limit::Goodput, Some(90.0))
}

fn cluster() -> Cluster {
    let settings = Settings { pings_per_second: 0, ..Settings::default() };
    let mut c = Cluster::new(&Shape { seed: 5, nodes: NODES, one_machine: false, settings });
    c.run_for(Duration::from_secs(5));
    c
}

/// The stages over all pairs, as the coordinator tells of them.
fn facts(c: &mut Cluster) -> Facts {
    let mut facts = Facts::default();
    let state = c.coordinator();
    let mut endpoints: Vec<EndpointView> = state
        .members()
        .endpoints()
        .map(|(_, endpoint)| EndpointView::new(&endpoint.info, endpoint.gone_since))
        .collect();
    endpoints.sort_by(|a, b| a.name.cmp(&b.name));
    facts.batch = endpoints.iter().map(|endpoint| endpoint.node.clone()).collect();
    facts.endpoints = endpoints;
    for (place, endpoint) in (0..).zip(facts.endpoints.clone()) {
        let told = local::wrong(&limits(), &endpoint);
        if !told.is_empty() {
            facts.told.insert(place, told);
        }
    }
    for (metric, message_bytes) in [(Metric::Latency, 64), (Metric::Bandwidth, 1 << 20)] {
        let order = SweepOrder {
            metrics: vec![metric],
            drained: true,
            message_bytes: Some(message_bytes),
            ..SweepOrder::default()
        };
        c.command(|state, now| state.start_sweep_of(&order, now)).unwrap().unwrap();
        let over = |c: &Cluster| c.coordinator().sweep().is_some_and(|sweep| sweep.finished_at.is_some());
        assert!(c.run_until(Duration::from_secs(600), over));
        facts.pairs.extend(found(c, &facts));
    }
    facts
}

fn found(c: &Cluster, facts: &Facts) -> Vec<Pair> {
    let state = c.coordinator();
    let info = |index| -> Option<&EndpointInfo> { Some(&state.members().endpoint(index)?.info) };
    let pair = |found: rdmascope_control::coordinator::FoundPair| {
        let ends = info(found.source).zip(info(found.target)).map(|(a, b)| [a, b]);
        let ceiling = ends.and_then(|ends| ceiling_bps(ends, expected_mtu(ends)));
        let place = |index| facts.place(&state.matrix().name(index).to_string());
        let (state, value, reason) = match found.found.map(|found| found.value) {
            Ok(Ok(value)) => (PairState::Measured, Some(value), None),
            Ok(Err(Miss::Failed(cause))) => (PairState::Failed, None, Some(cause.id().to_owned())),
            Ok(Err(_)) => (PairState::Excluded, None, None),
            Err(_) => (PairState::NotRun, None, None),
        };
        Some(Pair {
            source: place(found.source)?,
            target: place(found.target)?,
            metric: found.metric,
            state,
            value,
            p99_ns: found.found.ok().and_then(|found| found.p99_ns),
            retransmits: found.found.ok().and_then(|found| found.retransmits),
            ceiling_bps: ceiling.filter(|_| found.metric == Metric::Bandwidth),
            reason,
        })
    };
    state.sweep().unwrap().pairs().into_iter().filter_map(pair).collect()
}

/// The names of all suspects.
fn blamed(c: &mut Cluster) -> Vec<Vec<String>> {
    let facts = facts(c);
    let (judged, _) = pairs(&facts, &limits());
    let found = suspects(&facts, &judged, &alone(&facts, &limits()));
    assert!(found.iter().all(|one| one.status == Severity::Fail && !one.next_step.is_empty()), "{found:#?}");
    found.into_iter().map(|one| one.names).collect()
}

#[track_caller]
fn blames(expected: &str, fault: impl FnOnce(&mut Cluster, EndpointName)) {
    let mut c = cluster();
    let name = c.endpoint(BROKEN);
    fault(&mut c, name);
    c.run_for(Duration::from_secs(1));
    assert_eq!(blamed(&mut c), [[expected.to_owned()]]);
}

const WHOLE: &str = "node-2/sim0/1";

#[test]
fn a_healthy_batch_has_every_pair_and_no_suspect() {
    let facts = facts(&mut cluster());
    assert_eq!(facts.pairs.len(), 2 * NODES * (NODES - 1));
    let (judged, rows) = pairs(&facts, &limits());
    assert!(judged.iter().all(|one| *one == Judged::Fine), "{rows:?}");
    assert!(suspects(&facts, &judged, &[]).is_empty());
}

#[test]
fn a_port_that_is_down_a_removed_device_and_a_small_mtu_are_told_by_their_node() {
    blames(WHOLE, |c, _| c.port_down(BROKEN));
    blames(WHOLE, |c, _| c.remove_device(BROKEN));
    blames(WHOLE, |c, _| c.change_endpoint(BROKEN, |info| info.active_mtu = Some(1_024)));
    blames(WHOLE, |c, _| c.change_endpoint(BROKEN, |info| info.rate_bps = Some(25_000_000_000)));
}

#[test]
fn delay_loss_and_a_slow_port_follow_from_the_pairs() {
    blames(WHOLE, |c, name| c.fabric().borrow_mut().set_delay(&name, 20_000));
    blames(WHOLE, |c, name| c.fabric().borrow_mut().set_loss(&name, 5_000));
    // The port says 100 Gbit/s and carries 40.
    blames(WHOLE, |c, name| c.fabric().borrow_mut().plug(&name, 40_000_000_000));
}

#[test]
fn what_is_lost_on_the_way_to_an_end_names_it_as_the_receiver() {
    // One in a thousand: streams feel it, and hardly a round trip does, which goes both ways.
    blames("node-2/sim0/1 as a receiver", |c, name| {
        for other in (0..NODES).filter(|host| *host != BROKEN) {
            let other = c.endpoint(other);
            c.fabric().borrow_mut().set_direction_loss(&other, &name, 1_000);
        }
    });
}

#[test]
fn a_path_that_lets_nothing_through_is_a_pair() {
    let mut c = cluster();
    c.block_path(BROKEN, 4, true);
    assert_eq!(blamed(&mut c), [["the path between node-2/sim0/1 and node-4/sim0/1".to_owned()]]);
}

#[test]
fn a_dead_agent_is_nobodys_fault() {
    let mut c = cluster();
    c.kill_agent(BROKEN);
    c.run_for(Duration::from_secs(1));
    let facts = facts(&mut c);
    let (judged, _) = pairs(&facts, &limits());
    let untested = judged.iter().filter(|one| **one == Judged::NotTested).count();
    assert_eq!(untested, 4 * (NODES - 1), "its pairs, both ways and metrics");
    assert!(suspects(&facts, &judged, &[]).is_empty());
}
