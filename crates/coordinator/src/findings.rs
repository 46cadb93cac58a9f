//! Findings, events and nodes in full: what the API shows of them, and the calls that read and change them.

use crate::access::Caller;
use crate::api::{json, problem};
use crate::commands::{refused, request};
use crate::hub::Hub;
use crate::query::Query;
use crate::views::nodes;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use rdmascope_control::coordinator::{
    Acknowledgement, COMPARED, Coordinator, Drift, EventRow, Maintenance, RowKind, as_finding, finding_key,
};
use rdmascope_expose::api::{
    AcknowledgeAnswer, AcknowledgeRequest, AcknowledgementView, EventList, EventView, FactView, FindingList,
    MaintenanceList, MaintenanceRequest, MaintenanceView, NodeDetail, NodeFinding, Problem, RemoveRequest,
};
use rdmascope_expose::metrics::{FindingCounts, FindingState};
use rdmascope_link::{Fact, FindingBrief};
use rdmascope_model::{EndpointName, Status, Wall};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tracing::info;

/// Events in one answer.
const EVENTS_MAX: usize = 1_000;
const EVENTS_DEFAULT: usize = 100;

/// Which findings.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    node: Option<String>,
    status: Option<String>,
    id: Option<String>,
    limit: Option<usize>,
}

/// `GET /api/v1/findings`.
pub(crate) async fn list(State(hub): State<Arc<Hub>>, Query(wanted): Query<Wanted>) -> Response {
    if wanted.status.as_deref().is_some_and(|word| Status::ALL.iter().all(|status| status.as_str() != word)) {
        return problem(&Problem::bad_request("no such status; there are: fail, unknown, warn"));
    }
    let fits = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
    let mut findings = hub.read(|state, _| {
        findings(state, |node, found| {
            fits(&wanted.node, node)
                && fits(&wanted.status, found.status.as_str())
                && fits(&wanted.id, &found.id)
        })
    });
    let all = findings.len();
    findings.truncate(wanted.limit.map_or(all, |limit| limit.max(1)));
    let left_out = (all - findings.len()) as u64;
    json(StatusCode::OK, &FindingList { findings, left_out })
}

/// Which events.
#[derive(Clone, Deserialize)]
pub(crate) struct WantedEvents {
    node: Option<String>,
    kind: Option<String>,
    limit: Option<usize>,
    before: Option<u64>,
    since: Option<String>,
}

impl WantedEvents {
    fn fits(&self, event: &EventView) -> bool {
        let same =
            |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        same(&self.node, &event.node) && same(&self.kind, &event.kind)
    }
}

/// `GET /api/v1/events`: from memory, and beyond it from the disk where there is one.
pub(crate) async fn events(State(hub): State<Arc<Hub>>, Query(wanted): Query<WantedEvents>) -> Response {
    let limit = wanted.limit.unwrap_or(EVENTS_DEFAULT).clamp(1, EVENTS_MAX);
    let before = wanted.before.unwrap_or(u64::MAX);
    let since = match wanted.since.as_deref().map(str::parse::<Wall>).transpose() {
        Ok(since) => since.unwrap_or_default(),
        Err(error) => return problem(&Problem::bad_request(error.to_string())),
    };
    let fits = move |event: &EventView| event.at_ms >= since.0 && wanted.fits(event);
    let (mut events, oldest_held) = hub.read(|state, _| {
        let rows = state.health().events().filter(|row| row.number < before).map(event);
        let found: Vec<_> = rows.filter(|event| fits(event)).take(limit).collect();
        (found, state.health().events().last().map_or(u64::MAX, |row| row.number))
    });
    if events.len() < limit {
        match from_disk(&hub, before.min(oldest_held), limit - events.len(), fits).await {
            Ok(older) => events.extend(older),
            Err(error) => return problem(&Problem::internal(error)),
        }
    }
    let older_before = events.last().filter(|_| events.len() == limit).map(|event| event.number);
    json(StatusCode::OK, &EventList { events, older_before })
}

/// Events on disk older than `before` that fit, the newest first; none where there is no disk. The error is in words.
pub(crate) async fn from_disk(
    hub: &Arc<Hub>,
    before: u64,
    limit: usize,
    fits: impl Fn(&EventView) -> bool + Send + 'static,
) -> Result<Vec<EventView>, String> {
    if hub.store.get().is_none() {
        return Ok(Vec::new());
    }
    let hub = Arc::clone(hub);
    let read =
        tokio::task::spawn_blocking(move || hub.store.get().map(|store| store.older(before, limit, fits)));
    match read.await {
        Ok(Some(Ok(older))) => Ok(older),
        Ok(Some(Err(error))) => Err(error.to_string()),
        Ok(None) | Err(_) => Ok(Vec::new()),
    }
}

