//! Incidents as people and scripts get them, made by hand.

use super::*;
use crate::access::Access;
use crate::diagnosis::diagnosis;
use axum::body::to_bytes;
use rdmascope_control::coordinator::{ConnectionId, Event, EventRow, RowKind, Settings};
use rdmascope_expose::api::{DiagnosisView, StatusView};
use rdmascope_host::Clock;
use rdmascope_link::{
    EventKind, Fact, FindingBrief, Hello, NodeEvent, PROTOCOL_MAX, PROTOCOL_MIN, PingReport, ToCoordinator,
};
use rdmascope_localise::{Component, Confidence, Effect, PlaceIndex, Reason, Share, Support, Suspect, Way};
use rdmascope_model::{
    DatagramAddress, Delays, EndpointInfo, Fabric, Now, PingCounts, PingStats, StampClock, Status,
};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Lossy endpoint of node `a`, told by the node itself.
pub(crate) fn lossy(id: u64, state: &Coordinator, since: Wall) -> Incident {
    let index = |name: &str| state.find_endpoint(name).unwrap();
    let reason = Reason {
        id: "symbol-errors".to_owned(),
        node: "a".to_owned(),
        subject: "mlx5_0/1".to_owned(),
        status: Status::Fail,
        summary: "9 symbol errors that FEC could not mend".to_owned(),
        next_step: "Clean the cable.".to_owned(),
        since_ms: since.0,
    };
    let suspect = Suspect {
        components: vec![Component::Endpoint(index("a"))],
        effect: Effect::Lossy,
        way: Way::In,
        share: Share::SomePaths,
        status: Status::Fail,
        confidence: Confidence::High,
        support: Support {
            bad_pairs: 5,
            pairs: 6,
            bad_peers: 2,
            peers: 3,
            fine: Some((index("b"), index("c"))),
            worst: Some((index("b"), index("a"))),
            figures: vec!["2 of 3 peers lose packets".to_owned()],
        },
        reasons: vec![reason],
    };
    Incident {
        id,
        state: IncidentState::Open,
        suspect,
        subjects: vec!["a/mlx5_0/1".to_owned()],
        title: "* -> a/mlx5_0/1 loses packets".to_owned(),
        evidence: vec!["2 of 3 peers agree".to_owned()],
        next_step: "Swap the cable.".to_owned(),
        since,
        opened_at: Some(Wall(since.0 + 4_000)),
        seen_at: Wall(since.0 + 9_000),
        closed_at: None,
    }
}

fn spines(id: u64, state: IncidentState, since: Wall) -> Incident {
    let suspect = Suspect {
        components: vec![Component::Spines, Component::Uplinks(PlaceIndex(0))],
        effect: Effect::Slow,
        way: Way::Both,
        share: Share::All,
        status: Status::Warn,
        confidence: Confidence::Low,
        support: Support::default(),
        reasons: Vec::new(),
    };
    Incident {
        id,
        state,
        suspect,
        subjects: vec!["the spines".to_owned(), "uplinks of leaf l1".to_owned()],
        title: "pairs between leaves are slow".to_owned(),
        evidence: Vec::new(),
        next_step: String::new(),
        since,
        opened_at: None,
        seen_at: since,
        closed_at: (state == IncidentState::Closed).then_some(since),
    }
}

pub(crate) fn hub() -> Arc<Hub> {
    let hub = Hub::new(
        Settings { pings_per_second: 0, ..Settings::default() },
        1,
        Clock::new(),
        Access::default(),
        false,
        100,
    );
    let hub = Arc::new(hub.unwrap());
    for (connection, node) in (1..).zip(["a", "b", "c"]) {
        let hello = Hello {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            agent_version: "1".to_owned(),
            node: node.to_owned(),
            instance: 1,
            machine: node.to_owned(),
            metrics: None,
        };
        says(&hub, connection, ToCoordinator::Hello(hello));
        tells(&hub, connection, node, Vec::new());
    }
    // Where they stand is worked out once for those that come together.
    hub.write(|state, now| {
        let later = Now { mono: now.mono.after(Duration::from_secs(1)), ..now };
        state.handle(Event::Tick, later);
    });
    hub
}

/// Its one endpoint, and what its checks found.
fn tells(hub: &Hub, connection: u64, node: &str, findings: Vec<FindingBrief>) {
    let mut info = EndpointInfo::bare(format!("{node}/mlx5_0/1").parse().unwrap(), Fabric::Simulated);
    let gid = "::1".parse().unwrap();
    info.datagrams = Some(DatagramAddress { gid, lid: 0, queue_pair: 1, queue_key: 1, mtu_bytes: 4_096 });
    says(hub, connection, ToCoordinator::inventory(vec![info], findings));
}

