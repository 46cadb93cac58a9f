//! Whether a job or a pod holds an RDMA device, and whose: the second half of the idle gate. Reading and judging are apart.
//!
//! A job that computes moves no byte for longer than ten seconds, and one between two steps holds no queue pair: a quiet port alone
//! does not say that nobody works. What does not exist (no Slurm, no kubelet) holds nothing; what exists and cannot be read may.

mod cgroup;
mod kubelet;

use crate::processes::QueuePairs;
use crate::system::beginning;
use crate::tree::Tree;
use crate::{Host, nodes, parse, rdma_netlink};
use cgroup::Owner;
use kubelet::Given;
use rdmascope_model::Reading;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Most that is read of `/proc/PID/status` and `/proc/PID/cgroup`.
const FILE_BYTES_MAX: usize = 16 * 1024;

/// Most that is read of `/etc/passwd`; users beyond, and those of a directory service, stay numbers.
const PASSWD_BYTES_MAX: usize = 256 * 1024;

/// Holders that are named; a node with a rank for each GPU has eight and more, of one job.
const NAMED_MAX: usize = 3;

/// Processes that are looked at; the rest is counted.
const PROCESSES_MAX: usize = 64;

/// A process that holds queue pairs of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    name: String,
    queue_pairs: u32,
    owner: Owner,
    user: Option<u32>,
    /// It is this very program: the kernel names the thread that made a queue pair.
    ours: bool,
}

/// All that can tell whether a device is held.
#[derive(Debug)]
pub(crate) struct Signs {
    device: String,
    /// Processes, and queue pairs whose owner the kernel does not show.
    held: Reading<(Vec<Process>, u32)>,
    /// Slurm jobs on the machine, with their users where known.
    jobs: Reading<BTreeMap<String, Option<u32>>>,
    /// RDMA devices that the kubelet gave to pods.
    given: Reading<Vec<Given>>,
    /// The verbs node of the device (`uverbs0`); `None` where that is not known.
    node: Option<String>,
    /// Names of users.
    users: BTreeMap<u32, String>,
}

impl Host {
    /// Whether a job or a pod holds a device, as it is at this moment. It asks the driver for each queue pair (on mlx5 one firmware
    /// command each): for the beginning of a stream, not for every second.
    ///
    /// # Errors
    /// Who holds it, in words, or why that cannot be told.
    pub async fn held(&self, device: &str) -> Result<(), String> {
        let device = device.to_owned();
        let judged = self.part("holders of a device", move |tree| judge(&signs(tree, &device)), Err);
        judged.await
    }
}

pub(crate) fn signs(tree: &Tree, device: &str) -> Signs {
    let queue_pairs = rdma_netlink::queue_pairs(tree, Some(device));
    let held = match &queue_pairs {
        Reading::Value(table) => Reading::Value(holders(tree, device, table)),
        Reading::Absent => {
            Reading::failed("the kernel does not tell who holds queue pairs (no RDMA netlink)")
        }
        Reading::Failed(why) => Reading::Failed(why.clone()),
    };
    let nodes = nodes::verbs(tree);
    Signs {
        held,
        jobs: cgroup::jobs(tree),
        given: kubelet::given(tree),
        node: nodes.value().and_then(|(nodes, _)| nodes.get(device).cloned()),
        users: users(tree),
        device: device.to_owned(),
    }
}

/// The kernel's own queue pairs (management, IP over InfiniBand, storage) are there on every node: they do not count.
fn holders(tree: &Tree, device: &str, table: &[QueuePairs]) -> (Vec<Process>, u32) {
    let mut hidden = 0_u32;
    let mut counts: BTreeMap<u32, (String, u32)> = BTreeMap::new();
    for row in table.iter().filter(|row| row.device == device) {
        match row.pid {
            Some(0) => {}
            Some(pid) => {
                let (_, count) = counts.entry(pid).or_insert_with(|| (row.name.clone(), 0));
                *count = count.saturating_add(row.count);
            }
            None => hidden = hidden.saturating_add(row.count),
        }
    }
    let own = tree.is_real().then(std::process::id);
    let process = |(at, (pid, (name, queue_pairs))): (usize, (u32, (String, u32)))| {
        let mut it =
            Process { pid, name, queue_pairs, owner: Owner::Nobody, user: None, ours: own == Some(pid) };
        if at >= PROCESSES_MAX || it.ours {
            return it;
        }
        let status = beginning(tree, &format!("proc/{pid}/status"), FILE_BYTES_MAX, |text| Ok(status(text)));
        let (group, user) = status.value().copied().unwrap_or_default();
        (it.user, it.ours) = (user, own.is_some() && group == own);
        let groups =
            beginning(tree, &format!("proc/{pid}/cgroup"), FILE_BYTES_MAX, |text| Ok(cgroup::owner(text)));
        // One that has just ended, or that may not be looked at, holds the device all the same.
        it.owner = groups.value().cloned().unwrap_or(Owner::Nobody);
        it
    };
    (counts.into_iter().enumerate().map(process).collect(), hidden)
}

