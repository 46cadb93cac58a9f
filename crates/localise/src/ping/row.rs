//! The figures of pings of one pair, packed: there are millions of them.

use super::{PingFigures, Spread};
use rdmascope_model::{LabelResult, PingCounts, StampClock, Wall};

/// Payload of a small ping, bytes.
const SMALL_BYTES: u32 = 64;
/// Stands for "not known" in a count.
pub(super) const UNKNOWN: u8 = u8::MAX;
/// Stands for "absent" in a delay.
const ABSENT: u32 = u32::MAX;
/// Where the parts of [`PingRow::label`] begin: flow label, clock, pings sent with the label.
const LABEL_MASK: u32 = 0x000F_FFFF;
const CLOCK_BIT: u32 = 1 << 20;
const LABEL_SENT_SHIFT: u32 = 24;

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

/// Sent, answered, lost on the way there and back, and late; `None` where the direction is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedCounts {
    pub(crate) sent: u32,
    pub(crate) answered: u32,
    pub(crate) lost: Option<[u32; 2]>,
    pub(crate) late: u32,
}

fn packed_counts(row: [u8; 7]) -> PackedCounts {
    let [sent, answered, forward, backward, late, ..] = row;
    let known = forward != UNKNOWN && backward != UNKNOWN;
    let lost = known.then_some([forward.into(), backward.into()]);
    PackedCounts { sent: sent.into(), answered: answered.into(), lost, late: late.into() }
}

/// What of a row does not need to be unpacked to be compared with others.
impl PingRow {
    pub(crate) fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Of small and of large pings.
    pub(crate) fn counts(&self) -> [PackedCounts; 2] {
        [packed_counts(self.small), packed_counts(self.large)]
    }

    /// All pings were small or large, and all were answered: most rows.
    pub(crate) fn all_answered(&self) -> bool {
        self.small[0] == self.small[1] && self.large[0] == self.large[1]
    }

    /// Of both sizes.
    pub(crate) fn answered(&self) -> u32 {
        u32::from(self.small[1]) + u32::from(self.large[1])
    }

    /// Of both sizes.
    pub(crate) fn late(&self) -> u32 {
        u32::from(self.small[4]) + u32::from(self.large[4])
    }

    pub(crate) fn sent(&self) -> [u32; 2] {
        [self.small[0].into(), self.large[0].into()]
    }

    /// Pings that met an old queue pair.
    pub(crate) fn stale(&self) -> u32 {
        self.beside[2].into()
    }

    /// Median network round trip of small pings, nanoseconds.
    pub(crate) fn network_p50(&self) -> Option<u32> {
        Some(self.network[0]).filter(|ns| *ns != ABSENT)
    }

    /// Median and largest time inside the prober's and inside the responder's host, nanoseconds.
    pub(crate) fn hosts(&self) -> [Option<[u32; 2]>; 2] {
        [self.prober, self.responder].map(|host| Some(host).filter(|[p50, _]| *p50 != ABSENT))
    }

    pub(crate) fn host_delayed(&self) -> u32 {
        self.beside[0].into()
    }

    pub(crate) fn is_hardware_clock(&self) -> bool {
        self.label & CLOCK_BIT != 0
    }

    /// Pings that the worst label sent, and of them answered; `None` with one label only.
    pub(crate) fn worst_label(&self) -> Option<[u32; 2]> {
        let sent = self.label >> LABEL_SENT_SHIFT;
        (sent > 0).then(|| [sent, self.label_answered.into()])
    }

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
