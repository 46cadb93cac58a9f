//! Which pod the kubelet gave which RDMA device, from its checkpoint file.
//!
//! The kubelet's pod-resources API says the same over gRPC, for which this program has no client; the file is what the kubelet itself
//! reads after its restart (`pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go` of Kubernetes: the same form since 1.20).

use super::cgroup;
use crate::tree::Tree;
use rdmascope_model::Reading;
use serde_json::Value;
use std::collections::BTreeSet;

/// Folder of the kubelet's device manager.
const FOLDER: &str = "var/lib/kubelet/device-plugins";

/// The file in it.
const CHECKPOINT: &str = "kubelet_internal_checkpoint";

/// Most that is read of it: a node with 250 pods and 1,000 shared devices has some 100 KiB.
const CHECKPOINT_BYTES_MAX: usize = 4 << 20;

/// Most that is read of the list of our own mounts.
const MOUNTS_BYTES_MAX: usize = 256 * 1024;

/// How the nodes of RDMA devices begin in what a device plugin hands out.
const NODE: &[u8] = b"/dev/infiniband/uverbs";

/// Parts of the names of resources whose plugin does not name the device's node (it hands out CDI names).
const RDMA_NAMES: [&str; 5] = ["rdma", "hca", "roce", "infiniband", "mlnx"];

/// What one container of a pod was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// Uid of the pod.
    pub(super) pod: String,
    /// Name of its container.
    pub(super) container: String,
    /// Name of the resource, such as `rdma/hca_shared_devices_a`.
    pub(super) resource: String,
    /// Nodes of the devices (`uverbs0`); empty: an RDMA device, and it is not known which.
    pub(super) nodes: BTreeSet<String>,
}

/// What pods that are on this machine were given, our own left out; empty where there is no kubelet.
pub(super) fn given(tree: &Tree) -> Reading<Vec<Given>> {
    let text = match tree.list(FOLDER) {
        Reading::Value(names) if names.iter().any(|name| name == CHECKPOINT) => {
            tree.beginning(&format!("{FOLDER}/{CHECKPOINT}"), CHECKPOINT_BYTES_MAX)
        }
        // A kubelet that never handed out a device has no such file.
        Reading::Value(_) => Reading::Absent,
        Reading::Absent if cgroup::has_pods(tree) => Reading::Failed(format!(
            "there are pods here, and /{FOLDER} is not: mount it into the agent's container, read-only"
        )),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    };
    let all = match text {
        Reading::Value(text) => match parsed(&text) {
            Ok(all) => all,
            Err(why) => return Reading::Failed(format!("reading {FOLDER}/{CHECKPOINT}: {why}")),
        },
        Reading::Absent => return Reading::Value(Vec::new()),
        Reading::Failed(why) => return Reading::Failed(why),
    };
    let own = own_pod(tree);
    let counts = |given: &Given| Some(&given.pod) != own.as_ref() && cgroup::pod_is_there(tree, &given.pod);
    Reading::Value(all.into_iter().filter(counts).collect())
}

/// Uid of the pod that we run in. A container does not see its own control group's path, but the kubelet mounts a file of the pod's
/// folder (`.../pods/UID/etc-hosts`, `.../pods/UID/containers/...`) into each.
fn own_pod(tree: &Tree) -> Option<String> {
    let mounts = tree.beginning("proc/self/mountinfo", MOUNTS_BYTES_MAX);
    let line = |line: &str| {
        let (_, rest) = line.split(' ').nth(3)?.split_once("/pods/")?;
        rest.split('/').next().filter(|uid| uid.len() == 36).map(str::to_owned)
    };
    mounts.value()?.lines().find_map(line)
}

/// The RDMA devices in a checkpoint.
fn parsed(text: &str) -> Result<Vec<Given>, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let data = file.get("Data").ok_or("there is no field `Data`")?;
    let entries = match data.get("PodDeviceEntries") {
        Some(Value::Array(entries)) => entries.as_slice(),
        Some(Value::Null) => &[],
        _ => return Err("there is no list `PodDeviceEntries`".to_owned()),
    };
    let mut all = Vec::new();
    for entry in entries {
        let text = |field: &str| {
            let text = entry.get(field).and_then(Value::as_str);
            text.map(str::to_owned).ok_or_else(|| format!("an entry has no text `{field}`"))
        };
        let resource = text("ResourceName")?;
        let answer = entry.get("AllocResp").and_then(Value::as_str).unwrap_or_default();
        let nodes = nodes(&base64(answer).ok_or("an entry's `AllocResp` is not base64")?);
        let is_named_so = RDMA_NAMES.iter().any(|part| resource.to_ascii_lowercase().contains(part));
        if !nodes.is_empty() || is_named_so {
            all.push(Given { pod: text("PodUID")?, container: text("ContainerName")?, resource, nodes });
        }
    }
    Ok(all)
}

