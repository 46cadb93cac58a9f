//! One answer in plain words from cells, incidents and findings: it is the network, it is not, or it cannot be said and what to
//! measure next.
//!
//! What was confirmed comes first (incidents are measured again before they open), then what pairs show, then what nodes say. A doubt is
//! never told as a verdict, and what nobody looked at is never told as health.

use super::{PairFigures, WorstPair};
use crate::{CellState, Component, Effect, EndpointIndex, Incident, IncidentState};
use rdmascope_model::{Metric, Wall};
use std::collections::BTreeMap;

/// Share of the pairs that must be fresh before their silence means something.
const FRESH_SHARE_MIN: f64 = 0.9;
/// Share of lost pings over all pairs that is a loss, whatever single pairs lose (Pingmesh alarms at 1e-3).
const LOSS_MAX: f64 = 1e-3;
/// One lossy pair in so many is noise: at a loss of 1e-4, which is usual (Pingmesh), two of 60 pings are lost by chance in 2 pairs of 100,000.
const LOSSY_ONE_IN: u64 = 1_000;
/// One slow pair in so many is noise: figures of a quiet fabric have heavy tails.
const SLOW_ONE_IN: u64 = 100;
/// Pairs that must agree before the network is named without an incident: one pair alone may be chance, and is measured again first.
const AGREE_MIN: u64 = 2;

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Not the network, and nothing else was found.
    Fine,
    /// Not the network: something on a node.
    Host,
    /// The network.
    Network,
    /// Too little is known.
    CannotSay,
}

impl Answer {
    /// The word used everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Host => "host",
            Self::Network => "network",
            Self::CannotSay => "cannot-say",
        }
    }
}

/// What is known of the nodes besides their pairs. What is acknowledged or in maintenance is left out.
#[derive(Clone, Debug, Default)]
pub struct Known<'a> {
    /// Incidents that touch them and are not over, the oldest first.
    pub incidents: Vec<&'a Incident>,
    /// Findings that fail, as `node7 mlx5_1/1: the port is DOWN [port-state]`, and what to do.
    pub failing: Vec<(String, String)>,
    /// Nodes whose agent is not connected.
    pub away: Vec<String>,
    /// Connected nodes without an endpoint that can be probed.
    pub mute: Vec<String>,
    /// Nodes that were asked for; 0 for the whole cluster.
    pub nodes: usize,
}

/// What their pairs show.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// By metric.
    pub figures: &'a BTreeMap<Metric, PairFigures>,
    /// Names of endpoints.
    pub name: &'a dyn Fn(EndpointIndex) -> String,
    /// The time of the question.
    pub now: Wall,
}

/// The answer, in words, and the next step.
#[must_use]
pub fn answer(known: &Known<'_>, seen: &Seen<'_>) -> (Answer, String, String) {
    let (answer, text, next_step) = incident(known)
        .or_else(|| pairs(known, seen))
        .or_else(|| nodes(known, seen))
        .or_else(|| gaps(known, seen))
        .unwrap_or_else(|| (Answer::Fine, fine(known, seen), unmeasured_next(seen)));
    let begin = match (answer, known.nodes) {
        (Answer::CannotSay, _) => "cannot say: ",
        (Answer::Fine, 0) => "nothing is wrong: ",
        (Answer::Host | Answer::Network, 0) => "",
        (Answer::Fine | Answer::Host, _) => "not the network: ",
        (Answer::Network, _) => "the network: ",
    };
    (answer, format!("{begin}{text}"), next_step)
}

type Part = Option<(Answer, String, String)>;

