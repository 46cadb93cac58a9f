//! One run: a warmed-up cluster, a fault, and what is told of it until everything is named or the time is over.

use super::clusterkit;
use super::file::Suite;
use super::inject::{Fault, draw};
use super::kind::{About, At, Kind, Watch};
use super::score::{Outcome, Scores};
use crate::net::{Layout, Net, Parameters};
use crate::random::{Random, mix};
use crate::{Cluster, Harm, Pinging};
use rdmascope_control::coordinator::Settings;
use rdmascope_link::FindingBrief;
use rdmascope_model::Wall;
use std::collections::VecDeque;
use std::time::Duration;

/// Largest cluster that is simulated packet by packet.
pub const PACKETS_MAX: usize = 64;
/// What is told is looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After everything was named exactly it goes on for so long: it may turn out otherwise.
const SETTLES: Duration = Duration::from_secs(30);
/// A run takes at least so long.
const SHORT: Duration = Duration::from_secs(90);
/// A drift is watched for so long.
const DRIFT: Duration = Duration::from_secs(1_200);
/// The other tool looks so long after the beginning, nanoseconds.
const KIT_AFTER_NS: u64 = 10_000_000_000;
/// A killed agent of a rolling restart is back after this.
const RESTARTS_WITHIN: Duration = Duration::from_millis(1_500);

/// A cluster in which all pairs were pinged and nothing is broken: a small one packet by packet, a large one by window.
pub(crate) fn warm(layout: &Layout, parameters: &Parameters, seed: u64) -> Cluster {
    let small = layout.nodes * layout.rails <= PACKETS_MAX;
    warm_by(if small { Pinging::ByPacket } else { Pinging::ByWindow }, layout, parameters, seed)
}

fn warm_by(pinging: Pinging, layout: &Layout, parameters: &Parameters, seed: u64) -> Cluster {
    let net = Net::new(layout, parameters, seed);
    let mut cluster = Cluster::over(net, seed, Settings::default(), pinging);
    cluster.run_for(Duration::from_secs(5));
    cluster.run_for(coverage(&cluster) + Duration::from_secs(30));
    cluster
}

/// In this time pings cover all pairs.
fn coverage(cluster: &Cluster) -> Duration {
    cluster.coordinator().coverage().unwrap_or_default()
}

/// What is done in the course of a run.
enum Deed {
    Tell(usize, FindingBrief),
    Kill(usize),
    Start(usize),
}

/// A run under way.
struct Run<'a> {
    cluster: Cluster,
    kind: &'a Kind,
    random: Random,
    /// When the fault began.
    onset: Wall,
    faults: Vec<Fault>,
    deeds: VecDeque<(Wall, Deed)>,
    scores: Scores,
}

/// Runs a kind from a warm cluster on; all that is left to chance follows from the seed.
pub(crate) fn run(base: &Cluster, kind: &Kind, suite: &Suite, seed: u64) -> Outcome {
    let mut cluster = base.fork(seed);
    let mut random = Random::new(mix(seed));
    cluster.run_for(Duration::from_millis(random.below(5_000)));
    let onset = cluster.now().wall;
    let faults = cluster.with_net(|net| draw(kind, &suite.kinds, net, &mut random)).unwrap_or_default();
    let retests = cluster.fabric().borrow().history().len();
    let expected = faults.iter().map(|fault| fault.expected.clone()).collect();
    let scores = Scores::new(expected, onset);
    let mut run = Run { cluster, kind, random, onset, faults, deeds: VecDeque::new(), scores };
    let kit = run.begin();
    run.watch();
    let outcome = run.end(seed);
    Outcome { kit, retests: outcome.retests - retests as u64, ..outcome }
}

