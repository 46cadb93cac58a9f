//! Bad input ends with clear words and the right exit code, and costs nobody else anything.

use crate::harness::{Cluster, Done, Folder, PATIENCE, finish, rdmascope, run};
use rdmascope_link::{Hello, PROTOCOL_MAX, ToAgent, ToCoordinator};
use rdmascope_tests::guest::{Api, Program, wait_until};
use serde_json::json;
use std::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::protocol::WebSocket;
use tokio_tungstenite::tungstenite::{Message, client};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const OTHER_TOKEN: &str = "fedcba9876543210fedcba9876543210";

/// Says it once, as `rdmascope: ...`, and nothing like a stack trace.
#[track_caller]
fn fails(done: &Done, code: i32, parts: &[&str]) {
    assert_eq!(done.code, Some(code), "{done:?}");
    assert!(done.err.starts_with("rdmascope: "), "{done:?}");
    assert_eq!(done.err.matches("\nrdmascope: ").count(), 0, "{done:?}");
    for part in parts {
        assert!(done.err.contains(part), "no {part:?} in {}", done.err);
    }
    assert!(!done.err.contains("panicked") && !done.err.contains("RUST_BACKTRACE"), "{done:?}");
}

fn count(program: &Program, text: &str) -> usize {
    program.printed().matches(text).count()
}

#[test]
fn a_wrong_config_is_refused_with_file_line_key_and_hint() {
    let folder = Folder::new();
    let wrong = folder.file(
        "rdmascope.yaml",
        "agent:\n  coordinatr: head:8080\n  transport: verbs\n  transport: tcp\ncoordinator:\n  listen: 8080\n",
    );
    let expected = [
        format!("{wrong}:2: agent.coordinatr: unknown key\n    hint: did you mean `coordinator`?"),
        format!("{wrong}:4: agent.transport: is there twice\n    hint: "),
        format!("{wrong}:6: coordinator.listen: the address is missing\n    hint: "),
    ];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    for arguments in [
        ["config", "check", wrong.as_str()].as_slice(),
        &["agent", "--config", &wrong],
        &["coordinator", "--config", &wrong],
    ] {
        fails(&run(arguments), 78, &expected);
    }
    fails(&run(&["config", "check", "/no/such/file"]), 78, &["/no/such/file: cannot be read"]);
    let good = folder.file("good.yaml", "agent:\n  coordinator: head:8080\n");
    let good = run(&["config", "check", &good]);
    assert_eq!((good.code, good.err.as_str()), (Some(0), ""));
    assert!(good.out.starts_with("ok: ") && good.out.contains("coordinator head:8080"), "{}", good.out);
    let open = folder.file("open.yaml", "coordinator:\n  listen: 0.0.0.0:8080\n");
    fails(&run(&["config", "check", &open]), 78, &["coordinator.listen", "there is no token"]);
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    fails(&run(&["matrix", "--metric", "speed"]), 64, &["speed", "latency", "bandwidth"]);
    fails(&run(&["agent", "--coordinator", "http://head:8080"]), 64, &["leave out the scheme"]);
    fails(&run(&["agent"]), 64, &["where the coordinator is", "--coordinator HOST:PORT"]);
    fails(&run(&["agent", "--coordinator", "head:1", "--node-name", "a b"]), 64, &["letters, digits"]);
    fails(&run(&["sweep", "--min-endpoints", "many"]), 64, &["--min-endpoints"]);
    // "node failed" is 2: a mistyped flag of `check` must never look like it.
    fails(&run(&["check", "--jsn"]), 3, &["--jsn"]);
    fails(&run(&["check", "--root", "/no/such/folder"]), 3, &["/no/such/folder"]);
    assert_eq!(run(&[]).code, Some(64));
}

