//! What a person sees who made a mistake in the config: file, line, key, what is wrong, what to do.

use rdmascope_config::{Problems, load, parse};
use std::path::{Path, PathBuf};

#[track_caller]
fn problems(text: &str) -> Problems {
    parse(text, Path::new("r.yaml")).expect_err("the config was accepted")
}

/// The text is refused with exactly these problems, each `LINE KEY: WHAT | HINT`.
#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    let seen: Vec<String> = problems(text)
        .list
        .iter()
        .map(|p| {
            assert_eq!(p.file, Path::new("r.yaml"));
            format!("{} {}: {} | {}", p.line.unwrap_or(0), p.key, p.what, p.hint)
        })
        .collect();
    assert_eq!(seen, expected, "in\n{text}");
}

#[test]
fn unknown_keys_come_with_the_name_that_was_meant() {
    refused("agent:\n  listn: 127.0.0.1:9\n", &["2 agent.listn: unknown key | did you mean `listen`?"]);
    refused("agnet:\n  x: 1\n", &["1 agnet: unknown key | did you mean `agent`?"]);
    refused(
        "coordinator:\n  sweep:\n    coverge: 5s\n",
        &["3 coordinator.sweep.coverge: unknown key | did you mean `coverage`?"],
    );
    refused(
        "coordinator:\n  coverage: 5s\n",
        &["2 coordinator.coverage: unknown key | it belongs under `coordinator.sweep`"],
    );
    refused("listen: 127.0.0.1:9\n", &["1 listen: unknown key | it belongs under `agent` or `coordinator`"]);
    refused("log:\n  colour: red\n", &["2 log.colour: unknown key | known here: `level`, `format`"]);
    refused("log: {level: info,\n  file: x}\n", &["2 log.file: unknown key | known here: `level`, `format`"]);
}

#[test]
fn a_secret_in_the_config_is_refused_and_not_repeated() {
    let text = "coordinator:\n  token: hunter2hunter2hunter2\n  token_file: hunter2hunter2hunter2\n";
    refused(
        text,
        &[
            "2 coordinator.token: unknown key | a secret never stands in the config: put it into a file and name that in \
         `token_file`",
            "3 coordinator.token_file: must be an absolute path | write the whole path, such as /etc/rdmascope/token",
        ],
    );
    assert!(!problems(text).to_string().contains("hunter2"));
}

#[test]
fn duplicate_keys_are_found_at_every_depth() {
    refused(
        "log:\n  level: info\nagent:\nlog:\n  level: warn\n",
        &["4 log: is there twice | keep one of the two"],
    );
    refused(
        "coordinator:\n  sweep:\n    pause: 5s\n    coverage: 60s\n    pause: 6s\n",
        &["5 coordinator.sweep.pause: is there twice | keep one of the two"],
    );
    refused("log: {level: info, \"level\": warn}\n", &["1 log.level: is there twice | keep one of the two"]);
}

#[test]
fn values_of_the_wrong_type_say_what_belongs_there() {
    refused(
        "agent:\n  insecure: yes\n",
        &["2 agent.insecure: must be true or false, not `yes` | write true or false, without quotes"],
    );
    refused(
        "agent:\n  devices: mlx5_0\n",
        &[
            "2 agent.devices: must be a list of RDMA device names, not `mlx5_0` | write [mlx5_0, mlx5_1], or leave the \
         key out for all devices",
        ],
    );
    refused(
        "agent:\n  devices: [mlx5_0,\n   mlx5_0]\n",
        &["2 agent.devices: `mlx5_0` is in the list twice | keep one of the two"],
    );
    refused(
        "agent:\n  node_name: 17\n",
        &["2 agent.node_name: must be a name, not the number 17 | put it in quotes if it is meant as text"],
    );
    refused(
        "agent:\n  transport: ib\n",
        &["2 agent.transport: must be one of verbs, tcp, not `ib` | use one of these words"],
    );
    refused(
        "agent: verbs\n",
        &[
            "1 agent: must be a section | indent its keys below it by two spaces: `coordinator`, `token_file`, `tls_dir`, \
         `node_name`, `devices`, `transport`, `listen`, `state_dir`, `insecure`, `workloads`, `kernel_log`, \
         `log_rules`",
        ],
    );
    refused(
        "log:\n  level:\n",
        &["2 log.level: has no value | write one, or take the line out for the default"],
    );
    refused("log:\n  ? [a, b]\n  : 1\n", &["2 log: a key must be a word | known here: `level`, `format`"]);
}

#[test]
fn numbers_and_rows_of_the_policy_are_checked() {
    refused(
        "policy:\n  netdev_mtus: 1\n  rdma_mtu: big\n  netdev_mtu: -1\n",
        &[
            "2 policy.netdev_mtus: unknown key | did you mean `netdev_mtu`?",
            "3 policy.rdma_mtu: must be a number, not `big` | write a number that is 0 or more",
            "4 policy.netdev_mtu: must be a number, not the number -1 | write a number that is 0 or more",
        ],
    );
    refused(
        "manifest:\n- {mtu: 9000}\n- device: mlx5_0\n  pfc: [8]\n  rols: compute\n",
        &[
            "2 manifest[0]: names no device | write `device: mlx5_0`, or `device: \"*\"` for all",
            "4 manifest[1].pfc: has a value that does not fit | write list of priorities, 0 to 7",
            "5 manifest[1].rols: unknown field | did you mean `role`?",
        ],
    );
    refused("manifest: all\n", &["1 manifest: must be a list | begin each row with `- device: mlx5_*`"]);
}