fn says(hub: &Hub, connection: u64, frame: ToCoordinator) {
    hub.write(|state, now| state.handle(Event::Frame(ConnectionId(connection), frame), now));
}

fn now(hub: &Hub) -> Wall {
    hub.read(|_, now| now.wall)
}

fn restored(hub: &Hub, incidents: impl FnOnce(&Coordinator) -> Vec<Incident>) {
    hub.write(|state, _| {
        let incidents = incidents(state);
        state.restore_incidents(incidents);
    });
}

async fn body<T: DeserializeOwned>(answer: Response) -> T {
    let status = answer.status();
    let bytes = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&bytes));
    serde_json::from_slice(&bytes).unwrap()
}

fn query<T: DeserializeOwned>(text: &str) -> Query<T> {
    Query(axum::extract::Query::try_from_uri(&format!("/x?{text}").parse().unwrap()).unwrap().0)
}

async fn listed(hub: &Arc<Hub>, text: &str) -> IncidentList {
    body(list(State(Arc::clone(hub)), query(text), HeaderMap::new()).await).await
}

async fn ids(hub: &Arc<Hub>, text: &str) -> Vec<u64> {
    listed(hub, text).await.incidents.iter().map(|incident| incident.id).collect()
}

async fn diagnosed(hub: &Arc<Hub>, text: &str) -> DiagnosisView {
    body(diagnosis(State(Arc::clone(hub)), query(text)).await).await
}

fn four(hub: &Hub) {
    let at = now(hub);
    restored(hub, |state| {
        vec![
            spines(1, IncidentState::Closed, Wall(1_000)),
            lossy(2, state, Wall(at.0 - 60_000)),
            spines(3, IncidentState::Suspected, Wall(at.0 - 1_000)),
            spines(4, IncidentState::Open, Wall(at.0 - 2_000)),
        ]
    });
}

#[tokio::test]
async fn open_ones_come_first_and_the_newest_of_each() {
    let hub = hub();
    four(&hub);
    assert_eq!(ids(&hub, "").await, [4, 2, 3, 1]);
    assert_eq!(ids(&hub, "state=open").await, [4, 2]);
    assert_eq!(ids(&hub, "node=a").await, [2], "what may be everywhere is not one node's");
    assert_eq!(ids(&hub, "since=2020-01-01").await, [4, 2, 3]);
    let first = listed(&hub, "limit=1").await;
    assert_eq!((first.incidents.len(), first.left_out), (1, 3));
    for bad in ["state=opened", "since=yesterday"] {
        let answer = list(State(Arc::clone(&hub)), query(bad), HeaderMap::new()).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{bad}");
    }
}

#[tokio::test]
async fn an_answer_that_is_still_the_same_is_not_sent_again() {
    let hub = hub();
    four(&hub);
    let ask = async |tag: Option<&str>| {
        let mut headers = HeaderMap::new();
        tag.map(|tag| headers.insert(header::IF_NONE_MATCH, tag.parse().unwrap()));
        let answer = list(State(Arc::clone(&hub)), query("state=open"), headers).await;
        (answer.status(), answer.headers()[header::ETAG].to_str().unwrap().to_owned())
    };
    let (_, tag) = ask(None).await;
    assert_eq!(ask(Some(&tag)).await, (StatusCode::NOT_MODIFIED, tag.clone()));
    hub.write(|state, now| state.acknowledge_incident(2, Some("known".to_owned()), now)).unwrap();
    let (status, changed) = ask(Some(&tag)).await;
    assert_eq!(status, StatusCode::OK);
    assert_ne!(changed, tag);
}

#[tokio::test]
async fn an_incident_is_told_in_words_and_by_names() {
    let hub = hub();
    four(&hub);
    let all = listed(&hub, "").await.incidents;
    let one = &all[1];
    assert_eq!((one.effect.as_str(), one.way.as_str(), one.share.as_str()), ("lossy", "in", "some-paths"));
    assert_eq!((one.confidence.as_str(), one.status.as_str()), ("high", "fail"));
    assert_eq!(one.who, "a/mlx5_0/1 (its adapter, cable or switch port)");
    assert_eq!(
        (one.components[0].kind.as_str(), one.components[0].name.as_str()),
        ("endpoint", "a/mlx5_0/1")
    );
    assert_eq!(one.worst.as_ref().unwrap().source, "b/mlx5_0/1");
    assert_eq!(one.reasons[0].since.as_deref(), Some(one.since.as_str()));
    assert_eq!(one.nodes, ["a"]);
    assert_eq!(all[0].who, "the spines or uplinks of leaf l1 (they cannot be told apart)");
    assert!(all[0].nodes.is_empty() && all[3].closed_at.is_some());
}

