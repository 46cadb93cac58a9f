//! Whether we run in a container: then files, devices and processes of the host may be out of sight.

use crate::system::beginning;
use crate::tree::Tree;
use rdmascope_model::Reading;

/// Most that is read of the list of mounts; the root's own line is among the first.
const MOUNTS_BYTES_MAX: usize = 64 * 1024;

/// Files that container runtimes put into their containers (podman, docker), and where systemd names the runtime.
const MARKS: [&str; 3] = ["run/.containerenv", ".dockerenv", "run/systemd/container"];

/// Parts of control group paths and of overlay folders that name a runtime.
const RUNTIMES: [&str; 7] =
    ["docker", "kubepods", "containerd", "libpod", "containers/storage", "crio", "lxc"];

/// The process id namespace of the host itself has a fixed number (`PROC_PID_INIT_INO`, `include/linux/proc_ns.h`).
const HOST_PIDS: &str = "pid:[4026531836]";

/// By the marks of runtimes, the control group, the process id namespace and the root file system, in this order. An overlay alone
/// is no container: nodes that boot without a disk have one too.
pub(crate) fn inside(tree: &Tree) -> Reading<bool> {
    if MARKS.iter().any(|mark| tree.is_there(mark)) {
        return Reading::Value(true);
    }
    let names_runtime = |text: &str| RUNTIMES.iter().any(|runtime| text.contains(runtime));
    let group =
        beginning(tree, "proc/self/cgroup", MOUNTS_BYTES_MAX, |text| Ok(own_group(text).any(names_runtime)));
    if group == Reading::Value(true) {
        return group;
    }
    let pids = tree.owed("proc/self/ns/pid", tree.link_text("proc/self/ns/pid")).map(|ns| ns != HOST_PIDS);
    if pids == Reading::Value(true) {
        return pids;
    }
    let root = beginning(tree, "proc/self/mountinfo", MOUNTS_BYTES_MAX, |text| {
        Ok(root_mount(text).is_some_and(names_runtime))
    });
    match [group, pids, root] {
        // The last one decides, and each that cannot be read leaves it open.
        [Reading::Failed(why), _, _] | [_, Reading::Failed(why), _] => Reading::Failed(why),
        [_, _, root] => root,
    }
}

/// Paths of `/proc/self/cgroup`, such as `0::/kubepods.slice/...`.
fn own_group(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2))
}

/// What is mounted at `/`, when it is an overlay: its options (`man 5 proc_pid_mountinfo`: the fifth field is the mount point, the
/// type stands after a lone hyphen).
fn root_mount(text: &str) -> Option<&str> {
    // A later mount covers an earlier one.
    text.lines()
        .filter(|line| line.split(' ').nth(4) == Some("/"))
        .filter_map(|line| line.split_once(" - "))
        .map(|(_, rest)| rest)
        .next_back()
        .filter(|rest| rest.starts_with("overlay "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::FakeHost;

    fn seen(change: impl FnOnce(&FakeHost)) -> Reading<bool> {
        let host = FakeHost::rxe(1);
        change(&host);
        inside(&Tree::open(host.root()).unwrap())
    }

    const OVERLAY: &str = "1 0 0:30 / / rw,relatime - overlay overlay rw,lowerdir=";

    #[test]
    fn each_sign_alone_is_enough() {
        assert_eq!(seen(|_| ()), Reading::Value(false));
        let write = |path: &'static str, text: &'static str| {
            seen(move |host: &FakeHost| host.folder().write(path, text))
        };
        assert_eq!(write(".dockerenv", ""), Reading::Value(true));
        assert_eq!(write("run/.containerenv", ""), Reading::Value(true));
        assert_eq!(write("proc/self/cgroup", "0::/kubepods.slice/a.scope\n"), Reading::Value(true));
        assert_eq!(write("proc/self/cgroup", "0::/\n"), Reading::Value(false));
        let pods = format!("{OVERLAY}/var/lib/containerd/1/fs\n");
        assert_eq!(seen(|h| h.folder().write("proc/self/mountinfo", &pods)), Reading::Value(true));
        let diskless = format!("{OVERLAY}/run/image/root\n");
        assert_eq!(seen(|h| h.folder().write("proc/self/mountinfo", &diskless)), Reading::Value(false));
        let other = |h: &FakeHost| {
            h.folder().remove("proc/self/ns/pid");
            h.folder().link("proc/self/ns/pid", "pid:[4026532201]");
        };
        assert_eq!(seen(other), Reading::Value(true));
    }

    #[test]
    fn what_is_missing_leaves_it_open() {
        for path in ["proc/self/cgroup", "proc/self/ns/pid", "proc/self/mountinfo"] {
            assert!(matches!(seen(|host| host.folder().remove(path)), Reading::Failed(_)), "{path}");
        }
    }
}
