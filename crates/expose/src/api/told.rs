//! What one end told of one measurement of a run: its figures or its failure, and what was moved at its port.

use super::{BandwidthFigures, FailureView, LatencyFigures, PingLabelFigures, PingSizeFigures};
use rdmascope_model::{Delays, EchoStats, Effects, Outcome, PerPriority, PingStats};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What one end told of one measurement; of the figures at most one is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EndView {
    /// Latency at this end.
    pub latency: Option<LatencyFigures>,
    /// The stream that this end sent.
    pub bandwidth: Option<BandwidthFigures>,
    /// What its datagrams found.
    pub pings: Option<PingBatchFigures>,
    /// What its don't-fragment datagrams found.
    pub echo: Option<EchoFigures>,
    /// Why it failed here.
    pub failure: Option<FailureView>,
    /// What the measurement moved at this end; `null` when it was not looked at.
    pub effects: Option<EffectsView>,
}

impl EndView {
    /// What an end told, in the words of the API.
    #[must_use]
    pub fn new(outcome: &Outcome, effects: Option<&Effects>) -> Self {
        let mut view = Self {
            latency: None,
            bandwidth: None,
            pings: None,
            echo: None,
            failure: None,
            effects: effects.map(EffectsView::from),
        };
        match outcome {
            Outcome::Latency(stats, _) => view.latency = Some(stats.into()),
            Outcome::Bandwidth(stats, _) => view.bandwidth = Some(stats.into()),
            Outcome::Aborted(stats, _, _) => view.bandwidth = stats.as_ref().map(BandwidthFigures::from),
            Outcome::Pings(stats) => view.pings = Some(PingBatchFigures::from(&**stats)),
            Outcome::Echo(stats) => view.echo = Some(EchoFigures::from(stats)),
            Outcome::Failed(failure) => view.failure = Some(FailureView::new(failure)),
            Outcome::Served | Outcome::Excluded(_) => {}
        }
        view
    }
}

/// Delays, nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DelayFigures {
    /// Samples behind the figures.
    pub count: u32,
    /// Smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile; from 300 samples on.
    pub p99_ns: Option<u64>,
    /// Largest.
    pub max_ns: u64,
}

impl From<&Delays> for DelayFigures {
    fn from(delays: &Delays) -> Self {
        let Delays { count, min_ns, p50_ns, p99_ns, max_ns } = *delays;
        Self { count, min_ns, p50_ns, p99_ns, max_ns }
    }
}

/// What datagrams found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PingBatchFigures {
    /// `hw` when the device stamped them, `sw` when the program did.
    pub clock: String,
    /// Small ones.
    pub small: PingSizeFigures,
    /// Those of the full path MTU.
    pub large: PingSizeFigures,
    /// Network round trip of small ones, without the time inside both hosts.
    pub network: Option<DelayFigures>,
    /// The same of large ones.
    pub network_large: Option<DelayFigures>,
    /// Time inside the responder's host.
    pub responder: Option<DelayFigures>,
    /// Time inside the prober's host.
    pub prober: Option<DelayFigures>,
    /// Answered ones during which a host took far longer than usual.
    pub host_delayed: u32,
    /// Answered ones whose stamps could not be used.
    pub invalid_stamps: u32,
    /// To or from a queue pair that the peer no longer has: not loss.
    pub stale: u32,
    /// By path label; empty when there was one.
    pub labels: Vec<PingLabelFigures>,
}

impl From<&PingStats> for PingBatchFigures {
    fn from(stats: &PingStats) -> Self {
        let delays = |delays: &Option<Delays>| delays.as_ref().map(DelayFigures::from);
        Self {
            clock: stats.clock.as_str().to_owned(),
            small: (&stats.small).into(),
            large: (&stats.large).into(),
            network: delays(&stats.network),
            network_large: delays(&stats.network_large),
            responder: delays(&stats.responder),
            prober: delays(&stats.prober),
            host_delayed: stats.host_delayed,
            invalid_stamps: stats.invalid_stamps,
            stale: stats.stale,
            labels: stats.labels.iter().map(PingLabelFigures::from).collect(),
        }
    }
}

/// What don't-fragment datagrams of the network device found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EchoFigures {
    /// UDP payload, bytes.
    pub payload_bytes: u32,
    /// Sent.
    pub sent: u32,
    /// Of them that reached the peer; `null` when the peer did not tell.
    pub heard: Option<u32>,
    /// Of them that came back.
    pub answered: u32,
    /// Round trips in software.
    pub round_trip: Option<DelayFigures>,
}

impl From<&EchoStats> for EchoFigures {
    fn from(stats: &EchoStats) -> Self {
        Self {
            payload_bytes: stats.payload_bytes,
            sent: stats.sent,
            heard: stats.heard,
            answered: stats.answered,
            round_trip: stats.round_trip.as_ref().map(DelayFigures::from),
        }
    }
}

/// What a measurement moved at one end. `null`: the driver does not count it. Lists have one number for each of eight priorities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectsView {
    /// Packets sent again or out of order.
    pub retransmits: Option<u64>,
    /// Congestion notifications that this end sent.
    pub congestion_notifications_sent: Option<u64>,
    /// Congestion notifications that this end obeyed.
    pub congestion_notifications_handled: Option<u64>,
    /// Packets received with a congestion mark.
    pub congestion_marked: Option<u64>,
    /// Packets that the port threw away.
    pub discards: Option<u64>,
    /// PFC pause frames received.
    pub pause_received: Option<Vec<u64>>,
    /// Time for which they stopped this end, nanoseconds.
    pub pause_received_ns: Option<Vec<u64>>,
    /// PFC pause frames sent.
    pub pause_sent: Option<Vec<u64>>,
    /// Packets sent.
    pub packets_sent: Option<Vec<u64>>,
    /// Packets received.
    pub packets_received: Option<Vec<u64>>,
    /// Processor time of the thread that measured, nanoseconds.
    pub processor_ns: Option<u64>,
}

impl From<&Effects> for EffectsView {
    fn from(effects: &Effects) -> Self {
        let list = |counts: Option<PerPriority>| counts.map(|counts| counts.0.to_vec());
        Self {
            retransmits: effects.retransmits,
            congestion_notifications_sent: effects.congestion_notifications_sent,
            congestion_notifications_handled: effects.congestion_notifications_handled,
            congestion_marked: effects.congestion_marked,
            discards: effects.discards,
            pause_received: list(effects.pause_received),
            pause_received_ns: list(effects.pause_received_ns),
            pause_sent: list(effects.pause_sent),
            packets_sent: list(effects.packets_sent),
            packets_received: list(effects.packets_received),
            processor_ns: effects.processor_ns,
        }
    }
}
