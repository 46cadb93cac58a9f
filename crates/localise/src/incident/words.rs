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

/// What is wrong with the suspect, as the words behind its name: those of one thing, or of several.
fn effect_words(suspect: &Suspect) -> String {
    let pair = matches!(suspect.components.as_slice(), [Component::Pair(..)]);
    let way = if pair { Way::Both } else { suspect.way };
    let [one, several] = match (suspect.effect, way) {
        (Effect::Dead, Way::Both) => ["lets nothing through", "let nothing through"],
        (Effect::Dead, Way::Out) => {
            ["gets nothing through of what it sends", "get nothing through of what they send"]
        }
        (Effect::Dead, Way::In) => {
            ["gets nothing of what is sent to it", "get nothing of what is sent to them"]
        }
        (Effect::Lossy, Way::Both) => ["loses packets", "lose packets"],
        (Effect::Lossy, Way::Out) => ["loses packets that it sends", "lose packets that they send"],
        (Effect::Lossy, Way::In) => {
            ["loses packets that are sent to it", "lose packets that are sent to them"]
        }
        (Effect::LargeLost, Way::Both) => {
            ["loses packets of the full path MTU", "lose packets of the full path MTU"]
        }
        (Effect::LargeLost, Way::Out) => [
            "loses packets of the full path MTU that it sends",
            "lose packets of the full path MTU that they send",
        ],
        (Effect::LargeLost, Way::In) => [
            "loses packets of the full path MTU that are sent to it",
            "lose packets of the full path MTU that are sent to them",
        ],
        (Effect::Slow, _) => ["is slow", "are slow"],
        (Effect::Narrow, Way::Both) => ["carries less than it should", "carry less than they should"],
        (Effect::Narrow, Way::Out) => ["sends less than it should", "send less than they should"],
        (Effect::Narrow, Way::In) => ["receives less than it should", "receive less than they should"],
        (Effect::HostSlow, _) => {
            ["takes long as a host, the network does not", "take long as hosts, the network does not"]
        }
        (Effect::Setting, _) => ["is set up wrongly", "are set up wrongly"],
    };
    // Of several that are joined by "or", the last one stands beside the verb.
    let is_several = matches!(suspect.components.last(), Some(Component::Spines | Component::Uplinks(_)));
    let (what, whose) = if is_several { (several, "their") } else { (one, "its") };
    match suspect.share {
        Share::SomePaths => format!("{what} on some of {whose} paths"),
        Share::All => what.to_owned(),
    }
}

fn confidence_words(suspect: &Suspect) -> &'static str {
    match (suspect.confidence, suspect.reasons.is_empty()) {
        (Confidence::High, false) => "confidence: high, the node itself says so",
        (Confidence::High, true) => "confidence: high, many peers agree and it was measured again",
        // Nobody's pairs were compared.
        (Confidence::Medium, true) if suspect.support.pairs == 0 => {
            "confidence: medium, it was compared with itself alone"
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Support;
    use rdmascope_model::Status;

    #[test]
    fn one_thing_is_slow_and_several_are() {
        let places = Places { leaves: vec!["l1".to_owned(), "l2".to_owned()], ..Places::default() };
        let matrix = Matrix::default();
        let names = Names { matrix: &matrix, places: &places };
        let says = |components: &[Component], effect, way, share| {
            let suspect = Suspect {
                components: components.to_vec(),
                effect,
                way,
                share,
                status: Status::Fail,
                confidence: Confidence::High,
                support: Support::default(),
                reasons: Vec::new(),
            };
            let subjects: Vec<String> = components.iter().map(|&component| names.of(component)).collect();
            names.title(&suspect, &subjects)
        };
        let (leaf, uplinks) = (Component::Leaf(PlaceIndex(0)), Component::Uplinks(PlaceIndex(0)));
        let all = Share::All;
        assert_eq!(says(&[Component::Spines], Effect::Slow, Way::Both, all), "the spines are slow");
        assert_eq!(says(&[leaf], Effect::Slow, Way::Both, all), "leaf l1 is slow");
        assert_eq!(
            says(&[uplinks], Effect::Lossy, Way::Out, Share::SomePaths),
            "uplinks of leaf l1 lose packets that they send on some of their paths"
        );
        assert_eq!(
            says(&[leaf], Effect::Lossy, Way::In, Share::SomePaths),
            "leaf l1 loses packets that are sent to it on some of its paths"
        );
        assert_eq!(
            says(&[uplinks, Component::Spines], Effect::Narrow, Way::Both, all),
            "uplinks of leaf l1 or the spines carry less than they should"
        );
        let between = Component::LeafPair(PlaceIndex(0), PlaceIndex(1));
        assert_eq!(
            says(&[uplinks, between], Effect::Dead, Way::Both, all),
            "uplinks of leaf l1 or what lies between leaf l1 and leaf l2 lets nothing through"
        );
    }

    #[test]
    fn whatever_several_do_is_said_of_several() {
        let effects = [
            Effect::Dead,
            Effect::Lossy,
            Effect::LargeLost,
            Effect::Slow,
            Effect::Narrow,
            Effect::HostSlow,
            Effect::Setting,
        ];
        for (effect, way) in
            effects.into_iter().flat_map(|e| [Way::Both, Way::Out, Way::In].map(|way| (e, way)))
        {
            let suspect = Suspect {
                components: vec![Component::Spines],
                effect,
                way,
                share: Share::SomePaths,
                status: Status::Fail,
                confidence: Confidence::High,
                support: Support::default(),
                reasons: Vec::new(),
            };
            let words = effect_words(&suspect);
            let first = words.split(' ').next().unwrap_or_default();
            assert!(first == "are" || !first.ends_with('s'), "{words}");
            assert!(!words.split(' ').any(|word| ["it", "its"].contains(&word)), "{words}");
        }
    }
}
