//! What a sweep is going to be, before it begins: which pairs, in how many rounds, how long, and how many bytes.
//!
//! Time is that of the busiest part: an endpoint has one probe at a time, a machine one that spins or a few that stream, a leaf's uplinks
//! a few streams, the coordinator so many pairs at once. How long one probe takes is what probes have taken here so far; before there
//! are any, what [`FIRST_GUESS`] says.

use super::commands::CommandError;
use super::order::{KEPT_ENDPOINTS_MAX, SweepOrder, check};
use super::seats::{CrossRail, Seat, Wanted};
use super::settings::Settings;
use super::sweep::{Pass, ways};
use super::turns::{Scheme, Turns};
use super::work::Origin;
use super::{Coordinator, caps};
use rdmascope_localise::{EndpointIndex, PlaceIndex, Places};
use rdmascope_model::{Load, Metric, Now, ProbeSpec, Urgency};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a probe of a metric takes from lease to result where none was run yet: making and connecting queue pairs and four messages
/// over the control network are 10 ms; 1,100 round trips of 5 µs are 6 ms, a stream has 220 ms, 200 pings at 2 ms each way have 400 ms.
const FIRST_GUESS: [(Metric, Duration); 3] = [
    (Metric::Latency, Duration::from_millis(16)),
    (Metric::Bandwidth, Duration::from_millis(230)),
    (Metric::Ping, Duration::from_millis(410)),
];
/// What a sweep is going to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepPlan {
    /// Endpoints in it.
    pub endpoints: usize,
    /// Endpoints that are left out because their nodes are in maintenance.
    pub in_maintenance: usize,
    /// Endpoints in it of which no rail is known: they are probed with all rails.
    pub without_rail: usize,
    /// Endpoints in it of which no leaf is known.
    pub without_leaf: usize,
    /// Rails among them.
    pub rails: usize,
    /// Leaves among them.
    pub leaves: usize,
    /// Ordered pairs.
    pub pairs: u64,
    /// Probes, over all metrics and relabellings.
    pub probes: u64,
    /// Rounds of pairs that share no endpoint, over all of them.
    pub rounds: u64,
    /// Bytes that it sends as far as rates are known; a stream on a port whose rate is not known counts with all that it may send.
    pub bytes: u64,
    /// How long it takes where no probe fails.
    pub time: Duration,
    /// Relabellings.
    pub passes: u32,
    /// What decides which pairs are measured side by side.
    pub seed: u64,
}

/// A sweep that can begin.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) seats: Vec<Seat>,
    pub(super) scheme: Scheme,
    pub(super) specs: Vec<ProbeSpec>,
    pub(super) class: Option<u8>,
    pub(super) urgency: Urgency,
    pub(super) origin: Origin,
    pub(super) named: bool,
    /// What it finds is kept with it.
    pub(super) keeps: bool,
    /// Set where a pass of pings carries it out.
    pub(super) pass: Option<Pass>,
    pub(super) plan: SweepPlan,
}

impl Coordinator {
    /// What a sweep would be if it began now.
    ///
    /// # Errors
    /// A node or device is unknown, there are fewer than two endpoints, or more is asked for than is allowed.
    pub fn plan_sweep(&mut self, order: &SweepOrder, now: Now) -> Result<SweepPlan, CommandError> {
        self.look_at_places_now(now.mono);
        self.prepare(order).map(|prepared| prepared.plan)
    }

