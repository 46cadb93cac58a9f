//! What an operator may ask a sweep for, and what is refused before anything is worked out.

use super::commands::CommandError;
use super::settings::Settings;
use rdmascope_localise::pair::stream_of;
use rdmascope_model::{LatencySpec, Metric, ProbeSpec};
use rdmascope_probe::limits::MESSAGE_BYTES_MAX;

/// Most relabellings of one sweep: what ten show is no chance any more.
const PASSES_MAX: u32 = 10;
/// Most random rounds of a quick sweep.
const QUICK_MAX: u32 = 64;
/// Most endpoints of a sweep whose figures are kept with it and not in the matrix: 56 bytes for each ordered pair.
pub(super) const KEPT_ENDPOINTS_MAX: usize = 1_024;

/// What an operator wants swept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepOrder {
    /// What to measure, in this order.
    pub metrics: Vec<Metric>,
    /// The nodes carry no job.
    pub drained: bool,
    /// Only between these nodes, also where they are in maintenance; `None`: all that are in none.
    pub nodes: Option<Vec<String>>,
    /// Only these RDMA devices; empty: all.
    pub devices: Vec<String>,
    /// DSCP, or service level on InfiniBand.
    pub class: Option<u8>,
    /// Pairs of two rails, too.
    pub cross_rail: bool,
    /// Only so many random partners for each endpoint.
    pub quick: Option<u32>,
    /// How often every pair is measured, each time beside other pairs; 0 is 1.
    pub passes: u32,
    /// Decides which pairs are measured side by side; `None`: another one for each sweep.
    pub seed: Option<u64>,
    /// Bytes of one message, where they are not to be the usual ones; of one metric, latency or bandwidth.
    pub message_bytes: Option<u32>,
}

impl SweepOrder {
    /// What it finds is kept with it: figures of another class or other messages are none of the matrix.
    pub(super) fn keeps(&self) -> bool {
        self.class.unwrap_or(0) > 0 || self.message_bytes.is_some()
    }

    /// What is measured of a metric.
    pub(super) fn spec(&self, metric: Metric) -> ProbeSpec {
        match (ProbeSpec::usual(metric), self.message_bytes) {
            (ProbeSpec::Latency(spec), Some(message_bytes)) => {
                ProbeSpec::Latency(LatencySpec { message_bytes, ..spec })
            }
            (ProbeSpec::Bandwidth(spec), Some(bytes)) => ProbeSpec::Bandwidth(stream_of(spec, bytes)),
            (usual, _) => usual,
        }
    }
}

pub(super) fn check(order: &SweepOrder, settings: &Settings) -> Result<(), CommandError> {
    let refuse = |text: String| Err(CommandError::Conflict(text));
    if order.cross_rail && !settings.rails_routed {
        return refuse("rails are not routed to each other (coordinator.rails_routed)".to_owned());
    }
    if order.passes > PASSES_MAX {
        return refuse(format!("a sweep measures every pair {PASSES_MAX} times at most"));
    }
    check_messages(order)?;
    match order.quick {
        Some(0) => refuse("a quick sweep needs at least one round".to_owned()),
        Some(rounds) if rounds > QUICK_MAX => {
            refuse(format!("a quick sweep has {QUICK_MAX} rounds at most; leave it out for all pairs"))
        }
        _ => Ok(()),
    }
}

fn check_messages(order: &SweepOrder) -> Result<(), CommandError> {
    let Some(bytes) = order.message_bytes else { return Ok(()) };
    let refuse = |text: String| Err(CommandError::Conflict(text));
    match order.metrics[..] {
        [Metric::Latency | Metric::Bandwidth] if (1..=MESSAGE_BYTES_MAX).contains(&bytes) => Ok(()),
        [Metric::Latency | Metric::Bandwidth] => {
            refuse(format!("messages of {bytes} bytes cannot be asked for: 1 to {MESSAGE_BYTES_MAX} can"))
        }
        _ => refuse("message_bytes is for a sweep of latency alone, or of bandwidth alone".to_owned()),
    }
}
