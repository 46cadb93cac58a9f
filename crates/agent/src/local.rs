//! The socket for schedulers on this machine: the verdict as it is known, within milliseconds, and the coordinator's leave to drain.

use crate::VERSION;
use crate::http::Shown;
use crate::machine::News;
use crate::machine::schedule::parts;
use rdmascope_control::agent::{Part, faults_now};
use rdmascope_expose::api::{
    AGENT_SOCKET, ASK_LEAVE, ASK_VERDICT, HeldFinding, LeaveView, LookedView, NodeVerdictView,
};
use rdmascope_host::Clock;
use rdmascope_link::DrainFault;
use rdmascope_model::{Finding, Now, Status};
use std::cmp::Reverse;
use std::future::pending;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as Dialled;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

/// For root and the agent's own group; others of the machine could spend the cluster's leaves.
const MODE: u32 = 0o660;
/// One health check and some prologs at the same time; more wait.
const CONNECTIONS_MAX: usize = 16;
/// A question is one word.
const QUESTION_BYTES_MAX: u64 = 64;
/// From its being accepted until a connection is answered; who asks waits for a second at most.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The coordinator's word takes a few milliseconds; who asks must have its answer within a second, whatever it is.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);
/// Findings of one answer: more than any machine has, the worst first.
const FINDINGS_MAX: usize = 256;

/// Takes the socket, where it can be had; an agent is none the worse without.
fn listen(folder: &Path) -> Option<UnixListener> {
    let path = folder.join(AGENT_SOCKET);
    match bind(&path) {
        Ok(listener) => Some(listener),
        Err(error) => {
            info!(socket = %path.display(), %error, "no local socket: schedulers on this machine get no verdict");
            None
        }
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    if Dialled::connect(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another agent listens there"));
    }
    // Left behind by one that was killed. What is no socket is not ours.
    if path.symlink_metadata().is_ok_and(|there| there.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(MODE))?;
    Ok(listener)
}

/// What answers are made of.
pub(crate) struct Local {
    shown: Arc<Shown>,
    clock: Clock,
    node: String,
    news: mpsc::Sender<News>,
}

impl Local {
    pub(crate) fn new(shown: &Arc<Shown>, clock: Clock, node: &str, news: &mpsc::Sender<News>) -> Self {
        Self { shown: Arc::clone(shown), clock, node: node.to_owned(), news: news.clone() }
    }

    /// Serves until it is dropped.
    pub(crate) async fn serve(self, folder: PathBuf) {
        let Some(listener) = listen(&folder) else { return pending().await };
        let this = Arc::new(self);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                    Ok((stream, _)) => {
                        let this = Arc::clone(&this);
                        connections.spawn(async move {
                            let answered = timeout(ANSWER_WITHIN, this.answer(stream)).await;
                            if let Ok(Err(error)) | Err(error) = answered.map_err(io::Error::from) {
                                debug!(%error, "a question at the local socket was not answered");
                            }
                        });
                    }
                    // No file descriptor is left.
                    Err(error) => {
                        debug!(%error, "a connection to the local socket could not be accepted");
                        sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn answer(&self, stream: UnixStream) -> io::Result<()> {
        let (asks, mut answers) = stream.into_split();
        let mut line = String::new();
        BufReader::new(asks.take(QUESTION_BYTES_MAX)).read_line(&mut line).await?;
        let (mut view, faults) = self.verdict(self.clock.now());
        match line.trim_end() {
            ASK_VERDICT => {}
            ASK_LEAVE => view.leave = Some(self.leave(&view, faults).await),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "no question that is known")),
        }
        // This type always has a JSON form.
        let mut text = serde_json::to_vec(&view).unwrap_or_default();
        text.push(b'\n');
        answers.write_all(&text).await
    }

    /// What is known now, and for which faults the node may be drained.
    fn verdict(&self, now: Now) -> (NodeVerdictView, Vec<DrainFault>) {
        let (connected, settle) = self.shown.connected_and_settle();
        let seen = self.shown.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = parts(&seen.read_at);
        let (faults, cannot_say) = match faults_now(&seen.hard, settle, &parts, now.mono) {
            Ok(faults) => (faults, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let is_hard = |f: &Finding| faults.iter().any(|fault| fault.id == f.id && fault.subject == f.subject);
        let mut bad: Vec<&Finding> = seen.findings.iter().filter(|f| f.status != Status::Ok).collect();
        bad.sort_by_key(|f| (Reverse(is_hard(f)), Reverse(f.status)));
        let left_out = bad.len().saturating_sub(FINDINGS_MAX);
        let view = NodeVerdictView {
            version: VERSION.to_owned(),
            node: self.node.clone(),
            connected,
            cannot_say,
            parts: parts.iter().map(|part| looked(part, now)).collect(),
            findings: bad.into_iter().take(FINDINGS_MAX).map(|f| held(f, is_hard(f))).collect(),
            findings_left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
            leave: None,
        };
        let fault = |f: &&Finding| DrainFault { id: f.id.to_string(), subject: f.subject.clone() };
        let faults = faults.iter().map(fault).collect();
        (view, faults)
    }

    /// The coordinator's word, or why it was not asked.
    async fn leave(&self, view: &NodeVerdictView, faults: Vec<DrainFault>) -> LeaveView {
        let no = |why: &str| LeaveView { granted: false, why: why.to_owned() };
        if let Some(why) = &view.cannot_say {
            return no(why);
        }
        if faults.is_empty() {
            return no("no hard local fault stands");
        }
        let (asker, answer) = oneshot::channel();
        if self.news.try_send(News::AskDrain(faults, asker)).is_err() {
            return no("the agent is too busy to ask the coordinator");
        }
        match timeout(LEAVE_WITHIN, answer).await {
            Ok(Ok(answer)) => LeaveView { granted: answer.leave, why: answer.why },
            _ => no("the coordinator gave no answer: it is slow, or older than this agent"),
        }
    }
}

fn looked(part: &Part, now: Now) -> LookedView {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    LookedView {
        part: part.name.to_owned(),
        age_ms: part.read_at.map(|at| millis(now.mono.since(at))),
        every_ms: millis(part.every),
    }
}

fn held(finding: &Finding, hard: bool) -> HeldFinding {
    HeldFinding {
        id: finding.id.to_string(),
        status: finding.status.into(),
        subject: finding.subject.clone(),
        summary: finding.summary.clone(),
        next_step: finding.next_step.clone(),
        hard,
    }
}

#[cfg(test)]
mod tests;
