//! A week in which nothing is broken: what is told in it is a false alarm.

use super::file::Suite;
use super::run::warm;
use crate::Cluster;
use crate::random::{Random, mix};
use rdmascope_model::Wall;
use std::time::Duration;

const HOUR_MS: u64 = 3_600_000;
/// A restarted agent is back after this, milliseconds.
const BACK_AFTER_MS: u64 = 1_500;

/// A part of the week, in a cluster of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietPart {
    /// For so long.
    pub hours: u64,
    /// Decides what is left to chance.
    pub seed: u64,
}

/// What happened in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuietOutcome {
    /// Endpoints.
    pub endpoints: usize,
    /// Hours.
    pub hours: f64,
    /// Pings of all endpoints.
    pub pings: u64,
    /// Incidents that were opened, in words.
    pub alarms: Vec<String>,
    /// Probes on request.
    pub retests: u64,
    /// Agents that restarted.
    pub restarts: u64,
}

impl QuietPart {
    /// A week in as many parts as there are processors to do them.
    #[must_use]
    pub fn all(suite: &Suite, parts: u64, seed: u64) -> Vec<Self> {
        let parts = parts.max(1);
        let hours = |at: u64| suite.quiet.hours * (at + 1) / parts - suite.quiet.hours * at / parts;
        (0..parts)
            .map(|at| Self { hours: hours(at), seed: mix(seed ^ mix(at)) })
            .filter(|p| p.hours > 0)
            .collect()
    }

    /// Lets the time go by.
    #[must_use]
    pub fn run(&self, suite: &Suite) -> QuietOutcome {
        let mut cluster = warm(&suite.quiet.shape, &suite.fabric, self.seed);
        let (began, before) = (cluster.now().wall, cluster.pinged().sent);
        let retests = cluster.fabric().borrow().history().len() as u64;
        let known = cluster.coordinator().incidents().len();
        let mut random = Random::new(self.seed);
        let lasts = self.hours * HOUR_MS;
        let nodes = cluster.nodes();
        let share = suite.quiet.restarts_per_node * self.hours;
        let restarts = nodes as u64 * share / suite.quiet.hours.max(1);
        let mut deeds: Vec<(u64, usize)> =
            (0..restarts).map(|at| (random.below(lasts), at as usize % nodes)).collect();
        deeds.sort_unstable();
        for (at, node) in deeds {
            run_until(&mut cluster, began, at);
            cluster.kill_agent(node);
            run_until(&mut cluster, began, at + BACK_AFTER_MS);
            cluster.start_agent(node);
        }
        run_until(&mut cluster, began, lasts);
        let incidents = cluster.coordinator().incidents();
        let opened = incidents.iter().filter(|incident| incident.opened_at.is_some());
        QuietOutcome {
            endpoints: cluster.ends(),
            hours: self.hours as f64,
            pings: cluster.pinged().sent - before,
            alarms: opened.skip(known).map(|i| format!("{}: {}", i.title, i.evidence.join("; "))).collect(),
            retests: cluster.fabric().borrow().history().len() as u64 - retests,
            restarts,
        }
    }
}

fn run_until(cluster: &mut Cluster, began: Wall, at_ms: u64) {
    let left = at_ms.saturating_sub(cluster.now().wall.since(began).as_millis() as u64);
    cluster.run_for(Duration::from_millis(left));
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::text;
    use super::*;

    #[test]
    fn the_parts_of_a_week_are_a_week() {
        let suite = Suite::parse(text()).unwrap();
        for parts in [1, 2, 5] {
            let hours: u64 = QuietPart::all(&suite, parts, 1).iter().map(|part| part.hours).sum();
            assert_eq!(hours, 168, "{parts} parts");
        }
    }
}
