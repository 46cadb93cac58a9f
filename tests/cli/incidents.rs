//! What people see of incidents and of "is it the network?", with the real binary; and the stream of what happens.

use crate::bad_input::{connect, hello};
use crate::harness::{Cluster, Folder, PATIENCE, run};
use rdmascope_link::{EventKind, Fact, FindingBrief, NodeEvent, PROTOCOL_MAX, PROTOCOL_MIN, ToCoordinator};
use rdmascope_model::{EndpointInfo, Fabric, Status, Wall};
use rdmascope_tests::guest::{Api, Signal, wait_until};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

fn three() -> Cluster {
    let cluster = Cluster::start(None, &["n1", "n2", "n3"]);
    cluster.wait_for_nodes(&["n1", "n2", "n3"]);
    cluster
}

#[test]
fn is_it_the_network_is_not_said_before_anything_was_measured() {
    let cluster = Cluster::start(None, &[]);
    let nothing = cluster.run(&["diagnose"]);
    assert_eq!(nothing.code, Some(3), "{nothing:?}");
    assert!(nothing.out.starts_with("cannot say: "), "{nothing:?}");
    let elsewhere = run(&["diagnose", "--coordinator", "127.0.0.1:1"]);
    assert_eq!(elsewhere.code, Some(3), "{elsewhere:?}");
    assert!(elsewhere.err.contains("cannot reach the coordinator"), "{elsewhere:?}");
    assert_eq!(run(&["diagnose", "--nodes", "n[1-"]).code, Some(64));
}

#[test]
fn a_job_on_healthy_nodes_is_told_that_it_is_not_the_network() {
    let cluster = three();
    assert_eq!(cluster.run(&["sweep", "--min-endpoints", "3"]).code, Some(0));
    // On a busy machine one pair of a software transport may well be slow against the others: that is said, and is no verdict.
    let told = wait_until("the network is not to blame", PATIENCE, || {
        assert_eq!(cluster.run(&["sweep"]).code, Some(0));
        let told = cluster.run(&["diagnose", "--nodes", "n[1-2]"]);
        if told.code == Some(0) { Ok(told) } else { Err(format!("{told:?}")) }
    });
    assert!(told.out.starts_with("not the network: 2 of 2 pairs are fresh"), "{told:?}");
    assert!(told.out.contains("\npairs\n") && told.out.contains("2 of 2 fresh"), "{told:?}");
    let json: Value =
        serde_json::from_str(&cluster.run(&["diagnose", "--nodes", "n1,n2", "--json"]).out).expect("JSON");
    assert_eq!(json["nodes"], serde_json::json!(["n1", "n2"]));
    let unknown = cluster.run(&["diagnose", "--nodes", "n1,n9"]);
    assert_eq!(unknown.code, Some(3), "{unknown:?}");
    assert!(unknown.err.contains("no node n9") && unknown.err.contains("\n  n1\n"), "{unknown:?}");
}

#[test]
fn a_node_whose_agent_is_gone_is_not_called_healthy() {
    let mut cluster = three();
    assert_eq!(cluster.run(&["sweep", "--min-endpoints", "3"]).code, Some(0));
    cluster.agent("n2").signal(Signal::KILL);
    let told = wait_until("it is missed", PATIENCE, || {
        let told = cluster.run(&["diagnose", "--nodes", "n2,n3"]);
        if told.out.contains("the agent of n2 is not connected") {
            Ok(told)
        } else {
            Err(format!("{told:?}"))
        }
    });
    assert_eq!(told.code, Some(3), "{told:?}");
}

#[test]
fn without_incidents_nothing_is_open_and_what_is_not_there_cannot_be_acknowledged() {
    let cluster = three();
    let none = cluster.run(&["incidents"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), "0 open\n"));
    let json: Value = serde_json::from_str(&cluster.run(&["incidents", "--json"]).out).expect("JSON");
    assert_eq!(json, serde_json::json!({ "incidents": [], "left_out": 0 }));
    assert_eq!(cluster.run(&["incidents", "17"]).code, Some(1));
    let ack = cluster.run(&["ack", "--incident", "17", "--note", "known"]);
    assert_eq!(ack.code, Some(1), "{ack:?}");
    assert!(ack.err.contains("no incident 17 goes on"), "{ack:?}");
    for wrong in [["ack"].as_slice(), &["ack", "n1"], &["ack", "n1", "port-state", "--incident", "1"]] {
        assert_eq!(cluster.run(wrong).code, Some(64), "{wrong:?}");
    }
}

fn raised(number: u64, subject: &str, basis: Option<&[&str]>) -> NodeEvent {
    NodeEvent {
        number,
        at: Wall(1_796_000_000_000 + number),
        kind: EventKind::FindingRaised,
        subject: subject.to_owned(),
        id: "retransmits".to_owned(),
        before: "ok".to_owned(),
        after: "fail".to_owned(),
        text: "320 of 1000000 packets were sent again".to_owned(),
        basis: basis.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect()),
    }
}

