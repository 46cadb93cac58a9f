//! Leases and how their probes ended, out of messages.

use super::{bad, cause, name, one_of, ping, role, text};
use crate::wire::{self, OutcomeKind, SpecKind};
use crate::{FrameError, ProbeResult, ToAgent, to_wire};
use rdmascope_model::{
    BandwidthSpec, BandwidthStats, Carrier, Congestion, CounterDelta, EchoSpec, Effects, Exclusion, Failure,
    LatencySpec, LatencyStats, LeaseId, Manner, Marks, Memory, Metric, Operation, Outcome, PerPriority,
    PingSpec, ProbePlan, ProbeSpec, Side, Step, Urgency, Wall,
};
use std::time::Duration;

/// A flow label has 20 bits.
const FLOW_LABEL_MAX: u32 = 0x000F_FFFF;
/// A service level has 4 bits.
const SERVICE_LEVEL_MAX: u32 = 15;

pub(super) fn result(r: wire::ProbeResult) -> Result<ProbeResult, FrameError> {
    let delta = CounterDelta { retransmits: r.retransmits };
    let outcome = match r.outcome.ok_or_else(|| bad("outcome", "missing"))? {
        OutcomeKind::Latency(l) => Outcome::Latency(latency(&l)?, delta),
        OutcomeKind::Bandwidth(b) => Outcome::Bandwidth(bandwidth(&b)?, delta),
        OutcomeKind::Failed(f) => Outcome::Failed(Failure {
            cause: cause(f.cause)?,
            step: one_of("step", f.step, Step::ALL, to_wire::step)?,
            side: one_of("side", f.side, [Side::Source, Side::Target, Side::Coordinator], to_wire::side)?,
            evidence: text("evidence", f.evidence)?,
        }),
        OutcomeKind::Pings(p) => Outcome::Pings(Box::new(ping::stats(*p)?)),
        OutcomeKind::Echo(e) => Outcome::Echo(ping::echo(&e)?),
        OutcomeKind::Served(_) => Outcome::Served,
        OutcomeKind::Aborted(a) => {
            let seen = a.seen.as_ref().map(bandwidth).transpose()?;
            Outcome::Aborted(seen, delta, one_of("congestion", a.why, Congestion::ALL, |c| c as u32)?)
        }
        OutcomeKind::Excluded(why) => {
            Outcome::Excluded(one_of("exclusion", why, Exclusion::ALL, |e| e as u32)?)
        }
    };
    Ok(ProbeResult {
        lease: r.lease.map(LeaseId),
        local: name("local endpoint", r.local)?,
        peer: name("peer endpoint", r.peer)?,
        role: role(r.role)?,
        metric: match r.metric {
            0 => None,
            number => Some(one_of("metric", number, Metric::ALL, to_wire::metric)?),
        },
        measured_at: Wall(r.measured_at_ms),
        outcome,
        effects: r.effects.map(|e| effects(&e).map(Box::new)).transpose()?,
        evidence: text("evidence of a result", r.evidence)?,
    })
}

fn latency(l: &wire::Latency) -> Result<LatencyStats, FrameError> {
    let rising = l.min_ns <= l.p50_ns && l.p50_ns <= l.p90_ns && l.p90_ns <= l.max_ns;
    if l.count == 0 || !rising {
        return Err(bad("latency", "not a set of rising figures with a count"));
    }
    Ok(LatencyStats {
        count: l.count,
        min_ns: l.min_ns,
        p50_ns: l.p50_ns,
        p90_ns: l.p90_ns,
        p99_ns: l.p99_ns,
        p999_ns: l.p999_ns,
        max_ns: l.max_ns,
        host_delayed: l.host_delayed,
    })
}

fn bandwidth(b: &wire::Bandwidth) -> Result<BandwidthStats, FrameError> {
    if b.completions == 0 || b.duration_ns == 0 || b.average_bps == 0 {
        return Err(bad("bandwidth", "without completions, time or rate: that is a failure, not a number"));
    }
    Ok(BandwidthStats {
        bytes: b.bytes,
        duration_ns: b.duration_ns,
        average_bps: b.average_bps,
        worst_window_bps: b.worst_window_bps,
        completions: b.completions,
        variation_permille: b.variation_permille,
    })
}

