//! What runs beside the test itself: its own coordinator where there is none, and who listens for Ctrl-C.

use super::arguments::SelfcheckFlags;
use crate::daemons;
use crate::failure::{Failure, code};
use rdmascope_config::CoordinatorConfig;
use rdmascope_coordinator::Loaded;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

/// An orderly end takes no longer.
const END_WITHIN: Duration = Duration::from_secs(3);

/// The thread beside the test. Dropping it ends the coordinator in an orderly way.
pub(crate) struct Beside {
    interrupted: Arc<AtomicBool>,
    /// Whoever waits for the end is told by its being gone.
    end: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Where the own coordinator listens, or why it does not.
type Started = Result<Option<SocketAddr>, Failure>;

impl Beside {
    /// Starts it; with `--expect` it is the coordinator, and its address is told.
    pub(crate) fn start(flags: &SelfcheckFlags) -> Result<(Self, Option<SocketAddr>), Failure> {
        let config = flags.expect.map(|_| daemons::coordinator_of_selfcheck(flags)).transpose()?;
        let interrupted = Arc::new(AtomicBool::new(false));
        let (end, ends) = watch::channel(());
        let (told, started) = sync_channel::<Started>(1);
        let own = (Arc::clone(&interrupted), ends);
        let thread = std::thread::spawn(move || {
            let failed = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(both(config, own, &told)),
                Err(error) => {
                    Err(Failure::new(code::FAILED, format!("the program cannot be set up: {error}")))
                }
            };
            // Nobody waits any more where it had started.
            drop(failed.map_err(|failure| told.try_send(Err(failure))));
        });
        let beside = Self { interrupted, end: Some(end), thread: Some(thread) };
        let address = first(&started)?;
        Ok((beside, address))
    }

    /// Somebody wants it to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

fn first(started: &Receiver<Started>) -> Started {
    started.recv().unwrap_or_else(|_| Err(Failure::new(code::FAILED, "the coordinator did not start")))
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.end.take());
        // Its own panic was told already.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Listens for signals while the coordinator, where there is one, does its work.
async fn both(
    config: Option<CoordinatorConfig>,
    (interrupted, ends): (Arc<AtomicBool>, watch::Receiver<()>),
    told: &std::sync::mpsc::SyncSender<Started>,
) -> Result<(), Failure> {
    let no_signals =
        |error: std::io::Error| Failure::new(code::FAILED, format!("signals cannot be taken: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let signals = async {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if interrupted.swap(true, Ordering::Relaxed) {
                // Asked twice: whoever did does not want to wait for what runs, nor for a report.
                std::process::exit(i32::from(code::CHECK_UNKNOWN));
            }
        }
    };
    let work = async {
        let Some(config) = config else {
            drop(told.try_send(Ok(None)));
            ended(ends.clone()).await;
            return Ok(());
        };
        let announce = |address| drop(told.try_send(Ok(Some(address))));
        let shutdown = ended(ends.clone());
        let loaded = Loaded::read(config).map_err(daemons::coordinator_failed)?;
        let (_, never) = mpsc::channel(1);
        rdmascope_coordinator::run(loaded, never, announce, shutdown)
            .await
            .map_err(daemons::coordinator_failed)
    };
    tokio::select! {
        () = signals => Ok(()),
        done = work => done,
        // Somebody who never reads an answer must not hold up the report.
        () = async { ended(ends.clone()).await; tokio::time::sleep(END_WITHIN).await } => Ok(()),
    }
}

async fn ended(mut ends: watch::Receiver<()>) {
    while ends.changed().await.is_ok() {}
}
