//! What agents tell of their pings: the matrix's third layer, and in which direction pings were lost.

use super::settings::DEAD_AFTER;
use super::{Action, Coordinator, Probed};
use rdmascope_link::{NumberedHeard, NumberedReport, PingReport};
use rdmascope_localise::{EndpointIndex, PINGS_OF_A_SIZE_MAX, PingFigures, ping_failure};
use rdmascope_model::{Heard, Metric, Mono, Now, PackedPings, Wall};
#[expect(
    clippy::disallowed_types,
    reason = "looked up and never gone through; a tree takes five times as long"
)]
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

/// An agent holds a batch back for 5 s at most, and a connection that holds it up for longer is dead: an older time comes from a
/// clock that is wrong.
const TOLD_WITHIN: Duration = Duration::from_secs(5 + DEAD_AFTER.as_secs());
/// What a responder heard may come before the prober's report; it is kept for one to two times as long.
const HEARD_FOR: Duration = TOLD_WITHIN;
/// And at most so many of them, in twice 6 MB: 4,096 endpoints at 10 pings a second in batches of 9 tell of 91,000 in that time. In a mesh
/// that tells of more, of some losses it is not known in which direction they were.
const HEARD_MAX: usize = 1 << 18;

/// A batch as its prober tells it.
#[derive(Clone, Copy, Debug)]
struct Batch {
    source: EndpointIndex,
    target: EndpointIndex,
    number: u32,
    measured_at: Wall,
    figures: PackedPings,
}

/// What a responder heard of a batch.
#[derive(Clone, Copy, Debug)]
struct HeardBatch {
    number: u32,
    small: u8,
    large: u8,
}

/// Source and target in one number.
fn pair(source: EndpointIndex, target: EndpointIndex) -> u64 {
    u64::from(source.0) << 32 | u64::from(target.0)
}

/// Spreads the bits of one number; who could choose numbers that collide could fill the table anyway.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 29;
    }
}

#[expect(clippy::disallowed_types, reason = "as above")]
type Table = HashMap<u64, HeardBatch, BuildHasherDefault<Spread>>;

/// What responders heard, until their probers tell of the same batch.
#[derive(Debug, Default)]
pub(super) struct PingNews {
    heard: Table,
    heard_before: Table,
    turned_at: Mono,
}

impl PingNews {
    /// Forgets what was heard too long ago.
    fn turn(&mut self, now: Mono) {
        if now.since(self.turned_at) >= HEARD_FOR || self.heard.len() >= HEARD_MAX {
            self.turned_at = now;
            // The memory of the older table becomes that of the newer one.
            std::mem::swap(&mut self.heard, &mut self.heard_before);
            self.heard.clear();
        }
    }

    fn heard_of(&self, pair: u64, number: u32) -> Option<(u32, u32)> {
        let newest = self.heard.get(&pair).into_iter().chain(self.heard_before.get(&pair));
        let heard = newest.copied().find(|heard| heard.number == number)?;
        Some((heard.small.into(), heard.large.into()))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.heard.is_empty() && self.heard_before.is_empty()
    }
}

impl Coordinator {
    /// Takes what a node's agent tells of its own pings and of those that it heard.
    pub(super) fn pings(&mut self, node: &str, reports: &[PingReport], heard: &[Heard], now: Now) {
        self.ping_news.turn(now.mono);
        for report in reports.iter().filter(|report| report.local.node == node) {
            let ends = [&report.local, &report.peer].map(|name| self.matrix.find(name));
            let figures = PingFigures::from(&report.stats);
            let (&PingReport { measured_at, .. }, number) = (report, report.stats.batch);
            // No agent of ours sends a batch that cannot be counted.
            if let ([Some(source), Some(target)], true) = (ends, countable(&figures)) {
                let figures = PackedPings::pack(&figures);
                self.batch(Batch { source, target, number, measured_at, figures }, now);
            }
        }
        for heard in heard.iter().filter(|heard| heard.local.node == node) {
            let ends = [&heard.peer, &heard.local].map(|name| self.matrix.find(name));
            if let [Some(source), Some(target)] = ends {
                self.heard(source, target, heard.batch, (heard.small, heard.large));
            }
        }
    }

    /// The same told by numbers.
    pub(super) fn numbered_pings(
        &mut self,
        node: &str,
        reports: &[NumberedReport],
        heard: &[NumberedHeard],
        now: Now,
    ) {
        self.ping_news.turn(now.mono);
        let known = |matrix: &rdmascope_localise::Matrix, number: u32| (number as usize) < matrix.len();
        // All of a frame are the node's own few, one after another.
        let mut own = None;
        for &NumberedReport { local, peer, measured_at, batch: number, figures } in reports {
            if own != Some(local) && (!known(&self.matrix, local) || !self.is_of(local, node)) {
                continue;
            }
            own = Some(local);
            if known(&self.matrix, peer) {
                let (source, target) = (EndpointIndex(local), EndpointIndex(peer));
                self.batch(Batch { source, target, number, measured_at, figures }, now);
            }
        }
        own = None;
        for heard in heard {
            let local = heard.local;
            if own != Some(local) && (!known(&self.matrix, local) || !self.is_of(local, node)) {
                continue;
            }
            own = Some(local);
            if known(&self.matrix, heard.peer) {
                let (source, target) = (EndpointIndex(heard.peer), EndpointIndex(local));
                self.heard(source, target, heard.batch, (heard.small.into(), heard.large.into()));
            }
        }
    }

    fn is_of(&self, number: u32, node: &str) -> bool {
        self.matrix.name(EndpointIndex(number)).node == node
    }

    fn batch(&mut self, batch: Batch, now: Now) {
        let Batch { source, target, number, measured_at, mut figures } = batch;
        let short = figures.in_short();
        if source == target || short.sent == 0 {
            return;
        }
        let recently = Wall(now.wall.0.saturating_sub(TOLD_WITHIN.as_secs() * 1_000));
        let trusted = (recently..=now.wall).contains(&measured_at);
        let at = if trusted { measured_at } else { now.wall };
        if short.directions_unknown
            && let Some((small, large)) = self.ping_news.heard_of(pair(source, target), number)
        {
            figures = PackedPings::pack(&figures.figures().with_heard(small, large));
        }
        if short.answered > 0 {
            if self.matrix.record_pings(source, target, at, figures) {
                self.outbox.push_back(Action::Probed(Probed::Pings));
            }
            return;
        }
        // That the peer's agent is gone, or its port is down, says more than that nothing came back.
        let (written, cause) = match self.known_failure(source, target) {
            Some(known) => (self.matrix.fail(Metric::Ping, source, target, at, &known), Some(known.cause)),
            None => {
                let failure = ping_failure(&figures.figures());
                let written = self.matrix.record_silence(source, target, at, figures, number);
                (written, failure.map(|failure| failure.cause))
            }
        };
        if let (true, Some(cause)) = (written, cause) {
            self.outbox.push_back(Action::Probed(Probed::Failed(Metric::Ping, cause)));
        }
    }

    fn heard(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        number: u32,
        (small, large): (u32, u32),
    ) {
        if !self.matrix.explain_silence(source, target, number, (small, large)) {
            let [small, large] = [small, large].map(|count| u8::try_from(count).unwrap_or(u8::MAX));
            self.ping_news.heard.insert(pair(source, target), HeardBatch { number, small, large });
        }
    }
}

fn countable(figures: &PingFigures) -> bool {
    figures.small.sent.max(figures.large.sent) <= PINGS_OF_A_SIZE_MAX
}
