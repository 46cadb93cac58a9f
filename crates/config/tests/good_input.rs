//! What a good config yields, the shipped files among them, and that every key is documented.

use rdmascope_checks::limits;
use rdmascope_checks::manifest::PortRole;
use rdmascope_config::{
    Config, Exposed, HostPort, LogFormat, LogLevel, Token, TokenError, TransportKind, examples, load, parse,
    policy_reference, reference,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[track_caller]
fn good(text: &str) -> Config {
    parse(text, Path::new("r.yaml")).unwrap_or_else(|problems| panic!("{problems}\nin\n{text}"))
}

#[test]
fn without_a_file_the_safe_defaults_hold() {
    let config = Config::default();
    assert_eq!(config, good(""));
    assert_eq!(config, good("agent:\ncoordinator:\n  sweep:\nlog:\n"));
    assert_eq!(config.coordinator.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.coordinator.mesh.pings_per_second, 10);
    assert_eq!(config.coordinator.mesh.labels, 16);
    assert_eq!(config.coordinator.sweep.coverage, Duration::from_secs(120));
    assert_eq!(config.coordinator.sweep.pause, Duration::from_secs(10));
    assert_eq!(config.coordinator.metrics.pairs_max, 10_000);
    assert_eq!((&config.coordinator.state_dir, config.coordinator.insecure), (&None, false));
    assert_eq!((&config.coordinator.topology_file, &config.coordinator.maintenance_file), (&None, &None));
    assert_eq!((config.coordinator.streams_per_leaf, config.coordinator.streams_per_node), (4, 2));
    assert!(config.coordinator.rails_routed);
    assert_eq!(config.coordinator.sweep.pairs_at_once, 1_024);
    assert_eq!(config.coordinator.sweep.gigabytes_max, 2_000_000);
    assert_eq!((config.agent.transport, config.agent.insecure), (TransportKind::Verbs, false));
    assert_eq!((config.agent.listen, config.agent.state_dir), (None, PathBuf::from("/run/rdmascope")));
    assert!(config.agent.devices.is_empty());
    assert_eq!((config.log.level, config.log.format), (LogLevel::Info, LogFormat::Text));
}

#[test]
fn every_key_reaches_its_field() {
    let config = good(
        "agent: {coordinator: 'c.example.net:81', token_file: /no/such/a, node_name: n1, devices: [rxe0, rxe1],\n  \
         transport: tcp, listen: '[::1]:82', state_dir: /s, insecure: true,\n  \
         workloads: ['py*'], kernel_log: /k, log_rules: /r}\n\
         coordinator: {listen: 10.0.0.1:83, token_file: /no/such/b, insecure: true, state_dir: /t,\n  \
         topology_file: /l, rails_routed: false, maintenance_file: /m, streams_per_leaf: 64, streams_per_node: 8,\n  \
         mesh: {pings_per_second: 3, labels: 64}, metrics: {pairs_max: 0},\n  \
         sweep: {coverage: 2m, pause: 0s, pairs_at_once: 7, gigabytes_max: 5}}\n\
         log: {level: trace, format: json}\n",
    );
    assert_eq!(config.agent.coordinator, Some(HostPort { host: "c.example.net".to_owned(), port: 81 }));
    assert_eq!(config.agent.token_file, Some("/no/such/a".into()));
    assert_eq!(config.agent.node_name.as_deref(), Some("n1"));
    assert_eq!(config.agent.devices, ["rxe0", "rxe1"]);
    assert_eq!(config.agent.transport, TransportKind::Tcp);
    assert_eq!(config.agent.listen, Some("[::1]:82".parse().unwrap()));
    assert_eq!((config.agent.state_dir, config.agent.insecure), ("/s".into(), true));
    assert_eq!(config.coordinator.listen, "10.0.0.1:83".parse().unwrap());
    assert_eq!(config.coordinator.token_file, Some("/no/such/b".into()));
    assert_eq!((config.coordinator.state_dir, config.coordinator.insecure), (Some("/t".into()), true));
    assert_eq!(
        (config.coordinator.topology_file, config.coordinator.maintenance_file),
        (Some("/l".into()), Some("/m".into()))
    );
    assert_eq!((config.coordinator.streams_per_leaf, config.coordinator.streams_per_node), (64, 8));
    assert!(!config.coordinator.rails_routed);
    assert_eq!((config.coordinator.sweep.pairs_at_once, config.coordinator.sweep.gigabytes_max), (7, 5));
    assert_eq!(config.coordinator.mesh.pings_per_second, 3);
    assert_eq!(config.coordinator.mesh.labels, 64);
    assert_eq!(config.coordinator.sweep.coverage, Duration::from_secs(120));
    assert_eq!(config.coordinator.sweep.pause, Duration::ZERO);
    assert_eq!(config.coordinator.metrics.pairs_max, 0);
    assert_eq!((config.log.level, config.log.format), (LogLevel::Trace, LogFormat::Json));
    assert_eq!(config.agent.workloads, ["py*"]);
    assert_eq!((config.agent.kernel_log, config.agent.log_rules), (Some("/k".into()), Some("/r".into())));
    assert_eq!(
        (config.policy.devices, config.policy.workloads),
        (config.agent.devices, config.agent.workloads)
    );
}

#[test]
fn services_are_read_with_what_they_leave_out() {
    let config = good(
        "coordinator:\n  services:\n    embed: {device: mlx5_0, class: af31, peers: [node1, node2]}\n    store:\n      class: 10\n      peers: [node3]\n",
    );
    let services = &config.coordinator.services;
    assert_eq!(services.keys().collect::<Vec<_>>(), ["embed", "store"]);
    let embed = &services["embed"];
    assert_eq!((embed.device.as_deref(), embed.class, embed.peers.len()), (Some("mlx5_0"), Some(26), 2));
    assert_eq!((&services["store"].device, services["store"].class), (&None, Some(10)));
}

#[test]
fn limits_and_manifest_reach_the_policy() {
    let policy = good(
        "policy: {netdev_mtu: 4220, bit_error_ratio_warn: 1e-7}\n\
         manifest:\n- {device: mlx5_0, port: 2, down: true, pfc: []}\n\
         - {device: 'mlx5_*', role: storage, rail: r1, link_layer: infiniband, rate_gbps: 400, mtu: 9000, rdma_mtu: 4096,\n\
         \u{20}  pfc: [3, 5], dscp: 26, firmware: 28.41.1000, pci_width: 16}\n",
    )
    .policy;
    assert_eq!(policy.limits.get(&limits::NETDEV_MTU), 4220.0);
    assert_eq!(policy.limits.get(&limits::BIT_ERROR_RATIO_WARN), 1e-7);
    let [first, second] = &policy.manifest.rows[..] else { panic!("two rows") };
    assert_eq!((first.port, first.down, first.pfc), (Some(2), Some(true), Some(0)));
    assert_eq!(
        (second.role, second.pfc, second.rate_bps),
        (Some(PortRole::Storage), Some(0b10_1000), Some(400_000_000_000))
    );
    assert_eq!(
        (second.dscp, second.firmware.as_deref(), second.pci_width),
        (Some(26), Some("28.41.1000"), Some(16))
    );
}

#[test]
fn the_policy_reference_holds_the_defaults_and_every_line_of_it_works() {
    let text = policy_reference();
    assert_eq!(good(&text).policy, Config::default().policy);
    let set: String = text
        .lines()
        .map(|line| {
            line.replacen(
                '#',
                "",
                usize::from(
                    is_key(line)
                        || line.trim_start().starts_with("#- ")
                        || line.trim_start().starts_with("#  "),
                ),
            ) + "\n"
        })
        .collect();
    let policy = good(&set).policy;
    for limit in limits::LIMITS {
        assert_eq!(policy.limits.get(limit), limit.default, "{}", limit.name);
    }
    assert_eq!(policy.manifest.rows.len(), 1);
    assert_eq!(policy.manifest.rows[0].firmware.as_deref(), Some("28.41.1000"));
}

#[test]
fn aliases_are_fine_in_small() {
    let config = good("agent: {token_file: &t /no/such/token}\ncoordinator: {token_file: *t}\n");
    assert_eq!(config.agent.token_file, config.coordinator.token_file);
}

#[test]
fn a_port_open_to_others_needs_a_token_or_a_word() {
    let exposed = |text: &str| good(text).coordinator.exposure();
    let open = "coordinator: {listen: 0.0.0.0:8080";
    assert_eq!(
        exposed(&format!("{open}}}")),
        Err(Exposed { key: "coordinator.listen", listen: "0.0.0.0:8080".parse().unwrap() })
    );
    assert_eq!(exposed(&format!("{open}, insecure: true}}")), Ok(()));
    assert_eq!(exposed(&format!("{open}, token_file: /no/such}}")), Ok(()));
    for loopback in ["127.0.0.2:80", "'[::1]:80'", "'[::ffff:127.0.0.1]:80'"] {
        assert_eq!(exposed(&format!("coordinator: {{listen: {loopback}}}")), Ok(()), "{loopback}");
    }
    assert_eq!(good("agent: {listen: 10.0.0.1:9}").agent.exposure().unwrap_err().key, "agent.listen");
    assert_eq!(Config::default().agent.exposure(), Ok(()));
}

/// The reference with every key taken out of its comment.
fn all_keys_set() -> String {
    reference().lines().map(|line| line.replacen('#', "", usize::from(is_key(line))) + "\n").collect()
}

fn is_key(line: &str) -> bool {
    line.trim_start().strip_prefix('#').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
}

#[test]
fn the_reference_is_the_default_config_and_each_of_its_keys_works() {
    assert_eq!(good(&reference()), Config::default());
    let set = good(&all_keys_set());
    let defaults = Config::default();
    assert_eq!(
        (&set.coordinator.sweep, &set.coordinator.mesh),
        (&defaults.coordinator.sweep, &defaults.coordinator.mesh)
    );
    assert_eq!((&set.log, set.agent.transport), (&defaults.log, defaults.agent.transport));
    assert_eq!(set.agent.devices, ["mlx5_0", "mlx5_1"]);
    assert!(reference().lines().all(|line| line.chars().count() <= 100), "a line is too wide");
}

/// The debug form of a struct names each of its fields: each must be a documented key.
#[test]
fn every_field_of_the_settings_is_documented() {
    let debug = format!("{:#?}", good(&all_keys_set()));
    // The policy has a reference of its own.
    let debug = debug.split("\n    policy: ").next().unwrap();
    let text = reference();
    let mut fields = 0;
    // The fields of a host and port, and of a service, stand within one key and are told in its words.
    let inner = ["host:", "port:", "\"embed\":", "device:", "class:", "peers:"];
    let of_a_value = |line: &&str| inner.iter().any(|field| line.trim_start().starts_with(field));
    for line in debug.lines().filter(|line| line.contains(": ") && !of_a_value(line)) {
        let (indent, field) =
            (line.len() - line.trim_start().len(), line.trim().split(':').next().unwrap_or(""));
        // Debug indents by four per level, the reference by two; the outermost level is the file itself.
        let depth = "  ".repeat(indent / 4 - 1);
        let documented = text.lines().any(|line| {
            line.starts_with(&format!("{depth}#{field}:")) || line.trim_end() == format!("{depth}{field}:")
        });
        assert!(documented, "field `{field}` has no row in keys.rs:\n{debug}");
        fields += 1;
    }
    assert_eq!(fields, 33 + 6, "33 keys and 6 sections");
    assert_eq!(text.lines().filter(|line| is_key(line)).count(), 33);
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config").join(name)
}

#[test]
fn what_is_shipped_is_what_the_program_writes() {
    let mut all = examples();
    all.extend([("rdmascope.yaml", reference()), ("policy.yaml", policy_reference())]);
    for (name, written) in &all {
        let path = shipped(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, written).expect("writable");
        }
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("config/{name}: {error}"));
        assert!(text == *written, "config/{name} is out of date: run the test with UPDATE_GOLDEN=1");
    }
    let there = std::fs::read_dir(shipped("")).expect("config/");
    let mut there: Vec<_> = there.map(|entry| entry.expect("entry").file_name()).collect();
    there.sort();
    all.sort();
    assert_eq!(there, all.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "nobody writes the others");
}

