//! The simulated fabric that drives the real states on a virtual clock.
//!
//! A [`Cluster`] is a coordinator, its agents and the network between them in one thread. Everything that decides is the
//! product's own: the states of `control`, the sessions of `probe`, the frames of `link`. Only what they stand on is
//! made up here: time, connections, and the [`Fabric`] that answers probes. The same seed gives the same run.

mod audit;
mod cluster;
mod datagrams;
mod deliver;
mod disk;
mod effects;
mod exchange;
mod fabric;
mod faults;
mod figures;
mod host;
mod leased;
mod mesh;
mod mesh_told;
mod net;
mod packets;
mod path;
mod pinged;
mod random;
mod rival;
mod running;
pub mod suite;
mod transport;
mod window;
mod windows;
mod wires;

pub use audit::EventKey;
pub use cluster::{Cluster, Shape};
pub use disk::Disk;
pub use exchange::Exchange;
pub use fabric::{Fabric, OwnerId, Shared};
pub use mesh::{Done, MeshFabric, Path, Report, WIRE_NS, mesh_name};
pub use mesh_told::MeshTold;
pub use net::{
    End, Harm, Hosts, Jobs, Layout, Load, Net, Noise, Packet, Parameters, Spot, Stall, Topology, Wire,
    leaf_name, node_name,
};
pub use pinged::Pinged;
pub use random::Random;
pub use running::Pinging;
pub use transport::SimTransport;
