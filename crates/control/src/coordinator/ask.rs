//! How an operator's wish becomes a run: which endpoints, in which class, and which measurements.

use super::commands::CommandError;
use super::runs::{NewRun, RunKind, Stage};
use super::settings::INCAST_SOURCES_MAX;
use super::work::{Job, Origin};
use super::{Coordinator, Service};
use rdmascope_localise::EndpointIndex;
use rdmascope_localise::pair::{
    Asked, End, EndFinding, Measurement, PATHS_PROBABILITY, Part, Progress, Task, full, incast_task, marks,
};
use rdmascope_model::{Fabric, Manner, Metric, Now, ProbeSpec, Urgency};
use rdmascope_probe::labels_needed;
use std::collections::BTreeSet;

/// What is to be measured of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// What the matrix shows.
    Metrics(Vec<Metric>),
    /// Everything.
    Full {
        /// Equal-cost paths that are assumed between the two ends.
        paths: u32,
        /// GPU whose memory is measured, too.
        gpu: Option<u8>,
    },
}

/// One pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairRequest {
    /// Source: a full or short endpoint name.
    pub source: String,
    /// Target, likewise.
    pub target: String,
    /// RDMA device of both ends, where the names are those of nodes.
    pub device: Option<String>,
    /// DSCP, or service level on InfiniBand.
    pub class: Option<u8>,
    /// Takes device and class from this service of the configuration, where they are not given.
    pub service: Option<String>,
    /// The nodes carry no job.
    pub drained: bool,
    /// The nodes may carry one, and the pair is to be measured all the same.
    pub forced: bool,
    /// What to measure.
    pub measure: Measure,
}

impl PairRequest {
    /// These metrics in the ordinary manner, where no job may be.
    pub(super) fn ordinary(source: &str, target: &str, metrics: &[Metric]) -> Self {
        Self {
            source: source.to_owned(),
            target: target.to_owned(),
            device: None,
            class: None,
            service: None,
            drained: false,
            forced: false,
            measure: Measure::Metrics(metrics.to_vec()),
        }
    }
}

/// Several sources to one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncastRequest {
    /// Sources: full or short endpoint names.
    pub sources: Vec<String>,
    /// Target, likewise.
    pub target: String,
    /// RDMA device of all, where the names are those of nodes.
    pub device: Option<String>,
    /// DSCP, or service level on InfiniBand.
    pub class: Option<u8>,
    /// The nodes carry no job.
    pub drained: bool,
}

/// A measurement of a run, and the job that takes it.
type Planned = (Measurement, Job);

impl Coordinator {
    /// Begins one pair's probe in the ordinary manner.
    ///
    /// # Errors
    /// As [`Self::start_pair`].
    pub fn start_probe(
        &mut self,
        source: &str,
        target: &str,
        metrics: &[Metric],
        drained: bool,
        now: Now,
    ) -> Result<u64, CommandError> {
        let request = PairRequest::ordinary(source, target, metrics);
        self.start_pair(&PairRequest { drained, ..request }, now)
    }

