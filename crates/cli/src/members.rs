//! `rdmascope nodes`: the nodes and endpoints that the coordinator knows; forgets and renames nodes.

use crate::client::{Client, escaped};
use crate::cluster_arguments::{NodesCommand, NodesFlags};
use crate::columns::{Cell, Columns};
use crate::failure::Failure;
use crate::output::{plain, print_json, show};
use crate::screen::{Screen, Tone, screen};
use crate::similar;
use rdmascope_expose::api::{
    EndpointList, EndpointView, NodeList, NodeView, NodesReport, PauseLevel, RemoveRequest, UnusableView,
};
use rdmascope_host::Clock;
use rdmascope_model::Wall;
use std::collections::BTreeMap;

/// Kinds of reasons why endpoints cannot be probed that are told in words.
const REASONS_MAX: usize = 5;

/// Runs it.
pub(crate) fn run(flags: &NodesFlags) -> Result<u8, Failure> {
    match &flags.command {
        None => list(flags),
        Some(NodesCommand::Remove { node, json, at }) => change(&Client::new(at)?, node, None, *json),
        Some(NodesCommand::Rename { node, to, json, at }) => {
            change(&Client::new(at)?, node, Some(to.clone()), *json)
        }
    }
}

fn list(flags: &NodesFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at)?;
    let NodeList { nodes } = client.get("/api/v1/nodes")?;
    let EndpointList { endpoints } = client.get("/api/v1/endpoints")?;
    let mut report = NodesReport { nodes, endpoints };
    if let Some(wanted) = &flags.node {
        if !report.nodes.iter().any(|node| node.name == *wanted) {
            return Err(similar::unknown_node(wanted, report.nodes.iter().map(|node| node.name.as_str())));
        }
        report.nodes.retain(|node| node.name == *wanted);
        report.endpoints.retain(|endpoint| endpoint.node == *wanted);
    }
    if flags.json {
        print_json(&report)?;
    } else if report.nodes.is_empty() {
        show(&client.no_agents())?;
    } else {
        show(&words(&report, Clock::new().now().wall, screen()))?;
    }
    Ok(0)
}

fn words(report: &NodesReport, now: Wall, screen: Screen) -> String {
    let mut list =
        Columns::new(&["NODE / ENDPOINT", "STATE", "FINDINGS", "RAIL", "LEAF", "AGENT", "SEEN"], &[]);
    for node in &report.nodes {
        list.push(node_row(node, now));
        let own = report.endpoints.iter().filter(|endpoint| endpoint.node == node.name);
        own.for_each(|endpoint| list.push(endpoint_row(endpoint, now)));
    }
    let connected = report.nodes.iter().filter(|node| node.connected).count();
    let usable = report.endpoints.iter().filter(|endpoint| endpoint.usable).count();
    format!(
        "{}\n{} nodes, {connected} connected; {} endpoints, {usable} can be probed\n{}",
        list.text(screen),
        report.nodes.len(),
        report.endpoints.len(),
        reasons(&report.endpoints)
    )
}

fn node_row(node: &NodeView, now: Wall) -> [Cell; 7] {
    let (state, tone) = match (node.connected, node.paused) {
        (false, _) => ("gone", Tone::Bad),
        (true, PauseLevel::All) => ("paused", Tone::Warn),
        (true, PauseLevel::Bandwidth) => ("no bandwidth", Tone::Warn),
        (true, PauseLevel::None) => ("connected", Tone::Good),
    };
    let findings = node.worst_finding.as_deref().unwrap_or("none");
    let seen = if node.connected { "now".to_owned() } else { age(node.last_seen.as_deref(), now) };
    [
        plain(&node.name).into(),
        Cell::from(state).toned(Some(tone)),
        Cell::from(plain(findings)).toned(Tone::of_status(findings)),
        Cell::default(),
        Cell::default(),
        plain(node.agent_version.as_deref().unwrap_or("-")).into(),
        seen.into(),
    ]
}

fn endpoint_row(endpoint: &EndpointView, now: Wall) -> [Cell; 7] {
    let (state, tone) = match (&endpoint.unusable, &endpoint.gone_since) {
        (_, Some(_)) => ("gone", Tone::Bad),
        (Some(unusable), None) => (unusable.cause.as_str(), Tone::Bad),
        (None, None) if endpoint.usable => ("usable", Tone::Good),
        (None, None) => ("not usable", Tone::Unknown),
    };
    let place = |what: &Option<String>| plain(what.as_deref().unwrap_or("-")).into();
    [
        format!("  {}/{}", plain(&endpoint.device), endpoint.port).into(),
        Cell::from(plain(state)).toned(Some(tone)),
        Cell::default(),
        place(&endpoint.place.rail),
        place(&endpoint.place.leaf),
        Cell::default(),
        endpoint.gone_since.as_deref().map_or(String::new(), |since| age(Some(since), now)).into(),
    ]
}

