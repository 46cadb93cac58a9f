//! Where Prometheus finds the agents: every one that serves its own metrics, also while it is lost, for then its alert is due.

use crate::api::json;
use crate::hub::Hub;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rdmascope_control::coordinator::{Coordinator, Member};
use rdmascope_expose::api::{ScrapeTarget, ScrapeTargets};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// `GET /api/v1/sd/prometheus`.
pub(crate) async fn prometheus(State(hub): State<Arc<Hub>>) -> Response {
    json(StatusCode::OK, &hub.read(|state, _| targets(state)))
}

/// Leaves and rails that a node's endpoints are on.
#[derive(Default)]
struct Standing<'a> {
    leaves: BTreeSet<&'a str>,
    rails: BTreeSet<&'a str>,
}

fn targets(state: &Coordinator) -> ScrapeTargets {
    let mut standing: BTreeMap<&str, Standing<'_>> = BTreeMap::new();
    for (index, endpoint) in state.members().endpoints().filter(|(_, e)| e.gone_since.is_none()) {
        let (names, at) = (state.place_names(index), standing.entry(&endpoint.info.name.node).or_default());
        at.leaves.extend(names.leaf);
        at.rails.extend(names.rail);
    }
    let nowhere = Standing::default();
    let target = |(node, member): (&str, &Member)| {
        Some(target(node, member, member.metrics?, standing.get(node).unwrap_or(&nowhere)))
    };
    ScrapeTargets(state.members().agents().filter_map(target).collect())
}

fn target(node: &str, member: &Member, address: SocketAddr, at: &Standing<'_>) -> ScrapeTarget {
    let meta = |name: &str, value: String| (format!("__meta_rdmascope_{name}"), value);
    let mut labels = BTreeMap::from([
        ("node".to_owned(), node.to_owned()),
        meta("version", member.version.clone()),
        meta("leaves", at.leaves.len().to_string()),
        meta("rails", at.rails.len().to_string()),
    ]);
    if let (Some(leaf), 1) = (at.leaves.first(), at.leaves.len()) {
        labels.extend([meta("leaf", (*leaf).to_owned())]);
    }
    ScrapeTarget { targets: vec![address.to_string()], labels }
}

/// Agents that serve no metrics of their own, or not to others: no alert of a node can come from them.
pub(crate) fn left_out(state: &Coordinator) -> u64 {
    state.members().agents().filter(|(_, member)| member.metrics.is_none()).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_control::coordinator::{ConnectionId, Event, Settings};
    use rdmascope_link::{Hello, PROTOCOL_MAX, PROTOCOL_MIN, ToCoordinator};
    use rdmascope_model::{EndpointInfo, Fabric, Mono, Now, Reading, SwitchPort, Wall};
    use serde_json::json;

    const NOW: Now = Now { mono: Mono(1), wall: Wall(2_000) };

    fn says(state: &mut Coordinator, connection: u64, frame: ToCoordinator) {
        state.handle(Event::Frame(ConnectionId(connection), frame), NOW);
    }

    /// An agent with an endpoint on each of these leaves.
    fn joins(state: &mut Coordinator, connection: u64, node: &str, metrics: Option<&str>, leaves: &[&str]) {
        let hello = Hello {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            agent_version: "1.2.3".to_owned(),
            node: node.to_owned(),
            instance: 1,
            machine: node.to_owned(),
            metrics: metrics.map(|address| address.parse().unwrap()),
        };
        says(state, connection, ToCoordinator::Hello(hello));
        let endpoint = |(at, leaf): (usize, &&str)| EndpointInfo {
            switch_port: Reading::Value(SwitchPort { switch: (*leaf).to_owned(), port: None }),
            rail: Some(at.to_string()),
            ..EndpointInfo::bare(format!("{node}/d{at}/1").parse().unwrap(), Fabric::Simulated)
        };
        let endpoints = leaves.iter().enumerate().map(endpoint).collect();
        says(state, connection, ToCoordinator::inventory(endpoints, Vec::new()));
    }

    #[test]
    fn every_agent_with_a_port_is_a_target_also_a_lost_one_and_the_others_are_counted() {
        let mut state = Coordinator::new(Settings::default(), 1);
        joins(&mut state, 1, "a", Some("10.0.0.1:19810"), &["leaf-1", "leaf-1"]);
        joins(&mut state, 2, "b", Some("[2001:db8::2]:19810"), &["leaf-1", "leaf-2"]);
        joins(&mut state, 3, "c", None, &["leaf-1"]);
        joins(&mut state, 4, "d", Some("10.0.0.4:19810"), &[]);
        state.handle(Event::Closed(ConnectionId(1)), NOW);
        let answer = serde_json::to_value(targets(&state)).unwrap();
        let labels = |node: &str, leaves: &str, rails: &str| {
            json!({
                "node": node, "__meta_rdmascope_version": "1.2.3",
                "__meta_rdmascope_leaves": leaves, "__meta_rdmascope_rails": rails,
            })
        };
        let mut first = labels("a", "1", "2");
        first["__meta_rdmascope_leaf"] = json!("leaf-1");
        let expected = json!([
            { "targets": ["10.0.0.1:19810"], "labels": first },
            { "targets": ["[2001:db8::2]:19810"], "labels": labels("b", "2", "2") },
            { "targets": ["10.0.0.4:19810"], "labels": labels("d", "0", "0") },
        ]);
        assert_eq!(answer, expected);
        assert_eq!(left_out(&state), 1);
    }
}
