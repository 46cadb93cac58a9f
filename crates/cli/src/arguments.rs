//! The command line: every command and flag with the words of its help.

use crate::check_arguments::{CaptureFlags, CheckFlags, ExplainFlags, GidsFlags};
use crate::cluster_arguments::{
    AckFlags, DiagnoseFlags, EventsFlags, FindingsFlags, IncidentsFlags, MaintenanceFlags, NodesFlags,
    ReplayFlags,
};
use crate::daemon_arguments::{AgentFlags, CoordinatorFlags};
use crate::history::HistoryFlags;
use crate::probe_arguments::{ProbeFlags, class};
use crate::screen::When;
use crate::selfcheck::SelfcheckFlags;
use crate::simulate::SimulateFlags;
use crate::slurm::SlurmCommand;
use crate::tls::TlsCommand;
use crate::written::{CompletionsFlags, ManFlags, SchemaFlags, version};
use clap::{Args, Parser, Subcommand, ValueEnum};
use rdmascope_config::HostPort;
use rdmascope_expose::api::MetricChoice;
use std::path::PathBuf;

const SUMMARY: &str = "Finds out what of an RDMA cluster is broken, before a job finds out";

const ABOUT: &str = "\
Finds out which node, port, cable, switch or setting of an RDMA cluster (RoCE v2, InfiniBand, iWARP) is broken, before \
a job finds out.

An agent on every node probes its peers; one coordinator schedules the probes and keeps the matrix of latency and \
bandwidth of every pair of RDMA ports. `rdmascope check` judges one machine and needs neither.";

// No line longer than 80 columns: a newcomer's terminal.
const EXAMPLES: &str = "\
Start here:
  rdmascope check                          what is wrong with this machine?
  rdmascope coordinator                    once per cluster: page, API, metrics
  rdmascope agent --coordinator HOST:8080  on every node
  rdmascope sweep                          measure every pair now
  rdmascope matrix                         show what was measured
  rdmascope probe NODE1 NODE2              why does this pair not work?
  rdmascope selfcheck --preset 400g --nodes LIST   may this batch be handed over?
  rdmascope diagnose                       what is wrong, who, what to do?
  rdmascope diagnose --nodes NODE1,NODE2   is it the network?

Exit codes: 0 fine, 1 it did not work, 64 wrong usage, 78 wrong configuration.
`check`, `selfcheck`: 0 ok, 1 warn, 2 fail, 3 could not judge (or wrong usage).
`diagnose`: 0 nothing is wrong, 1 something is, 3 cannot say.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "rdmascope",
    version = version(),
    about = SUMMARY,
    long_about = ABOUT,
    after_help = EXAMPLES,
    max_term_width = 80,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        global = true,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) color: When,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Check(CheckFlags),
    Explain(ExplainFlags),
    Capture(CaptureFlags),
    Coordinator(CoordinatorFlags),
    Agent(AgentFlags),
    Matrix(MatrixFlags),
    Sweep(SweepFlags),
    Probe(ProbeFlags),
    Selfcheck(SelfcheckFlags),
    /// Let no probe start: anywhere, on some nodes, or bandwidth alone
    #[command(after_help = "\
Examples:
  rdmascope pause                      no probe starts until `rdmascope resume`
  rdmascope pause --bandwidth          latency goes on, bandwidth does not
  rdmascope pause --nodes node3,node4  only probes with these nodes stop

A node can pause itself without the coordinator: create the file `pause` in the agent's state folder.")]
    Pause(PauseFlags),
    /// End what `pause` began
    #[command(after_help = "\
Examples:
  rdmascope resume                      lifts the pause of the whole cluster
  rdmascope resume --nodes node3,node4  lifts the pause of these nodes
  rdmascope resume --bandwidth          lifts the pause of bandwidth alone")]
    Resume(PauseFlags),
    Diagnose(DiagnoseFlags),
    Incidents(IncidentsFlags),
    History(HistoryFlags),
    Findings(FindingsFlags),
    Events(EventsFlags),
    Replay(ReplayFlags),
    Ack(AckFlags),
    Maintenance(MaintenanceFlags),
    Simulate(SimulateFlags),
    Nodes(NodesFlags),
    Gids(GidsFlags),
    /// Look at config files
    #[command(
        subcommand,
        disable_help_subcommand = true,
        after_help = "\
Examples:
  rdmascope config check /etc/rdmascope/rdmascope.yaml
  rdmascope config manifest > manifest.yaml"
    )]
    Config(ConfigCommand),
    /// Make certificates, and look at them
    #[command(
        subcommand,
        disable_help_subcommand = true,
        after_help = "\
Examples:
  rdmascope tls init pki --nodes 'node[01-18]' --coordinator head
  rdmascope tls show /etc/rdmascope/tls/tls.crt"
    )]
    Tls(TlsCommand),
    /// Drain a node of Slurm for its hard local faults: health check and prolog
    #[command(
        subcommand,
        disable_help_subcommand = true,
        after_help = "\
Examples:
  rdmascope slurm verdict         what would be done here, and why
  rdmascope slurm healthcheck     HealthCheckProgram of slurm.conf
  rdmascope slurm undrain n1 n2   after the repair"
    )]
    Slurm(SlurmCommand),
    Schema(SchemaFlags),
    Completions(CompletionsFlags),
    Man(ManFlags),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say everything that is wrong with a config file; exit code 0 or 78
    ///
    /// Says "ok" and what applies, or every problem with file, line, key and a hint. A file with which a
    /// coordinator or an agent would open a port to other machines without a token is wrong, too.
    #[command(after_help = "Example:\n  rdmascope config check /etc/rdmascope/rdmascope.yaml")]
    Check {
        /// The file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the manifest of this machine as it is now: what every port is expected to be
    #[command(
        after_help = "Example:\n  rdmascope config manifest > manifest.yaml    on a healthy node; then review it"
    )]
    Manifest {
        /// The machine whose files are below this folder instead
        #[arg(long, value_name = "FOLDER")]
        root: Option<PathBuf>,
    },
}

