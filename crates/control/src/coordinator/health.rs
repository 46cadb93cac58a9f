//! What nodes tell of themselves: facts and what differs between them, events, acknowledgements, maintenance.

use super::drift::{self, Drift};
use super::rows::{EventRow, RowKind, Taken};
use rdmascope_checks::{DRIFT, manifest::glob};
use rdmascope_link::{Fact, NodeEvent};
use rdmascope_model::{Mono, Now, Wall};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Events that are held in memory; older ones are on disk, where there is one. 5,000 × some 400 bytes.
const EVENTS_HELD: usize = 5_000;
/// Changes of facts are collected for so long before nodes are compared: a thousand agents that connect cause one comparison a second.
const COMPARE_AFTER: Duration = Duration::from_secs(1);
/// Acknowledgements and maintenances that are held: more are not operated by people.
const NOTES_MAX: usize = 10_000;

/// A finding that somebody knows of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// When.
    pub at: Wall,
    /// Why, in the operator's words.
    pub note: String,
}

/// Nodes on which somebody works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// Names of nodes; `*` stands for any letters.
    pub nodes: String,
    /// Since when.
    pub since: Wall,
    /// It ends by itself then; [`u64::MAX`] for one that lasts as long as a list has it.
    pub until: Wall,
    /// Why, in the operator's words.
    pub note: String,
}

/// Node, id and subject of a finding, as [`super::finding_key`] makes it.
pub type FindingKey = (String, String, String);

/// Facts, history and notes of all nodes.
#[derive(Clone, Debug, Default)]
pub struct Health {
    facts: BTreeMap<String, Vec<Fact>>,
    drift: Vec<Drift>,
    /// When nodes are compared again; changes are collected until then.
    drift_due: Option<Mono>,
    events: VecDeque<EventRow>,
    last_number: u64,
    /// Run of the agent and the last of its events that was taken.
    taken: BTreeMap<String, (u64, u64)>,
    acknowledged: BTreeMap<FindingKey, Acknowledgement>,
    maintenance: Vec<Maintenance>,
    /// By the names of nodes, as somebody else's list has them.
    listed: BTreeMap<String, Maintenance>,
}

impl Health {
    /// What a node said of its settings and versions.
    #[must_use]
    pub fn facts(&self, node: &str) -> &[Fact] {
        self.facts.get(node).map_or(&[], Vec::as_slice)
    }

    /// Parts that are not like the others of their kind.
    #[must_use]
    pub fn drift(&self) -> &[Drift] {
        &self.drift
    }

    /// The history that is in memory, the newest first.
    pub fn events(&self) -> impl Iterator<Item = &EventRow> {
        self.events.iter().rev()
    }

    /// Whether somebody knows of a finding.
    #[must_use]
    pub fn acknowledged(&self, key: &FindingKey) -> Option<&Acknowledgement> {
        self.acknowledged.get(key)
    }

    /// All acknowledgements.
    pub fn acknowledgements(&self) -> impl Iterator<Item = (&FindingKey, &Acknowledgement)> {
        self.acknowledged.iter()
    }

    /// The maintenance that a node is in.
    #[must_use]
    pub fn maintenance_of(&self, node: &str) -> Option<&Maintenance> {
        let ordered = self.maintenance.iter().find(|maintenance| glob(&maintenance.nodes, node));
        ordered.or_else(|| self.listed.get(node))
    }

    /// Those that somebody else's list names, by node.
    #[must_use]
    pub fn listed(&self) -> &BTreeMap<String, Maintenance> {
        &self.listed
    }

    pub(super) fn set_listed(&mut self, listed: BTreeMap<String, Maintenance>) {
        self.listed = listed;
    }

    /// All maintenances that an operator began.
    #[must_use]
    pub fn maintenances(&self) -> &[Maintenance] {
        &self.maintenance
    }

    /// When the next maintenance ends by itself.
    pub(super) fn next_expiry(&self) -> Option<Wall> {
        self.maintenance.iter().map(|maintenance| maintenance.until).min()
    }

    pub(super) fn take_facts(&mut self, node: &str, facts: Vec<Fact>, now: Mono) {
        if self.facts(node) != facts {
            self.facts.insert(node.to_owned(), facts);
            self.look_again(now);
        }
    }

