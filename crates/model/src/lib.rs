//! The words that two or more crates share; reading order: endpoint, reading, port, plan, manner, result, datagram, cause, finding.

mod cause;
mod class;
mod datagram;
mod dcb;
mod endpoint;
mod exclusion;
mod finding;
mod gid;
mod log;
mod manner;
mod metric;
mod netdev;
mod pci;
mod ping_figures;
mod ping_packed;
mod plan;
mod port;
mod reading;
mod result;
mod snapshot;
mod step;
mod system;
mod time;
mod words;

pub use cause::{Cause, Failure};
pub use class::class_from_word;
pub use datagram::{
    DatagramAddress, Delays, EchoStats, Heard, LabelBy, LabelResult, MeshSweep, Peer, PingCounts, PingStats,
    StampClock,
};
pub use dcb::{Buffers, Dcb, Ets, Trust, priorities};
pub use endpoint::{EndpointInfo, EndpointName, EndpointNameError, Fabric, SwitchPort};
pub use exclusion::Exclusion;
pub use finding::{Finding, Status};
pub use gid::{Gid, GidEntry, GidError, GidType};
pub use log::{KernelLog, LogHit};
pub use manner::{Carrier, Manner, Marks, Memory, Operation};
pub use metric::{Metric, UnknownMetric};
pub use netdev::{Address, AddressError, Bond, BondMember, Ecn, Ethtool, Lldp, Module, Netdev};
pub use pci::{Devlink, HealthReporter, PciFunction, PciLink};
pub use ping_figures::{PINGS_OF_A_SIZE_MAX, PingFigures, Spread};
pub use ping_packed::{CountsInShort, PackedPings, PingsInShort};
pub use plan::{
    BandwidthSpec, EchoSpec, LatencySpec, LeaseId, Load, PingSpec, ProbePlan, ProbeSpec, Role, Urgency,
};
pub use port::{Device, DeviceNode, Function, LinkLayer, PhysState, Port, PortState};
pub use reading::Reading;
pub use result::{BandwidthStats, Congestion, CounterDelta, Effects, LatencyStats, Outcome, PerPriority};
pub use snapshot::Snapshot;
pub use step::{Side, Step};
pub use system::{Neighbour, Route, Routing, System, Workload};
pub use time::{Mono, Now, Wall, WallError};
pub use words::in_one_line;
