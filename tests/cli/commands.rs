//! What a user does when all is well: sweep, matrix, probe, pause, check; and an orderly end.

use crate::harness::{Cluster, Folder, PATIENCE, binary, finish, rdmascope, run};
use rdmascope_fixtures::FakeHost;
use rdmascope_tests::guest::{Api, Signal, wait_until};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn three() -> Cluster {
    Cluster::start(Some(TOKEN), &["n1", "n2", "n3"])
}

/// The rows of the table, without heading and legend: the first word names the row.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let words = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.filter(|words| words.first().is_some_and(|first| ["n1", "n2", "n3"].contains(first))).collect()
}

#[test]
fn a_sweep_fills_the_matrix_in_all_its_forms() {
    let cluster = three();
    let sweep = cluster.run(&["sweep", "--min-endpoints", "3", "--metric", "all", "--drained"]);
    assert_eq!(sweep.code, Some(0), "{sweep:?}");
    // Latency once per pair for both directions, bandwidth for each direction.
    assert!(sweep.out.starts_with("6 pairs in "), "{sweep:?}");
    assert!(sweep.out.contains("9 probes: 9 measured, 0 failed, 0 excluded"), "{sweep:?}");

    for (metric, unit) in [("latency", "p50/p99 in µs"), ("bandwidth", "average in ")] {
        let table = cluster.run(&["matrix", "--metric", metric]);
        assert_eq!((table.code, table.err.as_str()), (Some(0), ""));
        assert!(table.out.starts_with(&format!("{metric}: {unit}")), "{}", table.out);
        let rows = rows(&table.out);
        // The line of the column names starts like the row of n1.
        let [head, body @ ..] = &rows[..] else { panic!("no table: {}", table.out) };
        assert_eq!(head, &["n1", "n2", "n3"]);
        for (index, row) in body.iter().enumerate() {
            assert_eq!(row.len(), 4, "{}", table.out);
            for (column, cell) in row[1..].iter().enumerate() {
                let number = cell.split('/').all(|part| part.parse::<f64>().is_ok_and(|value| value > 0.0));
                assert_eq!(number, index != column, "{cell} in {}", table.out);
            }
        }
        assert_eq!(body.len(), 3, "{}", table.out);
    }

    let json = cluster.run(&["matrix", "--json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(json["endpoints"], serde_json::json!(["n1/tcp/1", "n2/tcp/1", "n3/tcp/1"]));
    assert_eq!(json["state"], serde_json::json!(["-ff", "f-f", "ff-"]));
    let csv = cluster.run(&["matrix", "--csv", "--metric", "bandwidth"]);
    let lines: Vec<&str> = csv.out.lines().collect();
    assert_eq!(lines[0], "average_bits_per_second source\\target,n1/tcp/1,n2/tcp/1,n3/tcp/1");
    assert_eq!(lines.len(), 4);
}

#[test]
fn a_probe_shows_its_steps_and_ends_with_the_figures() {
    let cluster = three();
    cluster.wait_for_nodes(&["n1", "n2", "n3"]);
    let probe = cluster.run(&["probe", "n1", "n2/tcp/1", "--metric", "all", "--drained"]);
    assert_eq!((probe.code, probe.err.as_str()), (Some(0), ""), "{probe:?}");
    assert!(probe.out.starts_with("n1/tcp/1 -> n2/tcp/1\n"), "{}", probe.out);
    for step in ["coordinator  admit", "source       rts", "target       rts", "source       measure"] {
        assert!(probe.out.contains(step), "no step {step}: {}", probe.out);
    }
    assert!(probe.out.contains("\nlatency    p50 ") && probe.out.contains("\nbandwidth  "), "{}", probe.out);

    // Whether a port of this transport is idle is not known, and that counts as busy.
    let busy = cluster.run(&["probe", "n1", "n2", "--metric", "bandwidth"]);
    assert_eq!(busy.code, Some(1));
    for part in
        ["bandwidth  not probed: busy\n", "  cause:     A port of the pair carries traffic", "  next step: "]
    {
        assert!(busy.out.contains(part), "no {part} in {}", busy.out);
    }
    let told = busy.out.lines().find(|line| line.contains("not run: busy: ")).expect("who is in the way");
    assert!(told.contains("the port was not looked at yet"), "{told}");
}

#[test]
fn a_forced_probe_is_in_the_history_of_both_nodes_and_keeps_to_the_limits() {
    let cluster = three();
    cluster.wait_for_nodes(&["n1", "n2", "n3"]);
    let forced = cluster.run(&["probe", "n1", "n2", "--metric", "bandwidth", "--force"]);
    // The share of a rate that is not known is not known either.
    assert_eq!(forced.code, Some(1), "{forced:?}");
    assert!(forced.out.contains("not run: busy: the port's rate is not known"), "{}", forced.out);
    for node in ["n1", "n2"] {
        let events = cluster.run(&["events", "--node", node]);
        for part in ["of bandwidth was ordered; it must begin within 60 s", "n1/tcp/1 -> n2/tcp/1 is over"] {
            assert!(events.out.contains(part), "no {part} in {}", events.out);
        }
    }
    assert!(!cluster.run(&["events", "--node", "n3"]).out.contains("forced"));
    let both = cluster.run(&["probe", "n1", "n2", "--force", "--drained"]);
    assert_eq!(both.code, Some(64), "{both:?}");
    let body = serde_json::json!({"source": "n1", "target": "n2", "force": true, "drained": true});
    for (token, status) in [(None, 401), (Some(TOKEN), 400)] {
        let api = Api::new(&cluster.address, token);
        assert_eq!(api.post("/api/v1/probes", &body).unwrap().status, status);
    }
}

#[test]
fn an_agent_that_hangs_is_a_cause_with_evidence_and_next_step() {
    let mut cluster = three();
    cluster.wait_for_nodes(&["n1", "n2", "n3"]);
    // Its connection stays, and it does not do its part.
    cluster.agent("n2").signal(Signal::STOP);
    let probe = cluster.run(&["probe", "n1", "n2"]);
    assert_eq!(probe.code, Some(1), "{probe:?}");
    let block = probe.out.split("latency    failed: ").nth(1).unwrap_or_else(|| panic!("{}", probe.out));
    for part in ["  cause:     ", "  seen:      ", "  next step: "] {
        assert!(block.contains(part), "no {part} in {block}");
    }
    let matrix = cluster.run(&["matrix"]);
    assert!(matrix.out.contains("failed"), "{}", matrix.out);
    assert!(matrix.out.contains("n1/tcp/1 -> n2/tcp/1"), "{}", matrix.out);
}

#[test]
fn pause_and_resume_say_what_is_paused_and_hold() {
    let cluster = three();
    cluster.wait_for_nodes(&["n1", "n2", "n3"]);
    let cluster_is = |level: &str| {
        let view = cluster.api().json("/api/v1/pause").expect("the pause");
        view["cluster"] == level
    };
    let bandwidth = cluster.run(&["pause", "--bandwidth"]);
    assert_eq!(bandwidth.out, "paused in the whole cluster: bandwidth probes\n");
    assert_eq!(cluster.run(&["probe", "n1", "n2"]).code, Some(0), "latency goes on");
    let all = cluster.run(&["pause"]);
    assert!(all.out.starts_with("paused in the whole cluster: all probes\n"), "{all:?}");
    assert!(cluster_is("all"));
    let probe = cluster.run(&["probe", "n1", "n2"]);
    assert_eq!(probe.code, Some(1), "{probe:?}");
    assert!(probe.err.contains("paused") && probe.err.contains("`rdmascope resume`"), "{probe:?}");
    assert_eq!(cluster.run(&["resume"]).code, Some(0));
    assert!(cluster_is("none"));
    let one = cluster.run(&["pause", "--nodes", "n1,n3"]);
    assert!(one.out.contains("paused on n1: all probes") && one.out.contains("paused on n3"), "{one:?}");
    let probe = cluster.run(&["probe", "n1", "n2"]);
    assert_eq!(probe.code, Some(1), "{probe:?}");
    assert!(probe.out.contains("not probed: policy") && probe.out.contains("rdmascope resume"), "{probe:?}");
    assert_eq!(cluster.run(&["resume", "--nodes", "n1,n3"]).code, Some(0));
    wait_until("a pair can be probed again", PATIENCE, || {
        let probe = cluster.run(&["probe", "n1", "n3"]);
        if probe.code == Some(0) { Ok(()) } else { Err(probe.out) }
    });
}

#[test]
fn a_file_on_the_node_pauses_it_until_it_is_gone() {
    let cluster = three();
    cluster.wait_for_nodes(&["n1", "n2", "n3"]);
    let file = cluster.state("n1").join("pause");
    fs::write(&file, "").expect("a pause file");
    let matrix = wait_until("the matrix says so", PATIENCE, || {
        let matrix = cluster.run(&["matrix"]).out;
        if matrix.contains("paused on n1: all probes (by the pause file") { Ok(matrix) } else { Err(matrix) }
    });
    assert!(!matrix.contains("paused on n2"), "{matrix}");
    assert_eq!(cluster.run(&["probe", "n1", "n2"]).code, Some(1));
    fs::remove_file(&file).expect("it goes");
    wait_until("a pair can be probed again", PATIENCE, || {
        let probe = cluster.run(&["probe", "n1", "n2"]);
        if probe.code == Some(0) { Ok(()) } else { Err(probe.out) }
    });
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let cluster = three();
    cluster.wait_for_nodes(&["n1", "n2", "n3"]);
    for arguments in [["matrix", "--json"].as_slice(), &["matrix"], &["--help"]] {
        let mut command = rdmascope(arguments);
        command.env("RDMASCOPE_COORDINATOR", &cluster.address);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let ended = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), err.as_ref()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn check_judges_a_captured_machine_the_worst_first() {
    let machine = FakeHost::mlx5(2);
    let root = machine.root().to_str().expect("a path of ASCII");
    let healthy = run(&["check", "--root", root]);
    assert_eq!(healthy.code, Some(0), "{}", healthy.out);
    machine.pull_cable("mlx5_1");
    let broken = run(&["check", "--root", root]);
    assert_eq!(broken.code, Some(2), "{}", broken.out);
    assert!(broken.out.starts_with("FAIL    "), "{}", broken.out);
    let block = broken.out.split("\n\n").find(|block| block.contains("FAIL    mlx5_1/1: "));
    assert!(block.is_some_and(|block| block.contains("next step: ")), "{}", broken.out);
    let json = run(&["check", "--root", root, "--json"]);
    assert_eq!(json.code, Some(2));
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!((&json["status"], &json["findings"][0]["status"]), (&"fail".into(), &"fail".into()));
    // The other device alone is fine.
    assert_eq!(run(&["check", "--root", root, "--device", "mlx5_0"]).code, Some(0));
}

#[test]
fn both_daemons_end_in_good_order_on_a_signal() {
    let mut cluster = three();
    cluster.wait_for_nodes(&["n1", "n2", "n3"]);
    cluster.agent("n1").signal(Signal::TERM);
    cluster.agent("n2").signal(Signal::INT);
    for name in ["n1", "n2"] {
        let agent = cluster.agent(name);
        let status = wait_until("the agent ends", PATIENCE, || agent.ended().ok_or("runs".to_owned()));
        assert_eq!(status.code(), Some(0), "{name}: {}", agent.printed());
    }
    cluster.wait_for_nodes(&["n3"]);
    cluster.coordinator.signal(Signal::TERM);
    let coordinator = &mut cluster.coordinator;
    let status =
        wait_until("the coordinator ends", PATIENCE, || coordinator.ended().ok_or("runs".to_owned()));
    assert_eq!(status.code(), Some(0), "{}", coordinator.printed());
}

#[test]
fn logs_are_json_where_the_config_says_so_and_louder_where_the_environment_does() {
    let folder = Folder::new();
    let config = folder.file("rdmascope.yaml", "log:\n  format: json\n  level: error\n");
    let log_of = |level: Option<&str>| {
        // The flag wins over the file; a port that is taken ends it at once.
        let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = taken.local_addr().expect("its address").to_string();
        let agent = [
            "agent",
            "--config",
            &config,
            "--coordinator",
            "127.0.0.1:1",
            "--transport",
            "tcp",
            "--listen",
            &address,
        ];
        let mut command = rdmascope(&agent);
        command.envs(level.map(|level| ("RUST_LOG", level)));
        finish(command).err
    };
    assert!(!log_of(None).contains('{'), "{}", log_of(None));
    let loud = log_of(Some("info"));
    let line: Value = serde_json::from_str(loud.lines().next().unwrap_or_default()).expect(&loud);
    assert_eq!((&line["level"], &line["message"]), (&"INFO".into(), &"agent starts".into()));
}

#[test]
fn the_binary_needs_no_rdma_library_to_start() {
    let listing = finish({
        let mut readelf = Command::new("readelf");
        readelf.arg("--dynamic").arg(binary());
        readelf
    });
    assert_eq!(listing.code, Some(0), "{listing:?}");
    assert!(listing.out.contains("(NEEDED)"), "{}", listing.out);
    for library in ["libibverbs", "librdmacm", "libmlx5"] {
        assert!(!listing.out.contains(library), "{}", listing.out);
    }
    let version = run(&["--version"]);
    assert_eq!((version.code, version.out.starts_with("rdmascope ")), (Some(0), true));
}

#[test]
fn every_shipped_configuration_passes_the_check() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../config");
    let mut files = 0;
    for entry in fs::read_dir(folder).expect("config/") {
        let file = entry.expect("entry").path();
        let done = run(&["config", "check", file.to_str().expect("a path of ASCII")]);
        assert!(done.code == Some(0) && done.out.starts_with("ok: "), "{done:?}");
        files += 1;
    }
    assert_eq!(files, 5);
}
