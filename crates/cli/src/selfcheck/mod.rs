//! `rdmascope selfcheck`: a batch of nodes, tested in stages, and one report that says whether it may be handed over.

mod alone;
mod arguments;
mod facts;
mod files;
mod html;
mod incast;
mod judged;
mod local;
mod map;
mod nodes;
mod own;
mod suspects;
mod sweeps;
mod text;
mod watch;

pub(crate) use arguments::SelfcheckFlags;

use crate::arguments::CoordinatorAt;
use crate::client::Client;
use crate::failure::{Failure, code};
use crate::output::print;
use facts::Facts;
use own::Beside;
use rdmascope_config::HostPort;
use rdmascope_expose::api::{SelfcheckReport, Severity};
use rdmascope_host::Clock;
use rdmascope_localise::batch::Limits;
use rdmascope_model::Metric;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;
use watch::Watch;

/// Runs it. Whatever ends it early reads as "not tested" (3) to a script.
pub(crate) fn run(flags: &SelfcheckFlags) -> Result<u8, Failure> {
    test(flags).map_err(|failure| failure.with(code::CHECK_UNKNOWN))
}

fn test(flags: &SelfcheckFlags) -> Result<u8, Failure> {
    let (began, began_at) = (Instant::now(), Clock::new().now().wall);
    let named = flags.nodes.as_deref().map(nodes::named).transpose()?;
    let (beside, own) = Beside::start(flags)?;
    let client = match own {
        Some(address) => own_client(flags, address)?,
        None => Client::new(&flags.at)?,
    };
    let limits = flags.limits.iter().fold(flags.preset.limits, |limits, (limit, n)| limits.with(*limit, *n));
    let mut watch = Watch::new(&beside);
    if let Some(address) = own {
        let scheme = if flags.at.tls.is_some() { "https" } else { "http" };
        watch.say(&format!("listening on {scheme}://{address}"));
    }
    let mut facts = Facts::default();
    nodes::wait(&client, flags, named.as_deref(), &mut facts, &mut watch)?;
    stages(&client, flags, &limits, &mut facts, &mut watch);
    watch.clear();
    let report = judged::report(flags, &limits, &facts, (began_at, began.elapsed()));
    let written = files::write(&report, &flags.reports);
    drop(beside);
    let shown = if flags.json { files::json(&report)? } else { text::text(&report) };
    print(&shown)?;
    written.map(|()| report.exit_code)
}

/// All stages; one that cannot be carried out is told as not tested, and the others go on.
fn stages(
    client: &Client,
    flags: &SelfcheckFlags,
    limits: &Limits,
    facts: &mut Facts,
    watch: &mut Watch<'_>,
) {
    stage(facts, watch, "local", |facts, _| local::look(client, flags, limits, facts));
    for metric in [Metric::Latency, Metric::Bandwidth] {
        stage(facts, watch, metric.as_str(), |facts, watch| {
            sweeps::all(client, flags, limits, metric, facts, watch)
        });
    }
    if flags.incasts > 0 {
        stage(facts, watch, "incast", |facts, watch| incast::all(client, flags, limits, facts, watch));
    }
    stage(facts, watch, "alone", |facts, watch| alone::all(client, flags, limits, facts, watch));
}

fn stage(
    facts: &mut Facts,
    watch: &mut Watch<'_>,
    name: &'static str,
    carry_out: impl FnOnce(&mut Facts, &mut Watch<'_>) -> Result<(Severity, String), Failure>,
) {
    let began = Instant::now();
    let done = if watch.is_interrupted() { Err(interrupted()) } else { carry_out(facts, watch) };
    let (status, text) = match done {
        Ok(done) => done,
        Err(failure) => {
            let what = format!("the stage {name}");
            let next = failure.next_step();
            let next = if next.is_empty() { "See why, and run it again." } else { next };
            facts.not_tested(&what, failure.text(), next);
            (Severity::Unknown, format!("not tested: {}", failure.text()))
        }
    };
    facts.stage(name, status, text, began.elapsed());
}

fn interrupted() -> Failure {
    Failure::new(code::CHECK_UNKNOWN, "it was interrupted").then("Run it again, with the same seed.")
}

/// The own coordinator, as this machine reaches it.
fn own_client(flags: &SelfcheckFlags, address: SocketAddr) -> Result<Client, Failure> {
    let host = match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => Ipv6Addr::LOCALHOST.to_string(),
        other => other.ip().to_string(),
    };
    let config = crate::daemons::coordinator_of_selfcheck(flags)?;
    let coordinator = HostPort { host, port: address.port() };
    Client::new(&CoordinatorAt { coordinator, token_file: config.token_file, tls: config.tls_dir })
}

/// The exit code of a status.
fn exit_code(status: Severity) -> u8 {
    match status {
        Severity::Ok => 0,
        Severity::Warn => 1,
        Severity::Fail => 2,
        Severity::Unknown => code::CHECK_UNKNOWN,
    }
}

/// The worse of two: broken, then not tested, then a warning.
fn worse(a: Severity, b: Severity) -> Severity {
    let rank = |status| match status {
        Severity::Ok => 0,
        Severity::Warn => 1,
        Severity::Unknown => 2,
        Severity::Fail => 3,
    };
    if rank(b) > rank(a) { b } else { a }
}

/// Names in a sentence, few of them.
fn some(names: &[String], most: usize) -> String {
    let shown = names.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The word of a status in reports.
fn word(status: Severity) -> &'static str {
    match status {
        Severity::Ok => "OK",
        Severity::Warn => "WARN",
        Severity::Fail => "FAIL",
        Severity::Unknown => "NOT TESTED",
    }
}

/// The word of the whole verdict.
fn verdict(report: &SelfcheckReport) -> &'static str {
    match report.status {
        Severity::Ok => "PASS",
        other => word(other),
    }
}
