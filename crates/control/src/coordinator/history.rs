//! How the coordinator's state keeps the nodes' health: frames in, notes of operators, and what is to be written down.

use super::health::{Acknowledgement, FindingKey, MAINTENANCE_MAX, Maintenance};
use super::rows::{EventRow, RowKind, Taken};
use super::{Action, CommandError, ConnectionId, Coordinator, Drift, Health, Member};
use rdmascope_checks::{DRIFT, DRIFT_CAUSES};
use rdmascope_link::{Fact, FindingBrief, NodeEvent, ToAgent};
use rdmascope_model::{Now, Wall};
use std::collections::BTreeSet;
use std::time::Duration;

impl Coordinator {
    /// Facts, history and notes of all nodes.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Brings back what an earlier coordinator kept; see [`Health::restore`].
    pub fn restore_health(
        &mut self,
        events: Vec<EventRow>,
        last_number: u64,
        acknowledged: Vec<(FindingKey, Acknowledgement)>,
        maintenance: Vec<Maintenance>,
    ) {
        self.drains.restore(&events);
        self.health.restore(events, last_number, acknowledged, maintenance);
        self.silence();
    }

    /// Brings back up to where agents had told their events when an earlier coordinator wrote them down: what it could not acknowledge any
    /// more is sent again, and is not to be there twice.
    pub fn restore_taken(&mut self, taken: Vec<Taken>) {
        self.health.restore_taken(taken);
    }

    /// A node's events up to this one are written down: the agent may forget them.
    pub fn kept(&mut self, connection: ConnectionId, number: u64) {
        if self.members.node(connection).is_some() {
            self.outbox.push_back(Action::Send(connection, ToAgent::EventsSeen { number }));
        }
    }

    /// There is no room for events of this connection: they are left to the agent, and so is what it tells after them, since whoever
    /// acknowledges an event acknowledges all before it. True where that is news.
    pub fn leave_events(&mut self, connection: ConnectionId) -> bool {
        let Some(node) = self.members.node(connection).map(str::to_owned) else { return false };
        let Some(member) = self.members.agent_mut(&node) else { return false };
        !std::mem::replace(&mut member.keeps_events, true)
    }

    /// There is room again: agents that keep their events tell them once more, as they do after every reconnect.
    pub fn ask_for_events(&mut self) {
        let keeps = |(_, member): &(&str, &Member)| member.keeps_events;
        let waiting = self.members.agents().filter(keeps).filter_map(|(_, member)| member.connection);
        let why = "there was no room for its events, which it is to tell again".to_owned();
        self.outbox.extend(waiting.map(|connection| Action::Close(connection, why.clone())));
    }

    pub(super) fn facts(&mut self, node: &str, facts: Vec<Fact>, now: Now) {
        self.health.take_facts(node, facts, now.mono);
    }

    pub(super) fn events(&mut self, connection: ConnectionId, node: &str, events: Vec<NodeEvent>, now: Now) {
        let Some(last) = events.last().map(|event| event.number) else { return };
        if self.members.agent(node).is_some_and(|member| member.keeps_events) {
            return;
        }
        let run = self.members.agent(node).map_or(0, |member| member.instance);
        let rows = self.health.take_events(node, run, events, now);
        let taken = Taken { node: node.to_owned(), run, number: last };
        self.outbox.push_back(Action::Keep(rows, Some((connection, taken))));
        self.matrix.touch();
    }

    /// A node's findings were replaced: acknowledgements of those that are over go with them.
    pub(super) fn findings_changed(&mut self, node: &str) {
        let Some(member) = self.members.agent(node) else { return };
        // What its frame had no room for may well be there.
        if member.findings_left_out > 0 {
            return;
        }
        let there: BTreeSet<_> =
            member.findings.iter().map(|f| (f.id.as_str(), f.subject.as_str())).collect();
        if self.health.forget_settled(node, &there) {
            self.outbox.push_back(Action::KeepNotes);
        }
    }

    /// Something of the coordinator's own for the history.
    pub(super) fn note(
        &mut self,
        node: &str,
        kind: RowKind,
        subject: &str,
        id: &str,
        text: String,
        now: Now,
    ) {
        let row = EventRow {
            number: 0,
            at: now.wall,
            node: node.to_owned(),
            kind,
            subject: subject.to_owned(),
            id: id.to_owned(),
            before: String::new(),
            after: String::new(),
            text,
            basis: None,
        };
        self.keep_row(row);
    }