/// An incident that is open says it all; the network's come before those of hosts.
fn incident(known: &Known<'_>) -> Part {
    let open = || known.incidents.iter().filter(|incident| incident.state == IncidentState::Open);
    let of_network = open().find(|incident| is_of_network(incident));
    let (answer, first) = match (of_network, open().next()) {
        (Some(incident), _) => (Answer::Network, incident),
        (None, Some(incident)) => (Answer::Host, incident),
        (None, None) => return None,
    };
    let more = match open().count() - 1 {
        0 => String::new(),
        1 => "; and 1 more incident".to_owned(),
        more => format!("; and {more} more incidents"),
    };
    Some((
        answer,
        format!("{} (incident {}, since {}){more}", first.title, first.id, first.since),
        first.next_step.clone(),
    ))
}

/// A host that is slow, and what all endpoints of a node share, is not the network's.
fn is_of_network(incident: &Incident) -> bool {
    let suspect = &incident.suspect;
    let hosts_only = suspect.components.iter().all(|component| matches!(component, Component::Node(_)));
    suspect.effect != Effect::HostSlow && (suspect.components.is_empty() || !hosts_only)
}

/// What pairs show without an incident.
fn pairs(known: &Known<'_>, seen: &Seen<'_>) -> Part {
    let of = |what: fn(&PairFigures) -> u64| seen.figures.values().map(what).sum::<u64>();
    let (no_way, fresh) = (of(|f| f.no_way), of(|f| f.count(CellState::Fresh)));
    let lossy = Some(of(|f| f.lossy)).filter(|lossy| lossy * LOSSY_ONE_IN > fresh).unwrap_or(0);
    let slow = Some(of(|f| f.slow)).filter(|slow| slow * SLOW_ONE_IN > of(|f| f.comparable)).unwrap_or(0);
    let over_all =
        seen.figures.values().any(|f| f.lost.0 >= 2 && f.loss_ratio().is_some_and(|loss| loss > LOSS_MAX));
    let mut told = Vec::new();
    let mut probe = None;
    if let Some((source, target, cause)) = network_failure(seen) {
        told.push(format!(
            "{} get no answer ({}: {})",
            count(no_way, "pair"),
            way(seen, source, target),
            cause.text().trim_end_matches('.')
        ));
        probe = probe.or(Some((source, target)));
    }
    let lossiest = seen.figures.values().find_map(|f| f.lossiest).filter(|_| lossy > 0 || over_all);
    if let Some((source, target, share)) = lossiest {
        let all = seen.figures.values().find_map(PairFigures::loss_ratio).unwrap_or_default();
        told.push(format!(
            "{} lose pings, most of all {} ({}), {} over all pairs",
            count(of(|f| f.lossy), "pair"),
            way(seen, source, target),
            per_cent(share),
            per_cent(all)
        ));
        probe = probe.or(Some((source, target)));
    }
    if let Some((metric, worst)) = worst_of(seen).filter(|_| slow > 0) {
        told.push(format!("{} slow, most of all {}", count_are(slow), slowness(seen, metric, &worst)));
        probe = probe.or(Some((worst.source, worst.target)));
    }
    let (source, target) = probe?;
    let text = told.join("; ");
    let next = format!("rdmascope probe {} {} --full", (seen.name)(source), (seen.name)(target));
    if no_way >= AGREE_MIN || lossy >= AGREE_MIN || over_all {
        return Some((
            Answer::Network,
            text,
            format!("See what such a pair looks like step by step: `{next}`."),
        ));
    }
    // Being slow alone may come from the job's own traffic, and a single pair may be chance.
    let doubt = match known.incidents.first() {
        Some(suspected) => format!("{text}; this is being measured again ({})", suspected.title),
        None if slow > 0 && no_way + lossy == 0 => format!("{text}; a job's own traffic does that too"),
        None => format!("{text}; one pair alone may be chance"),
    };
    Some((Answer::CannotSay, doubt, format!("Measure that pair: `{next}`.")))
}

fn network_failure(seen: &Seen<'_>) -> Option<(EndpointIndex, EndpointIndex, rdmascope_model::Cause)> {
    seen.figures.values().filter(|f| f.no_way > 0).find_map(|f| f.failures.first().copied())
}

