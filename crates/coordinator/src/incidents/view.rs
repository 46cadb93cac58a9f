//! Incidents between the state's words and those of the API, both ways: what is shown is also what is kept on disk.
//!
//! Numbers of places are of one moment: names are what is shown and kept.

use rdmascope_control::coordinator::Coordinator;
use rdmascope_expose::api::{
    AcknowledgementView, ComponentView, IncidentCounts, IncidentView, PairNames, ReasonView,
};
use rdmascope_expose::metrics::{self, IncidentInput};
use rdmascope_localise::{
    Component, Confidence, Effect, EndpointIndex, Incident, IncidentState, PlaceIndex, Reason, Share,
    Support, Suspect, Way,
};
use rdmascope_model::{Status, Wall};
use std::collections::BTreeSet;

const EFFECTS: [(Effect, &str); 7] = [
    (Effect::Dead, "dead"),
    (Effect::Lossy, "lossy"),
    (Effect::LargeLost, "large-lost"),
    (Effect::Slow, "slow"),
    (Effect::Narrow, "narrow"),
    (Effect::HostSlow, "host-slow"),
    (Effect::Setting, "setting"),
];
const WAYS: [(Way, &str); 3] = [(Way::Both, "both"), (Way::Out, "out"), (Way::In, "in")];
const SHARES: [(Share, &str); 2] = [(Share::All, "all"), (Share::SomePaths, "some-paths")];
const CONFIDENCES: [(Confidence, &str); 3] =
    [(Confidence::Low, "low"), (Confidence::Medium, "medium"), (Confidence::High, "high")];
const STATES: [(IncidentState, &str); 3] = [
    (IncidentState::Suspected, "suspected"),
    (IncidentState::Open, "open"),
    (IncidentState::Closed, "closed"),
];

