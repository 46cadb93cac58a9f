//! Sweeps of clusters of any shape: every pair once, and nobody over a limit at any moment.

use crate::common::*;
use rdmascope_control::coordinator::Settings;
use rdmascope_model::{EndpointName, Metric};
use rdmascope_sim::{Cluster, Exchange, Random, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// One cluster as chance has it, with its limits.
struct Drawn {
    nodes: usize,
    per_leaf: usize,
    one_machine: bool,
    settings: Settings,
}

fn draw(random: &mut Random) -> Drawn {
    let mut below = |bound: u64| usize::try_from(random.below(bound)).unwrap();
    let (nodes, per_leaf) = (2 + below(11), 1 + below(5));
    let leaves = (0..nodes).map(|node| (format!("node-{node}"), format!("leaf-{}", node / per_leaf)));
    let number = |n: usize| u32::try_from(n).unwrap();
    let settings = Settings {
        streams_per_leaf: number(1 + below(4)),
        streams_per_node: number(1 + below(3)),
        pairs_at_once: number(1 + below(6)),
        leaves: leaves.collect(),
        ..quiet()
    };
    Drawn { nodes, per_leaf, one_machine: below(4) == 0, settings }
}

fn host(name: &EndpointName) -> usize {
    name.node["node-".len()..].parse().unwrap()
}

/// The most that was ever true of those that ran at the same time as one of them began.
fn most<'a>(all: &[&'a Exchange], count: impl Fn(&[&'a Exchange]) -> usize) -> usize {
    let beside = |one: &&Exchange| {
        let runs = |other: &&&Exchange| other.began <= one.began && one.began < other.ends;
        all.iter().filter(runs).copied().collect::<Vec<_>>()
    };
    all.iter().map(|one| count(&beside(one))).max().unwrap_or(0)
}

fn holds(c: &Cluster, drawn: &Drawn, what: &str) {
    let fabric = c.fabric();
    let fabric = fabric.borrow();
    let all: Vec<&Exchange> = fabric.history().iter().collect();
    let of = |metric| all.iter().copied().filter(move |e| e.spec.metric() == Some(metric));
    let streams: Vec<&Exchange> = of(Metric::Bandwidth).collect();
    let directed: Vec<_> = streams.iter().map(|e| (host(&e.source), host(&e.target))).collect();
    let distinct: BTreeSet<_> = directed.iter().copied().collect();
    assert_eq!(distinct, pairs(drawn.nodes).collect(), "{what}: each direction of each pair");
    assert_eq!(directed.len(), distinct.len(), "{what}: and once");
    let latency: Vec<_> = of(Metric::Latency).map(|e| (host(&e.source), host(&e.target))).collect();
    let distinct: BTreeSet<_> = latency.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
    assert_eq!(
        (distinct.len(), latency.len()),
        (drawn.nodes * (drawn.nodes - 1) / 2, distinct.len()),
        "{what}"
    );

    let at_an_end = most(&all, |beside| {
        let mut ends: BTreeMap<&EndpointName, usize> = BTreeMap::new();
        beside.iter().flat_map(|e| [&e.source, &e.target]).for_each(|end| *ends.entry(end).or_default() += 1);
        ends.into_values().max().unwrap_or(0)
    });
    assert_eq!(at_an_end, 1, "{what}: probes of one endpoint");
    let at_once = most(&all, <[_]>::len);
    assert!(at_once <= drawn.settings.pairs_at_once as usize, "{what}: {at_once} pairs at once");
    let leaf = |name: &EndpointName| host(name) / drawn.per_leaf;
    let over_a_leaf = most(&streams, |beside| {
        let mut crossing: BTreeMap<usize, usize> = BTreeMap::new();
        for e in beside.iter().filter(|e| leaf(&e.source) != leaf(&e.target)) {
            [&e.source, &e.target].into_iter().for_each(|end| *crossing.entry(leaf(end)).or_default() += 1);
        }
        crossing.into_values().max().unwrap_or(0)
    });
    assert!(over_a_leaf <= drawn.settings.streams_per_leaf as usize, "{what}: {over_a_leaf} over one leaf");
    if drawn.one_machine {
        let streams = most(&streams, <[_]>::len);
        assert!(streams <= drawn.settings.streams_per_node as usize, "{what}: {streams} on one machine");
        let spoilt = most(&all, |beside| {
            let latency = beside.iter().any(|e| e.spec.metric() == Some(Metric::Latency));
            usize::from(latency && beside.len() > 1)
        });
        assert_eq!(spoilt, 0, "{what}: latency beside something else on one machine");
    }
}

#[test]
fn whatever_the_shape_every_pair_is_measured_once_and_no_limit_is_passed_at_any_moment() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let drawn = draw(&mut random);
        let Drawn { nodes, one_machine, .. } = drawn;
        let mut c = of(&Shape { seed, nodes, one_machine, settings: drawn.settings.clone() });
        sweep(&mut c, &BOTH, seconds(600));
        let what = format!("seed {seed}: {nodes} nodes, {} a leaf, {:?}", drawn.per_leaf, drawn.settings);
        holds(&c, &drawn, &what);
        the_rest_is_right(&c, nodes, &BOTH, &[]);
    }
}
