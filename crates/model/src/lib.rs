//! The words that two or more crates share; reading order: endpoint, reading, port, plan, result, cause, finding.

mod cause;
mod endpoint;
mod exclusion;
mod finding;
mod gid;
mod metric;
mod plan;
mod port;
mod reading;
mod result;
mod time;
mod words;

pub use cause::{Cause, Failure, Side, Step};
pub use endpoint::{EndpointInfo, EndpointName, EndpointNameError, Fabric};
pub use exclusion::Exclusion;
pub use finding::{Finding, Status};
pub use gid::{Gid, GidEntry, GidError, GidType};
pub use metric::{Metric, UnknownMetric};
pub use plan::{BandwidthSpec, LatencySpec, LeaseId, ProbePlan, ProbeSpec, Role, Urgency};
pub use port::{Device, LinkLayer, Netdev, PhysState, Port, PortState, Snapshot};
pub use reading::Reading;
pub use result::{BandwidthStats, CounterDelta, LatencyStats, Outcome};
pub use time::{Mono, Now, Wall};
pub use words::in_one_line;
