//! Processes that use RDMA, or should: what they may lock, which devices they see, and which settings they were started with.

use crate::parse;
use crate::system::{beginning, memlock};
use crate::text;
use crate::tree::Tree;
use rdmascope_checks::manifest::glob;
use rdmascope_model::{Reading, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// Most processes that are looked at in detail; a node runs one per GPU, or some.
const PROCESSES_MAX: usize = 64;

/// Most that is read of a process's environment; all strings of a program start are bounded too, at 2 MiB and more.
const ENVIRONMENT_BYTES_MAX: usize = 256 * 1024;

/// Most that is read of other files of a process, and of the list of queue pairs in a capture.
const FILE_BYTES_MAX: usize = 64 * 1024;

/// Most names of character devices that are kept of one process.
const NODES_MAX: usize = 512;

/// Bit of `CAP_IPC_LOCK` (`include/uapi/linux/capability.h`).
const IPC_LOCK: u64 = 1 << 14;

/// In a capture: who holds queue pairs, lines `DEVICE PORT PID NAME COUNT`, with `-` for an owner that is not shown; or `none`.
pub(crate) const QUEUE_PAIRS: &str = "rdmascope/rdma/queue_pairs";

/// A list without lines.
const NONE: &str = "none";

/// Stands for an owner that is not shown.
const HIDDEN: &str = "-";

/// The only environment variables that are kept: those that choose devices, GIDs and traffic classes. All others are nobody's
/// business: an environment holds passwords.
const KEPT: [&str; 16] = [
    "FI_PROVIDER",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_HCA",
    "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_IB_SL",
    "NCCL_IB_TC",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_SOCKET_IFNAME",
    "RDMAV_FORK_SAFE",
    "UCX_IB_GID_INDEX",
    "UCX_IB_TRAFFIC_CLASS",
    "UCX_NET_DEVICES",
    "UCX_TLS",
];

/// Queue pairs of one process on one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePairs {
    /// RDMA device.
    pub device: String,
    /// Port; 0 while they are not yet bound to one, and where the owner is not shown.
    pub port: u8,
    /// The process that holds them, in our process id namespace; 0: the kernel itself. `None`: the kernel does not show whose they
    /// are, because they belong to a process of another process id namespace.
    pub pid: Option<u32>,
    /// Name of the process (`comm`), or of the kernel module; `-` where it is not known.
    pub name: String,
    /// How many.
    pub count: u32,
}

/// What a capture tells of queue pairs; `-` where the kernel has no RDMA netlink.
pub(crate) fn captured_queue_pairs(tree: &Tree) -> Reading<Vec<QueuePairs>> {
    text::parsed(tree, QUEUE_PAIRS, |text| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != NONE);
        lines.map(queue_pairs_line).collect()
    })
}

/// How a capture keeps them (`rdmascope/rdma/queue_pairs`).
#[must_use]
pub fn queue_pairs_text(table: &[QueuePairs]) -> String {
    if table.is_empty() {
        return format!("{NONE}\n");
    }
    let line = |row: &QueuePairs| {
        let pid = row.pid.map_or_else(|| HIDDEN.to_owned(), |pid| pid.to_string());
        format!("{} {} {pid} {} {}\n", row.device, row.port, row.name.replace('\n', " "), row.count)
    };
    table.iter().map(line).collect()
}

/// A name may have spaces in it: it is what stands between the process id and the count.
fn queue_pairs_line(line: &str) -> Result<QueuePairs, String> {
    let wrong = || "a line of it is not of the form 'DEVICE PORT PID NAME COUNT'".to_owned();
    let (rest, count) = line.trim().rsplit_once(' ').ok_or_else(wrong)?;
    let parts: Vec<&str> = rest.splitn(4, ' ').collect();
    let [device, port, pid, name] = parts[..] else { return Err(wrong()) };
    Ok(QueuePairs {
        device: parse::plain(device)?,
        port: parse::number(port)?,
        pid: if pid == HIDDEN { None } else { Some(parse::number(pid)?) },
        name: parse::plain(name)?,
        count: parse::number(count)?,
    })
}

