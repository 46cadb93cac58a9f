//! temporary
#![allow(
    clippy::all,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    missing_docs,
    reason = "temporary"
)]
use rdmascope_control::coordinator::Settings;
use rdmascope_model::Metric;
use rdmascope_sim::*;
use std::time::{Duration, Instant};
fn main() {
    let nodes: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let bg = std::env::args().nth(2).is_some();
    let t = Instant::now();
    let settings =
        if bg { Settings::default() } else { Settings { pings_per_second: 0, ..Settings::default() } };
    let mut c = Cluster::new(&Shape { seed: 1, nodes, one_machine: false, settings });
    c.run_until(Duration::from_secs(5), |c| c.coordinator().members().endpoints().count() == nodes);
    println!("{nodes} joined: {:?} events {} virtual {:?}", t.elapsed(), c.events(), c.elapsed());
    if bg {
        let cov = c.coordinator().coverage().unwrap();
        let e = c.events();
        let t = Instant::now();
        c.run_for(cov);
        println!("background {cov:?}: {:?} events {}", t.elapsed(), c.events() - e);
        return;
    }
    for m in Metric::ALL {
        let (t, v, e) = (Instant::now(), c.elapsed(), c.events());
        c.command(|k, now| k.start_sweep(&[m], true, now)).unwrap().unwrap();
        let ok =
            c.run_until(Duration::from_secs(600), |c| c.coordinator().sweep().unwrap().finished_at.is_some());
        println!("{m}: {ok} real {:?} virtual {:?} events {}", t.elapsed(), c.elapsed() - v, c.events() - e);
    }
}
