//! What a run measured, one measurement at a time, and what it means: the body of a full report or of an incast.

use super::{EndView, FailureView, Severity};
use rdmascope_model::{Manner, Memory, ProbeSpec};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How far a measurement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MeasurementState {
    /// It has not begun.
    Waiting,
    /// At work.
    Running,
    /// Measured.
    Done,
    /// Failed; the cause is in `failure`.
    Failed,
    /// Not run; the reason is in `excluded`.
    Excluded,
    /// Given up so as not to hurt a job; why is in `aborted`.
    Aborted,
    /// It ended and nothing was learned.
    Nothing,
}

/// One measurement of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MeasurementView {
    /// Which question it answers: `probe`, `ping`, `echo`, `latency`, `label`, `class`, `control`, `bandwidth`, `load`, `under-load`,
    /// `baseline`, `gpu` or `incast`.
    pub part: String,
    /// What was measured and how, in words.
    pub label: String,
    /// Endpoint that sends first.
    pub source: String,
    /// Endpoint that answers.
    pub target: String,
    /// How far it is.
    pub state: MeasurementState,
    /// By which means.
    pub manner: MannerView,
    /// What the source told.
    pub at_source: Option<EndView>,
    /// What the target told.
    pub at_target: Option<EndView>,
    /// The source's average over the goodput ceiling at the expected MTU.
    pub ratio_to_ceiling: Option<f64>,
    /// Why it failed: the most telling cause of both ends.
    pub failure: Option<FailureView>,
    /// Why it was not run: `busy`, `maintenance` or `policy`.
    pub excluded: Option<String>,
    /// Why it was given up.
    pub aborted: Option<String>,
}

/// By which means something was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MannerView {
    /// `latency`, `bandwidth`, `ping` or `echo`.
    pub kind: String,
    /// `write`, `read` or `send`; `null` for datagrams and TCP.
    pub operation: Option<String>,
    /// Bytes of one message or datagram; `null` where there are two sizes.
    pub message_bytes: Option<u32>,
    /// Queue pairs of a stream.
    pub queue_pairs: u32,
    /// Both ends stream at the same time.
    pub both_ways: bool,
    /// `native` or `tcp`.
    pub carrier: String,
    /// DSCP of the packets.
    pub dscp: u8,
    /// Service level of the packets.
    pub service_level: u8,
    /// Path label; 0 leaves that to the device.
    pub flow_label: u32,
    /// `host`, or `gpu0` and so on.
    pub source_memory: String,
    /// Likewise.
    pub target_memory: String,
}

fn memory(memory: Memory) -> String {
    match memory {
        Memory::Host => "host".to_owned(),
        Memory::Gpu(index) => format!("gpu{index}"),
    }
}

impl MannerView {
    /// The manner in the words of the API.
    #[must_use]
    pub fn new(spec: &ProbeSpec, manner: &Manner) -> Self {
        let (message_bytes, rdma) = match spec {
            ProbeSpec::Latency(spec) => (Some(spec.message_bytes), true),
            ProbeSpec::Bandwidth(spec) => (Some(spec.message_bytes), true),
            ProbeSpec::Pings(_) => (None, false),
            ProbeSpec::Echo(spec) => (Some(spec.payload_bytes), false),
        };
        let tcp = manner.carrier == rdmascope_model::Carrier::Tcp;
        Self {
            kind: spec.as_str().to_owned(),
            operation: (rdma && !tcp).then(|| manner.operation.as_str().to_owned()),
            message_bytes,
            queue_pairs: manner.queue_pairs,
            both_ways: manner.both_ways,
            carrier: if tcp { "tcp" } else { "native" }.to_owned(),
            dscp: manner.marks.traffic_class >> 2,
            service_level: manner.marks.service_level,
            flow_label: manner.marks.flow_label,
            source_memory: memory(manner.source_memory),
            target_memory: memory(manner.target_memory),
        }
    }
}

/// A part of a report that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkippedView {
    /// Which one, as in `measurements`.
    pub part: String,
    /// Why.
    pub reason: String,
}

/// One judgement of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerdictView {
    /// Stable id, such as `path-mtu`.
    pub id: String,
    /// How bad.
    pub status: Severity,
    /// What it is about: a direction, a host, a path label, a priority.
    pub subject: String,
    /// What was found, in words.
    pub text: String,
    /// The figures behind it.
    pub evidence: Vec<String>,
    /// What to do; empty where nothing is to be done.
    pub next_step: String,
    /// Stable id of the cause among those of failed probes, where one fits.
    pub cause: Option<String>,
}

/// What an incast found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct IncastView {
    /// Each source.
    pub sources: Vec<IncastSourceView>,
    /// All sources together, bits per second.
    pub sum_bits_per_second: u64,
    /// That over the receiver's line rate.
    pub ratio_to_line_rate: Option<f64>,
    /// That over the goodput ceiling at the expected MTU.
    pub ratio_to_ceiling: Option<f64>,
    /// The slowest source over the fastest.
    pub fairness: Option<f64>,
    /// Packets sent again by all sources; `null` when no driver counts them.
    pub retransmits: Option<u64>,
    /// Priorities on which pause frames moved at target or sources; `null` when no driver counts them.
    pub pauses: Option<Vec<PriorityCount>>,
    /// Congestion notifications that the target sent.
    pub congestion_notifications: Option<u64>,
}

/// One source of an incast.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IncastSourceView {
    /// Its endpoint.
    pub name: String,
    /// What it reached, bits per second; `null` when it did not run to its end.
    pub average_bits_per_second: Option<u64>,
    /// Packets that it sent again.
    pub retransmits: Option<u64>,
}

/// A count of one priority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriorityCount {
    /// 0 to 7.
    pub priority: u8,
    /// How many.
    pub count: u64,
}

/// Answer of `GET /api/v1/services`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceList {
    /// All services of the coordinator's configuration, by name.
    pub services: Vec<ServiceView>,
}

/// A service whose endpoints are probed as it uses them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceView {
    /// Its name.
    pub name: String,
    /// Its RDMA device.
    pub device: Option<String>,
    /// Its class: a DSCP, or a service level on InfiniBand.
    pub class: Option<u8>,
    /// The nodes that it talks to.
    pub peers: Vec<String>,
}
