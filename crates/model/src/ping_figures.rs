//! What a batch of pings says in short: the figures that the matrix keeps of a pair, and that agents tell by numbers.

use crate::{Delays, LabelResult, PingCounts, PingStats, StampClock};

/// Pings of one size in one batch that figures can count: a cell of the matrix, and an agent that tells by numbers, count in single bytes
/// of which the largest stands for "not known".
pub const PINGS_OF_A_SIZE_MAX: u32 = 254;

/// Median and largest of a delay, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Median.
    pub p50_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

impl From<Delays> for Spread {
    fn from(delays: Delays) -> Self {
        Self { p50_ns: delays.p50_ns, max_ns: delays.max_ns }
    }
}

/// The last batch of pings of one pair. There is no 99th percentile: it takes 300 samples, and a batch has 60 at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingFigures {
    /// Which clock stamped the pings.
    pub clock: StampClock,
    /// Small pings (64 bytes).
    pub small: PingCounts,
    /// Pings of the full path MTU.
    pub large: PingCounts,
    /// Network round trip of small pings, without the time inside both hosts. `None` when none was answered with usable stamps.
    pub network: Option<Spread>,
    /// Median of the same of large pings, nanoseconds.
    pub large_p50_ns: Option<u64>,
    /// Time inside the responder's host.
    pub responder: Option<Spread>,
    /// Time inside the prober's host.
    pub prober: Option<Spread>,
    /// Answered pings during which either host took far longer than usual.
    pub host_delayed: u32,
    /// Answered pings without usable stamps.
    pub invalid_stamps: u32,
    /// Pings to, or answers from, a queue pair that the peer no longer has: not loss.
    pub stale: u32,
    /// The path label that lost most, or, where none lost more than the others, the slowest. `None` with one path label only.
    pub worst_label: Option<LabelResult>,
}

impl From<&PingStats> for PingFigures {
    fn from(stats: &PingStats) -> Self {
        Self {
            clock: stats.clock,
            small: stats.small,
            large: stats.large,
            network: stats.network.map(Spread::from),
            large_p50_ns: stats.network_large.map(|delays| delays.p50_ns),
            responder: stats.responder.map(Spread::from),
            prober: stats.prober.map(Spread::from),
            host_delayed: stats.host_delayed,
            invalid_stamps: stats.invalid_stamps,
            stale: stats.stale,
            worst_label: stats.labels.iter().copied().reduce(worse),
        }
    }
}

/// The label that lost the larger share, else the slower one, else the first.
fn worse(one: LabelResult, other: LabelResult) -> LabelResult {
    let lost = |label: LabelResult| u64::from(label.sent.saturating_sub(label.answered));
    // Shares compared by cross-multiplication: no label has sent 0, and if one has, it lost nothing.
    let (a, b) = (lost(one) * u64::from(other.sent), lost(other) * u64::from(one.sent));
    let other_is_worse = b > a || (a == b && other.p50_ns > one.p50_ns);
    if other_is_worse { other } else { one }
}

impl PingFigures {
    /// Pings sent, both sizes.
    #[must_use]
    pub fn sent(&self) -> u32 {
        self.small.sent + self.large.sent
    }

    /// Pings answered in time, both sizes.
    #[must_use]
    pub fn answered(&self) -> u32 {
        self.small.answered + self.large.answered
    }

    /// Pings that got no answer at all, both sizes. What came late or went to an old queue pair is not lost.
    #[must_use]
    pub fn lost(&self) -> u32 {
        let back = self.answered() + self.small.late + self.large.late + self.stale;
        self.sent().saturating_sub(back)
    }

    /// Share of pings that were lost, of those that were answered in time or lost; `None` when there is none of either.
    #[must_use]
    pub fn loss_ratio(&self) -> Option<f64> {
        let judged = self.answered() + self.lost();
        (judged > 0).then(|| f64::from(self.lost()) / f64::from(judged))
    }

    /// Completes the directions of loss by what the responder heard: so many small and large pings.
    #[must_use]
    pub fn with_heard(mut self, small: u32, large: u32) -> Self {
        for (counts, heard) in [(&mut self.small, small), (&mut self.large, large)] {
            if counts.lost_forward.is_none() && counts.lost_backward.is_none() {
                let heard = heard.min(counts.sent);
                counts.lost_forward = Some(counts.sent - heard);
                counts.lost_backward = Some(heard.saturating_sub(counts.answered + counts.late));
            }
        }
        self
    }

    /// It is not known in which direction pings were lost.
    #[must_use]
    pub fn directions_unknown(&self) -> bool {
        [self.small, self.large].iter().any(|c| c.sent > 0 && c.lost_forward.is_none())
    }

