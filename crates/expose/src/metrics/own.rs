//! What the daemons count about themselves, in a `prometheus` registry. Every series exists at 0 from the start, so that an
//! alert on its rise cannot miss the first event.

use std::path::Path;

use prometheus::process_collector::ProcessCollector;
use prometheus::{Encoder as _, GaugeVec, IntCounter, IntCounterVec, Opts, Registry, TextEncoder};
use rdmascope_model::{Cause, Metric, Wall};

use super::Family;
use super::catalogue::{
    AGENT_DROPPED, AGENT_PROBES, AGENT_RECONNECTS, AGENTS_REFUSED, CERTIFICATE_EXPIRY, CONNECTIONS_REFUSED,
    EVENTS, EVENTS_DROPPED, FRAMES_DELAYED, FRAMES_MALFORMED, KERNEL_READS, PROBE_FAILURES, PROBES,
    WRITES_FAILED,
};

/// Parts of the machine that are read together.
const TIERS: [&str; 5] = ["state", "counters", "statistics", "event", "slow"];

const REFUSALS: [&str; 7] = ["token", "version", "conduct", "identity", "full", "silent", "stuck"];

/// Files of the coordinator.
const FILES: [&str; 3] = ["history", "matrix", "pairs"];

/// Why a connection was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// There were too many.
    Full,
    /// There were too many of its address for too long.
    Address,
    /// It was not secure in time.
    Slow,
    /// TLS failed.
    Handshake,
    /// It spoke plain text to a port with TLS.
    Plain,
}

impl ConnectionRefusal {
    const ALL: [Self; 5] = [Self::Full, Self::Address, Self::Slow, Self::Handshake, Self::Plain];

    /// In a word, the label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Address => "address",
            Self::Slow => "slow",
            Self::Handshake => "handshake",
            Self::Plain => "plain",
        }
    }
}

/// How a probe ended, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// With figures.
    Measured,
    /// With a cause.
    Failed,
    /// It was not run.
    Excluded,
}

impl ProbeOutcome {
    const ALL: [Self; 3] = [Self::Measured, Self::Failed, Self::Excluded];

    fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Failed => "failed",
            Self::Excluded => "excluded",
        }
    }
}

fn counter(registry: &Registry, family: &Family) -> prometheus::Result<IntCounter> {
    let counter = IntCounter::new(family.name, family.help)?;
    registry.register(Box::new(counter.clone()))?;
    Ok(counter)
}

fn counters(registry: &Registry, family: &Family) -> prometheus::Result<IntCounterVec> {
    let counters = IntCounterVec::new(Opts::new(family.name, family.help), family.labels)?;
    registry.register(Box::new(counters.clone()))?;
    Ok(counters)
}

/// What both daemons count: of their process, their port and their certificates.
#[derive(Clone, Debug)]
pub struct DaemonOwn {
    connections_refused: IntCounterVec,
    certificates: GaugeVec,
}

impl DaemonOwn {
    fn new(registry: &Registry) -> prometheus::Result<Self> {
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let connections_refused = counters(registry, &CONNECTIONS_REFUSED)?;
        for reason in ConnectionRefusal::ALL {
            connections_refused.with_label_values(&[reason.as_str()]);
        }
        let (name, help) = (CERTIFICATE_EXPIRY.name, CERTIFICATE_EXPIRY.help);
        let certificates = GaugeVec::new(Opts::new(name, help), CERTIFICATE_EXPIRY.labels)?;
        registry.register(Box::new(certificates.clone()))?;
        Ok(Self { connections_refused, certificates })
    }

    /// A connection was not served.
    pub fn connection_refused(&self, reason: ConnectionRefusal) {
        self.connections_refused.with_label_values(&[reason.as_str()]).inc();
    }

    /// Until when the certificates of a file are valid.
    pub fn certificate(&self, file: &Path, until: Wall) {
        let seconds = (until.0 / 1_000) as f64;
        self.certificates.with_label_values(&[&*file.to_string_lossy()]).set(seconds);
    }
}

fn probe_counters(registry: &Registry, family: &Family) -> prometheus::Result<IntCounterVec> {
    let counters = counters(registry, family)?;
    for metric in Metric::ALL.map(Metric::as_str).into_iter().chain(["report"]) {
        for outcome in ProbeOutcome::ALL {
            counters.with_label_values(&[metric, outcome.as_str()]);
        }
    }
    Ok(counters)
}

/// What an agent counts.
#[derive(Clone, Debug)]
pub struct AgentOwn {
    probes: IntCounterVec,
    /// The connection to the coordinator was made again.
    pub reconnects: IntCounter,
    /// A result was thrown away because a queue was full.
    pub results_dropped: IntCounter,
    /// An event was thrown away because the coordinator was away for too long.
    pub events_dropped: IntCounter,
    kernel_reads: IntCounterVec,
    /// What a coordinator counts, too.
    pub daemon: DaemonOwn,
}

