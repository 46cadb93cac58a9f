//! `rdmascope coordinator` and `rdmascope agent`: settings from file and flags, a runtime, an orderly end on a signal.

use crate::daemon_arguments::{AgentFlags, CoordinatorFlags, Transport};
use crate::failure::{Failure, code};
use crate::selfcheck::SelfcheckFlags;
use crate::{config_check, logs, reload};
use rdmascope_agent::Stay;
use rdmascope_checks::Policy;
use rdmascope_config::{AgentConfig, Config, CoordinatorConfig, TransportKind};
use rdmascope_host::{keep_what_a_coordinator_needs, keep_what_an_agent_needs};
use rdmascope_model::in_one_line;
use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

/// How long an orderly end may take: a client that never reads its answer must not hold up a restart.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Runs a coordinator until it is told to stop.
pub(crate) fn coordinator(flags: &CoordinatorFlags) -> Result<u8, Failure> {
    let again = flags.clone();
    let read = move || {
        let config = settings(again.config.as_deref())?;
        let loaded = rdmascope_coordinator::Loaded::read(over_coordinator(config.coordinator, &again));
        Ok((config.log, loaded.map_err(coordinator_failed)?))
    };
    let (log, loaded) = read()?;
    let logs = logs::set_up(&log)?;
    if let Some(listen) = loaded.insecure() {
        warn!(%listen, "INSECURE: anybody who reaches this address can start probes");
    }
    let (listen, secure) = loaded.listens();
    given_up(keep_what_a_coordinator_needs(listen.port()));
    let scheme = if secure { "https" } else { "http" };
    until_signal(|stop| async move {
        let (give, reloads) = mpsc::channel(1);
        let shutdown = async { drop(stop.await) };
        let daemon =
            rdmascope_coordinator::run(loaded, reloads, |address| announce(scheme, address), shutdown);
        tokio::select! {
            ended = daemon => ended.map_err(coordinator_failed),
            Err(failure) = reload::whenever_asked((log, logs), read, give) => Err(failure),
        }
    })
}

/// The settings of the coordinator that a self-check is itself: nothing but what it asks for is measured.
pub(crate) fn coordinator_of_selfcheck(flags: &SelfcheckFlags) -> Result<CoordinatorConfig, Failure> {
    let config = settings(flags.config.as_deref())?;
    let coordinator = CoordinatorConfig {
        listen: flags.listen.unwrap_or(config.coordinator.listen),
        token_file: flags.at.token_file.clone().or(config.coordinator.token_file),
        tls_dir: flags.at.tls.clone().or(config.coordinator.tls_dir),
        insecure: flags.insecure || config.coordinator.insecure,
        state_dir: None,
        ..config.coordinator
    };
    coordinator.exposure().map_err(|exposed| Failure::new(code::CONFIG, exposed.to_string()))?;
    Ok(coordinator)
}

/// Runs an agent until it is told to stop.
pub(crate) fn agent(flags: &AgentFlags) -> Result<u8, Failure> {
    let again = flags.clone();
    let read = move || {
        let config = settings(again.config.as_deref())?;
        let agent = over_agent(config.agent, &again);
        let policy = Policy { devices: agent.devices.clone(), ..config.policy };
        if agent.coordinator.is_none() {
            return Err(Failure::new(code::USAGE, "it is not known where the coordinator is")
                .then("give --coordinator HOST:PORT, or set agent.coordinator in the file of --config"));
        }
        Ok((config.log, rdmascope_agent::Loaded::read(agent, policy).map_err(agent_failed)?))
    };
    let (log, loaded) = read()?;
    let logs = logs::set_up(&log)?;
    given_up(keep_what_an_agent_needs(loaded.listens().map(|listen| listen.port())));
    let stay = if flags.once { Stay::Once { reached_within: flags.wait } } else { Stay::Always };
    until_signal(|stop| async move {
        let (give, reloads) = mpsc::channel(1);
        let shutdown = async { drop(stop.await) };
        let daemon = rdmascope_agent::run_for(loaded, stay, reloads, shutdown);
        tokio::select! {
            ended = daemon => ended.map_err(agent_failed),
            Err(failure) = reload::whenever_asked((log, logs), read, give) => Err(failure),
        }
    })
}

/// Tells what became of giving up capabilities; nobody is worse off without than before there was such a thing.
fn given_up(done: std::io::Result<()>) {
    if let Err(error) = done {
        warn!(%error, "capabilities that are not needed could not be given up: whoever takes this process over has them");
    }
}

/// The settings of a file, or the defaults.
fn settings(file: Option<&Path>) -> Result<Config, Failure> {
    let Some(file) = file else { return Ok(Config::default()) };
    config_check::load(file)
}

