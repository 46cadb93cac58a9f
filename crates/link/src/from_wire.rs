//! From foreign bytes to the program's words: every field is checked here, once, and nothing behind it needs to doubt.

mod ping;
mod probe;

use crate::wire::{self, AgentKind, CoordinatorKind};
use crate::{
    BASIS_MAX, DRAIN_FAULTS_MAX, DrainAnswer, DrainFault, ENDPOINTS_PER_AGENT_MAX, EVENTS_PER_FRAME_MAX,
    EVIDENCE_MAX, EventKind, FACTS_MAX, FINDINGS_MAX, FRAME_BYTES_MAX, Fact, FindingBrief, FrameError, Hello,
    NUMBERED_PER_FRAME_MAX, NodeEvent, OFFER_BYTES_MAX, PINGS_PER_FRAME_MAX, PairsBrief, PauseFlags,
    RESULTS_PER_FRAME_MAX, RelayPayload, ToAgent, ToCoordinator, numbered, to_wire,
};
use prost::Message;
use rdmascope_model::{
    Cause, EndpointInfo, EndpointName, Fabric, Gid, LabelBy, LeaseId, MeshSweep, Metric, Reading, Role,
    Status, SwitchPort, Wall,
};
use std::time::Duration;

/// Longest text in a frame, bytes: a line on a screen, several times over.
const TEXT_BYTES_MAX: usize = 1_024;

impl ToCoordinator {
    /// Reads an agent's frame.
    ///
    /// # Errors
    /// The bytes are too many, undecodable, of an unknown kind, or a field makes no sense.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let frame = wire::AgentFrame::decode(bounded(bytes)?).map_err(FrameError::Undecodable)?;
        Ok(match frame.kind.ok_or(FrameError::UnknownKind)? {
            AgentKind::Hello(h) => Self::Hello(hello(h)?),
            AgentKind::Heartbeat(beat) => Self::Heartbeat {
                pause: PauseFlags { all: beat.all, bandwidth: beat.bandwidth },
                drain_for: list("faults to drain for", beat.drain_for, DRAIN_FAULTS_MAX, drain_fault)?,
            },
            AgentKind::Inventory(inventory) => Self::Inventory {
                endpoints: list("endpoints", inventory.endpoints, ENDPOINTS_PER_AGENT_MAX, endpoint)?,
                findings: list("findings", inventory.findings, FINDINGS_MAX, finding)?,
                findings_left_out: inventory.findings_left_out,
            },
            AgentKind::Relay(r) => {
                let (lease, payload) = relay(r)?;
                Self::Relay { lease, payload }
            }
            AgentKind::Facts(f) => Self::Facts(list("facts", f.facts, FACTS_MAX, fact)?),
            AgentKind::Events(e) => Self::Events(list("events", e.events, EVENTS_PER_FRAME_MAX, event)?),
            AgentKind::Pings(p) => Self::Pings {
                reports: list("ping reports", p.reports, PINGS_PER_FRAME_MAX, ping::report)?,
                heard: list("heard pings", p.heard, PINGS_PER_FRAME_MAX, ping::heard)?,
            },
            AgentKind::Numbered(n) => Self::Numbered {
                reports: numbered::decode_reports(&n.reports, NUMBERED_PER_FRAME_MAX)?,
                heard: numbered::decode_heard(&n.heard, NUMBERED_PER_FRAME_MAX)?,
            },
            AgentKind::Results(r) => {
                Self::Results(list("results", r.results, RESULTS_PER_FRAME_MAX, probe::result)?)
            }
        })
    }
}

