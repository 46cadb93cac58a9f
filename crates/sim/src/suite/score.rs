//! What was told in a run, held against what was to be told.

use super::clusterkit;
use super::expected::Named;
use super::inject::{Expected, Fault};
use super::wilson::Share;
use crate::Cluster;
use crate::net::Net;
use rdmascope_control::coordinator::Coordinator;
use rdmascope_localise::{Component, Incident, IncidentState, PlaceIndex, Suspect, Way};
use rdmascope_model::Wall;
use std::collections::{BTreeMap, BTreeSet};

/// What became of one fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultOutcome {
    /// Seconds until an incident named something of it.
    pub told_s: Option<f64>,
    /// Seconds until an incident named exactly it.
    pub exact_s: Option<f64>,
    /// In the end an incident names exactly it.
    pub exact: bool,
    /// In the end its effect, way and share are told right, where it is told at all.
    pub words: Option<[bool; 3]>,
    /// Who was to be named.
    pub expected: String,
}

/// One incident that was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// It names something that is broken, when it was opened and in the end.
    pub right: bool,
    /// Seconds after the beginning.
    pub at_s: f64,
    /// Whom it named first, whom in the end, and its words.
    pub text: String,
}

/// What the other tool's rule says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kit {
    /// It names pairs.
    pub names: bool,
    /// All that it names are touched by a fault.
    pub right: bool,
    /// Faults of which it names a pair.
    pub found: Share,
    /// It names exactly the pairs that faults touch.
    pub exact: bool,
    /// Tests of pairs.
    pub tests: usize,
}

/// What became of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Name of its kind.
    pub kind: String,
    /// Endpoints of its cluster.
    pub endpoints: usize,
    /// Its seed.
    pub seed: u64,
    /// Its faults.
    pub faults: Vec<FaultOutcome>,
    /// Incidents that were opened.
    pub told: Vec<Told>,
    /// Pings of the mesh until everything was told, or until the end.
    pub pings: u64,
    /// Probes on request until the end.
    pub retests: u64,
    /// How long it was watched, seconds.
    pub seconds: f64,
    /// The time in which pings cover all pairs, seconds.
    pub coverage_s: f64,
    /// What the other tool's rule says of it.
    pub kit: Kit,
    /// What was broken, for a person who looks into it.
    pub broken: String,
    /// A number that depends on every event.
    pub trace: u64,
}

impl Outcome {
    /// Every fault was named exactly and nothing else was told.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.faults.iter().all(|fault| fault.exact) && self.told.iter().all(|told| told.right)
    }
}

/// One incident from its opening on.
#[derive(Clone, Debug)]
struct Opened {
    first: BTreeSet<Named>,
    at_s: f64,
}

/// The score of a run under way.
#[derive(Clone, Debug)]
pub(crate) struct Scores {
    expected: Vec<Expected>,
    faults: Vec<FaultOutcome>,
    /// Incidents that were opened before are not of this run; who was only suspected then may be opened in it.
    onset: Wall,
    opened: BTreeMap<u64, Opened>,
    pings_before: Option<u64>,
    pings_told: Option<u64>,
}

impl Scores {
    pub(crate) fn new(expected: Vec<Expected>, onset: Wall) -> Self {
        let names = |expected: &Expected| list(&expected.set);
        let fault =
            |expected: &Expected| FaultOutcome { expected: names(expected), ..FaultOutcome::default() };
        Self {
            faults: expected.iter().map(fault).collect(),
            expected,
            onset,
            opened: BTreeMap::new(),
            pings_before: None,
            pings_told: None,
        }
    }

    /// Looks at what is told now; whether everything is named exactly.
    pub(crate) fn look(&mut self, cluster: &Cluster) -> bool {
        let pings = cluster.pinged().sent;
        self.pings_before.get_or_insert(pings);
        let coordinator = cluster.coordinator();
        for fault in &mut self.faults {
            fault.exact = false;
        }
        for incident in coordinator.incidents() {
            let Some(opened_at) = incident.opened_at.filter(|at| *at >= self.onset) else { continue };
            let set = names(coordinator, &incident.suspect);
            let at_s = opened_at.since(self.onset).as_secs_f64();
            let seen_s = cluster.now().wall.since(self.onset).as_secs_f64();
            let exact_s = if self.opened.contains_key(&incident.id) { seen_s } else { at_s };
            self.opened.entry(incident.id).or_insert_with(|| Opened { first: set.clone(), at_s });
            for (fault, expected) in self.faults.iter_mut().zip(&self.expected) {
                if set.is_disjoint(&expected.set) {
                    continue;
                }
                fault.told_s.get_or_insert(at_s);
                if set == expected.set {
                    fault.exact_s.get_or_insert(exact_s);
                    if incident.state == IncidentState::Open {
                        fault.exact = true;
                        fault.words = Some(words(&incident.suspect, expected));
                    }
                }
            }
        }
        // Where nothing is to be told, pings count until the end.
        if !self.faults.is_empty() && self.faults.iter().all(|fault| fault.told_s.is_some()) {
            self.pings_told.get_or_insert(pings);
        }
        self.faults.iter().all(|fault| fault.exact)
    }

