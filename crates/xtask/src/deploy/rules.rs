//! What must hold for whatever the chart renders: privileges, the one coordinator, and who may take a taint away.

use super::words;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const TAINT: &str = "rdmascope.io/not-checked";

/// One rendering of the chart.
pub(super) struct Case<'a> {
    /// What was asked for.
    pub(super) values: &'a Value,
    /// What came of it.
    pub(super) objects: &'a [Value],
    /// `dashboards/alerts/rdmascope.yaml`.
    pub(super) alerts: &'a Value,
}

impl<'a> Case<'a> {
    fn find(&self, kind: &str, name: &str) -> Option<&'a Value> {
        self.objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    }

    fn asks(&self, pointer: &str, value: impl Into<Value>) -> bool {
        self.values.pointer(pointer) == Some(&value.into())
    }

    /// Pods by the names of what starts them.
    fn pods(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.objects.iter().filter_map(|object| {
            Some((object["metadata"]["name"].as_str()?, object.pointer("/spec/template/spec")?))
        })
    }
}

/// Complaints, one for each fact that does not hold.
struct Held(Vec<String>);

impl Held {
    fn must(&mut self, holds: bool, otherwise: &str) {
        if !holds {
            self.0.push(otherwise.to_owned());
        }
    }
}

/// All that does not hold.
pub(super) fn complaints(case: &Case<'_>) -> Vec<String> {
    let mut held = Held(case.objects.iter().flat_map(words::complaints).collect());
    for (name, pod) in case.pods() {
        every_pod(case, name, pod, &mut held);
    }
    match case.find("DaemonSet", "rdmascope-agent") {
        Some(agent) => self::agent(case, &agent["spec"]["template"]["spec"], &mut held),
        None => held.must(false, "there is no agent"),
    }
    match case.find("StatefulSet", "rdmascope-coordinator") {
        Some(coordinator) => self::coordinator(&coordinator["spec"], &mut held),
        None => held.must(false, "there is no coordinator"),
    }
    parts(case, &mut held);
    selfcheck(case, &mut held);
    held.0
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list(&pod["initContainers"]).iter().chain(list(&pod["containers"]))
}

fn every_pod(case: &Case<'_>, name: &str, pod: &Value, held: &mut Held) {
    let needs_api = name == "rdmascope-selfcheck";
    held.must(
        pod["automountServiceAccountToken"] == needs_api,
        &format!("{name}: a token of the API for those who need it, and for nobody else"),
    );
    let claims = case.find("StatefulSet", name).map(|set| list(&set["spec"]["volumeClaimTemplates"]));
    let claims = claims.into_iter().flatten().filter_map(|claim| claim["metadata"]["name"].as_str());
    let volumes: BTreeSet<&str> =
        list(&pod["volumes"]).iter().filter_map(|volume| volume["name"].as_str()).chain(claims).collect();
    let mut mounted = BTreeSet::new();
    for container in containers(pod) {
        let limits = &container["resources"]["limits"];
        held.must(limits["cpu"].is_null(), &format!("{name}: a CPU limit spoils what is measured"));
        held.must(limits["memory"].is_string(), &format!("{name}: no limit on memory"));
        held.must(
            container["securityContext"]["readOnlyRootFilesystem"] == true,
            &format!("{name}: a container that may write into itself"),
        );
        mounted.extend(list(&container["volumeMounts"]).iter().filter_map(|mount| mount["name"].as_str()));
        let args: Vec<&str> = list(&container["args"]).iter().filter_map(Value::as_str).collect();
        let (token, tls) =
            (args.contains(&"--token-file=/etc/rdmascope/token"), args.contains(&"--tls=/etc/rdmascope/tls"));
        let is_ours = !container["command"].is_array();
        held.must(
            !is_ours || (token, tls) == (!case.asks("/tls", true), case.asks("/tls", true)),
            &format!("{name}: the token, or certificates where they are asked for"),
        );
    }
    held.must(mounted == volumes, &format!("{name}: mounts {mounted:?}, and volumes {volumes:?}"));
    for volume in list(&pod["volumes"]).iter().filter(|volume| volume["secret"].is_object()) {
        let mode = volume["secret"]["defaultMode"].as_u64().unwrap_or(0o777);
        held.must(mode & 0o137 == 0, &format!("{name}: the program refuses a secret of mode {mode:o}"));
    }
}

