//! The figures of a batch of pings in 48 bytes: the form in which agents tell them by numbers, and in which the matrix keeps them. The
//! places of its parts are those of protocol version 4 and never change.

use crate::{LabelResult, PINGS_OF_A_SIZE_MAX, PingCounts, PingFigures, Spread, StampClock};

/// Twelve words: network round trip (median and largest), median of large pings, label and clock, median of that label, responder,
/// prober, counts (5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedPings(pub [u32; Self::WORDS]);

const NETWORK: usize = 0;
const LARGE_P50: usize = 2;
const LABEL: usize = 3;
const LABEL_P50: usize = 4;
const RESPONDER: usize = 5;
const PROBER: usize = 6;
const COUNTS: usize = 7;
/// Bytes of the words from [`COUNTS`] on: payload of large pings (2), answers with the worst label, counts of small and of large pings,
/// and beside them host-delayed, invalid stamps, stale.
const COUNT_BYTES: usize = 20;
const LABEL_ANSWERED: usize = 2;
const SMALL: usize = 3;
const LARGE: usize = 10;
const BESIDE: usize = 17;
/// Within the counts of one size: behind these come duplicate and reordered.
const SENT: usize = 0;
const ANSWERED: usize = 1;
const LOST_FORWARD: usize = 2;
const LOST_BACKWARD: usize = 3;
const LATE: usize = 4;

/// Payload of a small ping, bytes.
const SMALL_PAYLOAD_BYTES: u32 = 64;
/// Stands for "not known" in a count.
const UNKNOWN: u8 = u8::MAX;
/// Stands for "absent" in a delay.
const ABSENT: u32 = u32::MAX;
/// Where the parts of the label's word begin: flow label, clock, pings sent with the label.
const LABEL_MASK: u32 = 0x000F_FFFF;
const CLOCK_BIT: u32 = 1 << 20;
const LABEL_SENT_SHIFT: u32 = 24;
/// A short delay below this stands for itself; a longer one has its leading bit left out, the next eleven bits, and four bits of exponent.
const SHORT_EXACT: u64 = 1 << 15;
const SHORT_BITS: u32 = 11;
const SHORT_EXPONENT_MIN: u32 = 4;
/// The longest, 2.1 s: a ping is given up after half a second. The word behind it stands for "absent".
const SHORT_MAX: u64 = 0xFFE << 19;
const SHORT_ABSENT: u16 = u16::MAX;

fn byte(count: u32) -> u8 {
    u8::try_from(count.min(PINGS_OF_A_SIZE_MAX)).unwrap_or(UNKNOWN - 1)
}

fn delay(ns: Option<u64>) -> u32 {
    ns.map_or(ABSENT, |ns| u32::try_from(ns).unwrap_or(ABSENT).min(ABSENT - 1))
}

fn known(delay: u32) -> Option<u64> {
    (delay != ABSENT).then_some(delay.into())
}

/// A delay inside a host in 16 bits: exact below 33 µs, then to 0.03 %, which is finer than any host keeps time.
fn short(ns: u64) -> u16 {
    let ns = ns.min(SHORT_MAX);
    if ns < SHORT_EXACT {
        return ns as u16;
    }
    let excess = |ns: u64| u64::BITS - ns.leading_zeros() - SHORT_BITS - 1;
    let rounded = ns + (1 << (excess(ns) - 1));
    let excess = excess(rounded);
    let mantissa = (rounded >> excess) as u16 & ((1 << SHORT_BITS) - 1);
    1 << 15 | ((excess - SHORT_EXPONENT_MIN) as u16) << SHORT_BITS | mantissa
}

#[inline]
fn long(short: u16) -> u64 {
    if u64::from(short) < SHORT_EXACT {
        return short.into();
    }
    let exponent = u32::from(short >> SHORT_BITS & 0xF) + SHORT_EXPONENT_MIN;
    (u64::from(short & ((1 << SHORT_BITS) - 1)) | 1 << SHORT_BITS) << exponent
}

fn pack_spread(spread: Option<Spread>) -> u32 {
    let [p50, max] = spread.map_or([SHORT_ABSENT; 2], |s| [short(s.p50_ns), short(s.max_ns)]);
    u32::from(p50) | u32::from(max) << 16
}

#[inline]
fn unpack_spread(word: u32) -> Option<Spread> {
    let (p50, max) = (word as u16, (word >> 16) as u16);
    (p50 != SHORT_ABSENT).then(|| Spread { p50_ns: long(p50), max_ns: long(max) })
}

fn pack_counts(c: &PingCounts) -> [u8; 7] {
    let direction = |lost: Option<u32>| lost.map_or(UNKNOWN, byte);
    let [forward, backward] = [direction(c.lost_forward), direction(c.lost_backward)];
    [byte(c.sent), byte(c.answered), forward, backward, byte(c.late), byte(c.duplicate), byte(c.reordered)]
}

