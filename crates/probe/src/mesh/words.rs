//! What an agent's state tells its mesh, and what the mesh tells back.

use rdmascope_model::{
    DatagramAddress, EndpointInfo, EndpointName, Failure, Heard, MeshSweep, Mono, Peer, PingStats,
};
use std::sync::Arc;

/// Permission to ping the peers of the book. It ends by itself, whatever becomes of the coordinator and of the agent's main loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeshGrant {
    /// Until when.
    pub until: Mono,
    /// Pings per second of each endpoint, all peers together; obeyed up to `MESH_PINGS_PER_SECOND_MAX`.
    pub pings_per_second: u32,
    /// Pings to one peer before the next peer's turn, small and large together.
    pub pings_per_batch: u32,
    /// Path labels that each pair's pings rotate through.
    pub labels: u32,
    /// Each so manieth turn is a peer's on another rail; 1: rails make no difference; 0: nobody's there.
    pub cross_rail_every: u32,
    /// A pass over the peers at a rate of its own, obeyed up to `MESH_SWEEP_PINGS_PER_SECOND_MAX` and `MESH_SWEEP_BATCH_MAX`.
    pub sweep: Option<MeshSweep>,
}

/// To the mesh. Each replaces what was said before of the same thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeshCommand {
    /// The endpoints that take part: those that can be probed now. One that is missing is closed at once.
    Endpoints(Vec<EndpointInfo>),
    /// The address book, own endpoints included.
    Book(Arc<[Peer]>),
    /// What may be sent; `None`: nothing (no grant, or paused). Pings of others are answered all the same.
    Grant(Option<MeshGrant>),
}

/// From the mesh.
#[derive(Clone, Debug, PartialEq)]
pub enum MeshEvent {
    /// An endpoint takes datagrams at this address.
    Opened(EndpointName, DatagramAddress),
    /// An endpoint takes none any more; why, unless it was told to.
    Closed(EndpointName, Option<Failure>),
    /// A batch of pings from this endpoint to this peer is over.
    Pings(EndpointName, EndpointName, Box<PingStats>),
    /// Pings from this endpoint to this peer could not even be sent: its address does not resolve.
    Unreachable(EndpointName, EndpointName, Failure),
    /// A batch of somebody's pings was heard.
    Heard(Heard),
    /// How the poller does; at most every few seconds.
    Health(MeshHealth),
}

/// How the poller does: what it could not do says more about this host than about the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeshHealth {
    /// Endpoints that are open.
    pub endpoints: u32,
    /// Receive buffers that are posted, over all endpoints.
    pub receives_posted: u32,
    /// Receive buffers that should be.
    pub receives_wanted: u32,
    /// Datagrams that were thrown away since the start: unreadable, from nobody in the book, or too many.
    pub refused: u64,
    /// Results that nobody took in time, since the start.
    pub dropped: u64,
    /// Longest time between two turns of the poller while it had something to do, since the last report, nanoseconds.
    pub longest_gap_ns: u64,
    /// Of that time, what it waited for a processor, nanoseconds; `None` where the kernel does not tell.
    pub waited_ns: Option<u64>,
}
