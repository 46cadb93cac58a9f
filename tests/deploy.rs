//! What is shipped to install rdmascope agrees with the program and with itself: flags, ports, names, units.

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
    let all = ["namespace", "coordinator", "agent"].map(|name| manifest(&format!("kubernetes/{name}.yaml")));
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
    let words = line.strip_prefix("/usr/local/bin/rdmascope ").expect("the installed binary");
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
            (&Value::from("token"), &Value::from("/etc/rdmascope"))
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
fn the_agent_sees_the_hosts_network_processes_kernel_log_and_sysfs() {
    let agent = of_kind("DaemonSet");
    let pod = &agent["spec"]["template"]["spec"];
    assert_eq!(pod["hostNetwork"], true);
    assert_eq!(pod["hostPID"], true, "else the jobs' processes are hidden");
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
    assert_eq!(all[0]["images"][0]["name"], container(&of_kind("DaemonSet"))["image"]);
    assert_eq!(all[0]["images"][0]["newTag"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_agents_unit_leaves_devices_kernel_log_processes_and_cpu_open() {
    let unit = read("systemd/rdmascope-agent.service");
    let set = |key: &str| unit.lines().any(|line| line.starts_with(&format!("{key}=")));
    for key in [
        "PrivateDevices",
        "DevicePolicy",
        "DeviceAllow",
        "ProtectClock",
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
    ] {
        assert!(unit.lines().any(|have| have == line), "{line} is missing");
    }
    assert!(unit.contains("RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\n"));
}

/// `systemd-analyze verify` exits 0 on an unknown key and only prints a line: any output counts.
#[test]
fn systemd_accepts_the_units() {
    for role in ["agent", "coordinator"] {
        let name = format!("rdmascope-{role}.service");
        let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&name);
        let unit = read(&format!("systemd/{name}")).replace("/usr/local/bin/rdmascope", "/bin/true");
        std::fs::write(&copy, unit).expect("writable");
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&copy)
            .output()
            .expect("systemd-analyze runs (package systemd)");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.trim().is_empty(), "{name}: {said}");
        std::fs::remove_file(copy).expect("removable");
    }
}

#[test]
fn the_port_of_the_agent_is_the_same_everywhere() {
    let port = format!(":{}", rdmascope_config::AGENT_PORT);
    assert!(flag(&arguments(&of_kind("DaemonSet")), "--listen").ends_with(&port));
    for name in ["README.md", "../config/small.yaml", "../config/production.yaml", "../config/rdmascope.yaml"]
    {
        assert!(read(name).contains(&port), "{name} does not say {port}");
    }
}
