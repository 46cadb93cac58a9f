//! What must hold at every moment of every run, as a program says it.

use rdmascope_control::coordinator::{Coordinator, EventRow, RowKind};
use rdmascope_localise::{CLOCK_AHEAD_MAX, CellState};
use rdmascope_model::{Metric, Mono};
use rdmascope_probe::limits::LEASES_PER_ENDPOINT_MAX;
use rdmascope_sim::Cluster;
use std::collections::{BTreeMap, BTreeSet};

/// Events that an agent keeps (`control`, `journal.rs`), and that a coordinator holds in memory (`health.rs`).
const WAITING_MAX: usize = 1_000;
const HELD_MAX: usize = 5_000;

pub(crate) const CELLS: [Metric; 2] = [Metric::Latency, Metric::Bandwidth];

/// Everything that is wrong now, in words; nothing is as it should be.
pub(crate) fn complaints(c: &Cluster, nodes: usize, coordinator_runs: bool) -> Vec<String> {
    let mut wrong = c.wrong().to_vec();
    events(c, coordinator_runs, &mut wrong);
    bounds(c, nodes, &mut wrong);
    let own = coordinator_runs.then(|| c.coordinator());
    for coordinator in own.into_iter().chain(c.rival()) {
        freshness(c, coordinator, nodes, &mut wrong);
        if coordinator.leases_running() > nodes {
            wrong.push(format!("{} leases run among {nodes} endpoints", coordinator.leases_running()));
        }
        if coordinator.health().events().count() > HELD_MAX {
            wrong.push("the history in memory has no bound".to_owned());
        }
    }
    wrong
}

fn named(row: &EventRow) -> Option<(&str, &str)> {
    matches!(row.kind, RowKind::Node(_)).then_some((row.node.as_str(), row.id.as_str()))
}

/// What agents were told to forget is on a disk, nothing is there twice, and a coordinator knows what is on its disk.
fn events(c: &Cluster, coordinator_runs: bool, wrong: &mut Vec<String>) {
    let mut kept = BTreeSet::new();
    for disk in c.disks() {
        let mut own = BTreeSet::new();
        for (node, id) in disk.rows().iter().filter_map(named) {
            if !own.insert((node, id)) {
                wrong.push(format!("{id} of {node} is twice on a disk"));
            }
        }
        kept.extend(own);
    }
    for (node, run, number) in c.safe_events() {
        let id = Cluster::event_id(*run, *number);
        if !kept.contains(&(node.as_str(), id.as_str())) {
            wrong.push(format!("{id} of {node} was acknowledged and is on no disk"));
        }
    }
    if coordinator_runs {
        let (coordinator, disk) = (c.coordinator(), c.disk());
        let held: Vec<_> = coordinator.health().events().filter_map(named).collect();
        let distinct: BTreeSet<_> = held.iter().copied().collect();
        if distinct.len() != held.len() {
            wrong.push("an event is twice in the history".to_owned());
        }
        for row in disk.iter().flat_map(|disk| disk.rows()).filter_map(named) {
            if !distinct.contains(&row) {
                wrong.push(format!("{row:?} is on the disk, and its coordinator does not know it"));
            }
        }
    }
}

fn bounds(c: &Cluster, nodes: usize, wrong: &mut Vec<String>) {
    for host in 0..nodes {
        let Some(agent) = c.agent(host) else { continue };
        if agent.probes() > LEASES_PER_ENDPOINT_MAX || agent.events_waiting() > WAITING_MAX {
            let (probes, waiting) = (agent.probes(), agent.events_waiting());
            wrong.push(format!("node {host} holds {probes} leases and {waiting} events"));
        }
    }
    let held = c.fabric().borrow().held();
    if held > nodes * LEASES_PER_ENDPOINT_MAX {
        wrong.push(format!("{held} probes are held on the fabric"));
    }
}

/// A cell is fresh only when its pair was measured so shortly ago, by the clock that nobody sets.
fn freshness(c: &Cluster, coordinator: &Coordinator, nodes: usize, wrong: &mut Vec<String>) {
    let (now, fresh_for) = (c.now(), coordinator.fresh_for());
    let mut last: BTreeMap<(Metric, String, String), Mono> = BTreeMap::new();
    let fabric = c.fabric();
    let fabric = fabric.borrow();
    for e in fabric.history().iter().filter(|e| e.began <= now.mono) {
        let Some(metric) = e.spec.metric() else { continue };
        let ended = e.ends.min(now.mono);
        let mut pairs = vec![(metric, e.source.to_string(), e.target.to_string())];
        if e.spec.fills_both() {
            pairs.push((metric, e.target.to_string(), e.source.to_string()));
        }
        for pair in pairs {
            let known = last.entry(pair).or_default();
            *known = ended.max(*known);
        }
    }
    for (a, b) in (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b) {
        let names = [a, b].map(|host| c.endpoint(host));
        let [Some(from), Some(to)] = names.each_ref().map(|name| coordinator.matrix().find(name)) else {
            continue;
        };
        for metric in CELLS {
            let cell = coordinator.matrix().cell(metric, from, to);
            if cell.at().is_some_and(|at| at > now.wall) {
                wrong.push(format!("{metric} {a} to {b} is of a time to come"));
            }
            let measured = last.get(&(metric, names[0].to_string(), names[1].to_string()));
            let age = measured.map(|at| now.mono.since(*at));
            let may = age.is_some_and(|age| age <= fresh_for + CLOCK_AHEAD_MAX);
            if cell.state(now.wall, fresh_for) == CellState::Fresh && !may {
                wrong.push(format!("{metric} {a} to {b} is fresh, and was last measured {age:?} ago"));
            }
        }
    }
}