/// What is shown is what is kept: every word and name must come back.
#[tokio::test]
async fn an_incident_comes_back_from_what_is_shown_of_it() {
    let hub = hub();
    four(&hub);
    let shown = listed(&hub, "").await.incidents;
    let before = hub.read(|state, _| state.incidents().to_vec());
    hub.restore_incidents(&shown);
    let after = hub.read(|state, _| state.incidents().to_vec());
    let found = |all: &[Incident], id| all.iter().find(|incident| incident.id == id).unwrap().clone();
    assert_eq!(found(&after, 2), found(&before, 2));
    let mut places = found(&before, 4);
    places.suspect.components[1] = Component::Uplinks(PlaceIndex::UNKNOWN);
    assert_eq!(found(&after, 4), places, "a place has its name, and no number any more");

    let fresh =
        Arc::new(Hub::new(Settings::default(), 2, Clock::new(), Access::default(), false, 100).unwrap());
    let closed = IncidentView { state: "closed".to_owned(), id: 9, ..shown[1].clone() };
    fresh.restore_incidents(&[shown[1].clone(), closed]);
    let [open, over] = &fresh.read(|state, _| state.incidents().to_vec())[..] else {
        panic!("both are back")
    };
    let known = fresh.read(|state, _| state.find_endpoint("a").unwrap());
    assert_eq!(open.suspect.components, [Component::Endpoint(known)], "it is looked at again");
    assert_eq!((open.suspect.support.worst, over.state), (open.suspect.support.worst, IncidentState::Closed));
    let again = listed(&fresh, "").await.incidents;
    assert_eq!(again[0].nodes, ["a"], "the node is not known yet, its name is");
    let newer = IncidentView { effect: "haunted".to_owned(), ..shown[1].clone() };
    fresh.restore_incidents(&[newer]);
    assert!(
        fresh.read(|state, _| state.incidents().is_empty()),
        "a word of a newer version is not guessed at"
    );
}

fn change(number: u64, at: u64, id: &str) -> NodeEvent {
    NodeEvent {
        number,
        at: Wall(at),
        kind: EventKind::SettingChange,
        subject: "mlx5_0".to_owned(),
        id: id.to_owned(),
        before: "1".to_owned(),
        after: "2".to_owned(),
        text: format!("{id} was 1 and is 2"),
        basis: None,
    }
}

/// What the node of `a` tells of its hardware.
fn hardware() -> Vec<Fact> {
    let fact = |subject: &str, key: &str, value: &str| Fact {
        subject: subject.to_owned(),
        key: key.to_owned(),
        value: value.to_owned(),
    };
    vec![
        fact("machine", "kernel", "6.1"),
        fact("mlx5_0", "board", "MT_0000000838"),
        fact("mlx5_0", "driver", "mlx5_core"),
        fact("mlx5_0", "driver_version", "24.10"),
        fact("mlx5_0", "firmware", "28.43"),
        fact("mlx5_0", "serial", "MT2245X01234"),
        fact("mlx5_0/1", "module", "QSFP112 NVIDIA MCP7Y10"),
        fact("mlx5_0/1", "module_serial", "MT2301VS0042"),
        fact("mlx5_0/1", "switch", "leaf7"),
        fact("mlx5_0/1", "switch_port", "Ethernet1/4"),
        fact("mlx5_1/1", "switch", "another port's"),
    ]
}

