//! The same fabric judged by ClusterKit's published rule, as we read it.
//!
//! What is published (NVIDIA HPC-X documentation, "ClusterKit"): all n − 1 rounds of n / 2 pairs at once; latency is bad above 2.1 times
//! the smallest, bandwidth is bad below 93 % of the largest; pairs outside go to re-test rounds, in each of which the set is halved;
//! those that are still bad at the end are bad. Our reading: half as many pairs run at once in each later round, down to one alone, and
//! a pair that is within in any of them is good. It is a batch tool, so jobs and other traffic are taken off the fabric before it looks. Latency is the average of a short ping-pong, as MPI would see it; a pair that cannot
//! talk is bad. The rule names pairs and no culprit. So it is right when it names none but pairs that the fault touches, has found a
//! fault when it names one of them, and is exact when it names exactly those that the fault touches.

use crate::net::{Net, Packet};
use crate::random::Random;
use std::collections::BTreeSet;

const LATENCY_MOST: f64 = 2.1;
const BANDWIDTH_LEAST: f64 = 0.93;
/// Round trips of one latency test.
const ROUND_TRIPS: usize = 8;
/// A connection gives up after so many losses of one packet.
const RETRIES_MAX: usize = 7;
const RETRANSMIT_NS: u64 = 4_000_000;
/// What the program takes for a message, at both ends together, nanoseconds.
const SOFTWARE_NS: u64 = 300;
/// One round takes so long, nanoseconds.
const ROUND_NS: u64 = 250_000_000;
const RETEST_ROUNDS_MAX: usize = 12;

/// Two endpoints, the smaller one first.
type Pair = (usize, usize);

/// What the rule says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) bad: BTreeSet<Pair>,
    /// Tests of pairs, re-tests included.
    pub(crate) tests: usize,
}

/// One test: latency in nanoseconds and bandwidth in bits per second; `None` of a pair that cannot talk.
type Figures = Option<(f64, f64)>;

/// Judges a fabric as it is at this time.
pub(crate) fn judge(net: &Net, at: u64, random: &mut Random) -> Verdict {
    let net = &net.drained();
    let ends = net.topology().len();
    let places = ends + ends % 2;
    let mut all: Vec<(Pair, Figures)> = Vec::with_capacity(ends * (ends - 1) / 2);
    for round in 0..places - 1 {
        let seat = |place: usize| if place == 0 { 0 } else { 1 + (place - 1 + round) % (places - 1) };
        let pairs = (0..places / 2).map(|k| (seat(k), seat(places - 1 - k)));
        let pairs: Vec<Pair> = pairs
            .map(|(a, b)| (a.min(b), a.max(b)))
            .filter(|&(a, b)| b < ends && net.topology().is_pinged(a, b))
            .collect();
        test(net, &pairs, at + round as u64 * ROUND_NS, random, &mut all);
    }
    let mut tests = all.len();
    let known = || all.iter().filter_map(|(_, figures)| *figures);
    let least = known().map(|(latency, _)| latency).fold(f64::INFINITY, f64::min);
    let most = known().map(|(_, bandwidth)| bandwidth).fold(0.0, f64::max);
    let is_bad = |figures: &Figures| {
        figures.is_none_or(|(latency, bandwidth)| {
            latency > LATENCY_MOST * least || bandwidth < BANDWIDTH_LEAST * most
        })
    };
    let mut bad: Vec<Pair> =
        all.iter().filter(|(_, figures)| is_bad(figures)).map(|(pair, _)| *pair).collect();
    let mut at = at + places as u64 * ROUND_NS;
    let mut at_once = ends / 2;
    for _ in 0..RETEST_ROUNDS_MAX {
        if bad.is_empty() || at_once <= 1 {
            break;
        }
        at_once = at_once.div_ceil(2);
        let mut again = Vec::with_capacity(bad.len());
        while !bad.is_empty() {
            let pairs = round(&mut bad, at_once, random);
            test(net, &pairs, at, random, &mut again);
            at += ROUND_NS;
        }
        tests += again.len();
        bad = again.iter().filter(|(_, figures)| is_bad(figures)).map(|(pair, _)| *pair).collect();
    }
    Verdict { bad: bad.into_iter().collect(), tests }
}

/// Takes pairs that share no endpoint from those that wait, in no order.
fn round(waiting: &mut Vec<Pair>, at_once: usize, random: &mut Random) -> Vec<Pair> {
    let (mut pairs, mut used) = (Vec::with_capacity(at_once), BTreeSet::new());
    // Where few endpoints are left, a free pair is not looked for without end.
    for _ in 0..4 * at_once {
        if pairs.len() == at_once || waiting.is_empty() {
            break;
        }
        let at = random.below(waiting.len() as u64) as usize;
        let (a, b) = waiting[at];
        if !used.contains(&a) && !used.contains(&b) {
            used.extend([a, b]);
            pairs.push(waiting.swap_remove(at));
        }
    }
    pairs
}