/// What nodes say of themselves where their pairs are fine.
fn nodes(known: &Known<'_>, seen: &Seen<'_>) -> Part {
    let host_slow: u64 = seen.figures.values().map(|f| f.host_slow).sum();
    if let Some((first, next_step)) = known.failing.first() {
        let more = match known.failing.len() - 1 {
            0 => String::new(),
            more => format!("; and {} that fail", count(more as u64, "more finding")),
        };
        let pairs = shown(seen).map_or_else(String::new, |pairs| format!("; between the nodes {pairs}"));
        return Some((Answer::Host, format!("{first}{more}{pairs}"), next_step.clone()));
    }
    (host_slow >= AGREE_MIN).then(|| {
        let text = format!("{} spend their time inside a host, not between hosts", count(host_slow, "pair"));
        let next = "Look at the hosts' load: `rdmascope matrix --metric ping` names them; `top`, `cat /proc/pressure/cpu`.";
        (Answer::Host, text, next.to_owned())
    })
}

/// What nobody can see.
fn gaps(known: &Known<'_>, seen: &Seen<'_>) -> Part {
    if !known.away.is_empty() {
        let text = format!("the agent of {} is not connected: nobody looks from there", listed(&known.away));
        return Some((
            Answer::CannotSay,
            text,
            "See whether these nodes and their agents run: `systemctl status rdmascope-agent`.".to_owned(),
        ));
    }
    if !known.mute.is_empty() {
        let text = format!("{} has no endpoint that can be probed", listed(&known.mute));
        return Some((Answer::CannotSay, text, "`rdmascope check` on that node says why.".to_owned()));
    }
    let network = || seen.figures.iter().filter(|(metric, _)| **metric != Metric::Bandwidth).map(|(_, f)| f);
    let pairs: u64 = network().map(|f| f.pairs - f.count(CellState::Excluded)).sum();
    let fresh: u64 = network().map(|f| f.count(CellState::Fresh)).sum();
    if pairs == 0 {
        let text = if known.nodes == 0 {
            "no pair of endpoints can be measured"
        } else {
            "these nodes have no pairs"
        };
        return Some((
            Answer::CannotSay,
            text.to_owned(),
            "Start agents on at least two nodes: `rdmascope agent --coordinator HOST:PORT`.".to_owned(),
        ));
    }
    let failed: Option<_> = network().find_map(|f| f.failures.first().copied());
    if (fresh as f64) < pairs as f64 * FRESH_SHARE_MIN {
        let why = failed.map_or_else(String::new, |(source, target, cause)| {
            format!("; {}: {}", way(seen, source, target), cause.text().trim_end_matches('.'))
        });
        let text = format!("only {fresh} of {pairs} pairs are freshly measured{why}");
        return Some((Answer::CannotSay, text, "Measure them now: `rdmascope sweep --metric ping`, or `rdmascope sweep` where there are no pings.".to_owned()));
    }
    known.incidents.first().map(|suspected| {
        let text = format!("something is suspected and being measured again: {}", suspected.title);
        (Answer::CannotSay, text, "Ask again in a minute.".to_owned())
    })
}

fn fine(known: &Known<'_>, seen: &Seen<'_>) -> String {
    let pairs = shown(seen).unwrap_or_default();
    let bandwidth = seen.figures.get(&Metric::Bandwidth).map_or(0, |f| f.count(CellState::Fresh));
    let untold = if bandwidth == 0 { "; bandwidth was not measured lately" } else { "" };
    let whom = if known.nodes == 0 { "" } else { " of these nodes" };
    format!("{pairs}; no incident and no finding that fails{whom}{untold}")
}

fn unmeasured_next(seen: &Seen<'_>) -> String {
    match seen.figures.get(&Metric::Bandwidth) {
        Some(figures) if figures.count(CellState::Fresh) > 0 => String::new(),
        _ => "Where bandwidth is in doubt, and the nodes are drained: `rdmascope sweep --metric bandwidth --drained`.".to_owned(),
    }
}

