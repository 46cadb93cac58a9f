//! The character devices of RDMA devices: which there should be, and whether they are there and can be opened.

use crate::tree::Tree;
use crate::{DEVICE_NODES, parse};
use rdmascope_model::{Device, DeviceNode, Reading};
use rustix::fs::{CWD, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::collections::BTreeMap;

/// Where the kernel lists the character devices that verbs are spoken through.
const VERBS_CLASS: &str = "sys/class/infiniband_verbs";

/// Where it lists those for management packets (`umad`) and for subnet managers (`issm`).
const MAD_CLASS: &str = "sys/class/infiniband_mad";

/// In a capture: lines such as `uverbs0 0666 open=ok` or `uverbs0 0600 open=REASON`; nodes that are not there have no line.
const CAPTURED: &str = "rdmascope/device_nodes";

/// Most that is read of that.
const CAPTURED_BYTES_MAX: usize = 64 * 1024;

/// Which nodes belong to which device, read once for all devices.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// Verbs node of each device, and what could not be read of that.
    verbs: Reading<(BTreeMap<String, String>, Vec<String>)>,
    /// Management nodes.
    management: Reading<Vec<ManagementNode>>,
    /// A capture's own list.
    captured: Reading<BTreeMap<String, Looked>>,
}

/// A node for management packets, and what came of reading whose it is.
#[derive(Debug)]
struct ManagementNode {
    name: String,
    device: Reading<String>,
    port: Reading<u8>,
}

/// What came of looking at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Looked {
    mode: Reading<u32>,
    open: Reading<()>,
}

impl Looked {
    const ABSENT: Self = Self { mode: Reading::Absent, open: Reading::Absent };
}

impl Nodes {
    /// Everything from sysfs, and from the capture's list. No driver is asked.
    pub(crate) fn read(tree: &Tree) -> Self {
        let captured = if tree.is_real() {
            Reading::Absent
        } else {
            crate::system::beginning(tree, CAPTURED, CAPTURED_BYTES_MAX, |text| {
                text.lines().map(line).collect()
            })
        };
        let verbs = match (verbs(tree), &captured) {
            // A capture whose maker did not look at nodes says nothing of whether ib_uverbs is loaded.
            (Reading::Absent, Reading::Failed(why)) => Reading::Failed(why.clone()),
            (verbs, _) => verbs,
        };
        Self { verbs, management: management(tree), captured }
    }

    /// The verbs node of a device.
    pub(crate) fn verbs_of(&self, device: &str) -> Reading<String> {
        match &self.verbs {
            Reading::Value((nodes, unread)) => match (nodes.get(device), unread.first()) {
                (Some(node), _) => Reading::Value(node.clone()),
                (None, Some(why)) => Reading::Failed(why.clone()),
                (None, None) => Reading::Absent,
            },
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why.clone()),
        }
    }

    /// All nodes of a device, each looked at. On a live machine a verbs node is opened and closed again: that makes no context and
    /// changes nothing (`ib_uverbs_open`, `drivers/infiniband/core/uverbs_main.c`), and only the kernel knows whether a control
    /// group forbids it.
    pub(crate) fn of(&self, tree: &Tree, device: &str) -> Vec<DeviceNode> {
        let mut nodes = Vec::new();
        if let Reading::Value(name) = self.verbs_of(device) {
            nodes.push(self.look(tree, name, None));
        }
        match &self.management {
            Reading::Value(rows) => {
                for row in rows {
                    match (&row.device, &row.port) {
                        (Reading::Value(of), _) if of != device => {}
                        (Reading::Value(_), Reading::Value(port)) => {
                            nodes.push(self.look(tree, row.name.clone(), Some(*port)));
                        }
                        // Of a node that does not say whose it is, it may be this one's.
                        (Reading::Value(_), missing) => nodes.push(unread(&row.name, missing.why_missing())),
                        (missing, _) => nodes.push(unread(&row.name, missing.why_missing())),
                    }
                }
            }
            // Without ib_umad there are none.
            Reading::Absent => {}
            Reading::Failed(why) => nodes.push(unread("umad", Some(why))),
        }
        nodes
    }

    fn look(&self, tree: &Tree, name: String, port: Option<u8>) -> DeviceNode {
        let Looked { mode, open } = match &self.captured {
            _ if tree.is_real() => live(&name, port.is_none()),
            Reading::Value(captured) => captured.get(&name).cloned().unwrap_or(Looked::ABSENT),
            Reading::Absent => Looked::ABSENT,
            Reading::Failed(why) => {
                Looked { mode: Reading::Failed(why.clone()), open: Reading::Failed(why.clone()) }
            }
        };
        DeviceNode { name, open: if port.is_none() { open } else { Reading::Absent }, port, mode }
    }
}

fn unread(name: &str, why: Option<&str>) -> DeviceNode {
    let why = format!("whose node it is could not be read: {}", why.unwrap_or("not known"));
    DeviceNode { name: name.to_owned(), port: None, mode: Reading::Failed(why), open: Reading::Absent }
}

/// Names of the verbs nodes.
pub(crate) fn verbs_names(tree: &Tree) -> Reading<Vec<String>> {
    // The class folder also holds the file `abi_version`.
    tree.list(VERBS_CLASS).map(|names| names.into_iter().filter(|name| name.starts_with("uverbs")).collect())
}

