//! What is to be probed: operators' runs first, then an operator's sweep, then the continuous one.

use super::rounds;
use super::runs::Runs;
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{LatencySpec, Manner, Metric, Mono, Now, ProbeSpec, Urgency, Wall};
use std::collections::VecDeque;

/// For whom a job is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// An operator's run: its number, and which of its measurements.
    Run(u64, usize),
    /// An operator's sweep.
    Sweep,
    /// The continuous sweep.
    Background,
}

/// One pair to be probed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) source: EndpointIndex,
    pub(super) target: EndpointIndex,
    pub(super) spec: ProbeSpec,
    pub(super) manner: Manner,
    pub(super) urgency: Urgency,
    pub(super) origin: Origin,
}

impl Job {
    /// The matrix that its result goes to; `None` for what only a report shows.
    pub(super) fn cell(&self) -> Option<Metric> {
        self.spec.cell(&self.manner, self.urgency)
    }

    /// Agents of every version can do it.
    pub(super) fn is_ordinary(&self) -> bool {
        self.manner == Manner::default()
            && matches!(self.spec, ProbeSpec::Latency(_) | ProbeSpec::Bandwidth(_))
    }
}

/// How a job ended, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Measured,
    Failed,
    Excluded,
}

/// A sweep over all pairs of the endpoints that were known when it began.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Its number, from 1.
    pub id: u64,
    /// What it measures, in this order.
    pub metrics: Vec<Metric>,
    /// Whether the nodes carry no job.
    pub drained: bool,
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
    /// Most bytes that it may send.
    pub bytes_max: u64,
    /// Jobs that may start now, and behind them those of the later metrics, which wait for a quiet fabric.
    pending: VecDeque<Job>,
    later: VecDeque<VecDeque<Job>>,
    running: usize,
}

impl Sweep {
    fn new(id: u64, endpoints: &[EndpointIndex], jobs: Vec<VecDeque<Job>>, now: Now) -> Self {
        let mut later: VecDeque<_> = jobs.into();
        let all = || later.iter().flatten();
        let mut metrics: Vec<_> = all().filter_map(Job::cell).collect();
        metrics.dedup();
        let bytes = |spec: &ProbeSpec| match spec {
            ProbeSpec::Latency(s) => 2 * u64::from(s.message_bytes) * u64::from(s.samples + s.warmup),
            ProbeSpec::Bandwidth(s) => s.bytes_max,
            // A path MTU is at most 4096 bytes, and each ping is answered.
            ProbeSpec::Pings(s) => 2 * (64 + 4_096) * u64::from(s.count) * u64::from(s.labels),
            ProbeSpec::Echo(s) => 2 * u64::from(s.payload_bytes) * u64::from(s.count),
        };
        Self {
            id,
            drained: all().any(|job| job.urgency == Urgency::Drained),
            started_at: now.wall,
            finished_at: None,
            endpoints: endpoints.len(),
            total: all().count(),
            done: 0,
            failed: 0,
            excluded: 0,
            bytes_max: all().map(|job| bytes(&job.spec)).sum(),
            pending: later.pop_front().unwrap_or_default(),
            later,
            running: 0,
            metrics,
        }
    }

    fn is_over(&self) -> bool {
        self.pending.is_empty() && self.later.is_empty() && self.running == 0
    }

    fn ended(&mut self, ending: Ending, now: Now) {
        self.running -= 1;
        self.done += 1;
        match ending {
            Ending::Measured => {}
            Ending::Failed => self.failed += 1,
            Ending::Excluded => self.excluded += 1,
        }
        if self.pending.is_empty() && self.running == 0 {
            self.pending = self.later.pop_front().unwrap_or_default();
        }
        if self.is_over() {
            self.finished_at = Some(now.wall);
        }
    }
}

/// All that waits or was done.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) runs: Runs,
    sweep: Option<Sweep>,
    background: Option<Sweep>,
    background_rests_until: Mono,
    sweeps_started: u64,
    turn: u32,
}

impl Work {
    /// The operator's sweep that runs or was the last to run.
    pub(super) fn sweep(&self) -> Option<&Sweep> {
        self.sweep.as_ref()
    }

    /// The continuous sweep, while one runs.
    pub(super) fn background(&self) -> Option<&Sweep> {
        self.background.as_ref()
    }

