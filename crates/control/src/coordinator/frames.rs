//! What agents say, and what the coordinator makes of it; nothing in a frame is believed beyond its sender's own node.

use super::lease::place;
use super::{Action, ConnectionId, Coordinator, Refusal, RowKind, settings};
use rdmascope_link::{Hello, ProbeResult, RelayPayload, ToAgent, ToCoordinator, negotiate};
use rdmascope_localise::{CLOCK_AHEAD_MAX, EndpointIndex, Measured, PingFigures};
use rdmascope_model::{Failure, LeaseId, Metric, Now, Outcome, Step};

impl Coordinator {
    pub(super) fn frame(&mut self, connection: ConnectionId, frame: ToCoordinator, now: Now) {
        if let ToCoordinator::Hello(hello) = frame {
            self.changed = true;
            self.hello(connection, hello, now);
            return;
        }
        let Some(node) = self.members.node(connection).map(str::to_owned) else {
            let why = "the first frame must be a hello".to_owned();
            self.refuse(connection, Refusal::Conduct, why);
            return;
        };
        self.members.heard(&node, now);
        match frame {
            ToCoordinator::Hello(_) => {}
            ToCoordinator::Heartbeat { pause, drain_for } => {
                if let Some(member) = self.members.agent_mut(&node) {
                    self.changed |= member.local_pause != pause;
                    member.local_pause = pause;
                }
                let pairs = self.pairs_of(&node);
                let drain = (!drain_for.is_empty()).then(|| self.may_be_drained(&node, &drain_for, now));
                self.outbox.push_back(Action::Send(connection, ToAgent::HeartbeatReply { pairs, drain }));
            }
            ToCoordinator::Inventory { endpoints, findings, findings_left_out } => {
                self.changed = true;
                let taken = self.members.inventory(
                    &node,
                    endpoints,
                    (findings, findings_left_out),
                    &mut self.matrix,
                    now,
                );
                if let Err(why) = taken {
                    self.refuse(connection, Refusal::Conduct, why);
                    self.closed(connection, now);
                }
                self.findings_changed(&node);
            }
            ToCoordinator::Relay { lease, payload } => self.relay(connection, lease, payload, now),
            ToCoordinator::Pings { reports, heard } => self.pings(&node, &reports, &heard, now),
            ToCoordinator::Numbered { reports, heard } => self.numbered_pings(&node, &reports, &heard, now),
            ToCoordinator::Facts(facts) => self.facts(&node, facts, now),
            ToCoordinator::Events(events) => self.events(connection, &node, events, now),
            ToCoordinator::Results(results) => {
                for result in results {
                    self.result(connection, &node, result, now);
                }
            }
        }
    }

    fn refuse(&mut self, connection: ConnectionId, reason: Refusal, why: String) {
        self.outbox.push_back(Action::Refused(reason));
        self.outbox.push_back(Action::Send(connection, ToAgent::Refused { message: why.clone() }));
        self.outbox.push_back(Action::Close(connection, why));
    }

    fn hello(&mut self, connection: ConnectionId, hello: Hello, now: Now) {
        if self.members.node(connection).is_some() {
            self.refuse(connection, Refusal::Conduct, "a second hello on the same connection".to_owned());
            return self.closed(connection, now);
        }
        let protocol = match negotiate(hello.protocol_min, hello.protocol_max) {
            Ok(protocol) => protocol,
            Err(mismatch) => return self.refuse(connection, Refusal::Version, mismatch.to_string()),
        };
        let node = hello.node.clone();
        if let Some(old) = self.members.join(hello, protocol, connection, now) {
            self.lose_leases(old);
            self.outbox.push_back(Action::Close(old, format!("{node} connected again")));
        }
        self.silence();
        let welcome = ToAgent::Welcome { protocol, epoch: self.epoch, heartbeat: settings::HEARTBEAT };
        self.outbox.push_back(Action::Send(connection, welcome));
        let flags = self.ordered_pause(&node);
        self.outbox.push_back(Action::Send(connection, ToAgent::Pause(flags)));
        let text = format!("the agent of {node} is connected");
        self.note(&node, RowKind::Connected, "", "", text, now);
        self.health.look_again(now.mono);
        self.matrix.touch();
    }

    pub(super) fn closed(&mut self, connection: ConnectionId, now: Now) {
        if let Some(node) = self.members.leave(connection) {
            self.note(&node, RowKind::Lost, "", "", format!("the connection of {node}'s agent ended"), now);
            self.health.look_again(now.mono);
            self.changed = true;
            self.lose_leases(connection);
            self.matrix.touch();
        }
    }

    fn lose_leases(&mut self, connection: ConnectionId) {
        for lease in self.leases.values_mut() {
            if let Some(role) = lease.role_of(connection) {
                lease.lost(role);
            }
        }
    }

