//! The kernel log as the watcher sees it: what a rule knows, or why nobody can look.

use rdmascope_checks::log::Rules;
use rdmascope_host::{KernelLogReader, LogFollower};
use rdmascope_model::{KernelLog, Reading};
use std::path::PathBuf;
use tracing::warn;

/// The log that is followed; one that cannot be is waited for in vain.
pub(super) struct FollowedLog(Option<LogFollower>);

impl FollowedLog {
    /// Begins to follow; with it what is to be shown until lines come.
    pub(super) fn open(file: Option<PathBuf>, rules: &Rules) -> (Self, Reading<KernelLog>) {
        match KernelLogReader::new(file).follow(rules) {
            Ok(follower) => {
                let log = follower.log();
                (Self(Some(follower)), Reading::Value(log))
            }
            Err(why) => {
                warn!(why, "the kernel log cannot be followed");
                (Self(None), Reading::Failed(why))
            }
        }
    }

    /// What is known of the log, when that has changed; may be dropped and called again without loss.
    pub(super) async fn next(&mut self) -> Reading<KernelLog> {
        let Some(follower) = &mut self.0 else { return std::future::pending().await };
        match follower.next().await {
            Ok(_) => Reading::Value(follower.log()),
            Err(why) => {
                warn!(why, "the kernel log can no longer be followed");
                self.0 = None;
                Reading::Failed(why)
            }
        }
    }
}
