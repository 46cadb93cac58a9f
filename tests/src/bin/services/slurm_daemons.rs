//! Debian's Slurm with one node, on loopback: munged, slurmctld and slurmd in the foreground, ended by their ids, with everything of theirs in one folder.

use rdmascope_tests::guest::{Program, Signal, wait_until};
use rdmascope_tests::loopback::{Folder, free_address, rdmascope};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The node, as Slurm calls it.
pub(super) const NODE: &str = "n1";
/// Far more than anything here takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);
/// The scripts that are shipped, and the program that they run.
const HEALTHCHECK: &str = include_str!("../../../../deploy/slurm/slurm-healthcheck");
const PROLOG: &str = include_str!("../../../../deploy/slurm/slurm-prolog");
const INSTALLED: &str = "/usr/bin/rdmascope";
/// One line for each call of scontrol by the health check or the prolog.
const CALLS: &str = "scontrol.calls";
/// What the health check printed.
const HEALTH: &str = "health.log";

/// A node as `scontrol show node` has it.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) state: String,
    pub(super) reason: String,
}

/// The running daemons; those that were started last end first.
pub(super) struct Slurm {
    daemons: Vec<Program>,
    folder: Folder,
}

impl Slurm {
    /// Starts all three; the node's health check and prolog ask the agent at `socket`.
    pub(super) fn start(socket: &Path) -> Self {
        let folder = Folder::new("slurm");
        let base = folder.path("").display().to_string();
        for name in ["state", "spool"] {
            fs::create_dir(folder.path(name)).expect("a folder of Slurm");
        }
        let key = folder.write("munge.key", &"rdmascope-test-key".repeat(8));
        mode(&key, 0o400);
        let port = || free_address().rsplit_once(':').map_or_else(String::new, |(_, port)| port.to_owned());
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("the host's name");
        let host = host.trim().split('.').next().unwrap_or_default().to_owned();
        let (health, prolog) = programs(&folder, socket);
        folder.write(
            "slurm.conf",
            &format!(
                "ClusterName=rdmascope\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmdPort={}\n\
                 AuthType=auth/munge\nAuthInfo=socket={base}munge.sock\nCredType=cred/munge\nSlurmUser=root\n\
                 StateSaveLocation={base}state\nSlurmdSpoolDir={base}spool\nSlurmctldPidFile={base}slurmctld.pid\n\
                 SlurmdPidFile={base}slurmd.pid\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
                 SwitchType=switch/none\nMpiDefault=none\nJobAcctGatherType=jobacct_gather/none\n\
                 AccountingStorageType=accounting_storage/none\nReturnToService=1\n\
                 HealthCheckProgram={health}\nHealthCheckInterval=1\nProlog={prolog}\n\
                 NodeName={NODE} NodeHostname={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN\n\
                 PartitionName=all Nodes={NODE} Default=YES State=UP MaxTime=INFINITE\n",
                port(),
                port()
            ),
        );
        let mut this = Self { daemons: Vec::new(), folder };
        let flag = |name: &str, file: &str| format!("--{name}={base}{file}");
        let mut munged = Command::new("munged");
        munged.args(["--foreground", "--force"]).args([
            flag("socket", "munge.sock"),
            flag("key-file", "munge.key"),
            flag("pid-file", "munged.pid"),
            flag("log-file", "munged.log"),
            flag("seed-file", "munged.seed"),
        ]);
        this.daemon("munged", &mut munged);
        wait_until("munged listens", PATIENCE, || {
            if this.folder.path("munge.sock").exists() { Ok(()) } else { Err("no socket".to_owned()) }
        });
        let conf = this.folder.path("slurm.conf");
        this.daemon("slurmctld", Command::new("slurmctld").args(["-D", "-f"]).arg(&conf));
        this.daemon("slurmd", Command::new("slurmd").args(["-D", "-N", NODE, "-f"]).arg(&conf));
        this.wait_for("the node is idle", |node| node.state == "IDLE");
        this
    }

    fn daemon(&mut self, name: &str, command: &mut Command) {
        let log = self.folder.path(&format!("{name}.out"));
        self.daemons.push(Program::start(name, command, &log));
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).env("SLURM_CONF", self.folder.path("slurm.conf"));
        command
    }

