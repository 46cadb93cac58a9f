//! What commands print with `--json` is what its JSON Schema says, and the schema says all of it.

use crate::harness::{Cluster, Done, run};
use crate::incidents::{open_incidents, with_a_port_that_is_down};
use rdmascope_expose::api::OUTPUTS;
use rdmascope_fixtures::FakeHost;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Debian's own interpreter, which sees the packages that the test command installs.
const PYTHON: &str = "/usr/bin/python3";

/// Judges a list of {name, schema, instance}. Readers must allow further names; here each name must be documented.
const JUDGE: &str = r"
import json, sys
from jsonschema import Draft202012Validator
def closed(schema):
    if isinstance(schema, dict):
        schema = {key: closed(value) for key, value in schema.items()}
        if 'properties' in schema and isinstance(schema.get('type'), str):
            schema.setdefault('additionalProperties', False)
    elif isinstance(schema, list):
        schema = [closed(value) for value in schema]
    return schema
wrong = []
for case in json.load(sys.stdin):
    Draft202012Validator.check_schema(case['schema'])
    for error in Draft202012Validator(closed(case['schema'])).iter_errors(case['instance']):
        wrong.append('%s: %s: %s' % (case['name'], '/'.join(map(str, error.absolute_path)), error.message[:300]))
print('\n'.join(wrong[:50]))
sys.exit(1 if wrong else 0)
";

/// What the judge says against the cases; `None` when they are as they should be.
fn judged(cases: &[Value]) -> Option<String> {
    let mut judge = Command::new(PYTHON);
    judge.args(["-c", JUDGE]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut judge =
        judge.spawn().expect("python3-jsonschema is installed by the test command; it brings python3");
    judge.stdin.take().expect("its input").write_all(json!(cases).to_string().as_bytes()).expect("it reads");
    let seen = judge.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&[seen.stdout, seen.stderr].concat()).into_owned();
    if seen.status.success() { None } else { Some(said) }
}

fn schema(command: &str) -> Value {
    let words: Vec<&str> = ["schema"].into_iter().chain(command.split(' ')).collect();
    let printed = run(&words);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    serde_json::from_str(&printed.out).unwrap_or_else(|error| panic!("{command}: {error}"))
}

#[track_caller]
fn case(command: &str, printed: &Done) -> Value {
    let instance: Value = serde_json::from_str(&printed.out)
        .unwrap_or_else(|error| panic!("{command} prints no JSON ({error}): {printed:?}"));
    json!({ "name": command, "schema": schema(command), "instance": instance })
}

#[test]
fn a_judge_that_finds_fault_says_so() {
    let (schema, good) = (schema("ack"), json!({ "findings": 1 }));
    let of = |instance: Value| judged(&[json!({ "name": "ack", "schema": schema, "instance": instance })]);
    assert_eq!(of(good), None);
    for bad in [json!({}), json!({ "findings": "1" }), json!({ "findings": 1, "new": 2 }), json!([])] {
        assert!(of(bad.clone()).is_some_and(|said| said.contains("ack: ")), "{bad}");
    }
}

/// What is printed of one machine and one file.
fn local() -> Vec<Value> {
    let machine = FakeHost::mlx5(2);
    machine.pull_cable("mlx5_1");
    let root = machine.root().to_str().expect("a path of ASCII");
    let none = "/no/such/file";
    vec![
        case("check", &run(&["check", "--json", "--root", root])),
        case("check --self-audit", &run(&["check", "--self-audit", "--json", "--root", root])),
        case("check --what-i-can-see", &run(&["check", "--what-i-can-see", "--json", "--root", root])),
        case("gids", &run(&["gids", "--json", "--root", root])),
        case("explain", &run(&["explain", "retry-exceeded", "--json"])),
        case("config check", &run(&["config", "check", "--json", none])),
        case("simulate", &first_line(run(&["simulate", "--endpoints", "2", "--seconds", "1", "--json"]))),
    ]
}

fn first_line(printed: Done) -> Done {
    Done { out: printed.out.lines().next().unwrap_or_default().to_owned(), ..printed }
}

