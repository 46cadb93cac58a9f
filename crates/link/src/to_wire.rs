//! From the program's words to protobuf messages; this direction cannot fail.

use crate::wire::{self, AgentKind, CoordinatorKind, OutcomeKind, SpecKind};
use crate::{
    EventKind, Fact, FindingBrief, Hello, NodeEvent, PauseFlags, ProbeResult, RelayPayload, ToAgent,
    ToCoordinator,
};
use prost::Message;
use rdmascope_model::{
    BandwidthStats, EndpointInfo, EndpointName, Fabric, Failure, LatencyStats, LeaseId, Metric, Outcome,
    ProbePlan, ProbeSpec, Role, Side, Status, Step, Urgency,
};
use std::time::Duration;

impl ToCoordinator {
    /// The bytes of this frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let kind = match self {
            Self::Hello(h) => AgentKind::Hello(hello(h)),
            Self::Heartbeat(flags) => AgentKind::Heartbeat(pause(*flags)),
            Self::Inventory { endpoints, findings, findings_left_out } => {
                AgentKind::Inventory(wire::Inventory {
                    endpoints: endpoints.iter().map(endpoint).collect(),
                    findings: findings.iter().map(finding).collect(),
                    findings_left_out: *findings_left_out,
                })
            }
            Self::Relay { lease, payload } => AgentKind::Relay(relay(*lease, payload)),
            Self::Facts(facts) => AgentKind::Facts(wire::Facts { facts: facts.iter().map(fact).collect() }),
            Self::Events(events) => {
                AgentKind::Events(wire::Events { events: events.iter().map(event).collect() })
            }
            Self::Results(results) => {
                AgentKind::Results(wire::Results { results: results.iter().map(result).collect() })
            }
        };
        wire::AgentFrame { kind: Some(kind) }.encode_to_vec()
    }
}

impl ToAgent {
    /// The bytes of this frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let kind = match self {
            Self::Welcome { protocol, epoch, heartbeat } => CoordinatorKind::Welcome(wire::Welcome {
                protocol: *protocol,
                epoch: *epoch,
                heartbeat_ms: millis(*heartbeat),
            }),
            Self::Refused { message } => CoordinatorKind::Refused(message.clone()),
            Self::HeartbeatReply => CoordinatorKind::HeartbeatReply(wire::Empty {}),
            Self::Book { generation, total, peers } => CoordinatorKind::Book(wire::Book {
                generation: *generation,
                total: *total,
                peers: peers.iter().map(name).collect(),
            }),
            Self::Grant { epoch, generation, expires_in, pings_per_second } => {
                CoordinatorKind::Grant(wire::Grant {
                    epoch: *epoch,
                    generation: *generation,
                    expires_in_ms: millis(*expires_in),
                    pings_per_second: *pings_per_second,
                })
            }
            Self::Lease { epoch, plan, setup_within } => {
                CoordinatorKind::Lease(lease(*epoch, plan, *setup_within))
            }
            Self::Relay { lease, payload } => CoordinatorKind::Relay(relay(*lease, payload)),
            Self::LeaseEnd { lease } => CoordinatorKind::LeaseEnd(lease.0),
            Self::Pause(flags) => CoordinatorKind::Pause(pause(*flags)),
            Self::EventsSeen { number } => CoordinatorKind::EventsSeen(*number),
        };
        wire::CoordinatorFrame { kind: Some(kind) }.encode_to_vec()
    }
}

fn hello(h: &Hello) -> wire::Hello {
    wire::Hello {
        protocol_min: h.protocol_min,
        protocol_max: h.protocol_max,
        agent_version: h.agent_version.clone(),
        node: h.node.clone(),
        instance: h.instance,
        machine: h.machine.clone(),
    }
}

fn pause(flags: PauseFlags) -> wire::PauseFlags {
    wire::PauseFlags { all: flags.all, bandwidth: flags.bandwidth }
}

fn name(name: &EndpointName) -> wire::Name {
    wire::Name { node: name.node.clone(), device: name.device.clone(), port: u32::from(name.port) }
}

pub(crate) fn endpoint(info: &EndpointInfo) -> wire::Endpoint {
    wire::Endpoint {
        name: Some(name(&info.name)),
        fabric: fabric(info.fabric),
        gid: info.gid.map(|gid| gid.0.to_vec()),
        netdev: info.netdev.clone(),
        netdev_mtu: info.netdev_mtu,
        active_mtu: info.active_mtu,
        rate_bps: info.rate_bps,
        unusable: info.unusable.map(rdmascope_model::Cause::number),
        unusable_detail: info.unusable_detail.clone(),
    }
}