/// What fresh pairs show when all is well with them.
fn shown(seen: &Seen<'_>) -> Option<String> {
    let network = || {
        seen.figures
            .iter()
            .filter(|(metric, f)| **metric != Metric::Bandwidth && f.count(CellState::Fresh) > 0)
    };
    let (pairs, fresh) =
        network().fold((0, 0), |(pairs, fresh), (_, f)| (pairs + f.pairs, fresh + f.count(CellState::Fresh)));
    let oldest = network().filter_map(|(_, f)| f.oldest).min()?;
    let age = seen.now.since(oldest).as_secs();
    let mut text = format!("{fresh} of {pairs} pairs are fresh (at most {age} s old)");
    let (lost, sent) = network().fold((0, 0), |(lost, sent), (_, f)| (lost + f.lost.0, sent + f.lost.1));
    match (lost, sent) {
        (_, 0) => {}
        (0, _) => text.push_str(", none of them loses pings"),
        (lost, sent) => text.push_str(&format!(", {lost} of {sent} pings are lost")),
    }
    match worst_of(seen) {
        Some((metric, worst)) => {
            text.push_str(&format!(", the slowest is {}", slowness(seen, metric, &worst)))
        }
        None => text.push_str(", and too few others to compare them with"),
    }
    Some(text)
}

fn worst_of(seen: &Seen<'_>) -> Option<(Metric, WorstPair)> {
    let worst = seen.figures.iter().filter_map(|(metric, f)| Some((*metric, f.worst?)));
    worst.max_by(|(_, a), (_, b)| a.slower.total_cmp(&b.slower))
}

fn slowness(seen: &Seen<'_>, metric: Metric, worst: &WorstPair) -> String {
    let figure = |value: u64| match metric {
        Metric::Bandwidth => format!("{:.1} Gbit/s", value as f64 / 1e9),
        Metric::Latency | Metric::Ping => format!("{:.2} µs", value as f64 / 1e3),
    };
    format!(
        "{} with {} against a median of {} of {} pairs ({}): {:.2} times as slow",
        way(seen, worst.source, worst.target),
        figure(worst.value),
        figure(worst.median),
        worst.compared,
        worst.tier.distance.as_str(),
        worst.slower
    )
}

fn way(seen: &Seen<'_>, source: EndpointIndex, target: EndpointIndex) -> String {
    format!("{} -> {}", (seen.name)(source), (seen.name)(target))
}

fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn count_are(number: u64) -> String {
    format!("{} {}", count(number, "pair"), if number == 1 { "is" } else { "are" })
}

