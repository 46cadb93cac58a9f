//! Whether a lease may run here and now: what no coordinator can talk an agent into.

use super::{Agent, sessions::Refusal};
use rdmascope_model::{Cause, EndpointInfo, Exclusion, Load, Manner, Marks, Now, ProbePlan, Urgency};
use rdmascope_probe::limits;
use std::time::Duration;

impl Agent {
    pub(super) fn lease(&mut self, plan: ProbePlan, setup_within: Duration, now: Now) {
        match self.admit(&plan, now) {
            Ok(endpoint) => self.sessions.open(plan, endpoint, setup_within, now, &mut self.outbox),
            Err(refusal) => self.sessions.refuse(&plan, refusal, now, &mut self.outbox),
        }
    }

    /// Decides whether a lease may run here and now, and on which endpoint.
    fn admit(&mut self, plan: &ProbePlan, now: Now) -> Result<EndpointInfo, Refusal> {
        let rejected = |why: String| Refusal::Failed(Cause::LeaseRejected, why);
        let streams = plan.spec.load() == Load::Streams;
        let paused = self.paused();
        if paused.all || (streams && paused.bandwidth) {
            return Err(Refusal::Excluded(Exclusion::Policy, String::new()));
        }
        limits::admit(plan).map_err(|error| rejected(error.to_string()))?;
        class(plan)?;
        let endpoint = self.endpoints.get(&plan.local).cloned();
        let endpoint = endpoint.ok_or_else(|| {
            Refusal::Failed(Cause::DeviceGone, format!("{} is not on this node", plan.local))
        })?;
        if let Some(cause) = endpoint.unusable {
            return Err(Refusal::Failed(cause, endpoint.unusable_detail));
        }
        if self.sessions.on_endpoint(&plan.local) >= limits::LEASES_PER_ENDPOINT_MAX {
            return Err(rejected(format!("{} already holds as many leases as it may", plan.local)));
        }
        match plan.urgency {
            Urgency::Background => self.mesh.spend(plan, now.mono).map_err(rejected)?,
            Urgency::Operator if streams => {
                self.gates.idle(&plan.local).map_err(Refusal::Busy)?;
                self.beside_a_job(plan, &endpoint, now)?;
            }
            Urgency::Forced if streams => self.beside_a_job(plan, &endpoint, now)?,
            Urgency::Operator | Urgency::Drained | Urgency::Forced => {}
        }
        Ok(endpoint)
    }

    /// A stream on a node that may be working is short, and seldom.
    fn beside_a_job(&mut self, plan: &ProbePlan, endpoint: &EndpointInfo, now: Now) -> Result<(), Refusal> {
        let Some(rate_bps) = endpoint.rate_bps.filter(|rate| *rate > 0) else {
            return Err(Refusal::Excluded(Exclusion::Busy, "the port's rate is not known".to_owned()));
        };
        let rejected =
            |error: limits::LimitExceeded| Refusal::Failed(Cause::LeaseRejected, error.to_string());
        limits::admit_live(plan, rate_bps).map_err(rejected)?;
        let spent = self.gates.spend(plan, rate_bps, now.mono);
        spent.map_err(|why| Refusal::Excluded(Exclusion::Policy, why))
    }
}

/// A stream in another class than 0 may be in the lossless one, where its pauses stop a job: an operator must have named the pair, or
/// the nodes carry none. What runs by itself never leaves the ordinary manner.
fn class(plan: &ProbePlan) -> Result<(), Refusal> {
    if plan.urgency == Urgency::Background && plan.manner != Manner::default() {
        let why = "what runs by itself is measured in the ordinary manner".to_owned();
        return Err(Refusal::Failed(Cause::LeaseRejected, why));
    }
    let Marks { traffic_class, service_level, .. } = plan.manner.marks;
    let marked = traffic_class != 0 || service_level != 0;
    if marked && plan.spec.load() == Load::Streams && plan.urgency == Urgency::Operator {
        let why = format!(
            "a stream in traffic class {traffic_class} (service level {service_level}) beside a job must be forced (--force)"
        );
        return Err(Refusal::Excluded(Exclusion::Policy, why));
    }
    Ok(())
}
