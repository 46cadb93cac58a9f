//! Runs for `cargo xtask faults`: the fault suite on all processors, its figures as a table or as JSON.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "figures go to standard output, what went wrong and why to standard error"
)]

mod options;

use options::Options;
use rdmascope_sim::suite::{Figures, Outcome, Part, QuietOutcome, QuietPart, Row, Suite, quiet_rows};
use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Wrong usage, as everywhere.
const USAGE: u8 = 64;

/// One thing for one processor to do.
enum Task {
    Quiet(QuietPart),
    Runs(Part),
}

/// What came of all of them so far.
#[derive(Default)]
struct Found {
    figures: Figures,
    quiet: Vec<QuietOutcome>,
    runs: usize,
}

fn main() -> ExitCode {
    let options = Options::read(std::env::args().skip(1));
    let read = options.and_then(|options| {
        let text = std::fs::read_to_string(&options.parameters)
            .map_err(|error| format!("{}: {error}", options.parameters.display()))?;
        let suite =
            Suite::parse(&text).map_err(|error| format!("{}: {error}", options.parameters.display()))?;
        Ok((options, suite))
    });
    match read {
        Ok((options, suite)) => run(&options, &suite),
        Err(error) => {
            eprintln!("faults: {error}");
            ExitCode::from(USAGE)
        }
    }
}

fn run(options: &Options, suite: &Suite) -> ExitCode {
    let began = Instant::now();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let tasks = Mutex::new(tasks(options, suite, processors));
    let found = Mutex::new(Found::default());
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                loop {
                    let task = locked(&tasks).pop_front();
                    match task {
                        None => return,
                        Some(Task::Quiet(part)) => {
                            let outcome = part.run(suite);
                            outcome.alarms.iter().for_each(|alarm| eprintln!("quiet: alarm: {alarm}"));
                            locked(&found).quiet.push(outcome);
                        }
                        Some(Task::Runs(part)) => part.run(suite, |outcome| {
                            if options.wrong && !outcome.is_right() {
                                eprintln!("{}", wrong(&outcome));
                            }
                            let mut found = locked(&found);
                            found.runs += 1;
                            found.figures.count(&outcome, suite);
                        }),
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let rows: Vec<Row> = found.figures.rows().into_iter().chain(quiet_rows(&found.quiet)).collect();
    if options.json {
        let all = found.figures.kind_rows(suite).into_iter().chain(rows.iter().cloned());
        all.for_each(|row| println!("{}", row.json()));
    } else {
        found.figures.table(suite).iter().for_each(|line| println!("{line}"));
        println!();
        rows.iter().for_each(|row| println!("{}", row.line()));
        let seconds = began.elapsed().as_secs();
        println!(
            "\n{} runs in {seconds} s on {processors} processors, seed {}",
            found.runs,
            options.seed(suite)
        );
    }
    if rows.iter().all(Row::holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The longest first.
fn tasks(options: &Options, suite: &Suite, processors: usize) -> VecDeque<Task> {
    let quiet = options.quiet().then(|| QuietPart::all(suite, processors as u64, options.seed(suite)));
    let runs = options.plan(suite).map(|plan| plan.parts(suite));
    let quiet = quiet.into_iter().flatten().map(Task::Quiet);
    quiet.chain(runs.into_iter().flatten().map(Task::Runs)).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run that was not told right, for a person who looks into it.
fn wrong(outcome: &Outcome) -> String {
    let mut lines = vec![format!(
        "WRONG {}, N = {}, seed {:#x}, watched {:.0} s (coverage {:.0} s): {}",
        outcome.kind, outcome.endpoints, outcome.seed, outcome.seconds, outcome.coverage_s, outcome.broken
    )];
    for fault in &outcome.faults {
        let time = |seconds: Option<f64>| seconds.map_or("never".to_owned(), |s| format!("after {s:.1} s"));
        lines.push(format!(
            "  expected {}: told {}, exactly {}, {}",
            fault.expected,
            time(fault.told_s),
            time(fault.exact_s),
            if fault.exact { "right in the end" } else { "not right in the end" }
        ));
    }
    for told in &outcome.told {
        let right = if told.right { "right" } else { "FALSE" };
        lines.push(format!("  {right}, after {:.1} s: {}", told.at_s, told.text));
    }
    lines.join("\n")
}