#[tokio::test]
async fn a_ticket_has_the_hardware_and_what_changed_in_the_hour_before() {
    let hub = hub();
    let at = now(&hub).0;
    says(&hub, 1, ToCoordinator::facts(hardware()));
    let since = at - 100_000;
    let old = EventRow {
        number: 1,
        at: Wall(since - 4_000_000),
        node: "a".to_owned(),
        kind: RowKind::Connected,
        subject: String::new(),
        id: String::new(),
        before: String::new(),
        after: String::new(),
        text: String::new(),
        basis: None,
    };
    hub.write(|state, _| state.restore_health(vec![old], 1, Vec::new(), Vec::new()));
    let events = [
        change(1, since - 3_700_000, "too-old"),
        change(2, since - 600_000, "firmware"),
        change(3, since + 1_000, "pfc"),
        change(4, since + 50_000, "too-late"),
    ];
    says(&hub, 1, ToCoordinator::events(&events));
    says(&hub, 2, ToCoordinator::events(&[change(1, since - 1_000, "another-nodes")]));
    restored(&hub, |state| vec![lossy(2, state, Wall(since)), spines(4, IncidentState::Open, Wall(since))]);
    let ticket = async |id: &str| -> IncidentDetail {
        body(one(State(Arc::clone(&hub)), Path(id.to_owned())).await).await
    };
    let ticket_2 = ticket("2").await;
    let [part] = &ticket_2.parts[..] else { panic!("one port") };
    let seen = [
        &part.switch,
        &part.switch_port,
        &part.module,
        &part.module_serial,
        &part.adapter_serial,
        &part.psid,
    ];
    let seen: Vec<_> = seen.into_iter().map(|value| value.as_deref().unwrap_or("-")).collect();
    assert_eq!(
        seen,
        ["leaf7", "Ethernet1/4", "QSFP112 NVIDIA MCP7Y10", "MT2301VS0042", "MT2245X01234", "MT_0000000838"]
    );
    assert_eq!((part.driver.as_deref(), part.adapter.as_deref()), (Some("mlx5_core 24.10"), None));
    let changes =
        |ticket: &IncidentDetail| ticket.changes.iter().map(|event| event.id.clone()).collect::<Vec<_>>();
    assert_eq!(changes(&ticket_2), ["pfc", "firmware"]);
    assert!(!ticket_2.changes_incomplete, "the history in memory reaches back far enough");
    assert_eq!(
        changes(&ticket("4").await),
        ["another-nodes", "firmware"],
        "anybody's change can have slowed the spines"
    );
    let missing = one(State(Arc::clone(&hub)), Path("77".to_owned())).await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_history_that_does_not_reach_back_says_so() {
    let hub = hub();
    let at = now(&hub);
    restored(&hub, |state| vec![lossy(2, state, at)]);
    let ticket: IncidentDetail = body(one(State(Arc::clone(&hub)), Path("2".to_owned())).await).await;
    assert!(ticket.changes_incomplete);
}

#[tokio::test]
async fn what_somebody_knows_of_or_works_on_no_longer_counts() {
    let hub = hub();
    four(&hub);
    let counts = |hub: &Hub| hub.read(|state, _| counts(state));
    assert_eq!((counts(&hub).open, counts(&hub).suspected), (2, 1));
    hub.write(|state, now| state.acknowledge_incident(4, Some("known".to_owned()), now)).unwrap();
    let hour = Some(Duration::from_secs(3_600));
    hub.write(|state, now| state.maintain("a", hour, "new cable".to_owned(), now)).unwrap();
    let seen = counts(&hub);
    assert_eq!((seen.open, seen.suspected, seen.acknowledged, seen.maintenance), (0, 1, 1, 1));
    assert!(listed(&hub, "state=open").await.incidents.iter().all(|incident| !incident.counts()));
    let shown = hub.read(|state, _| inputs(state));
    assert_eq!(shown.iter().filter(|i| i.state == rdmascope_expose::metrics::IncidentState::Open).count(), 0);
}

/// A batch of twenty pings from one node to another, of which so many were answered.
fn ping(hub: &Hub, connection: u64, source: &str, target: &str, answered: u32) {
    let small = PingCounts { payload_bytes: 64, sent: 20, answered, ..PingCounts::default() };
    let delays = Delays { count: 20, min_ns: 3_000, p50_ns: 3_000, p99_ns: None, max_ns: 3_000 };
    let stats = PingStats {
        batch: 1,
        clock: StampClock::Hardware,
        small,
        large: PingCounts::default(),
        network: (answered > 0).then_some(delays),
        network_large: None,
        responder: None,
        prober: None,
        host_delayed: 0,
        invalid_stamps: 0,
        stale: 0,
        labels: Vec::new(),
    };
    let report = PingReport {
        local: format!("{source}/mlx5_0/1").parse().unwrap(),
        peer: format!("{target}/mlx5_0/1").parse().unwrap(),
        measured_at: now(hub),
        stats,
    };
    says(hub, connection, ToCoordinator::Pings { reports: vec![report], heard: Vec::new() });
}

fn all_ping(hub: &Hub, answered: impl Fn(&str, &str) -> u32) {
    for (connection, source) in (1..).zip(["a", "b", "c"]) {
        for target in ["a", "b", "c"].into_iter().filter(|target| *target != source) {
            ping(hub, connection, source, target, answered(source, target));
        }
    }
}

#[tokio::test]
async fn whether_it_is_the_network_is_answered_for_the_nodes_that_were_asked_for() {
    let hub = hub();
    let unmeasured = diagnosed(&hub, "nodes=a,b").await;
    assert_eq!(unmeasured.answer, "cannot-say");
    assert!(unmeasured.text.contains("only 0 of 2 pairs"), "{}", unmeasured.text);
    all_ping(&hub, |_, target| if target == "c" { 0 } else { 20 });
    let fine = diagnosed(&hub, "nodes=a,b").await;
    assert_eq!(fine.answer, "fine", "{}", fine.text);
    assert_eq!(
        (fine.pairs[0].metric.as_str(), fine.pairs[0].fresh, fine.pairs[0].lossy),
        ("bandwidth", 0, 0)
    );
    assert_eq!((fine.pairs[1].metric.as_str(), fine.pairs[1].fresh), ("ping", 2));
    let broken = diagnosed(&hub, "nodes=a,b,c").await;
    assert_eq!(broken.answer, "network", "{}", broken.text);
    assert!(broken.text.starts_with("the network: 2 pairs get no answer"), "{}", broken.text);
    assert_eq!(broken.pairs[1].failures[0].target, "c/mlx5_0/1");
    // One node is looked at towards everybody.
    assert_eq!(diagnosed(&hub, "nodes=a").await.pairs[1].pairs, 4);
    let unknown = diagnosis(State(Arc::clone(&hub)), query("nodes=a,zz")).await;
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND, "a mistyped name is no verdict");
}