    /// Begins a probe, or a full report, of one pair.
    ///
    /// # Errors
    /// An endpoint or a service is unknown, both ends are the same, the class does not exist, everything is paused, or too many probes
    /// wait.
    pub fn start_pair(&mut self, request: &PairRequest, now: Now) -> Result<u64, CommandError> {
        let service = request.service.as_deref().map(|name| self.service(name)).transpose()?;
        let device = request.device.as_deref().or(service.and_then(|s| s.device.as_deref()));
        let class = request.class.or(service.and_then(|s| s.class));
        let ends = [self.find_on(&request.source, device)?, self.find_on(&request.target, device)?];
        if ends[0] == ends[1] {
            return Err(CommandError::Conflict("source and target are the same endpoint".to_owned()));
        }
        self.not_paused()?;
        let told = self.ends(ends);
        let fabric = told.as_ref().map_or(Fabric::Simulated, |[source, _]| source.info.fabric);
        check_class(class, fabric)?;
        let urgency = match (request.forced, request.drained) {
            (true, _) => Urgency::Forced,
            (false, true) => Urgency::Drained,
            (false, false) => Urgency::Operator,
        };
        if urgency == Urgency::Forced {
            self.know_forced_probes(ends)?;
        }
        let asked = asked(class, &request.measure);
        let (kind, metrics, stages, skipped) = match &request.measure {
            Measure::Metrics(metrics) => {
                let manner = Manner { marks: marks(class, fabric), ..Manner::default() };
                let task = |metric: &Metric| Task {
                    part: Part::Probe,
                    reverse: false,
                    spec: ProbeSpec::usual(*metric),
                    manner,
                };
                (RunKind::Probe, metrics.clone(), metrics.iter().map(|m| vec![task(m)]).collect(), Vec::new())
            }
            Measure::Full { .. } => {
                let [a, b] = told.as_ref().ok_or_else(unheard)?;
                let (stages, skipped) = full(&asked, [&a.info, &b.info]);
                let tasks =
                    stages.into_iter().map(|stage| [Some(stage.first), stage.beside].into_iter().flatten());
                (RunKind::Full, Vec::new(), tasks.map(Iterator::collect).collect::<Vec<Vec<_>>>(), skipped)
            }
        };
        let mut measurements = Vec::new();
        let stages = stages.into_iter().map(|tasks| {
            let mut jobs: Vec<_> = Vec::new();
            for task in tasks {
                let [source, target] = if task.reverse { [ends[1], ends[0]] } else { ends };
                let (measurement, job) = self.planned(measurements.len(), task, source, target, urgency);
                measurements.push(measurement);
                jobs.push(job);
            }
            // What stands behind the first one of a stage runs beside it.
            let beside = jobs.split_off(jobs.len().min(1));
            Stage { jobs, beside }
        });
        let stages = stages.collect();
        let new = NewRun { kind, ends, metrics, asked, told, measurements, skipped, stages };
        self.begin(new, urgency, now)
    }

    /// Begins an incast: all sources send to the target at once, for a second.
    ///
    /// # Errors
    /// As [`Self::start_pair`]; or there are fewer than two sources, too many, or one of them twice.
    pub fn start_incast(&mut self, request: &IncastRequest, now: Now) -> Result<u64, CommandError> {
        let device = request.device.as_deref();
        let target = self.find_on(&request.target, device)?;
        let sources =
            request.sources.iter().map(|name| self.find_on(name, device)).collect::<Result<Vec<_>, _>>()?;
        let distinct: BTreeSet<_> = sources.iter().collect();
        if !(2..=INCAST_SOURCES_MAX).contains(&sources.len()) {
            let text =
                format!("an incast needs 2 to {INCAST_SOURCES_MAX} sources; {} were given", sources.len());
            return Err(CommandError::Conflict(text));
        }
        if distinct.len() < sources.len() || distinct.contains(&target) {
            return Err(CommandError::Conflict("an endpoint is named twice".to_owned()));
        }
        self.not_paused()?;
        let ends = [sources[0], target];
        let told = self.ends(ends).ok_or_else(unheard)?;
        let fabric = told[1].info.fabric;
        check_class(request.class, fabric)?;
        let urgency = if request.drained { Urgency::Drained } else { Urgency::Operator };
        let task = incast_task(request.class, fabric);
        let planned: Vec<Planned> = sources
            .iter()
            .enumerate()
            .map(|(at, &source)| self.planned(at, task, source, target, urgency))
            .collect();
        let (measurements, jobs): (_, Vec<Job>) = planned.into_iter().unzip();
        if let Some((leaf, streams)) = self.never_fits(&jobs) {
            let most = self.settings.streams_per_leaf;
            return Err(CommandError::Conflict(format!(
                "{streams} streams would cross the uplinks of leaf {leaf} at once, and coordinator.streams_per_leaf allows {most}: \
                 name fewer sources, or sources on the target's leaf"
            )));
        }
        let asked = Asked { class: request.class, paths: 1, labels: 1, gpu: None };
        let stages = vec![Stage { jobs, beside: Vec::new() }];
        let kind = RunKind::Incast;
        let (metrics, skipped) = (Vec::new(), Vec::new());
        let new = NewRun { kind, ends, metrics, asked, told: Some(told), measurements, skipped, stages };
        self.begin(new, urgency, now)
    }