pub(crate) fn finding(f: &FindingBrief) -> wire::Finding {
    wire::Finding {
        id: f.id.clone(),
        status: status(f.status),
        subject: f.subject.clone(),
        summary: f.summary.clone(),
        next_step: f.next_step.clone(),
        cause: f.cause.clone(),
        evidence: f.evidence.clone(),
        settling: f.settling,
        since_ms: f.since.0,
        latched: f.latched,
    }
}

pub(crate) fn fact(f: &Fact) -> wire::Fact {
    wire::Fact { subject: f.subject.clone(), key: f.key.clone(), value: f.value.clone() }
}

fn event(e: &NodeEvent) -> wire::NodeEvent {
    wire::NodeEvent {
        number: e.number,
        at_ms: e.at.0,
        kind: event_kind(e.kind),
        subject: e.subject.clone(),
        id: e.id.clone(),
        before: e.before.clone(),
        after: e.after.clone(),
        text: e.text.clone(),
    }
}

fn relay(lease: LeaseId, payload: &RelayPayload) -> wire::Relay {
    let offer = match payload {
        RelayPayload::Offer(bytes) => Some(bytes.clone()),
        RelayPayload::Ready => None,
    };
    wire::Relay { lease: lease.0, offer }
}

fn result(r: &ProbeResult) -> wire::ProbeResult {
    let (outcome, retransmits) = match &r.outcome {
        Outcome::Latency(stats, delta) => (OutcomeKind::Latency(latency(stats)), delta.retransmits),
        Outcome::Bandwidth(stats, delta) => (OutcomeKind::Bandwidth(bandwidth(stats)), delta.retransmits),
        Outcome::Failed(f) => (OutcomeKind::Failed(failure(f)), None),
        Outcome::Excluded(why) => (OutcomeKind::Excluded(*why as u32), None),
    };
    wire::ProbeResult {
        lease: r.lease.map(|lease| lease.0),
        local: Some(name(&r.local)),
        peer: Some(name(&r.peer)),
        role: role(r.role),
        metric: metric(r.metric),
        measured_at_ms: r.measured_at.0,
        retransmits,
        outcome: Some(outcome),
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

fn lease(epoch: u64, plan: &ProbePlan, setup_within: Duration) -> wire::Lease {
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
    }
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// The numbers of the enumerations; `from_wire` reads them back by trying each value, so they stand here only.
pub(crate) fn fabric(fabric: Fabric) -> u32 {
    match fabric {
        Fabric::Roce => 1,
        Fabric::InfiniBand => 2,
        Fabric::Tcp => 3,
        Fabric::Simulated => 4,
    }
}

pub(crate) fn status(status: Status) -> u32 {
    match status {
        Status::Ok => 1,
        Status::Warn => 2,
        Status::Unknown => 3,
        Status::Fail => 4,
    }
}

pub(crate) fn event_kind(kind: EventKind) -> u32 {
    match kind {
        EventKind::StateChange => 1,
        EventKind::FindingRaised => 2,
        EventKind::FindingCleared => 3,
        EventKind::KernelLog => 4,
        EventKind::SettingChange => 5,
    }
}

pub(crate) fn role(role: Role) -> u32 {
    match role {
        Role::Source => 1,
        Role::Target => 2,
    }
}

pub(crate) fn metric(metric: Metric) -> u32 {
    match metric {
        Metric::Latency => 1,
        Metric::Bandwidth => 2,
    }
}

pub(crate) fn step(step: Step) -> u32 {
    match step {
        Step::Admit => 1,
        Step::Open => 2,
        Step::Init => 3,
        Step::Exchange => 4,
        Step::Rtr => 5,
        Step::Rts => 6,
        Step::FirstByte => 7,
        Step::Measure => 8,
    }
}

pub(crate) fn side(side: Side) -> u32 {
    match side {
        Side::Source => 1,
        Side::Target => 2,
        Side::Coordinator => 3,
    }
}

pub(crate) fn urgency(urgency: Urgency) -> u32 {
    match urgency {
        Urgency::Background => 1,
        Urgency::Operator => 2,
        Urgency::Drained => 3,
    }
}
