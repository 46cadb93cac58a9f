//! The words that two or more crates share; reading order: endpoint, reading, port, plan, result, cause, finding.

mod cause;
mod dcb;
mod endpoint;
mod exclusion;
mod finding;
mod gid;
mod log;
mod metric;
mod netdev;
mod pci;
mod plan;
mod port;
mod reading;
mod result;
mod snapshot;
mod system;
mod time;
mod words;

pub use cause::{Cause, Failure, Side, Step};
pub use dcb::{Buffers, Dcb, Ets, Trust, priorities};
pub use endpoint::{EndpointInfo, EndpointName, EndpointNameError, Fabric};
pub use exclusion::Exclusion;
pub use finding::{Finding, Status};
pub use gid::{Gid, GidEntry, GidError, GidType};
pub use log::{KernelLog, LogHit};
pub use metric::{Metric, UnknownMetric};
pub use netdev::{Address, AddressError, Bond, BondMember, Ecn, Ethtool, Lldp, Module, Netdev};
pub use pci::{Devlink, HealthReporter, PciFunction, PciLink};
pub use plan::{BandwidthSpec, LatencySpec, LeaseId, ProbePlan, ProbeSpec, Role, Urgency};
pub use port::{Device, DeviceNode, Function, LinkLayer, PhysState, Port, PortState};
pub use reading::Reading;
pub use result::{BandwidthStats, CounterDelta, LatencyStats, Outcome};
pub use snapshot::Snapshot;
pub use system::{Neighbour, Route, Routing, System, Workload};
pub use time::{Mono, Now, Wall};
pub use words::in_one_line;
