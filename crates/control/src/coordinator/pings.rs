//! What agents tell of their pings: the matrix's third layer, and in which direction pings were lost.

use super::settings::DEAD_AFTER;
use super::{Action, Coordinator, Probed};
use rdmascope_link::PingReport;
use rdmascope_localise::{EndpointIndex, Measured, PINGS_OF_A_SIZE_MAX, PingFigures, ping_failure};
use rdmascope_model::{Heard, Metric, Mono, Now, Wall};
use std::collections::BTreeMap;
use std::time::Duration;

/// An agent holds a batch back for 5 s at most, and a connection that holds it up for longer is dead: an older time comes from a
/// clock that is wrong.
const TOLD_WITHIN: Duration = Duration::from_secs(5 + DEAD_AFTER.as_secs());
/// What a responder heard may come before the prober's report; it is kept for one to two times as long. At most one batch of each
/// pair: 4,096 endpoints at 10 pings a second in batches of 9 make 140,000 entries of 40 bytes.
const HEARD_FOR: Duration = TOLD_WITHIN;

/// Source and target.
pub(super) type Pair = (EndpointIndex, EndpointIndex);

/// A batch without an answer whose direction nobody has told yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unexplained {
    batch: u32,
    at: Wall,
    figures: PingFigures,
}

/// What a responder heard of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeardBatch {
    batch: u32,
    small: u32,
    large: u32,
}

/// The two halves of the news of one batch, until they meet.
#[derive(Clone, Debug, Default)]
pub(super) struct PingNews {
    /// At most one for each pair.
    pub(super) unexplained: BTreeMap<Pair, Unexplained>,
    pub(super) heard: BTreeMap<Pair, HeardBatch>,
    heard_before: BTreeMap<Pair, HeardBatch>,
    turned_at: Mono,
}

impl PingNews {
    /// Forgets what was heard too long ago.
    fn turn(&mut self, now: Mono) {
        if now.since(self.turned_at) >= HEARD_FOR {
            self.turned_at = now;
            self.heard_before = std::mem::take(&mut self.heard);
        }
    }

    fn heard_of(&self, pair: Pair, batch: u32) -> Option<HeardBatch> {
        let newest = self.heard.get(&pair).into_iter().chain(self.heard_before.get(&pair));
        newest.copied().find(|heard| heard.batch == batch)
    }
}

impl Coordinator {
    /// Takes what a node's agent tells of its own pings and of those that it heard.
    pub(super) fn pings(&mut self, node: &str, reports: Vec<PingReport>, heard: Vec<Heard>, now: Now) {
        self.ping_news.turn(now.mono);
        for report in reports.iter().filter(|report| report.local.node == node) {
            self.ping_report(report, now);
        }
        for heard in heard.iter().filter(|heard| heard.local.node == node) {
            self.heard(heard);
        }
    }

    fn ping_report(&mut self, report: &PingReport, now: Now) {
        let ends = [&report.local, &report.peer].map(|name| self.matrix.find(name));
        let [Some(source), Some(target)] = ends else { return };
        let mut figures = PingFigures::from(&report.stats);
        let most = figures.small.sent.max(figures.large.sent);
        if source == target || most == 0 || most > PINGS_OF_A_SIZE_MAX {
            return; // No agent of ours sends such a batch.
        }
        let recently = Wall(now.wall.0.saturating_sub(TOLD_WITHIN.as_secs() * 1_000));
        let trusted = (recently..=now.wall).contains(&report.measured_at);
        let at = if trusted { report.measured_at } else { now.wall };
        let (pair, batch) = ((source, target), report.stats.batch);
        if figures.directions_unknown()
            && let Some(heard) = self.ping_news.heard_of(pair, batch)
        {
            figures = figures.with_heard(heard.small, heard.large);
        }
        self.ping_news.unexplained.remove(&pair);
        let Some(failure) = ping_failure(&figures) else {
            if self.matrix.record(source, target, at, &Measured::Ping(figures)) {
                self.outbox.push_back(Action::Probed(Probed::Pings));
            }
            self.pinged_in_pass(source, target, false, now);
            return;
        };
        // That the peer's agent is gone, or its port is down, says more than that nothing came back.
        let known = self.known_failure(source, target);
        let explained = known.is_some() || !figures.directions_unknown();
        let failure = known.unwrap_or(failure);
        let cause = failure.cause;
        self.pinged_in_pass(source, target, true, now);
        if self.matrix.fail_pings(source, target, at, failure, &figures) {
            self.outbox.push_back(Action::Probed(Probed::Failed(Metric::Ping, cause)));
            if !explained {
                self.ping_news.unexplained.insert(pair, Unexplained { batch, at, figures });
            }
        }
    }

    fn heard(&mut self, heard: &Heard) {
        let ends = [&heard.peer, &heard.local].map(|name| self.matrix.find(name));
        let [Some(source), Some(target)] = ends else { return };
        let pair = (source, target);
        let waiting = self.ping_news.unexplained.get(&pair).copied();
        match waiting.filter(|unexplained| unexplained.batch == heard.batch) {
            Some(Unexplained { at, figures, .. }) => {
                self.ping_news.unexplained.remove(&pair);
                let figures = figures.with_heard(heard.small, heard.large);
                if let Some(failure) = ping_failure(&figures) {
                    self.matrix.explain_pings(source, target, at, failure, &figures);
                }
            }
            None => {
                let news = HeardBatch { batch: heard.batch, small: heard.small, large: heard.large };
                self.ping_news.heard.insert(pair, news);
            }
        }
    }
}