/// Why endpoints cannot be probed, and what to do, each reason once.
fn reasons(endpoints: &[EndpointView]) -> String {
    let mut by_cause: BTreeMap<&str, (&UnusableView, usize)> = BTreeMap::new();
    for unusable in endpoints.iter().filter_map(|endpoint| endpoint.unusable.as_ref()) {
        by_cause.entry(&unusable.cause).or_insert((unusable, 0)).1 += 1;
    }
    let mut text = String::new();
    for (cause, (unusable, count)) in by_cause.iter().take(REASONS_MAX) {
        text.push_str(&format!(
            "\n{}: {count} endpoints, {}\n  next step: {}\n",
            plain(cause),
            plain(&unusable.text),
            plain(&unusable.next_step)
        ));
    }
    text
}

/// How long ago a time of the API was, in one unit.
fn age(at: Option<&str>, now: Wall) -> String {
    let Some(at) = at.and_then(|at| at.parse::<Wall>().ok()) else { return "-".to_owned() };
    let seconds = now.since(at).as_secs();
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7_200 => format!("{} min ago", seconds / 60),
        7_200..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

fn change(client: &Client, node: &str, rename_to: Option<String>, json: bool) -> Result<u8, Failure> {
    let path = format!("/api/v1/nodes/{}/remove", escaped(node));
    let left: NodeList = client
        .post(&path, &RemoveRequest { rename_to })
        .map_err(|failure| similar::named(client, failure, &[node]))?;
    if json {
        print_json(&left)?;
        return Ok(0);
    }
    let names: Vec<_> = left.nodes.iter().map(|node| plain(&node.name)).collect();
    show(&format!(
        "done; nodes now: {}\n",
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    ))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_expose::api::PlaceView;

    fn node(name: &str, connected: bool) -> NodeView {
        NodeView {
            name: name.to_owned(),
            connected,
            last_seen: Some("1970-01-01T00:00:10.000Z".to_owned()),
            agent_version: Some("0.1.0".to_owned()),
            endpoints: Vec::new(),
            paused: PauseLevel::None,
            worst_finding: connected.then(|| "warn".to_owned()),
        }
    }

    fn endpoint(node: &str, down: bool) -> EndpointView {
        let unusable = UnusableView {
            cause: "port-down".to_owned(),
            text: "The port is not ACTIVE.".to_owned(),
            next_step: "See the cable.".to_owned(),
            detail: String::new(),
        };
        EndpointView {
            name: format!("{node}/mlx5_0/1"),
            node: node.to_owned(),
            device: "mlx5_0".to_owned(),
            port: 1,
            fabric: "roce".to_owned(),
            gid: None,
            netdev: None,
            netdev_mtu_bytes: None,
            active_mtu_bytes: None,
            rate_bits_per_second: None,
            usable: !down,
            unusable: down.then_some(unusable),
            gone_since: None,
            place: PlaceView {
                rail: Some("0".to_owned()),
                leaf: Some("leaf-1".to_owned()),
                ..PlaceView::default()
            },
        }
    }

    #[test]
    fn each_node_is_followed_by_its_endpoints_and_what_is_wrong_is_said_once() {
        let report = NodesReport {
            nodes: vec![node("a", true), node("b", false)],
            endpoints: vec![endpoint("a", false), endpoint("b", true)],
        };
        assert_eq!(
            words(&report, Wall(70_000), Screen::default()),
            "NODE / ENDPOINT  STATE      FINDINGS  RAIL  LEAF    AGENT  SEEN\n\
             a                connected  warn                    0.1.0  now\n  \
               mlx5_0/1       usable               0     leaf-1\n\
             b                gone       none                    0.1.0  60 s ago\n  \
               mlx5_0/1       port-down            0     leaf-1\n\
             \n2 nodes, 1 connected; 2 endpoints, 1 can be probed\n\
             \nport-down: 1 endpoints, The port is not ACTIVE.\n  next step: See the cable.\n"
        );
    }

    #[test]
    fn an_age_has_one_unit() {
        let ages = [0, 119, 120, 7_200, 172_800].map(|s| age(Some("1970-01-01"), Wall(s * 1_000)));
        assert_eq!(ages, ["0 s ago", "119 s ago", "2 min ago", "2 h ago", "2 d ago"]);
        assert_eq!(age(None, Wall(0)), "-");
    }
}
