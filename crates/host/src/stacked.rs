//! How the network devices of a capture stand on each other: kind, parent and master, from sysfs and a file for the rest.

use crate::netdev::CLASS;
use crate::parse;
use crate::rtnl::PAIRS;
use crate::text::{Fields, put};
use crate::tree::Tree;
use rdmascope_model::{Netdev, Reading};

fn file(name: &str) -> String {
    format!("rdmascope/netdev/{name}/link")
}

/// The file of a capture, path and text; `None` when nothing of it could be read.
pub(crate) fn to_file(name: &str, netdev: &Netdev) -> Option<(String, String)> {
    let mut text = String::new();
    put(&mut text, "kind", &netdev.kind, String::clone);
    put(&mut text, "parent", &netdev.parent, String::clone);
    (!text.is_empty()).then(|| (file(name), text))
}

/// Kind and parent. A device that hardware stands behind is not made and stands on no other, and of some made devices sysfs says
/// the kind in `uevent` and the index of the device underneath in `iflink`.
pub(crate) fn kind_and_parent(tree: &Tree, name: &str) -> (Reading<String>, Reading<String>) {
    let fields = Fields::read(tree, &file(name));
    let told = |key: &str| match &fields {
        Reading::Value(fields) => fields.get(key, parse::plain),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why.clone()),
    };
    let (mut kind, mut parent) = (told("kind"), told("parent"));
    if let Reading::Failed(_) = kind
        && let Some(found) = kind_by_sysfs(tree, name)
    {
        kind = found;
    }
    if let Reading::Failed(_) = parent
        && !matches!(kind, Reading::Failed(_))
    {
        parent = match &kind {
            Reading::Value(kind) if !PAIRS.contains(&kind.as_str()) => parent_by_sysfs(tree, name),
            _ => Reading::Absent,
        };
    }
    (kind, parent)
}

fn kind_by_sysfs(tree: &Tree, name: &str) -> Option<Reading<String>> {
    let path = tree.resolved(&format!("{CLASS}/{name}"));
    if !path.value()?.components().any(|part| part.as_os_str() == "virtual") {
        return Some(Reading::Absent);
    }
    let uevent = tree.text(&format!("{CLASS}/{name}/uevent"));
    let kind = uevent.value()?.lines().find_map(|line| line.strip_prefix("DEVTYPE="))?;
    parse::plain(kind).ok().map(Reading::Value)
}

fn parent_by_sysfs(tree: &Tree, name: &str) -> Reading<String> {
    let index = |name: &str, file: &str| tree.parsed(&format!("{CLASS}/{name}/{file}"), parse::number::<u32>);
    let below = match index(name, "iflink") {
        Reading::Value(below) => below,
        Reading::Absent => {
            return Reading::Failed(format!("{CLASS}/{name}/iflink is not part of this capture"));
        }
        Reading::Failed(why) => return Reading::Failed(why),
    };
    if below == 0 || index(name, "ifindex") == Reading::Value(below) {
        return Reading::Absent;
    }
    let names = tree.list(CLASS);
    let mut names = names.value().into_iter().flatten();
    match names.find(|name| index(name, "ifindex") == Reading::Value(below)) {
        Some(name) => Reading::Value(name.clone()),
        None => Reading::Failed(format!("no network device of this capture has the index {below}")),
    }
}

/// The bond or bridge that the device is a member of.
pub(crate) fn master(tree: &Tree, name: &str) -> Reading<String> {
    let link = format!("{CLASS}/{name}/master");
    match tree.resolved(&link) {
        Reading::Value(path) => match path.file_name().and_then(|name| name.to_str()) {
            Some(name) => Reading::Value(name.to_owned()),
            None => Reading::Failed(format!("{link} leads to a name that is not text")),
        },
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;

    fn device(folder: &Folder, place: &str, name: &str, index: u32, iflink: u32) {
        let files = format!("sys/devices/{place}/net/{name}");
        folder.write(&format!("{files}/ifindex"), &format!("{index}\n"));
        folder.write(&format!("{files}/iflink"), &format!("{iflink}\n"));
        folder.link(&format!("{CLASS}/{name}"), &format!("../../devices/{place}/net/{name}"));
    }

    fn value(text: &str) -> Reading<String> {
        Reading::Value(text.to_owned())
    }

    #[test]
    fn sysfs_alone_tells_most() {
        let folder = Folder::new();
        device(&folder, "pci0000:3a/0000:3b:00.0", "eth0", 2, 2);
        device(&folder, "virtual", "eth0.100", 3, 2);
        folder.write("sys/devices/virtual/net/eth0.100/uevent", "DEVTYPE=vlan\nINTERFACE=eth0.100\n");
        device(&folder, "virtual", "bond0", 4, 4);
        folder.write("sys/devices/virtual/net/bond0/uevent", "DEVTYPE=bond\n");
        folder.link("sys/devices/pci0000:3a/0000:3b:00.0/net/eth0/master", "../../../../virtual/net/bond0");
        // A veth has no device type: what it is, only netlink says.
        device(&folder, "virtual", "va", 5, 6);
        let tree = Tree::open(folder.path()).unwrap();
        assert_eq!(kind_and_parent(&tree, "eth0"), (Reading::Absent, Reading::Absent));
        assert_eq!(kind_and_parent(&tree, "eth0.100"), (value("vlan"), value("eth0")));
        assert_eq!(kind_and_parent(&tree, "bond0"), (value("bond"), Reading::Absent));
        assert_eq!((master(&tree, "eth0"), master(&tree, "bond0")), (value("bond0"), Reading::Absent));
        let unknown = Reading::failed("'kind' in rdmascope/netdev/va/link is not part of this capture");
        assert!(matches!(kind_and_parent(&tree, "va"), (Reading::Failed(_), Reading::Failed(_))));
        folder.write("rdmascope/netdev/va/link", "parent: -\n");
        assert_eq!(kind_and_parent(&tree, "va"), (unknown, Reading::Absent));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = Folder::new();
        for (kind, parent) in [
            (value("macvlan"), value("eth0")),
            (value("veth"), Reading::Absent),
            (Reading::Absent, Reading::Absent),
        ] {
            let netdev = Netdev { kind: kind.clone(), parent: parent.clone(), ..Netdev::unread("") };
            let (path, text) = to_file("x0", &netdev).unwrap();
            folder.write(&path, &text);
            let tree = Tree::open(folder.path()).unwrap();
            assert_eq!(kind_and_parent(&tree, "x0"), (kind, parent));
        }
    }
}
