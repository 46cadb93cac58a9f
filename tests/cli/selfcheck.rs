//! Self-checks from the command line, over TCP: with a coordinator that runs, with an own one, and whatever must never pass.

use crate::harness::{Cluster, Done, Folder, PATIENCE, rdmascope, run};
use rdmascope_tests::guest::{Program, Signal, wait_until};
use serde_json::Value;

/// On a busy machine a pair of a software transport may be slow against the others: that is no fault of the program.
const LAB: &[&str] =
    &["selfcheck", "--preset", "lab", "--limit", "latency-of-batch=any", "--limit", "goodput-of-batch=any"];

fn selfcheck(cluster: &Cluster, flags: &[&str]) -> Done {
    cluster.run(&[LAB, flags].concat())
}

fn json(done: &Done) -> Value {
    serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// A self-check that is its own coordinator.
struct Own {
    program: Program,
    address: String,
    folder: Folder,
}

impl Own {
    fn start(flags: &[&str]) -> Self {
        let folder = Folder::new();
        let mut command = rdmascope(&[LAB, &["--listen", "127.0.0.1:0"], flags].concat());
        command.args(["--report"]).arg(folder.path("report.json"));
        let program = Program::start("selfcheck", &mut command, &folder.path("selfcheck.log"));
        let address = wait_until("it says where it listens", PATIENCE, || {
            let printed = program.printed();
            let found = printed.lines().find_map(|line| line.strip_prefix("listening on http://"));
            found.map(str::to_owned).ok_or(printed.clone())
        });
        Self { program, address, folder }
    }

    fn agent(&self, name: &str) -> Program {
        let mut command = rdmascope(&["agent", "--once", "--transport", "tcp", "--node-name", name]);
        command.args(["--coordinator", &self.address, "--state-dir"]).arg(self.folder.path(name));
        Program::start(name, &mut command, &self.folder.path(&format!("{name}.log")))
    }

    fn code(&mut self) -> Option<i32> {
        code(&mut self.program)
    }

    fn report(&self) -> Value {
        let text = std::fs::read_to_string(self.folder.path("report.json")).expect("the report");
        serde_json::from_str(&text).expect("JSON")
    }
}

fn code(program: &mut Program) -> Option<i32> {
    wait_until("it ends", PATIENCE, || program.ended().ok_or_else(|| "it runs".to_owned())).code()
}

#[test]
fn its_own_coordinator_tests_three_agents_that_leave_when_it_is_over() {
    let mut own = Own::start(&["--expect", "3"]);
    let mut agents = ["n1", "n2", "n3"].map(|name| own.agent(name));
    assert_eq!(own.code(), Some(0), "{}", own.program.printed());
    let printed = own.program.printed();
    for words in ["\nPASS: 3 nodes, 3 ports: ", "\nstages\n", "\nworst pairs, latency\n"] {
        assert!(printed.contains(words), "no {words:?} in {printed}");
    }
    let report = own.report();
    let headline = report["headline"].as_str().unwrap_or_default();
    assert!(headline.ends_with("over TCP, which says nothing about RDMA"), "TCP passes for RDMA: {headline}");
    assert_eq!(report["pairs"].as_array().map(Vec::len), Some(12), "{report}");
    assert!(report["pairs"].as_array().unwrap().iter().all(|pair| pair["value"].as_u64() > Some(0)));
    for agent in &mut agents {
        assert_eq!(code(agent), Some(0), "{}", agent.printed());
    }
}

#[test]
fn nodes_that_do_not_come_were_not_tested_and_never_pass() {
    let mut own = Own::start(&["--expect", "3", "--wait", "6s"]);
    let _agents = ["n1", "n2"].map(|name| own.agent(name));
    assert_eq!(own.code(), Some(3), "{}", own.program.printed());
    let not_tested = own.report()["not_tested"].to_string();
    assert!(not_tested.contains("1 of 3 nodes") && not_tested.contains("there are: n1, n2"), "{not_tested}");
}

#[test]
fn interrupted_it_says_what_was_not_tested_and_does_not_pass() {
    let mut own = Own::start(&["--expect", "3"]);
    let _agent = own.agent("n1");
    own.program.signal(Signal::INT);
    assert_eq!(own.code(), Some(3), "{}", own.program.printed());
    let report = own.report();
    assert_eq!(report["interrupted"], true, "{report}");
    for stage in report["stages"].as_array().expect("stages") {
        assert_eq!(stage["status"], "unknown", "{report}");
    }
}

#[test]
fn beside_a_coordinator_that_runs_the_same_seed_is_the_same_test() {
    let cluster = Cluster::start(None, &["n1", "n2", "n3", "n4"]);
    cluster.wait_for_nodes(&["n1", "n2", "n3", "n4"]);
    let test = |seed| {
        let done = selfcheck(&cluster, &["--nodes", "n[1-4]", "--json", "--incasts", "2", "--seed", seed]);
        assert_eq!(done.code, Some(0), "{done:?}");
        let report = json(&done);
        let ends = |pair: &Value| (pair["source"].clone(), pair["target"].clone(), pair["metric"].clone());
        let pairs: Vec<_> = report["pairs"].as_array().unwrap().iter().map(ends).collect();
        let incasts = report["incasts"].as_array().unwrap().iter();
        (pairs, incasts.map(|i| (i["target"].clone(), i["sources"].clone())).collect::<Vec<_>>())
    };
    let (pairs, incasts) = test("7");
    assert_eq!((pairs.len(), incasts.len()), (24, 2));
    assert_eq!(test("7"), (pairs, incasts));
}

#[test]
fn a_node_whose_agent_is_gone_is_not_tested_and_the_others_are() {
    let mut cluster = Cluster::start(None, &["n1", "n2", "n3"]);
    cluster.wait_for_nodes(&["n1", "n2", "n3"]);
    cluster.agent("n3").signal(Signal::KILL);
    cluster.wait_for_nodes(&["n1", "n2"]);
    let done = selfcheck(&cluster, &["--nodes", "n1,n2,n3,n9", "--wait", "1s", "--json", "--incasts", "0"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    let report = json(&done);
    let not_tested = report["not_tested"].to_string();
    for words in ["node n3", "node n9", "no agent of this name has come", "latency of 2 pairs"] {
        assert!(not_tested.contains(words), "no {words:?} in {not_tested}");
    }
    let status =
        |ok: &str| report["pairs"].as_array().unwrap().iter().filter(|pair| pair["status"] == ok).count();
    assert_eq!((status("ok"), status("unknown"), status("fail")), (4, 8, 0), "{report}");
}

#[test]
fn limits_of_real_ports_are_not_met_by_tcp_and_each_number_can_be_another() {
    let cluster = Cluster::start(None, &["n1", "n2", "n3"]);
    cluster.wait_for_nodes(&["n1", "n2", "n3"]);
    let real = cluster.run(&["selfcheck", "--preset", "100g", "--incasts", "0", "--json"]);
    assert!([Some(2), Some(3)].contains(&real.code), "{real:?}");
    assert!(json(&real)["not_tested"].to_string().contains("it speaks TCP"), "{real:?}");
    // No round trip over TCP takes a nanosecond.
    let asked = ["--limit", "latency=0.001", "--json", "--incasts", "0"];
    let slow = selfcheck(&cluster, &asked);
    assert_eq!(slow.code, Some(2), "{slow:?}");
    let report = json(&slow);
    let latency = report["limits"].as_array().unwrap().iter().find(|limit| limit["name"] == "latency");
    let latency = latency.unwrap_or_else(|| panic!("{report}"));
    assert_eq!((latency["missed"].as_u64(), latency["from"].as_str()), (Some(6), Some("flag")));
    assert!(report["suspects"][0]["names"][0].as_str().unwrap().contains("batch as a whole"), "{report}");
}

#[test]
fn the_report_is_written_in_every_form() {
    let cluster = Cluster::start(None, &["n1", "n2", "n3"]);
    cluster.wait_for_nodes(&["n1", "n2", "n3"]);
    let path = |name: &str| cluster.folder.path(name).to_str().expect("ASCII").to_owned();
    let files = ["r.html", "r.xml", "r.csv", "r.json"].map(path);
    let flags: Vec<&str> = files.iter().flat_map(|file| ["--report", file]).collect();
    let done = selfcheck(&cluster, &[&["--incasts", "1"], flags.as_slice()].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    let texts = files.each_ref().map(|file| std::fs::read_to_string(file).expect("it was written"));
    let words = [
        "data:image/png;base64,",
        "<testsuite name=\"latency\"",
        "n1/tcp/1,n2/tcp/1,latency,",
        "\"headline\"",
    ];
    for (text, words) in texts.iter().zip(words) {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    assert!(done.out.lines().all(|line| line.chars().count() <= 80), "{}", done.out);
    let nowhere = selfcheck(&cluster, &["--incasts", "0", "--report", "/nowhere/r.html"]);
    assert_eq!(nowhere.code, Some(3), "{nowhere:?}");
    assert!(nowhere.err.contains("cannot be written") && nowhere.out.starts_with("PASS"), "{nowhere:?}");
}

#[test]
fn wrong_usage_and_what_cannot_be_reached_never_read_as_a_verdict() {
    let cases: [(&[&str], &str); 7] = [
        (&["selfcheck"], "--preset"),
        (&["selfcheck", "--preset", "fast"], "25g-roce, 100g"),
        (&["selfcheck", "--preset", "lab", "--limit", "speed=1"], "latency (µs)"),
        (&["selfcheck", "--preset", "lab", "--nodes", "n[1-"], "--nodes"),
        (&["selfcheck", "--preset", "lab", "--report", "r.pdf"], ".html"),
        (&["selfcheck", "--preset", "lab", "--listen", "127.0.0.1:0"], "--expect"),
        (&["selfcheck", "--preset", "lab", "--coordinator", "127.0.0.1:1"], "cannot reach the coordinator"),
    ];
    for (arguments, words) in cases {
        let refused = run(arguments);
        assert_eq!(refused.code, Some(3), "{arguments:?}: {refused:?}");
        assert!(refused.err.contains(words), "no {words:?} in {refused:?}");
    }
    let once = ["agent", "--once", "--wait", "1s", "--transport", "tcp", "--coordinator", "127.0.0.1:1"];
    let never = run(&once);
    assert_eq!(never.code, Some(1), "{never:?}");
    assert!(
        never.err.contains("was not reached within 1 s") && never.err.contains("next step: "),
        "{never:?}"
    );
}
