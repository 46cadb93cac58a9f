//! What people see in a terminal: no line wider than it, colours only where they are wanted, and nothing cut in a pipe.

use crate::harness::{Cluster, Done, finish, rdmascope};
use crate::incidents::{open_incidents, with_a_port_that_is_down};
use rdmascope_fixtures::FakeHost;
use std::process::Command;

/// Longer than half of the terminal, as names of cloud machines are.
const NODES: [&str; 2] = [
    "gpu-node-with-a-very-long-name-in-rack-17-of-hall-2-number-001",
    "gpu-node-with-a-very-long-name-in-rack-17-of-hall-2-number-002",
];

fn in_terminal(mut command: Command, columns: &str) -> Done {
    finish(std::mem::replace(command.env("COLUMNS", columns), Command::new("false")))
}

/// The text without escape sequences of colours.
fn without_colours(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[track_caller]
fn fits(name: &[&str], done: &Done) {
    assert!(!done.out.is_empty(), "{name:?}: {done:?}");
    for line in without_colours(&done.out).lines() {
        assert!(
            line.chars().count() <= 80,
            "{name:?}: {} columns: {line}\nin:\n{}",
            line.chars().count(),
            done.out
        );
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let cluster = Cluster::start(None, &NODES);
    let agent = with_a_port_that_is_down(&cluster);
    let id = open_incidents(&cluster.api())[0]["id"].to_string();
    cluster.wait_for_nodes(&[NODES[0], NODES[1], "stranger"]);
    let wide = |words: &[&str]| {
        let mut command = rdmascope(words);
        command.env("RDMASCOPE_COORDINATOR", &cluster.address).env("CLICOLOR_FORCE", "1");
        in_terminal(command, "80")
    };
    let maintained = wide(&["maintenance", "gpu-node*", "--for", "1h", "--note", &"why ".repeat(30)]);
    fits(&["maintenance"], &maintained);
    let sweep =
        wide(&["sweep", "--min-endpoints", "2", "--metric", "all", "--drained", "--nodes", &NODES.join(",")]);
    fits(&["sweep"], &sweep);
    for words in [
        ["nodes"].as_slice(),
        &["findings", "--all"],
        &["events"],
        &["incidents", "--all"],
        &["incidents", &id],
        &["diagnose"],
        &["diagnose", "--nodes", &NODES.join(",")],
        &["matrix"],
        &["matrix", "--map"],
        &["matrix", "--worst", "5"],
        &["matrix", "--metric", "bandwidth"],
        &["matrix", "--metric", "ping"],
        &["maintenance"],
        &["sweep", "--plan", "--nodes", &NODES.join(",")],
        &["probe", NODES[0], NODES[1]],
        &["probe", NODES[0], NODES[1], "--full", "--drained"],
        &["pause", "--nodes", NODES[0]],
        &["resume", "--nodes", NODES[0]],
    ] {
        fits(words, &wide(words));
    }
    drop(agent);
}

#[test]
fn what_is_told_of_a_machine_fits_too() {
    let machine = FakeHost::mlx5(2);
    machine.pull_cable("mlx5_1");
    let root = machine.root().to_str().expect("a path of ASCII");
    for words in [
        ["check", "--root", root].as_slice(),
        &["check", "--all", "--root", root],
        &["check", "--what-i-can-see", "--root", root],
        &["gids", "--root", root],
        &["explain", "port-state"],
        &["explain", "mlx5-health-error"],
        &["schema"],
    ] {
        fits(words, &in_terminal(rdmascope(words), "80"));
    }
}

#[test]
fn a_pipe_gets_names_whole_and_no_colours() {
    let cluster = Cluster::start(None, &NODES);
    cluster.wait_for_nodes(&NODES);
    for words in [["nodes"].as_slice(), &["matrix"]] {
        let piped = cluster.run(words);
        assert!(NODES.iter().all(|name| piped.out.contains(name)), "{}", piped.out);
        assert!(!piped.out.contains('…') && !piped.out.contains('\x1b'), "{}", piped.out);
    }
}

/// Runs a line in a terminal of 72 columns, and returns what it shows.
fn on_a_terminal(line: &str) -> String {
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command"]).arg(format!("stty cols 72; {line}")).arg("/dev/null");
    for name in ["COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        script.env_remove(name);
    }
    finish({
        script.env("TERM", "xterm-256color");
        script
    })
    .out
}

#[test]
fn a_terminal_says_how_wide_it_is_and_gets_colours_unless_somebody_minds() {
    let machine = FakeHost::mlx5(2);
    machine.pull_cable("mlx5_1");
    let root = machine.root().to_str().expect("a path of ASCII");
    let check = format!("{} check --root {root}", crate::harness::binary().display());
    let shown = on_a_terminal(&check);
    assert!(shown.contains("\x1b[1;38;5;166mFAIL\x1b[0m"), "{shown:?}");
    let widest = without_colours(&shown).lines().map(|line| line.trim_end().chars().count()).max();
    assert!(widest.is_some_and(|widest| (60..=72).contains(&widest)), "{widest:?}: {shown}");
    for quiet in
        [format!("NO_COLOR=1 {check}"), format!("{check} --color never"), format!("TERM=dumb {check}")]
    {
        assert!(!on_a_terminal(&quiet).contains('\x1b'), "{quiet}");
    }
    let mut forced = rdmascope(&["check", "--root", root]);
    forced.env("CLICOLOR_FORCE", "1");
    assert!(finish(forced).out.contains("\x1b["), "CLICOLOR_FORCE");
    let mut always = rdmascope(&["--color", "always", "check", "--root", root]);
    always.env("NO_COLOR", "1");
    assert!(finish(always).out.contains("\x1b["), "the command line wins");
    let mut json = rdmascope(&["check", "--json", "--color", "always", "--root", root]);
    json.env("COLUMNS", "40");
    assert!(serde_json::from_str::<serde_json::Value>(&finish(json).out).is_ok(), "programs get neither");
}
