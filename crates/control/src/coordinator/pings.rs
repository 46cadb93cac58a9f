//! What agents tell of their pings: the matrix's third layer, and in which direction pings were lost.

use super::settings::DEAD_AFTER;
use super::{Action, Coordinator, Probed};
use rdmascope_link::{NumberedHeard, NumberedReport, PingReport};
use rdmascope_localise::{EndpointIndex, PINGS_OF_A_SIZE_MAX, PingFigures, ping_failure};
use rdmascope_model::{Heard, Metric, Mono, Now, PackedPings, Wall};
use std::time::Duration;

/// An agent holds a batch back for 5 s at most, and a connection that holds it up for longer is dead: an older time comes from a
/// clock that is wrong.
const TOLD_WITHIN: Duration = Duration::from_secs(5 + DEAD_AFTER.as_secs());
/// What a responder heard may come before the prober's report; it is kept for one to two times as long.
const HEARD_FOR: Duration = TOLD_WITHIN;
/// And at most so many of them, in twice 6 MB: 4,096 endpoints at 10 pings a second in batches of 9 tell of 91,000 in that time. In a mesh
/// that tells of more, of some losses it is not known in which direction they were.
const HEARD_MAX: usize = 1 << 19;

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
    source: EndpointIndex,
    number: u32,
    small: u8,
    large: u8,
}

/// What responders heard, until their probers tell of the same batch; and which batches wait for that.
#[derive(Clone, Debug, Default)]
pub(super) struct PingNews {
    /// By target, in the order in which they came: what one agent heard lies together, and few are ever looked for.
    heard: Vec<Vec<HeardBatch>>,
    heard_before: Vec<Vec<HeardBatch>>,
    count: usize,
    turned_at: Mono,
    /// By source, a bit for each target: of the pair's last batch nobody has told yet in which direction it was lost. Nearly all of what
    /// is heard finds no bit, and so need not look into the matrix.
    unexplained: Vec<Vec<u64>>,
}

/// The list of an endpoint, made now if it has none yet.
fn of<T>(lists: &mut Vec<Vec<T>>, endpoint: EndpointIndex) -> &mut Vec<T> {
    let at = endpoint.0 as usize;
    if lists.len() <= at {
        lists.resize_with(at + 1, Vec::new);
    }
    &mut lists[at]
}

impl PingNews {
    /// Forgets what was heard too long ago.
    fn turn(&mut self, now: Mono) {
        if now.since(self.turned_at) >= HEARD_FOR || self.count >= HEARD_MAX {
            self.turned_at = now;
            self.count = 0;
            // The memory of the older lists becomes that of the newer ones.
            std::mem::swap(&mut self.heard, &mut self.heard_before);
            self.heard.iter_mut().for_each(Vec::clear);
        }
    }

    fn hear(&mut self, target: EndpointIndex, heard: HeardBatch) {
        of(&mut self.heard, target).push(heard);
        self.count += 1;
    }

    fn heard_of(&self, source: EndpointIndex, target: EndpointIndex, number: u32) -> Option<(u32, u32)> {
        let lists =
            [&self.heard, &self.heard_before].into_iter().filter_map(|all| all.get(target.0 as usize));
        let batch = |heard: &&HeardBatch| heard.source == source && heard.number == number;
        let heard = lists.flat_map(|list| list.iter().rev()).find(batch)?;
        Some((heard.small.into(), heard.large.into()))
    }

    /// Whether the pair's last batch waits for what its responder heard.
    fn waits(&self, source: EndpointIndex, target: EndpointIndex) -> bool {
        let bits = self.unexplained.get(source.0 as usize).and_then(|bits| bits.get(target.0 as usize / 64));
        bits.is_some_and(|bits| bits >> (target.0 % 64) & 1 == 1)
    }

