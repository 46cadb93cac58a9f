//! The one binary: arguments, rendering, exit codes.

mod arguments;
mod capture;
mod check;
mod check_arguments;
mod client;
mod cluster;
mod cluster_arguments;
mod columns;
mod config_check;
mod daemon_arguments;
mod daemons;
mod diagnose;
mod explain;
mod failure;
mod figures;
mod gids;
mod history;
mod incidents;
mod logs;
mod looking;
mod matrix;
mod members;
mod nodes;
mod output;
mod pause;
mod probe;
mod probe_arguments;
mod reasons;
mod reload;
mod replace;
mod replay;
mod report;
mod screen;
mod selfcheck;
mod similar;
mod simulate;
mod slurm;
mod sweep;
mod tls;
mod written;

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
    screen::set_up(arguments.color);
    written::REVISION.into_iter().for_each(rdmascope_expose::metrics::built_from);
    let done = match &arguments.command {
        Command::Check(flags) => check::run(flags),
        Command::Explain(flags) => explain::run(flags),
        Command::Capture(flags) => capture::run(flags),
        Command::Coordinator(flags) => daemons::coordinator(flags),
        Command::Agent(flags) => daemons::agent(flags),
        Command::Matrix(flags) => matrix::run(flags),
        Command::Sweep(flags) => sweep::run(flags),
        Command::Probe(flags) => probe::run(flags),
        Command::Selfcheck(flags) => selfcheck::run(flags),
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
        Command::Nodes(flags) => members::run(flags),
        Command::Gids(flags) => gids::run(flags),
        Command::Config(ConfigCommand::Check { file, json }) => config_check::run(file, *json),
        Command::Config(ConfigCommand::Manifest { root }) => check::manifest(root.clone()),
        Command::Tls(command) => tls::run(command),
        Command::Slurm(command) => slurm::run(command),
        Command::Schema(flags) => written::schema(flags),
        Command::Completions(flags) => written::completions(flags),
        Command::Man(flags) => written::man(flags),
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
    ExitCode::from(if judges(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned())) {
        code::CHECK_UNKNOWN
    } else {
        code::USAGE
    })
}

/// Whether the command is one whose exit code is a judgement; flags may stand before it.
fn judges(words: impl IntoIterator<Item = String>) -> bool {
    let mut words = words.into_iter().filter(|word| !word.starts_with("--color="));
    let first = match words.next() {
        Some(word) if word == "--color" => words.nth(1),
        first => first,
    };
    first.is_some_and(|first| first == "check" || first == "selfcheck")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn a_judging_command_is_known_behind_flags() {
        let judges = |line: &str| judges(line.split(' ').map(str::to_owned));
        assert!(
            judges("check --jsn")
                && judges("selfcheck")
                && judges("--color never check")
                && judges("--color=never check")
        );
        assert!(!judges("explain check") && !judges("--color check") && !judges(""));
    }

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }
}