fn is_served(container: &Value, readiness: &str) -> bool {
    let port = &container["ports"][0]["name"];
    let probe = |kind: &str, path: &str| {
        let get = &container[kind]["httpGet"];
        get["path"] == path && get["port"] == *port
    };
    port.is_string() && probe("livenessProbe", "/healthz") && probe("readinessProbe", readiness)
}

fn agent(case: &Case<'_>, pod: &Value, held: &mut Held) {
    let container = &pod["containers"][0];
    let (security, plugin) = (&container["securityContext"], case.asks("/agent/profile", "device-plugin"));
    let paths: Vec<&str> =
        list(&pod["volumes"]).iter().filter_map(|volume| volume["hostPath"]["path"].as_str()).collect();
    let host_pid = if case.asks("/agent/hostPID", true) { json!(true) } else { Value::Null };
    held.must(pod["hostPID"] == host_pid, "agent: hostPID when it is asked for, and only then");
    held.must(pod["hostNetwork"] == true, "agent: its ports are those of the node's network");
    held.must(
        pod["tolerations"] == json!([{"operator": "Exists"}]),
        "agent: it stays away from tainted nodes",
    );
    held.must(is_served(container, "/healthz"), "agent: no probes, or of another port");
    held.must(security["runAsUser"] == 0, "agent: without root its capabilities are not given to it");
    held.must(security["capabilities"]["drop"] == json!(["ALL"]), "agent: it drops not all capabilities");
    held.must(
        !case.asks("/tls", true) || list(&pod["volumes"]).iter().all(|volume| volume["secret"].is_null()),
        "certificates: every node has the keys of all",
    );
    let devices = ["/dev/infiniband", "/dev/kmsg"];
    let resource = case.values.pointer("/agent/rdmaResource").and_then(Value::as_str).unwrap_or("rdma/hca");
    if plugin {
        held.must(security["privileged"].is_null(), "device plugin: it is privileged");
        held.must(security["allowPrivilegeEscalation"] == false, "device plugin: it may become privileged");
        held.must(
            security["capabilities"]["add"] == json!(["IPC_LOCK"]),
            "device plugin: IPC_LOCK, and no more",
        );
        held.must(!paths.iter().any(|path| devices.contains(path)), "device plugin: a device of the host");
        held.must(container["resources"]["limits"][resource] == 1, "device plugin: it asks for no device");
    } else {
        held.must(security["privileged"] == true, "privileged: the device cgroup refuses its devices");
        held.must(devices.iter().all(|path| paths.contains(path)), "privileged: a device is missing");
        held.must(
            container["resources"]["limits"].as_object().is_some_and(|limits| limits.len() == 1),
            "privileged: it takes a device of the plugin",
        );
    }
}

fn coordinator(set: &Value, held: &mut Held) {
    let pod = &set["template"]["spec"];
    let (container, claim) = (&pod["containers"][0], &set["volumeClaimTemplates"][0]);
    held.must(set["replicas"] == 1, "coordinator: not one");
    held.must(claim["spec"]["resources"]["requests"]["storage"].is_string(), "coordinator: no volume");
    let state =
        list(&container["volumeMounts"]).iter().find(|mount| mount["name"] == claim["metadata"]["name"]);
    held.must(
        state.is_some_and(|mount| {
            list(&container["args"]).iter().any(|argument| {
                argument.as_str()
                    == mount["mountPath"].as_str().map(|path| format!("--state-dir={path}")).as_deref()
            })
        }),
        "coordinator: its state is not on its volume",
    );
    unprivileged("coordinator", pod, held);
    held.must(is_served(container, "/readyz"), "coordinator: no probes, or of another port");
    held.must(tolerates_taint(pod), "coordinator: a new cluster has no node for it");
}

fn unprivileged(name: &str, pod: &Value, held: &mut Held) {
    held.must(
        pod["securityContext"]["runAsNonRoot"] == true
            && containers(pod).all(|container| {
                let security = &container["securityContext"];
                security["capabilities"] == json!({"drop": ["ALL"]})
                    && security["allowPrivilegeEscalation"] == false
            }),
        &format!("{name}: more rights than none"),
    );
}

fn tolerates_taint(pod: &Value) -> bool {
    list(&pod["tolerations"]) == [json!({"key": TAINT, "operator": "Exists"})]
}

