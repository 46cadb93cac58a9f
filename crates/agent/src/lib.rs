//! The daemon on every node: it wires the pure state to the machine, the probes and the coordinator.
//!
//! One thread for everything but what may block: transports have worker threads of their own, and the machine is read on
//! the runtime's blocking threads.
//!
//! ```text
//!   machine task ──inventory, idle ports, pause──▶ ┌───────────┐ ──commands──▶ transport (worker threads)
//!   uplink task  ◀──────frames (2 bounded queues)──│ main loop │ ◀──events────
//!                ──────frames, connected, lost────▶└───────────┘
//! ```

mod http;
mod local;
mod machine;
mod main_loop;
mod probes;
mod reload;
pub mod uplink;

use rdmascope_checks::Policy;
use rdmascope_checks::log::Rules;
use rdmascope_config::{AgentConfig, Exposed, Token, TokenError};
use rdmascope_host::Host;
use rdmascope_secure::{Tls, TlsError};
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why an agent could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody said where the coordinator is.
    #[error(
        "where is the coordinator? give --coordinator HOST:PORT or set agent.coordinator in the config file"
    )]
    NoCoordinator,
    /// Other machines could reach its own port without a token.
    #[error(transparent)]
    Exposed(#[from] Exposed),
    /// There is no usable token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// There are no usable certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The node has no name that can be used.
    #[error("the host name cannot be used as a node name ({0}); give --node-name")]
    NodeName(String),
    /// The port cannot be had.
    #[error("cannot listen on {address}: is another agent running? choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The machine cannot be read.
    #[error("the machine cannot be read")]
    Host(#[from] rdmascope_host::HostError),
    /// The coordinator's address cannot be reached from any of this machine's addresses.
    #[error("no own address for reaching {0}: check the address and the routes")]
    NoAddress(String),
    /// An operator's kernel-log rules cannot be used.
    #[error("kernel-log rules: {0}")]
    Rules(String),
    /// It was to stay for one coordinator, and never reached it.
    #[error("the coordinator at {coordinator} was not reached within {seconds} s")]
    NeverReached {
        /// Where it should be.
        coordinator: String,
        /// For so long.
        seconds: u64,
    },
    /// A metric's name is taken twice.
    #[error("the metrics cannot be set up")]
    Metrics(#[from] prometheus::Error),
}

/// The rules of the program with those of an operator's folder.
///
/// # Errors
/// Everything that is wrong with the files.
pub fn rules(folder: &Path) -> Result<Rules, Error> {
    let wrong = |problems: Vec<String>| Error::Rules(problems.join("; "));
    let files = rdmascope_host::rule_files(folder).map_err(wrong)?;
    Rules::with_folder(&files).map_err(wrong)
}

/// What an agent shows to the coordinator, and trusts.
#[derive(Clone, Default)]
pub struct Credentials {
    /// Shown as a bearer token.
    pub token: Option<Token>,
    /// With it all connections are TLS.
    pub tls: Option<Arc<Tls>>,
}

/// What an agent works by: its settings, and what the files say that they name. Read at the start, and again when it is told to.
#[derive(Clone)]
pub struct Loaded {
    config: AgentConfig,
    policy: Policy,
    credentials: Credentials,
}

impl Loaded {
    /// Reads the token, the certificates and the operator's kernel-log rules; the files may lie on a slow disk.
    ///
    /// # Errors
    /// An agent cannot work by these settings.
    pub fn read(config: AgentConfig, mut policy: Policy) -> Result<Self, Error> {
        config.exposure()?;
        if let Some(folder) = &config.log_rules {
            policy.rules = rules(folder)?;
        }
        let token = config.token_file.as_deref().map(Token::read).transpose()?;
        // Who listens needs a certificate of its own; who only dials may show the token.
        let read = if config.listen.is_some() { Tls::read_for_server } else { Tls::read };
        let tls = config.tls_dir.as_deref().map(read).transpose()?.map(Arc::new);
        Ok(Self { config, policy, credentials: Credentials { token, tls } })
    }

    /// Where its own port is to be, if it has one.
    #[must_use]
    pub fn listens(&self) -> Option<SocketAddr> {
        self.config.listen
    }
}

/// How long an agent stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Until it is told to stop; a coordinator that is away may come back at any time.
    Always,
    /// For one coordinator, which must be reached within this time: when it has been gone for ten seconds, the agent ends.
    Once {
        /// From its start.
        reached_within: Duration,
    },
}

/// Runs an agent until `shutdown` is ready. Machines are judged by `policy`.
///
/// # Errors
/// It cannot start. Once it runs, an unreachable coordinator or a broken device is no error: it goes on trying.
pub async fn run(
    config: &AgentConfig,
    policy: Policy,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    run_on(Host::here()?, config, policy, shutdown).await
}

/// The same, for no longer than it is to stay; what comes by `reloads` is taken over where that can be done without a restart.
///
/// # Errors
/// As [`run`]; or the one coordinator is never reached.
pub async fn run_for(
    loaded: Loaded,
    stay: Stay,
    reloads: mpsc::Receiver<Loaded>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    main_loop::run(Host::here()?, loaded, (stay, reloads), shutdown).await
}

/// As [`run`] over another machine than the one we run on, to measure or test an agent over a capture: what it reads is from there.
///
/// # Errors
/// As [`run`].
pub async fn run_on(
    host: Host,
    config: &AgentConfig,
    policy: Policy,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let loaded = Loaded::read(config.clone(), policy)?;
    let (_, never) = mpsc::channel(1);
    main_loop::run(host, loaded, (Stay::Always, never), shutdown).await
}