#[test]
fn other_numbers_are_tried_on_the_history_and_what_it_does_not_hold_is_not_guessed() {
    let cluster = Cluster::start(None, &[]);
    let mut agent = connect(&cluster.address);
    agent.send(hello(PROTOCOL_MIN, PROTOCOL_MAX)).expect("it is sent");
    let basis = [
        "retransmit_minimum_packets 1e6 1e6",
        "retransmits_warn_ratio 1e-6 3.2e-4",
        "retransmits_fail_ratio 1e-4 3.2e-4",
        "= ooooffwo",
    ];
    // As an agent of today tells it, and one of an earlier version.
    let events = [raised(1, "mlx5_0/1", Some(&basis)), raised(2, "mlx5_1/1", None)];
    agent.send(Message::Binary(ToCoordinator::events(&events).encode().into())).expect("they are sent");
    wait_until("they are in the history", PATIENCE, || {
        let list = cluster.api().json("/api/v1/events?kind=finding-raised")?;
        if list["events"].as_array().is_some_and(|events| events.len() == 2) {
            Ok(())
        } else {
            Err(list.to_string())
        }
    });
    let policy = |text: &str| cluster.folder.file("policy.yaml", text);
    let same =
        cluster.run(&["replay", "--since", "2020-01-01", "--policy", &policy("policy: {rdma_mtu: 2048}\n")]);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(same.out.contains(": 1 the same, 0 silent, 0 with another status, 1 cannot say\n"), "{same:?}");
    let lax = policy("policy: {retransmits_warn_ratio: 0.001, retransmits_fail_ratio: 0.01}\n");
    let told = cluster.run(&["replay", "--since", "2020-01-01", "--policy", &lax]);
    for part in [
        "2 findings were raised since 2020-01-01T00:00:00.000Z: 0 the same, 1 silent, 0 with another status, 1 cannot say\n",
        "  retransmits_warn_ratio: 0.000001 then, 0.001 in this policy (1 findings)\n",
        "stranger mlx5_0/1: 320 of 1000000 packets were sent again [retransmits]\n      was fail; now: ok\n",
        "was fail; why: what it was judged by was not kept with it\n",
    ] {
        assert!(told.out.contains(part), "no {part:?} in {}", told.out);
    }
    let json = cluster.run(&["replay", "--since", "2020-01-01", "--policy", &lax, "--json"]).out;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json["silent"][0]["subject"], &json["cannot_say"][0]["subject"]),
        (&"mlx5_0/1".into(), &"mlx5_1/1".into())
    );
    let later = cluster.run(&["replay", "--since", "2037-01-01", "--policy", &lax]);
    assert!(later.out.starts_with("0 findings were raised since 2037"), "{later:?}");
    let wrong = policy("policy: {retransmits_warn_ration: 1}\n");
    assert_eq!(cluster.run(&["replay", "--policy", &wrong]).code, Some(78));
}

