//! Many real agents in one process: each with its own state, connection and transport, over TCP.

use crate::guest::Api;
use rdmascope_agent::run;
use rdmascope_config::{AgentConfig, Config, Token, TransportKind};
use std::path::Path;
use std::time::{Duration, Instant};

/// What was seen when they connected.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// From the start of the first until the coordinator knew an endpoint of each.
    pub took: Duration,
    /// Agents that were not among them in the end.
    pub refused: usize,
}

/// Starts `count` agents at once against the coordinator at `address` and waits until all are registered.
///
/// # Panics
/// When they cannot be started.
#[must_use]
pub fn connect(count: usize, address: &str, token_file: Option<&Path>, limit: Duration) -> Seen {
    with(count, address, token_file, limit, |seen, _| seen)
}

/// As [`connect`]; `look` sees the coordinator's API while the agents live.
///
/// # Panics
/// When they cannot be started.
pub fn with<T>(
    count: usize,
    address: &str,
    token_file: Option<&Path>,
    limit: Duration,
    look: impl FnOnce(Seen, &Api) -> T,
) -> T {
    let token = token_file.map(|path| Token::read(path).unwrap_or_else(|error| panic!("{error}")));
    let api = Api::new(address, token.as_ref().map(Token::secret));
    let (stop, stopped) = tokio::sync::watch::channel(());
    let began = Instant::now();
    let agents = {
        let (address, token_file) = (address.to_owned(), token_file.map(Path::to_owned));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
            let local = tokio::task::LocalSet::new();
            for number in 0..count {
                let config = AgentConfig {
                    coordinator: address.parse().ok(),
                    token_file: token_file.clone(),
                    node_name: Some(format!("swarm-{number}")),
                    transport: TransportKind::Tcp,
                    ..Config::default().agent
                };
                let mut stopped = stopped.clone();
                local.spawn_local(async move {
                    let shutdown = async move { drop(stopped.changed().await) };
                    if let Err(error) = run(&config, Config::default().policy, shutdown).await {
                        panic!("agent {number}: {error}");
                    }
                });
            }
            drop(stopped);
            runtime.block_on(local);
        })
    };
    let registered = || {
        let status = api.json("/api/v1/status").unwrap_or_default();
        status["endpoints_usable"].as_u64().unwrap_or(0) as usize
    };
    let mut there = registered();
    while there < count && began.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(50));
        there = registered();
    }
    let seen = Seen { took: began.elapsed(), refused: count - there.min(count) };
    let result = look(seen, &api);
    drop(stop);
    drop(agents.join());
    result
}