/// `GET /api/v1/nodes/{node}`.
pub(crate) async fn node(State(hub): State<Arc<Hub>>, Path(name): Path<String>) -> Response {
    match hub.read(|state, _| node_detail(state, &name)) {
        Some(detail) => json(StatusCode::OK, &detail),
        None => {
            problem(&Problem::not_found(format!("no node '{name}'; GET /api/v1/nodes lists what there is")))
        }
    }
}

/// `POST /api/v1/nodes/{node}/remove`.
pub(crate) async fn remove(
    State(hub): State<Arc<Hub>>,
    Path(name): Path<String>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let request: RemoveRequest = match request(caller, body) {
        Ok(request) => request,
        Err(wrong) => return problem(&wrong),
    };
    let to = request.rename_to.as_deref();
    if to.is_some_and(|to| format!("{to}/device/1").parse::<EndpointName>().is_err()) {
        return problem(&Problem::bad_request("the new name may have letters, digits and - _ . : @"));
    }
    match hub.write(|state, now| state.remove_node(&name, to, now).map(|()| nodes(state))) {
        Ok(left) => {
            info!(node = name, rename_to = to, "node removed or renamed");
            json(StatusCode::OK, &left)
        }
        Err(error) => refused(&error),
    }
}

/// `POST /api/v1/acknowledgements`.
pub(crate) async fn acknowledge(
    State(hub): State<Arc<Hub>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let asked: AcknowledgeRequest = match request(caller, body) {
        Ok(request) => request,
        Err(wrong) => return problem(&wrong),
    };
    let note: Option<String> = (!asked.undo).then(|| asked.note.chars().take(240).collect());
    if let Some(incident) = asked.incident {
        if !asked.node.is_empty() || !asked.id.is_empty() || asked.subject.is_some() {
            return problem(&Problem::bad_request(
                "an incident, or a finding by node and id: give one of them",
            ));
        }
        return match hub.write(|state, now| state.acknowledge_incident(incident, note, now)) {
            Ok(()) => {
                info!(incident, undo = asked.undo, "incident acknowledged");
                json(StatusCode::OK, &AcknowledgeAnswer { findings: 1 })
            }
            Err(error) => refused(&error),
        };
    }
    let done = hub
        .write(|state, now| state.acknowledge(&asked.node, &asked.id, asked.subject.as_deref(), note, now));
    match done {
        Ok(findings) => {
            info!(node = asked.node, id = asked.id, undo = asked.undo, "finding acknowledged");
            json(StatusCode::OK, &AcknowledgeAnswer { findings: findings as u64 })
        }
        Err(error) => refused(&error),
    }
}

/// `GET /api/v1/maintenance`.
pub(crate) async fn maintenances(State(hub): State<Arc<Hub>>) -> Response {
    json(StatusCode::OK, &maintenance_list(&hub))
}

/// `POST /api/v1/maintenance`.
pub(crate) async fn maintain(
    State(hub): State<Arc<Hub>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let asked: MaintenanceRequest = match request(caller, body) {
        Ok(request) => request,
        Err(wrong) => return problem(&wrong),
    };
    if asked.nodes.is_empty() || asked.nodes.len() > 253 {
        return problem(&Problem::bad_request("name the nodes; * stands for any letters"));
    }
    let how_long = asked.seconds.map(Duration::from_secs);
    let note: String = asked.note.chars().take(240).collect();
    match hub.write(|state, now| state.maintain(&asked.nodes, how_long, note, now)) {
        Ok(()) => {
            info!(nodes = asked.nodes, seconds = asked.seconds, "maintenance changed");
            json(StatusCode::OK, &maintenance_list(&hub))
        }
        Err(error) => refused(&error),
    }
}

fn maintenance_list(hub: &Hub) -> MaintenanceList {
    let maintenances = hub.read(|state, _| {
        let (ordered, listed) = (state.health().maintenances(), state.health().listed());
        ordered.iter().chain(listed.values()).map(maintenance).collect()
    });
    MaintenanceList { maintenances, file: hub.maintenance.get().map(|file| file.view()) }
}

/// An event as the API shows it, and as it is kept.
pub(crate) fn event(row: &EventRow) -> EventView {
    EventView {
        number: row.number,
        at: row.at.to_string(),
        at_ms: row.at.0,
        node: row.node.clone(),
        kind: row.kind.as_str().to_owned(),
        subject: row.subject.clone(),
        id: row.id.clone(),
        before: row.before.clone(),
        after: row.after.clone(),
        text: row.text.clone(),
        basis: row.basis.clone(),
    }
}