/// Where the coordinator is, and the token for calls that change something.
#[derive(Debug, Args)]
pub(crate) struct CoordinatorAt {
    /// Where the coordinator listens
    #[arg(long, value_name = "HOST:PORT", env = "RDMASCOPE_COORDINATOR", default_value = "127.0.0.1:8080")]
    pub(crate) coordinator: HostPort,
    /// File with the coordinator's token; only calls that change something need it, where there is no token for reading
    #[arg(long, value_name = "FILE", env = "RDMASCOPE_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Folder of certificates (ca.crt; tls.crt and tls.key of an operator or reader): call it by TLS
    #[arg(long, value_name = "FOLDER", env = "RDMASCOPE_TLS")]
    pub(crate) tls: Option<PathBuf>,
}

/// Show the matrix of latency, bandwidth or pings
///
/// Sources are rows, targets are columns. Below stands why pairs failed, and what to do next. Numbers where they
/// fit the terminal, else a map with one shape for each pair, then for the worst pair between two nodes or two
/// leaves, else a list of the worst pairs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope matrix                       latency
  rdmascope matrix --metric bandwidth
  rdmascope matrix --metric ping         network round trip, and loss
  rdmascope matrix --map                 one shape for each pair
  rdmascope matrix --worst 50            the slowest pairs, as a list
  rdmascope matrix --csv > matrix.csv    for a spreadsheet")]
pub(crate) struct MatrixFlags {
    /// What to show
    #[arg(long, value_enum, default_value_t = OneMetric::Latency)]
    pub(crate) metric: OneMetric,
    /// Draw a map although numbers would fit
    #[arg(long)]
    pub(crate) map: bool,
    /// List the slowest pairs instead, so many
    #[arg(long, value_name = "N", conflicts_with = "map", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) worst: Option<u16>,
    /// Print the JSON of the API
    #[arg(long, conflicts_with_all = ["csv", "map", "worst"])]
    pub(crate) json: bool,
    /// Print comma-separated values
    #[arg(long, conflicts_with_all = ["map", "worst"])]
    pub(crate) csv: bool,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

/// Measure every pair of one rail now, and wait until it is done
///
/// Exit code: 0 when nothing failed, 1 when pairs failed or none was measured.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope sweep                         latency: harmless on nodes at work
  rdmascope sweep --metric all --drained  bandwidth too; no job may run
  rdmascope sweep --plan --cross-rail     what it would cost with all pairs of all rails
  rdmascope sweep --quick 3               three random partners for each endpoint
  rdmascope sweep --nodes 'gpu[01-16]' --metric all --drained --class af31
                                          the nodes of a job, in its class, before it begins
  rdmascope sweep --min-endpoints 16      waits for 16 endpoints first")]
pub(crate) struct SweepFlags {
    /// What to measure
    #[arg(long, value_enum, default_value_t = Metrics::Latency)]
    pub(crate) metric: Metrics,
    /// The nodes carry no job: measure bandwidth although ports look busy, or nobody can tell
    #[arg(long)]
    pub(crate) drained: bool,
    /// Begin when so many endpoints can be probed; wait a minute for them
    #[arg(long, value_name = "N")]
    pub(crate) min_endpoints: Option<usize>,
    /// Only say what it would be: pairs, rounds, time and bytes; and what goes on by itself
    #[arg(long)]
    pub(crate) plan: bool,
    /// So many random partners for each endpoint instead of all, up to 64
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "3",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) quick: Option<u32>,
    /// Only between these nodes, in maintenance or not; as Slurm writes them: node[01-18],gpu7
    #[arg(long, value_name = "LIST")]
    pub(crate) nodes: Option<String>,
    /// Only these RDMA devices, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) devices: Vec<String>,
    /// In this class: a DSCP or its name (af31), or a service level on InfiniBand; the figures are not in the matrix
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub(crate) class: Option<u8>,
    /// Pairs of two rails, too
    #[arg(long)]
    pub(crate) cross_rail: bool,
    /// Measure every pair so often, each time beside other pairs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(crate) passes: Option<u32>,
    /// Decides which pairs are measured at the same time, and who is random [default: another number each time]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Print the JSON of the API, at the end
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

/// What to pause or resume.
#[derive(Debug, Args)]
pub(crate) struct PauseFlags {
    /// Names of nodes, separated by commas [default: the whole cluster]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,
    /// Only bandwidth probes
    #[arg(long)]
    pub(crate) bandwidth: bool,
    /// Print the JSON of the API
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OneMetric {
    /// Half round trip of an RDMA write
    Latency,
    /// Goodput of RDMA writes
    Bandwidth,
    /// Network round trip of UD pings, and loss
    Ping,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Metrics {
    /// Half round trip of an RDMA write
    Latency,
    /// Goodput of RDMA writes
    Bandwidth,
    /// Network round trip of UD pings, and loss: all paths of the mesh are pinged anyway, this does it at once
    Ping,
    /// Latency and bandwidth
    All,
}

impl From<Metrics> for MetricChoice {
    fn from(metrics: Metrics) -> Self {
        match metrics {
            Metrics::Latency => Self::Latency,
            Metrics::Bandwidth => Self::Bandwidth,
            Metrics::Ping => Self::Ping,
            Metrics::All => Self::All,
        }
    }
}