impl ToAgent {
    /// Reads a coordinator's frame.
    ///
    /// # Errors
    /// The bytes are too many, undecodable, of an unknown kind, or a field makes no sense.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let frame = wire::CoordinatorFrame::decode(bounded(bytes)?).map_err(FrameError::Undecodable)?;
        Ok(match frame.kind.ok_or(FrameError::UnknownKind)? {
            CoordinatorKind::Welcome(w) => Self::Welcome {
                protocol: w.protocol,
                epoch: w.epoch,
                heartbeat: Duration::from_millis(w.heartbeat_ms.max(100).into()),
            },
            CoordinatorKind::Refused(message) => Self::Refused { message: text("message", message)? },
            CoordinatorKind::HeartbeatReply(reply) => Self::HeartbeatReply {
                pairs: reply.pairs.into_iter().map(pairs_brief).collect::<Result<_, _>>()?,
                drain: reply.drain.map(drain_answer).transpose()?,
            },
            CoordinatorKind::Book(book) => ping::book(book)?,
            CoordinatorKind::Grant(g) => Self::Grant {
                epoch: g.epoch,
                generation: g.generation,
                expires_in: Duration::from_millis(g.expires_in_ms.into()),
                pings_per_second: g.pings_per_second,
                pings_per_batch: g.pings_per_batch,
                labels: g.labels,
                cross_rail_every: g.cross_rail_every,
                sweep: g.sweep.map(|sweep| MeshSweep {
                    number: sweep.number,
                    pings_per_second: sweep.pings_per_second,
                    pings_per_batch: sweep.pings_per_batch,
                    cross_rail: sweep.cross_rail,
                }),
            },
            CoordinatorKind::Lease(l) => probe::lease(l)?,
            CoordinatorKind::Relay(r) => {
                let (lease, payload) = relay(r)?;
                Self::Relay { lease, payload }
            }
            CoordinatorKind::LeaseEnd(lease) => Self::LeaseEnd { lease: LeaseId(lease) },
            CoordinatorKind::Pause(flags) => Self::Pause(pause(flags)),
            CoordinatorKind::EventsSeen(number) => Self::EventsSeen { number },
        })
    }
}

fn drain_fault(fault: wire::DrainFault) -> Result<DrainFault, FrameError> {
    Ok(DrainFault { id: text("fault id", fault.id)?, subject: text("fault subject", fault.subject)? })
}

fn drain_answer(answer: wire::DrainAnswer) -> Result<DrainAnswer, FrameError> {
    Ok(DrainAnswer { leave: answer.leave, why: text("answer to a drain", answer.why)? })
}

fn pairs_brief(pairs: wire::PairsBrief) -> Result<PairsBrief, FrameError> {
    Ok(PairsBrief {
        device: text("device", pairs.device)?,
        port: u8::try_from(pairs.port).map_err(|_| bad("port", pairs.port.to_string()))?,
        metric: one_of("metric", pairs.metric, Metric::ALL, to_wire::metric)?,
        outgoing: pairs.outgoing,
        fresh: pairs.fresh,
        stale: pairs.stale,
        failed: pairs.failed,
        worst: pairs.worst,
    })
}

fn bounded(bytes: &[u8]) -> Result<&[u8], FrameError> {
    if bytes.len() <= FRAME_BYTES_MAX { Ok(bytes) } else { Err(FrameError::TooLong(bytes.len())) }
}

pub(crate) fn bad(field: &'static str, what: impl Into<String>) -> FrameError {
    FrameError::BadField { field, what: what.into() }
}

fn text(field: &'static str, text: String) -> Result<String, FrameError> {
    if text.len() <= TEXT_BYTES_MAX {
        Ok(text)
    } else {
        Err(bad(field, format!("{} bytes long", text.len())))
    }
}

fn list<W, T>(
    field: &'static str,
    items: Vec<W>,
    max: usize,
    read: impl Fn(W) -> Result<T, FrameError>,
) -> Result<Vec<T>, FrameError> {
    if items.len() > max {
        return Err(bad(field, format!("{} items long; at most {max} are accepted", items.len())));
    }
    items.into_iter().map(read).collect()
}

/// Finds the value whose number on the wire this is.
fn one_of<T: Copy>(
    field: &'static str,
    number: u32,
    values: impl IntoIterator<Item = T>,
    number_of: impl Fn(T) -> u32,
) -> Result<T, FrameError> {
    let found = values.into_iter().find(|&value| number_of(value) == number);
    found.ok_or_else(|| bad(field, format!("the unknown number {number}")))
}

fn hello(h: wire::Hello) -> Result<Hello, FrameError> {
    // A node name must be able to be part of an endpoint name.
    let node = name("node", Some(wire::Name { node: h.node, device: "x".to_owned(), port: 1 }))?.node;
    let metrics = match h.metrics.as_str() {
        "" => None,
        address => Some(address.parse().map_err(|_| bad("metrics address", "not IP:PORT"))?),
    };
    Ok(Hello {
        protocol_min: h.protocol_min,
        protocol_max: h.protocol_max,
        agent_version: text("agent version", h.agent_version)?,
        node,
        instance: h.instance,
        machine: text("machine", h.machine)?,
        metrics,
    })
}

fn pause(flags: wire::PauseFlags) -> PauseFlags {
    PauseFlags { all: flags.all, bandwidth: flags.bandwidth }
}

fn name(field: &'static str, name: Option<wire::Name>) -> Result<EndpointName, FrameError> {
    let name = name.ok_or_else(|| bad(field, "missing"))?;
    let written = format!("{}/{}/{}", name.node, name.device, name.port);
    written.parse().map_err(|e: rdmascope_model::EndpointNameError| bad(field, e.to_string()))
}

