//! Nodes, endpoints and addresses as lists: what the coordinator knows, and what this machine has.

use crate::harness::{Cluster, PATIENCE, run};
use rdmascope_fixtures::FakeHost;
use rdmascope_tests::guest::{Signal, wait_until};

/// The words of the line that begins with these.
fn row<'t>(text: &'t str, begin: &str) -> Vec<&'t str> {
    let line = text.lines().find(|line| line.trim_start().starts_with(begin));
    line.unwrap_or_else(|| panic!("no line of {begin} in {text}")).split_whitespace().collect()
}

#[test]
fn nodes_are_listed_with_their_endpoints_and_with_those_that_are_gone() {
    let mut cluster = Cluster::start(None, &["n1", "n2"]);
    cluster.wait_for_nodes(&["n1", "n2"]);
    let list = wait_until("both endpoints are there", PATIENCE, || {
        let list = cluster.run(&["nodes"]).out;
        if list.contains("2 endpoints, 2 can be probed") { Ok(list) } else { Err(list) }
    });
    assert!(list.starts_with("NODE / ENDPOINT "), "{list}");
    let version = env!("CARGO_PKG_VERSION");
    let n1 = row(&list, "n1");
    assert_eq!((n1[1], &n1[n1.len() - 2..]), ("connected", [version, "now"].as_slice()), "{list}");
    assert_eq!(row(&list, "tcp/1")[1], "usable", "{list}");
    assert!(list.contains("\n2 nodes, 2 connected; 2 endpoints, 2 can be probed\n"), "{list}");

    cluster.run(&["pause", "--nodes", "n1"]);
    cluster.agent("n2").signal(Signal::KILL);
    cluster.wait_for_nodes(&["n1"]);
    let list = cluster.run(&["nodes"]).out;
    assert_eq!((row(&list, "n1")[1], row(&list, "n2")[1]), ("paused", "gone"), "{list}");
    assert!(row(&list, "n2").ends_with(&["s", "ago"]), "{list}");
    let one = cluster.run(&["nodes", "--node", "n2"]).out;
    assert!(
        !one.contains("n1") && one.contains("1 nodes, 0 connected; 1 endpoints, 0 can be probed"),
        "{one}"
    );

    let done = cluster.run(&["nodes", "remove", "n2"]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), "done; nodes now: n1\n"), "{done:?}");
    let connected = cluster.run(&["nodes", "remove", "n1"]);
    assert_eq!(connected.code, Some(1));
    assert!(connected.err.contains("stop it first"), "{connected:?}");
}

#[test]
fn a_cluster_without_agents_says_how_to_start_one() {
    let cluster = Cluster::start(None, &[]);
    for command in ["nodes", "matrix"] {
        let list = cluster.run(&[command]);
        assert!(
            list.code == Some(0) && list.out.contains("next step: on each node, `rdmascope agent"),
            "{list:?}"
        );
    }
}

#[test]
fn gids_are_listed_as_show_gids_does() {
    let machine = FakeHost::mlx5(2);
    let root = machine.root().to_str().expect("a path of ASCII");
    let all = run(&["gids", "--root", root]);
    assert_eq!(all.code, Some(0), "{all:?}");
    let head: Vec<&str> = all.out.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(head, ["DEV", "PORT", "INDEX", "GID", "IPv4", "VER", "DEV"]);
    let v2 = all
        .out
        .lines()
        .find(|line| line.contains("::ffff:") && line.contains(" v2 ") && line.starts_with("mlx5_1"))
        .expect("a RoCE v2 GID");
    let words: Vec<&str> = v2.split_whitespace().collect();
    assert!(words[3].starts_with("::ffff:") && words[3].ends_with(words[4]) && words[6] == "eth1", "{v2}");
    let one = run(&["gids", "--root", root, "--device", "mlx5_0"]).out;
    assert!(one.contains("mlx5_0") && !one.contains("mlx5_1"), "{one}");

    machine.folder().unreadable(&machine.port_file("mlx5_0", "gids/0"));
    let blind = run(&["gids", "--root", root]);
    assert_eq!(blind.code, Some(1), "{blind:?}");
    assert!(blind.out.contains("not read: mlx5_0/1: "), "could not look is told: {}", blind.out);
}
