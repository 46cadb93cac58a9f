//! What is to be probed: operators' runs first, then an operator's sweep, then the continuous one.

use super::found::Found;
use super::plan::Prepared;
use super::runs::Runs;
use super::settings::RETESTS_RUNNING_MAX;
use super::sweep::Sweep;
use super::turns::Turn;
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{Manner, MeshSweep, Metric, Mono, Now, ProbeSpec, Urgency};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// For whom a job is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// An operator's run: its number, and which of its measurements.
    Run(u64, usize),
    /// An operator's sweep.
    Sweep,
    /// A suspect's pair, measured again.
    Retest,
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

/// Who may have something to begin.
#[derive(Clone, Debug)]
pub(super) enum Stirred {
    Everybody,
    These(BTreeSet<EndpointIndex>),
}

/// How long probes have taken, for saying how long the next sweep will.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    probes: u32,
    mean: Duration,
}

impl Pace {
    /// The mean of the last ones weighs most: so many of them make it up.
    const LAST: u32 = 64;
    /// Fewer say nothing.
    const FEW: u32 = 20;

    fn took(&mut self, time: Duration) {
        self.probes = (self.probes + 1).min(Self::LAST);
        self.mean = (self.mean * (self.probes - 1) + time) / self.probes;
    }

    pub(super) fn mean(&self) -> Option<Duration> {
        (self.probes >= Self::FEW).then_some(self.mean)
    }
}