    pub(crate) fn end(
        self,
        cluster: &Cluster,
        kind: &str,
        seed: u64,
        seconds: f64,
        broken: String,
    ) -> Outcome {
        let coordinator = cluster.coordinator();
        let mut told = Vec::new();
        for (id, opened) in &self.opened {
            let incident = coordinator.incidents().iter().find(|incident| incident.id == *id);
            let now = incident.map(|incident| names(coordinator, &incident.suspect));
            let now = now.unwrap_or_else(|| opened.first.clone());
            let meets =
                |set: &BTreeSet<Named>| self.expected.iter().any(|expected| !expected.set.is_disjoint(set));
            told.push(Told {
                right: meets(&opened.first) && meets(&now),
                at_s: opened.at_s,
                text: format!(
                    "{} → {}: {}",
                    list(&opened.first),
                    list(&now),
                    incident.map_or(String::new(), in_words)
                ),
            });
        }
        let pings = cluster.pinged().sent;
        let before = self.pings_before.unwrap_or(pings);
        Outcome {
            kind: kind.to_owned(),
            endpoints: cluster.ends(),
            seed,
            faults: self.faults,
            told,
            pings: self.pings_told.unwrap_or(pings) - before,
            retests: cluster.fabric().borrow().history().len() as u64,
            seconds,
            coverage_s: coordinator.coverage().unwrap_or_default().as_secs_f64(),
            kit: Kit::default(),
            broken,
            trace: cluster.trace(),
        }
    }
}

fn in_words(incident: &Incident) -> String {
    let Suspect { effect, way, share, confidence, .. } = &incident.suspect;
    format!(
        "{} ({effect:?} {way:?} {share:?} {confidence:?}, {}; {})",
        incident.title,
        incident.state.as_str(),
        incident.evidence.join("; ")
    )
}

fn list(set: &BTreeSet<Named>) -> String {
    let names: Vec<_> = set.iter().map(ToString::to_string).collect();
    names.join(" | ")
}

/// Effect, way and share, as they were to be told.
fn words(suspect: &Suspect, expected: &Expected) -> [bool; 3] {
    // A set of several has no way that all of them have in common; a pair has it in the order in which it is named.
    let paired =
        suspect.components.iter().any(|c| matches!(c, Component::Pair(..) | Component::LeafPair(..)));
    let several = suspect.components.len() > 1;
    let directed = |way: Way| way != Way::Both;
    let way = expected.way.is_none_or(|way| {
        several || way == suspect.way || (paired && directed(way) && directed(suspect.way))
    });
    [expected.effects.contains(&suspect.effect), way, suspect.share == expected.share]
}

/// Whom an incident names.
pub(crate) fn names(coordinator: &Coordinator, suspect: &Suspect) -> BTreeSet<Named> {
    let (places, matrix) = (coordinator.places(), coordinator.matrix());
    let place = |names: &[String], PlaceIndex(at): PlaceIndex| {
        names.get(at as usize).cloned().unwrap_or_else(|| format!("place {at}"))
    };
    let leaf = |at| place(&places.leaves, at);
    let end = |at| matrix.name(at).to_string();
    let name = |component: &Component| match *component {
        Component::Node(node) => Named::Node(place(&places.nodes, node)),
        Component::Endpoint(at) => Named::Endpoint(end(at)),
        Component::Leaf(at) => Named::Leaf(leaf(at)),
        Component::Uplinks(at) => Named::Uplinks(leaf(at)),
        Component::LeafPair(a, b) => Named::between(Named::LeafPair, leaf(a), leaf(b)),
        Component::Spines => Named::Spines,
        Component::Pair(a, b) => Named::between(Named::Pair, end(a), end(b)),
        Component::Cluster => Named::Cluster,
    };
    suspect.components.iter().map(name).collect()
}

impl Kit {
    /// What the rule's verdict is worth.
    pub(crate) fn of(verdict: &clusterkit::Verdict, faults: &[Fault], net: &Net) -> Self {
        let topology = net.topology();
        let is_touched = |a: usize, b: usize| faults.iter().any(|fault| fault.touches(a, b, topology));
        let right = verdict.bad.iter().all(|&(a, b)| is_touched(a, b));
        let ends = 0..topology.len();
        let pairs = ends.clone().flat_map(|a| ends.clone().skip(a + 1).map(move |b| (a, b)));
        let pairs = pairs.filter(|&(a, b)| topology.is_pinged(a, b));
        let all = if faults.is_empty() { 0 } else { pairs.filter(|&(a, b)| is_touched(a, b)).count() };
        let mut found = Share::default();
        for fault in faults {
            found.count(verdict.bad.iter().any(|&(a, b)| fault.touches(a, b, topology)));
        }
        let exact = right && all == verdict.bad.len();
        Self { names: !verdict.bad.is_empty(), right, found, exact, tests: verdict.tests }
    }
}
