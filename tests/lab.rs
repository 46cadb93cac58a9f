//! Tests that run inside the lab, on real RDMA devices. `cargo xtask test` boots it; one test at a time.

#[path = "lab/faults.rs"]
mod faults;
#[path = "lab/soundness.rs"]
mod soundness;