#[test]
fn addresses_need_both_parts() {
    let missing = "write 127.0.0.1:9000 for this machine only, 0.0.0.0:9000 for all addresses";
    refused(
        "coordinator:\n  listen: 9000\n",
        &[&format!("2 coordinator.listen: the address is missing | {missing}")],
    );
    refused(
        "coordinator:\n  listen: :9000\n",
        &[&format!("2 coordinator.listen: the address is missing | {missing}")],
    );
    refused(
        "coordinator:\n  listen: localhost:80\n",
        &[
            "2 coordinator.listen: must be ADDRESS:PORT, not `localhost:80` | write an IP address and a port, such as \
         127.0.0.1:8080 or \"[::1]:8080\"",
        ],
    );
    refused(
        "agent:\n  listen: 127.0.0.1:0\n",
        &["2 agent.listen: port 0 means any port, which nobody could find | write a port from 1 to 65535"],
    );
    refused(
        "agent:\n  coordinator: http://c:80/\n",
        &[
            "2 agent.coordinator: must be HOST:PORT, not `http://c:80/` | leave out the scheme (http://) and any path",
        ],
    );
    refused(
        "agent:\n  coordinator: c\n",
        &["2 agent.coordinator: must be HOST:PORT, not `c` | the port is missing"],
    );
}

#[test]
fn numbers_and_durations_have_units_and_limits() {
    refused(
        "coordinator:\n  sweep: {coverage: 120}\n",
        &["2 coordinator.sweep.coverage: 120 has no unit | write 120s if seconds are meant"],
    );
    refused(
        "coordinator:\n  sweep: {coverage: fast}\n",
        &[
            "2 coordinator.sweep.coverage: must be a duration, not `fast` | write a whole number and its unit (ms, s, m \
         or h), such as 250ms or 5s",
        ],
    );
    refused(
        "coordinator:\n  sweep: {coverage: 500ms, pause: 2h}\n",
        &[
            "2 coordinator.sweep.coverage: 500ms is out of range | write 1s to 24h",
            "2 coordinator.sweep.pause: 2h is out of range | write 0s to 1h",
        ],
    );
    for number in ["11", "0", "-1", "340282366920938463463374607431768211455"] {
        let seen = problems(&format!("coordinator:\n  mesh:\n    pings_per_second: {number}\n"));
        let problem = seen.list.first().expect("one");
        assert_eq!(
            (problem.line, problem.hint.as_str()),
            (Some(3), "write a whole number from 1 to 10"),
            "{number}"
        );
        assert!(problem.what.ends_with("is out of range"), "{}", problem.what);
    }
    refused(
        "coordinator:\n  metrics:\n    pairs_max: 10.5\n",
        &[
            "3 coordinator.metrics.pairs_max: must be a whole number, not the number 10.5 | write a whole number from 0 \
         to 100000",
        ],
    );
}

#[test]
fn all_problems_come_at_once_in_the_order_of_the_file() {
    refused(
        "log:\n  level: loud\n# a comment\nagent:\n  transport: x\n  lisen: y\ncoordinator:\n  listen: z\n",
        &[
            "2 log.level: must be one of error, warn, info, debug, trace, not `loud` | use one of these words",
            "5 agent.transport: must be one of verbs, tcp, not `x` | use one of these words",
            "6 agent.lisen: unknown key | did you mean `listen`?",
            "8 coordinator.listen: must be ADDRESS:PORT, not `z` | write an IP address and a port, such as 127.0.0.1:8080 \
         or \"[::1]:8080\"",
        ],
    );
}

#[test]
fn a_person_reads_file_line_key_and_hint() {
    assert_eq!(
        problems("agent:\n  listn: x\nlog: {level: loud}\n").to_string(),
        "r.yaml:2: agent.listn: unknown key\n    hint: did you mean `listen`?\n\
         r.yaml:3: log.level: must be one of error, warn, info, debug, trace, not `loud`\n    \
         hint: use one of these words"
    );
}

