//! With which values the chart is rendered, and which it must refuse.

use serde_json::{Map, Value, json};

/// Values by the name of the case: each profile, each optional part, with and without TLS.
pub(super) fn rendered() -> Map<String, Value> {
    let monitoring = json!({"podMonitor": true, "prometheusRule": true, "labels": {"release": "prometheus"}});
    let selfcheck =
        json!({"nodes": ["gpu01", "gpu02"], "preset": "400g", "kubectlImage": "example.net/kubectl:1"});
    let cases = json!({
        "default": {},
        "device plugin": {"agent": {"profile": "device-plugin"}},
        "host processes": {"agent": {"hostPID": true}},
        "rules alone": {"monitoring": {"prometheusRule": true}},
        "every part": {
            "image": {"repository": "example.net/rdmascope", "tag": "1"},
            "agent": {"profile": "device-plugin", "hostPID": true, "rdmaResource": "rdma/shared_a",
                "nodeSelector": {"example.net/rdma": "true"}},
            "coordinator": {"storage": "10Gi", "storageClass": "fast"},
            "config": {"coordinator": {"streams_per_node": 8}},
            "monitoring": monitoring.clone(), "selfcheck": selfcheck.clone(),
            "nodeProblemDetectorNamespace": "kube-system",
        },
        "certificates": {"tls": true, "monitoring": monitoring, "selfcheck": selfcheck},
    });
    match cases {
        Value::Object(cases) => cases,
        _ => Map::new(),
    }
}

/// Name, values, and what Helm's message must hold.
pub(super) fn refused() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("a misspelt value", json!({"agent": {"hostPid": true}}), "hostPid"),
        ("a profile that does not exist", json!({"agent": {"profile": "rootless"}}), "profile"),
        (
            "a plugin that cannot read what is encrypted",
            json!({"tls": true, "nodeProblemDetectorNamespace": "kube-system"}),
            "plain text",
        ),
        (
            "a self-check without limits",
            json!({"selfcheck": {"nodes": ["a"], "kubectlImage": "k"}}),
            "selfcheck.preset",
        ),
        (
            "a self-check without kubectl",
            json!({"selfcheck": {"nodes": ["a"], "preset": "ndr"}}),
            "selfcheck.kubectlImage",
        ),
        (
            "a node whose name is a flag",
            json!({"selfcheck": {"nodes": ["--all"], "preset": "ndr", "kubectlImage": "k"}}),
            "nodes",
        ),
    ]
}