fn endpoint(e: wire::Endpoint) -> Result<EndpointInfo, FrameError> {
    let unusable = e.unusable.map(cause).transpose()?;
    let port = e.switch_port.map(|t| text("switch port", t)).transpose()?;
    let switch_port = match (e.switch, e.switch_unread) {
        (Some(switch), _) => Reading::Value(SwitchPort { switch: text("switch", switch)?, port }),
        (None, Some(why)) => Reading::Failed(text("switch unread", why)?),
        (None, None) => Reading::Absent,
    };
    Ok(EndpointInfo {
        name: name("endpoint", e.name)?,
        fabric: one_of("fabric", e.fabric, Fabric::ALL, to_wire::fabric)?,
        gid: e.gid.map(gid).transpose()?,
        netdev: e.netdev.map(|t| text("netdev", t)).transpose()?,
        netdev_mtu: e.netdev_mtu,
        active_mtu: e.active_mtu,
        rate_bps: e.rate_bps,
        datagrams: e.datagrams.map(ping::address).transpose()?,
        connections_labelled_by: label_by(e.connections_labelled_by),
        datagrams_labelled_by: label_by(e.datagrams_labelled_by),
        pci_address: e.pci_address.map(|t| text("PCI address", t)).transpose()?,
        rail: e.rail.map(|t| text("rail", t)).transpose()?,
        switch_port,
        unusable,
        unusable_detail: text("unusable detail", e.unusable_detail)?,
    })
}

fn gid(bytes: Vec<u8>) -> Result<Gid, FrameError> {
    <[u8; 16]>::try_from(bytes).map(Gid).map_err(|bytes| bad("gid", format!("{} bytes long", bytes.len())))
}

/// A way that a newer agent knows and this program does not cannot be used here.
fn label_by(number: u32) -> LabelBy {
    LabelBy::ALL.into_iter().find(|by| to_wire::label_by(*by) == number).unwrap_or_default()
}

/// A cause that a newer agent knows and this program does not is still a failure.
fn cause(number: u32) -> Result<Cause, FrameError> {
    if number == 0 {
        return Err(bad("cause", "missing"));
    }
    Ok(Cause::from_number(number).unwrap_or(Cause::Internal))
}

fn finding(f: wire::Finding) -> Result<FindingBrief, FrameError> {
    Ok(FindingBrief {
        id: text("finding id", f.id)?,
        status: one_of("finding status", f.status, Status::ALL, to_wire::status)?,
        subject: text("finding subject", f.subject)?,
        summary: text("finding summary", f.summary)?,
        cause: text("finding cause", f.cause)?,
        next_step: text("finding next step", f.next_step)?,
        evidence: list("finding evidence", f.evidence, EVIDENCE_MAX, |t| text("finding evidence", t))?,
        settling: f.settling,
        since: Wall(f.since_ms),
        latched: f.latched,
    })
}

fn fact(f: wire::Fact) -> Result<Fact, FrameError> {
    Ok(Fact {
        subject: text("fact subject", f.subject)?,
        key: text("fact key", f.key)?,
        value: text("fact value", f.value)?,
    })
}

fn event(e: wire::NodeEvent) -> Result<NodeEvent, FrameError> {
    Ok(NodeEvent {
        number: e.number,
        at: Wall(e.at_ms),
        kind: one_of("event kind", e.kind, EventKind::ALL, to_wire::event_kind)?,
        subject: text("event subject", e.subject)?,
        id: text("event id", e.id)?,
        before: text("event before", e.before)?,
        after: text("event after", e.after)?,
        text: text("event text", e.text)?,
        basis: e.basis.map(basis).transpose()?,
    })
}

fn basis(basis: wire::Lines) -> Result<Vec<String>, FrameError> {
    if basis.lines.len() > BASIS_MAX {
        return Err(bad("event basis", format!("{} lines long", basis.lines.len())));
    }
    basis.lines.into_iter().map(|line| text("event basis", line)).collect()
}

fn relay(r: wire::Relay) -> Result<(LeaseId, RelayPayload), FrameError> {
    let payload = match r.offer {
        None => RelayPayload::Ready,
        Some(offer) if offer.len() <= OFFER_BYTES_MAX => RelayPayload::Offer(offer),
        Some(offer) => return Err(bad("offer", format!("{} bytes long", offer.len()))),
    };
    Ok((LeaseId(r.lease), payload))
}

fn role(number: u32) -> Result<Role, FrameError> {
    one_of("role", number, [Role::Source, Role::Target], to_wire::role)
}
