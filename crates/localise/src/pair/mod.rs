//! One pair in depth: which measurements a full report takes, what came of each, and the verdicts over all of them.

mod ceiling;
mod incast;
mod plan;
mod verdict;

pub use ceiling::{EXPECTED_MTU, ceiling_bps, expected_mtu};
pub use incast::{Incast, IncastSource, incast, incast_verdicts};
pub use plan::{PATHS_DEFAULT, PATHS_PROBABILITY, Stage, Task, full, incast_task, marks, stream_of};
pub use verdict::{Verdict, verdicts};

use rdmascope_model::{
    Effects, EndpointInfo, EndpointName, Exclusion, Failure, Manner, Outcome, ProbeSpec, Status,
};

/// Which question of a report a measurement answers; the order is that of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// An ordinary probe: what the matrix shows.
    Probe,
    /// Do datagrams arrive, small and of the full path MTU, and how long do network and hosts take?
    Ping,
    /// Do large don't-fragment datagrams of the network device arrive?
    Echo,
    /// How long does each verb take?
    Latency,
    /// Is one of several equal-cost paths slow or lossy?
    Label,
    /// Does the asked traffic class get through, in its own priority?
    Class,
    /// The same in class 0, for comparison.
    Control,
    /// How much gets through, by verb, message size, queue pairs and direction?
    Bandwidth,
    /// The stream beside which latency is measured.
    Load,
    /// How long does a message take beside that stream?
    UnderLoad,
    /// What does TCP reach on the same network devices?
    Baseline,
    /// What is reached from and to GPU memory?
    Gpu,
    /// Several sources to one target at once.
    Incast,
}

impl Part {
    /// The word used on the API and in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Ping => "ping",
            Self::Echo => "echo",
            Self::Latency => "latency",
            Self::Label => "label",
            Self::Class => "class",
            Self::Control => "control",
            Self::Bandwidth => "bandwidth",
            Self::Load => "load",
            Self::UnderLoad => "under-load",
            Self::Baseline => "baseline",
            Self::Gpu => "gpu",
            Self::Incast => "incast",
        }
    }
}

/// What is asked of a full report, beside its pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The workload's class: a DSCP (0 to 63), or a service level (0 to 15) on InfiniBand; `None`: class 0 alone.
    pub class: Option<u8>,
    /// Equal-cost paths that are assumed between the two ends.
    pub paths: u32,
    /// Path labels that hit all of them.
    pub labels: u32,
    /// GPU whose memory is measured too.
    pub gpu: Option<u8>,
}

/// One end of the pair before the first packet: what its agent told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The endpoint.
    pub info: EndpointInfo,
    /// What its agent's checks found, apart from what is fine.
    pub findings: Vec<EndFinding>,
}

/// A finding of one end's agent, as far as a report needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndFinding {
    /// Id of the check.
    pub id: String,
    /// How bad.
    pub status: Status,
    /// What it is about.
    pub subject: String,
    /// What was seen.
    pub summary: String,
    /// What to do.
    pub next_step: String,
}

/// What one end told of one measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// How it ended there.
    pub outcome: Outcome,
    /// What it moved there; `None` when the agent did not look.
    pub effects: Option<Box<Effects>>,
}

/// How far a measurement is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has not begun.
    Waiting,
    /// Both agents have its lease.
    Running,
    /// Measured.
    Done,
    /// It failed; the most telling cause of both ends.
    Failed(Failure),
    /// It was not run.
    Excluded(Exclusion),
    /// It ended and nothing was learned.
    Nothing,
}

/// One measurement of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Which question it answers.
    pub part: Part,
    /// Who sends first.
    pub source: EndpointName,
    /// Who answers.
    pub target: EndpointName,
    /// What was measured.
    pub spec: ProbeSpec,
    /// By which means.
    pub manner: Manner,
    /// How far it is.
    pub progress: Progress,
    /// What source and target told.
    pub told: [Option<Told>; 2],
}

/// A part of the report that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Which one.
    pub part: Part,
    /// Why, as a clause: "the endpoints take no datagrams".
    pub reason: String,
}