/// All that waits or was done.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    pub(super) runs: Runs,
    sweep: Option<Sweep>,
    background: Option<Sweep>,
    background_rests_until: Mono,
    /// Each with the time before which it is not to begin.
    retests: VecDeque<(Mono, Job)>,
    /// When the next of those may begin that were looked at too soon.
    pub(super) next_retest: Option<Mono>,
    retests_running: Vec<Job>,
    sweeps_started: u64,
    /// Sweeps of all kinds so far: each is another relabelling.
    pub(super) turn: u64,
    /// Continuous ones: each has another part of the pairs across rails.
    pub(super) background_turn: u32,
    /// Of latency, bandwidth and pings, in the order of [`Metric::ALL`].
    paces: [Pace; Metric::ALL.len()],
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

    fn of(&mut self, queue: Origin) -> Option<&mut Sweep> {
        match queue {
            Origin::Run(..) | Origin::Retest => None,
            Origin::Sweep => self.sweep.as_mut(),
            Origin::Background => self.background.as_mut(),
        }
    }

    /// Begins an operator's sweep; the metrics are measured one after another.
    pub(super) fn start_sweep(&mut self, order: Prepared, bytes_max: u64, now: Now) -> u64 {
        self.sweeps_started += 1;
        self.turn += 1;
        self.sweep = Some(Sweep::new(self.sweeps_started, order, bytes_max, now));
        self.sweeps_started
    }

    /// Begins a continuous sweep.
    pub(super) fn start_background(&mut self, order: Prepared, now: Now) {
        self.turn += 1;
        self.background_turn = self.background_turn.wrapping_add(1);
        self.background = Some(Sweep::new(0, order, u64::MAX, now));
    }

    /// Puts a suspect's pair into its queue, to begin at a time or later; false when it waits or runs already.
    pub(super) fn retest(&mut self, job: Job, at: Mono) -> bool {
        let waits = self.retests.iter().any(|(_, waiting)| *waiting == job);
        let new = !waits && !self.retests_running.contains(&job);
        if new {
            self.retests.push_back((at, job));
        }
        new
    }

    pub(super) fn retests_waiting(&self) -> usize {
        self.retests.len()
    }

    /// The job at a place in that queue, while no more run than may.
    pub(super) fn waiting_retest(&self, at: usize) -> Option<(Mono, Job)> {
        self.retests.get(at).copied().filter(|_| self.retests_running.len() < RETESTS_RUNNING_MAX)
    }

    /// It was taken from there.
    pub(super) fn take_retest(&mut self, at: usize) {
        self.retests_running.extend(self.retests.remove(at).map(|(_, job)| job));
    }

    /// The continuous sweep may begin: none runs, and the pause since the last one is over.
    pub(super) fn background_is_due(&self, now: Mono) -> bool {
        self.background.is_none() && now >= self.background_rests_until
    }

    pub(super) fn background_rests_until(&self) -> Option<Mono> {
        self.background.is_none().then_some(self.background_rests_until)
    }

    /// An operator waits for a probe or a sweep.
    pub(super) fn operator_waits(&self) -> bool {
        self.runs.wait() || self.operator_sweep_runs()
    }

    /// Who of a sweep may begin something, in the order in which they should be asked.
    pub(super) fn in_order(&mut self, queue: Origin, stirred: &Stirred) -> Vec<EndpointIndex> {
        let Some((_, turns)) = self.of(queue).and_then(|sweep| sweep.turns.as_mut()) else {
            return Vec::new();
        };
        let places = match stirred {
            Stirred::Everybody => turns.in_order(None),
            Stirred::These(some) => turns.in_order(Some(some)),
        };
        places.into_iter().map(|place| turns.seats()[place as usize].index).collect()
    }

    /// The next jobs of an endpoint in a sweep, the one that should be first first.
    pub(super) fn look(&mut self, queue: Origin, index: EndpointIndex) -> Vec<(Turn, Job)> {
        let Some(sweep) = self.of(queue) else { return Vec::new() };
        let Some((spec, mut turns)) = sweep.turns.take() else { return Vec::new() };
        let found = turns.place(index).map(|place| turns.look(place)).unwrap_or_default();
        let jobs = found.into_iter().map(|turn| (turn, sweep.job(spec, &turns, turn))).collect();
        sweep.turns = Some((spec, turns));
        jobs
    }

    /// Probes of a sweep that run now.
    pub(super) fn running(&mut self, queue: Origin) -> usize {
        self.of(queue).map_or(0, |sweep| sweep.running)
    }

    /// A job is taken from a sweep: it is run, or need not be.
    pub(super) fn taken(&mut self, queue: Origin, turn: Turn) {
        let Some(sweep) = self.of(queue) else { return };
        sweep.running += 1;
        sweep.turns.iter_mut().for_each(|(_, turns)| turns.take(turn));
    }

    /// How many bytes a probe of a sweep that usually sends `usual`, and `most` at the most, may send if it begins now: `Some(0)` when
    /// that is not enough, `None` when it depends on how many the running ones send.
    pub(super) fn may_send(&mut self, queue: Origin, usual: u64, most: u64) -> Option<u64> {
        let Some(sweep) = self.of(queue) else { return Some(most) };
        let left = sweep.bytes_max.saturating_sub(sweep.bytes_sent).saturating_sub(sweep.bytes_reserved);
        if left >= usual.min(most) {
            return Some(left.min(most));
        }
        let never = sweep.bytes_reserved == 0;
        sweep.out_of_bytes |= never;
        never.then_some(0)
    }

    /// A probe of a sweep begins, and may send so many bytes.
    pub(super) fn reserve(&mut self, origin: Origin, bytes: u64) {
        self.of(origin).into_iter().for_each(|sweep| sweep.bytes_reserved += bytes);
    }

    /// That probe has ended and has sent so many.
    pub(super) fn sent(&mut self, origin: Origin, reserved: u64, sent: u64) {
        let Some(sweep) = self.of(origin) else { return };
        sweep.bytes_reserved = sweep.bytes_reserved.saturating_sub(reserved);
        sweep.bytes_sent = sweep.bytes_sent.saturating_add(sent);
    }

    /// Ends the operator's sweep early; false when it is over already.
    pub(super) fn cancel_sweep(&mut self, now: Now) -> bool {
        self.sweep.as_mut().is_some_and(|sweep| sweep.cancel(now))
    }

    /// What a sweep found of a pair, where it keeps that.
    pub(super) fn found(&mut self, origin: Origin, found: Found) {
        self.of(origin).into_iter().filter(|sweep| sweep.keeps).for_each(|sweep| sweep.found.push(found));
    }

    /// A job that was taken has ended. True when that changes who of its sweep may be probed.
    pub(super) fn ended(&mut self, job: &Job, ending: Ending, lease: Option<Duration>) -> bool {
        if job.origin == Origin::Retest {
            self.retests_running.retain(|running| running != job);
            return false;
        }
        if let (Some(time), Ending::Measured, Some(metric)) = (lease, ending, job.cell())
            && let Some(at) = Metric::ALL.iter().position(|of| *of == metric)
            && job.urgency != Urgency::Background
        {
            self.paces[at].took(time);
        }
        let Some(sweep) = self.of(job.origin) else { return false };
        sweep.ended(ending);
        let told = match ending {
            // What is known beforehand costs nobody any time.
            Ending::Measured => true,
            Ending::Failed if lease.is_some() => false,
            Ending::Failed | Ending::Excluded => return false,
        };
        let turns = sweep.turns.as_mut();
        turns.is_some_and(|(_, turns)| turns.ended([job.source, job.target], told))
    }

    /// Goes on where nothing runs and nothing can begin any more. Answers whether there is something to begin.
    pub(super) fn step(&mut self, queue: Origin, rest: Duration, now: Now) -> bool {
        let Some(sweep) = self.of(queue) else { return false };
        let more = sweep.step(now);
        if queue == Origin::Background && sweep.finished_at.is_some() {
            self.background = None;
            self.background_rests_until = now.mono.after(rest);
        }
        more
    }

    /// What the pass that goes on asks of agents.
    pub(super) fn pass(&self) -> Option<MeshSweep> {
        self.sweep.as_ref()?.pass.as_ref().map(|pass| pass.sweep)
    }

    pub(super) fn pass_ends(&self) -> Option<Mono> {
        self.sweep.as_ref()?.pass.as_ref().map(|pass| pass.ends_by)
    }

    /// Pings of a pass were told of. True when it is over with them.
    pub(super) fn told_of(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        failed: bool,
        now: Now,
    ) -> bool {
        let Some(sweep) = &mut self.sweep else { return false };
        if !sweep.pass.as_mut().is_some_and(|pass| pass.tell(source, target)) {
            return false;
        }
        sweep.done += 1;
        sweep.failed += usize::from(failed);
        if sweep.done < sweep.total {
            return false;
        }
        sweep.pass = None;
        sweep.finished_at = Some(now.wall);
        true
    }

    /// Ends a pass whose time is over: what was not told by then was not measured. True when it did.
    pub(super) fn end_pass(&mut self, now: Now) -> bool {
        let Some(sweep) = &mut self.sweep else { return false };
        if sweep.pass.as_ref().is_none_or(|pass| pass.ends_by > now.mono) {
            return false;
        }
        sweep.excluded += sweep.total.saturating_sub(sweep.done);
        (sweep.done, sweep.pass, sweep.finished_at) = (sweep.total, None, Some(now.wall));
        true
    }

    /// How long a probe of a metric has taken.
    pub(super) fn pace(&self, metric: Metric) -> Option<Duration> {
        let at = Metric::ALL.iter().position(|of| *of == metric)?;
        self.paces[at].mean()
    }
}