fn unpack_counts(bytes: [u8; 7], payload_bytes: u32) -> PingCounts {
    let [sent, answered, forward, backward, late, duplicate, reordered] = bytes;
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

impl PackedPings {
    /// How many words.
    pub const WORDS: usize = 12;

    /// Packs figures. Counts stop at 254, delays on the network at 4.29 s and those inside hosts at 2.1 s; a ping is given up after half
    /// a second.
    #[must_use]
    pub fn pack(f: &PingFigures) -> Self {
        let mut words = [0; Self::WORDS];
        words[NETWORK] = delay(f.network.map(|s| s.p50_ns));
        words[NETWORK + 1] = delay(f.network.map(|s| s.max_ns));
        words[LARGE_P50] = delay(f.large_p50_ns);
        let clock = if f.clock == StampClock::Hardware { CLOCK_BIT } else { 0 };
        let label = f.worst_label.map_or(0, |label| {
            label.flow_label & LABEL_MASK | u32::from(byte(label.sent)) << LABEL_SENT_SHIFT
        });
        words[LABEL] = label | clock;
        words[LABEL_P50] = delay(f.worst_label.and_then(|label| label.p50_ns));
        words[RESPONDER] = pack_spread(f.responder);
        words[PROBER] = pack_spread(f.prober);
        let mut bytes = [0; COUNT_BYTES];
        let large_bytes = u16::try_from(f.large.payload_bytes).unwrap_or(u16::MAX);
        bytes[..2].copy_from_slice(&large_bytes.to_le_bytes());
        bytes[LABEL_ANSWERED] = byte(f.worst_label.map_or(0, |label| label.answered));
        bytes[SMALL..LARGE].copy_from_slice(&pack_counts(&f.small));
        bytes[LARGE..BESIDE].copy_from_slice(&pack_counts(&f.large));
        bytes[BESIDE..].copy_from_slice(&[byte(f.host_delayed), byte(f.invalid_stamps), byte(f.stale)]);
        for (word, four) in words[COUNTS..].iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*four);
        }
        Self(words)
    }

    /// The figures.
    #[must_use]
    pub fn figures(&self) -> PingFigures {
        let words = &self.0;
        let bytes = self.count_bytes();
        let counts = |from: usize| std::array::from_fn(|i| bytes[from + i]);
        let large_bytes = u16::from_le_bytes([bytes[0], bytes[1]]);
        let label_sent = words[LABEL] >> LABEL_SENT_SHIFT;
        let worst_label = (label_sent > 0).then_some(LabelResult {
            flow_label: words[LABEL] & LABEL_MASK,
            sent: label_sent,
            answered: bytes[LABEL_ANSWERED].into(),
            p50_ns: known(words[LABEL_P50]),
        });
        let network =
            known(words[NETWORK]).map(|p50_ns| Spread { p50_ns, max_ns: words[NETWORK + 1].into() });
        PingFigures {
            clock: if self.by_hardware() { StampClock::Hardware } else { StampClock::Software },
            small: unpack_counts(counts(SMALL), SMALL_PAYLOAD_BYTES),
            large: unpack_counts(counts(LARGE), large_bytes.into()),
            network,
            large_p50_ns: known(words[LARGE_P50]),
            responder: unpack_spread(words[RESPONDER]),
            prober: unpack_spread(words[PROBER]),
            host_delayed: bytes[BESIDE].into(),
            invalid_stamps: bytes[BESIDE + 1].into(),
            stale: bytes[BESIDE + 2].into(),
            worst_label,
        }
    }

    /// What is asked of each of millions of cells, without the rest.
    #[must_use]
    #[inline]
    pub fn in_short(&self) -> PingsInShort {
        let both = |at: usize| self.count(SMALL + at) + self.count(LARGE + at);
        let (sent, answered) = (both(SENT), both(ANSWERED));
        let back = answered + both(LATE) + self.count(BESIDE + 2);
        let unknown = |from: usize| {
            let direction = |at: usize| self.count(from + at) == UNKNOWN.into();
            self.count(from + SENT) > 0 && (direction(LOST_FORWARD) || direction(LOST_BACKWARD))
        };
        PingsInShort {
            network_p50_ns: known(self.0[NETWORK]),
            sent,
            answered,
            lost: sent.saturating_sub(back),
            directions_unknown: unknown(SMALL) || unknown(LARGE),
        }
    }

    /// Of small and of large pings.
    #[must_use]
    #[inline]
    pub fn counts(&self) -> [CountsInShort; 2] {
        // Each by itself and not through `map`: a call for each of millions of cells would take longer than what it does.
        [self.counts_from(SMALL), self.counts_from(LARGE)]
    }

    #[inline]
    fn counts_from(&self, from: usize) -> CountsInShort {
        let [forward, backward] = [self.count(from + LOST_FORWARD), self.count(from + LOST_BACKWARD)];
        let unknown = u32::from(UNKNOWN);
        CountsInShort {
            sent: self.count(from + SENT),
            answered: self.count(from + ANSWERED),
            lost: (forward != unknown && backward != unknown).then_some([forward, backward]),
            late: self.count(from + LATE),
        }
    }

    /// All pings of either size were answered, as in most batches.
    #[must_use]
    #[inline]
    pub fn all_answered(&self) -> bool {
        let all = |from: usize| self.count(from + SENT) == self.count(from + ANSWERED);
        all(SMALL) && all(LARGE)
    }

    /// Pings to, or answers from, a queue pair that the peer no longer has.
    #[must_use]
    #[inline]
    pub fn stale(&self) -> u32 {
        self.count(BESIDE + 2)
    }

    /// Answered pings during which either host took far longer than usual.
    #[must_use]
    #[inline]
    pub fn host_delayed(&self) -> u32 {
        self.count(BESIDE)
    }

    /// Median network round trip of small pings, nanoseconds.
    #[must_use]
    #[inline]
    pub fn network_p50_ns(&self) -> Option<u32> {
        Some(self.0[NETWORK]).filter(|ns| *ns != ABSENT)
    }

    /// Time inside the prober's and inside the responder's host.
    #[must_use]
    #[inline]
    pub fn hosts(&self) -> [Option<Spread>; 2] {
        [unpack_spread(self.0[PROBER]), unpack_spread(self.0[RESPONDER])]
    }

    /// Pings that the worst label sent, and of them answered; `None` with one label only.
    #[must_use]
    #[inline]
    pub fn worst_label(&self) -> Option<[u32; 2]> {
        let sent = self.0[LABEL] >> LABEL_SENT_SHIFT;
        (sent > 0).then(|| [sent, self.count(LABEL_ANSWERED)])
    }

    /// One of the counting bytes.
    #[inline]
    fn count(&self, at: usize) -> u32 {
        self.0[COUNTS + at / 4] >> (at % 4 * 8) & 0xFF
    }

    /// The device's clock stamped them.
    #[must_use]
    #[inline]
    pub fn by_hardware(&self) -> bool {
        self.0[LABEL] & CLOCK_BIT != 0
    }

    /// What is wrong with figures that somebody else packed: counts that contradict themselves would make a loss out of nothing, or hide
    /// one. `None` when they are sound.
    #[must_use]
    pub fn flaw(&self) -> Option<&'static str> {
        let counted = |lost: u32| if lost == UNKNOWN.into() { 0 } else { lost };
        let more = |from: usize| {
            let lost = counted(self.count(from + LOST_FORWARD)) + counted(self.count(from + LOST_BACKWARD));
            let sent = self.count(from + SENT);
            self.count(from + ANSWERED) + lost > sent || sent > PINGS_OF_A_SIZE_MAX
        };
        // A longer delay is a larger word, so none need be unpacked: this is asked of millions of batches a second.
        let falls = |spread: u32| spread as u16 != SHORT_ABSENT && spread as u16 > (spread >> 16) as u16;
        let network = known(self.0[NETWORK]).zip(known(self.0[NETWORK + 1]));
        let half = (self.0[NETWORK] == ABSENT) != (self.0[NETWORK + 1] == ABSENT);
        if more(SMALL) || more(LARGE) || self.count(LABEL_ANSWERED) > self.0[LABEL] >> LABEL_SENT_SHIFT {
            Some("more answered and lost than sent")
        } else if half
            || network.is_some_and(|(p50, max)| p50 > max)
            || falls(self.0[RESPONDER])
            || falls(self.0[PROBER])
        {
            Some("a median above the largest delay")
        } else {
            None
        }
    }

    fn count_bytes(&self) -> [u8; COUNT_BYTES] {
        let mut bytes = [0; COUNT_BYTES];
        for (four, word) in bytes.as_chunks_mut().0.iter_mut().zip(&self.0[COUNTS..]) {
            *four = word.to_le_bytes();
        }
        bytes
    }
}

