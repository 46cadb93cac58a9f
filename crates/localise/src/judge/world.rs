//! A made-up cluster for the tests: it fills a matrix as the mesh would, breaks, and measures again what the judge asks for.

pub(super) use super::world_fault::Fault;
use super::world_random::{Random, mix};
use super::{Input, Judge, Judged, Told};
use crate::judge::layout::Layout;
use crate::{
    Change, Component, EndpointIndex, Incident, IncidentState, Incidents, Matrix, Measured, Names,
    PingFigures, Place, PlaceIndex, Places, Spread, Way, ping_failure,
};
use rdmascope_model::{
    BandwidthStats, Cause, CounterDelta, EndpointName, Failure, LabelResult, LatencyStats, Metric,
    PackedPings, PingCounts, Side, StampClock, Step, Wall,
};
use std::time::Duration;

pub(super) const START: u64 = 1_700_000_000_000;
const LARGE: u32 = 4_096;

pub(super) struct World {
    pub(super) matrix: Matrix,
    pub(super) places: Places,
    pub(super) now_ms: u64,
    pub(super) random: Random,
    pub(super) faults: Vec<Fault>,
    pub(super) told: Vec<Told>,
    pub(super) silenced: Vec<bool>,
    pub(super) counted_from: Vec<Wall>,
    pub(super) made_of: Vec<u64>,
    pub(super) ceilings: Vec<Option<u64>>,
    pub(super) judge: Judge,
    pub(super) incidents: Incidents,
    pub(super) retests: usize,
    /// Loss without any fault.
    pub(super) noise_loss: f64,
    /// Deviation of figures in log space, and the share of them that are up to three times as large.
    pub(super) noise: (f64, f64),
    pub(super) batch: u32,
    /// How long a host may stand still and lose nothing.
    pub(super) buffers_last: Duration,
    layout: Layout,
    turn: usize,
    next_batch: u64,
    next_look: u64,
    /// Pairs to be measured again, and when that is over.
    waiting: Vec<(u64, EndpointIndex, EndpointIndex, Metric)>,
    pub(super) opened: Vec<(u64, Incident)>,
}

impl World {
    /// `nodes` with `rails` endpoints each, `per_leaf` nodes below each leaf of a rail.
    pub(super) fn new(seed: u64, nodes: usize, rails: usize, per_leaf: usize) -> Self {
        Self::in_order(seed, &(0..nodes).collect::<Vec<_>>(), rails, per_leaf)
    }

    /// The same, whose nodes came in this order: endpoints are numbered by it.
    pub(super) fn in_order(seed: u64, order: &[usize], rails: usize, per_leaf: usize) -> Self {
        let nodes = order.len();
        let mut matrix = Matrix::default();
        let (mut of, leaves) = (Vec::new(), nodes.div_ceil(per_leaf));
        for &node in order {
            for rail in 0..rails {
                let name = format!("n{node}/mlx5_{rail}/1").parse::<EndpointName>().unwrap();
                matrix.intern(&name);
                let at = |index: usize| PlaceIndex(u32::try_from(index).unwrap());
                let leaf = rail * leaves + node / per_leaf;
                of.push(Some(Place {
                    node: at(node),
                    rail: (rails > 1).then(|| at(rail)),
                    leaf: Some(at(leaf)),
                    pod: None,
                    rate_bps: Some(400_000_000_000),
                }));
            }
        }
        let names = |what: &str, count: usize| (0..count).map(|i| format!("{what}{i}")).collect();
        let places = Places {
            of,
            nodes: names("n", nodes),
            rails: names("r", rails),
            leaves: names("l", leaves * rails),
            pods: Vec::new(),
        };
        let peers = (nodes * rails).saturating_sub(1).max(1);
        let batch = (1_200 / peers).clamp(9, 60) / 3 * 3;
        let layout = Layout::new(&places, &[], &[]);
        Self {
            matrix,
            places,
            now_ms: START,
            random: Random(seed ^ 0x5eed),
            faults: Vec::new(),
            told: Vec::new(),
            silenced: Vec::new(),
            counted_from: Vec::new(),
            made_of: Vec::new(),
            ceilings: Vec::new(),
            judge: Judge::default(),
            incidents: Incidents::default(),
            retests: 0,
            noise_loss: 2e-5,
            noise: (0.03, 0.01),
            batch: u32::try_from(batch).unwrap(),
            buffers_last: Duration::from_secs(1),
            layout,
            turn: 0,
            next_batch: 0,
            next_look: 0,
            waiting: Vec::new(),
            opened: Vec::new(),
        }
    }

