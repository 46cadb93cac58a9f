//! The daemon that schedules probes and serves the matrix: it wires the pure state to sockets, time and HTTP.
//!
//! One thread. Everything that happens goes through `hub::Hub`, which holds the state behind one lock and hands its actions
//! to the connections' bounded queues; one task ticks when the state says so.

mod api;
mod commands;
mod diagnosis;
mod discovery;
mod findings;
mod hub;
mod incidents;
mod maintenance;
mod metrics;
mod page;
mod pair_history;
mod reload;
mod report;
mod snapshot;
mod socket;
mod store;
mod stream;
mod sweeps;
mod views;

pub use report::probe as probe_view;

use hub::Hub;
use maintenance::MaintenanceFile;
use rdmascope_config::{
    CoordinatorConfig, Exposed, ServiceConfig, Token, TokenError, Topology, TopologyError, read_topology,
};
use rdmascope_control::coordinator::{Service, Settings};
use rdmascope_host::{Clock, service_manager};
use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::info;

/// Why a coordinator could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Other machines could reach it without a token.
    #[error(transparent)]
    Exposed(#[from] Exposed),
    /// There is no usable token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// There is no usable topology file.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The port cannot be had.
    #[error(
        "cannot listen on {address}: is another coordinator running? choose another address with --listen"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A metric's name is taken twice.
    #[error("the metrics cannot be set up")]
    Metrics(#[from] prometheus::Error),
    /// The server stopped.
    #[error("the HTTP server stopped")]
    Serve(#[source] std::io::Error),
}

/// What a coordinator works by: its settings, and the token of the file that they name. Read at the start, and again when it is told to.
#[derive(Clone, Debug)]
pub struct Loaded {
    config: CoordinatorConfig,
    token: Option<Token>,
}

impl Loaded {
    /// Reads the token; its file may lie on a slow disk.
    ///
    /// # Errors
    /// A coordinator cannot work by these settings.
    pub fn read(config: CoordinatorConfig) -> Result<Self, Error> {
        config.exposure()?;
        let token = config.token_file.as_deref().map(Token::read).transpose()?;
        Ok(Self { config, token })
    }

    /// Where anybody who reaches the address is let in: it was asked for, and is to be said.
    #[must_use]
    pub fn insecure(&self) -> Option<SocketAddr> {
        let listen = self.config.listen;
        (self.token.is_none() && !listen.ip().to_canonical().is_loopback()).then_some(listen)
    }
}

/// Where nodes and adapters hang, where a file says it.
fn topology(config: &CoordinatorConfig) -> Result<Topology, TopologyError> {
    let Some(path) = &config.topology_file else {
        info!("no topology_file: leaves are known where switches tell them (LLDP), pods are not");
        return Ok(Topology::default());
    };
    let found = read_topology(path)?;
    let all: BTreeSet<_> = found.leaves.values().collect();
    let (named, leaf_switches, pods) = (found.leaves.len(), all.len(), found.pods.len());
    info!(path = %path.display(), named, leaf_switches, pods, "the topology is read");
    Ok(found)
}

/// Runs a coordinator until `shutdown` is ready. `started` is told the address, with the port that was chosen; what comes by `reloads` is
/// taken over where that can be done without a restart.
///
/// # Errors
/// It cannot start, or its server fails.
pub async fn run(
    loaded: Loaded,
    reloads: mpsc::Receiver<Loaded>,
    started: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let (config, token) = (&loaded.config, loaded.token.clone());
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|source| Error::Listen { address: config.listen, source })?;
    let address = listener.local_addr().map_err(Error::Serve)?;
    let clock = Clock::new();
    // Wall time in milliseconds grows from one coordinator to the next, also over a lost disk.
    let epoch = clock.now().wall.0;
    let settings = settings(config, topology(config)?);
    let exposed = !address.ip().to_canonical().is_loopback();
    let hub = Arc::new(Hub::new(settings, epoch, clock, token, exposed, config.metrics.pairs_max)?);
    info!(%address, epoch, insecure = hub.insecure(), "coordinator listens");
    // Dropped at the end, and with it every task.
    let mut tasks = JoinSet::new();
    if let Some(folder) = &config.state_dir {
        snapshot::load(&hub, folder);
        if let Some(store) = store::Store::open(&hub, folder) {
            // Set once, here.
            let _ = hub.store.set(store);
        }
        tasks.spawn(snapshot::keep(Arc::clone(&hub), folder.clone()));
    }
    if let Some(path) = &config.maintenance_file {
        let file = Arc::new(MaintenanceFile::new(path.clone()));
        // Set once, here.
        let _ = hub.maintenance.set(Arc::clone(&file));
        tasks.spawn(maintenance::watch(Arc::clone(&hub), file));
    }
    tasks.spawn(Arc::clone(&hub).tick_forever());
    tasks.spawn(Arc::clone(&hub).count_forever());
    tasks.spawn(reload::take_all(Arc::clone(&hub), loaded.clone(), reloads));
    started(address);
    let ending = Arc::clone(&hub);
    let served = axum::serve(listener, api::router(Arc::clone(&hub))).with_graceful_shutdown(async move {
        shutdown.await;
        info!("coordinator stops");
        service_manager::stopping();
        ending.close_all();
    });
    let result = served.await.map_err(Error::Serve);
    if let Some(folder) = &config.state_dir {
        hub.keep_incidents();
        snapshot::save(&hub, folder);
    }
    result
}

fn settings(config: &CoordinatorConfig, topology: Topology) -> Settings {
    Settings {
        pings_per_second: config.mesh.pings_per_second,
        labels: config.mesh.labels,
        coverage: config.sweep.coverage,
        pause: config.sweep.pause,
        services: config.services.iter().map(|(name, service)| (name.clone(), service_of(service))).collect(),
        streams_per_leaf: config.streams_per_leaf,
        streams_per_node: config.streams_per_node,
        pairs_at_once: config.sweep.pairs_at_once,
        sweep_bytes_max: u64::from(config.sweep.gigabytes_max) * 1_000_000_000,
        rails_routed: config.rails_routed,
        leaves: topology.leaves,
        rails: topology.rails,
        pods: topology.pods,
    }
}

fn service_of(config: &ServiceConfig) -> Service {
    Service { device: config.device.clone(), class: config.class, peers: config.peers.clone() }
}