impl AgentOwn {
    /// Registers everything.
    ///
    /// # Errors
    /// When the registry holds one of the names already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let own = Self {
            probes: probe_counters(registry, &AGENT_PROBES)?,
            reconnects: counter(registry, &AGENT_RECONNECTS)?,
            results_dropped: counter(registry, &AGENT_DROPPED)?,
            events_dropped: counter(registry, &EVENTS_DROPPED)?,
            kernel_reads: counters(registry, &KERNEL_READS)?,
            daemon: DaemonOwn::new(registry)?,
        };
        for tier in TIERS {
            own.kernel_reads.with_label_values(&[tier]);
        }
        Ok(own)
    }

    /// The kernel was asked so often for one part of the machine: `state`, `counters`, `statistics`, `event` or `slow`.
    pub fn kernel_reads(&self, tier: &str, reads: u64) {
        self.kernel_reads.with_label_values(&[tier]).inc_by(reads);
    }

    /// A probe in which this agent took part is over; `metric` is its matrix, or `report` where its result goes to none.
    pub fn probe(&self, metric: &str, outcome: ProbeOutcome) {
        self.probes.with_label_values(&[metric, outcome.as_str()]).inc();
    }
}

/// What a coordinator counts.
#[derive(Clone, Debug)]
pub struct CoordinatorOwn {
    probes: IntCounterVec,
    failures: IntCounterVec,
    refused: IntCounterVec,
    events: IntCounterVec,
    writes_failed: IntCounterVec,
    /// A frame could not be understood.
    pub frames_malformed: IntCounter,
    /// An agent sent more than its share and was kept waiting.
    pub frames_delayed: IntCounter,
    /// What an agent counts, too.
    pub daemon: DaemonOwn,
}

impl CoordinatorOwn {
    /// Registers everything; `event_kinds` are the kinds of entries that the history can have.
    ///
    /// # Errors
    /// When the registry holds one of the names already.
    pub fn new(registry: &Registry, event_kinds: &[&str]) -> prometheus::Result<Self> {
        let own = Self {
            probes: probe_counters(registry, &PROBES)?,
            events: counters(registry, &EVENTS)?,
            writes_failed: counters(registry, &WRITES_FAILED)?,
            failures: counters(registry, &PROBE_FAILURES)?,
            refused: counters(registry, &AGENTS_REFUSED)?,
            frames_malformed: counter(registry, &FRAMES_MALFORMED)?,
            frames_delayed: counter(registry, &FRAMES_DELAYED)?,
            daemon: DaemonOwn::new(registry)?,
        };
        for cause in Cause::all() {
            own.failures.with_label_values(&[cause.id()]);
        }
        for kind in event_kinds {
            own.events.with_label_values(&[*kind]);
        }
        for file in FILES {
            own.writes_failed.with_label_values(&[file]);
        }
        for reason in REFUSALS {
            own.refused.with_label_values(&[reason]);
        }
        Ok(own)
    }

    /// A probe was measured.
    pub fn measured(&self, metric: Metric) {
        self.ended(metric, ProbeOutcome::Measured);
    }

    /// So many batches of pings were answered, at least in part.
    pub fn pinged(&self, batches: u64) {
        let labels = [Metric::Ping.as_str(), ProbeOutcome::Measured.as_str()];
        self.probes.with_label_values(&labels).inc_by(batches);
    }

    /// A probe failed.
    pub fn failed(&self, metric: Metric, cause: Cause) {
        self.ended(metric, ProbeOutcome::Failed);
        self.failures.with_label_values(&[cause.id()]).inc();
    }

    /// A probe was not run.
    pub fn excluded(&self, metric: Metric) {
        self.ended(metric, ProbeOutcome::Excluded);
    }

    /// Something entered the history; its kind is one of those given at the start.
    pub fn event(&self, kind: &str) {
        self.events.with_label_values(&[kind]).inc();
    }

    /// A file could not be written: `history`, `matrix` or `pairs`.
    pub fn write_failed(&self, file: &str) {
        self.writes_failed.with_label_values(&[file]).inc();
    }

    /// An agent was refused: for its `token`, its `version`, its `conduct`, the node in its certificate (`identity`), because there are
    /// too many (`full`), because it said no hello (`silent`), or because it takes nothing (`stuck`).
    pub fn refused(&self, reason: &str) {
        self.refused.with_label_values(&[reason]).inc();
    }

    fn ended(&self, metric: Metric, outcome: ProbeOutcome) {
        self.probes.with_label_values(&[metric.as_str(), outcome.as_str()]).inc();
    }
}

/// The text of everything in a registry, to be put behind the other families of the same answer.
///
/// # Errors
/// When two metrics of the registry contradict each other.
pub fn encode(registry: &Registry) -> prometheus::Result<String> {
    let mut out = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}