/// The process that a thread belongs to, and its user (`man 5 proc_pid_status`).
fn status(text: &str) -> (Option<u32>, Option<u32>) {
    let first = |word: &str| {
        text.lines().find_map(|line| line.strip_prefix(word)?.split_whitespace().next()?.parse().ok())
    };
    (first("Tgid:"), first("Uid:"))
}

fn users(tree: &Tree) -> BTreeMap<u32, String> {
    let text = tree.beginning("etc/passwd", PASSWD_BYTES_MAX);
    let line = |line: &str| {
        let mut fields = line.split(':');
        let name = parse::plain(fields.next()?).ok()?;
        Some((fields.nth(1)?.parse().ok()?, name))
    };
    text.value().map_or_else(BTreeMap::new, |text| text.lines().filter_map(line).collect())
}

/// Nobody holds the device, or who does, or why that cannot be told.
pub(crate) fn judge(signs: &Signs) -> Result<(), String> {
    let mut found = Vec::new();
    let mut unknown = Vec::new();
    let device = &signs.device;
    let mut named_jobs = BTreeSet::new();
    let mut named_pods = BTreeSet::new();
    match &signs.held {
        Reading::Value((processes, hidden)) => {
            for process in processes.iter().filter(|process| !process.ours) {
                match &process.owner {
                    Owner::Job(id) if !named_jobs.insert(id.clone()) => continue,
                    Owner::Pod(uid) if !named_pods.insert(uid.clone()) => continue,
                    _ => found.push(words_of(process, signs)),
                }
            }
            if *hidden > 0 {
                found.push(format!(
                    "somebody holds {device} ({hidden} queue pairs whose process the kernel does not show: another \
                     container's, or one that has ended)"
                ));
            }
        }
        missing => unknown.extend(missing.why_missing()),
    }
    match &signs.jobs {
        Reading::Value(jobs) => {
            for (id, uid) in jobs.iter().filter(|(id, _)| !named_jobs.contains(*id)) {
                let user = uid.map_or_else(String::new, |uid| format!(" of user {}", user(uid, signs)));
                found.push(format!("job {id}{user} is on this node"));
            }
        }
        missing => unknown.extend(missing.why_missing()),
    }
    match &signs.given {
        Reading::Value(given) => {
            let may_be_it = |given: &&Given| {
                given.nodes.is_empty() || signs.node.as_ref().is_none_or(|node| given.nodes.contains(node))
            };
            for Given { pod, container, resource, .. } in given.iter().filter(may_be_it) {
                if named_pods.insert(pod.clone()) {
                    found.push(format!("pod {pod} (container {container}) was given {resource}"));
                }
            }
        }
        missing => unknown.extend(missing.why_missing()),
    }
    if !found.is_empty() {
        return Err(listed(&found));
    }
    if let Some(why) = unknown.first() {
        return Err(format!("it cannot be told whether a job holds {device}: {why}"));
    }
    Ok(())
}

fn words_of(process: &Process, signs: &Signs) -> String {
    let who = match &process.owner {
        Owner::Job(id) => format!("job {id}"),
        Owner::Pod(uid) => format!("pod {uid}"),
        Owner::Nobody => format!("process {}", process.pid),
    };
    let user = process.user.map_or_else(String::new, |uid| format!(" of user {}", user(uid, signs)));
    let Process { name, queue_pairs, .. } = process;
    format!("{who}{user} holds {} ({name}, queue pairs: {queue_pairs})", signs.device)
}

fn user(uid: u32, signs: &Signs) -> String {
    signs.users.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
}

fn listed(found: &[String]) -> String {
    let mut text = found.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
    if found.len() > NAMED_MAX {
        // Writing into a String cannot fail.
        let _ = write!(text, "; and {} more", found.len() - NAMED_MAX);
    }
    text
}

#[cfg(test)]
mod tests;
