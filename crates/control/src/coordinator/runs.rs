//! What an operator asked for: one probe, everything about one pair, or several sources to one target. A run is a list of measurements
//! that are taken one after another, and keeps what both ends told of each.

use super::settings::OPERATOR_PROBES_MAX;
use super::work::{Job, Origin};
use rdmascope_localise::EndpointIndex;
use rdmascope_localise::pair::{
    Asked, End, Incast, Measurement, Progress, Report, Skipped, Told, Verdict, incast, incast_verdicts,
    verdicts,
};
use rdmascope_model::{Exclusion, Failure, Metric, Mono, Now, Outcome, Side, Step};
use std::collections::{BTreeMap, VecDeque};

/// One thing that happened in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeStep {
    /// Milliseconds since it was asked for.
    pub at_ms: u64,
    /// Who did it.
    pub side: Side,
    /// Which step.
    pub step: Step,
    /// What was done, in words.
    pub text: String,
}

/// What kind of run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// Latency or bandwidth of one pair, or both.
    Probe,
    /// Everything about one pair.
    Full,
    /// Several sources to one target.
    Incast,
}

/// One run.
#[derive(Clone, Debug)]
pub struct ProbeRun {
    /// What kind.
    pub kind: RunKind,
    /// Source endpoint; the first one of an incast.
    pub source: EndpointIndex,
    /// Target endpoint.
    pub target: EndpointIndex,
    /// What an ordinary probe measures.
    pub metrics: Vec<Metric>,
    /// What has happened so far.
    pub steps: Vec<ProbeStep>,
    /// Measurements that are not over yet.
    pub left: usize,
    /// What was asked.
    pub asked: Asked,
    /// What the agents of source and target had told when it began; absent for an endpoint that no agent of this run has named.
    pub ends: Option<[End; 2]>,
    /// The measurements, in their order.
    pub measurements: Vec<Measurement>,
    /// What was left out, with the reason.
    pub skipped: Vec<Skipped>,
    began: Mono,
    stages: VecDeque<Stage>,
    running: usize,
    /// They start when the first ones of their stage run.
    beside: Vec<Job>,
}

/// Jobs that belong together.
#[derive(Clone, Debug, Default)]
pub(super) struct Stage {
    /// Start at the same time.
    pub(super) jobs: Vec<Job>,
    /// Start as soon as those run.
    pub(super) beside: Vec<Job>,
}

impl Stage {
    /// Several probes of one run share endpoints, so nothing else may run there.
    pub(super) fn is_together(&self) -> bool {
        self.jobs.len() + self.beside.len() > 1
    }
}

/// How a measurement of a run came out.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    Done,
    Failed(Failure),
    Excluded(Exclusion),
    Nothing,
}

impl ProbeRun {
    /// All that is known, for judging; absent where no agent has told what the ends are.
    #[must_use]
    pub fn report(&self) -> Option<Report> {
        Some(Report {
            ends: self.ends.clone()?,
            asked: self.asked,
            measurements: self.measurements.clone(),
            skipped: self.skipped.clone(),
        })
    }

    /// What an incast found, once it is over.
    #[must_use]
    pub fn incast(&self) -> Option<Incast> {
        let [_, target] = self.ends.as_ref()?;
        (self.kind == RunKind::Incast && self.left == 0).then(|| incast(&self.measurements, &target.info))
    }

    /// What it all means, once it is over; nothing for an ordinary probe.
    #[must_use]
    pub fn verdicts(&self) -> Vec<Verdict> {
        let Some(report) = self.report().filter(|_| self.left == 0) else { return Vec::new() };
        match self.kind {
            RunKind::Probe => Vec::new(),
            RunKind::Full => verdicts(&report),
            RunKind::Incast => {
                // Ports that trust DSCP take its upper three bits as the priority unless told otherwise.
                let priority =
                    self.asked.class.filter(|class| *class < 64).map(|class| usize::from(class >> 3));
                self.incast().map(|found| incast_verdicts(&found, &report, priority)).unwrap_or_default()
            }
        }
    }
}

/// What a run begins with.
pub(super) struct NewRun {
    pub(super) kind: RunKind,
    pub(super) ends: [EndpointIndex; 2],
    pub(super) metrics: Vec<Metric>,
    pub(super) asked: Asked,
    pub(super) told: Option<[End; 2]>,
    pub(super) measurements: Vec<Measurement>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) stages: Vec<Stage>,
}

impl NewRun {
    /// What is measured, in words.
    pub(super) fn words(&self) -> String {
        match self.kind {
            RunKind::Probe => {
                let metrics: Vec<_> = self.metrics.iter().map(|metric| metric.as_str()).collect();
                metrics.join(" and ")
            }
            RunKind::Full => "everything".to_owned(),
            RunKind::Incast => "an incast".to_owned(),
        }
    }
}

/// The runs that are kept: those at work and the last ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    runs: BTreeMap<u64, ProbeRun>,
    started: u64,
}

