//! Reads a daemon's settings again when SIGHUP asks for it, and refuses what the daemon could not start with.

use crate::failure::{Failure, code};
use crate::logs::Logs;
use rdmascope_config::LogConfig;
use rdmascope_host::service_manager;
use std::convert::Infallible;
use std::io::IsTerminal as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

/// Gives what `read` reads to the daemon each time that somebody asks for it, for as long as the daemon runs. In a terminal SIGHUP goes on to
/// mean that the terminal is gone, which ends the daemon.
pub(crate) async fn whenever_asked<T: Send + 'static>(
    (mut log, logs): (LogConfig, Logs),
    read: impl Fn() -> Result<(LogConfig, T), Failure> + Clone + Send + 'static,
    daemon: mpsc::Sender<T>,
) -> Result<Infallible, Failure> {
    if std::io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    let unheard = |error| Failure::new(code::FAILED, format!("the program cannot be set up: {error}"));
    let mut asked = signal(SignalKind::hangup()).map_err(unheard)?;
    loop {
        asked.recv().await;
        service_manager::reloading();
        // Files may lie on a slow disk, and the one thread has probes to serve.
        let done = match spawn_blocking(read.clone()).await {
            Ok(done) => done,
            Err(error) => Err(Failure::new(code::FAILED, error.to_string())),
        };
        match done.and_then(|(new, given)| logs.change(&new).map(|()| (new, given))) {
            Ok((new, given)) => {
                if new.level != log.level {
                    info!(level = new.level.as_str(), "the log level of the configuration has changed");
                }
                if new.format != log.format {
                    warn!(keys = "log.format", "what these keys say now applies only after a restart");
                }
                log.level = new.level;
                // Nobody takes it: the daemon ends.
                let _ = daemon.send(given).await;
            }
            Err(failure) => service_manager::refused(failure.text()),
        }
    }
}
