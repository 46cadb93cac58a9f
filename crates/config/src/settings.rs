//! The settings of each role, built from the tree, and the rule about ports that other machines can reach.

use crate::expectations;
use crate::keys::KEYS;
use crate::problem::{Found, Wrong};
use crate::services::{self, ServiceConfig};
use crate::tree::{self, Node, Value};
use crate::values::{self, HostPort};
use crate::{token, values::shown};
use rdmascope_checks::Policy;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The whole file; each role reads its own section.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// For `rdmascope agent`.
    pub agent: AgentConfig,
    /// For `rdmascope coordinator`.
    pub coordinator: CoordinatorConfig,
    /// For both.
    pub log: LogConfig,
    /// What machines are judged by, for both and for `rdmascope check`.
    pub policy: Policy,
}

/// What an agent needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// Where the coordinator is; an agent does not start without.
    pub coordinator: Option<HostPort>,
    /// File with the token to show.
    pub token_file: Option<PathBuf>,
    /// Folder of the node's certificate; `None`: plain text.
    pub tls_dir: Option<PathBuf>,
    /// Name of the node; `None`: the host name.
    pub node_name: Option<String>,
    /// RDMA devices to use; empty: all.
    pub devices: Vec<String>,
    /// What carries the probes.
    pub transport: TransportKind,
    /// Address of its own `/metrics` and `/healthz`; `None`: it has none.
    pub listen: Option<SocketAddr>,
    /// Folder of the pause file.
    pub state_dir: PathBuf,
    /// `listen` may be reachable without a token.
    pub insecure: bool,
    /// Processes that should use RDMA; `*` stands for any letters.
    pub workloads: Vec<String>,
    /// File with the kernel's messages, where `/dev/kmsg` is not given.
    pub kernel_log: Option<PathBuf>,
    /// Folder with kernel-log rules of the operator's own.
    pub log_rules: Option<PathBuf>,
}

/// What carries the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// RDMA verbs.
    Verbs,
    /// TCP, for machines without RDMA.
    Tcp,
}

/// What the coordinator needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorConfig {
    /// Address for agents, page, API and metrics.
    pub listen: SocketAddr,
    /// File with the token that agents and writing calls must show.
    pub token_file: Option<PathBuf>,
    /// File with the token of those who only look; `None`: looking needs nothing.
    pub read_token_file: Option<PathBuf>,
    /// Folder of the coordinator's certificate; `None`: plain text.
    pub tls_dir: Option<PathBuf>,
    /// `listen` may be reachable without a token.
    pub insecure: bool,
    /// Folder that keeps the matrix over a restart; `None`: nothing is kept.
    pub state_dir: Option<PathBuf>,
    /// Services by their names.
    pub services: BTreeMap<String, ServiceConfig>,
    /// File that says where nodes hang; `None`: not known.
    pub topology_file: Option<PathBuf>,
    /// Packets get from one rail to another.
    pub rails_routed: bool,
    /// File that says which nodes are in maintenance; `None`: none says so.
    pub maintenance_file: Option<PathBuf>,
    /// Streams that may cross the uplinks of one leaf at the same time, 1 to 64.
    pub streams_per_leaf: u32,
    /// Streams that one machine may carry at the same time, 1 to 16.
    pub streams_per_node: u32,
    /// Pings that are always on.
    pub mesh: MeshConfig,
    /// Continuous sweeps.
    pub sweep: SweepConfig,
    /// Prometheus metrics.
    pub metrics: MetricsConfig,
}

/// Pings that are always on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshConfig {
    /// Pings per second and endpoint, 1 to 10.
    pub pings_per_second: u32,
    /// Path labels that each pair's pings rotate through, 1 to 256.
    pub labels: u32,
}

/// Continuous sweeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepConfig {
    /// Time in which all pairs are to be covered, 1 s to 24 h.
    pub coverage: Duration,
    /// Rest between two sweeps, at most 1 h.
    pub pause: Duration,
    /// Pairs that a sweep probes at the same time, 1 to 2,048.
    pub pairs_at_once: u32,
    /// Gigabytes that one sweep may send, at least 1.
    pub gigabytes_max: u32,
}

/// Prometheus metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Ordered pairs up to which each has its own series, at most 100,000.
    pub pairs_max: u32,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Least severe level that is written.
    pub level: LogLevel,
    /// Form of a line.
    pub format: LogFormat,
}

/// Level of log lines, as `tracing` knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something may fail.
    Warn,
    /// Something changed.
    Info,
    /// What led to it.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The word in the config file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for log collectors.
    Json,
}

