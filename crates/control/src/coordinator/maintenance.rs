//! Nodes that somebody else keeps a list of (Slurm, Kubernetes): what such a list says, and what follows from any maintenance.

use super::{Coordinator, Maintenance, RowKind};
use rdmascope_model::{Now, Wall};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes of one change of the list that get an event of their own; of more there is one event for all.
const EVENTS_MAX: usize = 100;

impl Coordinator {
    /// Takes the nodes that a list says are not to be used, each with what it says of them. It replaces the list before; what it says
    /// holds until it says something else.
    pub fn set_listed(&mut self, listed: BTreeMap<String, String>, now: Now) {
        let before = self.health.listed().clone();
        let began = |node: &String| before.get(node).map_or(now.wall, |work| work.since);
        let after: BTreeMap<_, _> = listed
            .into_iter()
            .map(|(node, note)| {
                let work =
                    Maintenance { nodes: node.clone(), since: began(&node), until: Wall(u64::MAX), note };
                (node, work)
            })
            .collect();
        let came = after.iter().filter(|(node, _)| !before.contains_key(*node));
        let came =
            came.map(|(node, work)| (node.clone(), format!("{node} is in maintenance: {}", work.note)));
        let went = before.keys().filter(|node| !after.contains_key(*node));
        let went = went.map(|node| (node.clone(), format!("the maintenance of {node} is over")));
        let news: Vec<(String, String)> = came.chain(went).collect();
        self.health.set_listed(after);
        if news.is_empty() {
            return;
        }
        for (node, text) in news.iter().take(EVENTS_MAX) {
            self.note(node, RowKind::Maintenance, node, "", text.clone(), now);
        }
        if let Some(more) = news.len().checked_sub(EVENTS_MAX).filter(|more| *more > 0) {
            let text = format!("the maintenance of {more} more nodes changed");
            self.note("", RowKind::Maintenance, "", "", text, now);
        }
        self.maintenance_changed(now);
        self.run(now);
    }

    /// Whoever is in maintenance now is neither probed nor compared.
    pub(super) fn maintenance_changed(&mut self, now: Now) {
        self.silence();
        self.health.look_again(now.mono);
        self.matrix.touch();
        self.changed = true;
    }

    /// Works out which nodes are in maintenance: when one came, or a maintenance began or ended.
    pub(super) fn silence(&mut self) {
        let silenced: BTreeSet<String> = self
            .members
            .agents()
            .filter(|(node, _)| self.health.maintenance_of(node).is_some())
            .map(|(node, _)| node.to_owned())
            .collect();
        self.members.set_silenced(silenced);
    }
}
