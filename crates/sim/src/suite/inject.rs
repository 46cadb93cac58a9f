//! Draws where a fault of some kind is and how bad it is, and says who is to be named for it.

use super::expected::{Named, Part, alike};
use super::kind::{At, Direction, Kind};
use crate::net::{Harm, Net, Spot, Topology};
use crate::random::Random;
use rdmascope_localise::{Effect, Share, Way};
use std::collections::BTreeSet;

const SECOND: f32 = 1e9;
/// From this loss on nothing gets through.
const DEAD: f32 = 0.95;
/// So often a place beside the others is looked for.
const TRIES: usize = 200;

/// Who is to be named for one fault, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// All that cannot be told apart.
    pub set: BTreeSet<Named>,
    /// Any of these words is right.
    pub effects: Vec<Effect>,
    /// Which way suffers; `None` where it cannot be told.
    pub way: Option<Way>,
    /// On how many of its paths.
    pub share: Share,
}

/// One fault, drawn.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) at: At,
    pub(crate) spot: Option<Spot>,
    pub(crate) harm: Harm,
    /// Share of processor time that is taken.
    pub(crate) stolen: f32,
    /// The endpoints of this node tell of it, or are concerned by it.
    pub(crate) node: Option<usize>,
    /// The endpoint that is broken, where it is one.
    pub(crate) end: Option<usize>,
    pub(crate) expected: Expected,
    part: Part,
    way: Way,
    /// Leaves that no other fault may be on.
    leaves: Vec<usize>,
    /// Nodes that no other fault may be on.
    nodes: Vec<usize>,
}

