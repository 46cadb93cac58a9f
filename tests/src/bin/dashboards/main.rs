//! Runs for `cargo xtask dashboards`: every query of every panel against a real Prometheus that scrapes a real cluster, healthy and broken.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the table goes to standard output, progress to standard error"
)]

mod here;
mod lab;
mod looks;
mod machine;
mod variables;

use rdmascope_tests::dashboards::When;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["here", folder, empty] => {
            code(here::run(looks::Looks::new(Path::new(folder), Path::new(empty), When::Here)))
        }
        ["lab", folder, empty] => {
            code(lab::run(looks::Looks::new(Path::new(folder), Path::new(empty), When::Lab)))
        }
        ["machine", root, coordinator, listen, node] => {
            rdmascope_tests::machine::watch(Path::new(root), coordinator, listen, node)
        }
        _ => {
            eprintln!("usage: dashboards here|lab FOLDER EMPTY.yaml");
            ExitCode::FAILURE
        }
    }
}

fn code(fine: bool) -> ExitCode {
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