    fn begin(&mut self, new: NewRun, urgency: Urgency, now: Now) -> Result<u64, CommandError> {
        let (ends, what) = (new.ends, new.words());
        let id = self.work.runs.start(new, now);
        let id =
            id.ok_or_else(|| CommandError::Conflict("too many probes are waiting; try again".to_owned()))?;
        if urgency == Urgency::Forced {
            self.forced_begins(id, ends, &what, now);
        }
        self.changed = true;
        self.run(now);
        Ok(id)
    }

    fn planned(
        &self,
        at: usize,
        task: Task,
        source: EndpointIndex,
        target: EndpointIndex,
        urgency: Urgency,
    ) -> Planned {
        let name = |index| self.matrix.name(index).clone();
        let origin = Origin::Run(self.work.runs.next_id(), at);
        let Task { part, spec, manner, .. } = task;
        let measurement = Measurement {
            part,
            source: name(source),
            target: name(target),
            spec,
            manner,
            progress: Progress::Waiting,
            told: [None, None],
        };
        (measurement, Job { source, target, spec, manner, urgency, origin })
    }

    /// A service of the configuration.
    fn service(&self, name: &str) -> Result<&Service, CommandError> {
        self.settings.services.get(name).ok_or_else(|| {
            let known: Vec<_> = self.settings.services.keys().map(String::as_str).collect();
            let known =
                if known.is_empty() { "none (coordinator.services)".to_owned() } else { known.join(", ") };
            CommandError::Unknown(format!("no service '{name}'; there are: {known}"))
        })
    }

    fn find_on(&self, name: &str, device: Option<&str>) -> Result<EndpointIndex, CommandError> {
        match device.filter(|_| !name.contains('/')) {
            Some(device) => self.find_endpoint(&format!("{name}/{device}")),
            None => self.find_endpoint(name),
        }
    }

    /// What the agents of both ends have told of them.
    fn ends(&self, ends: [EndpointIndex; 2]) -> Option<[End; 2]> {
        let end = |index| {
            let info = self.members.endpoint(index)?.info.clone();
            let agent = self.members.agent(&info.name.node);
            let findings = agent.iter().flat_map(|agent| &agent.findings).map(|f| EndFinding {
                id: f.id.clone(),
                status: f.status,
                subject: f.subject.clone(),
                summary: f.summary.clone(),
                next_step: f.next_step.clone(),
            });
            Some(End { findings: findings.collect(), info })
        };
        Some([end(ends[0])?, end(ends[1])?])
    }
}

fn asked(class: Option<u8>, measure: &Measure) -> Asked {
    let (paths, gpu) = match *measure {
        Measure::Full { paths, gpu } => (paths.max(1), gpu),
        Measure::Metrics(_) => (1, None),
    };
    Asked { class, paths, labels: labels_needed(paths, PATHS_PROBABILITY), gpu }
}

fn unheard() -> CommandError {
    CommandError::Conflict("no agent has told yet what the endpoints are".to_owned())
}

pub(super) fn check_class(class: Option<u8>, fabric: Fabric) -> Result<(), CommandError> {
    let (most, what) = if fabric == Fabric::InfiniBand { (15, "service level") } else { (63, "DSCP") };
    match class {
        Some(class) if class > most => {
            Err(CommandError::Conflict(format!("{class} is no {what}: it goes up to {most}")))
        }
        _ => Ok(()),
    }
}
