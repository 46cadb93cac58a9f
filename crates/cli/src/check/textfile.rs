//! What one look at the machine tells, for the textfile collector of node_exporter: where Prometheus does not reach an agent.

use super::Seen;
use crate::failure::{Failure, code};
use crate::replace::replace;
use rdmascope_checks::Policy;
use rdmascope_expose::api::PauseLevel;
use rdmascope_expose::metrics::{self, AgentInput};
use rdmascope_model::Finding;
use std::collections::BTreeMap;
use std::path::Path;

/// The collector reads names that end in `.prom`.
const NAME: &str = "rdmascope.prom";

/// Replaces the file; the collector never reads a part of it.
pub(super) fn write(
    folder: &Path,
    seen: &Seen,
    findings: &[Finding],
    policy: &Policy,
) -> Result<(), Failure> {
    let file = folder.join(NAME);
    replace(&file, text(seen, findings, policy).as_bytes()).map_err(|error| {
        Failure::new(code::CHECK_UNKNOWN, format!("{} cannot be written: {error}", file.display()))
    })
}

fn text(seen: &Seen, findings: &[Finding], policy: &Policy) -> String {
    metrics::look(&AgentInput {
        version: env!("CARGO_PKG_VERSION"),
        snapshot: Some(&seen.now),
        findings,
        kernel_log: &seen.log,
        log_class: &|rule| policy.rules.get(rule).map_or("unknown", |rule| rule.class.word()),
        expected_rate_bps: &|device, port| policy.manifest.of(device, Some(port)).rate_bps,
        took: &BTreeMap::new(),
        done_at: &BTreeMap::from([("checks", seen.now.taken_at)]),
        retransmits: rdmascope_checks::counters::retransmits,
        paused: PauseLevel::None,
        uplink_connected: false,
        mesh: None,
        pairs: &[],
    })
}