    /// The figures in the form in which they came, for keeping. What is not kept of a batch (its number, smallest delays,
    /// how many samples) stands as the nearest thing that is kept; nobody reads it back.
    #[must_use]
    pub fn to_stats(&self) -> PingStats {
        let count = self.answered().max(1);
        let delays = |p50_ns, max_ns| Delays { count, min_ns: p50_ns, p50_ns, p99_ns: None, max_ns };
        PingStats {
            batch: 1,
            clock: self.clock,
            small: self.small,
            large: self.large,
            network: self.network.map(|d| delays(d.p50_ns, d.max_ns)),
            network_large: self.large_p50_ns.map(|p50_ns| delays(p50_ns, p50_ns)),
            responder: self.responder.map(|d| delays(d.p50_ns, d.max_ns)),
            prober: self.prober.map(|d| delays(d.p50_ns, d.max_ns)),
            host_delayed: self.host_delayed,
            invalid_stamps: self.invalid_stamps,
            stale: self.stale,
            labels: self.worst_label.into_iter().collect(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// 40 small and 20 large pings, of which each direction lost one small one.
    pub(crate) fn figures() -> PingFigures {
        let small = PingCounts {
            payload_bytes: 64,
            sent: 40,
            answered: 37,
            lost_forward: Some(1),
            lost_backward: Some(1),
            late: 1,
            duplicate: 2,
            reordered: 3,
        };
        let large = PingCounts {
            payload_bytes: 4_096,
            sent: 20,
            answered: 20,
            lost_forward: Some(0),
            lost_backward: Some(0),
            ..PingCounts::default()
        };
        PingFigures {
            clock: StampClock::Hardware,
            small,
            large,
            network: Some(Spread { p50_ns: 3_000, max_ns: 9_000 }),
            large_p50_ns: Some(5_000),
            responder: Some(Spread { p50_ns: 2_000, max_ns: 30_000 }),
            prober: Some(Spread { p50_ns: 4_000, max_ns: 5_000 }),
            host_delayed: 5,
            invalid_stamps: 6,
            stale: 0,
            worst_label: Some(LabelResult {
                flow_label: 0xF_FFFF,
                sent: 4,
                answered: 2,
                p50_ns: Some(3_500),
            }),
        }
    }

    #[test]
    fn what_came_late_or_went_to_an_old_queue_pair_is_not_lost() {
        let mut f = figures();
        assert_eq!((f.sent(), f.answered(), f.lost()), (60, 57, 2));
        assert!((f.loss_ratio().unwrap() - 2.0 / 59.0).abs() < 1e-12);
        f.stale = 2;
        assert_eq!((f.lost(), f.loss_ratio()), (0, Some(0.0)));
        f.small.answered = 0;
        f.large.answered = 0;
        f.stale = 59;
        assert_eq!(f.loss_ratio(), None, "nothing of it says anything about loss");
    }

    #[test]
    fn the_responder_tells_in_which_direction_pings_were_lost_where_nobody_knew() {
        let silent =
            PingCounts { answered: 0, late: 0, lost_forward: None, lost_backward: None, ..figures().small };
        let f = PingFigures { small: silent, ..figures() };
        assert!(f.directions_unknown());
        let filled = f.with_heard(30, 5);
        assert_eq!((filled.small.lost_forward, filled.small.lost_backward), (Some(10), Some(30)));
        assert_eq!(filled.large, f.large, "that was known already");
        assert!(!filled.directions_unknown());
        let more = f.with_heard(41, 0);
        assert_eq!(more.small.lost_forward, Some(0), "duplicates are no more than was sent");
    }

    #[test]
    fn the_worst_label_lost_most_or_is_the_slowest() {
        let label = |flow_label, sent, answered, p50_ns| LabelResult { flow_label, sent, answered, p50_ns };
        let worst = |labels: &[LabelResult]| {
            let stats = PingStats { labels: labels.to_vec(), ..figures().to_stats() };
            PingFigures::from(&stats).worst_label.map(|label| label.flow_label)
        };
        assert_eq!(worst(&[]), None);
        let (fine, slow) = (label(1, 10, 10, Some(5)), label(2, 10, 10, Some(9)));
        assert_eq!(worst(&[fine, slow, fine]), Some(2));
        let (lossy, lossier) = (label(3, 10, 9, Some(1)), label(4, 5, 4, Some(1)));
        assert_eq!(worst(&[slow, lossy, lossier, fine]), Some(4), "one of five is more than one of ten");
        let silent = label(5, 3, 0, None);
        assert_eq!(worst(&[lossier, silent]), Some(5));
    }
}
