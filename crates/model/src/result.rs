//! What a probe found: numbers, or a failure with its cause, or a reason why it was not run.

use crate::{EchoStats, Exclusion, Failure, PingStats};
use std::fmt;

/// Latency of one side, nanoseconds: half of each round trip of writes and sends, as `ib_write_lat` and `ib_send_lat` tell it; the whole
/// round trip of each RDMA read, as `ib_read_lat` does. A quantile that the count cannot support is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyStats {
    /// Samples behind the figures.
    pub count: u32,
    /// Smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile, from 300 samples on.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile, from 3,000 samples on.
    pub p999_ns: Option<u64>,
    /// Largest.
    pub max_ns: u64,
    /// Samples during which the measuring thread was preempted; they are within the figures and say how far to trust them.
    pub host_delayed: u32,
}

/// Goodput of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandwidthStats {
    /// Payload bytes completed in the measured window.
    pub bytes: u64,
    /// Length of that window, nanoseconds.
    pub duration_ns: u64,
    /// Average over the window, bits per second.
    pub average_bps: u64,
    /// The slowest tenth of the window, bits per second; absent below 50 completions.
    pub worst_window_bps: Option<u64>,
    /// How much the rate varied: the coefficient of variation over the ten tenths of the window (standard deviation by mean), in
    /// thousandths; absent below 50 completions, and from agents that do not tell.
    pub variation_permille: Option<u32>,
    /// Messages completed in the window.
    pub completions: u32,
}

/// How far the port's own counters moved during the probe, from before the first byte until after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterDelta {
    /// Packets or requests that had to be sent again or came out of order, as far as the driver counts them.
    pub retransmits: Option<u64>,
}

/// One number for each of the eight priorities of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerPriority(pub [u64; 8]);

/// What a probe moved at one end, from before the first byte until after the last: the port's own counters, and processor time.
/// `None`: the driver does not count it, or it could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Packets or requests that were sent again or came out of order.
    pub retransmits: Option<u64>,
    /// Congestion notifications that this end sent (it received packets with a congestion mark).
    pub congestion_notifications_sent: Option<u64>,
    /// Congestion notifications that this end obeyed as a sender.
    pub congestion_notifications_handled: Option<u64>,
    /// Packets received with a congestion mark (ECN).
    pub congestion_marked: Option<u64>,
    /// Packets that the port threw away for want of buffers.
    pub discards: Option<u64>,
    /// PFC pause frames received, by priority.
    pub pause_received: Option<PerPriority>,
    /// Time for which received pause frames stopped this end, by priority, nanoseconds.
    pub pause_received_ns: Option<PerPriority>,
    /// PFC pause frames sent, by priority.
    pub pause_sent: Option<PerPriority>,
    /// Packets sent, by priority: proof of the class that they went out in.
    pub packets_sent: Option<PerPriority>,
    /// Packets received, by priority.
    pub packets_received: Option<PerPriority>,
    /// Processor time of the thread that measured, nanoseconds.
    pub processor_ns: Option<u64>,
}

impl PerPriority {
    /// All priorities together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    fn since(self, before: Self) -> Self {
        Self(std::array::from_fn(|priority| self.0[priority].saturating_sub(before.0[priority])))
    }
}

impl Effects {
    /// How far the counters moved from `before` to these, where both are known. A counter that went back (reset) did not move.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let count =
            |now: Option<u64>, then: Option<u64>| now.zip(then).map(|(now, then)| now.saturating_sub(then));
        let list = |now: Option<PerPriority>, then: Option<PerPriority>| {
            now.zip(then).map(|(now, then)| now.since(then))
        };
        Self {
            retransmits: count(self.retransmits, before.retransmits),
            congestion_notifications_sent: count(
                self.congestion_notifications_sent,
                before.congestion_notifications_sent,
            ),
            congestion_notifications_handled: count(
                self.congestion_notifications_handled,
                before.congestion_notifications_handled,
            ),
            congestion_marked: count(self.congestion_marked, before.congestion_marked),
            discards: count(self.discards, before.discards),
            pause_received: list(self.pause_received, before.pause_received),
            pause_received_ns: list(self.pause_received_ns, before.pause_received_ns),
            pause_sent: list(self.pause_sent, before.pause_sent),
            packets_sent: list(self.packets_sent, before.packets_sent),
            packets_received: list(self.packets_received, before.packets_received),
            processor_ns: count(self.processor_ns, before.processor_ns),
        }
    }
}

/// Why a stream was given up although nothing failed: it would have hurt somebody's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Congestion {
    /// The port was paused for too large a share of the time.
    Pauses = 1,
    /// Too many packets were sent again.
    Retransmits = 2,
    /// Somebody else began to use the port.
    Traffic = 3,
}

impl Congestion {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pauses, Self::Retransmits, Self::Traffic];
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pauses => "the port received pause frames for too large a share of the time",
            Self::Retransmits => "too many packets had to be sent again",
            Self::Traffic => "somebody else began to use the port",
        })
    }
}

/// How one side's probe ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Latency figures.
    Latency(LatencyStats, CounterDelta),
    /// Bandwidth figures.
    Bandwidth(BandwidthStats, CounterDelta),
    /// What datagrams found.
    Pings(Box<PingStats>),
    /// What don't-fragment datagrams over the network device found.
    Echo(EchoStats),
    /// The target of a stream was there until its end; the source tells what was measured.
    Served,
    /// A stream that was given up so as not to hurt a job: what it had seen until then (absent when that is nothing), and why.
    Aborted(Option<BandwidthStats>, CounterDelta, Congestion),
    /// It failed.
    Failed(Failure),
    /// It was not run, for a reason that says nothing about the pair.
    Excluded(Exclusion),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_what_moved_and_what_is_not_known_stays_so() {
        let at = |retransmits, pauses: u64| Effects {
            retransmits,
            discards: Some(5),
            pause_received: Some(PerPriority([pauses; 8])),
            ..Effects::default()
        };
        let moved = at(Some(12), 9).since(&at(Some(2), 4));
        assert_eq!((moved.retransmits, moved.discards, moved.packets_sent), (Some(10), Some(0), None));
        assert_eq!(moved.pause_received.map(|p| p.sum()), Some(40));
        assert_eq!(at(Some(1), 0).since(&at(None, 0)).retransmits, None, "not known before");
        assert_eq!(
            at(Some(1), 0).since(&at(Some(7), 3)),
            at(Some(0), 0).since(&at(Some(0), 0)),
            "a reset moves nothing"
        );
    }
}
