//! Who is to blame, in words: what nodes say of themselves first, then what explains most bad pairs, with figures and a next step.

use super::facts::{Facts, Told};
use super::judged::miss;
use super::some;
use crate::output::plain;
use rdmascope_expose::api::{BatchSuspectView, Severity};
use rdmascope_localise::batch::{Blamed, Judged, Limit, Part, Standing, Trial, cover};
use std::collections::{BTreeMap, BTreeSet};

/// Pairs that are shown as evidence of one suspect.
const PAIRS_SHOWN: usize = 5;
/// Suspects that are told of: more is a batch of which nothing can be said.
const SUSPECTS_MAX: usize = 50;

/// Numbers of nodes and leaves, and what they are called.
pub(crate) struct Names {
    standings: Vec<Standing>,
    nodes: Vec<String>,
    leaves: Vec<String>,
}

impl Names {
    pub(crate) fn of(facts: &Facts) -> Self {
        let mut names = Self { standings: Vec::new(), nodes: Vec::new(), leaves: Vec::new() };
        for endpoint in &facts.endpoints {
            let node = number(&mut names.nodes, &endpoint.node);
            let leaf = endpoint.place.leaf.as_ref().map(|leaf| number(&mut names.leaves, leaf));
            names.standings.push(Standing { node, leaf });
        }
        names
    }

    /// What a part is called.
    fn part(&self, facts: &Facts, part: Part) -> String {
        let name = |list: &[String], at: u32| plain(list.get(at as usize).map_or("?", String::as_str));
        match part {
            Part::Endpoint(at) => plain(facts.name(at)),
            Part::Sender(at) => format!("{} as a sender", plain(facts.name(at))),
            Part::Receiver(at) => format!("{} as a receiver", plain(facts.name(at))),
            Part::Node(at) => format!("node {}", name(&self.nodes, at)),
            Part::Uplinks(at) => format!("the uplinks of leaf {}", name(&self.leaves, at)),
            Part::Leaf(at) => format!("leaf {}", name(&self.leaves, at)),
            Part::Pair(a, b) => {
                format!("the path between {} and {}", plain(facts.name(a)), plain(facts.name(b)))
            }
            Part::Batch => "the batch as a whole".to_owned(),
        }
    }
}

