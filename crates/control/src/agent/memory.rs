//! The last result of each pair that starts here, so that a restarted coordinator gets its matrix back.

use rdmascope_link::{ProbeResult, RESULTS_PER_FRAME_MAX};
use rdmascope_model::{EndpointName, Metric, Mono, Now, Outcome, Role, Wall};
use std::collections::BTreeMap;

/// Pairs that are remembered: 8 endpoints with 4,095 peers and one metric; about 300 bytes each.
const PAIRS_MAX: usize = 32_768;

/// What the clock may be off by without having been set, milliseconds: it is slewed by less.
const STEP_MIN_MS: u64 = 1_000;

/// What is remembered.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// With the time of the steady clock: the other one may be set meanwhile.
    last: BTreeMap<(EndpointName, EndpointName, Metric), (Mono, ProbeResult)>,
}

impl Memory {
    /// Keeps a result that says something about the pair from here to the peer.
    pub(super) fn keep(&mut self, result: &ProbeResult, now: Now) {
        // The target of a bandwidth probe speaks of the opposite direction, which the source remembers.
        let Some(metric) = result.metric else { return };
        let about_this_direction = result.role == Role::Source || metric == Metric::Latency;
        let passing = matches!(result.outcome, Outcome::Excluded(_) | Outcome::Served | Outcome::Aborted(..));
        if !about_this_direction || passing {
            return;
        }
        let key = (result.local.clone(), result.peer.clone(), metric);
        if self.last.len() >= PAIRS_MAX && !self.last.contains_key(&key) {
            let oldest = self.last.iter().min_by_key(|(_, (at, _))| *at).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.last.remove(&key));
        }
        self.last.insert(key, (now.mono, ProbeResult { lease: None, effects: None, ..result.clone() }));
    }

    /// Everything, in portions that fit into a frame, each with its age by the clock as it is now.
    pub(super) fn all(&self, now: Now) -> Vec<Vec<ProbeResult>> {
        let dated = |(at, result): &(Mono, ProbeResult)| {
            let age = u64::try_from(now.mono.since(*at).as_millis()).unwrap_or(u64::MAX);
            let by_age = Wall(now.wall.0.saturating_sub(age));
            // The two clocks are rounded differently, and the same result must not look like a newer one.
            let stepped = by_age.0.abs_diff(result.measured_at.0) > STEP_MIN_MS;
            let measured_at = if stepped { by_age } else { result.measured_at };
            ProbeResult { measured_at, ..result.clone() }
        };
        let results: Vec<_> = self.last.values().map(dated).collect();
        results.chunks(RESULTS_PER_FRAME_MAX).map(<[_]>::to_vec).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_model::{Cause, Failure, Side, Step};

    fn now(seconds: u64, wall: u64) -> Now {
        Now { mono: Mono(seconds * 1_000_000_000), wall: Wall(wall) }
    }

    fn dated(memory: &Memory, at: Now) -> Wall {
        memory.all(at)[0][0].measured_at
    }

    #[test]
    fn a_clock_that_is_set_does_not_change_how_old_a_result_is() {
        let evidence = String::new();
        let failure = Failure { cause: Cause::PortDown, step: Step::Measure, side: Side::Source, evidence };
        let result = ProbeResult {
            lease: None,
            local: "a/d/1".parse().unwrap(),
            peer: "b/d/1".parse().unwrap(),
            role: Role::Source,
            metric: Some(Metric::Latency),
            measured_at: Wall(5_000_000),
            outcome: Outcome::Failed(failure),
            effects: None,
            evidence: String::new(),
        };
        let mut memory = Memory::default();
        memory.keep(&result, now(10, 5_000_000));
        assert_eq!(dated(&memory, now(70, 5_060_001)), Wall(5_000_000), "it is told as it was");
        assert_eq!(dated(&memory, now(70, 8_660_000)), Wall(8_600_000), "the clock was set an hour ahead");
        assert_eq!(dated(&memory, now(70, 1_460_000)), Wall(1_400_000), "and an hour back");
    }
}