impl Fault {
    /// It is above the endpoints: two of these at once may look like a third one.
    fn is_above(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Packets of a pair, in one direction at least, suffer from it.
    pub(crate) fn touches(&self, a: usize, b: usize, topology: &Topology) -> bool {
        let stays = topology.ends[a].leaf == topology.ends[b].leaf;
        let meets = |from, to| self.part.meets(self.way, from, to, topology);
        (meets(a, b) || meets(b, a)) && !(self.harm.beyond_leaf && stays)
    }

    /// What is broken and how badly, for a person who looks into a run.
    pub(crate) fn in_words(&self) -> String {
        let harm = &self.harm;
        let mut words = vec![self.spot.map_or(format!("host {:?}", self.node), |spot| format!("{spot:?}"))];
        let mut say = |what: &str, share: f32| {
            if share > 0.0 {
                words.push(format!("{what} {share:.3}"));
            }
        };
        say("loses", harm.loss);
        say("loses of large packets", harm.large_loss);
        say("adds ns", harm.delay_ns);
        say("adds at random ns", harm.queue_ns);
        say("drifts by ns/s", harm.drift_ns);
        say("processor time taken", self.stolen);
        if harm.beyond_leaf {
            words.push("beyond its leaf".to_owned());
        }
        if let Some((period, there, _)) = harm.comes_and_goes {
            words.push(format!("there {:.1} of {:.1} s", there as f64 * 1e-9, period as f64 * 1e-9));
        }
        words.join(", ")
    }

    fn goes_with(&self, other: &Self, topology: &Topology) -> bool {
        let apart = |a: &[usize], b: &[usize]| !a.iter().any(|at| b.contains(at));
        let leaf = |node: usize| topology.ends[topology.of_node(node).start].leaf;
        let on_leaves = |fault: &Self| fault.nodes.iter().map(|&node| leaf(node)).collect::<Vec<_>>();
        !(self.is_above() && other.is_above())
            && apart(&self.nodes, &other.nodes)
            && apart(&self.leaves, &on_leaves(other))
            && apart(&other.leaves, &on_leaves(self))
    }
}

/// Draws the faults of a run of this kind; nothing where nothing is to be told.
pub(crate) fn draw(kind: &Kind, kinds: &[Kind], net: &Net, random: &mut Random) -> Vec<Fault> {
    match kind.at {
        At::Several => several(kind.faults, kinds, net, random),
        At::DuplicateAddress => duplicates(kind, net, random),
        _ if !kind.is_fault() => Vec::new(),
        _ => vec![one(kind, net, random)],
    }
}

fn several(count: usize, kinds: &[Kind], net: &Net, random: &mut Random) -> Vec<Fault> {
    let singles: Vec<_> = kinds.iter().filter(|kind| kind.is_single()).collect();
    let mut faults: Vec<Fault> = Vec::new();
    for _ in 0..TRIES {
        if faults.len() == count {
            break;
        }
        let kind = singles[random.below(singles.len() as u64) as usize];
        let fault = one(kind, net, random);
        if faults.iter().all(|other| fault.goes_with(other, net.topology())) {
            faults.push(fault);
        }
    }
    faults
}

/// Two endpoints, each of which gets what is sent to both for a part of the time.
fn duplicates(kind: &Kind, net: &Net, random: &mut Random) -> Vec<Fault> {
    let inward = Kind { at: At::Endpoint, way: Direction::In, ..kind.clone() };
    let first = one(&inward, net, random);
    let mut second = one(&inward, net, random);
    while !first.goes_with(&second, net.topology()) {
        second = one(&inward, net, random);
    }
    if let Some((period, there, _)) = first.harm.comes_and_goes {
        // The one is there while the other is not.
        second.harm.comes_and_goes = Some((period, period - there, period - there));
    }
    vec![first, second].into_iter().map(|fault| Fault { at: At::DuplicateAddress, ..fault }).collect()
}

fn one(kind: &Kind, net: &Net, random: &mut Random) -> Fault {
    let topology = net.topology();
    let place = Place::draw(kind.at, topology, random);
    let way = kind.way.way();
    let (part, spot) = place.part_and_spot(way);
    let set = if kind.at == At::StarvedHost {
        BTreeSet::from([part.name(topology)])
    } else {
        alike(part, way, is_slow_only(kind), topology)
    };
    let some_paths = matches!(kind.at, At::Link | At::Spine | At::LeafPairPath | At::PairPath);
    let expected = Expected {
        set,
        effects: effects(kind),
        way: (kind.at != At::StarvedHost && !is_slow_only(kind)).then_some(way),
        share: if some_paths { Share::SomePaths } else { Share::All },
    };
    let end = place.ends.first().copied().filter(|_| matches!(part, Part::Endpoint(_)));
    let node_of = |end: usize| topology.ends[end].node;
    let mut nodes: Vec<usize> = place.ends.iter().map(|&end| node_of(end)).chain(place.node).collect();
    nodes.dedup();
    Fault {
        at: kind.at,
        spot: (kind.at != At::StarvedHost).then_some(spot),
        harm: harm(kind, net, random),
        stolen: random.between(kind.stolen),
        node: nodes.first().copied(),
        end,
        expected,
        part,
        way,
        leaves: place.leaves,
        nodes,
    }
}

/// What was drawn of a place.
#[derive(Clone, Debug, Default)]
struct Place {
    at: Option<At>,
    ends: Vec<usize>,
    node: Option<usize>,
    leaves: Vec<usize>,
    pod: usize,
    spine: usize,
}

impl Place {
    fn draw(at: At, topology: &Topology, random: &mut Random) -> Self {
        let layout = &topology.layout;
        let mut below = |bound: usize| random.below(bound as u64) as usize;
        let mut place = Self { at: Some(at), ..Self::default() };
        place.spine = below(layout.spines);
        place.pod = below(layout.pods);
        match at {
            At::Endpoint | At::PortDown | At::DuplicateAddress => place.ends = vec![below(topology.len())],
            At::Node | At::PowerOff | At::StarvedHost => place.node = Some(below(layout.nodes)),
            At::Leaf | At::Uplinks | At::Link => place.leaves = vec![below(layout.leaves)],
            At::LeafPair | At::LeafPairPath => {
                let first = below(layout.leaves);
                let second = (first + 1 + below(layout.leaves - 1)) % layout.leaves;
                place.leaves = vec![first.min(second), first.max(second)];
            }
            At::Pair | At::PairPath => place.ends = pair(at, topology, below),
            _ => {}
        }
        place
    }

