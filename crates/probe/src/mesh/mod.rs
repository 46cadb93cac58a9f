//! UD pings between endpoints: which are sent, how they are answered, and what is made of the answers.
//!
//! A prober sends a batch of pings to one peer, then to the next. The responder answers each at once with a first
//! acknowledgement of the same size, and then with a second, small one that carries how long the first took it. Six stamps:
//! t1 ping posted, t2 ping sent, t3 ping received, t4 first acknowledgement sent, t5 that received, t6 handled. The
//! network's round trip is (t5 − t2) − (t4 − t3), the responder's share t4 − t3, the prober's (t6 − t1) − (t5 − t2)
//! (R-Pingmesh, SIGCOMM 2024, section 4.1): no clock is compared with another one's.
//!
//! t2 to t5 are the devices' where both devices stamp, else the programs': a ping says which kind its prober wants, and a
//! responder without a device's clock answers by its program's, which turns the rest of the batch to software.
//!
//! Every acknowledgement also carries how many pings of the batch the responder heard and how many acknowledgements it
//! sent, so loss is told by direction. Where the last pings of a batch stay without any answer, the prober asks for these
//! counters; where that has no answer either, the direction is not known, and only what the responder reports
//! ([`rdmascope_model::Heard`]) can tell.
//!
//! Reading order: `packet`, `grh`, `plan`, `batch` (the prober's side), `peers` (the responder's side), `engine`, `stats`.

mod batch;
mod engine;
mod flights;
mod grh;
mod labels;
mod packet;
mod peers;
mod plan;
mod stamp;
mod stats;
mod words;

pub use batch::TIMEOUT;
pub use engine::{BATCH_PINGS_MAX, Datagram, Destination, Engine, LeasedPings, Output};
pub use grh::{GRH_BYTES, source_gid};
pub use labels::{flow_label, pair_seed};
pub use packet::{HEADER_BYTES, Header, Kind, Sizes};
pub use peers::Source;
pub use stamp::{Stamp, Stamps};
pub use words::{MeshCommand, MeshEvent, MeshGrant, MeshHealth};