/// All that is known of one pair when its measurements are over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Source and target as they were asked for (A and B).
    pub ends: [End; 2],
    /// What was asked.
    pub asked: Asked,
    /// The measurements, in the order in which they ran.
    pub measurements: Vec<Measurement>,
    /// What was left out.
    pub skipped: Vec<Skipped>,
}

impl Measurement {
    /// What the source found.
    #[must_use]
    pub fn found(&self) -> Option<&Outcome> {
        self.told[0].as_ref().map(|told| &told.outcome)
    }

    /// What was moved at the source (0) or the target (1).
    #[must_use]
    pub fn effects(&self, end: usize) -> Option<&Effects> {
        self.told.get(end)?.as_ref()?.effects.as_deref()
    }

    /// Median at the source, nanoseconds: half round trip, or a whole one for a read.
    #[must_use]
    pub fn p50_ns(&self) -> Option<u64> {
        match self.found()? {
            Outcome::Latency(stats, _) => Some(stats.p50_ns),
            Outcome::Pings(stats) => stats.network.map(|delays| delays.p50_ns),
            _ => None,
        }
    }

    /// Goodput of the stream that this end (0: source, 1: target) sent, bits per second, where it ran to its end.
    #[must_use]
    pub fn average_bps(&self, end: usize) -> Option<u64> {
        match &self.told.get(end)?.as_ref()?.outcome {
            Outcome::Bandwidth(stats, _) => Some(stats.average_bps),
            _ => None,
        }
    }

    /// Packets sent again at one end: of its counters before and after, or of its result where those were not looked at.
    #[must_use]
    pub fn retransmits(&self, end: usize) -> Option<u64> {
        let counted = self.effects(end).and_then(|effects| effects.retransmits);
        counted.or_else(|| match &self.told.get(end)?.as_ref()?.outcome {
            Outcome::Latency(_, delta) | Outcome::Bandwidth(_, delta) | Outcome::Aborted(_, delta, _) => {
                delta.retransmits
            }
            _ => None,
        })
    }

    /// `A -> B`.
    #[must_use]
    pub fn direction(&self) -> String {
        format!("{} -> {}", self.source, self.target)
    }

    /// What was measured and how, in words: `bandwidth WRITE, 64 KiB, 4 queue pairs, both ways`.
    #[must_use]
    pub fn label(&self) -> String {
        use rdmascope_model::{Carrier, Memory};
        let manner = &self.manner;
        let mut words = match self.spec {
            ProbeSpec::Pings(spec) if spec.labels > 1 => format!("pings with {} path labels", spec.labels),
            ProbeSpec::Pings(_) => "pings, small and of the full path MTU".to_owned(),
            ProbeSpec::Echo(spec) => format!("echo of {} bytes, not to be fragmented", spec.payload_bytes),
            ProbeSpec::Latency(_) | ProbeSpec::Bandwidth(_) if manner.carrier == Carrier::Tcp => {
                format!("{} over TCP", self.spec.as_str())
            }
            ProbeSpec::Latency(_) | ProbeSpec::Bandwidth(_) => {
                format!("{} {}", self.spec.as_str(), manner.operation.as_str().to_uppercase())
            }
        };
        if let ProbeSpec::Bandwidth(spec) = self.spec {
            let size = match spec.message_bytes {
                bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
                bytes => format!("{} KiB", bytes >> 10),
            };
            let pairs = if manner.queue_pairs == 1 { "queue pair" } else { "queue pairs" };
            words.push_str(&format!(", {size}, {} {pairs}", manner.queue_pairs));
        }
        if manner.both_ways {
            words.push_str(", both ways");
        }
        if manner.marks.flow_label != 0 {
            words.push_str(&format!(", path label {}", manner.marks.flow_label));
        }
        match (manner.marks.traffic_class >> 2, manner.marks.service_level) {
            (0, 0) => {}
            (0, level) => words.push_str(&format!(", service level {level}")),
            (dscp, _) => words.push_str(&format!(", DSCP {dscp}")),
        }
        if manner.source_memory != Memory::Host || manner.target_memory != Memory::Host {
            words.push_str(", GPU memory");
        }
        words
    }
}