impl Default for Config {
    /// The settings without a file.
    fn default() -> Self {
        let nothing = Node { id: 0, value: Value::Null };
        build(&nothing, &mut Vec::new()).expect("a test reads every default of the table")
    }
}

/// A port would be open to other machines without a token or certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{key} is {listen}, which other machines can reach, but there is no token: make one (openssl rand -hex 32) and \
     name its file with token_file, or name a folder of `rdmascope tls init` with tls_dir, or listen on 127.0.0.1, or accept the risk with insecure"
)]
pub struct Exposed {
    /// The key, such as `coordinator.listen`.
    pub key: &'static str,
    /// The address.
    pub listen: SocketAddr,
}

impl AgentConfig {
    /// Whether its own port would be open to other machines without a token. Ask after flags are laid over the file.
    ///
    /// # Errors
    /// It would.
    pub fn exposure(&self) -> Result<(), Exposed> {
        let (guards, insecure) = ([&self.token_file, &self.tls_dir], self.insecure);
        self.listen.map_or(Ok(()), |listen| exposure("agent.listen", listen, guards, insecure))
    }
}

impl CoordinatorConfig {
    /// Whether its port would be open to other machines without a token. Ask after flags are laid over the file.
    ///
    /// # Errors
    /// It would.
    pub fn exposure(&self) -> Result<(), Exposed> {
        exposure("coordinator.listen", self.listen, [&self.token_file, &self.tls_dir], self.insecure)
    }
}

fn exposure(
    key: &'static str,
    listen: SocketAddr,
    guards: [&Option<PathBuf>; 2],
    insecure: bool,
) -> Result<(), Exposed> {
    if listen.ip().to_canonical().is_loopback() || guards.iter().any(|guard| guard.is_some()) || insecure {
        Ok(())
    } else {
        Err(Exposed { key, listen })
    }
}

/// Builds the settings; what is wrong goes to `found`, and there is a result only when every value could be read.
pub(crate) fn build(root: &Node, found: &mut Vec<Found>) -> Option<Config> {
    let mut reader = Reader { root, found };
    let agent = agent(&mut reader);
    let coordinator = coordinator(&mut reader);
    let level = reader.must("log.level", |value| {
        let all = [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];
        values::one_of(value, &all.map(|level| (level.as_str(), level)))
    });
    let format = reader.must("log.format", |value| {
        values::one_of(value, &[("text", LogFormat::Text), ("json", LogFormat::Json)])
    });
    let mut policy = expectations::read(root, found);
    let agent = agent?;
    policy.devices.clone_from(&agent.devices);
    policy.workloads.clone_from(&agent.workloads);
    Some(Config {
        agent,
        coordinator: coordinator?,
        log: LogConfig { level: level?, format: format? },
        policy,
    })
}

// All keys are read before the first `?`: one wrong value must not hide the next.
fn agent(reader: &mut Reader<'_>) -> Option<AgentConfig> {
    let coordinator = reader.may("agent.coordinator", values::host_port);
    let token_file = reader.may("agent.token_file", token_path);
    let tls_dir = reader.may("agent.tls_dir", values::absolute_path);
    let node_name = reader.may("agent.node_name", values::node_name);
    let devices = reader.may("agent.devices", values::devices);
    let transport = reader.must("agent.transport", |value| {
        values::one_of(value, &[("verbs", TransportKind::Verbs), ("tcp", TransportKind::Tcp)])
    });
    let listen = reader.may("agent.listen", values::socket_address);
    let state_dir = reader.must("agent.state_dir", values::absolute_path);
    let insecure = reader.must("agent.insecure", values::truth);
    let workloads = reader.may("agent.workloads", values::process_names);
    let kernel_log = reader.may("agent.kernel_log", values::absolute_path);
    let log_rules = reader.may("agent.log_rules", values::absolute_path);
    Some(AgentConfig {
        coordinator: coordinator?,
        token_file: token_file?,
        tls_dir: tls_dir?,
        node_name: node_name?,
        devices: devices?.unwrap_or_default(),
        transport: transport?,
        listen: listen?,
        state_dir: state_dir?,
        insecure: insecure?,
        workloads: workloads?.unwrap_or_default(),
        kernel_log: kernel_log?,
        log_rules: log_rules?,
    })
}