    /// Facts, or whose facts count, have changed.
    pub(super) fn look_again(&mut self, now: Mono) {
        self.drift_due.get_or_insert(now.after(COMPARE_AFTER));
    }

    /// When nodes are compared again.
    pub(super) fn next_comparison(&self) -> Option<Mono> {
        self.drift_due
    }

    /// Compares the nodes that are there, where anything changed and it is time; answers what came and what went.
    pub(super) fn compare(&mut self, there: impl Fn(&str) -> bool, now: Mono) -> (Vec<Drift>, Vec<Drift>) {
        if self.drift_due.is_none_or(|due| due > now) {
            return (Vec::new(), Vec::new());
        }
        self.drift_due = None;
        let facts = self.facts.iter().filter(|(node, _)| there(node) && self.maintenance_of(node).is_none());
        let now = drift::find(facts.map(|(node, facts)| (node.as_str(), facts.as_slice())));
        let before = std::mem::replace(&mut self.drift, now);
        let known = |new: &&Drift| before.iter().any(|old| new.says_the_same(old));
        let came = self.drift.iter().filter(|new| !known(new)).cloned().collect();
        let went =
            before.into_iter().filter(|old| !self.drift.iter().any(|new| old.same_part(new))).collect();
        (came, went)
    }

    /// Adds an event and answers it as it is to be kept.
    pub(super) fn add(&mut self, mut row: EventRow) -> EventRow {
        self.last_number += 1;
        row.number = self.last_number;
        if self.events.len() >= EVENTS_HELD {
            self.events.pop_front();
        }
        self.events.push_back(row.clone());
        row
    }

    /// Takes a node's events, each once, and answers them as they are to be kept.
    pub(super) fn take_events(
        &mut self,
        node: &str,
        run: u64,
        events: Vec<NodeEvent>,
        now: Now,
    ) -> Vec<EventRow> {
        let known = self.taken.get(node).copied();
        let last = known.filter(|(known_run, _)| *known_run == run).map_or(0, |(_, last)| last);
        let mut rows = Vec::new();
        // A coordinator that has just started knows nothing of the numbers before.
        let first = events.first().map_or(0, |event| event.number);
        let lost = first.saturating_sub(last + 1);
        if known.is_some() && lost > 0 {
            rows.push(self.add(events_lost(node, lost, now)));
        }
        for event in events.into_iter().filter(|event| event.number > last) {
            self.taken.insert(node.to_owned(), (run, event.number));
            rows.push(self.add(EventRow {
                number: 0,
                at: event.at.min(now.wall),
                node: node.to_owned(),
                kind: RowKind::Node(event.kind),
                subject: event.subject,
                id: event.id,
                before: event.before,
                after: event.after,
                text: event.text,
                basis: event.basis,
            }));
        }
        rows
    }

    /// Brings back what an earlier coordinator kept; events in the order of their numbers. `last_number` was given to the last event,
    /// which another version may have written in a form that is not known here.
    pub fn restore(
        &mut self,
        events: Vec<EventRow>,
        last_number: u64,
        acknowledged: Vec<(FindingKey, Acknowledgement)>,
        maintenance: Vec<Maintenance>,
    ) {
        self.last_number = self.last_number.max(last_number);
        self.events = events.into_iter().rev().take(EVENTS_HELD).rev().collect();
        self.acknowledged = acknowledged.into_iter().take(NOTES_MAX).collect();
        self.maintenance = maintenance.into_iter().take(NOTES_MAX).collect();
    }

    /// Brings back up to where agents had told their events, so that what they send again is not taken twice.
    pub(super) fn restore_taken(&mut self, taken: Vec<Taken>) {
        self.taken.extend(taken.into_iter().map(|taken| (taken.node, (taken.run, taken.number))));
    }

    pub(super) fn acknowledge(&mut self, key: FindingKey, note: Option<Acknowledgement>) -> bool {
        match note {
            Some(note) if self.acknowledged.len() < NOTES_MAX || self.acknowledged.contains_key(&key) => {
                self.acknowledged.insert(key, note);
                true
            }
            Some(_) => false,
            None => self.acknowledged.remove(&key).is_some(),
        }
    }