#[test]
fn what_is_not_yaml_points_at_the_line() {
    refused(
        "agent:\n\tlisten: x\n",
        &[
            "2 : is not valid YAML: found character that cannot start any token | indent with spaces: YAML does not allow \
         tabs",
        ],
    );
    refused(
        "agent:\n  listen: [::1]:8080\n",
        &[
            "2 : is not valid YAML: did not find expected node content | put an IPv6 address in quotes: \"[::1]:8080\"",
        ],
    );
    refused(
        "agent:\n  listen: \"x\n",
        &[
            "3 : is not valid YAML: found unexpected end of stream | check indentation (two spaces each level), colons and \
         quotes around here",
        ],
    );
    refused(
        "listen = 1\n",
        &[
            "1 : is not a config: it has no sections | start with `agent:`, `coordinator:` or `log:` and indent their \
         keys by two spaces",
        ],
    );
    refused(
        "\n- agent\n",
        &[
            "2 : is not a config: it has no sections | start with `agent:`, `coordinator:` or `log:` and indent their \
         keys by two spaces",
        ],
    );
    refused(
        "log:\n  level: !loud info\n",
        &[
            "2 : has a YAML tag (a word that starts with `!`): tags are not used here | write each value out where it is \
         used",
        ],
    );
    refused(
        "log:\n---\nlog:\n",
        &[
            "0 : is more than one YAML document (`---` starts another) | check indentation (two spaces each level), colons and \
         quotes around here",
        ],
    );
}

#[test]
fn nothing_in_the_file_reaches_a_terminal_raw() {
    let text = problems("agent:\n  \"a\\e[2J\": 1\n  node_name: \"b\\e[2J\"\n").to_string();
    assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}"), "{text}");
}

#[test]
fn a_flood_of_problems_is_cut() {
    let text: String = (0..500).map(|n| format!("key{n}: 1\n")).collect();
    let seen = problems(&text);
    assert_eq!((seen.list.len(), seen.more), (50, 450));
    assert!(seen.to_string().ends_with("and 450 more"));
}

#[test]
fn bombs_are_refused_and_bounded() {
    let mut doubling = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        doubling += &format!("a{level}: &a{level} [{inner}]\n");
    }
    let seen = problems(&doubling);
    assert!(seen.list.iter().all(|problem| problem.what.contains("10000 keys and values")), "{seen}");

    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(60_000), ["*a"].repeat(50).join(", "));
    assert!(problems(&long).to_string().contains("repeats its text"));

    for deep in ["[".repeat(100_000), "a: [".repeat(60_000), "{a: ".repeat(60_000)] {
        refused(
            &deep,
            &[
                "0 : leaves more than 1000 brackets open | check indentation (two spaces each level), colons and \
             quotes around here",
            ],
        );
    }
    let blocks: String = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(problems(&blocks).to_string().contains("is nested too deeply"));
}

fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, content).expect("a writable folder");
    path
}

#[track_caller]
fn file_refused(path: &Path, line: Option<usize>, what: &str) {
    let seen = load(path).expect_err("the file was accepted");
    let problem = seen.list.first().expect("one");
    assert_eq!((problem.file.as_path(), problem.line, problem.what.as_str()), (path, line, what));
    assert!(!problem.hint.is_empty());
}

#[test]
fn files_that_are_no_config_are_refused() {
    let binary = file("binary", b"agent:\n\x7fELF\xff\xfe\0");
    file_refused(&binary, Some(2), "is not text in UTF-8");
    let large = file("large", &vec![b'#'; 10 * 1024 * 1024]);
    file_refused(&large, None, "is larger than 256 KiB");
    let nul = file("nul", b"agent:\n  listen: \0\n");
    assert!(load(&nul).expect_err("accepted").to_string().contains("is not valid YAML"));
    file_refused(Path::new(env!("CARGO_TARGET_TMPDIR")), None, "is not a regular file");
    file_refused(Path::new("no/such/file"), None, "cannot be read: No such file or directory (os error 2)");
    for path in [binary, large, nul] {
        std::fs::remove_file(path).expect("removable");
    }
}

#[test]
fn the_largest_file_that_is_read_is_read() {
    let text = format!("log:\n  level: warn\n{}", "#".repeat(256 * 1024 - "log:\n  level: warn\n".len()));
    assert_eq!(text.len(), 256 * 1024);
    let path = file("full", text.as_bytes());
    assert_eq!(load(&path).expect("accepted").log.level.as_str(), "warn");
    std::fs::remove_file(path).expect("removable");
}

#[test]
fn a_service_says_what_is_wrong_with_it() {
    let hint = "write {NAME: {device: mlx5_0, class: 26, peers: [node1, node2]}}";
    let cases = [
        ("{embed: {peers: []}}", format!("there are no peers of service `embed` | {hint}")),
        (
            "{embed: {class: 64, peers: [a]}}",
            "must be the class of service `embed`, not the number 64 | write a DSCP (0 to 63), or a name such as cs3 or af31"
                .to_owned(),
        ),
        (
            "{embed: {class: gold, peers: [a]}}",
            "must be the class of service `embed`, not `gold` | write a DSCP (0 to 63), or a name such as cs3 or af31"
                .to_owned(),
        ),
        (
            "{embed: {devices: [d], peers: [a]}}",
            "unknown key `devices` of service `embed` | known here: `device`, `class`, `peers`".to_owned(),
        ),
        ("{a: {peers: [x]}, a: {peers: [y]}}", "service `a` is there twice | keep one of the two".to_owned()),
        ("[embed]", format!("must be services by their names, not a list | {hint}")),
    ];
    for (text, expected) in cases {
        let expected = format!("2 coordinator.services: {expected}");
        refused(&format!("coordinator:\n  services: {text}\n"), &[&expected]);
    }
}
