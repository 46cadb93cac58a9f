//! Runs for `cargo xtask slurm` and `cargo xtask scale-out`: the real binary beside services of other makers, on loopback.
#![expect(clippy::print_stderr, reason = "what is being done goes to standard error")]

mod scale_out;
mod slurm;
mod slurm_daemons;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["slurm"] => slurm::run(),
        ["scale-out"] => scale_out::run(),
        // An agent over a machine of files, which must be a process of its own.
        ["machine", root, coordinator, listen, node] => {
            return rdmascope_tests::machine::watch(Path::new(root), coordinator, listen, node);
        }
        _ => {
            eprintln!("usage: services slurm|scale-out");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
