//! All simulated agents, on one thread beside the one that measures.

use super::agent::{Shape, SimulatedAgent};
use super::orders::{Mode, Orders};
use crate::failure::{Failure, code};
use rdmascope_agent::{Credentials, uplink};
use rdmascope_config::HostPort;
use rdmascope_sim::Fabric;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

/// Events of one connection that may wait.
const EVENTS_MAX: usize = 64;
/// Decides what the fabric leaves to chance.
const SEED: u64 = 1;

/// Running agents; they end when this is dropped.
pub(super) struct Swarm {
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
}

impl Swarm {
    /// Starts all agents at once.
    pub(super) fn start(shape: &Shape, coordinator: &HostPort) -> Result<(Self, Arc<Orders>), Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(code::FAILED, format!("no runtime: {error}")))?;
        let orders = Arc::new(Orders::default());
        let (shape, coordinator, given) = (shape.clone(), coordinator.clone(), Arc::clone(&orders));
        let thread = std::thread::spawn(move || {
            let local = LocalSet::new();
            let fabric = Fabric::new(SEED);
            for node in 0..shape.nodes() {
                let agent = SimulatedAgent::new(node, &shape, &given, &fabric);
                let (happened_in, happened) = mpsc::channel(EVENTS_MAX);
                let shown = watch::channel(Credentials::default()).1;
                local.spawn_local(uplink::keep(coordinator.clone(), shown, happened_in));
                local.spawn_local(agent.run(happened));
            }
            runtime.block_on(local);
        });
        Ok((Self { orders: Arc::clone(&orders), thread: Some(thread) }, orders))
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        self.orders.give(Mode::Stop);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