/// Priority class, service, monitoring, node-problem-detector: what was asked for is there, and nothing else.
fn parts(case: &Case<'_>, held: &mut Held) {
    let class = case.find("PriorityClass", "rdmascope");
    held.must(
        class.is_some_and(|class| class["preemptionPolicy"] == "Never" && class["globalDefault"] == false),
        "no priority class that never preempts",
    );
    for (name, pod) in case.pods().filter(|(name, _)| *name != "rdmascope-selfcheck") {
        held.must(pod["priorityClassName"] == "rdmascope", &format!("{name}: not of our priority class"));
    }
    held.must(case.find("Service", "rdmascope-coordinator").is_some(), "no Service");
    for (kind, name, asked) in [
        ("PodMonitor", "rdmascope-agents", case.asks("/monitoring/podMonitor", true)),
        ("PodMonitor", "rdmascope-coordinator", case.asks("/monitoring/podMonitor", true)),
        ("PrometheusRule", "rdmascope", case.asks("/monitoring/prometheusRule", true)),
        ("ConfigMap", "rdmascope-config", case.values["config"].is_object()),
        (
            "ConfigMap",
            "rdmascope-node-problem-detector",
            case.values["nodeProblemDetectorNamespace"].is_string(),
        ),
        ("Job", "rdmascope-selfcheck", case.values["selfcheck"].is_object()),
    ] {
        held.must(
            case.find(kind, name).is_some() == asked,
            &format!("{kind} {name}: there when asked for, and only then"),
        );
    }
    if let Some(rule) = case.find("PrometheusRule", "rdmascope") {
        held.must(
            rule["spec"] == *case.alerts && !list(&case.alerts["groups"]).is_empty(),
            "the PrometheusRule is not dashboards/alerts/rdmascope.yaml",
        );
    }
    let jobs: Vec<&Value> = case
        .objects
        .iter()
        .filter(|object| object["kind"] == "PodMonitor")
        .flat_map(|monitor| {
            list(&monitor["spec"]["podMetricsEndpoints"])
                .iter()
                .map(|endpoint| &endpoint["relabelings"][0]["replacement"])
        })
        .collect();
    held.must(
        jobs.is_empty() || jobs == ["rdmascope-agents", "rdmascope-coordinator", "rdmascope-pairs"],
        "names of jobs by which no alert and no dashboard finds them",
    );
}

/// Nothing but a self-check that ended with 0 takes the taint away, and only of the nodes that it tested.
fn selfcheck(case: &Case<'_>, held: &mut Held) {
    let Some(job) = case.find("Job", "rdmascope-selfcheck") else { return };
    let (nodes, pod) = (list(&case.values["selfcheck"]["nodes"]), &job["spec"]["template"]["spec"]);
    let names: Vec<&str> = nodes.iter().filter_map(Value::as_str).collect();
    unprivileged("self-check", pod, held);
    held.must(tolerates_taint(pod), "self-check: it finds no node");
    held.must(
        job["spec"]["backoffLimit"] == 0 && pod["restartPolicy"] == "Never",
        "self-check: one that failed is tried again until it passes by chance",
    );
    let [tests] = list(&pod["initContainers"]) else {
        return held.must(false, "self-check: not one init container, which everything after it waits for");
    };
    let args = list(&tests["args"]);
    held.must(
        tests["command"].is_null()
            && args.first() == Some(&json!("selfcheck"))
            && args.contains(&json!(format!("--nodes={}", names.join(",")))),
        "self-check: the init container does not test these nodes",
    );
    let untaint: Vec<String> = ["taint", "nodes"]
        .iter()
        .chain(&names)
        .map(|word| (*word).to_owned())
        .chain([format!("{TAINT}:NoSchedule-")])
        .collect();
    held.must(
        list(&pod["containers"]).len() == 1
            && pod["containers"][0]["command"] == json!(["kubectl"])
            && pod["containers"][0]["args"] == json!(untaint),
        "self-check: what comes after it takes away anything but the taint of these nodes",
    );
    let rules = json!([{"apiGroups": [""], "resources": ["nodes"], "resourceNames": nodes, "verbs": ["get", "patch"]}]);
    let roles: Vec<&Value> = case
        .objects
        .iter()
        .filter(|object| object["kind"].as_str().is_some_and(|kind| kind.ends_with("Role")))
        .collect();
    held.must(
        matches!(roles.as_slice(), [role] if role["rules"] == rules),
        "self-check: it may do more than read and change these nodes",
    );
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