/// What an agent says whose port is down.
pub(crate) fn port_is_down() -> [Message; 2] {
    let finding = FindingBrief {
        id: "port-state".to_owned(),
        status: Status::Fail,
        subject: "mlx5_0/1".to_owned(),
        summary: "the port is DOWN, not ACTIVE".to_owned(),
        cause: "no link".to_owned(),
        next_step: "Swap the cable.".to_owned(),
        evidence: Vec::new(),
        settling: false,
        since: Wall(1_796_000_000_000),
        latched: false,
    };
    let endpoint = EndpointInfo::bare("stranger/mlx5_0/1".parse().expect("a name"), Fabric::Roce);
    let fact = |key: &str, value: &str| Fact {
        subject: "mlx5_0/1".to_owned(),
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let facts = vec![fact("switch", "leaf7"), fact("switch_port", "Ethernet1/4")];
    [ToCoordinator::inventory(vec![endpoint], vec![finding]), ToCoordinator::facts(facts)]
        .map(|frame| Message::Binary(frame.encode().into()))
}

/// An agent whose port is down, and that says so.
pub(crate) fn with_a_port_that_is_down(cluster: &Cluster) -> impl Sized + use<> {
    let mut agent = connect(&cluster.address);
    agent.send(hello(PROTOCOL_MIN, PROTOCOL_MAX)).expect("it is sent");
    for message in port_is_down() {
        agent.send(message).expect("it is sent");
    }
    agent
}

pub(crate) fn open_incidents(api: &Api) -> Vec<Value> {
    wait_until("an incident is open", PATIENCE, || {
        let list = api.json("/api/v1/incidents?state=open")?;
        let open = list["incidents"].as_array().cloned().unwrap_or_default();
        if open.is_empty() { Err(list.to_string()) } else { Ok(open) }
    })
}

#[test]
fn an_incident_is_told_in_every_way_can_be_acknowledged_and_outlasts_the_coordinator() {
    let state = Folder::new();
    let config = format!("coordinator:\n  state_dir: {}\n", state.path("").display());
    let mut cluster = Cluster::configured(&config, None, &[]);
    let mut lines = stream(&cluster, "/api/v1/events/stream?kind=incident", "");
    assert!(lines.by_ref().any(|line| line == "content-type: text/event-stream"));
    let agent = with_a_port_that_is_down(&cluster);
    let open = open_incidents(&cluster.api());
    let [incident] = &open[..] else { panic!("one cause is one incident: {open:?}") };
    let id = incident["id"].as_u64().expect("a number").to_string();
    assert!(lines.by_ref().any(|line| line == "event: incident"), "it is streamed");

    let told = cluster.run(&["incidents"]);
    assert_eq!(told.code, Some(1), "{told:?}");
    for part in [
        &format!("FAIL    incident {id}: ") as &str,
        "stranger/mlx5_0/1",
        "next step:  Swap the cable.\n",
        "1 open",
    ] {
        assert!(told.out.contains(part), "no {part:?} in {}", told.out);
    }
    let ticket = cluster.run(&["incidents", &id]);
    assert!(ticket.out.contains("switch:     leaf7, port Ethernet1/4\n"), "{}", ticket.out);
    for arguments in [["diagnose"].as_slice(), &["diagnose", "--nodes", "stranger"]] {
        let diagnosed = cluster.run(arguments);
        assert_eq!(diagnosed.code, Some(1), "{diagnosed:?}");
        assert!(diagnosed.out.contains(&format!("(incident {id}, since ")), "{diagnosed:?}");
    }
    let metrics = cluster.api().get("/metrics").expect("metrics").text;
    assert!(
        metrics.contains("rdmascope_incident{subject=\"stranger/mlx5_0/1\",component=\"endpoint\""),
        "{metrics}"
    );

    let ack = cluster.run(&["ack", "--incident", &id, "--note", "cable ordered"]);
    assert_eq!((ack.code, ack.out.as_str()), (Some(0), format!("incident {id} acknowledged\n").as_str()));
    let known = cluster.run(&["incidents"]);
    assert_eq!(known.code, Some(0), "{known:?}");
    assert!(known.out.contains("0 open, 1 acknowledged or in maintenance (--all shows them)"), "{known:?}");

    drop(agent);
    cluster.restart_coordinator();
    let again = with_a_port_that_is_down(&cluster);
    let back = cluster.run(&["incidents", "--all"]);
    assert!(back.out.contains(&format!("incident {id}: ")) && back.out.contains("cable ordered"), "{back:?}");
    // It is the same one when it is seen again, and no news.
    let seen_before = open_incidents(&cluster.api())[0]["seen_at"].clone();
    wait_until("it is seen again", PATIENCE, || {
        let open = open_incidents(&cluster.api());
        let [one] = &open[..] else { panic!("it is the same cause: {open:?}") };
        assert_eq!(one["id"].to_string(), id);
        if one["seen_at"] == seen_before { Err(one.to_string()) } else { Ok(()) }
    });
    drop(again);
}

/// The lines of a stream, from its first event on.
fn stream(cluster: &Cluster, path: &str, header: &str) -> impl Iterator<Item = String> + use<> {
    let mut connection = TcpStream::connect(&cluster.address).expect("it listens");
    connection.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n{header}\r\n");
    connection.write_all(request.as_bytes()).expect("the request");
    BufReader::new(connection).lines().map_while(Result::ok)
}

#[test]
fn what_happens_is_streamed_as_it_happens_and_the_coordinator_still_ends_in_good_order() {
    let mut cluster = Cluster::start(None, &["n1"]);
    cluster.wait_for_nodes(&["n1"]);
    let mut lines = stream(&cluster, "/api/v1/events/stream?kind=agent-connected", "");
    assert!(lines.by_ref().any(|line| line == "content-type: text/event-stream"));
    cluster.add_agent("n2", &[]);
    assert!(lines.by_ref().any(|line| line == "event: agent-connected"), "the first event is n2's");
    let data =
        lines.by_ref().find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).expect("its data");
    let event: Value = serde_json::from_str(&data).expect("JSON");
    assert_eq!((&event["node"], &event["kind"]), (&"n2".into(), &"agent-connected".into()));
    // Who comes back with the number before gets it again.
    let before = format!("Last-Event-ID: {}\r\n", event["number"].as_u64().expect("a number") - 1);
    let mut again = stream(&cluster, "/api/v1/events/stream?node=n2", &before);
    assert!(again.any(|line| line == format!("data: {data}")));

    cluster.coordinator.signal(Signal::TERM);
    let coordinator = &mut cluster.coordinator;
    let status =
        wait_until("the coordinator ends", PATIENCE, || coordinator.ended().ok_or("runs".to_owned()));
    assert_eq!(status.code(), Some(0), "{}", coordinator.printed());
    assert_eq!(lines.find(|line| line.starts_with("event: ")), None, "the stream ends with it");
}
