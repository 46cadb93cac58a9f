//! Each rule holds for what the chart renders by default, and fails when one thing in it is broken.

use super::*;
use serde::Deserialize;

fn shipped() -> Vec<Value> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes");
    let files = ["agent", "coordinator", "priority-class"].map(|name| folder.join(format!("{name}.yaml")));
    let texts = files.map(|path| {
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    });
    texts
        .iter()
        .flat_map(|text| serde_yaml::Deserializer::from_str(text).map(|one| Value::deserialize(one).unwrap()))
        .collect()
}

fn job() -> Vec<Value> {
    let confined = json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}});
    let limits = json!({"limits": {"memory": "256Mi"}});
    let job = json!({"kind": "Job", "metadata": {"name": "rdmascope-selfcheck"}, "spec": {"backoffLimit": 0, "template": {"spec": {
        "restartPolicy": "Never",
        "automountServiceAccountToken": true,
        "tolerations": [{"key": TAINT, "operator": "Exists"}],
        "securityContext": {"runAsNonRoot": true},
        "initContainers": [{
            "args": ["selfcheck", "--token-file=/etc/rdmascope/token", "--nodes=a,b"],
            "securityContext": confined, "resources": limits,
        }],
        "containers": [{
            "command": ["kubectl"],
            "args": ["taint", "nodes", "a", "b", "rdmascope.io/not-checked:NoSchedule-"],
            "securityContext": confined, "resources": limits,
        }],
    }}}});
    let rules = json!([{"apiGroups": [""], "resources": ["nodes"], "resourceNames": ["a", "b"], "verbs": ["get", "patch"]}]);
    vec![job, json!({"kind": "ClusterRole", "metadata": {"name": "rdmascope-selfcheck"}, "rules": rules})]
}

fn look(values: &Value, objects: &[Value]) -> Vec<String> {
    let alerts = json!({"groups": [{"name": "x"}]});
    complaints(&Case { values, objects, alerts: &alerts })
}

/// Breaks one place of one kind, and looks.
#[track_caller]
fn broken(values: &Value, objects: &[Value], kind: &str, at: &str, to: Value) -> Vec<String> {
    let mut objects = objects.to_vec();
    let object = objects.iter_mut().find(|object| object["kind"] == kind).unwrap();
    let (parent, key) = at.rsplit_once('/').unwrap();
    match object.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent} in {kind}")) {
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = to,
        Value::Object(map) => drop(map.insert(key.to_owned(), to)),
        other => panic!("{other}"),
    }
    look(values, &objects)
}

#[test]
fn what_is_shipped_holds_and_each_break_is_told() {
    let (values, objects) = (json!({}), shipped());
    assert_eq!(look(&values, &objects), Vec::<String>::new());
    let pod = "/spec/template/spec";
    for (kind, at, to, said) in [
        ("DaemonSet", "/containers/0/resources/limits/cpu", json!("1"), "CPU limit"),
        ("DaemonSet", "/containers/0/resources/limits/rdma", json!(1), "takes a device"),
        ("DaemonSet", "/automountServiceAccountToken", json!(true), "token of the API"),
        ("DaemonSet", "/containers/0/volumeMounts/0/name", json!("x"), "mounts"),
        ("DaemonSet", "/containers/0/args/2", json!("--insecure"), "the token, or certificates"),
        (
            "DaemonSet",
            "/containers/0/securityContext/readOnlyRootFilesystem",
            json!(false),
            "write into itself",
        ),
        ("DaemonSet", "/volumes/0/secret/defaultMode", json!(420), "mode 644"),
        ("DaemonSet", "/hostPID", json!(true), "hostPID"),
        ("DaemonSet", "/hostNetwork", json!(false), "the node's network"),
        ("DaemonSet", "/tolerations/0", json!({"key": "x", "operator": "Exists"}), "tainted nodes"),
        ("DaemonSet", "/containers/0/livenessProbe", json!({}), "no probes"),
        ("DaemonSet", "/containers/0/readinessProbe/httpGet/port", json!("x"), "no probes"),
        ("DaemonSet", "/containers/0/securityContext/privileged", json!(false), "device cgroup"),
        ("DaemonSet", "/containers/0/securityContext/capabilities/drop", json!([]), "drops not all"),
        ("DaemonSet", "/volumes/2/hostPath/path", json!("/dev/null"), "a device is missing"),
        ("DaemonSet", "/priorityClassName", json!("system-node-critical"), "priority class"),
        ("DaemonSet", "/dnsPolicy", json!("Bogus"), "there is no \"Bogus\""),
        ("StatefulSet", "/containers/0/resources/limits/memory", json!(null), "no limit on memory"),
        ("StatefulSet", "/securityContext/runAsNonRoot", json!(false), "more rights"),
        ("StatefulSet", "/containers/0/securityContext/capabilities/add", json!(["SYSLOG"]), "more rights"),
        ("StatefulSet", "/containers/0/args/3", json!("--state-dir=/tmp"), "not on its volume"),
        ("StatefulSet", "/containers/0/readinessProbe", json!(null), "no probes"),
        ("StatefulSet", "/tolerations", json!([]), "no node for it"),
    ] {
        let told = broken(&values, &objects, kind, &format!("{pod}{at}"), to);
        assert!(told.iter().any(|complaint| complaint.contains(said)), "{kind} {at}: {told:?}");
    }
    for (kind, at, to, said) in [
        ("StatefulSet", "/spec/replicas", json!(2), "not one"),
        ("StatefulSet", "/spec/volumeClaimTemplates", json!([]), "no volume"),
        ("PriorityClass", "/preemptionPolicy", json!("PreemptLowerPriority"), "never preempts"),
        ("Service", "/metadata/name", json!("x"), "no Service"),
    ] {
        let told = broken(&values, &objects, kind, at, to);
        assert!(told.iter().any(|complaint| complaint.contains(said)), "{kind} {at}: {told:?}");
    }
}