/// The other way; nothing for a kind of a newer version.
pub(crate) fn event_row(view: &EventView) -> Option<EventRow> {
    let kind = RowKind::ALL.into_iter().find(|kind| kind.as_str() == view.kind)?;
    Some(EventRow {
        number: view.number,
        at: Wall(view.at_ms),
        node: view.node.clone(),
        kind,
        subject: view.subject.clone(),
        id: view.id.clone(),
        before: view.before.clone(),
        after: view.after.clone(),
        text: view.text.clone(),
        basis: view.basis.clone(),
    })
}

/// Everything that is not fine and is wanted: what agents found, and what differs between nodes. Open ones come first.
pub(crate) fn findings(
    state: &Coordinator,
    wanted: impl Fn(&str, &FindingBrief) -> bool,
) -> Vec<NodeFinding> {
    let mut all: Vec<(FindingState, Status, NodeFinding)> = Vec::new();
    each(state, |node, found| {
        if wanted(node, found) {
            all.push((becomes(state, node, found), found.status, finding(state, node, found)));
        }
    });
    all.sort_by(|(a_state, a_status, a), (b_state, b_status, b)| {
        let silenced = |state: &FindingState| *state != FindingState::Open;
        silenced(a_state)
            .cmp(&silenced(b_state))
            .then(b_status.cmp(a_status))
            .then_with(|| (&a.node, &a.id, &a.subject).cmp(&(&b.node, &b.id, &b.subject)))
    });
    all.into_iter().map(|(.., view)| view).collect()
}

/// How many there are, for the metrics.
pub(crate) fn counts(state: &Coordinator) -> FindingCounts {
    let mut counts = FindingCounts::default();
    each(state, |node, found| counts.add(found.status, becomes(state, node, found)));
    counts
}

/// How many parts differ in each setting that is compared, apart from those of which somebody knows.
pub(crate) fn drifting(state: &Coordinator) -> [(&'static str, u64); COMPARED.len()] {
    COMPARED.map(|setting| {
        let of_setting = state.health().drift().iter().filter(|drift| drift.key == setting);
        let is_open = |drift: &&Drift| becomes(state, &drift.node, &as_finding(drift)) == FindingState::Open;
        (setting, of_setting.filter(is_open).count() as u64)
    })
}

/// Every finding with its node; that of the whole cluster has none.
fn each(state: &Coordinator, mut see: impl FnMut(&str, &FindingBrief)) {
    for (node, member) in state.members().agents() {
        member.findings.iter().for_each(|found| see(node, found));
    }
    for drift in state.health().drift() {
        see(&drift.node, &as_finding(drift));
    }
}

fn becomes(state: &Coordinator, node: &str, found: &FindingBrief) -> FindingState {
    if acknowledged(state, node, found).is_some() {
        FindingState::Acknowledged
    } else if !node.is_empty() && state.health().maintenance_of(node).is_some() {
        FindingState::Maintenance
    } else {
        FindingState::Open
    }
}

fn acknowledged<'a>(state: &'a Coordinator, node: &str, found: &FindingBrief) -> Option<&'a Acknowledgement> {
    state.health().acknowledged(&finding_key(node, found))
}

fn finding(state: &Coordinator, node: &str, found: &FindingBrief) -> NodeFinding {
    let acknowledged = acknowledged(state, node, found)
        .map(|note| AcknowledgementView { at: note.at.to_string(), note: note.note.clone() });
    NodeFinding {
        node: node.to_owned(),
        id: found.id.clone(),
        status: found.status.as_str().to_owned(),
        subject: found.subject.clone(),
        summary: found.summary.clone(),
        cause: found.cause.clone(),
        next_step: found.next_step.clone(),
        evidence: found.evidence.clone(),
        since: (found.since.0 > 0).then(|| found.since.to_string()),
        settling: found.settling,
        latched: found.latched,
        acknowledged,
        maintenance: !node.is_empty() && state.health().maintenance_of(node).is_some(),
        node_lost: state.members().agent(node).is_some_and(|member| member.connection.is_none()),
    }
}

pub(crate) fn maintenance(found: &Maintenance) -> MaintenanceView {
    MaintenanceView {
        nodes: found.nodes.clone(),
        since: found.since.to_string(),
        until: (found.until != Wall(u64::MAX)).then(|| found.until.to_string()),
        note: found.note.clone(),
        from: if found.until == Wall(u64::MAX) { "file" } else { "operator" }.to_owned(),
    }
}

