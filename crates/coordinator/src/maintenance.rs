//! The file that says which nodes are in maintenance: looked at every few seconds, read when it has changed.

use crate::hub::Hub;
use rdmascope_config::read_node_states;
use rdmascope_expose::api::MaintenanceFileView;
use rdmascope_model::{Wall, in_one_line};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tracing::{info, warn};

/// A node that is drained is left alone soon enough, and a look costs one call.
const EVERY: Duration = Duration::from_secs(5);

/// What is known of the file.
#[derive(Debug)]
pub(crate) struct MaintenanceFile {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Time and length when it was read last, well or not.
    seen: Option<(SystemTime, u64)>,
    read_at: Option<Wall>,
    problem: Option<String>,
}

impl MaintenanceFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, state: Mutex::default() }
    }

    pub(crate) fn view(&self) -> MaintenanceFileView {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        MaintenanceFileView {
            path: self.path.display().to_string(),
            read_at: state.read_at.map(|at| at.to_string()),
            problem: state.problem.clone(),
        }
    }

    /// Reads the file if it has changed. What it said before holds where it cannot be read or understood.
    fn look(&self, hub: &Hub) {
        let now = hub.read(|_, now| now.wall);
        let seen = stamp(&self.path);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.is_some() && seen == state.seen {
            return;
        }
        state.seen = seen;
        match read_node_states(&self.path) {
            Ok(listed) => {
                info!(path = %self.path.display(), nodes = listed.len(), "nodes in maintenance are read");
                (state.read_at, state.problem) = (Some(now), None);
                drop(state);
                hub.write(|coordinator, now| coordinator.set_listed(listed, now));
            }
            Err(error) => {
                let problem = in_one_line(&error);
                if state.problem.as_ref() != Some(&problem) {
                    warn!(problem, "who is in maintenance is what it was: the file cannot be used");
                }
                state.problem = Some(problem);
            }
        }
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Looks for as long as the program runs.
pub(crate) async fn watch(hub: Arc<Hub>, file: Arc<MaintenanceFile>) {
    loop {
        let (to, looked_at) = (Arc::clone(&hub), Arc::clone(&file));
        // It may lie on a disk that is far away; nobody waits for it.
        if tokio::task::spawn_blocking(move || looked_at.look(&to)).await.is_err() {
            return;
        }
        tokio::time::sleep(EVERY).await;
    }
}