impl Runs {
    pub(super) fn get(&self, id: u64) -> Option<&ProbeRun> {
        self.runs.get(&id)
    }

    /// All that are kept, with their numbers, the newest first.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, &ProbeRun)> {
        self.runs.iter().rev().map(|(id, run)| (*id, run))
    }

    /// The number that the next run gets.
    pub(super) fn next_id(&self) -> u64 {
        self.started + 1
    }

    /// Begins a run with the number that [`Self::next_id`] told; `None` when too many wait.
    pub(super) fn start(&mut self, new: NewRun, now: Now) -> Option<u64> {
        if self.runs.values().filter(|run| run.left > 0).count() >= OPERATOR_PROBES_MAX {
            return None;
        }
        self.started += 1;
        let run = ProbeRun {
            kind: new.kind,
            source: new.ends[0],
            target: new.ends[1],
            metrics: new.metrics,
            steps: Vec::new(),
            left: new.measurements.len(),
            asked: new.asked,
            ends: new.told,
            measurements: new.measurements,
            skipped: new.skipped,
            began: now.mono,
            stages: new.stages.into(),
            running: 0,
            beside: Vec::new(),
        };
        self.runs.insert(self.started, run);
        while self.runs.len() > OPERATOR_PROBES_MAX {
            let over = self.runs.iter().find(|(_, run)| run.left == 0).map(|(&id, _)| id);
            match over {
                Some(over) => self.runs.remove(&over),
                None => break,
            };
        }
        Some(self.started)
    }

    /// Something waits to be started.
    pub(super) fn wait(&self) -> bool {
        self.runs.values().any(|run| !run.stages.is_empty())
    }

    /// Runs that wait for their next stage to start.
    pub(super) fn waiting(&self) -> Vec<u64> {
        let waits = |run: &ProbeRun| run.running == 0 && !run.stages.is_empty();
        self.runs.iter().filter(|(_, run)| waits(run)).map(|(&id, _)| id).collect()
    }

    /// The stage that a run waits for.
    pub(super) fn next_stage(&self, id: u64) -> Option<&Stage> {
        let run = self.runs.get(&id)?;
        run.stages.front().filter(|_| run.running == 0)
    }

    /// Takes that stage: its jobs have begun, or need not run.
    pub(super) fn take_stage(&mut self, id: u64) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let Some(stage) = run.stages.pop_front() else { return };
        run.running = stage.jobs.len();
        run.beside = stage.beside;
    }

    /// Takes what is to start beside a job that runs now.
    pub(super) fn take_beside(&mut self, origin: Origin) -> Vec<Job> {
        let Origin::Run(id, _) = origin else { return Vec::new() };
        let Some(run) = self.runs.get_mut(&id) else { return Vec::new() };
        run.running += run.beside.len();
        std::mem::take(&mut run.beside)
    }

    /// A job's lease was given.
    pub(super) fn begun(&mut self, origin: Origin) {
        if let Some(measurement) = self.measurement(origin) {
            measurement.progress = Progress::Running;
        }
    }

    /// A job is over, with what both ends told.
    pub(super) fn ended(&mut self, origin: Origin, told: [Option<Told>; 2], ended: Ended) {
        if let Some(measurement) = self.measurement(origin) {
            let gave_up = told.iter().flatten().any(|told| matches!(told.outcome, Outcome::Aborted(..)));
            measurement.progress = match ended {
                Ended::Done => Progress::Done,
                Ended::Failed(failure) => Progress::Failed(failure),
                Ended::Excluded(why) => Progress::Excluded(why),
                Ended::Nothing if gave_up => Progress::Done,
                Ended::Nothing => Progress::Nothing,
            };
            measurement.told = told;
        }
        let Origin::Run(id, _) = origin else { return };
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.left = run.left.saturating_sub(1);
        run.running = run.running.saturating_sub(1);
        if run.running == 0 {
            // What it should have run beside never ran.
            for job in std::mem::take(&mut run.beside) {
                run.left = run.left.saturating_sub(1);
                if let Origin::Run(_, at) = job.origin
                    && let Some(measurement) = run.measurements.get_mut(at)
                {
                    measurement.progress = Progress::Nothing;
                }
            }
        }
    }

    fn measurement(&mut self, origin: Origin) -> Option<&mut Measurement> {
        let Origin::Run(id, at) = origin else { return None };
        self.runs.get_mut(&id)?.measurements.get_mut(at)
    }

    /// Writes down a step of a run.
    pub(super) fn step(&mut self, origin: Origin, side: Side, step: Step, text: String, now: Mono) {
        let Origin::Run(id, _) = origin else { return };
        if let Some(run) = self.runs.get_mut(&id) {
            let at_ms = u64::try_from(now.since(run.began).as_millis()).unwrap_or(u64::MAX);
            run.steps.push(ProbeStep { at_ms, side, step, text });
        }
    }
}
