//! The one binary: arguments, rendering, exit codes.

mod arguments;
mod capture;
mod check;
mod check_arguments;
mod client;
mod cluster;
mod cluster_arguments;
mod config_check;
mod daemons;
mod diagnose;
mod explain;
mod failure;
mod figures;
mod history;
mod incidents;
mod logs;
mod looking;
mod matrix;
mod nodes;
mod output;
mod pause;
mod probe;
mod probe_arguments;
mod reasons;
mod replay;
mod report;
mod simulate;
mod sweep;
mod table;

use arguments::{Arguments, Command, ConfigCommand};
use clap::Parser as _;
use clap::error::ErrorKind;
use failure::{Failure, code};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return told_by_clap(&error),
    };
    let done = match &arguments.command {
        Command::Check(flags) => check::run(flags),
        Command::Explain(flags) => explain::run(flags),
        Command::Capture(flags) => capture::run(flags),
        Command::Coordinator(flags) => daemons::coordinator(flags),
        Command::Agent(flags) => daemons::agent(flags),
        Command::Matrix(flags) => matrix::run(flags),
        Command::Sweep(flags) => sweep::run(flags),
        Command::Probe(flags) => probe::run(flags),
        Command::Simulate(flags) => simulate::run(flags),
        Command::Pause(flags) => pause::run(flags, true),
        Command::Resume(flags) => pause::run(flags, false),
        Command::Diagnose(flags) => diagnose::run(flags),
        Command::Incidents(flags) => incidents::run(flags),
        Command::History(flags) => history::run(flags),
        Command::Findings(flags) => cluster::findings(flags),
        Command::Events(flags) => cluster::events(flags),
        Command::Replay(flags) => replay::run(flags),
        Command::Ack(flags) => cluster::ack(flags),
        Command::Maintenance(flags) => cluster::maintenance(flags),
        Command::Nodes(command) => cluster::nodes(command),
        Command::Config(ConfigCommand::Check { file }) => config_check::run(file),
        Command::Config(ConfigCommand::Manifest { root }) => check::manifest(root.clone()),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.tell();
            ExitCode::from(failure.code)
        }
    }
}

/// Help and version are answers; everything else is a usage error, whose code depends on the command.
fn told_by_clap(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody may be reading any more (`| head`).
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => drop(error.print()),
        _ => {
            let text = error.to_string();
            Failure::new(code::USAGE, text.strip_prefix("error: ").unwrap_or(&text).trim_end()).tell();
        }
    }
    let judges = std::env::args_os().nth(1).is_some_and(|first| first == "check");
    ExitCode::from(if judges { code::CHECK_UNKNOWN } else { code::USAGE })
}
