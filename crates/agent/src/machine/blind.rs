//! Says once at start what cannot be seen of this machine, so that nobody takes silence for health.

use super::Seen;
use rdmascope_host::sight;
use rdmascope_model::Reading;
use tracing::info;

/// One line for each thing that should be there and could not be looked at, with what it takes to see it.
pub(super) fn tell(capabilities: &Reading<u64>, seen: &Seen) {
    for spot in sight(&seen.snapshot, capabilities, &seen.log) {
        if let Reading::Failed(why) = &spot.seen {
            info!(what = spot.what, why, needs = spot.needs, "cannot be seen on this machine");
        }
    }
}
