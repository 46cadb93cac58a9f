//! Runs for `cargo xtask bench`: `lab` measures side by side with perftest inside the lab, `swarm` measures on this machine what
//! needs no RDMA. One row for each claim.
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
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    let as_json = has("--json");
    let mut holds = true;
    let mut print = |rows: Vec<Row>| {
        for row in rows {
            holds &= row.holds();
            row.print(as_json);
        }
    };
    if has("lab") {
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
