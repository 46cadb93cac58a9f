//! What is broken in the fabric, where, how badly and when.

use super::topology::Topology;
use rdmascope_localise::Way;

/// A place at which something is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// One endpoint, its cable or its port of the switch.
    Endpoint(usize, Way),
    /// All endpoints of one node.
    Node(usize),
    /// One leaf, for everything from (`Out`) or to (`In`) its endpoints.
    Leaf(usize, Way),
    /// All uplinks of one leaf.
    Uplinks(usize, Way),
    /// The uplink of one leaf to one spine.
    Link(usize, usize),
    /// One spine of one pod.
    Spine(usize, usize),
    /// All ways between two leaves; `Out` is from the first to the second.
    LeafPair(usize, usize, Way),
    /// One way between two leaves, over this spine.
    LeafPairPath(usize, usize, usize),
    /// All ways between two endpoints; `Out` is from the first to the second.
    Pair(usize, usize, Way),
    /// One way between two endpoints, over this spine.
    PairPath(usize, usize, usize),
    /// The whole cluster.
    Everything,
}

/// What a place does to packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Harm {
    /// Share of packets that it loses.
    pub loss: f32,
    /// Share of packets of the full MTU that it loses besides.
    pub large_loss: f32,
    /// What it adds to each packet's way, nanoseconds.
    pub delay_ns: f32,
    /// Mean of what it adds besides, different for each packet, nanoseconds.
    pub queue_ns: f32,
    /// What it adds more with each second since its beginning, nanoseconds.
    pub drift_ns: f32,
    /// Share of a stream's rate that is left.
    pub rate_left: f32,
    /// Only packets that leave the leaf suffer.
    pub beyond_leaf: bool,
    /// Begins then, nanoseconds of the virtual clock.
    pub since: u64,
    /// Ends then.
    pub until: u64,
    /// It comes and goes: period, time for which it is there, and shift, nanoseconds.
    pub comes_and_goes: Option<(u64, u64, u64)>,
}

impl Default for Harm {
    fn default() -> Self {
        Self {
            loss: 0.0,
            large_loss: 0.0,
            delay_ns: 0.0,
            queue_ns: 0.0,
            drift_ns: 0.0,
            rate_left: 1.0,
            beyond_leaf: false,
            since: 0,
            until: u64::MAX,
            comes_and_goes: None,
        }
    }
}

impl Harm {
    fn is_there(&self, at: u64) -> bool {
        let on = |(period, on, shift): (u64, u64, u64)| (at - self.since + shift) % period < on;
        (self.since..self.until).contains(&at) && self.comes_and_goes.is_none_or(on)
    }
}

/// What all that is broken does to one packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hit {
    pub(crate) loss: f32,
    pub(crate) delay_ns: f32,
    pub(crate) queue_ns: f32,
    pub(crate) rate_left: f32,
}

impl Hit {
    pub(crate) const NONE: Self = Self { loss: 0.0, delay_ns: 0.0, queue_ns: 0.0, rate_left: 1.0 };

    fn add(&mut self, harm: &Harm, large: bool, beyond: bool, at: u64) {
        if !harm.is_there(at) || (harm.beyond_leaf && !beyond) {
            return;
        }
        let lost = if large { harm.loss.max(harm.large_loss) } else { harm.loss };
        self.loss += (1.0 - self.loss) * lost;
        let drifted = harm.drift_ns * ((at - harm.since) as f32 * 1e-9);
        self.delay_ns += harm.delay_ns + drifted;
        self.queue_ns += harm.queue_ns;
        self.rate_left *= harm.rate_left;
    }
}

/// One way of one packet, as far as places go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The spine that it takes; `None` below one leaf.
    pub(crate) spine: Option<usize>,
}

/// Number of a fault in the list, from 1; 0 for none.
type Mark = u8;

/// All that is broken.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    list: Vec<(Spot, Harm)>,
    spines: usize,
    endpoint_out: Vec<Mark>,
    endpoint_in: Vec<Mark>,
    leaf_out: Vec<Mark>,
    leaf_in: Vec<Mark>,
    /// By leaf, then spine.
    up: Vec<Mark>,
    down: Vec<Mark>,
    /// By pod, then spine.
    spine: Vec<Mark>,
    /// Those that need a look at both ends.
    others: Vec<Mark>,
}

impl Faults {
    pub(crate) fn new(topology: &Topology) -> Self {
        let layout = &topology.layout;
        let (ends, leaves, spines) = (topology.len(), layout.leaves, layout.spines);
        Self {
            list: Vec::new(),
            spines,
            endpoint_out: vec![0; ends],
            endpoint_in: vec![0; ends],
            leaf_out: vec![0; leaves],
            leaf_in: vec![0; leaves],
            up: vec![0; leaves * spines],
            down: vec![0; leaves * spines],
            spine: vec![0; layout.pods * spines],
            others: Vec::new(),
        }
    }