fn number(names: &mut Vec<String>, name: &str) -> u32 {
    let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// One trial for each ordered pair that was tested in any stage: bad where any of them was.
pub(crate) fn trials(facts: &Facts, judged: &[Judged]) -> Vec<Trial> {
    let mut all: BTreeMap<(u32, u32), bool> = BTreeMap::new();
    for (pair, judged) in facts.pairs.iter().zip(judged) {
        if *judged != Judged::NotTested {
            *all.entry((pair.source, pair.target)).or_default() |= matches!(judged, Judged::Bad(_));
        }
    }
    all.into_iter().map(|((source, target), bad)| Trial { source, target, bad }).collect()
}

/// Endpoints of which their nodes say that something is wrong.
fn told(facts: &Facts) -> BTreeSet<u32> {
    let of_node = (0..).zip(&facts.endpoints).filter(|(_, e)| facts.told_of_nodes.contains_key(&e.node));
    facts.told.keys().copied().chain(of_node.map(|(at, _)| at)).collect()
}

/// Who explains the bad pairs.
pub(crate) fn blamed(facts: &Facts, judged: &[Judged]) -> (Names, Vec<Blamed>) {
    let names = Names::of(facts);
    let blamed = cover(&names.standings, &trials(facts, judged), &told(facts));
    (names, blamed)
}

/// All suspects for the report.
pub(crate) fn suspects(facts: &Facts, judged: &[Judged], again: &[Judged]) -> Vec<BatchSuspectView> {
    let (names, blamed) = blamed(facts, judged);
    let mut views: Vec<BatchSuspectView> = of_nodes(facts);
    for one in blamed.iter().take(SUSPECTS_MAX) {
        views.push(view(facts, &names, one, judged, again));
    }
    for incast in facts.incasts.iter().filter(|incast| incast.status == Severity::Fail) {
        if views.iter().any(|view| view.names.iter().any(|name| name.starts_with(&incast.target))) {
            continue;
        }
        views.push(BatchSuspectView {
            names: vec![format!("{} as the receiver of an incast", plain(&incast.target))],
            status: Severity::Fail,
            text: format!("it does not keep to the limits while {} send to it", incast.sources.len()),
            evidence: incast.text.clone(),
            next_step: "See PFC, ECN and buffers of its switch port, and its own: rdmascope probe --incast shows each source.".to_owned(),
        });
    }
    views
}

/// What nodes say of themselves that is about no single port; their ports are told of with it.
fn of_nodes(facts: &Facts) -> Vec<BatchSuspectView> {
    let view = |(node, told): (&String, &Vec<Told>)| BatchSuspectView {
        names: vec![format!("node {}", plain(node))],
        status: Severity::Fail,
        text: "its own checks fail".to_owned(),
        evidence: told.iter().map(|told| told.text.clone()).collect(),
        next_step: told.first().map(|told| told.next_step.clone()).unwrap_or_default(),
    };
    facts.told_of_nodes.iter().map(view).collect()
}

fn view(
    facts: &Facts,
    names: &Names,
    blamed: &Blamed,
    judged: &[Judged],
    again: &[Judged],
) -> BatchSuspectView {
    let of = |part: Part, source, target| part.holds(&names.standings, source, target);
    let own = |source, target| blamed.parts.first().is_some_and(|part| of(*part, source, target));
    let mut evidence: Vec<String> = Vec::new();
    let mut next_step = String::new();
    if let (true, Some(Part::Endpoint(at))) = (blamed.told, blamed.parts.first()) {
        for told in facts.told.get(at).into_iter().flatten() {
            evidence.push(told.text.clone());
            if next_step.is_empty() {
                next_step.clone_from(&told.next_step);
            }
        }
        let node = facts.at(*at).map(|endpoint| endpoint.node.as_str());
        let of_node = node.and_then(|node| facts.told_of_nodes.get(node));
        if let (true, Some(told)) = (evidence.is_empty(), of_node.and_then(|told| told.first())) {
            evidence.push(told.text.clone());
            next_step.clone_from(&told.next_step);
        }
    }
    let bad = facts
        .pairs
        .iter()
        .zip(judged)
        .filter(|(pair, judged)| matches!(judged, Judged::Bad(_)) && own(pair.source, pair.target));
    let (mut counts, mut limits): (BTreeMap<String, usize>, BTreeMap<Limit, usize>) = Default::default();
    let mut lines = Vec::new();
    for (pair, judged) in bad {
        let Judged::Bad(misses) = judged else { continue };
        let what = match misses.first() {
            Some(miss) => miss.limit.name().to_owned(),
            None => format!("failed: {}", pair.reason.as_deref().unwrap_or("unknown")),
        };
        misses.iter().for_each(|miss| *limits.entry(miss.limit).or_default() += 1);
        *counts.entry(format!("{} {what}", pair.metric)).or_default() += 1;
        if lines.len() < PAIRS_SHOWN {
            lines.push(line(facts, pair, misses));
        }
        let reason = pair.reason.as_ref().and_then(|id| facts.reasons.get(id));
        if let (true, Some(reason)) = (next_step.is_empty(), reason) {
            next_step.clone_from(&reason.next_step);
        }
    }
    evidence.extend(counts.iter().map(|(what, count)| format!("{what}: {count} pairs")));
    evidence.extend(lines);
    let repeated = alone(facts, names, blamed, again, &mut evidence);
    if next_step.is_empty() {
        next_step = step(blamed, &limits).to_owned();
    }
    let once = matches!(blamed.parts.first(), Some(Part::Pair(..))) && repeated == Some(false);
    let text = match (blamed.told, blamed.explains, once) {
        (true, 0, _) => "its node says that something is wrong with it".to_owned(),
        (true, bad, _) => format!("its node says so, and {bad} of its {} pairs are bad", blamed.tested),
        (false, bad, false) => format!("{bad} of its {} tested pairs are bad", blamed.tested),
        (false, bad, true) => format!("{bad} of its {} pairs were bad, and fine alone", blamed.tested),
    };
    BatchSuspectView {
        names: blamed.parts.iter().map(|part| names.part(facts, *part)).collect(),
        // Bad once, and fine with nothing beside it: worth a look, and not a broken part.
        status: if once { Severity::Warn } else { Severity::Fail },
        text,
        evidence,
        next_step: plain(&next_step),
    }
}

fn line(facts: &Facts, pair: &super::facts::Pair, misses: &[rdmascope_localise::batch::Miss]) -> String {
    let ends = format!("{} -> {}", plain(facts.name(pair.source)), plain(facts.name(pair.target)));
    let why: Vec<_> = misses.iter().map(miss).collect();
    let failed = || {
        let words = pair.reason.as_ref().and_then(|id| facts.reasons.get(id));
        format!("failed: {}", words.map_or("cause unknown".to_owned(), |words| plain(&words.text)))
    };
    format!("{ends}: {}", if why.is_empty() { failed() } else { why.join(", ") })
}

/// How its pairs came out alone: whether any was bad again, `None` where none was measured.
fn alone(
    facts: &Facts,
    names: &Names,
    blamed: &Blamed,
    again: &[Judged],
    evidence: &mut Vec<String>,
) -> Option<bool> {
    let holds = |pair: &super::facts::Pair| {
        blamed.parts.first().is_some_and(|part| part.holds(&names.standings, pair.source, pair.target))
    };
    let tested = || facts.alone.iter().zip(again).filter(|(pair, j)| holds(pair) && **j != Judged::NotTested);
    let (all, bad) = (tested().count(), tested().filter(|(_, j)| matches!(j, Judged::Bad(_))).count());
    if all == 0 {
        return None;
    }
    evidence.push(match bad {
        0 => format!("alone, with nothing beside it: all {all} fine; it suffers beside others only"),
        bad => format!("alone, with nothing beside it: {bad} of {all} bad again"),
    });
    Some(bad > 0)
}

/// What to do where neither a node nor a failed probe says it.
fn step(blamed: &Blamed, limits: &BTreeMap<Limit, usize>) -> &'static str {
    let slow = limits.keys().any(|limit| matches!(limit, Limit::Goodput | Limit::GoodputOfBatch));
    match blamed.parts.first() {
        Some(Part::Batch) => {
            "Nearly all pairs miss the same: see what they share (MTU and flow control of the fabric), and whether the preset fits these ports."
        }
        Some(Part::Leaf(_)) => "See the switch: its configuration, its load, and errors on all of its ports.",
        Some(Part::Uplinks(_)) => "See the uplinks: errors, rates, and how many of them are up.",
        Some(Part::Pair(..)) => {
            "See it step by step: rdmascope probe A B --full --drained; then the links between the two."
        }
        _ if slow => {
            "Compare PCI Express width and speed, NUMA node, MTU and firmware with a good port; then the cable and the switch port's errors."
        }
        _ => {
            "Compare power saving, interrupts and firmware with a good port; then the cable and the switch port's errors."
        }
    }
}

/// The names of suspects in one line.
pub(crate) fn in_short(views: &[BatchSuspectView]) -> String {
    let names: Vec<String> = views.iter().filter_map(|view| view.names.first().cloned()).collect();
    some(&names, 3)
}