fn per_cent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// At most five names.
fn listed(names: &[String]) -> String {
    const NAMED_MAX: usize = 5;
    let mut text = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED_MAX {
        text.push_str(&format!(" and {} more", names.len() - NAMED_MAX));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Confidence, Distance, PlaceIndex, Share, Support, Suspect, Tier, Way};
    use rdmascope_model::{Cause, Status};

    fn incident(component: Component, effect: Effect, state: IncidentState) -> Incident {
        let suspect = Suspect {
            components: vec![component],
            effect,
            way: Way::Both,
            share: Share::All,
            status: Status::Fail,
            confidence: Confidence::High,
            support: Support::default(),
            reasons: Vec::new(),
        };
        Incident {
            id: 7,
            state,
            suspect,
            subjects: vec!["n1".to_owned()],
            title: "n1 is odd".to_owned(),
            evidence: Vec::new(),
            next_step: "Do it.".to_owned(),
            since: Wall(1_000),
            opened_at: None,
            seen_at: Wall(1_000),
            closed_at: None,
        }
    }

    /// Twelve fresh pairs without a fault.
    fn healthy() -> PairFigures {
        let tier = Tier { distance: Distance::Leaf, same_rail: true, rate_bps: 100 };
        let (source, target) = (EndpointIndex(1), EndpointIndex(2));
        PairFigures {
            pairs: 12,
            states: [12, 0, 0, 0, 0],
            oldest: Some(Wall(60_000)),
            lost: (0, 1_000),
            comparable: 12,
            worst: Some(WorstPair {
                source,
                target,
                value: 3_100,
                median: 3_000,
                slower: 1.033,
                tier,
                compared: 90,
            }),
            ..PairFigures::default()
        }
    }

    fn asked(known: &Known<'_>, figures: PairFigures) -> (Answer, String, String) {
        let figures = BTreeMap::from([(Metric::Ping, figures)]);
        answer(
            known,
            &Seen { figures: &figures, name: &|index| format!("n{}/d/1", index.0), now: Wall(70_000) },
        )
    }

    fn four<'a>() -> Known<'a> {
        Known { nodes: 4, ..Known::default() }
    }

    #[test]
    fn fresh_pairs_without_a_fault_are_not_the_network_and_say_what_was_not_looked_at() {
        let (kind, text, next) = asked(&four(), healthy());
        assert_eq!(kind, Answer::Fine);
        assert_eq!(
            text,
            "not the network: 12 of 12 pairs are fresh (at most 10 s old), none of them loses pings, the slowest is n1/d/1 -> n2/d/1 \
             with 3.10 µs against a median of 3.00 µs of 90 pairs (same leaf): 1.03 times as slow; no incident and no finding that fails \
             of these nodes; bandwidth was not measured lately"
        );
        assert!(next.contains("sweep --metric bandwidth --drained"), "{next}");
        let whole = asked(&Known::default(), healthy()).1;
        assert!(whole.starts_with("nothing is wrong: 12 of 12 pairs"), "{whole}");
    }

    #[test]
    fn an_open_incident_comes_first_and_a_hosts_is_not_the_networks() {
        let leaf = incident(Component::Leaf(PlaceIndex(0)), Effect::Lossy, IncidentState::Open);
        let host = incident(Component::Node(PlaceIndex(0)), Effect::HostSlow, IncidentState::Open);
        let told = |incidents| {
            asked(
                &Known { incidents, failing: vec![("a finding".to_owned(), String::new())], ..four() },
                healthy(),
            )
        };
        let (kind, text, next) = told(vec![&host, &leaf]);
        assert_eq!((kind, next.as_str()), (Answer::Network, "Do it."));
        assert_eq!(
            text,
            "the network: n1 is odd (incident 7, since 1970-01-01T00:00:01.000Z); and 1 more incident"
        );
        let (kind, text, _) = told(vec![&host]);
        assert_eq!(kind, Answer::Host);
        assert!(text.starts_with("not the network: n1 is odd"), "{text}");
    }

    #[test]
    fn two_pairs_that_agree_name_the_network_and_one_is_measured_again() {
        let failures = vec![(EndpointIndex(1), EndpointIndex(2), Cause::NoFirstByte)];
        let failing = |no_way| PairFigures {
            states: [12 - no_way, 0, 0, no_way, 0],
            no_way,
            failures: failures.clone(),
            ..healthy()
        };
        let (kind, text, next) = asked(&four(), failing(2));
        assert_eq!(kind, Answer::Network);
        assert!(
            text.starts_with("the network: 2 pairs get no answer (n1/d/1 -> n2/d/1: Both ends were set up"),
            "{text}"
        );
        assert!(next.contains("rdmascope probe n1/d/1 n2/d/1 --full"), "{next}");
        let (kind, text, _) = asked(&four(), failing(1));
        assert_eq!(kind, Answer::CannotSay);
        assert!(text.ends_with("; one pair alone may be chance"), "{text}");
        let lossiest = Some((EndpointIndex(1), EndpointIndex(2), 0.1));
        let losing = |lossy, lost| PairFigures { lossy, lossiest, lost: (lost, 10_000), ..healthy() };
        assert_eq!(asked(&four(), losing(2, 8)).0, Answer::Network);
        assert_eq!(asked(&four(), losing(1, 8)).0, Answer::CannotSay);
        assert_eq!(asked(&four(), losing(1, 11)).0, Answer::Network, "more than one in a thousand over all");
    }

    #[test]
    fn what_chance_does_among_many_pairs_is_no_doubt() {
        let lossiest = Some((EndpointIndex(1), EndpointIndex(2), 0.05));
        let many =
            PairFigures { pairs: 10_000, states: [10_000, 0, 0, 0, 0], comparable: 10_000, ..healthy() };
        let noisy = PairFigures { lossy: 10, lossiest, lost: (30, 600_000), slow: 100, ..many.clone() };
        assert_eq!(asked(&four(), noisy.clone()).0, Answer::Fine);
        assert_eq!(asked(&four(), PairFigures { lossy: 11, ..noisy.clone() }).0, Answer::Network);
        assert_eq!(asked(&four(), PairFigures { slow: 101, ..noisy }).0, Answer::CannotSay);
    }

    #[test]
    fn being_slow_alone_is_no_verdict_and_a_suspicion_is_named_as_one() {
        let slow = PairFigures { slow: 5, ..healthy() };
        let (kind, text, _) = asked(&four(), slow.clone());
        assert_eq!(kind, Answer::CannotSay);
        assert!(
            text.starts_with("cannot say: 5 pairs are slow, most of all n1/d/1 -> n2/d/1")
                && text.contains("own traffic"),
            "{text}"
        );
        let suspected =
            incident(Component::Endpoint(EndpointIndex(1)), Effect::Slow, IncidentState::Suspected);
        let (_, text, _) = asked(&Known { incidents: vec![&suspected], ..four() }, slow);
        assert!(text.ends_with("this is being measured again (n1 is odd)"), "{text}");
        let (kind, text, next) = asked(&Known { incidents: vec![&suspected], ..four() }, healthy());
        assert_eq!((kind, next.as_str()), (Answer::CannotSay, "Ask again in a minute."));
        assert!(text.contains("suspected"), "{text}");
    }

    #[test]
    fn a_finding_of_a_node_whose_pairs_are_fine_is_not_the_networks() {
        let failing =
            vec![("n1 machine: memory cannot be locked [memlock]".to_owned(), "Raise it.".to_owned())];
        let (kind, text, next) = asked(&Known { failing, ..four() }, healthy());
        assert_eq!((kind, next.as_str()), (Answer::Host, "Raise it."));
        assert!(
            text.starts_with(
                "not the network: n1 machine: memory cannot be locked [memlock]; between the nodes 12 of 12"
            ),
            "{text}"
        );
        let hosts = PairFigures { host_slow: 3, ..healthy() };
        assert!(asked(&four(), hosts).1.contains("3 pairs spend their time inside a host"));
    }

    #[test]
    fn what_nobody_looked_at_is_not_health() {
        let few = PairFigures { states: [10, 1, 1, 0, 0], ..healthy() };
        let (kind, text, next) = asked(&four(), few);
        assert_eq!(
            (kind, text.as_str()),
            (Answer::CannotSay, "cannot say: only 10 of 12 pairs are freshly measured")
        );
        assert!(next.contains("rdmascope sweep --metric ping"));
        let excluded = PairFigures { states: [10, 0, 0, 0, 2], ..healthy() };
        assert_eq!(asked(&four(), excluded).0, Answer::Fine, "what is excluded by order is no gap");
        let away = Known { away: vec!["n3".to_owned()], ..four() };
        assert!(asked(&away, healthy()).1.contains("the agent of n3 is not connected"));
        assert_eq!(asked(&four(), PairFigures::default()).0, Answer::CannotSay);
        assert_eq!(asked(&Known::default(), PairFigures::default()).0, Answer::CannotSay);
    }
}