    /// The same, as a whole row but for its number.
    pub(super) fn keep_row(&mut self, row: EventRow) {
        let row = self.health.add(row);
        self.outbox.push_back(Action::Keep(vec![row], None));
    }

    /// Looks for differences between nodes, where anything changed.
    pub(super) fn compare(&mut self, now: Now) {
        let members = &self.members;
        let (came, went) = self.health.compare(|node| members.connection(node).is_some(), now.mono);
        for drift in came {
            let text = in_words(&drift);
            self.note(&drift.node, RowKind::DriftRaised, &drift.subject, &drift.key, text, now);
        }
        for drift in went {
            // In maintenance and without its agent a node is not compared: then nobody knows.
            let compared = drift.node.is_empty()
                || (self.members.connection(&drift.node).is_some()
                    && self.health.maintenance_of(&drift.node).is_none());
            let text = if compared {
                format!("{} is like the others again", drift.key)
            } else {
                format!(
                    "{} is not compared any more: {} is not there, or in maintenance",
                    drift.key, drift.node
                )
            };
            self.note(&drift.node, RowKind::DriftCleared, &drift.subject, &drift.key, text, now);
            let key = finding_key(&drift.node, &as_finding(&drift));
            if compared && self.health.acknowledge(key, None) {
                self.outbox.push_back(Action::KeepNotes);
            }
        }
    }

    /// Ends maintenances that have run out.
    pub(super) fn expire(&mut self, now: Now) {
        if self.health.next_expiry().is_none_or(|until| until > now.wall) {
            return;
        }
        for over in self.health.end_maintenance(|maintenance| maintenance.until <= now.wall) {
            let text = format!("the maintenance of {} has run out", over.nodes);
            self.note("", RowKind::Maintenance, &over.nodes, "", text, now);
        }
        self.outbox.push_back(Action::KeepNotes);
        self.maintenance_changed(now);
    }

    /// Acknowledges findings of a node, or takes that back. Without a subject all findings of that id are meant. Answers how many.
    ///
    /// # Errors
    /// There is no such node or finding, or too many acknowledgements.
    pub fn acknowledge(
        &mut self,
        node: &str,
        id: &str,
        subject: Option<&str>,
        note: Option<String>,
        now: Now,
    ) -> Result<usize, CommandError> {
        let findings = self.findings_of(node)?;
        let meant = |f: &&FindingBrief| f.id == id && subject.is_none_or(|subject| f.subject == subject);
        let keys: Vec<(FindingKey, String)> =
            findings.iter().filter(meant).map(|f| (finding_key(node, f), f.subject.clone())).collect();
        if keys.is_empty() {
            let there: Vec<_> =
                findings.iter().map(|f| format!("{} ({})", f.id, f.subject)).take(20).collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            return Err(CommandError::Unknown(format!("{node} has no such finding; it has: {there}")));
        }
        let (meant, mut changed) = (keys.len(), 0);
        for (key, subject) in keys {
            let note = note.clone().map(|note| Acknowledgement { at: now.wall, note });
            let text = note.as_ref().map_or_else(
                || "the acknowledgement was taken back".to_owned(),
                |note| format!("acknowledged: {}", note.note),
            );
            let taken_back = note.is_none();
            if !self.health.acknowledge(key, note) {
                if !taken_back {
                    let text =
                        format!("too many acknowledgements: {changed} of {meant} were taken; take some back");
                    return Err(CommandError::Conflict(text));
                }
                continue;
            }
            changed += 1;
            self.note(node, RowKind::Acknowledgement, &subject, id, text, now);
        }
        self.outbox.push_back(Action::KeepNotes);
        self.matrix.touch();
        Ok(changed)
    }

    fn findings_of(&self, node: &str) -> Result<Vec<FindingBrief>, CommandError> {
        // A kind that is split belongs to no node.
        let told = match self.members.agent(node) {
            Some(member) => member.findings.as_slice(),
            None if node.is_empty() => &[],
            None => return Err(self.unknown_node(node)),
        };
        let drift = self.health.drift().iter().filter(|drift| drift.node == node).map(as_finding);
        Ok(told.iter().cloned().chain(drift).collect())
    }

