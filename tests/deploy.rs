//! What is shipped to install rdmascope agrees with the program and with itself: flags, ports, names, units.

#[path = "deploy/parts.rs"]
mod parts;

use serde::Deserialize;
use serde_yaml::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Flags of `rdmascope agent`.
const AGENT_FLAGS: [&str; 9] = [
    "--config",
    "--coordinator",
    "--device",
    "--insecure",
    "--listen",
    "--node-name",
    "--state-dir",
    "--token-file",
    "--transport",
];

/// Flags of `rdmascope coordinator`.
const COORDINATOR_FLAGS: [&str; 5] = ["--config", "--insecure", "--listen", "--state-dir", "--token-file"];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn read(name: &str) -> String {
    let path = deploy().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All documents of a manifest.
fn manifest(name: &str) -> Vec<Value> {
    let text = read(name);
    serde_yaml::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).unwrap_or_else(|error| panic!("{name}: {error}")))
        .collect()
}

#[track_caller]
fn of_kind(kind: &str) -> Value {
    let all = ["namespace", "priority-class", "coordinator", "agent"]
        .map(|name| manifest(&format!("kubernetes/{name}.yaml")));
    all.into_iter().flatten().find(|document| document["kind"] == kind).expect(kind)
}

fn container(workload: &Value) -> &Value {
    &workload["spec"]["template"]["spec"]["containers"][0]
}

fn arguments(workload: &Value) -> Vec<String> {
    let arguments = container(workload)["args"].as_sequence().expect("args");
    arguments.iter().map(|argument| argument.as_str().expect("text").to_owned()).collect()
}

#[track_caller]
fn flag(arguments: &[String], name: &str) -> String {
    let value = arguments.iter().find_map(|argument| argument.strip_prefix(&format!("{name}=")));
    value.unwrap_or_else(|| panic!("no {name} in {arguments:?}")).to_owned()
}

/// What a command line names that the program does not know.
fn unknown_flags(words: &[String]) -> Vec<String> {
    let known: &[&str] = match words.first().map(String::as_str) {
        Some("agent") => &AGENT_FLAGS,
        Some("coordinator") => &COORDINATOR_FLAGS,
        other => return vec![format!("{other:?} is not a role")],
    };
    let flags = words.iter().filter(|word| word.starts_with("--")).filter_map(|word| word.split('=').next());
    flags.filter(|flag| !known.contains(flag)).map(str::to_owned).collect()
}