#[test]
fn a_topology_file_that_is_wrong_is_refused_with_its_lines() {
    let folder = Folder::new();
    let topology = folder.file("topology.conf", "SwitchName=leaf1 Nodes=n[1-4]\nSwitchName=leaf2 Nodes=n4\n");
    let config = folder.file("r.yaml", &format!("coordinator:\n  topology_file: {topology}\n"));
    let words = ["topology.conf", "line 2: n4 is on leaf1 already"];
    fails(&run(&["config", "check", &config]), 78, &words);
    fails(&run(&["coordinator", "--listen", "127.0.0.1:0", "--config", &config]), 78, &words);
    // The agents' machines need not have it.
    let elsewhere = folder.file("s.yaml", "coordinator:\n  topology_file: /no/such/topology\n");
    let good = run(&["config", "check", &elsewhere]);
    assert_eq!(good.code, Some(0), "{good:?}");
    assert!(
        good.out.contains("topology /no/such/topology\n  at most 4 streams across a leaf's uplinks"),
        "{good:?}"
    );
    fails(
        &run(&["coordinator", "--listen", "127.0.0.1:0", "--config", &elsewhere]),
        78,
        &["/no/such/topology"],
    );
}

#[test]
fn an_open_port_without_a_token_is_refused() {
    fails(&run(&["coordinator", "--listen", "0.0.0.0:0"]), 78, &["0.0.0.0:0", "there is no token"]);
    let folder = Folder::new();
    let short = folder.file("token", "secret");
    let listen = ["coordinator", "--listen", "127.0.0.1:0", "--token-file"];
    let refused = run(&[listen.as_slice(), &[&short]].concat());
    fails(&refused, 78, &["token file", "16 to 4096"]);
    assert!(!refused.err.contains("secret"), "{refused:?}");
    fails(&run(&[listen.as_slice(), &["/no/such/token"]].concat()), 78, &["/no/such/token"]);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let words = [format!("cannot listen on {address}: "), "--listen".to_owned()];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    fails(&run(&["coordinator", "--listen", &address]), 1, &words);
    // An agent's own log comes before the error.
    let agent = ["agent", "--coordinator", "127.0.0.1:1", "--transport", "tcp", "--listen", &address];
    let mut agent = rdmascope(&agent);
    agent.env("RUST_LOG", "off");
    fails(&finish(agent), 1, &words);
}

#[test]
fn an_unreachable_coordinator_is_said_once_and_retried_until_it_is_there() {
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = free.local_addr().expect("its address").to_string();
    drop(free);
    let words = [format!("cannot reach the coordinator at {address}: "), "is it running there?".to_owned()];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    for command in ["matrix", "sweep", "pause"] {
        fails(&run(&[command, "--coordinator", &address]), 1, &words);
    }

    let folder = Folder::new();
    let mut agent =
        rdmascope(&["agent", "--coordinator", &address, "--transport", "tcp", "--node-name", "n1"]);
    agent.env("RUST_LOG", "rdmascope=debug");
    let mut agent = Program::start("n1", &mut agent, &folder.path("n1.log"));
    wait_until("the agent has tried three times", PATIENCE, || {
        let again = count(&agent, "still no connection to the coordinator");
        if again >= 2 { Ok(()) } else { Err(agent.printed()) }
    });
    assert_eq!(count(&agent, " WARN "), 1, "{}", agent.printed());
    assert_eq!(agent.ended(), None, "it goes on trying");
    let mut coordinator = rdmascope(&["coordinator", "--listen", &address]);
    let _coordinator = Program::start("coordinator", &mut coordinator, &folder.path("coordinator.log"));
    wait_until("the agent is connected", PATIENCE, || {
        let nodes = Api::new(&address, None).json("/api/v1/nodes")?;
        if nodes["nodes"][0]["connected"] == true { Ok(()) } else { Err(nodes.to_string()) }
    });
    assert_eq!(count(&agent, " WARN "), 1, "{}", agent.printed());
}

