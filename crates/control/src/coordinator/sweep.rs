//! One sweep: what it set out to do, how far it is, and what comes next in it.

use super::found::Found;
use super::plan::{Prepared, SweepPlan};
use super::seats::{Seat, Wanted};
use super::turns::{Turn, Turns};
use super::work::{Ending, Job, Origin};
use rdmascope_localise::EndpointIndex;
use rdmascope_localise::pair::marks;
use rdmascope_model::{Manner, MeshSweep, Metric, Mono, Now, ProbeSpec, Urgency, Wall};
use std::collections::{BTreeSet, VecDeque};

/// A sweep over the pairs of the endpoints that were known when it began.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Its number, from 1.
    pub id: u64,
    /// What it measures, in this order.
    pub metrics: Vec<Metric>,
    /// Whether the nodes carry no job.
    pub drained: bool,
    /// Class of the packets, where somebody asked for one.
    pub class: Option<u8>,
    /// When it began.
    pub started_at: Wall,
    /// When its last probe ended.
    pub finished_at: Option<Wall>,
    /// Endpoints in it.
    pub endpoints: usize,
    /// Probes in all. A latency probe fills both directions of its pair.
    pub total: usize,
    /// Probes that ended, however.
    pub done: usize,
    /// Those of them that failed.
    pub failed: usize,
    /// Those of them that were not run.
    pub excluded: usize,
    /// What it set out to do.
    pub plan: SweepPlan,
    /// Bytes that its probes have sent so far.
    pub bytes_sent: u64,
    /// The bytes that it may send are used up: the rest is not run.
    pub out_of_bytes: bool,
    /// Endpoints that failed with everybody, twice: the rest of their pairs was not run.
    pub given_up: BTreeSet<EndpointIndex>,
    /// What it found of each pair, where that is no figure of the matrix. A later look at a pair stands behind an earlier one.
    pub found: Vec<Found>,
    /// Somebody ended it early.
    pub cancelled: bool,
    /// What it finds is kept with it.
    pub(super) keeps: bool,
    /// Somebody named its nodes: a maintenance does not keep them out.
    pub(super) named: bool,
    pub(super) bytes_max: u64,
    /// Bytes that running probes may send.
    pub(super) bytes_reserved: u64,
    pub(super) order: Prepared,
    specs: VecDeque<ProbeSpec>,
    /// Those of the metric that is measured now.
    pub(super) turns: Option<(ProbeSpec, Turns)>,
    /// It is a pass of pings, and has no turns.
    pub(super) pass: Option<Pass>,
    pub(super) running: usize,
}

/// One pass of pings over everybody's book.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub(super) sweep: MeshSweep,
    pub(super) wanted: Wanted,
    /// Nothing more is to be expected then.
    pub(super) ends_by: Mono,
    pub(super) seats: Vec<Seat>,
    /// One bit for each ordered pair.
    pub(super) told: Vec<u64>,
}

impl Pass {
    /// True when the pair belongs to it and was not told of before.
    pub(super) fn tell(&mut self, source: EndpointIndex, target: EndpointIndex) -> bool {
        let place = |index| self.seats.binary_search_by_key(&index, |seat| seat.index).ok();
        let Some((source, target)) = place(source).zip(place(target)) else { return false };
        if !self.wanted.wants(&self.seats[source], &self.seats[target]) {
            return false;
        }
        let at = source * self.seats.len() + target;
        let Some(word) = self.told.get_mut(at / 64) else { return false };
        let new = *word & 1 << (at % 64) == 0;
        *word |= 1 << (at % 64);
        new
    }
}

impl Sweep {
    pub(super) fn new(id: u64, order: Prepared, bytes_max: u64, now: Now) -> Self {
        let mut sweep = Self {
            id,
            metrics: order.specs.iter().filter_map(ProbeSpec::metric).collect(),
            drained: order.urgency == Urgency::Drained,
            class: order.class,
            started_at: now.wall,
            finished_at: None,
            endpoints: order.seats.len(),
            total: usize::try_from(order.plan.probes).unwrap_or(usize::MAX),
            done: 0,
            failed: 0,
            excluded: 0,
            plan: order.plan.clone(),
            bytes_sent: 0,
            out_of_bytes: false,
            given_up: BTreeSet::new(),
            found: Vec::new(),
            cancelled: false,
            keeps: order.keeps,
            named: order.named,
            bytes_max,
            bytes_reserved: 0,
            specs: if order.pass.is_some() { VecDeque::new() } else { order.specs.iter().copied().collect() },
            turns: None,
            pass: order.pass.clone(),
            running: 0,
            order,
        };
        sweep.begin_metric();
        if sweep.order.origin == Origin::Background {
            let open = sweep.turns.as_ref().map_or(0, |(_, turns)| turns.open());
            sweep.total = usize::try_from(open).unwrap_or(usize::MAX);
        }
        sweep
    }

    /// Goes on to the next metric; false when there is none.
    fn begin_metric(&mut self) -> bool {
        self.turns = self
            .specs
            .pop_front()
            .map(|spec| (spec, Turns::new(&self.order.seats, &self.order.scheme, ways(&spec))));
        self.turns.is_some()
    }

    pub(super) fn job(&self, spec: ProbeSpec, turns: &Turns, turn: Turn) -> Job {
        let [source, target] = [turn.source, turn.target].map(|place| turns.seats()[place as usize]);
        let Prepared { class, urgency, origin, .. } = self.order;
        let manner = Manner { marks: marks(class, source.fabric), ..Manner::default() };
        Job { source: source.index, target: target.index, spec, manner, urgency, origin }
    }

    /// Ends it early: nothing begins any more. False when it is over already.
    pub(super) fn cancel(&mut self, now: Now) -> bool {
        if self.finished_at.is_some() {
            return false;
        }
        let left = self.total.saturating_sub(self.done).saturating_sub(self.running);
        self.done += left;
        self.excluded += left;
        self.cancelled = true;
        self.specs.clear();
        (self.turns, self.pass) = (None, None);
        if self.running == 0 {
            self.finished_at = Some(now.wall);
        }
        true
    }

    /// Probes that run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    pub(super) fn ended(&mut self, ending: Ending) {
        self.running -= 1;
        self.done += 1;
        match ending {
            Ending::Measured => {}
            Ending::Failed => self.failed += 1,
            Ending::Excluded => self.excluded += 1,
        }
    }

    /// Goes on where nothing runs and nothing can begin any more: with those that were set aside, then with the next metric, then it is
    /// over. Answers whether there is something to begin.
    pub(super) fn step(&mut self, now: Now) -> bool {
        if self.running > 0 || self.finished_at.is_some() || self.pass.is_some() {
            return false;
        }
        if let Some((_, turns)) = &mut self.turns {
            if turns.open() > 0 {
                if turns.goes_on() {
                    return false;
                }
                if turns.bring_back() {
                    return true;
                }
            }
            // Whoever was given up has pairs that were not run.
            let left = usize::try_from(turns.open()).unwrap_or(usize::MAX);
            self.done += left;
            self.excluded += left;
            self.given_up.extend(turns.given_up());
        }
        if self.begin_metric() {
            return true;
        }
        self.finished_at = Some(now.wall);
        false
    }
}

/// Latency and pings go both ways in one probe; bandwidth is one probe for each direction.
pub(super) fn ways(spec: &ProbeSpec) -> u32 {
    if spec.fills_both() { 1 } else { 2 }
}
