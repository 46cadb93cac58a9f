//! The matrix by rail and distance, its worst pairs, and the nodes with the most failed ones: bounded, however many pairs there are.

use rdmascope_model::{EndpointName, Metric};

use super::catalogue::{NODE_FAILED_PAIRS, RAIL_PAIRS, WORST_PAIR_BANDWIDTH, WORST_PAIR_LATENCY};
use super::pairs::{Seconds, device_label};
use super::text::Text;
use crate::api::CellState;

/// Nodes with a sample of their own.
const NODES_MAX: usize = 50;

/// Pairs of one rail and one distance.
#[derive(Clone, Copy, Debug)]
pub struct GroupInput<'a> {
    /// What is measured.
    pub metric: Metric,
    /// Their rail; empty where nobody told.
    pub rail: &'a str,
    /// How far their ends are apart.
    pub scope: &'a str,
    /// Ordered pairs by state, in the order of [`CellState::ALL`].
    pub pairs: [u64; CellState::ALL.len()],
}

/// A pair that is, or was lately, among the worst of its rail.
#[derive(Clone, Copy, Debug)]
pub struct WorstPairInput<'a> {
    /// What was measured.
    pub metric: Metric,
    /// Endpoint that sends.
    pub source: &'a EndpointName,
    /// Endpoint that receives.
    pub target: &'a EndpointName,
    /// Its rail.
    pub rail: &'a str,
    /// Such as `rc_half_rtt`.
    pub method: &'a str,
    /// Nanoseconds, or bits per second.
    pub figure: u64,
}

/// Failed pairs of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeFailures<'a> {
    /// What is measured.
    pub metric: Metric,
    /// Its name.
    pub node: &'a str,
    /// How many, as source or target.
    pub pairs: u64,
}

pub(super) fn groups(text: &mut Text, groups: &[GroupInput<'_>]) {
    text.family(&RAIL_PAIRS, |out| {
        for group in groups.iter().filter(|group| group.pairs.iter().any(|count| *count > 0)) {
            for (state, count) in CellState::ALL.iter().zip(group.pairs) {
                out.add(&[group.metric.as_str(), group.rail, group.scope, state.as_str()], count);
            }
        }
    });
}

pub(super) fn worst(text: &mut Text, pairs: &[WorstPairInput<'_>]) {
    for (family, bandwidth) in [(&WORST_PAIR_LATENCY, false), (&WORST_PAIR_BANDWIDTH, true)] {
        text.family(family, |out| {
            for pair in pairs.iter().filter(|pair| (pair.metric == Metric::Bandwidth) == bandwidth) {
                let [source, target] = [pair.source, pair.target].map(device_label);
                let labels =
                    [&pair.source.node, &*source, &pair.target.node, &*target, pair.rail, pair.method];
                match bandwidth {
                    true => out.add(&labels, pair.figure as f64 / 8.0),
                    false => out.add(&labels, Seconds(pair.figure)),
                }
            }
        });
    }
}

pub(super) fn failures(text: &mut Text, failures: &[NodeFailures<'_>]) {
    text.family(&NODE_FAILED_PAIRS, |out| {
        for metric in Metric::ALL {
            let mut nodes: Vec<_> = failures.iter().filter(|f| f.metric == metric && f.pairs > 0).collect();
            nodes.sort_by_key(|failure| (std::cmp::Reverse(failure.pairs), failure.node));
            for failure in nodes.into_iter().take(NODES_MAX) {
                out.add(&[metric.as_str(), failure.node], failure.pairs);
            }
        }
    });
}
