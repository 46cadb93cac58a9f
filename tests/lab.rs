//! Tests that run inside the lab, on real RDMA devices. `cargo xtask test` boots it; one test at a time.

#[path = "lab/adapters.rs"]
mod adapters;
#[path = "lab/check.rs"]
mod check;
#[path = "lab/conformance.rs"]
mod conformance;
#[path = "lab/faults.rs"]
mod faults;
#[path = "lab/safety.rs"]
mod safety;
#[path = "lab/soundness.rs"]
mod soundness;
#[path = "lab/written_log.rs"]
mod written_log;