/// Holders of queue pairs, and processes whose name fits one of `names` (`*` stands for any letters), by process id. The list of all
/// processes is walked only when there are names: that costs one small file for each process.
pub(crate) fn workloads(
    tree: &Tree,
    queue_pairs: &Reading<Vec<QueuePairs>>,
    names: &[String],
) -> Reading<Vec<Workload>> {
    let mut found: BTreeMap<u32, String> = BTreeMap::new();
    if !names.is_empty() {
        match named(tree, names) {
            Reading::Value(named) => found.extend(named),
            Reading::Absent => {}
            Reading::Failed(why) => return Reading::Failed(why),
        }
    }
    let table = match queue_pairs {
        Reading::Value(table) => table,
        Reading::Absent if names.is_empty() => return Reading::Absent,
        Reading::Failed(why) if names.is_empty() => return Reading::Failed(why.clone()),
        Reading::Absent | Reading::Failed(_) => &Vec::new(),
    };
    let users = table.iter().filter_map(|held| Some((held.pid.filter(|pid| *pid != 0)?, &held.name)));
    let holders: BTreeSet<u32> = users.clone().map(|(pid, _)| pid).collect();
    for (pid, name) in users {
        found.entry(pid).or_insert_with(|| name.clone());
    }
    let own = tree.owed("proc/self/ns/net", tree.link_text("proc/self/ns/net"));
    // Those that hold queue pairs come first, should there be too many.
    let mut order: Vec<(u32, String)> = found.into_iter().collect();
    order.sort_by_key(|(pid, _)| (!holders.contains(pid), *pid));
    let mut all: Vec<Workload> = order
        .into_iter()
        .enumerate()
        .map(|(i, (pid, name))| {
            let held = match queue_pairs {
                Reading::Value(table) => held_by(table, pid),
                Reading::Absent => Reading::Absent,
                Reading::Failed(why) => Reading::Failed(why.clone()),
            };
            if i < PROCESSES_MAX { workload(tree, pid, name, held, &own) } else { unread(pid, name, held) }
        })
        .collect();
    all.sort_by_key(|workload| workload.pid);
    Reading::Value(all)
}

/// What one process holds. Of a process without any it is not known while the kernel hides whose some are: in a container of its
/// own process id namespace they may be its.
fn held_by(table: &[QueuePairs], pid: u32) -> Reading<BTreeMap<String, u32>> {
    let mut held = BTreeMap::new();
    for row in table.iter().filter(|row| row.pid == Some(pid)) {
        let count: &mut u32 = held.entry(row.device.clone()).or_default();
        *count = count.saturating_add(row.count);
    }
    if held.is_empty() && table.iter().any(|row| row.pid.is_none()) {
        return Reading::failed(
            "the kernel does not show which process of another namespace holds queue pairs",
        );
    }
    Reading::Value(held)
}

/// Processes by their names.
fn named(tree: &Tree, names: &[String]) -> Reading<BTreeMap<u32, String>> {
    tree.owed("proc", tree.list("proc")).map(|entries| {
        let mut found = BTreeMap::new();
        for pid in entries.iter().filter_map(|entry| entry.parse::<u32>().ok()) {
            // One that has ended meanwhile has no name any more.
            if let Reading::Value(name) = tree.parsed(&format!("proc/{pid}/comm"), parse::plain)
                && names.iter().any(|pattern| glob(pattern, &name))
            {
                found.insert(pid, name);
            }
        }
        found
    })
}

fn workload(
    tree: &Tree,
    pid: u32,
    name: String,
    queue_pairs: Reading<BTreeMap<String, u32>>,
    own_network: &Reading<String>,
) -> Workload {
    let base = format!("proc/{pid}");
    let network = format!("{base}/ns/net");
    let own_network = match (tree.owed(&network, tree.link_text(&network)), own_network) {
        (Reading::Value(theirs), Reading::Value(ours)) => Reading::Value(theirs == *ours),
        (Reading::Failed(why), _) => Reading::Failed(why),
        (_, Reading::Failed(why)) => Reading::Failed(why.clone()),
        (Reading::Absent, _) | (_, Reading::Absent) => Reading::Absent,
    };
    Workload {
        pid,
        name,
        queue_pairs,
        memlock_bytes: beginning(tree, &format!("{base}/limits"), FILE_BYTES_MAX, memlock),
        ipc_lock: beginning(tree, &format!("{base}/status"), FILE_BYTES_MAX, ipc_lock),
        nodes: nodes(tree, &base),
        environment: environment(tree, &base),
        own_network,
    }
}