#[test]
fn a_wrong_token_is_told_and_writes_need_the_right_one() {
    let mut cluster = Cluster::start(Some(TOKEN), &["n1"]);
    let wrong = cluster.folder.file("wrong-token", OTHER_TOKEN);
    cluster.add_agent("n2", &["--token-file", &wrong]);
    let agent = cluster.agent("n2");
    wait_until("the agent says what is wrong", PATIENCE, || {
        let printed = agent.printed();
        let told = printed.contains("the coordinator wants another token: give its file with --token-file");
        if told { Ok(()) } else { Err(printed) }
    });
    assert_eq!(agent.ended(), None, "it goes on trying: the token may be replaced");
    cluster.wait_for_nodes(&["n1"]);

    for path in ["/api/v1/sweeps", "/api/v1/probes", "/api/v1/incasts", "/api/v1/pause", "/api/v1/resume"] {
        for token in [None, Some(OTHER_TOKEN)] {
            let answer = Api::new(&cluster.address, token).post(path, &json!({})).expect("an answer");
            assert_eq!(
                (answer.status, &answer.body["status"]),
                (401, &json!(401)),
                "{path}: {}",
                answer.text
            );
        }
    }
    assert_eq!(cluster.api().json("/api/v1/pause").expect("a read")["cluster"], "none");
    for arguments in [["sweep"].as_slice(), &["pause"], &["probe", "n1", "n2"]] {
        let bare = [arguments, &["--coordinator", &cluster.address]].concat();
        fails(&run(&bare), 1, &["This call needs a token", "--token-file"]);
        fails(&run(&[&bare, ["--token-file", &wrong].as_slice()].concat()), 1, &["This call needs a token"]);
    }
    // Reading needs none.
    assert_eq!(run(&["matrix", "--coordinator", &cluster.address]).code, Some(0));
    let printed = cluster.coordinator.printed() + &cluster.agent("n2").printed();
    assert!(!printed.contains(TOKEN) && !printed.contains(OTHER_TOKEN), "a token is in the log");
}

/// An agent's connection, made by hand.
pub(crate) fn connect(address: &str) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(address).expect("the coordinator accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let (socket, _) = client(format!("ws://{address}/api/v1/agent"), stream).expect("a WebSocket");
    socket
}

/// Sends one message and returns the refusal (if there was one) and the reason of the close frame.
fn refused(cluster: &Cluster, message: Message) -> (Option<String>, String) {
    let mut socket = connect(&cluster.address);
    socket.send(message).expect("it can be sent");
    let mut refusal = None;
    loop {
        match socket.read() {
            Ok(Message::Binary(bytes)) => match ToAgent::decode(&bytes) {
                Ok(ToAgent::Refused { message }) => refusal = Some(message),
                other => panic!("not a refusal: {other:?}"),
            },
            Ok(Message::Close(Some(frame))) => return (refusal, frame.reason.to_string()),
            Ok(other) => panic!("not a close: {other:?}"),
            Err(error) => return (refusal, error.to_string()),
        }
    }
}

/// The first frame of an agent called `stranger`.
pub(crate) fn hello(protocol_min: u32, protocol_max: u32) -> Message {
    let hello = Hello {
        protocol_min,
        protocol_max,
        agent_version: "9.9.9".to_owned(),
        node: "stranger".to_owned(),
        instance: 1,
        machine: "m".to_owned(),
        metrics: None,
    };
    Message::Binary(ToCoordinator::Hello(hello).encode().into())
}