    pub(crate) fn list(&self) -> &[(Spot, Harm)] {
        &self.list
    }

    /// Breaks a place; of two faults at the very same one the later counts.
    pub(crate) fn add(&mut self, spot: Spot, harm: Harm, topology: &Topology) {
        self.list.push((spot, harm));
        let mark = Mark::try_from(self.list.len()).unwrap_or(Mark::MAX);
        let sends = |way| way != Way::In;
        let receives = |way| way != Way::Out;
        let set = |list: &mut [Mark], at: usize, wanted: bool| {
            if wanted {
                list[at] = mark;
            }
        };
        match spot {
            Spot::Endpoint(end, way) => {
                set(&mut self.endpoint_out, end, sends(way));
                set(&mut self.endpoint_in, end, receives(way));
            }
            Spot::Node(node) => {
                for end in topology.of_node(node) {
                    set(&mut self.endpoint_out, end, true);
                    set(&mut self.endpoint_in, end, true);
                }
            }
            Spot::Leaf(leaf, way) => {
                set(&mut self.leaf_out, leaf, sends(way));
                set(&mut self.leaf_in, leaf, receives(way));
            }
            Spot::Uplinks(leaf, way) => {
                for link in leaf * self.spines..(leaf + 1) * self.spines {
                    set(&mut self.up, link, sends(way));
                    set(&mut self.down, link, receives(way));
                }
            }
            Spot::Link(leaf, spine) => {
                set(&mut self.up, leaf * self.spines + spine, true);
                set(&mut self.down, leaf * self.spines + spine, true);
            }
            Spot::Spine(pod, spine) => set(&mut self.spine, pod * self.spines + spine, true),
            Spot::LeafPair(..)
            | Spot::LeafPairPath(..)
            | Spot::Pair(..)
            | Spot::PairPath(..)
            | Spot::Everything => self.others.push(mark),
        }
    }

    /// What a packet meets on its way.
    pub(crate) fn on(&self, route: Route, large: bool, at: u64, topology: &Topology) -> Hit {
        let mut hit = Hit::NONE;
        if self.list.is_empty() {
            return hit;
        }
        let (a, b) = (&topology.ends[route.from], &topology.ends[route.to]);
        let beyond = a.leaf != b.leaf;
        let mut meet = |mark: Mark| {
            if let Some((_, harm)) = usize::from(mark).checked_sub(1).and_then(|at| self.list.get(at)) {
                hit.add(harm, large, beyond, at);
            }
        };
        meet(self.endpoint_out[route.from]);
        meet(self.endpoint_in[route.to]);
        let (below_out, below_in) = (self.leaf_out[a.leaf], self.leaf_in[b.leaf]);
        meet(below_out);
        // A packet that stays below a leaf passes it once.
        if beyond || below_in != below_out {
            meet(below_in);
        }
        if let Some(spine) = route.spine {
            meet(self.up[a.leaf * self.spines + spine]);
            meet(self.down[b.leaf * self.spines + spine]);
            meet(self.spine[a.pod * self.spines + spine]);
            if b.pod != a.pod {
                meet(self.spine[b.pod * self.spines + spine]);
            }
        }
        for &mark in &self.others {
            let spot = self.list[usize::from(mark) - 1].0;
            if is_on(spot, route, (a.leaf, b.leaf)) {
                meet(mark);
            }
        }
        hit
    }
}

