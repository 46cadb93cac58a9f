//! How much streams may load what they share with jobs: the uplinks of a leaf, and each port of a node that may be working.
//!
//! Agents refuse what exceeds their own share ([`rdmascope_probe::limits`]); the coordinator asks so that they need not.

use super::Coordinator;
use super::lease::Lease;
use super::work::Job;
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{BandwidthSpec, Load, Mono, Outcome, ProbeSpec, Urgency};
use rdmascope_probe::limits::{LIVE_DUTY_PERCENT, LIVE_STREAM_MAX, live_bytes_max};
use std::collections::BTreeMap;
use std::time::Duration;

/// Leases take differently long on their way to the agent, which counts from their arrival.
const JITTER: Duration = Duration::from_millis(100);
/// How long a port rests after a stream of full length on a node that may be working.
#[expect(clippy::cast_possible_truncation, reason = "a percentage")]
pub(super) const LIVE_REST: Duration =
    LIVE_STREAM_MAX.saturating_mul(100 / LIVE_DUTY_PERCENT as u32).saturating_add(JITTER);

/// What streams occupy now.
#[derive(Clone, Debug, Default)]
pub(super) struct Caps {
    /// Streams to or from another leaf, by leaf.
    uplinks: BTreeMap<String, u32>,
    /// Until when a port sends (`true`) or receives no further stream beside a job.
    rests: BTreeMap<(EndpointIndex, bool), Mono>,
}

impl Caps {
    /// When the next port has rested.
    pub(super) fn next_rested(&self) -> Option<Mono> {
        self.rests.values().copied().min()
    }

    /// Forgets rests that are over; true when there were some, so that waiting jobs may start.
    pub(super) fn rested(&mut self, now: Mono) -> bool {
        let before = self.rests.len();
        self.rests.retain(|_, until| *until > now);
        self.rests.len() != before
    }
}

/// A stream on nodes that may be working.
fn is_live(job: &Job) -> bool {
    job.spec.load() == Load::Streams && matches!(job.urgency, Urgency::Operator | Urgency::Forced)
}

impl Coordinator {
    /// A job must wait: too many streams cross the uplinks of one of its leaves, or one of its ports has to rest.
    pub(super) fn is_capped(&self, job: &Job, now: Mono) -> bool {
        let full = |leaf: &str| self.room(leaf) == 0;
        let rests = |index, sends| self.caps.rests.get(&(index, sends)).is_some_and(|until| *until > now);
        self.uplinks(job).any(full) || (is_live(job) && (rests(job.source, true) || rests(job.target, false)))
    }

    /// Jobs that start together must wait: each has room, but not all of them on the uplinks of one leaf.
    pub(super) fn are_capped(&self, jobs: &[Job]) -> bool {
        self.crossing(jobs).into_iter().any(|(leaf, streams)| streams > self.room(leaf))
    }

    /// How many more streams may cross the uplinks of a leaf now.
    fn room(&self, leaf: &str) -> u32 {
        let running = self.caps.uplinks.get(leaf).copied().unwrap_or(0);
        self.settings.streams_per_leaf.saturating_sub(running)
    }

    /// The leaf whose uplinks jobs that start together would load with more streams than ever may cross them, and how many.
    pub(super) fn never_fits(&self, jobs: &[Job]) -> Option<(&str, u32)> {
        let most = self.settings.streams_per_leaf;
        self.crossing(jobs).into_iter().find(|(_, streams)| *streams > most)
    }

    /// Streams of these jobs across the uplinks of each leaf.
    fn crossing(&self, jobs: &[Job]) -> BTreeMap<&str, u32> {
        let mut crossing = BTreeMap::new();
        for leaf in jobs.iter().flat_map(|job| self.uplinks(job)) {
            *crossing.entry(leaf).or_default() += 1;
        }
        crossing
    }

    /// What both agents are asked for: on nodes that may be working, no more than the slower port allows beside a job.
    pub(super) fn asked(&self, job: &Job) -> ProbeSpec {
        match job.spec {
            ProbeSpec::Bandwidth(spec) if is_live(job) => {
                let most = self.slower_rate(job.source, job.target).map_or(spec.bytes_max, live_bytes_max);
                ProbeSpec::Bandwidth(BandwidthSpec { bytes_max: spec.bytes_max.min(most), ..spec })
            }
            other => other,
        }
    }