#[test]
fn the_shipped_examples_load_and_open_no_port_without_a_token() {
    let mut seen = 0;
    for entry in std::fs::read_dir(shipped("")).expect("config/") {
        let path = entry.expect("entry").path();
        let config = load(&path).unwrap_or_else(|problems| panic!("{problems}"));
        config.agent.exposure().expect("agent");
        config.coordinator.exposure().expect("coordinator");
        assert!(!config.agent.insecure && !config.coordinator.insecure, "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 5);
}

fn token_file(name: &str, mode: u32, content: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, content).expect("writable");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("permissions");
    path
}

#[test]
fn a_token_file_open_to_others_is_refused_by_config_and_reader() {
    for mode in [0o644, 0o604, 0o660, 0o750, 0o642] {
        let path = token_file("open", mode, "0123456789abcdef0123456789abcdef\n");
        let text = format!("coordinator:\n  token_file: {}\n", path.display());
        let problems = parse(&text, Path::new("r.yaml")).expect_err("accepted");
        let problem = problems.list.first().expect("one");
        assert_eq!((problem.line, problem.key.as_str()), (Some(2), "coordinator.token_file"));
        assert!(problem.what.contains(&format!("has mode {mode:04o}")), "{problem}");
        assert!(problem.hint.starts_with("chmod 0640 "), "{problem}");
        assert!(matches!(Token::read(&path), Err(TokenError::Mode { mode: seen, .. }) if seen == mode));
        std::fs::remove_file(path).expect("removable");
    }
    for mode in [0o400, 0o440, 0o600, 0o640] {
        let path = token_file("tight", mode, " 0123456789abcdef0123456789abcdef\n");
        good(&format!("coordinator: {{token_file: {}}}\n", path.display()));
        // Root reads whatever the mode; another user owns the file here and may read it in each of these modes.
        assert_eq!(Token::read(&path).expect("a token").secret(), "0123456789abcdef0123456789abcdef");
        std::fs::remove_file(path).expect("removable");
    }
}

#[test]
fn a_token_is_long_enough_one_line_and_hidden() {
    for bad in [
        "",
        "short",
        "0123456789abcdef 0123456789abcdef",
        "0123456789abcdef\n0123456789abcdef",
        "0123456789abcdé€€€€",
    ] {
        let path = token_file("content", 0o600, bad);
        assert!(matches!(Token::read(&path), Err(TokenError::Content { .. })), "{bad:?}");
        std::fs::remove_file(path).expect("removable");
    }
    let path = token_file("good", 0o600, "0123456789abcdef");
    let token = Token::read(&path).expect("a token");
    std::fs::remove_file(&path).expect("removable");
    assert_eq!(format!("{token:?}"), "Token(hidden)");
    assert!(token.matches(b"0123456789abcdef"));
    for other in ["", "0123456789abcdeX", "X123456789abcdef", "0123456789abcde", "0123456789abcdef0"] {
        assert!(!token.matches(other.as_bytes()), "{other}");
    }
    let error = Token::read(&path).expect_err("it is gone");
    assert!(
        matches!(error, TokenError::Read { .. }) && error.to_string().contains("-good cannot be read"),
        "{error}"
    );
}