/// Does a packet between these leaves meet a place that is not on one of them?
fn is_on(spot: Spot, route: Route, leaves: (usize, usize)) -> bool {
    let along = |(x, y): (usize, usize), (a, b): (usize, usize), way: Way| {
        ((x, y) == (a, b) && way != Way::In) || ((x, y) == (b, a) && way != Way::Out)
    };
    let ends = (route.from, route.to);
    match spot {
        Spot::LeafPair(a, b, way) => along(leaves, (a, b), way),
        Spot::LeafPairPath(a, b, spine) => along(leaves, (a, b), Way::Both) && route.spine == Some(spine),
        Spot::Pair(a, b, way) => along(ends, (a, b), way),
        Spot::PairPath(a, b, spine) => along(ends, (a, b), Way::Both) && route.spine == Some(spine),
        Spot::Everything => true,
        Spot::Endpoint(..)
        | Spot::Node(_)
        | Spot::Leaf(..)
        | Spot::Uplinks(..)
        | Spot::Link(..)
        | Spot::Spine(..) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::{Layout, tests::layout};
    use super::*;

    /// Routes, of 8 nodes on 4 leaves with 2 spines, on which a fault at this place is met.
    fn met(spot: Spot, layout: &Layout) -> Vec<(usize, usize, Option<usize>)> {
        let topology = Topology::new(layout);
        let mut faults = Faults::new(&topology);
        faults.add(spot, Harm { loss: 1.0, ..Harm::default() }, &topology);
        let mut met = Vec::new();
        for from in 0..topology.len() {
            for to in (0..topology.len()).filter(|&to| to != from) {
                let same = topology.ends[from].leaf == topology.ends[to].leaf;
                let spines = if same { vec![None] } else { vec![Some(0), Some(1)] };
                for spine in spines {
                    let hit = faults.on(Route { from, to, spine }, false, 5, &topology);
                    if hit.loss > 0.0 {
                        met.push((from, to, spine));
                    }
                }
            }
        }
        met
    }

    #[test]
    fn each_place_is_met_on_its_own_ways_and_no_others() {
        let small = layout(8, 1, 4, 2);
        // 7 peers, of which one is below the same leaf and 6 are reached over either spine.
        let count = |spot| met(spot, &small).len();
        assert_eq!(count(Spot::Endpoint(0, Way::Both)), 2 * (1 + 6 * 2));
        assert!(met(Spot::Endpoint(0, Way::Out), &small).iter().all(|m| m.0 == 0));
        assert!(met(Spot::Endpoint(0, Way::In), &small).iter().all(|m| m.1 == 0));
        assert_eq!(count(Spot::Node(0)), count(Spot::Endpoint(0, Way::Both)));
        assert_eq!(count(Spot::Leaf(1, Way::Both)), 2 + 2 * 2 * 6 * 2);
        assert_eq!(count(Spot::Uplinks(1, Way::Both)), 2 * 2 * 6 * 2);
        assert_eq!(count(Spot::Uplinks(1, Way::Out)), 2 * 6 * 2);
        assert_eq!(count(Spot::Link(1, 0)), 2 * 2 * 6);
        assert!(met(Spot::Spine(0, 1), &small).iter().all(|m| m.2 == Some(1)));
        assert_eq!(count(Spot::Spine(0, 1)), 8 * 6);
        assert_eq!(count(Spot::LeafPair(0, 2, Way::Both)), 2 * 2 * 2 * 2);
        assert_eq!(count(Spot::LeafPairPath(0, 2, 1)), 2 * 2 * 2);
        assert_eq!(met(Spot::Pair(0, 5, Way::Out), &small), [(0, 5, Some(0)), (0, 5, Some(1))]);
        assert_eq!(met(Spot::PairPath(0, 5, 1), &small), [(0, 5, Some(1)), (5, 0, Some(1))]);
        assert_eq!(count(Spot::Everything), 8 * (1 + 6 * 2));
    }

    #[test]
    fn a_spine_of_one_pod_is_met_by_what_comes_from_or_goes_to_that_pod() {
        let pods = Layout { pods: 2, ..layout(8, 1, 4, 2) };
        let met = met(Spot::Spine(1, 0), &pods);
        assert!(met.iter().all(|m| m.2 == Some(0) && (m.0 >= 4 || m.1 >= 4)));
        assert!(
            met.contains(&(0, 4, Some(0)))
                && met.contains(&(4, 6, Some(0)))
                && !met.contains(&(0, 2, Some(0)))
        );
    }

    fn hit(harm: Harm, (from, to): (usize, usize), large: bool, at: u64) -> Hit {
        let topology = Topology::new(&layout(8, 1, 4, 2));
        let mut faults = Faults::new(&topology);
        faults.add(Spot::Endpoint(0, Way::Both), harm, &topology);
        let same = topology.ends[from].leaf == topology.ends[to].leaf;
        faults.on(Route { from, to, spine: (!same).then_some(1) }, large, at, &topology)
    }

    #[test]
    fn size_time_and_distance_decide_whether_it_hurts() {
        let second = 1_000_000_000;
        let hole = Harm { large_loss: 1.0, ..Harm::default() };
        assert_eq!((hit(hole, (0, 4), false, 1).loss, hit(hole, (0, 4), true, 1).loss), (0.0, 1.0));
        let flaps = Harm {
            loss: 1.0,
            since: second,
            comes_and_goes: Some((10 * second, second, 0)),
            ..Harm::default()
        };
        let lost = |at| hit(flaps, (4, 0), false, at).loss;
        assert_eq!([0, 1, 2, 10, 11, 12].map(|s| lost(s * second)), [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
        let beyond = Harm { loss: 1.0, beyond_leaf: true, ..Harm::default() };
        assert_eq!((hit(beyond, (0, 1), false, 1).loss, hit(beyond, (0, 4), false, 1).loss), (0.0, 1.0));
        let drifts = Harm { drift_ns: 2.0, since: second, ..Harm::default() };
        assert!((hit(drifts, (0, 4), false, 11 * second).delay_ns - 20.0).abs() < 0.01);
    }
}