/// What is printed of a cluster with figures, failures and a pause.
fn of_figures() -> Vec<Value> {
    let services = "coordinator:\n  services:\n    embed: {class: af31, peers: [n1, n2, n3]}\n";
    let cluster = Cluster::configured(services, None, &["n1", "n2", "n3"]);
    let policy = cluster.folder.file("policy.yaml", "policy: {rdma_mtu: 2048}\n");
    let json = |words: &[&str]| cluster.run(&[words, ["--json"].as_slice()].concat());
    let sweep = json(&["sweep", "--min-endpoints", "3", "--metric", "all", "--drained"]);
    let mut cases = vec![case("sweep", &sweep), case("sweep --plan", &json(&["sweep", "--plan"]))];
    for (command, words) in [
        ("sweep", ["sweep", "--class", "af31"].as_slice()),
        ("probe", &["probe", "n1", "n2"]),
        ("probe", &["probe", "n1", "--service", "embed"]),
        ("probe", &["probe", "n1", "n2", "--metric", "bandwidth"]),
        ("probe", &["probe", "--incast", "n1", "--from", "n2,n3", "--drained"]),
        ("matrix", &["matrix"]),
        ("matrix", &["matrix", "--metric", "bandwidth"]),
        ("matrix", &["matrix", "--metric", "ping"]),
        ("history", &["history", "n1", "n2", "--metric", "latency"]),
        ("selfcheck", &["selfcheck", "--nodes", "n1,n2,n3", "--preset", "lab", "--incasts", "0"]),
        ("nodes", &["nodes"]),
        ("diagnose", &["diagnose"]),
        ("diagnose", &["diagnose", "--nodes", "n1,n2"]),
        ("events", &["events"]),
        ("findings", &["findings"]),
        ("replay", &["replay", "--policy", &policy]),
        ("maintenance", &["maintenance", "n1", "--for", "1h", "--note", "why"]),
        ("pause", &["pause", "--nodes", "n1"]),
        ("resume", &["resume"]),
    ] {
        cases.push(case(command, &json(words)));
    }
    let socket = cluster.state("n1").join("agent.sock").display().to_string();
    cases.push(case("slurm verdict", &json(&["slurm", "verdict", "--socket", &socket])));
    cases
}

/// What is printed of a cluster with an incident, and of a node that goes.
fn of_an_incident() -> Vec<Value> {
    let cluster = Cluster::start(None, &[]);
    let agent = with_a_port_that_is_down(&cluster);
    let id = open_incidents(&cluster.api())[0]["id"].to_string();
    let json = |words: &[&str]| cluster.run(&[words, ["--json"].as_slice()].concat());
    let mut cases = Vec::new();
    for (command, words) in [
        ("incidents", ["incidents"].as_slice()),
        ("incidents NUMBER", &["incidents", &id]),
        ("diagnose", &["diagnose"]),
        ("findings", &["findings"]),
        ("nodes", &["nodes", "--node", "stranger"]),
        ("ack", &["ack", "stranger", "port-state"]),
    ] {
        cases.push(case(command, &json(words)));
    }
    drop(agent);
    let gone = rdmascope_tests::guest::wait_until("its agent is gone", crate::harness::PATIENCE, || {
        let renamed = json(&["nodes", "rename", "stranger", "friend"]);
        if renamed.code == Some(0) { Ok(renamed) } else { Err(format!("{renamed:?}")) }
    });
    cases.push(case("nodes rename", &gone));
    cases
}

#[test]
fn every_output_is_what_its_schema_says() {
    let mut cases = [local(), of_figures(), of_an_incident()].concat();
    cases.push(case("nodes remove", &removed()));
    let seen: BTreeSet<&str> = cases.iter().filter_map(|case| case["name"].as_str()).collect();
    let all: BTreeSet<&str> = OUTPUTS.iter().map(|output| output.command).collect();
    assert_eq!(seen, all, "an output that nobody looks at may be anything");
    if let Some(said) = judged(&cases) {
        panic!("{said}");
    }
}

fn removed() -> Done {
    let cluster = Cluster::start(None, &["n1"]);
    let agent = with_a_port_that_is_down(&cluster);
    cluster.wait_for_nodes(&["n1", "stranger"]);
    drop(agent);
    cluster.wait_for_nodes(&["n1"]);
    cluster.run(&["nodes", "remove", "stranger", "--json"])
}

#[test]
fn schemas_are_listed_and_an_unknown_command_finds_the_nearest() {
    let list = run(&["schema"]);
    assert_eq!(list.code, Some(0), "{list:?}");
    for output in OUTPUTS {
        assert!(list.out.contains(&format!("\n{} ", output.command)), "{} is not listed", output.command);
    }
    let unknown = run(&["schema", "chekc"]);
    assert_eq!(unknown.code, Some(64), "{unknown:?}");
    assert!(unknown.err.contains("did you mean check?"), "{unknown:?}");
}