fn over_coordinator(config: CoordinatorConfig, flags: &CoordinatorFlags) -> CoordinatorConfig {
    CoordinatorConfig {
        listen: flags.listen.unwrap_or(config.listen),
        token_file: flags.token_file.clone().or(config.token_file),
        read_token_file: flags.read_token_file.clone().or(config.read_token_file),
        tls_dir: flags.tls.clone().or(config.tls_dir),
        insecure: flags.insecure || config.insecure,
        state_dir: flags.state_dir.clone().or(config.state_dir),
        ..config
    }
}

fn over_agent(config: AgentConfig, flags: &AgentFlags) -> AgentConfig {
    let transport = flags.transport.map(|transport| match transport {
        Transport::Verbs => TransportKind::Verbs,
        Transport::Tcp => TransportKind::Tcp,
    });
    AgentConfig {
        coordinator: flags.coordinator.clone().or(config.coordinator),
        token_file: flags.token_file.clone().or(config.token_file),
        tls_dir: flags.tls.clone().or(config.tls_dir),
        node_name: flags.node_name.clone().or(config.node_name),
        devices: if flags.devices.is_empty() { config.devices } else { flags.devices.clone() },
        transport: transport.unwrap_or(config.transport),
        listen: flags.listen.or(config.listen),
        state_dir: flags.state_dir.clone().unwrap_or(config.state_dir),
        insecure: config.insecure,
        workloads: config.workloads,
        kernel_log: config.kernel_log,
        log_rules: config.log_rules,
    }
}

/// The one line on standard output: people click on it, scripts read the port from it.
fn announce(scheme: &str, address: SocketAddr) {
    // A coordinator whose standard output is closed works all the same.
    let _ = writeln!(std::io::stdout(), "listening on {scheme}://{address}");
}

pub(crate) fn coordinator_failed(error: rdmascope_coordinator::Error) -> Failure {
    use rdmascope_coordinator::Error;
    match &error {
        Error::Listen { address, source } => cannot_listen(*address, source, "coordinator"),
        Error::Exposed(_) | Error::Token(_) | Error::Tls(_) | Error::ReadAlone | Error::Topology(_) => {
            Failure::new(code::CONFIG, in_one_line(&error))
        }
        Error::Metrics(_) | Error::Port(_) => Failure::new(code::FAILED, in_one_line(&error)),
    }
}

fn agent_failed(error: rdmascope_agent::Error) -> Failure {
    use rdmascope_agent::Error;
    match &error {
        Error::Listen { address, source } => cannot_listen(*address, source, "agent"),
        Error::Exposed(_) | Error::Token(_) | Error::Tls(_) | Error::Rules(_) => {
            Failure::new(code::CONFIG, in_one_line(&error))
        }
        Error::NeverReached { .. } => Failure::new(code::FAILED, in_one_line(&error)).then(
            "is the coordinator running there, and can this node reach it? wait longer with --wait TIME",
        ),
        Error::NoCoordinator | Error::NodeName(_) => Failure::new(code::USAGE, in_one_line(&error)),
        Error::Host(_) | Error::NoAddress(_) | Error::Metrics(_) => {
            Failure::new(code::FAILED, in_one_line(&error))
        }
    }
}

fn cannot_listen(address: SocketAddr, source: &std::io::Error, what: &str) -> Failure {
    Failure::new(code::FAILED, format!("cannot listen on {address}: {source}"))
        .then(format!("is another {what} running? stop it, or choose another address with --listen"))
}

/// Runs a daemon; what it is given is ready when it should stop.
pub(crate) fn until_signal<F>(run: impl FnOnce(oneshot::Receiver<()>) -> F) -> Result<u8, Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let no_runtime =
        |error: std::io::Error| Failure::new(code::FAILED, format!("the program cannot be set up: {error}"));
    let runtime = Builder::new_current_thread().enable_all().build().map_err(no_runtime)?;
    let ended = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(no_runtime)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(no_runtime)?;
        let (stop, stopped) = oneshot::channel();
        tokio::select! {
            ended = run(stopped) => ended.map(|()| 0),
            code = async {
                next(&mut interrupt, &mut terminate).await;
                // It may have ended by itself meanwhile.
                let _ = stop.send(());
                tokio::select! {
                    () = next(&mut interrupt, &mut terminate) => {}
                    () = tokio::time::sleep(END_WITHIN) => {}
                }
                warn!("not everything ended in an orderly way; it is left behind");
                code::FAILED
            } => Ok(code),
        }
    });
    // A thread may be stuck in the kernel with a broken device; waiting for it would never end.
    runtime.shutdown_background();
    ended
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
