//! Runs for `cargo xtask cases`: judges each folder's machine with the real binary and compares with what its report asks for.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the result goes to standard output, what keeps it from being found to standard error"
)]

mod case;
mod outcome;
mod report;

use case::Case;
use outcome::Outcome;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("cases: {why}");
            ExitCode::FAILURE
        }
    }
}

/// `[--json] FOLDER`; the binary is that of `RDMASCOPE_BIN`.
fn run(mut arguments: Vec<String>) -> Result<bool, String> {
    let as_json = arguments.iter().any(|argument| argument == "--json");
    arguments.retain(|argument| argument != "--json");
    let [folder] = arguments.as_slice() else { return Err("usage: cases [--json] FOLDER".to_owned()) };
    let binary = std::env::var_os("RDMASCOPE_BIN").map(PathBuf::from);
    let binary = binary.ok_or("RDMASCOPE_BIN must name the program to be tested")?;
    let cases = Case::all(folder.as_ref())?;
    let outcomes: Vec<(Case, Outcome)> = cases
        .into_iter()
        .map(|case| {
            let outcome = outcome::of(&case, &binary);
            (case, outcome)
        })
        .collect();
    let lines = if as_json { report::as_json(&outcomes) } else { report::for_people(&outcomes) };
    for line in lines {
        println!("{line}");
    }
    Ok(report::holds(&outcomes))
}
