//! Numbers of places are of one moment: they change when endpoints go, and after a restart there are none. Names stay.

use super::{Incident, Incidents};
use crate::{Component, PlaceIndex, Places};

impl Incidents {
    /// Gives the places of all incidents the numbers that they have now, by the names under which they were written.
    pub fn renumber(&mut self, places: &Places) {
        for incident in &mut self.list {
            if incident.subjects.len() == incident.suspect.components.len() {
                renumber(incident, places);
            }
        }
    }
}

fn renumber(incident: &mut Incident, places: &Places) {
    let components = incident.suspect.components.iter_mut();
    for (component, subject) in components.zip(&incident.subjects) {
        *component = match *component {
            Component::Node(node) => Component::Node(numbered(&places.nodes, node, Some(subject))),
            Component::Leaf(leaf) => {
                Component::Leaf(numbered(&places.leaves, leaf, subject.strip_prefix("leaf ")))
            }
            Component::Uplinks(leaf) => {
                Component::Uplinks(numbered(&places.leaves, leaf, subject.strip_prefix("uplinks of leaf ")))
            }
            Component::LeafPair(a, b) => {
                let ends = subject.strip_prefix("what lies between leaf ");
                let ends = ends.and_then(|ends| ends.split_once(" and leaf "));
                let first = numbered(&places.leaves, a, ends.map(|(first, _)| first));
                let second = numbered(&places.leaves, b, ends.map(|(_, second)| second));
                Component::LeafPair(first.min(second), first.max(second))
            }
            other => other,
        };
    }
}

/// The number of a name, which nearly always is what it was; [`PlaceIndex::UNKNOWN`] for a name that is not there any more.
fn numbered(names: &[String], was: PlaceIndex, name: Option<&str>) -> PlaceIndex {
    let Some(name) = name else { return was };
    if names.get(was.0 as usize).is_some_and(|known| known == name) {
        return was;
    }
    let at = names.iter().position(|known| known == name).and_then(|at| u32::try_from(at).ok());
    at.map_or(PlaceIndex::UNKNOWN, PlaceIndex)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incident::{IncidentState, Names};
    use crate::{Confidence, Effect, EndpointIndex, Judged, Matrix, Share, Support, Suspect, Way};
    use rdmascope_model::{Status, Wall};

    fn places(nodes: &[&str], leaves: &[&str]) -> Places {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Places { nodes: owned(nodes), leaves: owned(leaves), ..Places::default() }
    }

    fn incident(components: Vec<Component>, names: &Names<'_>) -> Incident {
        let subjects = components.iter().map(|component| names.of(*component)).collect();
        let suspect = Suspect {
            components,
            effect: Effect::Lossy,
            way: Way::Both,
            share: Share::All,
            status: Status::Fail,
            confidence: Confidence::High,
            support: Support::default(),
            reasons: Vec::new(),
        };
        Incident {
            id: 1,
            state: IncidentState::Open,
            suspect,
            subjects,
            title: String::new(),
            evidence: Vec::new(),
            next_step: String::new(),
            since: Wall(1),
            opened_at: None,
            seen_at: Wall(1),
            closed_at: None,
        }
    }

    #[test]
    fn an_incident_keeps_to_its_places_when_their_numbers_change() {
        let before = places(&["a", "b", "c"], &["l1", "l2", "l3"]);
        let mut matrix = Matrix::default();
        matrix.intern(&"a/d/1".parse().unwrap());
        let names = Names { matrix: &matrix, places: &before };
        let at = |index| PlaceIndex(index);
        let all = vec![
            Component::Node(at(2)),
            Component::Endpoint(EndpointIndex(0)),
            Component::Leaf(at(2)),
            Component::Uplinks(at(1)),
            Component::LeafPair(at(1), at(2)),
            Component::Spines,
        ];
        let mut incidents = Incidents::default();
        incidents.restore(vec![incident(all.clone(), &names)]);
        incidents.renumber(&before);
        assert_eq!(incidents.all()[0].suspect.components, all);
        // The first node and leaf went, the last leaf came before the others.
        incidents.renumber(&places(&["b", "c"], &["l3", "l2"]));
        let expected = [
            Component::Node(at(1)),
            Component::Endpoint(EndpointIndex(0)),
            Component::Leaf(at(0)),
            Component::Uplinks(at(1)),
            Component::LeafPair(at(0), at(1)),
            Component::Spines,
        ];
        assert_eq!(incidents.all()[0].suspect.components, expected);
        incidents.renumber(&places(&[], &["l3"]));
        assert!(incidents.all()[0].suspect.components.contains(&Component::Node(PlaceIndex::UNKNOWN)));
        // And back, as after a restart.
        incidents.renumber(&before);
        assert_eq!(incidents.all()[0].suspect.components, all);
    }

    #[test]
    fn a_host_that_is_doubted_keeps_no_incident_of_its_adapter_open() {
        let places = places(&["a"], &[]);
        let mut matrix = Matrix::default();
        let endpoint = Component::Endpoint(matrix.intern(&"a/d/1".parse().unwrap()));
        let names = Names { matrix: &matrix, places: &places };
        let dead = |effect| {
            let kept = incident(vec![endpoint], &names);
            Judged { suspect: Suspect { effect, ..kept.suspect }, confirmed: effect == Effect::Dead }
        };
        let mut incidents = Incidents::default();
        let state = |incidents: &Incidents, effect| {
            incidents.all().iter().find(|incident| incident.suspect.effect == effect).unwrap().state
        };
        incidents.look(&[dead(Effect::Dead)], &names, Wall(1_000));
        assert_eq!(state(&incidents, Effect::Dead), IncidentState::Open);
        for seconds in 2..30 {
            incidents.look(&[dead(Effect::HostSlow)], &names, Wall(seconds * 1_000));
        }
        assert_eq!(state(&incidents, Effect::Dead), IncidentState::Closed);
        assert_eq!(state(&incidents, Effect::HostSlow), IncidentState::Suspected);
    }
}