#[test]
fn what_is_no_frame_costs_its_sender_the_connection_and_nobody_else_anything() {
    let mut cluster = Cluster::start(None, &["n1", "n2"]);
    cluster.wait_for_nodes(&["n1", "n2"]);

    let (refusal, reason) = refused(&cluster, Message::Binary(vec![0xff; 64].into()));
    assert!(refusal.is_some_and(|text| text.contains("frame")), "{reason}");
    assert!(reason.contains("frame"), "{reason}");
    let (_, reason) = refused(&cluster, Message::Text("hello".into()));
    assert!(reason.contains("binary"), "{reason}");
    let too_long = vec![0; rdmascope_link::FRAME_BYTES_MAX + 1];
    // Its end may come as a reset, in the middle of the sending.
    let mut socket = connect(&cluster.address);
    let ended = socket.send(Message::Binary(too_long.into())).is_err() || socket.read().is_err();
    assert!(ended || matches!(socket.read(), Err(_) | Ok(Message::Close(_))));

    let newer = PROTOCOL_MAX + 6;
    let (refusal, _) = refused(&cluster, hello(newer, newer + 2));
    let refusal = refusal.expect("a refusal");
    assert!(refusal.contains(&format!("the agent speaks {newer} to {}", newer + 2)), "{refusal}");
    assert!(refusal.contains(&format!("the coordinator 1 to {PROTOCOL_MAX}")), "{refusal}");

    // A frame that speaks before its hello is refused too, and each refusal is counted under its reason.
    let (refusal, _) = refused(&cluster, Message::Binary(ToCoordinator::Results(Vec::new()).encode().into()));
    assert!(refusal.is_some_and(|text| text.contains("hello")), "the first frame must be a hello");
    let metrics = cluster.api().get("/metrics").expect("metrics").text;
    for reason in ["version", "conduct"] {
        let counted = format!("rdmascope_agents_refused_total{{reason=\"{reason}\"}} 1\n");
        assert!(metrics.contains(&counted), "no {counted} in:\n{metrics}");
    }

    cluster.wait_for_nodes(&["n1", "n2"]);
    for name in ["n1", "n2"] {
        let agent = cluster.agent(name);
        assert_eq!(count(agent, "connected to the coordinator"), 1, "{}", agent.printed());
        assert_eq!(count(agent, " WARN "), 0, "{}", agent.printed());
    }
    assert_eq!(cluster.run(&["probe", "n1", "n2"]).code, Some(0));
}

#[test]
fn unknown_names_are_answered_with_what_exists() {
    let cluster = Cluster::start(None, &["n1", "n2"]);
    cluster.wait_for_nodes(&["n1", "n2"]);
    let api = cluster.api();
    let exist = ["n1/tcp/1", "n2/tcp/1"];
    for (path, status, words) in [
        ("/api/v1/matrix?metric=speed", 400, ["latency", "bandwidth"]),
        ("/api/v1/matrix?format=xml", 400, ["json", "csv"]),
        ("/api/v1/incidents?since=yesterday", 400, ["yesterday", "UTC"]),
        ("/api/v1/probes?limit=x", 400, ["limit", "invalid digit"]),
        ("/api/v1/pairs/n1/n9", 404, exist),
        ("/api/v1/pairs/n9/n1", 404, exist),
        ("/api/v1/pairs/n1/n1", 400, ["pair", "different"]),
        ("/api/v1/sweeps/77", 404, ["no sweep 77", "/api/v1/sweeps"]),
        ("/api/v1/sweeps/x", 400, ["'x'", "number"]),
        ("/api/v1/probes/77", 404, ["no probe 77", "kept"]),
        ("/api/v2/matrix", 404, ["no such path", "openapi"]),
    ] {
        let answer = api.get(path).expect("an answer");
        assert_eq!((answer.status, &answer.body["status"]), (status, &json!(status)), "{path}");
        for word in words {
            assert!(answer.text.contains(word), "{path}: no {word} in {}", answer.text);
        }
    }
    for (body, status, word) in [
        (json!({"source": "n1", "target": "n9"}), 404, "n2/tcp/1"),
        (json!({"source": "n1", "target": "n2", "metric": "speed"}), 400, "bandwidth"),
        (json!({"source": "n1", "target": "n2", "metrics": "all"}), 400, "metric"),
        (json!({"source": "n1"}), 400, "target"),
    ] {
        let answer = api.post("/api/v1/probes", &body).expect("an answer");
        assert_eq!(answer.status, status, "{body}: {}", answer.text);
        assert!(answer.text.contains(word), "{body}: {}", answer.text);
    }
    fails(&cluster.run(&["probe", "n1", "n9"]), 1, &["n9", "n1/tcp/1", "n2/tcp/1"]);
    fails(&cluster.run(&["pause", "--nodes", "n1,n9"]), 1, &["n9", "n1", "n2"]);
    fails(&cluster.run(&["pause", "--nodes", "n1,,n2"]), 64, &["empty name"]);
}
