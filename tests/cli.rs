//! The real binary from a user's side: its commands against a real cluster over TCP, and what it makes of bad input.

#[path = "cli/bad_input.rs"]
mod bad_input;
#[path = "cli/captures.rs"]
mod captures;
#[path = "cli/cases.rs"]
mod cases;
#[path = "cli/commands.rs"]
mod commands;
#[path = "cli/harness.rs"]
mod harness;
#[path = "cli/history.rs"]
mod history;

#[path = "cli/backup.rs"]
mod backup;
#[path = "cli/bare_root.rs"]
mod bare_root;
#[path = "cli/contracts.rs"]
mod contracts;
#[path = "cli/half_open.rs"]
mod half_open;
#[path = "cli/hosts.rs"]
mod hosts;
#[path = "cli/incidents.rs"]
mod incidents;
#[path = "cli/kept.rs"]
mod kept;
#[path = "cli/manual.rs"]
mod manual;
#[path = "cli/many.rs"]
mod many;
#[path = "cli/members.rs"]
mod members;
#[path = "cli/mistakes.rs"]
mod mistakes;
#[path = "cli/outputs.rs"]
mod outputs;
#[path = "cli/reports.rs"]
mod reports;
#[path = "cli/screen.rs"]
mod screen;
#[path = "cli/secure.rs"]
mod secure;
#[path = "cli/selfcheck.rs"]
mod selfcheck;
#[path = "cli/slurm.rs"]
mod slurm;

#[path = "cli/service_manager.rs"]
mod service_manager;