    /// Takes changes of places into account.
    pub(super) fn moved(&mut self) {
        self.layout = Layout::new(&self.places, &[], &[]);
    }

    pub(super) fn len(&self) -> usize {
        self.places.of.len()
    }

    pub(super) fn coverage_ms(&self) -> u64 {
        (self.len() as u64 - 1) * u64::from(self.batch) * 100
    }

    fn lost(&mut self, from: usize, to: usize, large: bool, label: u64) -> bool {
        let mut arrives = 1.0 - self.noise_loss;
        for fault in &self.faults {
            let crossing = self.layout.crossing(fault.at, from, to);
            let hit = match fault.way {
                Way::Both => crossing.any(),
                Way::Out => crossing.out,
                Way::In => crossing.into,
            };
            let path = mix(mix(((from as u64) << 32) | to as u64) ^ label) % fault.of_paths;
            let now = fault.is_there(self.now_ms);
            if hit && now && path == 0 && (large || !fault.large_only) {
                arrives *= 1.0 - fault.loss;
            }
        }
        let draw = self.random.unit();
        draw >= arrives
    }

    fn factor(&self, a: usize, b: usize, of: impl Fn(&Fault) -> f64) -> f64 {
        let crosses = |fault: &&Fault| {
            let crossing = |from, to| self.layout.crossing(fault.at, from, to).any();
            let now = fault.is_there(self.now_ms);
            now && (crossing(a, b) || crossing(b, a))
        };
        self.faults.iter().filter(crosses).map(of).product()
    }

    fn figure(&mut self, base: f64) -> f64 {
        let (deviation, tail) = self.noise;
        let spike = if self.random.chance(tail) { 1.0 + 2.0 * self.random.unit() } else { 1.0 };
        base * (deviation * self.random.normal()).exp() * spike
    }

    fn base_ns(&self, a: usize, b: usize) -> f64 {
        if self.layout.leaf[a] == self.layout.leaf[b] { 2_500.0 } else { 5_000.0 }
    }