fn coordinator(reader: &mut Reader<'_>) -> Option<CoordinatorConfig> {
    const HOUR: Duration = Duration::from_secs(3600);
    let listen = reader.must("coordinator.listen", values::socket_address);
    let token_file = reader.may("coordinator.token_file", token_path);
    let read_token_file = reader.may("coordinator.read_token_file", token_path);
    let tls_dir = reader.may("coordinator.tls_dir", values::absolute_path);
    let insecure = reader.must("coordinator.insecure", values::truth);
    let state_dir = reader.may("coordinator.state_dir", values::absolute_path);
    let services = reader.may("coordinator.services", services::services);
    let topology_file = reader.may("coordinator.topology_file", values::absolute_path);
    let routed = reader.must("coordinator.rails_routed", values::truth);
    let maintenance_file = reader.may("coordinator.maintenance_file", values::absolute_path);
    let per_leaf = reader.must("coordinator.streams_per_leaf", |value| values::whole(value, 1..=64));
    let per_node = reader.must("coordinator.streams_per_node", |value| values::whole(value, 1..=16));
    let pings = reader.must("coordinator.mesh.pings_per_second", |value| values::whole(value, 1..=10));
    let labels = reader.must("coordinator.mesh.labels", |value| values::whole(value, 1..=256));
    let coverage = reader.must("coordinator.sweep.coverage", |value| {
        values::duration(value, Duration::from_secs(1)..=24 * HOUR)
    });
    let pause =
        reader.must("coordinator.sweep.pause", |value| values::duration(value, Duration::ZERO..=HOUR));
    let at_once = reader.must("coordinator.sweep.pairs_at_once", |value| values::whole(value, 1..=2_048));
    let gigabytes =
        reader.must("coordinator.sweep.gigabytes_max", |value| values::whole(value, 1..=1_000_000_000));
    let pairs_max = reader.must("coordinator.metrics.pairs_max", |value| values::whole(value, 0..=100_000));
    Some(CoordinatorConfig {
        listen: listen?,
        token_file: token_file?,
        read_token_file: read_token_file?,
        tls_dir: tls_dir?,
        insecure: insecure?,
        state_dir: state_dir?,
        services: services?.unwrap_or_default(),
        topology_file: topology_file?,
        rails_routed: routed?,
        maintenance_file: maintenance_file?,
        streams_per_leaf: per_leaf?,
        streams_per_node: per_node?,
        mesh: MeshConfig { pings_per_second: pings?, labels: labels? },
        sweep: SweepConfig {
            coverage: coverage?,
            pause: pause?,
            pairs_at_once: at_once?,
            gigabytes_max: gigabytes?,
        },
        metrics: MetricsConfig { pairs_max: pairs_max? },
    })
}

/// A file that is not there is no problem here: the other role's token need not be on this machine.
fn token_path(value: &Value) -> Result<PathBuf, Wrong> {
    let path = values::absolute_path(value)?;
    match token::mode_too_wide(&path) {
        Some(mode) => Err(Wrong::new(
            format!(
                "{} has mode {mode:04o}: others could read or change the token",
                shown(&path.to_string_lossy())
            ),
            format!("chmod 0640 {}", shown(&path.to_string_lossy())),
        )),
        None => Ok(path),
    }
}

struct Reader<'a> {
    root: &'a Node,
    found: &'a mut Vec<Found>,
}

impl Reader<'_> {
    /// A key without default: `Some(None)` where it is not given, `None` where it is wrong.
    fn may<T>(&mut self, path: &str, read: impl Fn(&Value) -> Result<T, Wrong>) -> Option<Option<T>> {
        match value_at(self.root, path) {
            None => Some(None),
            Some(node) => self.value(node, path, read).map(Some),
        }
    }

    /// A key with a default in the table; `None` where it is wrong.
    fn must<T>(&mut self, path: &str, read: impl Fn(&Value) -> Result<T, Wrong>) -> Option<T> {
        if let Some(node) = value_at(self.root, path) {
            return self.value(node, path, read);
        }
        let default = KEYS.iter().find(|key| key.path == path)?.default?;
        read(&tree::read(default).ok()?.value).ok()
    }

    fn value<T>(&mut self, node: &Node, path: &str, read: impl Fn(&Value) -> Result<T, Wrong>) -> Option<T> {
        let wrong = if matches!(node.value, Value::Null) {
            Wrong::new("has no value", "write one, or take the line out for the default")
        } else {
            match read(&node.value) {
                Ok(value) => return Some(value),
                Err(wrong) => wrong,
            }
        };
        self.found.push(Found { id: node.id, key: path.to_owned(), wrong });
        None
    }
}

/// The first value under a path; later duplicates are reported by name.
fn value_at<'n>(root: &'n Node, path: &str) -> Option<&'n Node> {
    path.split('.').try_fold(root, |node, name| {
        let Value::Map(entries) = &node.value else { return None };
        let entry = entries.iter().find(|(key, _)| matches!(&key.value, Value::Text(text) if text == name));
        entry.map(|(_, value)| value)
    })
}
