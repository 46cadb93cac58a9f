//! What a sweep keeps of each pair that is no figure of the matrix: the figures, or why there are none; and which pairs it left out.

use super::lease::{CellNews, counters};
use super::settle::silence;
use super::sweep::Sweep;
use super::turns::Turns;
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{Cause, Exclusion, Metric, Outcome};
use std::collections::BTreeMap;

/// What a sweep in another class, or with other messages, found of one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What was measured.
    pub metric: Metric,
    /// Source.
    pub source: EndpointIndex,
    /// Target.
    pub target: EndpointIndex,
    /// Nanoseconds or bits per second.
    pub value: Result<u64, Miss>,
    /// 99th percentile of latency, nanoseconds; `None` where there are too few samples, and for bandwidth.
    pub p99_ns: Option<u64>,
    /// Packets that the source sent again; `None` where its driver does not count them.
    pub retransmits: Option<u64>,
}

/// Why a pair has no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// Its probe failed.
    Failed(Cause),
    /// It was not run, for a reason that says nothing about the pair.
    Excluded(Exclusion),
    /// Its stream was given up so as not to hurt a job.
    Aborted,
}

/// Why a sweep has nothing at all to say of a pair that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotRun {
    /// Its turn has not come yet.
    NotYet,
    /// The sweep was ended early.
    Cancelled,
    /// An end failed with everybody, and was tried again in vain.
    GivenUp,
    /// The bytes of the sweep were used up.
    OutOfBytes,
    /// Nobody told anything of it.
    Nothing,
}

/// One pair of a sweep and metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundPair {
    /// What was to be measured.
    pub metric: Metric,
    /// Source.
    pub source: EndpointIndex,
    /// Target.
    pub target: EndpointIndex,
    /// What is known.
    pub found: Result<Found, NotRun>,
}

impl Found {
    /// What a lease, or what is known without one, says of a pair; `None` when that is nothing.
    pub(super) fn of(
        metric: Metric,
        source: EndpointIndex,
        target: EndpointIndex,
        news: &CellNews,
    ) -> Option<Self> {
        let bare = |value| Self { metric, source, target, value, p99_ns: None, retransmits: None };
        match news {
            CellNews::Failed(failure) => Some(bare(Err(Miss::Failed(failure.cause)))),
            CellNews::Excluded(why) => Some(bare(Err(Miss::Excluded(*why)))),
            CellNews::Nothing => None,
            CellNews::Measured(result) => {
                let retransmits = counters(&result.outcome).and_then(|delta| delta.retransmits);
                match (&result.outcome, silence(result)) {
                    (_, Some((failure, _))) => Some(bare(Err(Miss::Failed(failure.cause)))),
                    (Outcome::Latency(stats, _), _) => {
                        Some(Self { p99_ns: stats.p99_ns, retransmits, ..bare(Ok(stats.p50_ns)) })
                    }
                    (Outcome::Bandwidth(stats, _), _) => {
                        Some(Self { retransmits, ..bare(Ok(stats.average_bps)) })
                    }
                    (Outcome::Pings(stats), _) => Some(bare(Ok(stats.network.as_ref()?.p50_ns))),
                    (Outcome::Aborted(..), _) => Some(Self { retransmits, ..bare(Err(Miss::Aborted)) }),
                    _ => None,
                }
            }
        }
    }
}

impl Sweep {
    /// Every ordered pair that belongs to it, for each metric, with what it found or why it did not look; nothing of a sweep whose figures
    /// are in the matrix.
    #[must_use]
    pub fn pairs(&self) -> Vec<FoundPair> {
        if !self.keeps {
            return Vec::new();
        }
        let mut known: BTreeMap<(Metric, EndpointIndex, EndpointIndex), &Found> = BTreeMap::new();
        for found in &self.found {
            known.insert((found.metric, found.source, found.target), found);
        }
        let mut pairs = Vec::new();
        let turns = Turns::new(&self.order.seats, &self.order.scheme, 1);
        for &metric in &self.metrics {
            turns.for_each_pair(|a, b| {
                let [a, b] = [a, b].map(|place| self.order.seats[place as usize].index);
                for (source, target) in [(a, b), (b, a)] {
                    let found = known.get(&(metric, source, target)).map(|found| **found);
                    let found = found.ok_or_else(|| self.not_run(source, target));
                    pairs.push(FoundPair { metric, source, target, found });
                }
            });
        }
        pairs
    }

    fn not_run(&self, source: EndpointIndex, target: EndpointIndex) -> NotRun {
        if self.given_up.contains(&source) || self.given_up.contains(&target) {
            NotRun::GivenUp
        } else if self.cancelled {
            NotRun::Cancelled
        } else if self.out_of_bytes {
            NotRun::OutOfBytes
        } else if self.finished_at.is_none() {
            NotRun::NotYet
        } else {
            NotRun::Nothing
        }
    }
}