    pub(super) fn set_waits(&mut self, source: EndpointIndex, target: EndpointIndex, waits: bool) {
        if waits == self.waits(source, target) {
            return;
        }
        let bits = of(&mut self.unexplained, source);
        let at = target.0 as usize / 64;
        if bits.len() <= at {
            bits.resize(at + 1, 0);
        }
        bits[at] ^= 1 << (target.0 % 64);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.heard.iter().chain(&self.heard_before).all(Vec::is_empty)
    }

    #[cfg(test)]
    pub(super) fn unexplained(&self) -> u32 {
        self.unexplained.iter().flatten().map(|bits| bits.count_ones()).sum()
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
        self.count_answered();
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
        // Which endpoints are the node's own; each name is looked at once.
        let mut own = vec![None; self.matrix.len()];
        for &NumberedReport { local, peer, measured_at, batch: number, figures } in reports {
            if self.is_of(local, node, &mut own) && self.is_known(peer) {
                let (source, target) = (EndpointIndex(local), EndpointIndex(peer));
                self.batch(Batch { source, target, number, measured_at, figures }, now);
            }
        }
        self.count_answered();
        for heard in heard {
            let local = heard.local;
            if self.is_of(local, node, &mut own) && self.is_known(heard.peer) {
                let (source, target) = (EndpointIndex(heard.peer), EndpointIndex(local));
                self.heard(source, target, heard.batch, (heard.small.into(), heard.large.into()));
            }
        }
    }

    fn is_known(&self, number: u32) -> bool {
        (number as usize) < self.matrix.len()
    }

    /// Whether there is such an endpoint and it is the node's; what was found of each is in `own`.
    #[inline]
    fn is_of(&self, number: u32, node: &str, own: &mut [Option<bool>]) -> bool {
        let is = || self.matrix.name(EndpointIndex(number)).node == node;
        own.get_mut(number as usize).is_some_and(|found| *found.get_or_insert_with(is))
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
            && let Some((small, large)) = self.ping_news.heard_of(source, target, number)
        {
            figures = PackedPings::pack(&figures.figures().with_heard(small, large));
        }
        self.pinged_in_pass(source, target, short.answered == 0, now);
        if short.answered > 0 {
            if self.matrix.record_pings(source, target, at, figures) {
                self.ping_news.set_waits(source, target, false);
                self.pings_answered += 1;
                if let Some(p50_ns) = short.network_p50_ns {
                    self.spread(Metric::Ping, source, target, p50_ns as f64 / 1e9);
                }
            }
            return;
        }
        // That the peer's agent is gone, or its port is down, says more than that nothing came back.
        let known = self.known_failure(source, target);
        let (written, cause) = match &known {
            Some(known) => (self.matrix.fail_pings(source, target, at, known, figures), Some(known.cause)),
            None => {
                let failure = ping_failure(&figures.figures());
                let written = self.matrix.record_silence(source, target, at, figures, number);
                (written, failure.map(|failure| failure.cause))
            }
        };
        if let (true, Some(cause)) = (written, cause) {
            let waits = known.is_none() && figures.in_short().directions_unknown;
            self.ping_news.set_waits(source, target, waits);
            self.outbox.push_back(Action::Probed(Probed::Failed(Metric::Ping, cause)));
        }
    }

    /// Counts the batches of one frame that were answered.
    fn count_answered(&mut self) {
        let answered = std::mem::take(&mut self.pings_answered);
        if answered > 0 {
            self.outbox.push_back(Action::Probed(Probed::Pings(answered)));
        }
    }

    fn heard(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        number: u32,
        (small, large): (u32, u32),
    ) {
        let waits = self.ping_news.waits(source, target);
        if waits && self.matrix.explain_silence(source, target, number, (small, large)) {
            return self.ping_news.set_waits(source, target, false);
        }
        let [small, large] = [small, large].map(|count| u8::try_from(count).unwrap_or(u8::MAX));
        self.ping_news.hear(target, HeardBatch { source, number, small, large });
    }
}

fn countable(figures: &PingFigures) -> bool {
    figures.small.sent.max(figures.large.sent) <= PINGS_OF_A_SIZE_MAX
}
