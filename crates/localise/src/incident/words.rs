//! An incident in plain words: what is wrong with whom, what was seen, how sure that is, what to do.

use super::Incident;
use crate::{Component, Confidence, Effect, EndpointIndex, Matrix, PlaceIndex, Places, Share, Suspect, Way};
use rdmascope_model::Wall;

/// Peers that a suspect's evidence names one by one would be too many: one that is worst, one that is fine.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Names of endpoints.
    pub matrix: &'a Matrix,
    /// Names of nodes and leaves.
    pub places: &'a Places,
}

impl Names<'_> {
    /// The name of a component.
    #[must_use]
    pub fn of(&self, component: Component) -> String {
        match component {
            Component::Node(node) => self.node(node),
            Component::Endpoint(endpoint) => self.endpoint(endpoint),
            Component::Leaf(leaf) => format!("leaf {}", self.leaf(leaf)),
            Component::Uplinks(leaf) => format!("uplinks of leaf {}", self.leaf(leaf)),
            Component::LeafPair(a, b) => {
                format!("what lies between leaf {} and leaf {}", self.leaf(a), self.leaf(b))
            }
            Component::Spines => "the spines".to_owned(),
            Component::Pair(a, b) => format!("{} \u{2192} {}", self.endpoint(a), self.endpoint(b)),
            Component::Cluster => "the whole cluster".to_owned(),
        }
    }

    fn endpoint(&self, endpoint: EndpointIndex) -> String {
        self.matrix.name(endpoint).to_string()
    }

    fn node(&self, node: PlaceIndex) -> String {
        self.places.nodes.get(node.0 as usize).cloned().unwrap_or_default()
    }

    fn leaf(&self, leaf: PlaceIndex) -> String {
        self.places.leaves.get(leaf.0 as usize).cloned().unwrap_or_default()
    }

    /// Writes what an incident says of its suspect.
    pub(super) fn write(&self, incident: &mut Incident) {
        let suspect = &incident.suspect;
        incident.subjects = suspect.components.iter().map(|&component| self.of(component)).collect();
        incident.title = self.title(suspect, &incident.subjects);
        incident.evidence = self.evidence(suspect, &incident.subjects);
        let reason = suspect.reasons.first().map(|reason| reason.next_step.clone());
        incident.next_step =
            reason.filter(|step| !step.is_empty()).unwrap_or_else(|| next_step(suspect).to_owned());
    }

    fn title(&self, suspect: &Suspect, subjects: &[String]) -> String {
        let who = subjects.join(" or ");
        let both_ways = match suspect.components.as_slice() {
            [Component::Pair(a, b)] if suspect.way == Way::Both => {
                Some(format!("{} \u{2194} {}", self.endpoint(*a), self.endpoint(*b)))
            }
            [Component::Pair(a, b)] if suspect.way == Way::In => Some(self.of(Component::Pair(*b, *a))),
            _ => None,
        };
        let what = effect_words(suspect);
        let why = match suspect.reasons.first() {
            Some(reason) => format!(": {}{}", reason.summary, since(reason.since_ms)),
            None => suspect.support.figures.first().map(|seen| format!(": {seen}")).unwrap_or_default(),
        };
        format!("{} {what}{why}", both_ways.unwrap_or(who))
    }

    fn evidence(&self, suspect: &Suspect, subjects: &[String]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for reason in &suspect.reasons {
            let since = since(reason.since_ms);
            lines.push(format!(
                "{} says of {}: {}{since} ({})",
                reason.node, reason.subject, reason.summary, reason.id
            ));
        }
        lines.extend(suspect.support.figures.iter().cloned());
        if let Some((a, b)) = suspect.support.worst {
            lines.push(format!("it shows most between {} and {}", self.endpoint(a), self.endpoint(b)));
        }
        if let Some((a, b)) = suspect.support.fine {
            lines.push(format!("{} and {} are unaffected", self.endpoint(a), self.endpoint(b)));
        }
        if subjects.len() > 1 {
            lines.push(format!("nothing that was measured tells these apart: {}", subjects.join(", ")));
        }
        lines.push(confidence_words(suspect).to_owned());
        lines
    }
}