    /// What a program of Slurm's says; its exit code, and all that it printed.
    fn says(&self, words: &[&str]) -> (bool, String) {
        let seen = self.command(words).output().unwrap_or_else(|error| panic!("{words:?}: {error}"));
        (seen.status.success(), String::from_utf8_lossy(&[seen.stdout, seen.stderr].concat()).into_owned())
    }

    /// An administrator changes the node by hand.
    pub(super) fn update(&self, words: &[&str]) {
        let node = format!("nodename={NODE}");
        let (done, said) = self.says(&[&["scontrol", "update", &node], words].concat());
        assert!(done, "scontrol update {words:?}: {said}");
    }

    /// What a command of rdmascope says to this Slurm.
    pub(super) fn rdmascope(&self, words: &[&str]) -> String {
        let mut command = rdmascope();
        command.args(words).env("SLURM_CONF", self.folder.path("slurm.conf"));
        let seen = command.output().unwrap_or_else(|error| panic!("{words:?}: {error}"));
        String::from_utf8_lossy(&[seen.stdout, seen.stderr].concat()).into_owned()
    }

    /// A job of one second at most; whether it ran, and what was printed.
    pub(super) fn job(&self) -> (bool, String) {
        let (done, said) =
            self.says(&["timeout", "60", "srun", "--immediate=30", "-n1", "echo", "the job ran"]);
        (done && said.contains("the job ran"), said)
    }

    pub(super) fn wait_for(&self, what: &str, holds: impl Fn(&Shown) -> bool) {
        wait_until(what, PATIENCE, || {
            let (done, said) = self.says(&["scontrol", "show", "node", NODE]);
            let state = said.split_whitespace().find_map(|word| word.strip_prefix("State="));
            let reason = said.lines().find_map(|line| line.trim().strip_prefix("Reason="));
            let node = Shown {
                state: state.unwrap_or_default().to_owned(),
                reason: reason.unwrap_or_default().to_owned(),
            };
            if done && holds(&node) {
                Ok(())
            } else {
                Err(format!("{node:?}; the health check said: {}", self.health()))
            }
        });
    }

    /// Calls of scontrol by rdmascope until now, each as one line.
    pub(super) fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path(CALLS)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// All that the health check has printed.
    pub(super) fn health(&self) -> String {
        fs::read_to_string(self.folder.path(HEALTH)).unwrap_or_default()
    }

    /// Waits until the health check has begun and ended so many more times.
    pub(super) fn more_checks(&self, count: usize) {
        let runs = || fs::read_to_string(self.folder.path("health.runs")).unwrap_or_default().lines().count();
        let wanted = runs() + count;
        wait_until("the health check runs again", PATIENCE, || match runs() {
            now if now >= wanted => Ok(()),
            now => Err(format!("{now} of {wanted} runs")),
        });
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // What a daemon started is ended by itself when it is asked to; one that does not hear is killed.
        while let Some(mut daemon) = self.daemons.pop() {
            daemon.signal(Signal::TERM);
            for _ in 0..100 {
                if daemon.ended().is_some() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions of a file");
}

/// The shipped health check and prolog with what they need to be told here; and a scontrol that tells of its calls.
fn programs(folder: &Folder, socket: &Path) -> (String, String) {
    let base = folder.path("").display().to_string();
    let binary = rdmascope().get_program().to_string_lossy().into_owned();
    let scontrol = format!("#!/bin/sh\necho \"$*\" >> {base}{CALLS}\nexec scontrol \"$@\"\n");
    let flags = format!("--socket {} --memory {base}memory.json --scontrol {base}scontrol", socket.display());
    let conf = format!("export SLURM_CONF={base}slurm.conf\n");
    let shipped = |text: &str| text.replace(INSTALLED, &binary);
    let health = format!(
        "#!/bin/sh\n{conf}{base}shipped-healthcheck {flags} >> {base}{HEALTH} 2>&1\ncode=$?\necho $code >> {base}health.runs\nexit $code\n"
    );
    let prolog = format!("#!/bin/sh\n{conf}exec {base}shipped-prolog {flags}\n");
    for (name, text) in [
        ("scontrol", scontrol),
        ("shipped-healthcheck", shipped(HEALTHCHECK)),
        ("shipped-prolog", shipped(PROLOG)),
        ("healthcheck", health),
        ("prolog", prolog),
    ] {
        mode(&folder.write(name, &text), 0o755);
    }
    (format!("{base}healthcheck"), format!("{base}prolog"))
}