    /// Begins a maintenance, or (without a duration) ends it.
    ///
    /// # Errors
    /// The duration is longer than 30 days, there are too many, or there is none to end.
    pub fn maintain(
        &mut self,
        nodes: &str,
        how_long: Option<Duration>,
        note: String,
        now: Now,
    ) -> Result<(), CommandError> {
        let text = match how_long {
            Some(how_long) if how_long > MAINTENANCE_MAX => {
                return Err(CommandError::Conflict("a maintenance lasts 30 days at most".to_owned()));
            }
            Some(how_long) => {
                let until = Wall(now.wall.0 + u64::try_from(how_long.as_millis()).unwrap_or(u64::MAX));
                let began =
                    Maintenance { nodes: nodes.to_owned(), since: now.wall, until, note: note.clone() };
                if !self.health.begin_maintenance(began) {
                    return Err(CommandError::Conflict(
                        "there are too many maintenances; end some".to_owned(),
                    ));
                }
                format!("maintenance of {nodes} until {until}: {note}")
            }
            None => {
                if self.health.end_maintenance(|maintenance| maintenance.nodes == nodes).is_empty() {
                    let all: Vec<_> = self.health.maintenances().iter().map(|m| m.nodes.as_str()).collect();
                    let text = format!("no maintenance of '{nodes}'; there are: {}", all.join(", "));
                    return Err(CommandError::Unknown(text));
                }
                format!("the maintenance of {nodes} is over")
            }
        };
        self.note("", RowKind::Maintenance, nodes, "", text, now);
        self.outbox.push_back(Action::KeepNotes);
        self.maintenance_changed(now);
        self.run(now);
        Ok(())
    }

    /// Forgets a node that is not connected, or gives what is known of it another name (a machine that was renamed).
    ///
    /// # Errors
    /// The node is unknown or connected, or the new name is not one that is known or free.
    pub fn remove_node(&mut self, node: &str, to: Option<&str>, now: Now) -> Result<(), CommandError> {
        let member = self.members.agent(node).ok_or_else(|| self.unknown_node(node))?;
        if member.connection.is_some() {
            let text = format!("the agent of {node} is connected: stop it first");
            return Err(CommandError::Conflict(text));
        }
        self.health.rename(node, to);
        self.members.forget(node);
        let text =
            to.map_or_else(|| format!("{node} was removed"), |to| format!("{node} is now called {to}"));
        self.note(to.unwrap_or(node), RowKind::Membership, node, "", text, now);
        self.outbox.push_back(Action::KeepNotes);
        self.matrix.touch();
        self.health.look_again(now.mono);
        self.run(now);
        Ok(())
    }

    pub(super) fn unknown_node(&self, node: &str) -> CommandError {
        let known: Vec<_> = self.members.agents().map(|(name, _)| name).take(20).collect();
        CommandError::UnknownNode(format!("no node '{node}'; there are: {}", known.join(", ")))
    }
}

/// What an acknowledgement is kept under: for a difference between nodes with the setting that differs, of which one part may have several.
#[must_use]
pub fn finding_key(node: &str, found: &FindingBrief) -> FindingKey {
    let setting = found.evidence.first().and_then(|line| line.split_once(" = ")).map_or("", |(name, _)| name);
    let subject =
        if found.id == DRIFT { format!("{} {setting}", found.subject) } else { found.subject.clone() };
    (node.to_owned(), found.id.clone(), subject)
}

/// A difference between nodes as a finding of the node that differs.
#[must_use]
pub fn as_finding(drift: &Drift) -> FindingBrief {
    FindingBrief {
        id: DRIFT.to_owned(),
        status: rdmascope_model::Status::Warn,
        subject: drift.subject.clone(),
        summary: in_words(drift),
        cause: DRIFT_CAUSES.join(", or "),
        next_step: format!(
            "Make them alike, or pin what is meant in the manifest: `rdmascope check` on both shows the values of {}; \
             `rdmascope events --node NODE` shows when it changed.",
            drift.key
        ),
        evidence: vec![format!("{} = {}", drift.key, drift.value)],
        settling: false,
        since: Wall(0),
        latched: false,
    }
}

fn in_words(drift: &Drift) -> String {
    if drift.majority.is_empty() {
        return format!("{} differs between {} of the same kind: {}", drift.key, drift.of, drift.value);
    }
    format!(
        "{} is {} here, {} of {} of the same kind have {}",
        drift.key, drift.value, drift.same, drift.of, drift.majority
    )
}