    /// One batch of pings, written into the matrix.
    pub(super) fn ping(&mut self, a: usize, b: usize, pings: u32) {
        let (mut sizes, mut by_label) = ([PingCounts::default(); 2], [(0_u32, 0_u32); 16]);
        let first = self.turn as u64;
        for at in 0..pings {
            let large = at % 3 == 2;
            let label = (first + u64::from(at / 3)) % 16;
            let counts = &mut sizes[usize::from(large)];
            counts.payload_bytes = if large { LARGE } else { 64 };
            counts.sent += 1;
            by_label[label as usize].0 += 1;
            let (there, back) = (self.lost(a, b, large, label), self.lost(b, a, large, label));
            let counts = &mut sizes[usize::from(large)];
            let lost = |known: &mut Option<u32>, by: bool| *known = Some(known.unwrap_or(0) + u32::from(by));
            lost(&mut counts.lost_forward, there);
            lost(&mut counts.lost_backward, back && !there);
            if !there && !back {
                counts.answered += 1;
                by_label[label as usize].1 += 1;
            }
        }
        let answered = sizes[0].answered + sizes[1].answered;
        let base = self.base_ns(a, b) * self.factor(a, b, |fault| fault.slower);
        let p50 = self.figure(base) as u64;
        let host = |world: &Self, at: usize| {
            let own =
                |fault: &&Fault| matches!(fault.at, Component::Node(node) if world.layout.node[at] == node.0);
            let now = |fault: &&Fault| fault.is_there(world.now_ms);
            let ns: u64 = world.faults.iter().filter(own).filter(now).map(|fault| fault.host_ns).sum();
            (answered > 0).then_some(Spread { p50_ns: 4_000 + ns, max_ns: 20_000 + 3 * ns })
        };
        // With no answer at all nobody tells in which direction; what the peer heard says it, if it heard anything.
        let heard = sizes.iter().any(|counts| counts.lost_forward.unwrap_or(0) < counts.sent);
        if answered == 0 && !heard {
            for counts in &mut sizes {
                (counts.lost_forward, counts.lost_backward) = (None, None);
            }
        }
        let (responder, prober) = (host(self, b), host(self, a));
        let worst = (0_u32..).zip(by_label).filter(|(_, (sent, _))| *sent > 0);
        let worst = worst.max_by(|(_, x), (_, y)| (x.0 - x.1).cmp(&(y.0 - y.1)));
        let figures = PingFigures {
            clock: StampClock::Software,
            small: sizes[0],
            large: sizes[1],
            network: (answered > 0).then_some(Spread { p50_ns: p50, max_ns: 2 * p50 }),
            large_p50_ns: None,
            responder,
            prober,
            host_delayed: 0,
            invalid_stamps: 0,
            stale: 0,
            worst_label: worst.map(|(label, (sent, answered))| LabelResult {
                flow_label: label + 1,
                sent,
                answered,
                p50_ns: None,
            }),
        };
        let [a, b] = [a, b].map(|at| EndpointIndex(at as u32));
        let at = Wall(self.now_ms);
        match ping_failure(&figures) {
            Some(_) => self.matrix.record_silence(a, b, at, PackedPings::pack(&figures), 0),
            None => self.matrix.record(a, b, at, &Measured::Ping(figures)),
        };
    }

    pub(super) fn stream(&mut self, a: usize, b: usize) {
        let own = |fault: &Fault, crossing: crate::judge::layout::Crossing| match fault.way {
            Way::Both => crossing.any(),
            Way::Out => crossing.out,
            Way::In => crossing.into,
        };
        let factor: f64 = (self.faults.iter())
            .filter(|fault| own(fault, self.layout.crossing(fault.at, a, b)))
            .map(|fault| fault.narrower)
            .product();
        let rate = [a, b].into_iter().filter_map(|at| self.places.of[at]?.rate_bps).min().unwrap() as f64;
        let (deviation, _) = self.noise;
        let noise = (-(deviation / 3.0 * self.random.normal()).abs()).exp();
        let average_bps = (rate * 0.978 * factor * noise) as u64;
        let stats = BandwidthStats {
            bytes: average_bps / 40,
            duration_ns: 200_000_000,
            average_bps,
            worst_window_bps: None,
            variation_permille: None,
            completions: 1_000,
        };
        let measured = Measured::Bandwidth(stats, CounterDelta { retransmits: None });
        let [a, b] = [a, b].map(|at| EndpointIndex(at as u32));
        self.matrix.record(a, b, Wall(self.now_ms), &measured);
    }

    pub(super) fn latency(&mut self, a: usize, b: usize) {
        let base = self.base_ns(a, b) / 2.0 * self.factor(a, b, |fault| fault.slower);
        let p50_ns = self.figure(base) as u64;
        let stats = LatencyStats {
            count: 1_000,
            min_ns: p50_ns,
            p50_ns,
            p90_ns: p50_ns,
            p99_ns: Some(2 * p50_ns),
            p999_ns: None,
            max_ns: 3 * p50_ns,
            host_delayed: 0,
        };
        let lost = self.lost(a, b, false, 0) && self.lost(a, b, false, 0);
        for (a, b) in [(a, b), (b, a)].map(|(a, b)| (EndpointIndex(a as u32), EndpointIndex(b as u32))) {
            let at = Wall(self.now_ms);
            if lost {
                let (cause, step, side) = (Cause::RetryExceeded, Step::Measure, Side::Source);
                let failure = Failure { cause, step, side, evidence: String::new() };
                self.matrix.fail(Metric::Latency, a, b, at, &failure);
            } else {
                let delta = CounterDelta { retransmits: None };
                self.matrix.record(a, b, at, &Measured::Latency(stats, delta));
            }
        }
    }

