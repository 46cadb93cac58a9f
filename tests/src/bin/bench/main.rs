//! Runs for `cargo xtask bench`: `lab` and `probes` measure side by side with perftest inside the lab, `swarm`, `node`, `mesh`
//! and `scale` measure on this machine what needs no RDMA. One row for each claim.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "rows go to standard output, progress to standard error"
)]

mod cpu;
mod datagrams;
mod idle;
mod mesh;
mod node;
mod operations;
mod pair;
mod row;
mod scale;
mod swarm;
mod sweep;

use rdmascope_tests::guest::{Api, Cluster, Endpoint, endpoints, run, try_run, wait_until};
use row::Row;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if let Some(code) = node::alone(&words).or_else(|| mesh::alone(&words)) {
        return code;
    }
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let as_json = has("--json");
    let mut holds = true;
    let mut print = |rows: Vec<Row>| {
        for row in rows {
            holds &= row.holds();
            row.print(as_json);
        }
    };
    if has("node") {
        node::rows(&mut print);
    } else if has("mesh") {
        print(mesh::rows());
    } else if has("scale") {
        scale::rows(&mut print);
    } else if has("operations") {
        operations::rows(&mut print);
    } else if has("probes") || has("datagrams") {
        if has("probes") {
            // Before there are agents, which have probes of their own.
            operations::rows(&mut print);
        }
        let mut cluster = Cluster::start(endpoints());
        let api = cluster.api();
        api.wait_usable(endpoints());
        print(sweep::datagram_rows(&api));
        datagrams::rows(&mut cluster, &mut print);
    } else {
        if has("lab") {
            let mut cluster = Cluster::start(endpoints());
            let api = cluster.api();
            api.wait_usable(endpoints());
            print(idle::rows(&mut cluster));
            print(sweep::rows(&api));
            print(pair::rows(&mut cluster));
        }
        print(swarm::rows());
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Does something while nothing of ours is probed, so that the other tool has the machine for itself.
fn while_paused<T>(api: &Api, work: impl FnOnce() -> T) -> T {
    let post = |path: &str| {
        let answer = api.post(path, &json!({})).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    };
    post("/api/v1/pause");
    let result = work();
    post("/api/v1/resume");
    result
}

/// One probe through the coordinator, on nodes that carry no job: the API's view of it once it is done.
fn probe_view(api: &Api, from: Endpoint, to: Endpoint, metric: &str) -> Value {
    let body = json!({"source": from.node(), "target": to.node(), "metric": metric, "drained": true});
    let begun = api.post("/api/v1/probes", &body).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(begun.status, 202, "{}", begun.text);
    let path = format!("/api/v1/probes/{}", begun.body["id"]);
    let view = wait_until("the probe is over", Duration::from_secs(60), || {
        let view = api.json(&path)?;
        let over = !["waiting", "running"].contains(&view["state"].as_str().unwrap_or_default());
        if over { Ok(view) } else { Err(view.to_string()) }
    });
    assert_eq!(view["state"], json!("done"), "{view}");
    view
}

/// One perftest run, both ends, as a script does it: the client starts when the server listens. The `prefixes` stand
/// before server and client, such as `taskset -c 0`. Now and then perftest cannot calibrate its clock in an emulated
/// machine and prints no report; it is run again then.
fn perftest(tool: &str, from: Endpoint, to: Endpoint, arguments: &str, prefixes: [&str; 2]) -> String {
    let (client, server, address) = (from.device(), to.device(), to.address());
    let line = format!(
        "{} {tool} -d {server} {arguments} > /dev/null 2>&1 & \
         until ss -ltn 'sport = :18515' | grep -q LISTEN; do sleep 0.05; done; \
         {} timeout 60 {tool} -d {client} {arguments} {address}; code=$?; wait; exit $code",
        prefixes[0], prefixes[1]
    );
    try_run(&line).or_else(|_| try_run(&line)).unwrap_or_else(|_| run(&line))
}

/// Median; the lower of the two middle ones for an even count.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}