#[tokio::test]
async fn incidents_and_findings_count_for_the_nodes_that_they_touch() {
    let hub = hub();
    all_ping(&hub, |_, _| 20);
    assert_eq!(diagnosed(&hub, "").await.answer, "fine");
    let at = now(&hub);
    restored(&hub, |state| vec![lossy(2, state, at)]);
    let whole = diagnosed(&hub, "").await;
    assert_eq!((whole.answer.as_str(), whole.incidents.len()), ("network", 1));
    assert!(whole.text.starts_with("* -> a/mlx5_0/1 loses packets (incident 2,"), "{}", whole.text);
    assert_eq!(whole.next_step, "Swap the cable.");
    assert_eq!(diagnosed(&hub, "nodes=b,c").await.answer, "fine", "the incident is not theirs");
    hub.write(|state, now| state.acknowledge_incident(2, Some("known".to_owned()), now)).unwrap();
    let known = diagnosed(&hub, "nodes=a,b").await;
    assert_eq!((known.answer.as_str(), known.incidents.len()), ("fine", 1), "known, and still in sight");
    let failing = FindingBrief {
        id: "memlock".to_owned(),
        status: Status::Fail,
        subject: "machine".to_owned(),
        summary: "memory cannot be locked".to_owned(),
        cause: String::new(),
        next_step: "Raise it.".to_owned(),
        evidence: Vec::new(),
        settling: false,
        since: Wall(1),
        latched: false,
    };
    tells(&hub, 2, "b", vec![failing]);
    let host = diagnosed(&hub, "nodes=a,b").await;
    assert_eq!((host.answer.as_str(), host.findings.len()), ("host", 1));
    assert!(
        host.text.starts_with("not the network: b machine: memory cannot be locked [memlock]"),
        "{}",
        host.text
    );
    hub.write(|state, now| state.acknowledge("b", "memlock", None, Some("known".to_owned()), now)).unwrap();
    assert_eq!(diagnosed(&hub, "nodes=a,b").await.answer, "fine", "somebody knows of it");
    hub.write(|state, now| state.handle(Event::Closed(ConnectionId(3)), now));
    let away = diagnosed(&hub, "nodes=a,c").await;
    assert_eq!(away.answer, "cannot-say");
    assert!(away.text.contains("the agent of c is not connected"), "{}", away.text);
}

#[tokio::test]
async fn the_status_counts_incidents() {
    let hub = hub();
    four(&hub);
    let status: StatusView = hub.read(|state, now| crate::views::status(state, now, false));
    assert_eq!((status.incidents.open, status.incidents.suspected), (2, 1));
}
