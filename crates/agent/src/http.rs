//! The agent's own `/metrics` and `/healthz`: alerts on a node must survive the coordinator.

use crate::machine::Seen;
use crate::main_loop::outcome;
use crate::{Error, VERSION};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus::Registry;
use rdmascope_checks::log::Rules;
use rdmascope_expose::api::{HealthView, PauseLevel};
use rdmascope_expose::metrics::{self, AgentInput, AgentOwn, CONTENT_TYPE, MeshInput};
use rdmascope_link::{PauseFlags, ProbeResult};
use rdmascope_model::{Metric, Status};
use rdmascope_probe::mesh::MeshHealth;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tracing::{error, info};

/// What is shown: written by the main loop, read by requests.
pub(crate) struct Shown {
    registry: Registry,
    pub(crate) own: AgentOwn,
    pub(crate) seen: Arc<Mutex<Seen>>,
    now: Mutex<Present>,
}

struct Present {
    connected: bool,
    paused: PauseFlags,
    mesh: Option<MeshInput>,
    /// What is known of lines of the kernel log.
    rules: Rules,
}

impl Shown {
    pub(crate) fn new(rules: Rules) -> prometheus::Result<Self> {
        let registry = Registry::new();
        let own = AgentOwn::new(&registry)?;
        let now = Present { connected: false, paused: PauseFlags::default(), mesh: None, rules };
        Ok(Self { registry, own, seen: Arc::default(), now: Mutex::new(now) })
    }

    /// Lines of the kernel log are known by these from now on.
    pub(crate) fn rules(&self, rules: Rules) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).rules = rules;
    }

    /// How many findings there are of each kind, in words.
    pub(crate) fn findings(&self) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.begun {
            return "this machine is not judged yet".to_owned();
        }
        let count = |status| seen.findings.iter().filter(|finding| finding.status == status).count();
        let (fail, unknown, warn) = (count(Status::Fail), count(Status::Unknown), count(Status::Warn));
        format!("findings: {fail} fail, {unknown} unknown, {warn} warn")
    }

    pub(crate) fn state(&self, connected: bool, paused: PauseFlags) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.connected = connected;
        now.paused = paused;
    }

    /// How the mesh of pings does, and how many batches no coordinator was there for.
    pub(crate) fn mesh(&self, health: Option<MeshHealth>, dropped: u64) {
        let mesh = health.map(|health| MeshInput {
            endpoints: health.endpoints,
            receives_posted: health.receives_posted,
            receives_wanted: health.receives_wanted,
            refused: health.refused,
            dropped: health.dropped + dropped,
            longest_gap: Duration::from_nanos(health.longest_gap_ns),
            waited: health.waited_ns.map(Duration::from_nanos),
        });
        self.now.lock().unwrap_or_else(PoisonError::into_inner).mesh = mesh;
    }

    pub(crate) fn count(&self, results: &[ProbeResult]) {
        for result in results.iter().filter(|result| result.lease.is_some()) {
            self.own.probe(result.metric.map_or("report", Metric::as_str), outcome(&result.outcome));
        }
    }

    fn text(&self) -> prometheus::Result<String> {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let families = metrics::agent(&AgentInput {
            version: VERSION,
            snapshot: seen.begun.then_some(&seen.snapshot),
            findings: &seen.findings,
            kernel_log: &seen.log,
            log_class: &|rule| now.rules.get(rule).map_or("unknown", |rule| rule.class.word()),
            took: &seen.took,
            done_at: &seen.done_at,
            retransmits: rdmascope_checks::counters::retransmits,
            paused: PauseLevel::of(now.paused.all, now.paused.bandwidth),
            uplink_connected: now.connected,
            mesh: now.mesh,
        });
        drop(seen);
        drop(now);
        Ok(families + &metrics::encode(&self.registry)?)
    }
}

/// Takes the port, where there is to be one.
pub(crate) async fn listen(address: Option<SocketAddr>) -> Result<Option<TcpListener>, Error> {
    let Some(address) = address else { return Ok(None) };
    let bound = TcpListener::bind(address).await;
    bound.map(Some).map_err(|source| Error::Listen { address, source })
}

/// Where others have the metrics that are served here; `own` is this machine's address on the way to the coordinator. What is served on the
/// loopback alone can be had by others only where the coordinator is on this machine, too: elsewhere it would be another agent's.
pub(crate) fn reachable(listener: &TcpListener, own: Option<IpAddr>) -> Option<SocketAddr> {
    let listen = listener.local_addr().ok()?;
    let ip = listen.ip().to_canonical();
    if ip.is_unspecified() {
        return own.map(|own| SocketAddr::new(own, listen.port()));
    }
    let is_told = !ip.is_loopback() || own.is_some_and(|own| own.to_canonical().is_loopback());
    is_told.then_some(SocketAddr::new(ip, listen.port()))
}

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, shown: Arc<Shown>) {
    if let Ok(address) = listener.local_addr() {
        info!(%address, "agent serves /metrics and /healthz");
    }
    let router = Router::new().route("/metrics", get(all)).route("/healthz", get(healthz)).with_state(shown);
    if let Err(error) = axum::serve(listener, router).await {
        error!(%error, "the agent's own HTTP server stopped");
    }
}

async fn all(State(shown): State<Arc<Shown>>) -> Response {
    match shown.text() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn healthz() -> Response {
    axum::Json(HealthView::ok(VERSION)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(at: &str, own: Option<&str>) -> Option<String> {
        let listener = listen(at.parse().ok()).await.unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        let told = reachable(&listener, own.map(|own| own.parse().unwrap()))?;
        assert_eq!(told.port(), port);
        Some(told.ip().to_string())
    }

    #[tokio::test]
    async fn an_address_is_told_only_where_others_reach_this_agent_by_it() {
        let of = |text: &str| Some(text.to_owned());
        assert_eq!(told("0.0.0.0:0", Some("10.0.0.7")).await, of("10.0.0.7"));
        assert_eq!(told("0.0.0.0:0", None).await, None, "no way to the coordinator is known");
        assert_eq!(told("127.0.0.1:0", Some("10.0.0.7")).await, None, "there it would be another agent's");
        assert_eq!(told("127.0.0.1:0", Some("127.0.0.1")).await, of("127.0.0.1"), "all on one machine");
    }
}
