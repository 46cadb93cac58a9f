//! Leases and how their probes ended, as messages.

use super::{metric, millis, name, ping, role, side, step, urgency};
use crate::ProbeResult;
use crate::fit::sentence;
use crate::wire::{self, OutcomeKind, SpecKind};
use rdmascope_model::{
    BandwidthStats, Carrier, Effects, Failure, LatencyStats, Manner, Memory, Outcome, PerPriority, ProbePlan,
    ProbeSpec,
};
use std::time::Duration;

pub(super) fn result(r: &ProbeResult) -> wire::ProbeResult {
    let (outcome, retransmits) = match &r.outcome {
        Outcome::Latency(stats, delta) => (OutcomeKind::Latency(latency(stats)), delta.retransmits),
        Outcome::Bandwidth(stats, delta) => (OutcomeKind::Bandwidth(bandwidth(stats)), delta.retransmits),
        Outcome::Pings(stats) => (OutcomeKind::Pings(Box::new(ping::stats(stats))), None),
        Outcome::Echo(stats) => (OutcomeKind::Echo(ping::echo(stats)), None),
        Outcome::Served => (OutcomeKind::Served(wire::Empty {}), None),
        Outcome::Aborted(seen, delta, why) => {
            let seen = seen.as_ref().map(bandwidth);
            (OutcomeKind::Aborted(wire::Aborted { seen, why: *why as u32 }), delta.retransmits)
        }
        Outcome::Failed(f) => (OutcomeKind::Failed(failure(f)), None),
        Outcome::Excluded(why) => (OutcomeKind::Excluded(*why as u32), None),
    };
    wire::ProbeResult {
        lease: r.lease.map(|lease| lease.0),
        local: Some(name(&r.local)),
        peer: Some(name(&r.peer)),
        role: role(r.role),
        metric: r.metric.map_or(0, metric),
        measured_at_ms: r.measured_at.0,
        retransmits,
        outcome: Some(outcome),
        effects: r.effects.as_deref().map(effects),
        evidence: sentence(&r.evidence),
    }
}

fn latency(stats: &LatencyStats) -> wire::Latency {
    wire::Latency {
        count: stats.count,
        min_ns: stats.min_ns,
        p50_ns: stats.p50_ns,
        p90_ns: stats.p90_ns,
        p99_ns: stats.p99_ns,
        p999_ns: stats.p999_ns,
        max_ns: stats.max_ns,
        host_delayed: stats.host_delayed,
    }
}

fn bandwidth(stats: &BandwidthStats) -> wire::Bandwidth {
    wire::Bandwidth {
        bytes: stats.bytes,
        duration_ns: stats.duration_ns,
        average_bps: stats.average_bps,
        worst_window_bps: stats.worst_window_bps,
        completions: stats.completions,
        variation_permille: stats.variation_permille,
    }
}

fn failure(f: &Failure) -> wire::Failure {
    wire::Failure {
        cause: f.cause.number(),
        step: step(f.step),
        side: side(f.side),
        evidence: f.evidence.clone(),
    }
}

fn effects(e: &Effects) -> wire::Effects {
    let list = |counts: Option<PerPriority>| counts.map(|c| wire::PerPriority { counts: c.0.to_vec() });
    wire::Effects {
        retransmits: e.retransmits,
        congestion_notifications_sent: e.congestion_notifications_sent,
        congestion_notifications_handled: e.congestion_notifications_handled,
        congestion_marked: e.congestion_marked,
        discards: e.discards,
        pause_received: list(e.pause_received),
        pause_sent: list(e.pause_sent),
        packets_sent: list(e.packets_sent),
        packets_received: list(e.packets_received),
        processor_ns: e.processor_ns,
        pause_received_ns: list(e.pause_received_ns),
    }
}

pub(super) fn lease(epoch: u64, plan: &ProbePlan, setup_within: Duration) -> wire::Lease {
    let spec = match plan.spec {
        ProbeSpec::Latency(s) => SpecKind::Latency(wire::LatencySpec {
            samples: s.samples,
            warmup: s.warmup,
            message_bytes: s.message_bytes,
        }),
        ProbeSpec::Bandwidth(s) => SpecKind::Bandwidth(wire::BandwidthSpec {
            message_bytes: s.message_bytes,
            depth: s.depth,
            warmup_ms: millis(s.warmup),
            duration_ms: millis(s.duration),
            completions_min: s.completions_min,
            bytes_max: s.bytes_max,
        }),
        ProbeSpec::Pings(s) => SpecKind::Pings(wire::PingSpec {
            count: s.count,
            labels: s.labels,
            interval_us: micros(s.interval),
        }),
        ProbeSpec::Echo(s) => SpecKind::Echo(wire::EchoSpec {
            count: s.count,
            payload_bytes: s.payload_bytes,
            interval_us: micros(s.interval),
        }),
    };
    wire::Lease {
        epoch,
        lease: plan.lease.0,
        role: role(plan.role),
        local: Some(name(&plan.local)),
        peer: Some(name(&plan.peer)),
        urgency: urgency(plan.urgency),
        expires_in_ms: millis(plan.expires_in),
        setup_within_ms: millis(setup_within),
        spec: Some(spec),
        manner: (plan.manner != Manner::default()).then(|| manner(&plan.manner)),
    }
}

fn manner(m: &Manner) -> wire::Manner {
    let gpu = |memory| match memory {
        Memory::Host => None,
        Memory::Gpu(index) => Some(u32::from(index)),
    };
    wire::Manner {
        operation: m.operation as u32,
        queue_pairs: m.queue_pairs,
        both_ways: m.both_ways,
        traffic_class: m.marks.traffic_class.into(),
        service_level: m.marks.service_level.into(),
        flow_label: m.marks.flow_label,
        over_tcp: m.carrier == Carrier::Tcp,
        source_gpu: gpu(m.source_memory),
        target_gpu: gpu(m.target_memory),
    }
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