    /// Whoever has its turn pings the next one: one batch each.
    fn batches(&mut self) {
        let n = self.len();
        self.turn += 1;
        for a in 0..n {
            let b = (a + 1 + self.turn % (n - 1)) % n;
            if self.layout.is_pair(a, b) {
                self.ping(a, b, self.batch);
            }
        }
    }

    /// A whole coverage time before now, without faults.
    pub(super) fn warm_up(&mut self) {
        let faults = std::mem::take(&mut self.faults);
        let step = u64::from(self.batch) * 100;
        for _ in 0..self.len() - 1 {
            self.now_ms += step;
            self.batches();
        }
        self.faults = faults;
        for fault in &mut self.faults {
            fault.from_ms += self.now_ms;
            fault.until_ms = fault.until_ms.saturating_add(self.now_ms);
        }
    }

    /// Lets so many seconds pass: batches end, the judge looks every two seconds, and what it asks for is measured.
    pub(super) fn run(&mut self, seconds: u64) {
        let end = self.now_ms + seconds * 1_000;
        let step = u64::from(self.batch) * 100;
        if self.next_batch < self.now_ms {
            (self.next_batch, self.next_look) = (self.now_ms + step, self.now_ms + 2_000);
        }
        while self.now_ms < end {
            let retest = self.waiting.iter().map(|(at, ..)| *at).min().unwrap_or(u64::MAX);
            self.now_ms = self.next_batch.min(self.next_look).min(retest);
            let due: Vec<_> = self.waiting.iter().copied().filter(|(at, ..)| *at <= self.now_ms).collect();
            self.waiting.retain(|(at, ..)| *at > self.now_ms);
            for (_, a, b, metric) in due {
                let (a, b) = (a.0 as usize, b.0 as usize);
                match metric {
                    Metric::Ping => self.ping(a, b, 222),
                    Metric::Latency => self.latency(a, b),
                    Metric::Bandwidth => self.stream(a, b),
                }
            }
            if self.now_ms >= self.next_batch {
                self.batches();
                self.next_batch += step;
            }
            if self.now_ms >= self.next_look {
                self.look();
                self.next_look += 2_000;
            }
        }
    }

    pub(super) fn look(&mut self) -> Vec<Judged> {
        let input = Input {
            matrix: &self.matrix,
            places: &self.places,
            silenced: &self.silenced,
            counted_from: &self.counted_from,
            ceilings: &self.ceilings,
            made_of: &self.made_of,
            told: &self.told,
            now: Wall(self.now_ms),
            fresh_for: Duration::from_millis(3 * self.coverage_ms().max(20_000)),
            buffers_last: self.buffers_last,
        };
        let look = self.judge.look(&input);
        let names = Names { matrix: &self.matrix, places: &self.places };
        let changes = self.incidents.look(&look.judged, &names, Wall(self.now_ms));
        for (id, change) in changes {
            let incident = self.incidents.all().iter().find(|incident| incident.id == id).unwrap().clone();
            if change == Change::Opened {
                self.opened.push((self.now_ms, incident));
            }
        }
        for (at, retest) in look.retests.iter().enumerate() {
            let key = (retest.source, retest.target, retest.metric);
            if !self.waiting.iter().any(|&(_, a, b, metric)| (a, b, metric) == key) {
                let after = if retest.after.is_zero() { 1_000 } else { retest.after.as_millis() as u64 };
                let done = self.now_ms + 500 + after + 10 * at as u64;
                self.waiting.push((done, retest.source, retest.target, retest.metric));
                self.retests += 1;
            }
        }
        look.judged
    }

    /// Components of incidents that are open now.
    pub(super) fn open(&self) -> Vec<Vec<Component>> {
        let open = self.incidents.all().iter().filter(|incident| incident.state == IncidentState::Open);
        open.map(|incident| incident.suspect.components.clone()).collect()
    }
}
