//! What agent and coordinator decide: both are states that take events and the time, and leave actions to their shells.
//!
//! Nothing here does I/O or reads a clock, so that a whole cluster runs in one thread on a virtual clock (crate `sim`).

pub mod agent;
pub mod coordinator;
