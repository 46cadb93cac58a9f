//! Installs what is needed, builds, boots the lab, runs tests and demonstrations.
#![expect(clippy::print_stdout, reason = "a tool for a terminal")]

mod bench;
mod cases;
mod dashboards;
mod demo;
mod deploy;
mod error;
mod faults;
mod fuzz;
mod install;
mod lab;
mod npm;
mod package;
mod page;
mod pip;
mod process;
mod services;
mod soak;
mod test;
mod workspace;

use clap::{Parser, Subcommand};
use error::Result;
use std::process::ExitCode;

/// Everything about this workspace that cargo alone cannot do.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install the Debian packages that building, the lab and the tests need.
    Install,
    /// Show the product on real RDMA: a lab cluster, one agent for each endpoint, the whole matrix.
    Demo(demo::Options),
    /// Boot the lab, run a command in it, end with its exit code.
    ///
    /// The guest sees this machine's files read-only; /tmp is its own, and /tmp/lab is shared for this run.
    /// RDMASCOPE_BIN names the release build of rdmascope when there is one.
    Lab {
        /// RDMA endpoints w1..wN with devices rxe1..rxeN and addresses 10.8.0.1..N.
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=i64::from(lab::ENDPOINTS_MAX)))]
        endpoints: u8,
        /// One word is a line for bash; several are a program and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Run every check and every test, the lab's too.
    Test,
    /// Measure, compare with what was asked, print a table.
    Bench {
        /// What to measure.
        name: bench::Name,
        /// One JSON object for each row instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Judge the machines of public bug reports and compare with what each report asks for.
    Cases(cases::Options),
    /// Hold the Grafana dashboards against their types and rules, and run every query of them against a real Prometheus.
    Dashboards(dashboards::Options),
    /// Hold Helm chart, kustomize base and Dockerfile: lint, every profile and part against Kubernetes' schemas, privileges, no drift.
    Deploy(deploy::Options),
    /// Drive the web page in a browser: types, clicks, keys, screenshots, frame times, size.
    Page(page::Options),
    /// Make a .deb and a .rpm from the release binary; --try installs, upgrades and removes both in a fresh root.
    Package(package::Options),
    /// Drain and resume a node of a real Slurm on this machine, whose port loses its cable (as root; all of it ends with the run).
    Slurm,
    /// Two blocks with a coordinator each, representatives of each in the other, and one Prometheus over both.
    ScaleOut,
    /// Break simulated clusters in many ways, and see how often the verdict names what is broken.
    Faults(faults::Options),
    /// Let a cluster in the lab work for an hour, and see whether memory, file descriptors and queue pairs stay as they were.
    Soak(soak::Options),
    /// Feed made-up bytes to everything that reads bytes of others, for a minute each; the kept corpus is what found most before.
    Fuzz(fuzz::Options),
}

fn main() -> ExitCode {
    let result = process::undo_everything_on_signal().and_then(|()| run(Arguments::parse().task));
    process::stop_here_if_ending();
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<u8> {
    match task {
        Task::Install => {
            install::install(&install::Need::ALL)?;
            Ok(0)
        }
        Task::Demo(options) => demo::demo(&options).map(|()| 0),
        Task::Lab { endpoints, command } => {
            install::install(&[install::Need::Lab])?;
            let built = workspace::built_rdmascope()?;
            lab::run_command(endpoints, command, built.as_deref()).map(exit_code)
        }
        Task::Test => test::test().map(|()| 0),
        Task::Bench { name, json } => bench::bench(name, json).map(exit_code),
        Task::Cases(options) => cases::cases(options).map(exit_code),
        Task::Dashboards(options) => dashboards::dashboards(&options).map(exit_code),
        Task::Deploy(options) => deploy::deploy(&options).map(|()| 0),
        Task::Page(options) => page::page(&options).map(|()| 0),
        Task::Package(options) => package::package(&options).map(|()| 0),
        Task::Slurm => services::slurm().map(|()| 0),
        Task::ScaleOut => services::scale_out().map(|()| 0),
        Task::Faults(options) => faults::faults(options).map(exit_code),
        Task::Soak(options) => soak::soak(&options).map(|()| 0),
        Task::Fuzz(options) => fuzz::fuzz(&options).map(|()| 0),
    }
}

/// The guest's exit code as ours; one that does not fit is still a failure.
fn exit_code(code: i32) -> u8 {
    u8::try_from(code).unwrap_or(1)
}