/// The nodes that a device plugin's answer (`ContainerAllocateResponse`, protobuf) names: their paths stand in it as they are.
fn nodes(answer: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for at in 0..answer.len() {
        let Some(rest) = answer[at..].strip_prefix(NODE) else { continue };
        let digits: String =
            rest.iter().take_while(|byte| byte.is_ascii_digit()).map(|byte| char::from(*byte)).collect();
        if !digits.is_empty() {
            found.insert(format!("uverbs{digits}"));
        }
    }
    found
}

/// Base64 with its standard letters (RFC 4648, section 4), as Go writes bytes into JSON.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xFF) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;

    const UID: &str = "0b6c9e0a-4f61-4c8e-9d3c-6a1f3f5b7e21";

    /// An answer with two device nodes: field 3 (`devices`) of ContainerAllocateResponse, each a DeviceSpec of container path, host path
    /// and permissions; /dev/infiniband/uverbs1 and /dev/infiniband/rdma_cm.
    const TWO_NODES: &str = "GjYKFy9kZXYvaW5maW5pYmFuZC91dmVyYnMxEhcvZGV2L2luZmluaWJhbmQvdXZlcmJzMRoCcncaNgoX\
                             L2Rldi9pbmZpbmliYW5kL3JkbWFfY20SFy9kZXYvaW5maW5pYmFuZC9yZG1hX2NtGgJydw==";

    fn checkpoint(entries: &str) -> String {
        format!(r#"{{"Data":{{"PodDeviceEntries":{entries},"RegisteredDevices":{{}}}},"Checksum":7}}"#)
    }

    fn entry(resource: &str, answer: &str) -> String {
        format!(
            r#"{{"PodUID":"{UID}","ContainerName":"rank","ResourceName":"{resource}","DeviceIDs":{{"-1":["3"]}},"AllocResp":"{answer}"}}"#
        )
    }

    #[test]
    fn a_pod_with_an_rdma_device_is_found_with_its_node_and_one_with_a_gpu_is_not() {
        let text = checkpoint(&format!(
            "[{},{},{}]",
            entry("rdma/hca_shared_devices_a", TWO_NODES),
            entry("nvidia.com/gpu", "GhIKDC9kZXYvbnZpZGlhMBICcnc="),
            entry("example.net/RoCE_rail", "")
        ));
        let all = parsed(&text).unwrap();
        let seen: Vec<_> = all.iter().map(|given| (given.resource.as_str(), given.nodes.len())).collect();
        assert_eq!(seen, [("rdma/hca_shared_devices_a", 1), ("example.net/RoCE_rail", 0)]);
        assert_eq!((all[0].pod.as_str(), all[0].container.as_str()), (UID, "rank"));
        assert!(all[0].nodes.contains("uverbs1"));
        assert_eq!(parsed(&checkpoint("null")), Ok(Vec::new()), "a kubelet that handed out nothing");
    }

    #[test]
    fn a_checkpoint_of_another_form_is_not_an_empty_one() {
        for bad in [
            "",
            "{",
            "{}",
            r#"{"Data":{}}"#,
            &checkpoint(r#"[{"PodUID":"x"}]"#),
            &checkpoint(&format!("[{}]", entry("rdma/a", "!"))),
        ] {
            assert!(parsed(bad).is_err(), "{bad} was taken");
        }
    }

    #[test]
    fn base64_is_read_as_it_is_defined() {
        // RFC 4648, section 10.
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(base64("Zm9v-"), None);
    }

    #[test]
    fn no_kubelet_gives_nothing_and_one_that_cannot_be_seen_is_not_known() {
        let folder = Folder::new();
        let seen = || given(&Tree::open(folder.path()).unwrap());
        assert_eq!(seen(), Reading::Value(Vec::new()));
        folder.make("sys/fs/cgroup/kubepods.slice");
        assert!(matches!(seen(), Reading::Failed(why) if why.contains("mount it")), "pods, and no folder");
        folder.make(FOLDER);
        assert_eq!(seen(), Reading::Value(Vec::new()), "nothing was handed out yet");
        folder.write(&format!("{FOLDER}/{CHECKPOINT}"), "{");
        assert!(matches!(seen(), Reading::Failed(why) if why.contains(CHECKPOINT)));
    }

    #[test]
    fn pods_that_have_ended_and_our_own_do_not_count() {
        let folder = Folder::new();
        let seen = || given(&Tree::open(folder.path()).unwrap()).value().unwrap().len();
        folder.write(
            &format!("{FOLDER}/{CHECKPOINT}"),
            &checkpoint(&format!("[{}]", entry("rdma/a", TWO_NODES))),
        );
        assert_eq!(seen(), 1, "no groups can be seen: it may be there");
        folder.make("sys/fs/cgroup/kubepods");
        assert_eq!(seen(), 0, "it has ended");
        folder.make(&format!("sys/fs/cgroup/kubepods/pod{UID}"));
        assert_eq!(seen(), 1);
        let mount = format!(
            "812 790 253:1 /var/lib/kubelet/pods/{UID}/etc-hosts /etc/hosts rw - ext4 /dev/vda1 rw\n"
        );
        folder.write("proc/self/mountinfo", &mount);
        assert_eq!(seen(), 0, "our own");
    }
}