/// Pings of one size in a batch, without what is only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountsInShort {
    /// Sent.
    pub sent: u32,
    /// Of them answered in time.
    pub answered: u32,
    /// Of them lost on the way there, and on the way back; `None` where the direction is not known.
    pub lost: Option<[u32; 2]>,
    /// Of them answered after the time-out.
    pub late: u32,
}

/// A batch in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingsInShort {
    /// Median network round trip of small pings, nanoseconds; `None` when none was answered with usable stamps.
    pub network_p50_ns: Option<u64>,
    /// Pings sent, both sizes.
    pub sent: u32,
    /// Of them answered in time.
    pub answered: u32,
    /// Of them without any answer.
    pub lost: u32,
    /// It is not known in which direction pings were lost.
    pub directions_unknown: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ping_figures::tests::figures;

    #[test]
    fn what_is_packed_comes_back() {
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
            let packed = PackedPings::pack(&given);
            assert_eq!((packed.figures(), packed.flaw()), (given, None));
            let short = packed.in_short();
            let expected = PingsInShort {
                network_p50_ns: given.network.map(|network| network.p50_ns),
                sent: given.sent(),
                answered: given.answered(),
                lost: given.lost(),
                directions_unknown: given.directions_unknown(),
            };
            assert_eq!((short, packed.by_hardware()), (expected, given.clock == StampClock::Hardware));
            let counts = [given.small, given.large].map(|c| CountsInShort {
                sent: c.sent,
                answered: c.answered,
                lost: c.lost_forward.zip(c.lost_backward).map(|(forward, backward)| [forward, backward]),
                late: c.late,
            });
            assert_eq!((packed.counts(), packed.hosts()), (counts, [given.prober, given.responder]));
            assert_eq!((packed.stale(), packed.host_delayed()), (given.stale, given.host_delayed));
            assert_eq!(packed.worst_label(), given.worst_label.map(|label| [label.sent, label.answered]));
            assert_eq!(packed.network_p50_ns().map(u64::from), given.network.map(|network| network.p50_ns));
            assert!(!packed.all_answered());
        }
    }

    #[test]
    fn counts_and_delays_that_do_not_fit_stop_at_the_largest_and_never_become_unknown() {
        let huge = PingCounts { sent: 1_000, answered: 255, lost_forward: Some(300), ..figures().small };
        let long = Some(Spread { p50_ns: 1, max_ns: u64::MAX });
        let given = PingFigures { small: huge, network: long, responder: long, ..figures() };
        let back = PackedPings::pack(&given).figures();
        assert_eq!((back.small.sent, back.small.answered, back.small.lost_forward), (254, 254, Some(254)));
        assert_eq!(back.network.unwrap().max_ns, u64::from(u32::MAX) - 1);
        assert_eq!(back.responder.unwrap(), Spread { p50_ns: 1, max_ns: SHORT_MAX });
    }

    #[test]
    fn what_contradicts_itself_is_told() {
        let answered = PingCounts { answered: 38, ..figures().small };
        let label = LabelResult { answered: 5, ..figures().worst_label.unwrap() };
        let falling = Some(Spread { p50_ns: 2, max_ns: 1 });
        for bad in [
            PingFigures { small: PingCounts { lost_backward: Some(2), ..answered }, ..figures() },
            PingFigures { worst_label: Some(label), ..figures() },
            PingFigures { network: falling, ..figures() },
            PingFigures { prober: falling, ..figures() },
        ] {
            assert!(PackedPings::pack(&bad).flaw().is_some(), "{bad:?}");
        }
        for at in 0..PackedPings::WORDS {
            // Whatever the bytes are, nothing worse than odd figures comes of them.
            let mut words = PackedPings::pack(&figures()).0;
            words[at] ^= 0x8181_8181;
            let _ = (PackedPings(words).figures(), PackedPings(words).flaw());
        }
    }

    #[test]
    fn a_longer_delay_is_a_larger_word_and_nothing_else_is() {
        assert!((1..=u16::MAX).all(|word| long(word) > long(word - 1)));
        let batch = |p50: u16, max: u16| {
            let mut words = PackedPings::pack(&figures()).0;
            words[RESPONDER] = u32::from(p50) | u32::from(max) << 16;
            PackedPings(words)
        };
        // On both sides of where words begin to have an exponent, and with nothing known.
        for (p50, max, sound) in [
            (0x7FFF, 0x8000, true),
            (0x8000, 0x7FFF, false),
            (0, 0, true),
            (0x9001, 0x9000, false),
            (SHORT_ABSENT, 0, true),
        ] {
            assert_eq!(batch(p50, max).flaw().is_none(), sound, "{p50:x} {max:x}");
        }
    }

    #[test]
    fn delays_inside_hosts_are_kept_to_a_thirtieth_of_a_percent() {
        let mut ns = 0;
        while ns < SHORT_MAX {
            let back = long(short(ns));
            assert!(back.abs_diff(ns) * 4_000 <= ns, "{ns} became {back}");
            assert!(ns >= SHORT_EXACT || back == ns, "{ns} became {back}");
            ns += 1 + ns / 777;
        }
        for edge in [0, 1, SHORT_EXACT - 1, SHORT_EXACT, (1 << 20) - 1, SHORT_MAX] {
            assert!(long(short(edge)).abs_diff(edge) * 4_000 <= edge, "{edge}");
        }
    }
}
