//! What one cell shows: trials of each direction, taken from the packed rows without unpacking them.

use super::count::{Channel, Count, Fine, NO_TRIAL, Tally, Windows};
use super::layout::Layout;
use super::yardstick::{Yardstick, is_far};
use crate::ping::{self, PingRow};
use crate::row::{self, BandwidthRow, Kind, LatencyRow};
use crate::verdict::{HOST_SLOW_HARDWARE_NS, HOST_SLOW_SOFTWARE_NS};
use crate::{EndpointIndex, Matrix};
use rdmascope_model::{Cause, CountsInShort, PackedPings, Side, Spread, Wall};

/// Trials that a failed batch stands for whose counts were not kept (those of another run of the coordinator).
const UNCOUNTED: u32 = 9;
/// Small pings of a batch that was measured by itself: those of the mesh have 40 at most.
pub(super) const ALONE_MIN: u32 = 100;
/// A host that holds a packet for so long has stood still, nanoseconds: usual tails are a hundred times shorter. At the rate at which pairs
/// are measured by themselves its receive buffers last no longer.
pub(super) const STALL_NS: u64 = 20_000_000;

/// What one cell shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Observation {
    /// How old it is, milliseconds, and the window of that.
    pub(crate) age_ms: u64,
    pub(crate) window: usize,
    /// Of what the source sent.
    pub(crate) forward: Tally,
    /// Of what the target sent.
    pub(crate) backward: Tally,
    /// Of round trips: in which direction they went wrong is not known.
    pub(crate) either: Tally,
    /// Of the source's and the target's host.
    pub(crate) hosts: [Count; 2],
    /// It was measured by itself, with many packets.
    pub(crate) alone: bool,
    /// It is slow, and yet no slower than the longest cables make a pair.
    pub(crate) just: bool,
    /// It is slower than any fabric is, and no host's doing.
    pub(crate) far: bool,
    /// Nats by which one lossy path among several is more likely than loss on all.
    pub(crate) one_path: f64,
}

impl Observation {
    /// What it says of its pair alone: among so many pairs some have the longest cables, and are no slower than these make them.
    pub(crate) fn of_pair(mut self) -> Self {
        if self.just {
            self.either.of_mut(Channel::Slow).bad = 0;
        }
        self
    }

    /// What it says of packets that arrive or do not.
    pub(crate) fn packets(self) -> Self {
        self.without([Channel::Slow, Channel::Narrow])
    }

    /// What it says of how long it took.
    pub(crate) fn figures(self) -> Self {
        self.without([Channel::Small, Channel::Large])
    }

    fn without(mut self, channels: [Channel; 2]) -> Self {
        for tally in [&mut self.forward, &mut self.backward, &mut self.either] {
            channels.into_iter().for_each(|channel| *tally.of_mut(channel) = NO_TRIAL);
        }
        self
    }

    /// Anything went wrong.
    pub(crate) fn is_bad(&self) -> bool {
        let bad = |tally: &Tally| tally.0.iter().any(|count| count.bad > 0);
        bad(&self.forward) || bad(&self.backward) || bad(&self.either)
    }
}

/// A matrix at one moment, and what its cells are compared with.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) matrix: &'a Matrix,
    pub(crate) layout: &'a Layout,
    pub(crate) yardstick: &'a Yardstick,
    pub(crate) windows: Windows,
    pub(crate) now: Wall,
    /// What is older says nothing any more, milliseconds.
    pub(crate) fresh_ms: u64,
    /// So long the receive buffers of a host that stands still last for the mesh's pings, nanoseconds.
    pub(crate) buffers_ns: u64,
}