    /// Forgets acknowledgements of a node's findings that are no longer there: if they come back, it is news.
    pub(super) fn forget_settled(&mut self, node: &str, there: &BTreeSet<(&str, &str)>) -> bool {
        let before = self.acknowledged.len();
        // Differences between nodes are no findings of an agent; they are over when a comparison says so.
        self.acknowledged.retain(|(of, id, subject), _| {
            of != node || id == DRIFT || there.contains(&(id.as_str(), subject.as_str()))
        });
        before != self.acknowledged.len()
    }

    pub(super) fn begin_maintenance(&mut self, maintenance: Maintenance) -> bool {
        self.maintenance.retain(|other| other.nodes != maintenance.nodes);
        let room = self.maintenance.len() < NOTES_MAX;
        if room {
            self.maintenance.push(maintenance);
        }
        room
    }

    /// Ends maintenances by their names, or those that have run out.
    pub(super) fn end_maintenance(&mut self, over: impl Fn(&Maintenance) -> bool) -> Vec<Maintenance> {
        let (ended, go_on) = std::mem::take(&mut self.maintenance).into_iter().partition(|m| over(m));
        self.maintenance = go_on;
        ended
    }

    /// Forgets a node, or gives what is known of it another name.
    pub(super) fn rename(&mut self, node: &str, to: Option<&str>) {
        let facts = self.facts.remove(node);
        let taken = self.taken.remove(node);
        let mine: Vec<_> = self.acknowledged.keys().filter(|(of, ..)| of == node).cloned().collect();
        let notes: Vec<_> = mine
            .into_iter()
            .filter_map(|key| self.acknowledged.remove(&key).map(|note| (key, note)))
            .collect();
        let Some(to) = to else { return };
        // An agent that runs under the new name already knows better.
        if let Some(facts) = facts {
            self.facts.entry(to.to_owned()).or_insert(facts);
        }
        if let Some(taken) = taken {
            self.taken.entry(to.to_owned()).or_insert(taken);
        }
        for ((_, id, subject), note) in notes {
            self.acknowledged.insert((to.to_owned(), id, subject), note);
        }
        for event in self.events.iter_mut().filter(|event| event.node == node) {
            event.node = to.to_owned();
        }
    }
}

fn events_lost(node: &str, count: u64, now: Now) -> EventRow {
    EventRow {
        number: 0,
        at: now.wall,
        node: node.to_owned(),
        kind: RowKind::EventsLost,
        subject: String::new(),
        id: String::new(),
        before: String::new(),
        after: String::new(),
        text: format!(
            "{count} events of {node} are missing: its agent had no room to keep them, or this coordinator was restored from a backup \
             that is older than them"
        ),
        basis: None,
    }
}

