//! From the program's words to protobuf messages; this direction cannot fail.

mod ping;
mod probe;

use crate::wire::{self, AgentKind, CoordinatorKind};
use crate::{
    DrainFault, EventKind, Fact, FindingBrief, Hello, NodeEvent, PairsBrief, PauseFlags, RelayPayload,
    ToAgent, ToCoordinator, numbered,
};
use prost::Message;
use rdmascope_model::{
    EndpointInfo, EndpointName, Fabric, LabelBy, LeaseId, Metric, Reading, Role, Side, StampClock, Status,
    Step, Urgency,
};
use std::time::Duration;

impl ToCoordinator {
    /// The bytes of this frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let kind = match self {
            Self::Hello(h) => AgentKind::Hello(hello(h)),
            Self::Heartbeat { pause, drain_for } => AgentKind::Heartbeat(wire::Heartbeat {
                all: pause.all,
                bandwidth: pause.bandwidth,
                drain_for: drain_for.iter().map(drain_fault).collect(),
            }),
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
            Self::Pings { reports, heard } => AgentKind::Pings(wire::Pings {
                reports: reports.iter().map(ping::report).collect(),
                heard: heard.iter().map(ping::heard).collect(),
            }),
            Self::Numbered { reports, heard } => AgentKind::Numbered(wire::Numbered {
                reports: numbered::encode_reports(reports),
                heard: numbered::encode_heard(heard),
            }),
            Self::Results(results) => {
                AgentKind::Results(wire::Results { results: results.iter().map(probe::result).collect() })
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
            Self::HeartbeatReply { pairs, drain } => CoordinatorKind::HeartbeatReply(wire::HeartbeatReply {
                pairs: pairs.iter().map(pairs_brief).collect(),
                drain: drain
                    .as_ref()
                    .map(|answer| wire::DrainAnswer { leave: answer.leave, why: answer.why.clone() }),
            }),
            Self::Book { generation, base, total, peers, numbers, removed } => {
                CoordinatorKind::Book(wire::Book {
                    generation: *generation,
                    total: *total,
                    peers: peers.iter().map(|peer| name(&peer.name)).collect(),
                    base: *base,
                    addresses: peers.iter().map(ping::peer_address).collect(),
                    removed: removed.iter().map(name).collect(),
                    rails: match peers.iter().any(|peer| peer.rail != 0) {
                        true => peers.iter().map(|peer| peer.rail).collect(),
                        false => Vec::new(),
                    },
                    numbers: numbers.to_vec(),
                })
            }
            Self::Grant {
                epoch,
                generation,
                expires_in,
                pings_per_second,
                pings_per_batch,
                labels,
                cross_rail_every,
                sweep,
            } => CoordinatorKind::Grant(wire::Grant {
                epoch: *epoch,
                generation: *generation,
                expires_in_ms: millis(*expires_in),
                pings_per_second: *pings_per_second,
                pings_per_batch: *pings_per_batch,
                labels: *labels,
                cross_rail_every: *cross_rail_every,
                sweep: sweep.as_ref().map(ping::sweep),
            }),
            Self::Lease { epoch, plan, setup_within } => {
                CoordinatorKind::Lease(probe::lease(*epoch, plan, *setup_within))
            }
            Self::Relay { lease, payload } => CoordinatorKind::Relay(relay(*lease, payload)),
            Self::LeaseEnd { lease } => CoordinatorKind::LeaseEnd(lease.0),
            Self::Pause(flags) => CoordinatorKind::Pause(pause(*flags)),
            Self::EventsSeen { number } => CoordinatorKind::EventsSeen(*number),
        };
        wire::CoordinatorFrame { kind: Some(kind) }.encode_to_vec()
    }
}

fn drain_fault(fault: &DrainFault) -> wire::DrainFault {
    wire::DrainFault { id: fault.id.clone(), subject: fault.subject.clone() }
}

fn pairs_brief(pairs: &PairsBrief) -> wire::PairsBrief {
    wire::PairsBrief {
        device: pairs.device.clone(),
        port: pairs.port.into(),
        metric: metric(pairs.metric),
        outgoing: pairs.outgoing,
        fresh: pairs.fresh,
        stale: pairs.stale,
        failed: pairs.failed,
        worst: pairs.worst,
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
        metrics: h.metrics.map(|address| address.to_string()).unwrap_or_default(),
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
        datagrams: info.datagrams.as_ref().map(ping::address),
        connections_labelled_by: label_by(info.connections_labelled_by),
        datagrams_labelled_by: label_by(info.datagrams_labelled_by),
        pci_address: info.pci_address.clone(),
        rail: info.rail.clone(),
        switch: info.switch_port.value().map(|at| at.switch.clone()),
        switch_port: info.switch_port.value().and_then(|at| at.port.clone()),
        switch_unread: match &info.switch_port {
            Reading::Failed(why) => Some(why.clone()),
            Reading::Value(_) | Reading::Absent => None,
        },
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

pub(crate) fn event(e: &NodeEvent) -> wire::NodeEvent {
    wire::NodeEvent {
        number: e.number,
        at_ms: e.at.0,
        kind: event_kind(e.kind),
        subject: e.subject.clone(),
        id: e.id.clone(),
        before: e.before.clone(),
        after: e.after.clone(),
        text: e.text.clone(),
        basis: e.basis.as_ref().map(|lines| wire::Lines { lines: lines.clone() }),
    }
}

fn relay(lease: LeaseId, payload: &RelayPayload) -> wire::Relay {
    let offer = match payload {
        RelayPayload::Offer(bytes) => Some(bytes.clone()),
        RelayPayload::Ready => None,
    };
    wire::Relay { lease: lease.0, offer }
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
        Fabric::Iwarp => 5,
    }
}

pub(crate) fn label_by(by: LabelBy) -> u32 {
    match by {
        LabelBy::Unknown => 0,
        LabelBy::FlowLabel => 1,
        LabelBy::QueuePair => 2,
        LabelBy::Nothing => 3,
    }
}

pub(crate) fn stamp_clock(clock: StampClock) -> u32 {
    match clock {
        StampClock::Software => 1,
        StampClock::Hardware => 2,
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
        Metric::Ping => 3,
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
        Step::Resolve => 9,
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
        Urgency::Forced => 4,
    }
}
