//! Calls scontrol, with an end to the waiting: a slurmctld that is away lets it try again for minutes.

use crate::failure::{Failure, code};
use crate::output::plain;
use clap::Args;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// slurmd gives a health check 60 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks whether it has ended.
const GLANCE: Duration = Duration::from_millis(10);
/// Bytes that are read of an answer about one node.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// How Slurm is told.
#[derive(Debug, Args)]
pub(super) struct Slurm {
    /// The program scontrol, where it is not on the path
    #[arg(long, value_name = "FILE", default_value = "scontrol")]
    scontrol: PathBuf,
}

/// A node as Slurm has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlurmNode {
    /// Such as `IDLE+DRAIN`.
    pub(super) state: String,
    /// Why it is in that state, without who said so and when; empty where nobody gave a reason.
    pub(super) reason: String,
}

impl SlurmNode {
    /// No new job starts on it, or, while it drains, will.
    pub(super) fn is_drained(&self) -> bool {
        self.state.split('+').any(|word| word.trim_end_matches('*').starts_with("DRAIN"))
    }
}

impl Slurm {
    /// Asks for a node.
    pub(super) fn node(&self, name: &str) -> Result<SlurmNode, Failure> {
        let text = self.call(&["show", "node", name])?;
        parse(&text).ok_or_else(|| {
            let text =
                format!("scontrol says of {} what cannot be understood: {}", plain(name), plain(&text));
            Failure::new(code::FAILED, text)
        })
    }

    /// Drains it.
    pub(super) fn drain(&self, name: &str, reason: &str) -> Result<(), Failure> {
        let (node, reason) = (format!("nodename={name}"), format!("reason={reason}"));
        self.call(&["update", &node, "state=drain", &reason]).map(drop)
    }

    /// Resumes it.
    pub(super) fn resume(&self, name: &str) -> Result<(), Failure> {
        self.call(&["update", &format!("nodename={name}"), "state=resume"]).map(drop)
    }

    fn call(&self, words: &[&str]) -> Result<String, Failure> {
        let what = || format!("`{} {}`", self.scontrol.display(), words.join(" "));
        let failed = |why: String| Failure::new(code::FAILED, format!("{}: {why}", what()));
        let mut command = Command::new(&self.scontrol);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            failed(error.to_string())
                .then("name the program with --scontrol FILE; the package is slurm-client")
        })?;
        let began = Instant::now();
        let ended = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if began.elapsed() < ANSWER_WITHIN => std::thread::sleep(GLANCE),
                Ok(None) | Err(_) => {
                    // It may have ended this moment.
                    drop(child.kill());
                    drop(child.wait());
                    let seconds = ANSWER_WITHIN.as_secs();
                    return Err(failed(format!(
                        "no answer within {seconds} s: is slurmctld there? `scontrol ping`"
                    )));
                }
            }
        };
        let read = |pipe: Option<&mut dyn std::io::Read>| {
            let mut bytes = Vec::new();
            // What cannot be read is not there.
            drop(pipe.map(|pipe| pipe.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)));
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let out = read(child.stdout.as_mut().map(|out| out as &mut dyn std::io::Read));
        let err = read(child.stderr.as_mut().map(|err| err as &mut dyn std::io::Read));
        if ended.success() {
            Ok(out)
        } else {
            Err(failed(format!("{ended}: {}", plain(format!("{out} {err}").trim()))))
        }
    }
}

/// Reads what `scontrol show node` prints: words `Key=Value`, of which the reason has a line of its own and ends with `[who@when]`.
fn parse(text: &str) -> Option<SlurmNode> {
    let state = text.split_whitespace().find_map(|word| word.strip_prefix("State="))?;
    let reason = text.lines().find_map(|line| line.trim_start().strip_prefix("Reason=")).unwrap_or_default();
    let reason = reason.rsplit_once(" [").map_or(reason, |(reason, _)| reason);
    Some(SlurmNode { state: state.to_owned(), reason: reason.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slurm 22.05.8 of Debian 12, `scontrol show node`; what does not matter is left out.
    fn shown(state: &str, reason: &str) -> String {
        format!(
            "NodeName=n1 Arch=x86_64 CoresPerSocket=1 \n   CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=0.37\n   \
             NodeAddr=127.0.0.1 NodeHostName=host Port=17003 Version=22.05.8\n   \
             State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n   Partitions=all \n   \
             BootTime=2026-11-30T17:38:00 SlurmdStartTime=2026-11-30T21:09:10\n{reason}\n"
        )
    }

    #[test]
    fn state_and_reason_are_found() {
        let node = parse(&shown("IDLE", "")).unwrap();
        assert_eq!((node.state.as_str(), node.reason.as_str(), node.is_drained()), ("IDLE", "", false));
        let drained =
            "   Reason=rdmascope: port-phys-state mlx5_0/1: not up: Disabled [root@2026-11-30T21:09:23]";
        let node = parse(&shown("IDLE+DRAIN", drained)).unwrap();
        assert_eq!(node.reason, "rdmascope: port-phys-state mlx5_0/1: not up: Disabled");
        assert!(node.is_drained());
        for (state, is) in
            [("MIXED+DRAIN", true), ("DRAINING*", true), ("DOWN*", false), ("DOWN*+DRAIN*", true)]
        {
            assert_eq!(parse(&shown(state, "")).unwrap().is_drained(), is, "{state}");
        }
        assert_eq!(parse("Node n9 not found"), None);
    }
}