    pub(super) fn operator_sweep_runs(&self) -> bool {
        self.sweep.as_ref().is_some_and(|sweep| sweep.finished_at.is_none())
    }

    /// Begins an operator's sweep; the metrics are measured one after another.
    pub(super) fn start_sweep(
        &mut self,
        endpoints: &[EndpointIndex],
        metrics: &[Metric],
        urgency: Urgency,
        now: Now,
    ) -> u64 {
        self.sweeps_started += 1;
        self.turn = self.turn.wrapping_add(1);
        let jobs = metrics.iter().map(|&metric| {
            let spec = ProbeSpec::usual(metric);
            self.all_pairs(endpoints, spec, urgency, Origin::Sweep)
        });
        let mut sweep = Sweep::new(self.sweeps_started, endpoints, jobs.collect(), now);
        if sweep.is_over() {
            sweep.finished_at = Some(now.wall);
        }
        self.sweep = Some(sweep);
        self.sweeps_started
    }

    /// Begins a continuous sweep over the wanted pairs.
    pub(super) fn start_background(
        &mut self,
        endpoints: &[EndpointIndex],
        spec: LatencySpec,
        wanted: impl Fn(EndpointIndex, EndpointIndex) -> bool,
        now: Now,
    ) {
        self.turn = self.turn.wrapping_add(1);
        let mut jobs =
            self.all_pairs(endpoints, ProbeSpec::Latency(spec), Urgency::Background, Origin::Background);
        jobs.retain(|job| wanted(job.source, job.target));
        self.background = Some(Sweep::new(0, endpoints, vec![jobs], now));
    }

    /// The continuous sweep may begin: none runs, and the pause since the last one is over.
    pub(super) fn background_is_due(&self, now: Mono) -> bool {
        self.background.is_none() && now >= self.background_rests_until
    }

    pub(super) fn background_rests_until(&self) -> Option<Mono> {
        self.background.is_none().then_some(self.background_rests_until)
    }

    /// The queues of sweeps that may be served now, the most urgent first. The continuous sweep rests while an operator waits.
    pub(super) fn queues(&self, background: bool) -> Vec<Origin> {
        let mut queues = vec![Origin::Sweep];
        if background && !self.runs.wait() && !self.operator_sweep_runs() {
            queues.push(Origin::Background);
        }
        queues
    }

    /// A queue's waiting jobs.
    pub(super) fn pending(&mut self, queue: Origin) -> Option<&mut VecDeque<Job>> {
        match queue {
            Origin::Run(..) => None,
            Origin::Sweep => self.sweep.as_mut().map(|sweep| &mut sweep.pending),
            Origin::Background => self.background.as_mut().map(|sweep| &mut sweep.pending),
        }
    }

    /// A job was taken from its queue.
    pub(super) fn taken(&mut self, origin: Origin) {
        match origin {
            Origin::Run(..) => {}
            Origin::Sweep => self.sweep.iter_mut().for_each(|sweep| sweep.running += 1),
            Origin::Background => self.background.iter_mut().for_each(|sweep| sweep.running += 1),
        }
    }

    /// A job that was taken has ended.
    pub(super) fn ended(&mut self, origin: Origin, ending: Ending, rest: std::time::Duration, now: Now) {
        match origin {
            Origin::Run(..) => {}
            Origin::Sweep => self.sweep.iter_mut().for_each(|sweep| sweep.ended(ending, now)),
            Origin::Background => {
                let Some(sweep) = &mut self.background else { return };
                sweep.ended(ending, now);
                if sweep.is_over() {
                    self.background = None;
                    self.background_rests_until = now.mono.after(rest);
                }
            }
        }
    }

    /// Latency and pings go both ways in one probe; bandwidth is one probe for each direction, all of one direction first.
    fn all_pairs(
        &self,
        endpoints: &[EndpointIndex],
        spec: ProbeSpec,
        urgency: Urgency,
        origin: Origin,
    ) -> VecDeque<Job> {
        let count = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
        let at = |i: u32| endpoints[i as usize];
        let job = |source, target| Job { source, target, spec, manner: Manner::default(), urgency, origin };
        let mut jobs: VecDeque<_> = rounds::pairs(count, self.turn).map(|(a, b)| job(at(a), at(b))).collect();
        if !spec.fills_both() {
            jobs.extend(rounds::pairs(count, self.turn).map(|(a, b)| job(at(b), at(a))));
        }
        jobs
    }
}