    fn relay(&mut self, from: ConnectionId, id: LeaseId, payload: RelayPayload, now: Now) {
        // What belongs to no lease comes from one that is over.
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let Some(role) = lease.role_of(from) else { return };
        let to = lease.connections[1 - place(role)];
        let (step, text) = match &payload {
            RelayPayload::Offer(_) => (Step::Init, "queue pair made, address sent to the peer"),
            RelayPayload::Ready => (Step::Rts, "connected to the peer"),
        };
        let origin = lease.job.origin;
        self.work.runs.step(origin, role.side(), step, text.to_owned(), now.mono);
        let runs = matches!(payload, RelayPayload::Ready) && lease.ready(role);
        self.outbox.push_back(Action::Send(to, ToAgent::Relay { lease: id, payload }));
        if runs {
            self.start_beside(origin, now);
        }
    }

    pub(super) fn result(&mut self, connection: ConnectionId, node: &str, mut result: ProbeResult, now: Now) {
        if result.local.node != node {
            return; // An agent cannot speak for another.
        }
        let Some(id) = result.lease else {
            if result.measured_at.since(now.wall) > CLOCK_AHEAD_MAX {
                return; // It may be of any age; not to know is better than to know the wrong thing.
            }
            result.measured_at = result.measured_at.min(now.wall);
            return self.remembered(&result, now);
        };
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let Some(role) = lease.role_of(connection) else { return };
        // It was measured under this lease. A time outside of it comes from a clock that is wrong, and one that lies
        // before the lease would let an older failure stand as the newer news.
        if !(lease.began.wall..=now.wall).contains(&result.measured_at) {
            result.measured_at = now.wall;
        }
        let text = told(&result.outcome, &result.evidence);
        self.work.runs.step(lease.job.origin, role.side(), Step::Measure, text, now.mono);
        lease.result(role, result, now.mono);
    }

    /// A result from before this coordinator began. A failure is kept too: it was the last thing known of the pair.
    fn remembered(&mut self, result: &ProbeResult, now: Now) {
        let Some(source) = self.matrix.find(&result.local) else { return };
        let Some(target) = self.number_for(&result.peer) else { return };
        self.write(source, target, result);
        if result.metric == Some(Metric::Ping) && matches!(result.outcome, Outcome::Failed(_)) {
            self.pinged_in_pass(source, target, true, now);
        }
    }

    pub(super) fn write(&mut self, source: EndpointIndex, target: EndpointIndex, result: &ProbeResult) {
        let at = result.measured_at;
        match &result.outcome {
            Outcome::Latency(stats, delta) => {
                self.matrix.record(source, target, at, &Measured::Latency(*stats, *delta));
            }
            Outcome::Bandwidth(stats, delta) => {
                self.matrix.record(source, target, at, &Measured::Bandwidth(*stats, *delta));
            }
            Outcome::Failed(failure) => {
                if let Some(metric) = result.metric {
                    self.matrix.fail(metric, source, target, at, failure);
                }
            }
            Outcome::Excluded(why) => {
                if let Some(metric) = result.metric {
                    self.matrix.exclude(metric, source, target, at, *why);
                }
            }
            // A batch that was never told as a failure was answered.
            Outcome::Pings(stats) if result.metric == Some(Metric::Ping) => {
                self.matrix.record(source, target, at, &Measured::Ping(PingFigures::from(&**stats)));
            }
            Outcome::Pings(_) | Outcome::Echo(_) | Outcome::Served | Outcome::Aborted(..) => {}
        }
    }
}
/// An outcome in words, for the steps of a single probe.
fn told(outcome: &Outcome, evidence: &str) -> String {
    match outcome {
        Outcome::Latency(stats, _) => format!("{} round trips measured", stats.count),
        Outcome::Bandwidth(stats, _) => format!("{} writes completed", stats.completions),
        Outcome::Pings(stats) => {
            format!(
                "{} pings sent, {} answered",
                stats.small.sent + stats.large.sent,
                stats.small.answered + stats.large.answered
            )
        }
        Outcome::Echo(stats) => format!("{} echoes sent, {} answered", stats.sent, stats.answered),
        Outcome::Served => "it was there until the end".to_owned(),
        Outcome::Aborted(seen, _, why) => {
            let seen = seen.as_ref().map(|stats| {
                format!(
                    "; until then {} Mb/s over {} ms",
                    stats.average_bps / 1_000_000,
                    stats.duration_ns / 1_000_000
                )
            });
            format!("aborted(congested): {why}{}", seen.unwrap_or_default())
        }
        Outcome::Failed(Failure { cause, evidence, .. }) => format!("failed: {} ({evidence})", cause.text()),
        Outcome::Excluded(why) if evidence.is_empty() => format!("not run: {}", why.as_str()),
        Outcome::Excluded(why) => format!("not run: {}: {evidence}", why.as_str()),
    }
}
