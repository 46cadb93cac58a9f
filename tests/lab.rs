//! Tests that run inside the lab, on real RDMA devices. `cargo xtask test` boots it; one test at a time.

#[path = "lab/adapters.rs"]
mod adapters;
#[path = "lab/alerts.rs"]
mod alerts;
#[path = "lab/causes.rs"]
mod causes;
#[path = "lab/check.rs"]
mod check;
#[path = "lab/conformance.rs"]
mod conformance;
#[path = "lab/effects.rs"]
mod effects;
#[path = "lab/faults.rs"]
mod faults;
#[path = "lab/incidents.rs"]
mod incidents;
#[path = "lab/iwarp.rs"]
mod iwarp;
#[path = "lab/labels.rs"]
mod labels;
#[path = "lab/mesh.rs"]
mod mesh;
#[path = "lab/network.rs"]
mod network;
#[path = "lab/report.rs"]
mod report;
#[path = "lab/safety.rs"]
mod safety;
#[path = "lab/selfcheck.rs"]
mod selfcheck;
#[path = "lab/soak.rs"]
mod soak;
#[path = "lab/soundness.rs"]
mod soundness;
#[path = "lab/written_log.rs"]
mod written_log;
