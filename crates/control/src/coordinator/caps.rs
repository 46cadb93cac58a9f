//! How much streams may load what they share with jobs: the uplinks of a leaf, and each port of a node that may be working.
//!
//! Agents refuse what exceeds their own share ([`rdmascope_probe::limits`]); the coordinator asks so that they need not.

use super::Coordinator;
use super::work::Job;
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{BandwidthSpec, Load, Mono, ProbeSpec, Urgency};
use rdmascope_probe::limits::{LIVE_DUTY_PERCENT, live_bytes_max};
use std::collections::BTreeMap;
use std::time::Duration;

/// Leases take differently long on their way to the agent, which counts from their arrival.
const JITTER: Duration = Duration::from_millis(100);

/// What streams occupy now.
#[derive(Debug, Default)]
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
        let full = |leaf: &String| {
            self.caps.uplinks.get(leaf).is_some_and(|running| *running >= self.settings.streams_per_leaf)
        };
        let rests = |index, sends| self.caps.rests.get(&(index, sends)).is_some_and(|until| *until > now);
        self.uplinks(job).iter().any(full)
            || (is_live(job) && (rests(job.source, true) || rests(job.target, false)))
    }

    /// What both agents are asked for: on nodes that may be working, no more than the slower port allows beside a job.
    pub(super) fn asked(&self, job: &Job) -> ProbeSpec {
        match job.spec {
            ProbeSpec::Bandwidth(spec) if is_live(job) => {
                let most = self.slower_rate(job).map_or(spec.bytes_max, live_bytes_max);
                ProbeSpec::Bandwidth(BandwidthSpec { bytes_max: spec.bytes_max.min(most), ..spec })
            }
            other => other,
        }
    }

    /// A lease for this begins now.
    pub(super) fn stream_begins(&mut self, job: &Job, now: Mono) {
        for leaf in self.uplinks(job) {
            *self.caps.uplinks.entry(leaf).or_default() += 1;
        }
        let (ProbeSpec::Bandwidth(spec), true) = (self.asked(job), is_live(job)) else { return };
        let Some(rate) = self.slower_rate(job) else { return };
        let share = (rate / 8 * LIVE_DUTY_PERCENT / 100).max(1);
        let rest = Duration::from_millis(spec.bytes_max.saturating_mul(1_000).div_ceil(share)) + JITTER;
        self.caps.rests.insert((job.source, true), now.after(rest));
        self.caps.rests.insert((job.target, false), now.after(rest));
    }

    /// The lease is over.
    pub(super) fn stream_ends(&mut self, job: &Job) {
        for leaf in self.uplinks(job) {
            if let Some(running) = self.caps.uplinks.get_mut(&leaf) {
                *running = running.saturating_sub(1);
            }
        }
    }

    /// The leaves whose uplinks a stream crosses; none while both ends are on one leaf, or nothing is known of either.
    fn uplinks(&self, job: &Job) -> Vec<String> {
        if job.spec.load() != Load::Streams {
            return Vec::new();
        }
        let leaf = |index| self.settings.leaves.get(&self.matrix.name(index).node);
        match (leaf(job.source), leaf(job.target)) {
            (Some(a), Some(b)) if a == b => Vec::new(),
            (a, b) => a.into_iter().chain(b).cloned().collect(),
        }
    }

    fn slower_rate(&self, job: &Job) -> Option<u64> {
        let rate = |index| self.members.endpoint(index)?.info.rate_bps;
        Some(rate(job.source)?.min(rate(job.target)?))
    }
}