#[test]
fn the_privileged_agent_is_no_device_plugins() {
    let told = look(&json!({"agent": {"profile": "device-plugin", "hostPID": true}}), &shipped());
    for said in [
        "it is privileged",
        "may become",
        "IPC_LOCK, and no more",
        "a device of the host",
        "asks for no device",
        "hostPID",
    ] {
        assert!(told.iter().any(|complaint| complaint.contains(said)), "{said}: {told:?}");
    }
}

#[test]
fn parts_are_there_when_asked_for() {
    let asked = json!({"monitoring": {"podMonitor": true, "prometheusRule": true}, "nodeProblemDetectorNamespace": "x", "tls": true});
    let told = look(&asked, &shipped());
    for said in
        ["rdmascope-agents", "PrometheusRule", "node-problem-detector", "or certificates", "keys of all"]
    {
        assert!(told.iter().any(|complaint| complaint.contains(said)), "{said}: {told:?}");
    }
    let mut objects = shipped();
    objects
        .push(json!({"kind": "PrometheusRule", "metadata": {"name": "rdmascope"}, "spec": {"groups": []}}));
    let told = look(&json!({"monitoring": {"prometheusRule": true}}), &objects);
    assert_eq!(told, ["the PrometheusRule is not dashboards/alerts/rdmascope.yaml"]);
    let told = look(&json!({}), &objects);
    assert!(told.iter().any(|complaint| complaint.contains("only then")), "{told:?}");
}

#[test]
fn only_a_self_check_that_passed_takes_the_taint_away() {
    let values = json!({"selfcheck": {"nodes": ["a", "b"]}});
    let objects = [shipped(), job()].concat();
    assert_eq!(look(&values, &objects), Vec::<String>::new());
    let pod = "/spec/template/spec";
    for (kind, at, to, said) in [
        ("Job", "/spec/backoffLimit".to_owned(), json!(6), "by chance"),
        ("Job", format!("{pod}/restartPolicy"), json!("OnFailure"), "by chance"),
        ("Job", format!("{pod}/initContainers"), json!([]), "init container"),
        ("Job", format!("{pod}/initContainers/0/args/2"), json!("--nodes=a"), "does not test"),
        ("Job", format!("{pod}/initContainers/0/command"), json!(["/bin/true"]), "does not test"),
        ("Job", format!("{pod}/containers/0/args/2"), json!("--all"), "anything but"),
        ("Job", format!("{pod}/containers/0/command"), json!(["sh", "-c"]), "anything but"),
        ("Job", format!("{pod}/tolerations"), json!([]), "no node"),
        ("Job", format!("{pod}/automountServiceAccountToken"), json!(false), "token of the API"),
        ("Job", format!("{pod}/securityContext/runAsNonRoot"), json!(false), "more rights"),
        ("ClusterRole", "/rules/0/verbs".to_owned(), json!(["get", "patch", "delete"]), "may do more"),
        ("ClusterRole", "/rules/0/resourceNames".to_owned(), json!([]), "may do more"),
    ] {
        let told = broken(&values, &objects, kind, &at, to);
        assert!(told.iter().any(|complaint| complaint.contains(said)), "{kind} {at}: {told:?}");
    }
}
