//! The daemon that schedules probes and serves the matrix: it wires the pure state to sockets, time and HTTP.
//!
//! One thread. Everything that happens goes through `hub::Hub`, which holds the state behind one lock and hands its actions
//! to the connections' bounded queues; one task ticks when the state says so.

mod access;
mod api;
mod commands;
mod decoders;
mod diagnosis;
mod discovery;
mod epoch;
mod findings;
mod hub;
mod incidents;
mod maintenance;
mod metrics;
mod page;
mod pair_history;
mod query;
mod reload;
mod replace;
mod report;
mod snapshot;
mod socket;
mod store;
mod stream;
mod sweeps;
mod views;

pub use decoders::DECODERS;
pub use report::probe as probe_view;

use access::Access;
use hub::Hub;
use maintenance::MaintenanceFile;
use rdmascope_config::{
    CoordinatorConfig, Exposed, ServiceConfig, Token, TokenError, Topology, TopologyError, read_topology,
};
use rdmascope_control::coordinator::{Service, Settings};
use rdmascope_host::{Clock, service_manager};
use rdmascope_secure::{Limits, Server, Tls, TlsError};
use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{info, warn};

/// Connections that are not agents': 64 readers of the stream, pages, scripts, scrapers, and agents until they are known. The agents of a
/// simulated cluster, and those behind one router, come from one address.
const LIMITS: Limits = Limits { connections: 4_096, per_address: 256 };

/// Why a coordinator could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Other machines could reach it without a token.
    #[error(transparent)]
    Exposed(#[from] Exposed),
    /// There is no usable token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// There are no usable certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Who may not look could change things.
    #[error(
        "read_token_file is given, but neither token_file nor tls_dir: who may not look could still start probes; give one of the two"
    )]
    ReadAlone,
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
    /// The port does not say which it is.
    #[error("the port cannot be asked for its number")]
    Port(#[source] std::io::Error),
}

/// What a coordinator works by: its settings, and what the files say that they name. Read at the start, and again when it is told to.
#[derive(Clone)]
pub struct Loaded {
    config: CoordinatorConfig,
    access: Access,
    tls: Option<Arc<Tls>>,
}

impl Loaded {
    /// Reads the tokens and the certificates; the files may lie on a slow disk.
    ///
    /// # Errors
    /// A coordinator cannot work by these settings.
    pub fn read(config: CoordinatorConfig) -> Result<Self, Error> {
        config.exposure()?;
        let (access, tls) = access(&config)?;
        Ok(Self { config, access, tls })
    }

    /// Where anybody who reaches the address is let in: it was asked for, and is to be said.
    #[must_use]
    pub fn insecure(&self) -> Option<SocketAddr> {
        let listen = self.config.listen;
        (self.access.is_open() && !listen.ip().to_canonical().is_loopback()).then_some(listen)
    }

    /// Where it is to listen, and whether by TLS.
    #[must_use]
    pub fn listens(&self) -> (SocketAddr, bool) {
        (self.config.listen, self.tls.is_some())
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
    let (config, access, tls) = (&loaded.config, loaded.access.clone(), loaded.tls.clone());
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|source| Error::Listen { address: config.listen, source })?;
    let address = listener.local_addr().map_err(Error::Port)?;
    let clock = Clock::new();
    let epoch = epoch::begin(config.state_dir.as_deref(), clock.now().wall);
    let settings = settings(config, topology(config)?);
    let exposed = !address.ip().to_canonical().is_loopback();
    if exposed && !access.certificates && access.operate.is_some() {
        warn!(
            "the port speaks plain text: whoever can listen on the network can read the token (tls_dir ends this)"
        );
    }
    let hub = Arc::new(Hub::new(settings, epoch, clock, access, exposed, config.metrics.pairs_max)?);
    info!(%address, epoch, insecure = hub.insecure(), tls = tls.is_some(), "coordinator listens");
    // Dropped at the end, and with it every task.
    let mut tasks = JoinSet::new();
    if let Some(tls) = &tls {
        // Set once, here.
        let _ = hub.tls.set(Arc::clone(tls));
        tasks.spawn(Arc::clone(tls).watch());
    }
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
    let counted = hub.own.daemon.clone();
    let server = Server {
        router: api::router(Arc::clone(&hub)),
        tls,
        limits: LIMITS,
        refused: Box::new(move |why| counted.connection_refused(why)),
    };
    let ends = async move {
        shutdown.await;
        info!("coordinator stops");
        service_manager::stopping();
        ending.close_all();
    };
    server.serve(listener, ends).await;
    if let Some(folder) = &config.state_dir {
        hub.keep_incidents();
        snapshot::save(&hub, folder);
    }
    Ok(())
}

/// Who is let in, and by which certificates.
fn access(config: &CoordinatorConfig) -> Result<(Access, Option<Arc<Tls>>), Error> {
    let read = |file: &Option<PathBuf>| file.as_deref().map(Token::read).transpose();
    let tls = config.tls_dir.as_deref().map(Tls::read_for_server).transpose()?.map(Arc::new);
    let access = Access {
        operate: read(&config.token_file)?,
        read: read(&config.read_token_file)?,
        certificates: tls.is_some(),
    };
    if access.read.is_some() && access.operate.is_none() && tls.is_none() {
        return Err(Error::ReadAlone);
    }
    Ok((access, tls))
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