fn since(since_ms: u64) -> String {
    if since_ms == 0 { String::new() } else { format!(" since {}", Wall(since_ms)) }
}

fn effect_words(suspect: &Suspect) -> String {
    let pair = matches!(suspect.components.as_slice(), [Component::Pair(..)]);
    let way = if pair { Way::Both } else { suspect.way };
    let what = match (suspect.effect, way) {
        (Effect::Dead, Way::Both) => "lets nothing through",
        (Effect::Dead, Way::Out) => "gets nothing through of what it sends",
        (Effect::Dead, Way::In) => "gets nothing of what is sent to it",
        (Effect::Lossy, Way::Both) => "loses packets",
        (Effect::Lossy, Way::Out) => "loses packets that it sends",
        (Effect::Lossy, Way::In) => "loses packets that are sent to it",
        (Effect::LargeLost, Way::Both) => "loses packets of the full path MTU",
        (Effect::LargeLost, Way::Out) => "loses packets of the full path MTU that it sends",
        (Effect::LargeLost, Way::In) => "loses packets of the full path MTU that are sent to it",
        (Effect::Slow, _) => "is slow",
        (Effect::Narrow, Way::Both) => "carries less than it should",
        (Effect::Narrow, Way::Out) => "sends less than it should",
        (Effect::Narrow, Way::In) => "receives less than it should",
        (Effect::HostSlow, _) => "takes long as a host, the network does not",
        (Effect::Setting, _) => "is set up wrongly",
    };
    match suspect.share {
        Share::SomePaths => format!("{what} on some of its paths"),
        Share::All => what.to_owned(),
    }
}

fn confidence_words(suspect: &Suspect) -> &'static str {
    match (suspect.confidence, suspect.reasons.is_empty()) {
        (Confidence::High, false) => "confidence: high, the node itself says so",
        (Confidence::High, true) => "confidence: high, many peers agree and it was measured again",
        (Confidence::Medium, _) => {
            "confidence: medium, it was measured again, and few peers could be compared"
        }
        (Confidence::Low, _) => "confidence: low, there are too few endpoints or peers to compare with",
    }
}

/// What to do where the node itself has said nothing of it.
fn next_step(suspect: &Suspect) -> &'static str {
    let Some(component) = suspect.components.first() else { return "" };
    match (suspect.effect, component) {
        (Effect::HostSlow, _) => {
            "Look at the host: processor time of the agent (steal, cgroup limits), interrupts, power saving; not at the network."
        }
        (Effect::Setting, _) => "Compare the settings with a node that is fine: `rdmascope check` on both.",
        (Effect::LargeLost, _) => {
            "Compare the MTU of both ends and of every switch port between them: small packets arrive, large ones do not."
        }
        (_, Component::Node(_)) => {
            "Look at what its endpoints share: PCI, memory, processor, the power of the host."
        }
        (_, Component::Endpoint(_)) => {
            "Look at the adapter's and the switch port's error counters, then swap cable or module; run `rdmascope check` on the node."
        }
        (_, Component::Leaf(_)) => {
            "Look at the switch: its log, its fans and supplies, discards on the ports towards its endpoints."
        }
        (_, Component::Uplinks(_)) => {
            "Look at the uplink ports of this leaf: errors, discards, a member that is down."
        }
        (_, Component::LeafPair(..)) => {
            "Compare the routes between these two leaves, and the error counters of the links on them."
        }
        (_, Component::Spines) => "Look at the spines: error counters of their ports, routes that changed.",
        (_, Component::Pair(..)) => {
            "Run `rdmascope probe A B --full` for this pair: it names path, class and size; then trace its path."
        }
        (_, Component::Cluster) => {
            "Everything is below the limit: look at what all share, such as MTU, flow control, oversubscription or load."
        }
    }
}
