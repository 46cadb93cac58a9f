//! What a self-check has learned so far, before anything is judged.

use rdmascope_expose::api::{
    BatchIncastView, BatchNodeView, CauseText, EndpointView, NotTestedView, PairState, Severity, StageView,
};
use rdmascope_localise::batch::{Looked, PairLook};
use rdmascope_model::{Cause, Metric};
use std::collections::BTreeMap;
use std::time::Duration;

/// Everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Names of the nodes of the batch, sorted.
    pub(crate) batch: Vec<String>,
    pub(crate) nodes: Vec<BatchNodeView>,
    /// Those that are to be tested, by name.
    pub(crate) endpoints: Vec<EndpointView>,
    /// What a node says is wrong with an endpoint of it: by its place.
    pub(crate) told: BTreeMap<u32, Vec<Told>>,
    /// What a node says is wrong with itself, where that is no single endpoint: by its name.
    pub(crate) told_of_nodes: BTreeMap<String, Vec<Told>>,
    pub(crate) pairs: Vec<Pair>,
    /// Words for the reasons of pairs without a figure.
    pub(crate) reasons: BTreeMap<String, CauseText>,
    pub(crate) incasts: Vec<BatchIncastView>,
    /// Shares of the ceiling, and packets sent again, of each incast that ran.
    pub(crate) incast_figures: Vec<(Option<f64>, Option<u64>)>,
    /// Pairs that were measured again, with nothing beside them.
    pub(crate) alone: Vec<Pair>,
    pub(crate) not_tested: Vec<NotTestedView>,
    pub(crate) stages: Vec<StageView>,
}

/// What a node says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) next_step: String,
}

/// One ordered pair and stage, by places of endpoints.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) source: u32,
    pub(crate) target: u32,
    pub(crate) metric: Metric,
    pub(crate) state: PairState,
    pub(crate) value: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    pub(crate) retransmits: Option<u64>,
    pub(crate) ceiling_bps: Option<u64>,
    pub(crate) reason: Option<String>,
}

impl Pair {
    /// The probe failed because an agent could not be reached: that says nothing about the pair.
    pub(crate) fn is_unreached(&self) -> bool {
        let agents = [Cause::AgentGone, Cause::PeerGone, Cause::AgentSilent, Cause::PeerSilent];
        let reason = self.reason.as_deref();
        self.state == PairState::Failed && agents.iter().any(|cause| Some(cause.id()) == reason)
    }

    pub(crate) fn look(&self) -> PairLook {
        let looked = match (self.state, self.value) {
            (PairState::Measured, Some(value)) => Looked::Measured {
                value,
                p99_ns: self.p99_ns,
                retransmits: self.retransmits,
                ceiling_bps: self.ceiling_bps,
            },
            (PairState::Failed, _) if !self.is_unreached() => Looked::Failed,
            _ => Looked::NotTested,
        };
        PairLook { source: self.source, target: self.target, metric: self.metric, looked }
    }
}

impl Facts {
    pub(crate) fn not_tested(&mut self, what: &str, reason: &str, next_step: &str) {
        let own = NotTestedView {
            what: what.to_owned(),
            reason: reason.to_owned(),
            next_step: next_step.to_owned(),
        };
        if !self.not_tested.contains(&own) {
            self.not_tested.push(own);
        }
    }

    pub(crate) fn stage(&mut self, name: &str, status: Severity, text: String, took: Duration) {
        self.stages.push(StageView { name: name.to_owned(), status, text, seconds: took.as_secs_f64() });
    }

    /// The place of an endpoint.
    pub(crate) fn place(&self, name: &str) -> Option<u32> {
        let at = self.endpoints.binary_search_by(|endpoint| endpoint.name.as_str().cmp(name)).ok()?;
        u32::try_from(at).ok()
    }

    /// The endpoint at a place.
    pub(crate) fn at(&self, place: u32) -> Option<&EndpointView> {
        self.endpoints.get(place as usize)
    }

    pub(crate) fn name(&self, place: u32) -> &str {
        self.at(place).map_or("?", |endpoint| endpoint.name.as_str())
    }
}