/// Which verbs node belongs to which RDMA device, and what could not be read of that.
pub(crate) fn verbs(tree: &Tree) -> Reading<(BTreeMap<String, String>, Vec<String>)> {
    verbs_names(tree).map(|names| {
        let (mut nodes, mut unread) = (BTreeMap::new(), Vec::new());
        for name in names {
            match tree.parsed(&format!("{VERBS_CLASS}/{name}/ibdev"), parse::plain) {
                Reading::Value(device) => {
                    nodes.insert(device, name);
                }
                Reading::Absent => unread.push(format!("{VERBS_CLASS}/{name}/ibdev is empty or not there")),
                Reading::Failed(why) => unread.push(why),
            }
        }
        (nodes, unread)
    })
}

fn management(tree: &Tree) -> Reading<Vec<ManagementNode>> {
    tree.list(MAD_CLASS).map(|names| {
        names
            .into_iter()
            .filter(|name| name.starts_with("umad") || name.starts_with("issm"))
            .map(|name| {
                let base = format!("{MAD_CLASS}/{name}");
                let device = tree.parsed(&format!("{base}/ibdev"), parse::plain);
                let port = tree.parsed(&format!("{base}/port"), parse::number);
                ManagementNode { name, device, port }
            })
            .collect()
    })
}

/// A line of a capture.
fn line(text: &str) -> Result<(String, Looked), String> {
    let mut parts = text.trim().splitn(3, ' ');
    let (Some(name), Some(mode)) = (parts.next(), parts.next()) else {
        return Err("a line of it is not of the form 'uverbs0 0666 open=ok'".to_owned());
    };
    let mode = u32::from_str_radix(mode, 8).map_err(|_| "a mode in it is no octal number".to_owned())?;
    let open = match parts.next().map(|rest| rest.trim().strip_prefix("open=")) {
        None => Reading::Absent,
        Some(Some("ok")) => Reading::Value(()),
        Some(Some(why)) => Reading::Failed(parse::plain(why)?),
        Some(None) => return Err("a line of it is not of the form 'uverbs0 0666 open=ok'".to_owned()),
    };
    Ok((parse::plain(name)?, Looked { mode: Reading::Value(mode), open }))
}

/// How a capture keeps the nodes of these devices (`rdmascope/device_nodes`): one line for each that is there.
#[must_use]
pub fn device_nodes_text(devices: &[Device]) -> String {
    devices.iter().flat_map(|device| &device.nodes).filter_map(written).collect()
}

fn written(node: &DeviceNode) -> Option<String> {
    let mode = node.mode.value()?;
    let open = match &node.open {
        Reading::Value(()) => " open=ok".to_owned(),
        Reading::Failed(why) => format!(" open={}", why.replace('\n', " ")),
        Reading::Absent => String::new(),
    };
    Some(format!("{} {mode:04o}{open}\n", node.name))
}

/// Mode and whether it opens.
fn live(name: &str, is_verbs: bool) -> Looked {
    let path = format!("{DEVICE_NODES}/{name}");
    let outcome = |e: Errno| match e {
        Errno::NOENT => Reading::Absent,
        _ => Reading::Failed(format!("{path}: {}", std::io::Error::from(e))),
    };
    let mode = match statat(CWD, &path, rustix::fs::AtFlags::empty()) {
        Ok(stat) => Reading::Value(stat.st_mode & 0o7777),
        Err(e) => outcome(e).map(|(): ()| 0),
    };
    let open = if is_verbs {
        openat(CWD, &path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
            .map_or_else(outcome, |_| Reading::Value(()))
    } else {
        Reading::Absent
    };
    Looked { mode, open }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::FakeHost;

    fn nodes(host: &FakeHost) -> Vec<DeviceNode> {
        let tree = Tree::open(host.root()).unwrap();
        Nodes::read(&tree).of(&tree, "mlx5_0")
    }

    #[test]
    fn nodes_are_there_or_missing_and_the_reason_is_kept() {
        let host = FakeHost::mlx5(1);
        let both = nodes(&host);
        let names: Vec<_> = both.iter().map(|n| (&n.name[..], n.port, n.mode.value().copied())).collect();
        assert_eq!(names, [("uverbs0", None, Some(0o666)), ("umad0", Some(1), Some(0o600))]);
        assert_eq!((&both[0].open, &both[1].open), (&Reading::Value(()), &Reading::Absent));
        host.folder().write(CAPTURED, "uverbs0 0600 open=Permission denied (os error 13)\n");
        let denied = nodes(&host);
        assert_eq!(denied[0].open, Reading::failed("Permission denied (os error 13)"));
        assert_eq!(denied[1].mode, Reading::Absent, "no line: no node");
        host.folder().remove(CAPTURED);
        assert!(
            matches!(&nodes(&host)[0].mode, Reading::Failed(why) if why.contains("not part of this capture"))
        );
        host.folder().write(CAPTURED, "uverbs0 open\n");
        assert!(matches!(&nodes(&host)[0].mode, Reading::Failed(_)));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (mode, open) in [
            (0o666, Reading::Value(())),
            (0o20600, Reading::failed("no, not allowed")),
            (0o600, Reading::Absent),
        ] {
            let node =
                DeviceNode { name: "uverbs7".to_owned(), port: None, mode: Reading::Value(mode), open };
            let text = written(&node).unwrap();
            let looked = Looked { mode: node.mode.clone(), open: node.open.clone() };
            assert_eq!(line(text.trim_end()), Ok((node.name.clone(), looked)), "{text}");
        }
        let gone =
            DeviceNode { name: "x".to_owned(), port: None, mode: Reading::Absent, open: Reading::Absent };
        let device = Device { nodes: vec![gone], ..Device::unread("mlx5_0", "") };
        assert_eq!(device_nodes_text(&[device]), "");
    }

    #[test]
    fn a_node_that_is_not_there_is_absent_on_a_live_machine() {
        assert_eq!(live("uverbs999", true), Looked::ABSENT);
    }
}