impl Scene<'_> {
    #[inline]
    pub(crate) fn age(&self, pair: (usize, usize), at_ms: u64) -> Option<u64> {
        let age_ms = self.now.0.saturating_sub(at_ms);
        let counts = at_ms >= self.layout.counts_from(pair.0, pair.1);
        (at_ms > 0 && counts && age_ms <= self.fresh_ms).then_some(age_ms)
    }

    /// What [`Self::ping`] says of a batch of which nothing went wrong.
    #[inline]
    pub(super) fn fine_ping(&self, a: usize, b: usize, row: &PingRow) -> Option<(usize, Fine)> {
        if row::kind(row) != Kind::Known {
            return None;
        }
        let (age_ms, pings) = (self.age((a, b), row::at(row).0)?, ping::figures_of(row));
        let ([small, large], [Some(prober), Some(responder)]) = (pings.counts(), pings.hosts()) else {
            return None;
        };
        let limit = host_limit(&pings);
        let (window, ns) = (self.windows.of(age_ms), pings.network_p50_ns()?);
        let tier = (self.layout.tier(a, b), pings.by_hardware());
        let is_fine = pings.all_answered()
            && small.late + large.late == 0
            && prober.max_ns <= limit
            && responder.max_ns <= limit
            && !self.yardstick.is_slow_ping(tier, window, small.sent >= ALONE_MIN, ns);
        is_fine.then_some((window, Fine([small.sent, large.sent, 1, 1])))
    }

    /// What [`Self::latency`] says of a probe that is as fast as others.
    #[inline]
    pub(super) fn fine_latency(&self, a: usize, b: usize, row: &LatencyRow) -> Option<(usize, Fine)> {
        if row::kind(row) != Kind::Known {
            return None;
        }
        let window = self.windows.of(self.age((a, b), row::at(row).0)?);
        let slow = self.yardstick.is_slow_latency(self.layout.tier(a, b), row::latency_p50(row));
        (!slow).then_some((window, Fine([1, 0, 1, 0])))
    }

    #[inline]
    pub(super) fn ping(&self, a: usize, b: usize, row: &PingRow) -> Option<Observation> {
        let kind = row::kind(row);
        if matches!(kind, Kind::Never | Kind::Excluded) {
            return None;
        }
        let age_ms = self.age((a, b), row::at(row).0)?;
        let (window, pings) = (self.windows.of(age_ms), ping::figures_of(row));
        if kind == Kind::Failed {
            let (cause, _, side) = ping::reason(row);
            let counted = Some(&pings).filter(|pings| pings.in_short().sent > 0);
            let seen = self.failed(cause, side, counted, UNCOUNTED)?;
            return Some(Observation { age_ms, window, ..seen });
        }
        let mut seen = self.counts(&pings);
        (seen.age_ms, seen.window) = (age_ms, window);
        if let Some(ns) = pings.network_p50_ns() {
            let tier = (self.layout.tier(a, b), pings.by_hardware());
            let slow = self.yardstick.is_slow_ping(tier, window, seen.alone, ns);
            seen.far = is_far(ns);
            seen.just = slow && !self.yardstick.is_slow_pair(tier, window, ns);
            seen.either.of_mut(Channel::Slow).add(Count::new(1, slow.into()));
        }
        Some(seen)
    }

    pub(super) fn latency(&self, a: usize, b: usize, row: &LatencyRow) -> Option<Observation> {
        let mut seen = self.dated((a, b), row)?;
        if row::kind(row) != Kind::Known {
            return self.failed_probe(&seen, row);
        }
        let slow = self.yardstick.is_slow_latency(self.layout.tier(a, b), row::latency_p50(row));
        seen.either.of_mut(Channel::Slow).add(Count::new(1, slow.into()));
        for direction in [&mut seen.forward, &mut seen.backward] {
            direction.of_mut(Channel::Small).add(Count::new(1, 0));
        }
        Some(seen)
    }

    pub(super) fn bandwidth(&self, a: usize, b: usize, row: &BandwidthRow) -> Option<Observation> {
        let mut seen = self.dated((a, b), row)?;
        if row::kind(row) != Kind::Known {
            return self.failed_probe(&seen, row);
        }
        let narrow = self.yardstick.is_narrow(self.layout.tier(a, b), (a, b), row::bandwidth_figure(row));
        seen.forward.of_mut(Channel::Narrow).add(Count::new(1, narrow.into()));
        seen.forward.of_mut(Channel::Small).add(Count::new(1, 0));
        Some(seen)
    }

    fn failed_probe<const WORDS: usize>(
        &self,
        dated: &Observation,
        row: &[u32; WORDS],
    ) -> Option<Observation> {
        let (Kind::Failed, (cause, _, side)) = (row::kind(row), row::reason(row)) else { return None };
        let Observation { age_ms, window, .. } = *dated;
        Some(Observation { age_ms, window, ..self.failed(cause, side, None, 1)? })
    }

    /// What a failed probe shows. A cause that names somebody (a port that is down, an agent that is gone) is no sign of the network's.
    fn failed(
        &self,
        cause: Cause,
        side: Side,
        counted: Option<&PackedPings>,
        uncounted: u32,
    ) -> Option<Observation> {
        let mut seen = Observation::default();
        match cause {
            Cause::RetryExceeded | Cause::PathLost | Cause::NoFirstByte | Cause::Stalled | Cause::NoRoute => {
                if let Some(pings) = counted {
                    return Some(Observation { hosts: [Count::default(); 2], ..self.counts(pings) });
                }
                *seen.either.of_mut(Channel::Small) = Count::new(uncounted, uncounted);
            }
            // Answers after the time-out, half a second: no network holds a packet for so long.
            Cause::PeerSilent if counted.is_some() => seen.hosts[1] = Count::new(1, 1),
            // The peer's agent says nothing any more, and nobody answers for it: to others it looks dead.
            Cause::PeerSilent => {
                *seen.either.of_mut(Channel::Small) = Count::new(uncounted, uncounted);
            }
            Cause::HostStarved => seen.hosts[usize::from(side == Side::Target)] = Count::new(1, 1),
            _ => return None,
        }
        Some(seen)
    }

    #[inline]
    fn counts(&self, pings: &PackedPings) -> Observation {
        let [small, large] = pings.counts();
        let mut seen = Observation { alone: small.sent >= ALONE_MIN, ..Observation::default() };
        if pings.all_answered() {
            let both = Tally([Count::new(small.sent, 0), Count::new(large.sent, 0), NO_TRIAL, NO_TRIAL]);
            (seen.forward, seen.backward) = (both, both);
        } else {
            size(&mut seen, Channel::Small, small, pings.stale() > 0);
            size(&mut seen, Channel::Large, large, pings.stale() > 0);
            seen.one_path = one_path(pings);
        }
        let (answered, late) = (small.answered + large.answered, small.late + large.late);
        let [prober, responder] = pings.hosts();
        let often = pings.host_delayed() * 2 >= answered.max(1);
        let limit = host_limit(pings);
        seen.hosts = [host(prober, limit, often, late > 0), host(responder, limit, often, late > 0)];
        let overflows = |host: Option<Spread>| {
            host.is_some_and(|host| host.max_ns > if seen.alone { STALL_NS } else { self.buffers_ns })
        };
        // A host stood still for so long that its receive buffers ran over: what was lost may have been lost there.
        if late > 0 || overflows(prober) || overflows(responder) {
            (seen.forward, seen.backward, seen.either) = Default::default();
            seen.one_path = 0.0;
        }
        seen
    }

    fn dated<const WORDS: usize>(&self, pair: (usize, usize), row: &[u32; WORDS]) -> Option<Observation> {
        let age_ms = self.age(pair, row::at(row).0)?;
        Some(Observation { age_ms, window: self.windows.of(age_ms), ..Observation::default() })
    }
}

