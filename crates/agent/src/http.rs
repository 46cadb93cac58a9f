//! The agent's own `/metrics` and `/healthz`: alerts on a node must survive the coordinator.

use crate::machine::Seen;
use crate::main_loop::outcome;
use crate::{Credentials, Error, VERSION};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use prometheus::Registry;
use rdmascope_checks::Policy;
use rdmascope_expose::api::{HealthView, PauseLevel, Problem};
use rdmascope_expose::metrics::{self, AgentInput, AgentOwn, CONTENT_TYPE, MeshInput, PairsInput};
use rdmascope_link::{PairsBrief, PauseFlags, ProbeResult};
use rdmascope_model::{Metric, Status};
use rdmascope_probe::mesh::MeshHealth;
use rdmascope_secure::{Limits, Peer, Server, bearer};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::info;

/// Scrapers and probes of the kubelet: few, and from few addresses.
const LIMITS: Limits = Limits { connections: 64, per_address: 16 };

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
    pairs: Arc<[PairsBrief]>,
    /// What is known of lines of the kernel log, and what is expected of ports.
    policy: Policy,
}

impl Shown {
    pub(crate) fn new(policy: Policy) -> prometheus::Result<Self> {
        let registry = Registry::new();
        let own = AgentOwn::new(&registry)?;
        let paused = PauseFlags::default();
        let now = Present { connected: false, paused, mesh: None, pairs: Arc::default(), policy };
        Ok(Self { registry, own, seen: Arc::default(), now: Mutex::new(now) })
    }

    /// Lines of the kernel log are known, and ports held, by this from now on.
    pub(crate) fn policy(&self, policy: Policy) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).policy = policy;
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

    /// Whether the coordinator is there, and how long a fault must have stood to be one.
    pub(crate) fn connected_and_settle(&self) -> (bool, Duration) {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = now.policy.whole(&rdmascope_checks::limits::SETTLE_SECONDS);
        (now.connected, Duration::from_secs(seconds.into()))
    }

    pub(crate) fn state(&self, connected: bool, paused: PauseFlags) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.connected = connected;
        now.paused = paused;
    }

    /// How the pairs of the node's endpoints do.
    pub(crate) fn pairs(&self, pairs: Arc<[PairsBrief]>) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).pairs = pairs;
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
        let pairs: Vec<_> = now.pairs.iter().map(input).collect();
        let families = metrics::agent(&AgentInput {
            version: VERSION,
            snapshot: seen.begun.then_some(&seen.snapshot),
            findings: &seen.findings,
            kernel_log: &seen.log,
            log_class: &|rule| now.policy.rules.get(rule).map_or("unknown", |rule| rule.class.word()),
            expected_rate_bps: &|device, port| now.policy.manifest.of(device, Some(port)).rate_bps,
            took: &seen.took,
            done_at: &seen.done_at,
            retransmits: rdmascope_checks::counters::retransmits,
            paused: PauseLevel::of(now.paused.all, now.paused.bandwidth),
            uplink_connected: now.connected,
            mesh: now.mesh,
            pairs: &pairs,
        });
        drop(seen);
        drop(now);
        Ok(families + &metrics::encode(&self.registry)?)
    }
}

fn input(pairs: &PairsBrief) -> PairsInput<'_> {
    PairsInput {
        device: &pairs.device,
        port: pairs.port,
        metric: pairs.metric,
        outgoing: pairs.outgoing,
        pairs: [pairs.fresh, pairs.stale, pairs.failed],
        worst: pairs.worst,
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
pub(crate) async fn serve(
    listener: TcpListener,
    shown: Arc<Shown>,
    credentials: watch::Receiver<Credentials>,
) {
    let tls = credentials.borrow().tls.clone();
    if let Ok(address) = listener.local_addr() {
        info!(%address, tls = tls.is_some(), "agent serves /metrics and /healthz");
    }
    let counted = shown.own.daemon.clone();
    let state = Arc::new(Served { shown, credentials });
    let router = Router::new().route("/metrics", get(all)).route("/healthz", get(healthz)).with_state(state);
    let refused = Box::new(move |why| counted.connection_refused(why));
    Server { router, tls, limits: LIMITS, refused }.serve(listener, std::future::pending()).await;
}

struct Served {
    shown: Arc<Shown>,
    credentials: watch::Receiver<Credentials>,
}

impl Served {
    /// In plain text whoever reaches the port reads, as with any exporter; where there are certificates, a reader's or an operator's, or
    /// the token.
    fn admits(&self, headers: &HeaderMap, peer: Option<&Peer>) -> bool {
        let Credentials { token, tls } = &*self.credentials.borrow();
        let by_token = token.as_ref().zip(bearer(headers)).is_some_and(|(token, shown)| token.matches(shown));
        let role = peer.and_then(|peer| peer.subject.as_ref()?.role);
        tls.is_none() || by_token || role.is_some()
    }
}

async fn all(
    State(served): State<Arc<Served>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Response {
    if !served.admits(&headers, peer.as_deref()) {
        let problem = Problem::unauthorized();
        let body = serde_json::to_string(&problem).unwrap_or_default();
        let kind = [(header::CONTENT_TYPE, Problem::CONTENT_TYPE)];
        return (StatusCode::UNAUTHORIZED, kind, body).into_response();
    }
    let shown = &served.shown;
    let tls = served.credentials.borrow().tls.clone();
    for (file, until) in tls.iter().flat_map(|tls| tls.expires()) {
        shown.own.daemon.certificate(&file, until);
    }
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