fn effects(e: &wire::Effects) -> Result<Effects, FrameError> {
    let list = |counts: &Option<wire::PerPriority>| {
        let read = |c: &wire::PerPriority| <[u64; 8]>::try_from(c.counts.as_slice()).map(PerPriority);
        counts.as_ref().map(read).transpose().map_err(|_| bad("priorities", "not eight numbers"))
    };
    Ok(Effects {
        retransmits: e.retransmits,
        congestion_notifications_sent: e.congestion_notifications_sent,
        congestion_notifications_handled: e.congestion_notifications_handled,
        congestion_marked: e.congestion_marked,
        discards: e.discards,
        pause_received: list(&e.pause_received)?,
        pause_sent: list(&e.pause_sent)?,
        packets_sent: list(&e.packets_sent)?,
        packets_received: list(&e.packets_received)?,
        processor_ns: e.processor_ns,
        pause_received_ns: list(&e.pause_received_ns)?,
    })
}

pub(super) fn lease(l: wire::Lease) -> Result<ToAgent, FrameError> {
    let spec = match l.spec.ok_or_else(|| bad("spec", "missing"))? {
        SpecKind::Latency(s) => ProbeSpec::Latency(LatencySpec {
            samples: s.samples,
            warmup: s.warmup,
            message_bytes: s.message_bytes,
        }),
        SpecKind::Bandwidth(s) => ProbeSpec::Bandwidth(BandwidthSpec {
            message_bytes: s.message_bytes,
            depth: s.depth,
            warmup: Duration::from_millis(s.warmup_ms.into()),
            duration: Duration::from_millis(s.duration_ms.into()),
            completions_min: s.completions_min,
            bytes_max: s.bytes_max,
        }),
        SpecKind::Pings(s) => ProbeSpec::Pings(PingSpec {
            count: s.count,
            labels: s.labels,
            interval: Duration::from_micros(s.interval_us.into()),
        }),
        SpecKind::Echo(s) => ProbeSpec::Echo(EchoSpec {
            count: s.count,
            payload_bytes: s.payload_bytes,
            interval: Duration::from_micros(s.interval_us.into()),
        }),
    };
    let plan = ProbePlan {
        lease: LeaseId(l.lease),
        role: role(l.role)?,
        local: name("local endpoint", l.local)?,
        peer: name("peer endpoint", l.peer)?,
        spec,
        manner: l.manner.map(|m| manner(&m)).transpose()?.unwrap_or_default(),
        urgency: one_of("urgency", l.urgency, Urgency::ALL, to_wire::urgency)?,
        expires_in: Duration::from_millis(l.expires_in_ms.into()),
    };
    Ok(ToAgent::Lease { epoch: l.epoch, plan, setup_within: Duration::from_millis(l.setup_within_ms.into()) })
}

fn manner(m: &wire::Manner) -> Result<Manner, FrameError> {
    let gpu = |index: Option<u32>| match index.map(u8::try_from) {
        None => Ok(Memory::Host),
        Some(Ok(index)) => Ok(Memory::Gpu(index)),
        Some(Err(_)) => Err(bad("GPU", "out of range")),
    };
    let marks = Marks {
        traffic_class: u8::try_from(m.traffic_class).map_err(|_| bad("traffic class", "out of range"))?,
        service_level: u8::try_from(m.service_level.min(SERVICE_LEVEL_MAX + 1)).unwrap_or(u8::MAX),
        flow_label: m.flow_label,
    };
    if u32::from(marks.service_level) > SERVICE_LEVEL_MAX || marks.flow_label > FLOW_LABEL_MAX {
        return Err(bad("marks", "out of range"));
    }
    Ok(Manner {
        operation: one_of("operation", m.operation, Operation::ALL, |o| o as u32)?,
        queue_pairs: m.queue_pairs,
        both_ways: m.both_ways,
        marks,
        carrier: if m.over_tcp { Carrier::Tcp } else { Carrier::Native },
        source_memory: gpu(m.source_gpu)?,
        target_memory: gpu(m.target_gpu)?,
    })
}
