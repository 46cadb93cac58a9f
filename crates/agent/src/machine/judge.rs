//! Runs the checks over what was read, with what is remembered of before.

use super::Seen;
use rdmascope_checks::{Look, Past, Policy};
use rdmascope_control::agent::Watch;
use rdmascope_link::{Fact, FindingBrief, NodeEvent};
use rdmascope_model::{EndpointInfo, Mono, Now, Snapshot};

/// The checks with their memory.
pub(super) struct Judge {
    pub(super) policy: Policy,
    past: Past,
    watch: Watch,
}

/// What one run gave.
pub(super) struct Judgement {
    pub(super) findings: Vec<FindingBrief>,
    pub(super) facts: Vec<Fact>,
    pub(super) events: Vec<NodeEvent>,
}

impl Judge {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, past: Past::new(), watch: Watch::default() }
    }

    /// The endpoints of `node` on these devices, on the rails of the manifest.
    pub(super) fn endpoints(&self, snapshot: &Snapshot, node: &str, only: &[String]) -> Vec<EndpointInfo> {
        rdmascope_host::endpoints(snapshot, node, only, &self.policy.manifest)
    }

    /// Counters were read.
    pub(super) fn remember(&mut self, snapshot: &Snapshot, at: Mono) {
        self.past.observe(snapshot, at);
    }

    /// Something may get worse, or count as failed, by time alone.
    pub(super) fn is_settling(&self) -> bool {
        self.watch.is_settling()
    }

    pub(super) fn run(&mut self, seen: &mut Seen, now: Now) -> Judgement {
        let look = Look { now: &seen.snapshot, past: &self.past, log: &seen.log, policy: &self.policy };
        self.watch.look(&look, rdmascope_checks::run(&look), now);
        seen.findings.clear();
        seen.findings.extend_from_slice(self.watch.shown());
        seen.hard = self.watch.hard_faults(&self.policy.rules);
        Judgement {
            findings: self.watch.standing(),
            facts: self.watch.facts(),
            events: self.watch.take_events(),
        }
    }
}