/// Tests pairs at the same time; streams that take one uplink share it.
fn test(net: &Net, pairs: &[Pair], at: u64, random: &mut Random, figures: &mut Vec<(Pair, Figures)>) {
    let layout = &net.topology().layout;
    let mut links = vec![0_u32; layout.leaves * layout.spines];
    let label = (random.draw() & 0xffff) as u32;
    let link = |leaf: usize, spine: usize| leaf * layout.spines + spine;
    let uplinks = |from: usize, to: usize| {
        let leaf = |end: usize| net.topology().ends[end].leaf;
        net.spine(from, to, label).map(|spine| [link(leaf(from), spine), link(leaf(to), spine)])
    };
    for &(a, b) in pairs {
        uplinks(a, b).into_iter().flatten().for_each(|link| links[link] += 1);
    }
    // So many ports' worth a leaf sends to one spine.
    let ports = net.topology().len() as f32 / (layout.leaves * layout.spines) as f32;
    let carries = (ports / layout.oversubscription).max(1.0);
    for &(a, b) in pairs {
        let most = uplinks(a, b).and_then(|both| both.into_iter().map(|link| links[link]).max());
        let share = most.map_or(1.0, |streams| (carries / streams as f32).min(1.0));
        figures.push(((a, b), one(net, (a, b), label, at, share, random)));
    }
}

/// One pair, which gets this share of the uplinks that it takes.
fn one(net: &Net, (a, b): Pair, label: u32, at: u64, share: f32, random: &mut Random) -> Figures {
    let mut total = 0;
    for _ in 0..ROUND_TRIPS {
        for (from, to) in [(a, b), (b, a)] {
            let mut tries = 0;
            total += loop {
                let packet = Packet { from, to, label, large: false, at: at + total };
                match net.carry(&packet, random) {
                    Some(ns) => break ns + SOFTWARE_NS + tries as u64 * RETRANSMIT_NS,
                    None if tries == RETRIES_MAX => return None,
                    None => tries += 1,
                }
            };
        }
    }
    let large = |from, to| Packet { from, to, label, large: true, at };
    let dead = [(a, b), (b, a)].into_iter().any(|(from, to)| net.hit(&large(from, to)).loss > 0.95);
    if dead {
        return None;
    }
    // Both directions at once; the slower one counts.
    let alone = net.goodput_bps(&large(a, b)).min(net.goodput_bps(&large(b, a)));
    let bandwidth = alone * f64::from(share) * (1.0 - 0.01 * random.unit());
    Some((total as f64 / (2 * ROUND_TRIPS) as f64, bandwidth))
}

#[cfg(test)]
mod tests {
    use super::super::file::{Suite, tests::text};
    use super::*;
    use crate::net::{Harm, Jobs, Noise, Parameters, Spot};
    use rdmascope_localise::Way;

    /// A fabric of one leaf's worth of distance: no tiers, no noise, no jobs.
    fn net() -> Net {
        let suite = Suite::parse(text()).unwrap();
        let usual = suite.fabric;
        let noise = Noise { loss_per_million: 0.0, tail_share: 0.0, ..usual.noise.clone() };
        let jobs = Jobs { share: 0.0, ..usual.jobs.clone() };
        let load = crate::Load { mean: 0.0, ..usual.load.clone() };
        let wire = crate::Wire { switch_ns: 10.0, cable_ns: [1.0, 2.0], ..usual.wire.clone() };
        let fabric = Parameters { noise, jobs, load, wire, ..usual };
        Net::new(&suite.sizes[0].shapes[0], &fabric, 3)
    }

    #[test]
    fn with_nothing_wrong_and_equal_distances_no_pair_is_bad() {
        let verdict = judge(&net(), 1_000_000_000, &mut Random::new(1));
        assert_eq!(verdict.bad, BTreeSet::new());
        assert!(verdict.tests >= 28, "all pairs of 8 at least: {}", verdict.tests);
    }

    #[test]
    fn slow_and_dead_pairs_are_bad_after_all_retests() {
        for harm in [Harm { delay_ns: 10_000.0, ..Harm::default() }, Harm { loss: 1.0, ..Harm::default() }] {
            let mut net = net();
            net.add_fault(Spot::Pair(1, 6, Way::Both), harm);
            let verdict = judge(&net, 1_000_000_000, &mut Random::new(1));
            assert_eq!(verdict.bad, BTreeSet::from([(1, 6)]), "{harm:?}");
        }
    }

    #[test]
    fn what_is_a_little_slow_is_within_its_limits() {
        let mut net = net();
        net.add_fault(Spot::Endpoint(1, Way::Both), Harm { delay_ns: 300.0, ..Harm::default() });
        assert_eq!(judge(&net, 1_000_000_000, &mut Random::new(1)).bad, BTreeSet::new());
    }
}