    pub(super) fn prepare(&self, order: &SweepOrder) -> Result<Prepared, CommandError> {
        check(order, &self.settings)?;
        let (chosen, in_maintenance) = self.chosen(order)?;
        let seats = self.by_name(&chosen);
        for fabric in seats.iter().map(|seat| seat.fabric).collect::<BTreeSet<_>>() {
            super::ask::check_class(order.class, fabric)?;
        }
        if order.keeps() && seats.len() > KEPT_ENDPOINTS_MAX {
            let text = format!(
                "a sweep in another class or with other messages is for {KEPT_ENDPOINTS_MAX} endpoints at most, and these are {}: \
                 name fewer nodes",
                seats.len()
            );
            return Err(CommandError::Conflict(text));
        }
        let cross_rail = if order.cross_rail { CrossRail::All } else { CrossRail::Never };
        let wanted = Wanted { cross_rail, unless_pinged: false, quick: order.quick };
        let passes = if order.quick.is_some() { 1 } else { order.passes.max(1) };
        let seed = order.seed.unwrap_or(self.work.turn);
        let seed = if order.quick.is_some() { seed.max(1) } else { seed };
        let mut prepared = Prepared {
            seats,
            scheme: Scheme { wanted, passes, seed },
            specs: order.metrics.iter().map(|metric| order.spec(*metric)).collect(),
            class: order.class,
            urgency: if order.drained { Urgency::Drained } else { Urgency::Operator },
            origin: Origin::Sweep,
            named: order.nodes.is_some(),
            keeps: order.keeps(),
            pass: None,
            plan: SweepPlan { in_maintenance, ..SweepPlan::default() },
        };
        match self.pass_for(order, &prepared.seats) {
            Some((pass, plan)) => {
                let of_seats = self.of_seats(&prepared);
                (prepared.pass, prepared.plan) = (
                    Some(pass),
                    SweepPlan {
                        pairs: plan.pairs,
                        probes: plan.probes,
                        rounds: plan.rounds,
                        bytes: plan.bytes,
                        time: plan.time,
                        ..of_seats
                    },
                );
            }
            None => self.work_out(&mut prepared),
        }
        let most = self.settings.sweep_bytes_max;
        if prepared.plan.bytes > most {
            let text = format!(
                "this sweep would send {} GB, and coordinator.sweep.gigabytes_max allows {}: name fewer nodes, or ask for a quick one",
                prepared.plan.bytes / 1_000_000_000,
                most / 1_000_000_000
            );
            return Err(CommandError::Conflict(text));
        }
        Ok(prepared)
    }

    /// The endpoints of a sweep, and how many are left out because of a maintenance.
    fn chosen(&self, order: &SweepOrder) -> Result<(Vec<EndpointIndex>, usize), CommandError> {
        let nodes: Option<BTreeSet<&str>> =
            order.nodes.as_ref().map(|nodes| nodes.iter().map(String::as_str).collect());
        let unknown = nodes.iter().flatten().find(|node| self.members.agent(node).is_none());
        if let Some(unknown) = unknown {
            return Err(self.unknown_node(unknown));
        }
        let here = || self.members.endpoints().filter(|(_, endpoint)| endpoint.gone_since.is_none());
        let devices: BTreeSet<&str> = order.devices.iter().map(String::as_str).collect();
        let known: BTreeSet<&str> = here().map(|(_, e)| e.info.name.device.as_str()).collect();
        if let Some(unknown) = devices.iter().find(|device| !known.contains(*device)) {
            let known: Vec<_> = known.into_iter().take(20).collect();
            let text = format!("no RDMA device '{unknown}'; there are: {}", known.join(", "));
            return Err(CommandError::Unknown(text));
        }
        let (mut chosen, mut in_maintenance) = (Vec::new(), 0);
        for (index, endpoint) in here() {
            let name = &endpoint.info.name;
            let named = nodes.as_ref().is_none_or(|nodes| nodes.contains(name.node.as_str()));
            let meant = named && (devices.is_empty() || devices.contains(name.device.as_str()));
            if meant && nodes.is_none() && self.health.maintenance_of(&name.node).is_some() {
                in_maintenance += 1;
            } else if meant {
                chosen.push(index);
            }
        }
        if chosen.len() < 2 {
            let silenced = if in_maintenance > 0 {
                format!(", and {in_maintenance} in maintenance (name their nodes to probe them all the same)")
            } else {
                String::new()
            };
            let text = format!("a sweep needs at least two endpoints; there are {}{silenced}", chosen.len());
            return Err(CommandError::Conflict(text));
        }
        Ok((chosen, in_maintenance))
    }

