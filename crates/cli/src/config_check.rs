//! `rdmascope config check`: every problem of a config file at once, or what applies.

use crate::failure::{Failure, code};
use crate::output::{plain, print_json, show};
use crate::tls::left;
use rdmascope_config::{AgentConfig, Config, CoordinatorConfig, LogFormat, TransportKind, read_topology};
use rdmascope_expose::api::ConfigReport;
use rdmascope_host::Clock;
use rdmascope_model::in_one_line;
use rdmascope_secure::Material;
use std::fmt::Display;
use std::path::Path;

/// Runs it.
pub(crate) fn run(file: &Path, json: bool) -> Result<u8, Failure> {
    let checked = checked(file);
    if !json {
        show(&checked?)?;
        return Ok(0);
    }
    let (problems, code) = match checked {
        Ok(_) => (None, 0),
        Err(failure) => (Some(failure.text().to_owned()), failure.code),
    };
    print_json(&ConfigReport { file: file.display().to_string(), ok: problems.is_none(), problems })?;
    Ok(code)
}

/// What applies, in words.
fn checked(file: &Path) -> Result<String, Failure> {
    let config = load(file)?;
    let exposed = [config.agent.exposure().err(), config.coordinator.exposure().err()];
    let exposed: Vec<String> =
        exposed.iter().flatten().map(|exposed| format!("{}: {exposed}", file.display())).collect();
    if !exposed.is_empty() {
        return Err(Failure::new(code::CONFIG, exposed.join("\n")));
    }
    // Only the coordinator's machine need have it.
    if let Some(Err(error)) =
        config.coordinator.topology_file.as_deref().filter(|f| f.exists()).map(read_topology)
    {
        return Err(Failure::new(code::CONFIG, in_one_line(&error)));
    }
    Ok(summary(file, &config))
}

/// Reads a config file.
pub(crate) fn load(file: &Path) -> Result<Config, Failure> {
    rdmascope_config::load(file).map_err(|problems| {
        let count = problems.list.len() + problems.more;
        let word = if count == 1 { "problem" } else { "problems" };
        Failure::new(code::CONFIG, format!("{count} {word} in the config file:\n{problems}"))
            .then("config/rdmascope.yaml of the distribution shows every key")
    })
}

fn summary(file: &Path, config: &Config) -> String {
    let format = match config.log.format {
        LogFormat::Text => "text",
        LogFormat::Json => "JSON",
    };
    format!(
        "ok: {}\n{}{}log\n  level {}, as {format}\n",
        file.display(),
        agent(&config.agent),
        coordinator(&config.coordinator),
        config.log.level.as_str()
    )
}

fn agent(agent: &AgentConfig) -> String {
    let transport = match agent.transport {
        TransportKind::Verbs => "verbs",
        TransportKind::Tcp => "TCP: nothing about RDMA is measured",
    };
    let devices =
        if agent.devices.is_empty() { "all RDMA devices".to_owned() } else { agent.devices.join(", ") };
    format!(
        "agent\n  coordinator {}\n  token {}\n  certificates {}\n  node name {}\n  devices {devices}\n  transport {transport}\n  \
         own metrics {}\n  pause file {}\n",
        or(agent.coordinator.as_ref(), "not given: needs --coordinator"),
        or(agent.token_file.as_ref().map(|file| file.display()), "none"),
        certificates(agent.tls_dir.as_deref()),
        or(agent.node_name.as_ref(), "the host name"),
        or(agent.listen, "none"),
        agent.state_dir.join("pause").display()
    )
}

fn coordinator(coordinator: &CoordinatorConfig) -> String {
    format!(
        "coordinator\n  listens on {}\n  token {}\n  token for reading {}\n  certificates {}\n  state {}\n  {} pings per second and endpoint\n  \
         all pairs within {} s, then {} s rest\n  metrics of single pairs up to {} pairs\n  topology {}\n  \
         at most {} streams across a leaf's uplinks, {} on a node\n  maintenance {}\n",
        coordinator.listen,
        or(coordinator.token_file.as_ref().map(|file| file.display()), "none"),
        or(
            coordinator.read_token_file.as_ref().map(|file| file.display()),
            "none: whoever reaches it may look"
        ),
        certificates(coordinator.tls_dir.as_deref()),
        or(coordinator.state_dir.as_ref().map(|folder| folder.display()), "is not kept over a restart"),
        coordinator.mesh.pings_per_second,
        coordinator.sweep.coverage.as_secs_f64(),
        coordinator.sweep.pause.as_secs_f64(),
        coordinator.metrics.pairs_max,
        or(
            coordinator.topology_file.as_ref().map(|file| file.display()),
            "only what switches tell of themselves (LLDP)"
        ),
        coordinator.streams_per_leaf,
        coordinator.streams_per_node,
        or(
            coordinator.maintenance_file.as_ref().map(|file| format!("of {}", file.display())),
            "only by hand"
        )
    )
}

/// Whom the certificate of a folder is for, and until when; the other role's folder need not be on this machine.
fn certificates(folder: Option<&Path>) -> String {
    let Some(folder) = folder else { return "none: plain text".to_owned() };
    match Material::read(folder) {
        Ok(material) => {
            let now = Clock::new().now().wall;
            let until = material.expires.iter().map(|(_, until)| *until).min().unwrap_or(now);
            let name = material.subject.as_ref().map_or("nobody", |subject| subject.name.as_str());
            format!("of {}: for {}, {}", folder.display(), plain(name), left(until, now))
        }
        Err(_) if !folder.exists() => format!("of {}, which is not on this machine", folder.display()),
        Err(error) => format!("of {}, which cannot be used: {}", folder.display(), in_one_line(&error)),
    }
}

fn or(value: Option<impl Display>, otherwise: &str) -> String {
    value.map_or_else(|| otherwise.to_owned(), |value| value.to_string())
}
