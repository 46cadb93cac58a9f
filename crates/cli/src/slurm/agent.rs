//! Asks the agent on this machine, by its local socket, with an end to all waiting: slurmd waits for every node at once.

use crate::failure::{Failure, code};
use clap::Args;
use rdmascope_expose::api::NodeVerdictView;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The whole of it, the coordinator's word included, is less than a second.
const ANSWER_WITHIN: Duration = Duration::from_millis(900);
/// Longest answer, bytes: 256 findings of some kilobytes.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Where the agent is.
#[derive(Debug, Args)]
pub(super) struct Agent {
    /// Socket of the agent on this node: agent.sock in its state_dir
    #[arg(long, value_name = "FILE", default_value = "/run/rdmascope/agent.sock")]
    socket: PathBuf,
}

impl Agent {
    /// What it knows; with the other question, the coordinator's leave, too.
    pub(super) fn ask(&self, question: &str) -> Result<NodeVerdictView, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let talk = async { timeout(ANSWER_WITHIN, self.talk(question)).await };
        let answer = runtime.and_then(|runtime| runtime.block_on(talk)?);
        let text = answer.map_err(|error| {
            Failure::new(code::FAILED, format!("no verdict from {}: {error}", self.socket.display()))
                .then("is the agent running on this node, and is this user root or in its group? `systemctl status rdmascope-agent`")
        })?;
        serde_json::from_slice(&text).map_err(|error| {
            let text = format!("the answer of {} cannot be understood: {error}", self.socket.display());
            Failure::new(code::FAILED, text)
                .then("use the program of the agent's version: restart the agent after an upgrade")
        })
    }

    async fn talk(&self, question: &str) -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        stream.write_all(format!("{question}\n").as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        Ok(answer)
    }
}