pub(crate) fn node_detail(state: &Coordinator, node: &str) -> Option<NodeDetail> {
    let view = nodes(state).nodes.into_iter().find(|view| view.name == node)?;
    let health = state.health();
    let fact = |fact: &Fact| FactView {
        subject: fact.subject.clone(),
        key: fact.key.clone(),
        value: fact.value.clone(),
    };
    Some(NodeDetail {
        node: view,
        findings: findings(state, |of, _| of == node),
        findings_left_out: state
            .members()
            .agent(node)
            .map_or(0, |member| u64::from(member.findings_left_out)),
        facts: health.facts(node).iter().map(fact).collect(),
        events: health.events().filter(|row| row.node == node).take(50).map(event).collect(),
        maintenance: health.maintenance_of(node).map(maintenance),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_control::coordinator::{ConnectionId, Event, Settings};
    use rdmascope_link::{Hello, PROTOCOL_MAX, PROTOCOL_MIN, ToCoordinator};
    use rdmascope_model::Now;

    const NOW: Now = Now { wall: Wall(1_000_000), mono: rdmascope_model::Mono(0) };

    fn brief(id: &str, status: Status) -> FindingBrief {
        FindingBrief {
            id: id.to_owned(),
            status,
            subject: "mlx5_0/1".to_owned(),
            summary: "seen".to_owned(),
            cause: String::new(),
            next_step: String::new(),
            evidence: Vec::new(),
            settling: false,
            since: Wall(0),
            latched: false,
        }
    }

    fn says(state: &mut Coordinator, connection: u64, frame: ToCoordinator) {
        state.handle(Event::Frame(ConnectionId(connection), frame), NOW);
    }

    fn cluster(nodes: &[(&str, Vec<FindingBrief>)]) -> Coordinator {
        let mut state = Coordinator::new(Settings::default(), 1);
        for (connection, (node, findings)) in (1..).zip(nodes) {
            let hello = Hello {
                protocol_min: PROTOCOL_MIN,
                protocol_max: PROTOCOL_MAX,
                agent_version: "1".to_owned(),
                node: (*node).to_owned(),
                instance: 1,
                machine: (*node).to_owned(),
                metrics: None,
            };
            says(&mut state, connection, ToCoordinator::Hello(hello));
            says(&mut state, connection, ToCoordinator::inventory(Vec::new(), findings.clone()));
        }
        state
    }

    fn names(list: &[NodeFinding]) -> Vec<(&str, &str)> {
        list.iter().map(|found| (found.node.as_str(), found.id.as_str())).collect()
    }

    #[test]
    fn what_is_open_comes_first_and_the_worst_of_it() {
        let two = vec![brief("port-state", Status::Fail), brief("netdev-mtu", Status::Warn)];
        let mut state =
            cluster(&[("a", two.clone()), ("b", two), ("c", vec![brief("ecn", Status::Unknown)])]);
        assert_eq!(state.acknowledge("a", "port-state", None, Some("known".to_owned()), NOW), Ok(1));
        state.maintain("c*", Some(Duration::from_secs(60)), String::new(), NOW).unwrap();
        let all = findings(&state, |_, _| true);
        let expected = [
            ("b", "port-state"),
            ("a", "netdev-mtu"),
            ("b", "netdev-mtu"),
            ("a", "port-state"),
            ("c", "ecn"),
        ];
        assert_eq!(names(&all), expected);
        assert!(all[3].acknowledged.is_some() && all[4].maintenance);
        assert_eq!(node_detail(&state, "c").unwrap().findings, all[4..]);
    }

    #[test]
    fn an_acknowledged_difference_outlasts_inventories_and_another_difference_does_not_hide_behind_it() {
        let mut state = cluster(&[("a", vec![]), ("b", vec![]), ("c", vec![])]);
        let fact = |key: &str, value: &str| Fact {
            subject: "mlx5_0/1".to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
        };
        let tell = |state: &mut Coordinator, dscp: &str| {
            for (connection, pfc) in [(1, "3"), (2, "3"), (3, "none")] {
                let dscp = if connection == 3 { dscp } else { "usual" };
                let facts = vec![fact("pfc", pfc), fact("dscp", dscp)];
                says(state, connection, ToCoordinator::facts(facts));
            }
        };
        let later = |seconds: u64| Now { mono: NOW.mono.after(Duration::from_secs(seconds)), ..NOW };
        tell(&mut state, "usual");
        state.handle(Event::Tick, later(2));
        assert_eq!(state.acknowledge("c", "drift", None, Some("meant".to_owned()), NOW), Ok(1));
        says(&mut state, 3, ToCoordinator::inventory(Vec::new(), Vec::new()));
        assert!(findings(&state, |_, _| true)[0].acknowledged.is_some());
        tell(&mut state, "26:3");
        state.handle(Event::Tick, later(4));
        let open = findings(&state, |_, _| true);
        let acknowledged: Vec<_> =
            open.iter().map(|found| (found.evidence[0].as_str(), found.acknowledged.is_some())).collect();
        assert_eq!(acknowledged, [("dscp = 26:3", false), ("pfc = none", true)]);
        // It is over only when a comparison says so.
        says(&mut state, 3, ToCoordinator::facts(vec![fact("pfc", "3"), fact("dscp", "26:3")]));
        state.handle(Event::Tick, later(6));
        assert_eq!(state.health().acknowledgements().count(), 0);
    }
}