    /// A lease for this begins now. Answers the leaves whose uplinks it crosses.
    pub(super) fn stream_begins(&mut self, job: &Job, now: Mono) -> Vec<String> {
        let uplinks: Vec<String> = self.uplinks(job).map(str::to_owned).collect();
        for leaf in &uplinks {
            *self.caps.uplinks.entry(leaf.clone()).or_default() += 1;
        }
        if let (ProbeSpec::Bandwidth(spec), true) = (self.asked(job), is_live(job))
            && let Some(rate) = self.slower_rate(job.source, job.target)
        {
            let share = (rate / 8 * LIVE_DUTY_PERCENT / 100).max(1);
            let rest = Duration::from_millis(spec.bytes_max.saturating_mul(1_000).div_ceil(share)) + JITTER;
            self.caps.rests.insert((job.source, true), now.after(rest));
            self.caps.rests.insert((job.target, false), now.after(rest));
        }
        uplinks
    }

    /// The lease is over, which crossed the uplinks of these leaves.
    pub(super) fn stream_ends(&mut self, uplinks: &[String]) {
        for leaf in uplinks {
            if let Some(running) = self.caps.uplinks.get_mut(leaf) {
                *running = running.saturating_sub(1);
            }
        }
    }

    /// The leaves whose uplinks a stream crosses; none while both ends are on one leaf, or nothing is known of either.
    fn uplinks(&self, job: &Job) -> impl Iterator<Item = &str> {
        let streams = job.spec.load() == Load::Streams;
        let leaf = |index| self.place_names(index).leaf.filter(|_| streams);
        let ends = [leaf(job.source), leaf(job.target)];
        ends.into_iter().flatten().filter(move |_| ends[0] != ends[1])
    }

    /// What a job sends where nothing goes wrong, bytes.
    pub(super) fn usual_bytes(&self, job: &Job) -> u64 {
        usual_bytes(&self.asked(job), self.slower_rate(job.source, job.target))
    }

    /// The most that both directions of a job may send, bytes.
    pub(super) fn bytes_at_most(&self, job: &Job) -> u64 {
        let most = most_bytes(&self.asked(job));
        match (job.spec, self.slower_rate(job.source, job.target)) {
            // A window lasts four times as long at most.
            (ProbeSpec::Bandwidth(spec), Some(rate)) => {
                most.min(bytes_in(rate, spec.warmup + 4 * spec.duration))
            }
            _ => most,
        }
    }

    /// Signalling rate of the slower end, bits per second.
    pub(super) fn slower_rate(&self, source: EndpointIndex, target: EndpointIndex) -> Option<u64> {
        let rate = |index| self.members.endpoint(index)?.info.rate_bps;
        Some(rate(source)?.min(rate(target)?))
    }
}

/// The most that a probe sends, both directions together, bytes.
pub(super) fn most_bytes(spec: &ProbeSpec) -> u64 {
    match spec {
        ProbeSpec::Latency(s) => 2 * u64::from(s.message_bytes) * u64::from(s.samples + s.warmup),
        ProbeSpec::Bandwidth(s) => s.bytes_max,
        // A path MTU is at most 4096 bytes, and each ping is answered.
        ProbeSpec::Pings(s) => 2 * (64 + 4_096) * u64::from(s.count) * u64::from(s.labels),
        ProbeSpec::Echo(s) => 2 * u64::from(s.payload_bytes) * u64::from(s.count),
    }
}

/// What a port of this rate sends in so long.
pub(super) fn bytes_in(rate_bps: u64, time: Duration) -> u64 {
    u64::try_from(u128::from(rate_bps / 8) * time.as_micros() / 1_000_000).unwrap_or(u64::MAX)
}

/// What a lease has sent, as far as its result tells; else the most that it may have.
pub(super) fn sent(lease: &Lease) -> u64 {
    let told = lease.told();
    let stream = match (told[0].as_ref().map(|told| &told.outcome), lease.job.spec) {
        (Some(Outcome::Bandwidth(stats, _)), ProbeSpec::Bandwidth(spec)) if !lease.job.manner.both_ways => {
            Some(stats.bytes.saturating_add(bytes_in(stats.average_bps, spec.warmup)))
        }
        _ => None,
    };
    stream.map_or(lease.bytes_at_most, |bytes| bytes.min(lease.bytes_at_most))
}

/// What a probe sends over ports of this rate where nothing goes wrong.
pub(super) fn usual_bytes(spec: &ProbeSpec, rate_bps: Option<u64>) -> u64 {
    let most = most_bytes(spec);
    match (spec, rate_bps) {
        (ProbeSpec::Bandwidth(stream), Some(rate)) => {
            bytes_in(rate, stream.warmup + stream.duration).min(most)
        }
        _ => most,
    }
}
