//! Fields of Kubernetes in which only certain words stand, which its published schemas let through whatever they hold.

use serde_json::Value;

/// `KEY` or `PARENT.KEY` (of a list: the key of the list), and the words. Only those that somebody has thought of using here.
const WORDS: [(&str, &[&str]); 18] = [
    ("dnsPolicy", &["ClusterFirst", "ClusterFirstWithHostNet", "Default"]),
    ("restartPolicy", &["Always", "Never", "OnFailure"]),
    ("preemptionPolicy", &["Never", "PreemptLowerPriority"]),
    ("imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    ("httpGet.scheme", &["HTTP", "HTTPS"]),
    ("hostPath.type", &["CharDevice", "Directory", "DirectoryOrCreate", "File"]),
    ("updateStrategy.type", &["OnDelete", "RollingUpdate"]),
    ("seccompProfile.type", &["RuntimeDefault"]),
    ("tolerations.operator", &["Equal", "Exists"]),
    ("tolerations.effect", &["NoExecute", "NoSchedule", "PreferNoSchedule"]),
    ("fieldRef.fieldPath", &["spec.nodeName", "status.hostIP"]),
    ("capabilities.drop", &["ALL"]),
    ("capabilities.add", &["IPC_LOCK", "NET_ADMIN", "SYSLOG", "SYS_ADMIN", "SYS_PTRACE"]),
    ("accessModes", &["ReadWriteOnce", "ReadWriteOncePod"]),
    ("ports.protocol", &["TCP"]),
    ("rules.verbs", &["get", "patch"]),
    ("roleRef.kind", &["ClusterRole", "Role"]),
    ("subjects.kind", &["ServiceAccount"]),
];

/// Every word that does not stand in its list.
pub(super) fn complaints(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(object, "", "", &mut found);
    found
}

fn walk(value: &Value, parent: &str, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(inner, value)| walk(value, key, inner, found)),
        // What is in a list of objects has the list's key for its parent.
        Value::Array(list) => list.iter().for_each(|value| walk(value, parent, key, found)),
        Value::String(word) => {
            let both = format!("{parent}.{key}");
            let known = WORDS.iter().find(|(name, _)| *name == key || *name == both);
            if known.is_some_and(|(_, words)| !words.contains(&word.as_str())) {
                found.push(format!("{both}: there is no {word:?}"));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_known_wherever_they_stand() {
        let good = json!({"spec": {
            "dnsPolicy": "Default",
            "tolerations": [{"operator": "Exists"}],
            "volumes": [{"hostPath": {"path": "x", "type": "Directory"}}],
            "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]},
            "other": {"type": "what nobody knows"},
        }});
        assert_eq!(complaints(&good), Vec::<String>::new());
        for (at, said) in [
            ("/spec/dnsPolicy", "spec.dnsPolicy: there is no \"Bogus\""),
            ("/spec/tolerations/0/operator", "tolerations.operator: there is no \"Bogus\""),
            ("/spec/volumes/0/hostPath/type", "hostPath.type: there is no \"Bogus\""),
            ("/spec/capabilities/drop/0", "capabilities.drop: there is no \"Bogus\""),
            ("/spec/capabilities/add/0", "capabilities.add: there is no \"Bogus\""),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(at).unwrap() = "Bogus".into();
            assert_eq!(complaints(&bad), [said]);
        }
    }
}