impl Run<'_> {
    /// Breaks things; what the other tool makes of it.
    fn begin(&mut self) -> super::score::Kit {
        let now = self.cluster.now().mono;
        for fault in self.faults.clone() {
            let harm = Harm { since: now.0, ..fault.harm };
            self.cluster.with_net(|net| {
                if let Some(spot) = fault.spot {
                    net.add_fault(spot, harm);
                }
                if let (At::StarvedHost, Some(node)) = (fault.at, fault.node) {
                    net.starve(node, now.0, fault.stolen);
                }
            });
            match (fault.at, fault.node, fault.end) {
                (At::PortDown, _, Some(end)) => self.cluster.end_down(end),
                (At::PowerOff, Some(node), _) => self.cluster.lose_power(node),
                _ => {}
            }
            self.told_later(&fault);
        }
        if let [first, second] = &self.faults[..]
            && self.kind.at == At::DuplicateAddress
            && let (Some(first), Some(second)) = (first.end, second.end)
        {
            self.cluster.share_address(first, second);
        }
        self.begin_nothing();
        self.ask_kit(now.0 + KIT_AFTER_NS)
    }

    /// What is no fault.
    fn begin_nothing(&mut self) {
        let nodes = self.cluster.nodes();
        let random = &mut self.random;
        let node = random.below(nodes as u64) as usize;
        match self.kind.at {
            At::Incast => {
                let members: Vec<_> = (0..(nodes / 2).min(8)).map(|at| (node + at) % nodes).collect();
                let duty = self.kind.duty;
                self.cluster.with_net(|net| net.add_incast(&members, duty));
            }
            At::ClockStep => {
                let step = random.between(self.kind.step_s) * 1e3;
                self.cluster.set_clock(node, step as i64);
            }
            At::AgentKilled => self.cluster.kill_agent(node),
            At::AgentsRestart => {
                for at in 0..nodes {
                    let begins = self.onset.0 + at as u64 * 60_000 / nodes as u64;
                    self.deeds.push_back((Wall(begins), Deed::Kill(at)));
                    let back = begins + RESTARTS_WITHIN.as_millis() as u64;
                    self.deeds.push_back((Wall(back), Deed::Start(at)));
                }
                self.deeds.make_contiguous().sort_by_key(|(at, _)| *at);
            }
            _ => {}
        }
    }

    /// What the node finds, some time after it began: settings are read once a minute, a port's state at once.
    fn told_later(&mut self, fault: &Fault) {
        let Some(row) = &self.kind.finding else { return };
        let (Some(node), Some(end)) = (fault.node, fault.end) else { return };
        let after = if fault.at == At::PortDown { 1_000 } else { 1_000 + self.random.below(30_000) };
        let rail = self.cluster.rail(end);
        let subject = match row.subject {
            About::Port => format!("sim{rail}/1"),
            About::Netdev => format!("netdev eth{rail}"),
        };
        let brief = FindingBrief {
            id: row.id.clone(),
            status: row.status.into(),
            subject,
            summary: row.summary.clone(),
            cause: String::new(),
            next_step: "see the runbook".to_owned(),
            evidence: Vec::new(),
            settling: false,
            since: self.onset,
            latched: false,
        };
        self.deeds.push_back((Wall(self.onset.0 + after), Deed::Tell(node, brief)));
    }

    fn ask_kit(&mut self, at: u64) -> super::score::Kit {
        let mut random = Random::new(self.random.draw());
        let faults = &self.faults;
        let verdict = self.cluster.with_net(|net| {
            let verdict = clusterkit::judge(net, at, &mut random);
            super::score::Kit::of(&verdict, faults, net)
        });
        verdict.unwrap_or_default()
    }

    fn limit(&self) -> Duration {
        match self.kind.watch {
            Watch::Short => SHORT,
            Watch::Coverage => SHORT + coverage(&self.cluster),
            Watch::Drift => DRIFT,
        }
    }

    fn watch(&mut self) {
        let limit = self.limit();
        let mut exact_since = None;
        loop {
            self.cluster.run_for(LOOK_EVERY);
            let now = self.cluster.now().wall;
            self.do_what_is_due(now);
            let exact = self.scores.look(&self.cluster);
            exact_since = exact.then(|| exact_since.unwrap_or(now));
            let settled = exact_since.is_some_and(|since| now.since(since) >= SETTLES);
            if now.since(self.onset) >= limit || (settled && !self.faults.is_empty()) {
                return;
            }
        }
    }

    fn do_what_is_due(&mut self, now: Wall) {
        while self.deeds.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, deed)) = self.deeds.pop_front() else { return };
            match deed {
                Deed::Tell(node, brief) => self.cluster.tell_findings(node, vec![brief]),
                Deed::Kill(node) => self.cluster.kill_agent(node),
                Deed::Start(node) => self.cluster.start_agent(node),
            }
        }
    }

    fn end(self, seed: u64) -> Outcome {
        let broken: Vec<_> = self.faults.iter().map(Fault::in_words).collect();
        let seconds = self.cluster.now().wall.since(self.onset).as_secs_f64();
        self.scores.end(&self.cluster, &self.kind.name, seed, seconds, broken.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::text;
    use super::*;

    #[test]
    fn by_window_and_by_packet_the_same_is_named_at_32_endpoints() {
        let suite = Suite::parse(text()).unwrap();
        let shape = &suite.sizes[1].shapes[0];
        let bases =
            [Pinging::ByPacket, Pinging::ByWindow].map(|pinging| warm_by(pinging, shape, &suite.fabric, 9));
        for name in ["endpoint dead", "endpoint loses 20 %", "leaf loses", "spine loses", "quiet fabric"] {
            let kind = suite.kinds.iter().find(|kind| kind.name == name).unwrap();
            let [packet, window] = [&bases[0], &bases[1]].map(|base| {
                let outcome = run(base, &Kind { watch: Watch::Short, ..kind.clone() }, &suite, 21);
                let exact: Vec<_> = outcome.faults.iter().map(|f| (f.expected.clone(), f.exact)).collect();
                let broken = outcome.broken.clone();
                (exact, broken, outcome.told.is_empty(), outcome)
            });
            assert_eq!(packet.1, window.1, "the same seed breaks the same place");
            let same = (&packet.0, packet.2) == (&window.0, window.2);
            assert!(same, "{name}: by packet {:?}, by window {:?}", packet.3, window.3);
            let pings = [packet.3.pings, window.3.pings];
            assert!(pings.iter().all(|pings| *pings > 500), "{name}: {pings:?}");
        }
    }
}