/// The words after the binary in a unit's ExecStart.
fn exec_start(unit: &str) -> Vec<String> {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("ExecStart");
    let words = line.strip_prefix("/usr/bin/rdmascope ").expect("the installed binary");
    words.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn units_and_manifests_use_flags_that_exist() {
    for role in ["agent", "coordinator"] {
        let words = exec_start(&read(&format!("systemd/rdmascope-{role}.service")));
        assert_eq!((words.first().map(String::as_str), unknown_flags(&words)), (Some(role), vec![]));
    }
    for (kind, role) in [("DaemonSet", "agent"), ("StatefulSet", "coordinator")] {
        let words = arguments(&of_kind(kind));
        assert_eq!((words.first().map(String::as_str), unknown_flags(&words)), (Some(role), vec![]));
    }
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(unknown_flags(&words("agent --colour=red --listen=x")), ["--colour"]);
    assert_eq!(unknown_flags(&words("coordinator --node-name x")), ["--node-name"]);
}

#[test]
fn agents_find_the_coordinator_and_both_share_one_token() {
    let (agent, coordinator, service) = (of_kind("DaemonSet"), of_kind("StatefulSet"), of_kind("Service"));
    let port = service["spec"]["ports"][0]["port"].as_u64().expect("port");
    let name = service["metadata"]["name"].as_str().expect("name");
    let namespace = of_kind("Namespace")["metadata"]["name"].as_str().expect("name").to_owned();
    assert_eq!(flag(&arguments(&agent), "--coordinator"), format!("{name}.{namespace}.svc:{port}"));
    assert_eq!(flag(&arguments(&coordinator), "--listen"), format!("0.0.0.0:{port}"));
    assert_eq!(service["spec"]["selector"], coordinator["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(service["spec"]["publishNotReadyAddresses"], true, "else no agent could make it ready");
    for workload in [&agent, &coordinator] {
        assert_eq!(workload["metadata"]["namespace"], namespace.as_str());
        assert_eq!(
            workload["spec"]["selector"]["matchLabels"],
            workload["spec"]["template"]["metadata"]["labels"]
        );
        let volume = &workload["spec"]["template"]["spec"]["volumes"][0];
        assert_eq!(volume["secret"]["secretName"], "rdmascope-token");
        let mode = volume["secret"]["defaultMode"].as_u64().expect("a number");
        assert_eq!(mode & 0o137, 0, "the program refuses a token file of mode {mode:o}");
        let mount = &container(workload)["volumeMounts"][0];
        assert_eq!(
            (&mount["name"], &mount["mountPath"]),
            (&Value::from("credentials"), &Value::from("/etc/rdmascope"))
        );
        assert_eq!(flag(&arguments(workload), "--token-file"), "/etc/rdmascope/token");
        assert!(
            container(workload)["resources"]["limits"]["cpu"].is_null(),
            "a CPU limit spoils what is measured"
        );
        let listens: std::net::SocketAddr =
            flag(&arguments(workload), "--listen").parse().expect("ADDRESS:PORT");
        assert_eq!(container(workload)["ports"][0]["containerPort"], u64::from(listens.port()));
        assert_eq!(
            container(workload)["livenessProbe"]["httpGet"]["port"],
            container(workload)["ports"][0]["name"]
        );
    }
    assert!(read("README.md").contains("secret generic rdmascope-token --from-literal=token="));
}

#[test]
fn the_agent_sees_the_hosts_network_kernel_log_and_sysfs() {
    let agent = of_kind("DaemonSet");
    let pod = &agent["spec"]["template"]["spec"];
    assert_eq!(pod["hostNetwork"], true);
    assert!(pod["hostPID"].is_null(), "the host's processes only for who asks for them");
    assert_eq!(pod["dnsPolicy"], "ClusterFirstWithHostNet");
    let paths: Vec<&str> = pod["volumes"]
        .as_sequence()
        .expect("volumes")
        .iter()
        .filter_map(|v| v["hostPath"]["path"].as_str())
        .collect();
    let kubelet = "/var/lib/kubelet/device-plugins";
    assert_eq!(paths, ["/dev/infiniband", "/dev/kmsg", "/sys", kubelet, "/run/rdmascope"]);
    let added = container(&agent)["securityContext"]["capabilities"]["add"].as_sequence().expect("add");
    let added: Vec<&str> = added.iter().filter_map(Value::as_str).collect();
    assert_eq!(added, ["IPC_LOCK", "NET_ADMIN", "SYSLOG", "SYS_PTRACE", "SYS_ADMIN"]);
    let readme = read("README.md");
    for capability in added {
        assert!(readme.contains(&format!("`{capability}`")), "what {capability} is for is not said");
    }
    let mounts = container(&agent)["volumeMounts"].as_sequence().expect("mounts");
    for path in ["/sys", "/dev/kmsg", kubelet] {
        let mount = mounts.iter().find(|mount| mount["mountPath"] == path).expect(path);
        assert_eq!(mount["readOnly"], true, "{path}: the agent changes nothing on the machine");
    }
    assert_eq!(flag(&arguments(&agent), "--state-dir"), "/run/rdmascope");
}

#[test]
fn there_is_one_coordinator() {
    assert_eq!(of_kind("StatefulSet")["spec"]["replicas"], 1);
}

#[test]
fn the_kustomization_names_every_manifest() {
    let all = manifest("kubernetes/kustomization.yaml");
    let listed = all[0]["resources"].as_sequence().expect("resources");
    for entry in std::fs::read_dir(deploy().join("kubernetes")).expect("kubernetes/") {
        let name = entry.expect("entry").file_name().to_string_lossy().into_owned();
        if name.ends_with(".yaml") && name != "kustomization.yaml" {
            assert!(listed.contains(&Value::from(name.as_str())), "{name} is not in kustomization.yaml");
        }
    }
    let image = &all[0]["images"][0];
    assert_eq!(image["newTag"], env!("CARGO_PKG_VERSION"));
    for kind in ["DaemonSet", "StatefulSet"] {
        let of_chart = format!("{}:{}", image["name"].as_str().expect("name"), env!("CARGO_PKG_VERSION"));
        assert_eq!(container(&of_kind(kind))["image"], of_chart.as_str());
    }
    let chart = &manifest("helm/rdmascope/Chart.yaml")[0];
    for key in ["version", "appVersion"] {
        assert_eq!(chart[key], env!("CARGO_PKG_VERSION"), "{key} of the chart");
    }
}

#[test]
fn the_agents_unit_leaves_devices_kernel_log_processes_and_cpu_open() {
    let unit = read("systemd/rdmascope-agent.service");
    let set = |key: &str| unit.lines().any(|line| line.starts_with(&format!("{key}=")));
    for key in [
        "PrivateDevices",
        "CPUQuota",
        "PrivateNetwork",
        "NetworkNamespacePath",
        "ProtectKernelLogs",
        "ProtectProc",
        "ProcSubset",
        "PrivateUsers",
    ] {
        assert!(!set(key), "{key}= would keep the agent from what it reads or spoil its numbers");
    }
    let value =
        |key: &str| unit.lines().find_map(|line| line.strip_prefix(&format!("{key}="))).map(str::to_owned);
    assert_eq!(value("AmbientCapabilities"), value("CapabilityBoundingSet"));
    assert_eq!(value("AmbientCapabilities").as_deref(), Some("CAP_NET_ADMIN CAP_SYSLOG CAP_SYS_PTRACE"));
    for line in [
        "LimitMEMLOCK=infinity",
        "Restart=always",
        "RestartPreventExitStatus=64 78",
        "StartLimitIntervalSec=0",
        // The devices that it opens: the list of a unit closes all others.
        "DeviceAllow=char-231 rw",
        "DeviceAllow=char-10 rw",
        "DeviceAllow=char-infiniband_verbs rw",
        "DeviceAllow=/dev/kmsg r",
    ] {
        assert!(unit.lines().any(|have| have == line), "{line} is missing");
    }
    assert!(unit.contains("RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\n"));
}

#[test]
fn the_units_are_watched_reloaded_and_never_held_back() {
    for role in ["agent", "coordinator"] {
        let unit = read(&format!("systemd/rdmascope-{role}.service"));
        let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(&format!("{key}=")));
        assert_eq!(value("Type"), Some("notify"), "{role}: started when it does its work");
        assert_eq!(value("ExecReload"), Some("/bin/kill -HUP $MAINPID"), "{role}");
        let limit: u32 = value("WatchdogSec").expect("WatchdogSec").parse().expect("seconds");
        assert!((15..=60).contains(&limit), "{role}: three signs of life fit, and a minute is enough");
        assert_eq!(value("CPUQuota"), None, "{role}");
    }
}

/// From a thread or task of its own a sign of life would go on while the loop hangs.
#[test]
fn signs_of_life_come_from_the_two_main_loops_alone() {
    fn visit(folder: &Path, found: &mut Vec<String>) {
        for path in std::fs::read_dir(folder).expect("sources").map(|entry| entry.expect("entry").path()) {
            if path.is_dir() {
                visit(&path, found);
            } else if std::fs::read_to_string(&path).is_ok_and(|text| text.contains("heartbeat.beat(")) {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    let mut found = Vec::new();
    visit(&deploy().join("../crates"), &mut found);
    found.sort();
    let ends: Vec<_> = found.iter().filter_map(|path| path.split("crates/").last()).collect();
    assert_eq!(ends, ["agent/src/main_loop.rs", "coordinator/src/hub.rs"]);
}

/// Runs `systemd-analyze` with these words on a unit; its exit status was good or not, and what it said.
fn systemd_analyze(words: &[&str], name: &str, unit: &str) -> (bool, String) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", words[0]));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join(name);
    std::fs::write(&file, unit).expect("writable");
    let output = Command::new("systemd-analyze")
        .args(words)
        .arg(&file)
        .output()
        .expect("systemd-analyze runs (package systemd; `cargo xtask install` brings it)");
    std::fs::remove_dir_all(folder).expect("removable");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).trim().to_owned())
}

/// It exits 0 on an unknown key and only prints a line: any output counts.
#[test]
fn systemd_accepts_the_units() {
    for role in ["agent", "coordinator"] {
        let name = format!("rdmascope-{role}.service");
        // The program need not be installed here.
        let unit = read(&format!("systemd/{name}")).replace("/usr/bin/rdmascope", "/bin/true");
        let verify = |unit: &str| systemd_analyze(&["verify", "--man=no"], &name, unit);
        assert_eq!(verify(&unit), (true, String::new()), "{name}");
        let (_, said) = verify(&unit.replace("WatchdogSec=", "WatchdogSecs="));
        assert!(said.contains("WatchdogSecs"), "a key that does not exist is not seen: {said}");
    }
}

/// Exposure in tenths: 2.5 for the agent, which must see the machine, 1.5 for the coordinator.
#[test]
fn the_units_expose_no_more_than_was_agreed() {
    for (role, limit) in [("agent", 25), ("coordinator", 15)] {
        let name = format!("rdmascope-{role}.service");
        let unit = read(&format!("systemd/{name}"));
        let exposure = |unit: &str| {
            let threshold = format!("--threshold={limit}");
            systemd_analyze(&["security", "--offline=true", "--no-pager", &threshold], &name, unit)
        };
        let (good, said) = exposure(&unit);
        assert!(good && said.contains("Overall exposure level"), "{name}: more than {limit} tenths:\n{said}");
        let (good, _) = exposure(&unit.replace("ProtectSystem=", "#").replace("SystemCallFilter=", "#"));
        assert!(!good, "{name}: without two of its walls it still passes, so the limit holds nothing");
    }
}

#[test]
fn the_port_of_the_agent_is_the_same_everywhere() {
    let port = format!(":{}", rdmascope_config::AGENT_PORT);
    assert!(flag(&arguments(&of_kind("DaemonSet")), "--listen").ends_with(&port));
    for name in
        ["README.md", "../config/small.yaml", "../config/thousand-nodes.yaml", "../config/rdmascope.yaml"]
    {
        assert!(read(name).contains(&port), "{name} does not say {port}");
    }
}

/// The page for Slurm says for which lines of the kernel a node is drained, for which it is not, and why: as the rules do.
#[test]
fn the_page_for_slurm_has_the_lines_of_the_kernel_that_drain_a_node() {
    let page = read("slurm/README.md");
    let table = |head: &str| -> Vec<String> {
        let (_, below) = page.split_once(head).unwrap_or_else(|| panic!("no table {head}"));
        let rows = below.lines().skip(2).take_while(|line| line.starts_with('|'));
        rows.map(str::to_owned).collect()
    };
    let rules = rdmascope_checks::log::Rules::builtin();
    let rows = |why: fn(&rdmascope_checks::log::Rule) -> &Option<String>| -> Vec<String> {
        let said = rules.docs().iter().filter_map(|rule| Some((&rule.id, why(rule).as_ref()?)));
        let mut rows: Vec<_> = said.map(|(id, why)| format!("| `{id}` | {why} |")).collect();
        rows.sort();
        rows
    };
    assert_eq!(table("| the node is drained for | because |"), rows(|rule| &rule.drain));
    assert_eq!(table("| not drained for | because |"), rows(|rule| &rule.spare));
    for check in rdmascope_checks::ALL.iter().filter(|check| check.hard) {
        assert!(
            page.contains(&format!("(`{}`", check.id)) || page.contains(&format!("`{}`)", check.id)),
            "{}",
            check.id
        );
    }
}
