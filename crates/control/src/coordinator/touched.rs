//! Whom an incident touches, whether somebody knows of it, and whether somebody works there.

use super::health::FindingKey;
use super::settings::ENDPOINTS_MAX;
use super::{Acknowledgement, Action, CommandError, Coordinator, RowKind};
use rdmascope_localise::{Component, EndpointIndex, Incident, IncidentState, PlaceIndex};
use rdmascope_model::{EndpointName, Now};
use std::collections::BTreeSet;

/// What stands in the place of a finding's id where an incident is acknowledged.
const INCIDENT: &str = "incident";

/// The endpoints and nodes that an incident's components have to do with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Endpoints that are known now, by their numbers.
    pub endpoints: BTreeSet<EndpointIndex>,
    /// Nodes, also those of which only the name is left.
    pub nodes: BTreeSet<String>,
    /// It is about the whole fabric: the spines, or all of the cluster. Then the other two are empty.
    pub everywhere: bool,
}

impl Coordinator {
    /// Whom an incident touches. Names count where numbers of places are out of date: those change whenever somebody comes or goes.
    #[must_use]
    pub fn touched(&self, incident: &Incident) -> Touched {
        let mut touched = Touched::default();
        let components = &incident.suspect.components;
        let named = components.len() == incident.subjects.len();
        for (at, component) in components.iter().enumerate() {
            let subject = incident.subjects.get(at).filter(|_| named).map_or("", String::as_str);
            match *component {
                Component::Endpoint(endpoint) => self.touch_endpoint(endpoint, subject, &mut touched),
                Component::Pair(source, target) => {
                    self.touch_endpoint(source, "", &mut touched);
                    self.touch_endpoint(target, "", &mut touched);
                }
                Component::Node(place) => {
                    let name = self.place_name(&self.places().nodes, place, subject).unwrap_or(subject);
                    self.touch_node(name.strip_prefix("node ").unwrap_or(name), &mut touched);
                }
                Component::Leaf(leaf) | Component::Uplinks(leaf) => {
                    self.touch_leaf(leaf, subject, &mut touched);
                }
                Component::LeafPair(a, b) => {
                    self.touch_leaf(a, subject, &mut touched);
                    self.touch_leaf(b, subject, &mut touched);
                }
                Component::Spines | Component::Cluster => touched.everywhere = true,
            }
        }
        if touched.everywhere { Touched { everywhere: true, ..Touched::default() } } else { touched }
    }

    fn touch_endpoint(&self, endpoint: EndpointIndex, subject: &str, touched: &mut Touched) {
        if (endpoint.0 as usize) < self.matrix.len() {
            touched.nodes.insert(self.matrix.name(endpoint).node.clone());
            touched.endpoints.insert(endpoint);
        } else if let Some((node, _)) = subject.split_once('/') {
            touched.nodes.insert(node.to_owned());
        }
    }

    fn touch_node(&self, node: &str, touched: &mut Touched) {
        if node.is_empty() {
            return;
        }
        touched.nodes.insert(node.to_owned());
        let own = self.members.endpoints().filter(|(_, endpoint)| endpoint.info.name.node == node);
        touched.endpoints.extend(own.map(|(index, _)| index));
    }

    fn touch_leaf(&self, leaf: PlaceIndex, subject: &str, touched: &mut Touched) {
        let places = self.places();
        let Some(leaf) = self.place_name(&places.leaves, leaf, subject) else { return };
        for (number, place) in (0..).zip(&places.of) {
            let on = place.and_then(|place| place.leaf).and_then(|at| places.leaves.get(at.0 as usize));
            if on.is_some_and(|name| name == leaf) {
                self.touch_endpoint(EndpointIndex(number), "", touched);
            }
        }
    }

    /// The name of a place: that of its number where the subject agrees, else the one that the subject speaks of.
    fn place_name<'a>(&self, names: &'a [String], place: PlaceIndex, subject: &str) -> Option<&'a str> {
        let numbered =
            names.get(place.0 as usize).filter(|name| subject.is_empty() || speaks_of(subject, name));
        numbered.or_else(|| names.iter().find(|name| speaks_of(subject, name))).map(String::as_str)
    }

    /// The number of an endpoint of which an earlier run told; `None` where there is no room for another one.
    pub fn number_for(&mut self, name: &EndpointName) -> Option<EndpointIndex> {
        let known = self.matrix.find(name);
        known.or_else(|| (self.matrix.len() < ENDPOINTS_MAX).then(|| self.matrix.intern(name)))
    }

    /// Somebody knows of the incident of this number.
    #[must_use]
    pub fn incident_acknowledged(&self, id: u64) -> Option<&Acknowledgement> {
        self.health.acknowledged(&key(id))
    }

    /// Somebody works on every node that the incident touches.
    #[must_use]
    pub fn incident_in_maintenance(&self, touched: &Touched) -> bool {
        let mut nodes = touched.nodes.iter().peekable();
        nodes.peek().is_some() && nodes.all(|node| self.health.maintenance_of(node).is_some())
    }

    /// Acknowledges an incident that is not over, or (without a note) takes that back. It ends with the incident: if that comes back, it is
    /// news.
    ///
    /// # Errors
    /// There is no such incident, it is over, or there are too many acknowledgements.
    pub fn acknowledge_incident(
        &mut self,
        id: u64,
        note: Option<String>,
        now: Now,
    ) -> Result<(), CommandError> {
        let going_on = |incident: &&Incident| incident.state != IncidentState::Closed;
        if !self.incidents().iter().filter(going_on).any(|incident| incident.id == id) {
            let there: Vec<String> =
                self.incidents().iter().filter(going_on).map(|i| i.id.to_string()).take(20).collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            return Err(CommandError::Unknown(format!("no incident {id} goes on; there are: {there}")));
        }
        let text = note.as_ref().map_or_else(
            || "the acknowledgement was taken back".to_owned(),
            |note| format!("acknowledged: {note}"),
        );
        let taken_back = note.is_none();
        let changed =
            self.health.acknowledge(key(id), note.map(|note| Acknowledgement { at: now.wall, note }));
        if !changed && !taken_back {
            return Err(CommandError::Conflict(
                "there are too many acknowledgements; take some back".to_owned(),
            ));
        }
        if changed {
            self.note("", RowKind::Acknowledgement, &format!("incident {id}"), INCIDENT, text, now);
        }
        self.outbox.push_back(Action::KeepNotes);
        self.matrix.touch();
        Ok(())
    }

    /// An incident is over: if it comes back, it is news.
    pub(super) fn forget_acknowledgement(&mut self, id: u64) {
        if self.health.acknowledge(key(id), None) {
            self.outbox.push_back(Action::KeepNotes);
        }
    }
}

fn key(id: u64) -> FindingKey {
    (String::new(), INCIDENT.to_owned(), id.to_string())
}

/// Whether a text names something, and not only something whose name begins or ends like it.
fn speaks_of(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.match_indices(name).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + name.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_as_a_whole_only() {
        assert!(speaks_of("leaf rack3-a", "rack3-a") && speaks_of("rack3-a", "rack3-a"));
        assert!(speaks_of("uplinks of leaf rack3-a, or the spines", "rack3-a"));
        for other in ["leaf rack3-ab", "leaf xrack3-a", "leaf rack3-a.b"] {
            assert!(!speaks_of(other, "rack3-a"), "{other}");
        }
    }
}