    fn part_and_spot(&self, way: Way) -> (Part, Spot) {
        let spine = self.spine;
        match (self.at, &self.ends[..], self.node, &self.leaves[..]) {
            (Some(At::Leaf), _, _, &[leaf]) => (Part::Leaf(leaf), Spot::Leaf(leaf, way)),
            (Some(At::Link), _, _, &[leaf]) => (Part::Uplinks(leaf), Spot::Link(leaf, spine)),
            (_, _, _, &[leaf]) => (Part::Uplinks(leaf), Spot::Uplinks(leaf, way)),
            (Some(At::LeafPairPath), _, _, &[a, b]) => {
                (Part::LeafPair(a, b), Spot::LeafPairPath(a, b, spine))
            }
            (_, _, _, &[a, b]) => (Part::LeafPair(a, b), Spot::LeafPair(a, b, way)),
            (Some(At::PairPath), &[a, b], ..) => (Part::Pair(a, b), Spot::PairPath(a, b, spine)),
            (_, &[a, b], ..) => (Part::Pair(a, b), Spot::Pair(a, b, way)),
            (_, &[end], ..) => (Part::Endpoint(end), Spot::Endpoint(end, way)),
            (_, _, Some(node), _) => (Part::Node(node), Spot::Node(node)),
            (Some(At::Spine), ..) => (Part::Spines, Spot::Spine(self.pod, spine)),
            _ => (Part::Everything, Spot::Everything),
        }
    }
}

/// Two endpoints that ping each other; on two leaves where there is to be more than one way.
fn pair(at: At, topology: &Topology, mut below: impl FnMut(usize) -> usize) -> Vec<usize> {
    loop {
        let [a, b] = [below(topology.len()), below(topology.len())];
        let apart = topology.ends[a].leaf != topology.ends[b].leaf;
        if topology.is_pinged(a, b) && (apart || at == At::Pair) {
            return vec![a, b];
        }
    }
}

fn is_slow_only(kind: &Kind) -> bool {
    let delays = kind.slower[1] > 0.0 || kind.drift_per_minute[1] > 0.0;
    delays && kind.loss[1] <= 0.0 && kind.large_loss[1] <= 0.0
}

fn effects(kind: &Kind) -> Vec<Effect> {
    let mut effects = Vec::new();
    if kind.at == At::StarvedHost {
        return vec![Effect::HostSlow];
    }
    let partly = kind.comes_and_goes_s.is_some()
        || kind.beyond_leaf
        || matches!(kind.at, At::Link | At::Spine | At::LeafPairPath | At::PairPath);
    if kind.loss[1] >= DEAD {
        effects.push(Effect::Dead);
    }
    if kind.loss[1] > 0.0 && (kind.loss[1] < DEAD || partly) {
        effects.push(Effect::Lossy);
    }
    if kind.large_loss[1] > 0.0 {
        effects.push(Effect::LargeLost);
    }
    if kind.slower[1] > 0.0 || kind.queue[1] > 0.0 || kind.drift_per_minute[1] > 0.0 {
        effects.push(Effect::Slow);
    }
    if kind.finding.is_some() {
        effects.push(Effect::Setting);
    }
    effects
}

/// How bad it is. What is added to a round trip is shared by both ways where both suffer.
fn harm(kind: &Kind, net: &Net, random: &mut Random) -> Harm {
    let ways = if kind.way == Direction::Both { 2.0 } else { 1.0 };
    let trip = net.usual_round_trip_ns() / ways;
    let comes_and_goes = kind.comes_and_goes_s.map(|seconds| {
        let period = random.between(seconds.period) * SECOND;
        let there = random.between(seconds.there) * SECOND;
        (period as u64, there.min(period) as u64, 0)
    });
    Harm {
        loss: random.between(kind.loss),
        large_loss: random.between(kind.large_loss),
        delay_ns: random.between(kind.slower) * trip,
        queue_ns: random.between(kind.queue) * trip,
        drift_ns: random.between(kind.drift_per_minute) * trip / 60.0,
        beyond_leaf: kind.beyond_leaf,
        comes_and_goes,
        ..Harm::default()
    }
}

impl Net {
    /// What a round trip of small packets between two leaves usually takes, nanoseconds.
    pub(crate) fn usual_round_trip_ns(&self) -> f32 {
        let wire = &self.parameters().wire;
        let cables = wire.cable_ns[0] + wire.cable_ns[1];
        let stamps =
            if self.topology().layout.hardware_stamps { 0.0 } else { self.parameters().hosts.stamp_ns };
        2.0 * (2.0 * wire.host_ns + 3.0 * wire.switch_ns + cables + stamps)
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::{Suite, tests::text};
    use super::*;

    fn suite() -> Suite {
        Suite::parse(text()).unwrap()
    }

    #[test]
    fn every_kind_says_who_is_to_be_named_for_it_and_every_other_one_nobody() {
        let suite = suite();
        for shape in suite.sizes.iter().take(3).flat_map(|size| &size.shapes) {
            let net = Net::new(shape, &suite.fabric, 1);
            for kind in &suite.kinds {
                for seed in 0..5 {
                    let faults = draw(kind, &suite.kinds, &net, &mut Random::new(seed));
                    assert_eq!(faults.is_empty(), !kind.is_fault(), "{}", kind.name);
                    for fault in &faults {
                        assert!(!fault.expected.set.is_empty(), "{}", kind.name);
                        assert!(!fault.expected.effects.is_empty(), "{}", kind.name);
                    }
                }
            }
        }
    }

    #[test]
    fn faults_of_one_run_stand_apart() {
        let suite = suite();
        let net = Net::new(&suite.sizes[2].shapes[1], &suite.fabric, 1);
        let kind = suite.kinds.iter().find(|kind| kind.faults == 3).unwrap();
        let mut counts = BTreeSet::new();
        for seed in 0..200 {
            let faults = draw(kind, &suite.kinds, &net, &mut Random::new(seed));
            counts.insert(faults.len());
            for (at, fault) in faults.iter().enumerate() {
                let others = faults[at + 1..].iter();
                assert!(others.clone().all(|other| fault.expected.set.is_disjoint(&other.expected.set)));
                assert!(others.clone().all(|other| fault.goes_with(other, net.topology())));
            }
        }
        assert_eq!(counts, BTreeSet::from([3]));
    }

    #[test]
    fn a_duplicate_address_is_at_one_of_both_endpoints_at_any_time() {
        let suite = suite();
        let net = Net::new(&suite.sizes[1].shapes[0], &suite.fabric, 1);
        let kind = suite.kinds.iter().find(|kind| kind.at == At::DuplicateAddress).unwrap();
        let faults = draw(kind, &suite.kinds, &net, &mut Random::new(3));
        let mut net = net;
        for fault in &faults {
            net.add_fault(fault.spot.unwrap(), fault.harm);
        }
        let lost = |end: Option<usize>, at: u64| {
            let packet = crate::Packet {
                from: usize::from(end == Some(0)),
                to: end.unwrap(),
                label: 0,
                large: false,
                at,
            };
            net.hit(&packet).loss > 0.5
        };
        for at in (0..100_000).map(|i| i * 1_000_003) {
            assert_ne!(lost(faults[0].end, at), lost(faults[1].end, at), "at {at}");
        }
    }
}