    /// Their seats in the order of their names, and all numbers in it, too: who was heard of first must not change which pairs a seed puts
    /// side by side.
    fn by_name(&self, chosen: &[EndpointIndex]) -> Vec<Seat> {
        let mut seats = self.seats(chosen);
        seats.sort_by(|a, b| self.matrix.name(a.index).cmp(self.matrix.name(b.index)));
        let Places { nodes, rails, leaves, .. } = self.places();
        let ranks = [nodes, rails, leaves].map(|names| ranks(names));
        let rank = |kind: usize, at: PlaceIndex| ranks[kind].get(at.0 as usize).copied().unwrap_or(at);
        for seat in &mut seats {
            seat.node = rank(0, seat.node);
            seat.rail = seat.rail.map(|rail| rank(1, rail));
            seat.leaf = seat.leaf.map(|leaf| rank(2, leaf));
        }
        seats
    }

    pub(super) fn seats(&self, indices: &[EndpointIndex]) -> Vec<Seat> {
        let seat = |&index: &EndpointIndex| {
            let (place, info) = (self.places().place(index)?, &self.members.endpoint(index)?.info);
            Some(Seat {
                index,
                node: place.node,
                leaf: place.leaf,
                rail: place.rail,
                fabric: info.fabric,
                pinged: info.datagrams.is_some(),
            })
        };
        indices.iter().filter_map(seat).collect()
    }

    /// What a plan says of the endpoints.
    fn of_seats(&self, order: &Prepared) -> SweepPlan {
        let Prepared { seats, scheme, .. } = order;
        let distinct = |of: &dyn Fn(&Seat) -> Option<PlaceIndex>| {
            seats.iter().filter_map(of).collect::<BTreeSet<_>>().len()
        };
        SweepPlan {
            endpoints: seats.len(),
            without_rail: seats.iter().filter(|seat| seat.rail.is_none()).count(),
            without_leaf: seats.iter().filter(|seat| seat.leaf.is_none()).count(),
            rails: distinct(&|seat| seat.rail),
            leaves: distinct(&|seat| seat.leaf),
            passes: scheme.passes,
            seed: scheme.seed,
            in_maintenance: order.plan.in_maintenance,
            ..SweepPlan::default()
        }
    }

    /// Fills in the plan.
    fn work_out(&self, order: &mut Prepared) {
        let mut plan = self.of_seats(order);
        let Prepared { seats, scheme, .. } = &*order;
        let turns = Turns::new(seats, scheme, 1);
        let passes = if scheme.wanted.quick.is_some() { 1 } else { u64::from(scheme.passes) };
        let loads = self.loads(&turns);
        plan.pairs = 2 * loads.pairs;
        for spec in &order.specs {
            let ways = u64::from(ways(spec));
            plan.rounds += turns.rounds() * ways;
            plan.probes += loads.pairs * passes * ways;
            plan.bytes += self.bytes_of(&turns, spec) * passes * ways;
            let (turns, way) = (passes * ways, self.time_of(spec, order.urgency, order.class));
            plan.time += loads.time(spec, order.urgency, &self.settings, way, turns);
        }
        order.plan = plan;
    }

