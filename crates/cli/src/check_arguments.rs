//! The flags of the commands that look at one machine: `check`, `capture`, `explain`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Judge this machine's RDMA devices, ports, addresses and settings
///
/// Needs no coordinator and no agent; reads what the kernel knows and changes nothing. The worst comes first,
/// with the probable cause and the next step.
///
/// Exit code: 0 ok, 1 warn, 2 fail, 3 could not judge (or wrong usage).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope check                        every RDMA device
  rdmascope check --device mlx5_0        this one; it must be there
  rdmascope check --what-i-can-see       what is hidden from here, and why
  rdmascope check --capture node7.capture
  rdmascope check --textfile /var/lib/prometheus/node-exporter
  rdmascope check --exit-style slurm     for HealthCheckProgram or a prolog")]
pub(crate) struct CheckFlags {
    /// Judge the machine whose files are below this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "capture")]
    pub(crate) root: Option<PathBuf>,
    /// Judge the machine that `rdmascope capture` has captured in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    /// Kernel log to judge by, as `dmesg` or `journalctl -k -o short-iso` prints it [default: that of the machine]
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel_log: Option<PathBuf>,
    /// Config file with the policy: limits, expected ports, workloads
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Read twice, so many seconds apart, to see what rises; 0: read once. A capture has its own two readings
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub(crate) seconds: u64,
    /// RDMA device to judge, such as mlx5_0; may be given more than once [default: all]
    #[arg(long = "device", value_name = "DEVICE")]
    pub(crate) devices: Vec<String>,
    /// We are inside a job's container: ask for nothing that only the host shows
    #[arg(long)]
    pub(crate) in_container: bool,
    /// Show everything that is fine, too, one line for each
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) show: Show,
    /// Exit code and output for a caller that has rules of its own
    #[arg(long, value_enum, value_name = "STYLE")]
    pub(crate) exit_style: Option<ExitStyle>,
}

/// What to print instead of the findings in words.
#[derive(Debug, Args)]
#[group(multiple = false, conflicts_with = "exit_style")]
pub(crate) struct Show {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Show what can be seen from here, what not, why, and what it takes; exit code 0
    #[arg(long)]
    pub(crate) what_i_can_see: bool,
    /// List every file that is opened; exit code 0
    #[arg(long, conflicts_with = "capture")]
    pub(crate) self_audit: bool,
    /// Write metrics for node_exporter into this folder (rdmascope.prom, at once as a whole); exit code 0
    #[arg(long, value_name = "FOLDER")]
    pub(crate) textfile: Option<PathBuf>,
}

/// Who reads exit code and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExitStyle {
    /// A custom plugin of node-problem-detector: 0 ok, 1 fail, 2 unknown; one message of at most 80 bytes
    Npd,
    /// Slurm: 1 when anything fails or could not be judged, with one line for each; else 0 and silence
    Slurm,
}

/// Capture this machine in one text file, without saying whose it is
///
/// Records every file that the checks read, twice, some seconds apart. MAC addresses, GUIDs, IP addresses, host
/// names and serial numbers are replaced; device names, settings and counters stay, so that `rdmascope check
/// --capture FILE` finds what it finds here. Read the file before you send it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope capture --output node7.capture
  rdmascope capture --seconds 60 --output node7.capture   slow errors show, too
  rdmascope check --capture node7.capture                 anywhere")]
pub(crate) struct CaptureFlags {
    /// File to write; it must not exist [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Seconds between the two readings; 0: read once
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub(crate) seconds: u64,
    /// Capture the machine whose files are below this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,
}

/// Say what a finding or the cause of a failed probe means, where it comes from, and what to do
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rdmascope explain port-state")]
pub(crate) struct ExplainFlags {
    /// The id that stands in brackets behind a finding, or the cause that a failed probe names
    pub(crate) id: String,
}
