//! Flags of the daemons: what `rdmascope coordinator` and `rdmascope agent` are told.

use crate::cluster_arguments::duration;
use clap::{Args, ValueEnum};
use rdmascope_config::HostPort;
use rdmascope_model::EndpointName;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Run the coordinator, once per cluster
///
/// It schedules the probes and serves the web page, the API and the metrics. Without a token it listens on
/// this machine alone, unless --insecure is given. Stops on SIGINT or SIGTERM; without a terminal it reads
/// the tokens and the log level again on SIGHUP.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope coordinator                  this machine alone, to try it out
  rdmascope coordinator --listen 0.0.0.0:8080 --token-file /etc/rdmascope/token
  rdmascope coordinator --config /etc/rdmascope/rdmascope.yaml")]
pub(crate) struct CoordinatorFlags {
    /// Config file; flags win over it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address for agents, page, API and metrics; port 0 takes any free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// File with the token that agents and writing calls must show (make one: openssl rand -hex 32)
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// File with the token of those who only look; with it, looking needs a token or a certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) read_token_file: Option<PathBuf>,
    /// Folder of its certificate (ca.crt, tls.crt, tls.key): the port speaks TLS
    #[arg(long, value_name = "FOLDER")]
    pub(crate) tls: Option<PathBuf>,
    /// Let other machines reach it without token or certificates: anybody who does can start probes
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Folder that keeps the matrix over a restart
    #[arg(long, value_name = "FOLDER")]
    pub(crate) state_dir: Option<PathBuf>,
}

/// Run the agent, on every node
///
/// It watches the RDMA ports and probes what the coordinator asks for. Finds devices, ports and addresses by
/// itself; changes nothing on the machine. Goes on trying while the coordinator cannot be reached. Stops on
/// SIGINT or SIGTERM; without a terminal it reads policy, manifest, kernel-log rules, token and log level
/// again on SIGHUP.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope agent --coordinator head:8080 --token-file /etc/rdmascope/token
  rdmascope agent --config /etc/rdmascope/rdmascope.yaml
For one self-check, on every node of the batch:
  srun -N16 rdmascope agent --once --coordinator head:8080 --token-file token
Without RDMA, to try it out:
  rdmascope agent --coordinator 127.0.0.1:8080 --transport tcp --node-name a")]
pub(crate) struct AgentFlags {
    /// Where the coordinator listens; needed here or in the config file
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) coordinator: Option<HostPort>,
    /// Config file; flags win over it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// File with the token to show to the coordinator
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Folder of this node's certificate (ca.crt, tls.crt, tls.key): connections are TLS
    #[arg(long, value_name = "FOLDER")]
    pub(crate) tls: Option<PathBuf>,
    /// Name of this node in the matrix [default: the host name]
    #[arg(long, value_name = "NAME", value_parser = node_name)]
    pub(crate) node_name: Option<String>,
    /// RDMA device to watch and probe, such as mlx5_0; may be given more than once [default: all]
    #[arg(long = "device", value_name = "DEVICE")]
    pub(crate) devices: Vec<String>,
    /// What carries the probes; tcp is for trying things out without RDMA [default: verbs]
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) transport: Option<Transport>,
    /// Address of the agent's own /metrics and /healthz, such as 127.0.0.1:19810 [default: none]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Folder of the pause file: while a file named "pause" is in it, no probe starts [default:
    /// /run/rdmascope]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Stay only as long as the coordinator: end 10 s after it is gone, and fail where none is reached
    #[arg(long)]
    pub(crate) once: bool,
    /// With --once: how long to try to reach it first
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = duration, requires = "once")]
    pub(crate) wait: Duration,
}

/// What carries the probes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Transport {
    /// RDMA verbs
    Verbs,
    /// TCP: nothing about RDMA is measured
    Tcp,
}

fn node_name(text: &str) -> Result<String, String> {
    match format!("{text}/device/1").parse::<EndpointName>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("use letters, digits and - _ . : @ (253 characters at most)".to_owned()),
    }
}
