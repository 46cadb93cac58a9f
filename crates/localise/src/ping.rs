//! What is kept of the last batch of pings of a pair: figures for people, and the row that holds them.

use rdmascope_model::{Delays, LabelResult, PingCounts, PingStats, StampClock, Wall};

/// Payload of a small ping, bytes.
const SMALL_BYTES: u32 = 64;
/// Most pings of one size in one batch: a row counts in single bytes.
pub const PINGS_OF_A_SIZE_MAX: u32 = UNKNOWN as u32 - 1;
/// Stands for "not known" in a count.
const UNKNOWN: u8 = u8::MAX;
/// Stands for "absent" in a delay.
const ABSENT: u32 = u32::MAX;
/// Where the parts of [`PingRow::label`] begin: flow label, clock, pings sent with the label.
const LABEL_MASK: u32 = 0x000F_FFFF;
const CLOCK_BIT: u32 = 1 << 20;
const LABEL_SENT_SHIFT: u32 = 24;

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

/// The figures of one pair in 64 bytes: 4,096 endpoints have 16.8 million pairs, which take 1.07 GB when all ping each other.
/// Counts stop at 254 and delays at 4.29 s; a ping is given up after half a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PingRow {
    at_ms: u64,
    /// Median and largest, here and below.
    network: [u32; 2],
    responder: [u32; 2],
    prober: [u32; 2],
    large_p50: u32,
    /// The worst label's flow label, the clock, and the pings sent with the label; see the constants above.
    label: u32,
    label_p50: u32,
    large_bytes: u16,
    label_answered: u8,
    /// Sent, answered, lost forward, lost backward, late, duplicate, reordered.
    small: [u8; 7],
    large: [u8; 7],
    /// Host-delayed, invalid stamps, stale.
    beside: [u8; 3],
}

const _: () = assert!(size_of::<PingRow>() <= 64, "a row of pings must stay within 64 bytes");

fn byte(count: u32) -> u8 {
    u8::try_from(count).unwrap_or(UNKNOWN).min(UNKNOWN - 1)
}

fn delay(ns: Option<u64>) -> u32 {
    ns.map_or(ABSENT, |ns| u32::try_from(ns).unwrap_or(ABSENT).min(ABSENT - 1))
}

fn known(delay: u32) -> Option<u64> {
    (delay != ABSENT).then_some(delay.into())
}

fn pack_spread(spread: Option<Spread>) -> [u32; 2] {
    [delay(spread.map(|s| s.p50_ns)), delay(spread.map(|s| s.max_ns))]
}

fn unpack_spread([p50, max]: [u32; 2]) -> Option<Spread> {
    Some(Spread { p50_ns: known(p50)?, max_ns: known(max)? })
}

fn pack_counts(c: &PingCounts) -> [u8; 7] {
    let direction = |lost: Option<u32>| lost.map_or(UNKNOWN, byte);
    let [forward, backward] = [direction(c.lost_forward), direction(c.lost_backward)];
    [byte(c.sent), byte(c.answered), forward, backward, byte(c.late), byte(c.duplicate), byte(c.reordered)]
}

fn unpack_counts(row: [u8; 7], payload_bytes: u32) -> PingCounts {
    let [sent, answered, forward, backward, late, duplicate, reordered] = row;
    let direction = |lost: u8| (lost != UNKNOWN).then_some(lost.into());
    PingCounts {
        payload_bytes: if sent > 0 { payload_bytes } else { 0 },
        sent: sent.into(),
        answered: answered.into(),
        lost_forward: direction(forward),
        lost_backward: direction(backward),
        late: late.into(),
        duplicate: duplicate.into(),
        reordered: reordered.into(),
    }
}

impl PingRow {
    pub(crate) fn pack(at: Wall, figures: &PingFigures) -> Self {
        let clock = if figures.clock == StampClock::Hardware { CLOCK_BIT } else { 0 };
        let label = figures.worst_label.map_or(0, |label| {
            label.flow_label & LABEL_MASK | u32::from(byte(label.sent)) << LABEL_SENT_SHIFT
        });
        Self {
            at_ms: at.0,
            network: pack_spread(figures.network),
            responder: pack_spread(figures.responder),
            prober: pack_spread(figures.prober),
            large_p50: delay(figures.large_p50_ns),
            label: label | clock,
            label_p50: delay(figures.worst_label.and_then(|label| label.p50_ns)),
            large_bytes: u16::try_from(figures.large.payload_bytes).unwrap_or(u16::MAX),
            label_answered: byte(figures.worst_label.map_or(0, |label| label.answered)),
            small: pack_counts(&figures.small),
            large: pack_counts(&figures.large),
            beside: [byte(figures.host_delayed), byte(figures.invalid_stamps), byte(figures.stale)],
        }
    }

    /// `None` for a row that was never written.
    pub(crate) fn unpack(&self) -> Option<(Wall, PingFigures)> {
        let [host_delayed, invalid_stamps, stale] = self.beside.map(u32::from);
        let label_sent = self.label >> LABEL_SENT_SHIFT;
        let worst_label = (label_sent > 0).then_some(LabelResult {
            flow_label: self.label & LABEL_MASK,
            sent: label_sent,
            answered: self.label_answered.into(),
            p50_ns: known(self.label_p50),
        });
        let hardware = self.label & CLOCK_BIT != 0;
        let figures = PingFigures {
            clock: if hardware { StampClock::Hardware } else { StampClock::Software },
            small: unpack_counts(self.small, SMALL_BYTES),
            large: unpack_counts(self.large, self.large_bytes.into()),
            network: unpack_spread(self.network),
            large_p50_ns: known(self.large_p50),
            responder: unpack_spread(self.responder),
            prober: unpack_spread(self.prober),
            host_delayed,
            invalid_stamps,
            stale,
            worst_label,
        };
        (figures.sent() > 0).then_some((Wall(self.at_ms), figures))
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
            prober: Some(Spread { p50_ns: 4_000, max_ns: 0 }),
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
    fn a_row_gives_back_what_it_was_given() {
        let unknown = PingCounts { lost_forward: None, lost_backward: None, ..figures().small };
        let bare = PingFigures {
            clock: StampClock::Software,
            small: unknown,
            large: PingCounts { lost_forward: Some(0), lost_backward: Some(0), ..PingCounts::default() },
            network: None,
            large_p50_ns: None,
            responder: None,
            prober: None,
            worst_label: None,
            ..figures()
        };
        for given in [figures(), bare] {
            assert_eq!(PingRow::pack(Wall(77), &given).unpack(), Some((Wall(77), given)));
            assert_eq!(PingFigures::from(&given.to_stats()), given, "through what is kept on disk");
        }
        assert_eq!(PingRow::default().unpack(), None, "nobody has written it");
    }

    #[test]
    fn counts_and_delays_that_do_not_fit_stop_at_the_largest_and_never_become_unknown() {
        let huge = PingCounts { sent: 1_000, answered: 255, lost_forward: Some(300), ..figures().small };
        let given =
            PingFigures { small: huge, network: Some(Spread { p50_ns: 1, max_ns: u64::MAX }), ..figures() };
        let (_, back) = PingRow::pack(Wall(1), &given).unpack().unwrap();
        assert_eq!((back.small.sent, back.small.answered, back.small.lost_forward), (254, 254, Some(254)));
        assert_eq!(back.network.unwrap().max_ns, u64::from(u32::MAX) - 1);
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