fn unread(pid: u32, name: String, queue_pairs: Reading<BTreeMap<String, u32>>) -> Workload {
    let why = format!("more than {PROCESSES_MAX} processes use RDMA: this one was not looked at");
    Workload {
        pid,
        name,
        queue_pairs,
        memlock_bytes: Reading::failed(&why),
        ipc_lock: Reading::failed(&why),
        nodes: Reading::failed(&why),
        environment: Reading::failed(&why),
        own_network: Reading::failed(&why),
    }
}

fn ipc_lock(text: &str) -> Result<bool, String> {
    Ok(parse::capabilities(text)? & IPC_LOCK != 0)
}

fn nodes(tree: &Tree, base: &str) -> Reading<Vec<String>> {
    let root = format!("{base}/root");
    match tree.owed_within(&root, tree.list(&format!("{root}/dev/infiniband"))) {
        Reading::Value(mut names) => {
            names.truncate(NODES_MAX);
            Reading::Value(names)
        }
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

/// The kept variables. The rest of the text is dropped at once.
fn environment(tree: &Tree, base: &str) -> Reading<BTreeMap<String, String>> {
    beginning(tree, &format!("{base}/environ"), ENVIRONMENT_BYTES_MAX, |text| {
        if text.len() >= ENVIRONMENT_BYTES_MAX {
            return Err(format!("longer than {ENVIRONMENT_BYTES_MAX} bytes"));
        }
        let mut kept = BTreeMap::new();
        for (name, value) in text.split('\0').filter_map(|entry| entry.split_once('=')) {
            if KEPT.contains(&name) {
                kept.insert(name.to_owned(), parse::plain(value).map_err(|why| format!("{name} {why}"))?);
            }
        }
        Ok(kept)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::{FakeHost, Folder};

    fn process(folder: &Folder, pid: u32, name: &str) {
        let write = |file: &str, text: &str| folder.write(&format!("proc/{pid}/{file}"), text);
        write("comm", &format!("{name}\n"));
        write("limits", "Max locked memory         65536                65536                bytes\n");
        write("status", "Name:\tx\nCapEff:\t0000000000004000\n");
        write("environ", "SECRET_TOKEN=hunter2\0NCCL_IB_HCA=mlx5_0,mlx5_1\0NCCL_IB_GID_INDEX=3\0PATH=/bin\0");
        folder.link(&format!("proc/{pid}/ns/net"), "net:[4026532777]");
        write("root/dev/infiniband/uverbs0", "");
    }

    fn seen(folder: &Folder, names: &[&str]) -> Reading<Vec<Workload>> {
        let tree = Tree::open(folder.path()).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        workloads(&tree, &captured_queue_pairs(&tree), &names)
    }

    #[test]
    fn a_holder_of_queue_pairs_is_looked_at_and_its_secrets_are_not_kept() {
        let host = FakeHost::mlx5(2);
        process(host.folder(), 4711, "python3");
        let lines = "mlx5_0 1 4711 python3 16\nmlx5_0 1 0 [ib_core] 2\nmlx5_1 1 4711 python3 8\n";
        host.folder().write(QUEUE_PAIRS, lines);
        let all = seen(host.folder(), &[]);
        let [workload] = &all.value().unwrap()[..] else { panic!("{all:?}") };
        assert_eq!((workload.pid, &workload.name[..]), (4711, "python3"));
        let held = [("mlx5_0".to_owned(), 16), ("mlx5_1".to_owned(), 8)].into();
        assert_eq!(workload.queue_pairs, Reading::Value(held));
        assert_eq!(
            (&workload.memlock_bytes, &workload.ipc_lock),
            (&Reading::Value(65_536), &Reading::Value(true))
        );
        assert_eq!(workload.nodes, Reading::Value(vec!["uverbs0".to_owned()]));
        assert_eq!(workload.own_network, Reading::Value(false));
        let kept: Vec<&str> = workload.environment.value().unwrap().keys().map(String::as_str).collect();
        assert_eq!(kept, ["NCCL_IB_GID_INDEX", "NCCL_IB_HCA"]);
        assert!(!format!("{all:?}").contains("hunter2"));
    }

    #[test]
    fn a_process_that_should_use_rdma_is_found_by_its_name() {
        let host = FakeHost::mlx5(1);
        process(host.folder(), 12, "python3.11");
        process(host.folder(), 13, "sshd");
        host.folder().remove("proc/12/root/dev/infiniband");
        let all = seen(host.folder(), &["python*"]);
        let [workload] = &all.value().unwrap()[..] else { panic!("{all:?}") };
        assert_eq!((workload.pid, workload.queue_pairs.value()), (12, Some(&BTreeMap::new())));
        assert_eq!(workload.nodes, Reading::Absent);
        assert_eq!(seen(host.folder(), &[]), Reading::Value(Vec::new()));
        // Some queue pairs are of nobody that is shown: they may be its.
        host.folder().write(QUEUE_PAIRS, "mlx5_0 0 - - 12\n");
        let all = seen(host.folder(), &["python*"]);
        assert!(
            matches!(&all.value().unwrap()[0].queue_pairs, Reading::Failed(why) if why.contains("namespace"))
        );
        // Without the table it is not known whether it holds queue pairs: nobody may call it a fallback to TCP.
        host.folder().remove(QUEUE_PAIRS);
        let all = seen(host.folder(), &["python*"]);
        assert!(matches!(all.value().unwrap()[0].queue_pairs, Reading::Failed(_)));
        assert!(matches!(seen(host.folder(), &[]), Reading::Failed(_)));
    }

    #[test]
    fn a_holder_of_which_nothing_is_captured_says_so_and_its_name_may_have_spaces() {
        let host = FakeHost::mlx5(1);
        host.folder().write(QUEUE_PAIRS, "mlx5_0 1 99 NCCL Proxy thread 1\n");
        let all = seen(host.folder(), &[]);
        let workload = &all.value().unwrap()[0];
        assert_eq!(workload.name, "NCCL Proxy thread");
        let reasons = [
            workload.memlock_bytes.why_missing(),
            workload.ipc_lock.why_missing(),
            workload.nodes.why_missing(),
            workload.environment.why_missing(),
            workload.own_network.why_missing(),
        ];
        assert!(reasons.iter().all(|why| why.unwrap().contains("not part of this capture")), "{reasons:?}");
        host.folder().write(QUEUE_PAIRS, "mlx5_0 1 99\n");
        assert!(matches!(seen(host.folder(), &[]), Reading::Failed(why) if why.contains("DEVICE PORT PID")));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let row = |name: &str, pid| QueuePairs {
            device: "mlx5_0".into(),
            port: 1,
            pid,
            name: name.into(),
            count: 4,
        };
        let table = vec![row("NCCL Proxy thread", Some(12)), row("ib_core", Some(0)), row("-", None)];
        let host = FakeHost::mlx5(1);
        assert_eq!(queue_pairs_text(&[]), "none\n");
        host.folder().write(QUEUE_PAIRS, &queue_pairs_text(&table));
        assert_eq!(captured_queue_pairs(&Tree::open(host.root()).unwrap()), Reading::Value(table));
    }

    #[test]
    fn too_many_processes_are_named_and_not_looked_at() {
        let host = FakeHost::mlx5(1);
        let lines: String = (1..=70).map(|pid| format!("mlx5_0 1 {pid} rank 4\n")).collect();
        host.folder().write(QUEUE_PAIRS, &lines);
        let all = seen(host.folder(), &[]);
        let all = all.value().unwrap();
        assert_eq!(all.len(), 70);
        let why = all[69].memlock_bytes.why_missing().unwrap();
        assert!(why.contains("more than 64"), "{why}");
        assert!(!all[63].memlock_bytes.why_missing().unwrap().contains("more than 64"));
        assert_eq!(all[69].queue_pairs.value().unwrap()["mlx5_0"], 4);
    }

    #[test]
    fn this_very_process_is_read() {
        let tree = Tree::open(std::path::Path::new("/")).unwrap();
        let pid = std::process::id();
        let held =
            |pid| QueuePairs { device: "rxe1".to_owned(), port: 1, pid, name: "me".to_owned(), count: 2 };
        let all = workloads(&tree, &Reading::Value(vec![held(Some(pid))]), &[]);
        let [workload] = &all.value().unwrap()[..] else { panic!("{all:?}") };
        assert_eq!(workload.own_network, Reading::Value(true));
        assert!(workload.memlock_bytes.value().is_some() && workload.ipc_lock.value().is_some());
        assert!(workload.environment.value().unwrap().keys().all(|name| KEPT.contains(&&name[..])));
    }
}
