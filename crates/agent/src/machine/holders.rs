//! Asks the machine who holds a device, and never waits for the answer longer than a lease can.

use rdmascope_host::Host;
use std::time::Duration;
use tokio::time::timeout;

/// Longest wait. The peer waits for three seconds until both sides are connected.
const WITHIN: Duration = Duration::from_secs(1);

/// Nobody holds the device, or who does, or why that cannot be told.
pub(crate) async fn held(host: &Host, device: &str) -> Result<(), String> {
    let late =
        || format!("it cannot be told whether a job holds {device}: no answer within {} s", WITHIN.as_secs());
    timeout(WITHIN, host.held(device)).await.unwrap_or_else(|_| Err(late()))
}