    /// How many pairs meet at each part of the cluster.
    fn loads(&self, turns: &Turns) -> Loads {
        let mut loads = Loads::default();
        let seats = turns.seats();
        let machine = |seat: &Seat| {
            let agent = self.members.agent(&self.matrix.name(seat.index).node);
            agent.map(|agent| agent.machine.as_str())
        };
        let machines: Vec<_> = seats.iter().map(machine).collect();
        let mut at_machine: BTreeMap<&str, u64> = BTreeMap::new();
        let mut across: BTreeMap<PlaceIndex, u64> = BTreeMap::new();
        let mut at_endpoint = vec![0_u64; seats.len()];
        turns.for_each_pair(|a, b| {
            let (a, b) = (a as usize, b as usize);
            loads.pairs += 1;
            at_endpoint[a] += 1;
            at_endpoint[b] += 1;
            let shared = machines[a] == machines[b];
            for machine in [machines[a], machines[b].filter(|_| !shared)].into_iter().flatten() {
                *at_machine.entry(machine).or_default() += 1;
            }
            if seats[a].leaf.is_none() || seats[a].leaf != seats[b].leaf {
                for leaf in [seats[a].leaf, seats[b].leaf].into_iter().flatten() {
                    *across.entry(leaf).or_default() += 1;
                }
            }
        });
        loads.endpoint = at_endpoint.into_iter().max().unwrap_or(0);
        loads.machine = at_machine.into_values().max().unwrap_or(0);
        loads.leaf = across.into_values().max().unwrap_or(0);
        loads
    }

    /// How long one probe takes.
    fn time_of(&self, spec: &ProbeSpec, urgency: Urgency, class: Option<u8>) -> Duration {
        let metric = spec.metric().filter(|_| class.unwrap_or(0) == 0);
        let told = metric.and_then(|metric| self.work.pace(metric));
        let guess = FIRST_GUESS.iter().find(|(of, _)| Some(*of) == spec.metric());
        let took = told.or(guess.map(|(_, time)| *time)).unwrap_or_default();
        // On nodes that may be working a port rests after each stream.
        match spec.load() {
            Load::Streams if urgency != Urgency::Drained => took.max(caps::LIVE_REST),
            _ => took,
        }
    }

    /// What one way of all pairs sends, once.
    fn bytes_of(&self, turns: &Turns, spec: &ProbeSpec) -> u64 {
        let seats = turns.seats();
        let rate = |at: u32| {
            let place = self.places().place(seats[at as usize].index);
            place.and_then(|place| place.rate_bps)
        };
        let mut bytes = 0_u64;
        turns.for_each_pair(|a, b| {
            let slower = rate(a).zip(rate(b)).map(|(a, b)| a.min(b));
            bytes = bytes.saturating_add(caps::usual_bytes(spec, slower));
        });
        bytes
    }
}

/// The most that meets at one part of the cluster, in pairs.
#[derive(Clone, Copy, Debug, Default)]
struct Loads {
    pairs: u64,
    endpoint: u64,
    machine: u64,
    /// Across the uplinks of one leaf.
    leaf: u64,
}

impl Loads {
    /// How long it takes when every pair has so many turns of this length.
    fn time(
        &self,
        spec: &ProbeSpec,
        urgency: Urgency,
        settings: &Settings,
        turn: Duration,
        turns: u64,
    ) -> Duration {
        let (at_machine, at_leaf) = match spec.load() {
            Load::Spins => (self.machine, 0),
            // A port that rests holds nobody else up.
            Load::Streams if urgency != Urgency::Drained => (0, 0),
            Load::Streams => (
                self.machine.div_ceil(u64::from(settings.streams_per_node.max(1))),
                self.leaf.div_ceil(u64::from(settings.streams_per_leaf.max(1))),
            ),
            Load::Light => (0, 0),
        };
        let at_once = self.pairs.div_ceil(u64::from(settings.pairs_at_once.max(1)));
        let most = self.endpoint.max(at_machine).max(at_leaf).max(at_once).saturating_mul(turns);
        turn.saturating_mul(u32::try_from(most).unwrap_or(u32::MAX))
    }
}

/// The place of each name in their order.
fn ranks(names: &[String]) -> Vec<PlaceIndex> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|at| &names[*at]);
    let mut ranks = vec![PlaceIndex(0); names.len()];
    for (rank, at) in (0..).zip(order) {
        ranks[at] = PlaceIndex(rank);
    }
    ranks
}
