//! Runs inside the lab for `cargo xtask bench lab`: measures side by side with perftest, one row for each claim.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "rows go to standard output, progress to standard error"
)]

mod idle;
mod pair;
mod row;
mod swarm;
mod sweep;

use rdmascope_tests::guest::{Cluster, endpoints};
use row::Row;
use std::process::ExitCode;

fn main() -> ExitCode {
    let as_json = std::env::args().any(|argument| argument == "--json");
    let mut holds = true;
    let mut print = |rows: Vec<Row>| {
        for row in rows {
            holds &= row.holds();
            row.print(as_json);
        }
    };
    {
        let mut cluster = Cluster::start(endpoints());
        let api = cluster.api();
        api.wait_usable(endpoints());
        print(idle::rows(&mut cluster));
        print(sweep::rows(&api));
        print(pair::rows(&mut cluster));
    }
    print(swarm::rows());
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Median; the lower of the two middle ones for an even count.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}