fn word<T: PartialEq>(words: &[(T, &'static str)], value: &T) -> &'static str {
    words.iter().find(|(of, _)| of == value).map_or("unknown", |(_, word)| word)
}

fn of_word<T: Copy>(words: &[(T, &'static str)], word: &str) -> Option<T> {
    words.iter().find(|(_, known)| *known == word).map(|(of, _)| *of)
}

fn kind(component: &Component) -> &'static str {
    match component {
        Component::Node(_) => "node",
        Component::Endpoint(_) => "endpoint",
        Component::Leaf(_) => "leaf",
        Component::Uplinks(_) => "uplinks",
        Component::LeafPair(..) => "leaf-pair",
        Component::Spines => "spines",
        Component::Pair(..) => "pair",
        Component::Cluster => "cluster",
    }
}

/// It is not over.
pub(crate) fn goes_on(incident: &Incident) -> bool {
    incident.state != IncidentState::Closed
}

/// An incident as the API shows it, and as it is kept.
pub(crate) fn incident(state: &Coordinator, incident: &Incident) -> IncidentView {
    let (suspect, touched) = (&incident.suspect, state.touched(incident));
    let support = &suspect.support;
    let pair = |pair: Option<(EndpointIndex, EndpointIndex)>| {
        let (source, target) = pair?;
        Some(PairNames { source: endpoint(state, source)?, target: endpoint(state, target)? })
    };
    let acknowledged = state.incident_acknowledged(incident.id);
    IncidentView {
        id: incident.id,
        state: word(&STATES, &incident.state).to_owned(),
        status: suspect.status.as_str().to_owned(),
        title: incident.title.clone(),
        who: who(incident),
        components: components(state, incident),
        effect: word(&EFFECTS, &suspect.effect).to_owned(),
        way: word(&WAYS, &suspect.way).to_owned(),
        share: word(&SHARES, &suspect.share).to_owned(),
        confidence: word(&CONFIDENCES, &suspect.confidence).to_owned(),
        evidence: incident.evidence.clone(),
        figures: support.figures.clone(),
        reasons: suspect.reasons.iter().map(reason).collect(),
        next_step: incident.next_step.clone(),
        bad_pairs: support.bad_pairs,
        pairs: support.pairs,
        bad_peers: support.bad_peers,
        peers: support.peers,
        worst: pair(support.worst),
        fine: pair(support.fine),
        maintenance: state.incident_in_maintenance(&touched),
        nodes: touched.nodes.into_iter().collect(),
        since: incident.since.to_string(),
        opened_at: incident.opened_at.map(|at| at.to_string()),
        seen_at: incident.seen_at.to_string(),
        closed_at: incident.closed_at.map(|at| at.to_string()),
        acknowledged: acknowledged
            .map(|note| AcknowledgementView { at: note.at.to_string(), note: note.note.clone() }),
    }
}

fn endpoint(state: &Coordinator, index: EndpointIndex) -> Option<String> {
    let known = (index.0 as usize) < state.matrix().len();
    known.then(|| state.matrix().name(index).to_string())
}

/// What is blamed, in words.
fn who(incident: &Incident) -> String {
    let names = incident.subjects.join(" or ");
    match &incident.suspect.components[..] {
        [Component::Endpoint(_)] => format!("{names} (its adapter, cable or switch port)"),
        [_] => names,
        _ => format!("{names} (they cannot be told apart)"),
    }
}

fn components(state: &Coordinator, incident: &Incident) -> Vec<ComponentView> {
    let components = &incident.suspect.components;
    let named = components.len() == incident.subjects.len();
    let name = |at: usize, component: &Component| {
        let subject = incident.subjects.get(at).filter(|_| named).cloned();
        let numbered = || match component {
            Component::Endpoint(index) => endpoint(state, *index),
            Component::Pair(source, target) => {
                Some(format!("{} -> {}", endpoint(state, *source)?, endpoint(state, *target)?))
            }
            _ => None,
        };
        subject.or_else(numbered).unwrap_or_else(|| incident.subjects.join(" or "))
    };
    let view =
        |(at, component)| ComponentView { kind: kind(component).to_owned(), name: name(at, component) };
    components.iter().enumerate().map(view).collect()
}

fn reason(reason: &Reason) -> ReasonView {
    ReasonView {
        id: reason.id.clone(),
        node: reason.node.clone(),
        subject: reason.subject.clone(),
        status: reason.status.as_str().to_owned(),
        summary: reason.summary.clone(),
        next_step: reason.next_step.clone(),
        since: (reason.since_ms > 0).then(|| Wall(reason.since_ms).to_string()),
    }
}

/// The other way, from an earlier run; nothing for words of a newer version. The endpoints of one that goes on are given a number where
/// they have none yet: it is looked at again.
pub(crate) fn row(state: &mut Coordinator, view: &IncidentView) -> Option<Incident> {
    let time = |text: &Option<String>| text.as_deref().map(str::parse::<Wall>).transpose().ok();
    let status = |word: &str| Status::ALL.into_iter().find(|status| status.as_str() == word);
    let of_state = of_word(&STATES, &view.state)?;
    let mut number = |name: &str| {
        let name = name.parse().ok()?;
        if of_state == IncidentState::Closed { state.matrix().find(&name) } else { state.number_for(&name) }
    };
    let reasons = view.reasons.iter().map(|reason| {
        Some(Reason {
            id: reason.id.clone(),
            node: reason.node.clone(),
            subject: reason.subject.clone(),
            status: status(&reason.status)?,
            summary: reason.summary.clone(),
            next_step: reason.next_step.clone(),
            since_ms: time(&reason.since)?.map_or(0, |at| at.0),
        })
    });
    let reasons = reasons.collect::<Option<_>>()?;
    let components = view.components.iter().map(|component| component_row(&mut number, component));
    let components = components.collect::<Option<_>>()?;
    let mut pair = |names: &Option<PairNames>| {
        let names = names.as_ref()?;
        Some((number(&names.source)?, number(&names.target)?))
    };
    let suspect = Suspect {
        components,
        effect: of_word(&EFFECTS, &view.effect)?,
        way: of_word(&WAYS, &view.way)?,
        share: of_word(&SHARES, &view.share)?,
        status: status(&view.status)?,
        confidence: of_word(&CONFIDENCES, &view.confidence)?,
        support: Support {
            bad_pairs: view.bad_pairs,
            pairs: view.pairs,
            bad_peers: view.bad_peers,
            peers: view.peers,
            fine: pair(&view.fine),
            worst: pair(&view.worst),
            figures: view.figures.clone(),
        },
        reasons,
    };
    Some(Incident {
        id: view.id,
        state: of_state,
        suspect,
        subjects: view.components.iter().map(|component| component.name.clone()).collect(),
        title: view.title.clone(),
        evidence: view.evidence.clone(),
        next_step: view.next_step.clone(),
        since: view.since.parse().ok()?,
        opened_at: time(&view.opened_at)?,
        seen_at: view.seen_at.parse().ok()?,
        closed_at: time(&view.closed_at)?,
    })
}

fn component_row(
    number: &mut impl FnMut(&str) -> Option<EndpointIndex>,
    view: &ComponentView,
) -> Option<Component> {
    const UNKNOWN: PlaceIndex = PlaceIndex::UNKNOWN;
    Some(match view.kind.as_str() {
        "node" => Component::Node(UNKNOWN),
        "endpoint" => Component::Endpoint(number(&view.name).unwrap_or(EndpointIndex::UNKNOWN)),
        "leaf" => Component::Leaf(UNKNOWN),
        "uplinks" => Component::Uplinks(UNKNOWN),
        "leaf-pair" => Component::LeafPair(UNKNOWN, UNKNOWN),
        "spines" => Component::Spines,
        "pair" => {
            // `A -> B`, whatever stands between the names.
            let mut ends = view.name.split_whitespace().filter_map(number);
            let mut end = || ends.next().unwrap_or(EndpointIndex::UNKNOWN);
            Component::Pair(end(), end())
        }
        "cluster" => Component::Cluster,
        _ => return None,
    })
}

/// What becomes of an incident that is not over.
fn becomes(incident: &IncidentView) -> metrics::IncidentState {
    if incident.state == "suspected" {
        metrics::IncidentState::Suspected
    } else if incident.acknowledged.is_some() {
        metrics::IncidentState::Acknowledged
    } else if incident.maintenance {
        metrics::IncidentState::Maintenance
    } else {
        metrics::IncidentState::Open
    }
}

/// How many there are.
pub(crate) fn counts(state: &Coordinator) -> IncidentCounts {
    let mut counts = IncidentCounts::default();
    for found in state.incidents().iter().filter(|found| goes_on(found)) {
        let count = match becomes(&incident(state, found)) {
            metrics::IncidentState::Open => &mut counts.open,
            metrics::IncidentState::Suspected => &mut counts.suspected,
            metrics::IncidentState::Acknowledged => &mut counts.acknowledged,
            metrics::IncidentState::Maintenance => &mut counts.maintenance,
        };
        *count += 1;
    }
    counts
}

/// The one node, or the one leaf, that an incident is about: alerts of the same are told together.
fn place(state: &Coordinator, incident: &Incident) -> (Option<String>, Option<String>) {
    let all = |of: fn(&Component) -> bool| incident.suspect.components.iter().all(of);
    let touched = state.touched(incident).nodes;
    let is_one = touched.len() == 1 && all(|c| matches!(c, Component::Endpoint(_) | Component::Node(_)));
    let node = touched.into_iter().next().filter(|_| is_one);
    let leaf = |subject: &String| {
        let name = subject.strip_prefix("uplinks of ").unwrap_or(subject);
        name.strip_prefix("leaf ").map(str::to_owned)
    };
    let leaves: Option<BTreeSet<String>> = incident.subjects.iter().map(leaf).collect();
    let is_leaf = all(|c| matches!(c, Component::Leaf(_) | Component::Uplinks(_)));
    let leaf =
        leaves.filter(|leaves| is_leaf && leaves.len() == 1).and_then(|leaves| leaves.into_iter().next());
    (node, leaf)
}

/// Those that are not over, for the metrics, the worst first.
pub(crate) fn inputs(state: &Coordinator) -> Vec<IncidentInput> {
    let input = |found: &Incident| {
        let suspect = &found.suspect;
        let (node, leaf) = place(state, found);
        IncidentInput {
            state: becomes(&incident(state, found)),
            status: suspect.status,
            subject: found.subjects.join(" or "),
            component: suspect.components.first().map_or("unknown", kind),
            effect: word(&EFFECTS, &suspect.effect),
            node: node.unwrap_or_default(),
            leaf: leaf.unwrap_or_default(),
        }
    };
    let mut inputs: Vec<IncidentInput> =
        state.incidents().iter().filter(|found| goes_on(found)).map(input).collect();
    inputs.sort_by_key(|input| std::cmp::Reverse(input.status));
    inputs
}