/// The number of an endpoint that the layout has.
pub(crate) fn number(at: usize) -> EndpointIndex {
    EndpointIndex(u32::try_from(at).unwrap_or(u32::MAX))
}

/// From here on the time inside a host is long by the clock that told it, nanoseconds.
#[inline]
fn host_limit(pings: &PackedPings) -> u64 {
    if pings.by_hardware() { HOST_SLOW_HARDWARE_NS } else { HOST_SLOW_SOFTWARE_NS }
}

/// Whether a host took long: always, for at least half of the answers, or once for very long.
#[inline]
fn host(delays: Option<Spread>, limit: u64, often: bool, late: bool) -> Count {
    let Some(Spread { p50_ns, max_ns }) = delays else { return NO_TRIAL };
    let slow = p50_ns > limit || (often && max_ns > limit) || max_ns > STALL_NS;
    Count::new(1, (slow || late).into())
}

fn size(seen: &mut Observation, channel: Channel, counts: CountsInShort, stale: bool) {
    let CountsInShort { sent, answered, lost, late } = counts;
    let lost = if stale { Some([0, 0]) } else { lost };
    // What met an old queue pair is no trial.
    let sent = if stale { answered } else { sent };
    let missing = sent.saturating_sub(answered + late);
    match lost {
        Some([forward, backward]) => {
            *seen.forward.of_mut(channel) = Count::new(sent, forward.min(sent));
            let arrived = sent.saturating_sub(forward);
            *seen.backward.of_mut(channel) = Count::new(arrived, backward.min(arrived));
        }
        None if missing == 0 => {
            *seen.forward.of_mut(channel) = Count::new(sent, 0);
            *seen.backward.of_mut(channel) = Count::new(sent, 0);
        }
        None => *seen.either.of_mut(channel) = Count::new(sent, missing),
    }
}

/// Loss on one of several paths takes all pings of a label and none of the others; loss on all paths scatters. Nats by which the first
/// is more likely, from how many of all pings were lost and how many of the worst label's.
fn one_path(pings: &PackedPings) -> f64 {
    let Some([label_sent, label_answered]) = pings.worst_label() else { return 0.0 };
    let sent: u32 = pings.counts().iter().map(|counts| counts.sent).sum();
    let answered: u32 = pings.counts().iter().map(|counts| counts.answered + counts.late).sum();
    let (lost, of_label) = (sent.saturating_sub(answered), label_sent.saturating_sub(label_answered));
    if lost < 2 || label_sent < 2 || label_sent >= sent || lost == sent {
        return 0.0;
    }
    // Scattered losses: the chance that one given label loses all of its pings, times the number of labels.
    let mut all_of_label = f64::from(sent) / f64::from(label_sent);
    for at in 0..label_sent.min(lost) {
        all_of_label *= f64::from(lost - at) / f64::from(sent - at);
    }
    if of_label == label_sent { -all_of_label.clamp(1e-9, 1.0).ln() } else { -1.0 }
}