/// How long a maintenance may last: one that is forgotten must not hide a broken node for ever.
pub const MAINTENANCE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_link::EventKind;

    fn event(number: u64) -> NodeEvent {
        NodeEvent {
            number,
            at: Wall(5_000),
            kind: EventKind::StateChange,
            subject: "mlx5_0/1".to_owned(),
            id: "state".to_owned(),
            before: "ACTIVE".to_owned(),
            after: "DOWN".to_owned(),
            text: "the port went down".to_owned(),
            basis: None,
        }
    }

    fn now(wall: u64) -> Now {
        Now { wall: Wall(wall), ..Now::default() }
    }

    #[test]
    fn what_an_earlier_coordinator_wrote_down_and_could_not_acknowledge_is_not_taken_again() {
        let mut health = Health::default();
        health.restore_taken(vec![Taken { node: "a".to_owned(), run: 7, number: 2 }]);
        let again = health.take_events("a", 7, vec![event(1), event(2), event(3)], now(9_000));
        assert_eq!(again.iter().map(|row| row.number).collect::<Vec<_>>(), [1], "the third one alone is new");
        assert_eq!(
            health.take_events("a", 8, vec![event(1)], now(9_000)).len(),
            1,
            "another run counts anew"
        );
    }

    #[test]
    fn events_that_are_sent_again_are_taken_once_and_a_new_run_counts_anew() {
        let mut health = Health::default();
        assert_eq!(health.take_events("a", 1, vec![event(1), event(2)], now(9_000)).len(), 2);
        assert_eq!(health.take_events("a", 1, vec![event(2), event(3)], now(9_000)).len(), 1);
        assert_eq!(health.take_events("a", 2, vec![event(1)], now(4_000)).len(), 1);
        let numbers: Vec<_> = health.events().map(|row| row.number).collect();
        assert_eq!(numbers, [4, 3, 2, 1]);
        assert_eq!(health.events().next().unwrap().at, Wall(4_000), "not later than it was heard of");
        let kept = health.take_events("a", 2, vec![event(9)], now(9_000));
        assert_eq!(
            kept.iter().map(|row| row.kind.as_str()).collect::<Vec<_>>(),
            ["events-lost", "state-change"]
        );
        assert!(kept[0].text.starts_with("7 events of a "), "{}", kept[0].text);
        assert_eq!(health.take_events("b", 1, vec![event(9)], now(9_000)).len(), 1, "not known before");
    }

    #[test]
    fn history_is_bounded_and_numbers_go_on_after_a_restart() {
        let mut health = Health::default();
        let many = (1..=EVENTS_HELD as u64 + 10).map(event).collect();
        let kept = health.take_events("a", 1, many, now(9_000));
        assert_eq!(health.events().count(), EVENTS_HELD);
        let mut next = Health::default();
        next.restore(kept, EVENTS_HELD as u64 + 10, Vec::new(), Vec::new());
        assert_eq!(next.take_events("a", 1, vec![event(1)], now(9_000))[0].number, EVENTS_HELD as u64 + 11);
    }

    #[test]
    fn an_acknowledgement_lasts_as_long_as_its_finding() {
        let mut health = Health::default();
        let key = ("a".to_owned(), "port-state".to_owned(), "m/1".to_owned());
        let note = Acknowledgement { at: Wall(1), note: "cable ordered".to_owned() };
        assert!(health.acknowledge(key.clone(), Some(note.clone())));
        assert!(!health.forget_settled("a", &BTreeSet::from([("port-state", "m/1")])));
        assert_eq!(health.acknowledged(&key), Some(&note));
        assert!(!health.forget_settled("b", &BTreeSet::new()), "another node's");
        assert!(health.forget_settled("a", &BTreeSet::new()));
        assert_eq!(health.acknowledged(&key), None);
    }

    #[test]
    fn nodes_in_maintenance_are_found_by_pattern_and_not_compared() {
        let mut health = Health::default();
        let pfc = |value: &str| vec![Fact { subject: "m/1".into(), key: "pfc".into(), value: value.into() }];
        for (node, value) in [("a", "3"), ("b", "3"), ("c", "none")] {
            health.take_facts(node, pfc(value), Mono(0));
        }
        let later = Mono(0).after(COMPARE_AFTER);
        assert_eq!(health.compare(|_| true, Mono(1)).0.len(), 0, "changes are collected first");
        assert_eq!(health.compare(|_| true, later).0.len(), 1);
        let work = Maintenance { nodes: "c*".into(), since: Wall(1), until: Wall(9), note: String::new() };
        assert!(health.begin_maintenance(work));
        health.look_again(Mono(0));
        assert_eq!(health.compare(|_| true, later).1.len(), 1, "its drift is over");
        assert_eq!(health.end_maintenance(|m| m.until <= Wall(9)).len(), 1);
        health.look_again(Mono(0));
        assert_eq!(health.compare(|_| true, later).0.len(), 1, "and back");
        health.take_facts("d", pfc("3"), Mono(0));
        let (came, went) = health.compare(|_| true, later);
        assert_eq!((came.len(), went.len()), (0, 0), "one more that is like the others is no news");
        assert_eq!((health.drift()[0].same, health.drift()[0].of), (3, 4));
    }

    #[test]
    fn a_renamed_node_keeps_its_history() {
        let mut health = Health::default();
        health.take_events("old", 1, vec![event(1)], now(9_000));
        health.rename("old", Some("new"));
        assert_eq!(health.events().next().unwrap().node, "new");
        assert!(health.take_events("new", 1, vec![event(1)], now(9_000)).is_empty(), "known already");
    }
}
