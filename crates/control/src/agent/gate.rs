//! What a stream needs on a node that may be working: an idle port, and its small share of the port's rate.
//!
//! Who holds the device is asked right before the stream begins ([`super::Action::Look`]), for a job may begin between lease and
//! first byte; what the port moves is told all the time.

use rdmascope_model::{EndpointName, Mono, ProbePlan, ProbeSpec, Role};
use rdmascope_probe::limits::{LIVE_DUTY_PERCENT, LIVE_TARGET_STREAMS, live_bytes_max};
use std::collections::BTreeMap;

/// Nanoseconds in a second, and bits in a byte.
const SECOND: u64 = 1_000_000_000;

/// The ports of this node, and what streams have taken of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Gates {
    ports: BTreeMap<EndpointName, Result<(), String>>,
    /// When each port's allowance was last worked out, for sending and for receiving, and what it was, bytes.
    allowances: BTreeMap<(EndpointName, bool), (Mono, u64)>,
}

impl Gates {
    /// The ports were looked at; those that are not named are not known.
    pub(super) fn told(&mut self, ports: BTreeMap<EndpointName, Result<(), String>>) {
        self.ports = ports;
    }

    /// Whether a port is idle.
    ///
    /// # Errors
    /// Why not, or why that is not known, in words.
    pub(super) fn idle(&self, name: &EndpointName) -> Result<(), String> {
        self.ports.get(name).cloned().unwrap_or_else(|| Err("the port was not looked at yet".to_owned()))
    }

    /// Takes what a stream may move from its port's allowance, which fills at [`LIVE_DUTY_PERCENT`] of the port's rate: a coordinator that
    /// sends one stream after the other is refused, not obeyed.
    ///
    /// # Errors
    /// When it can be had, in words.
    pub(super) fn spend(&mut self, plan: &ProbePlan, rate_bps: u64, now: Mono) -> Result<(), String> {
        let ProbeSpec::Bandwidth(spec) = plan.spec else { return Ok(()) };
        let sends = plan.role == Role::Source;
        // The target of an incast serves several at once; its port is filled once, by all of them together, so long.
        let full = live_bytes_max(rate_bps) * if sends { 1 } else { LIVE_TARGET_STREAMS };
        let bytes_per_second = rate_bps / 8 * LIVE_DUTY_PERCENT / 100;
        let (since, had) = self.allowances.get(&(plan.local.clone(), sends)).copied().unwrap_or((now, full));
        let gained =
            u128::from(now.0.saturating_sub(since.0)) * u128::from(bytes_per_second) / u128::from(SECOND);
        let has = had.saturating_add(u64::try_from(gained).unwrap_or(u64::MAX)).min(full);
        let Some(left) = has.checked_sub(spec.bytes_max) else {
            let wait = (spec.bytes_max - has).div_ceil(bytes_per_second.max(1));
            return Err(format!(
                "streams beside a job get {LIVE_DUTY_PERCENT} % of the rate of {}, and that is used up: again in {wait} s",
                plan.local
            ));
        };
        self.allowances.insert((plan.local.clone(), sends), (now, left));
        Ok(())
    }
}
