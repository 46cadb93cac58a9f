//! The kernel, its settings and its limits, from procfs and sysfs.

use crate::rdma_netlink;
use crate::tree::Tree;
use crate::{container, parse};
use rdmascope_model::{Reading, System, Wall};
use std::collections::BTreeMap;

/// Most that is read of a file of procfs whose length grows with the machine (`/proc/stat` with hundreds of processors).
const LONG_BYTES_MAX: usize = 1 << 20;

/// Most that is read of other files of procfs.
const SHORT_BYTES_MAX: usize = 64 * 1024;

/// The first processor's part of `/proc/cpuinfo` ends well before.
const PROCESSOR_BYTES_MAX: usize = 8 * 1024;

/// Most idle states of a processor that are looked at (`CPUIDLE_STATE_MAX` in `include/linux/cpuidle.h`).
const IDLE_STATES_MAX: usize = 10;

/// Kernel modules that make RDMA, or GPU memory for it, work.
const MODULES: [&str; 40] = [
    "bnxt_en",
    "bnxt_re",
    "cxgb4",
    "efa",
    "erdma",
    "gdrdrv",
    "hfi1",
    "hns_roce_hw_v2",
    "i40e",
    "ib_cm",
    "ib_core",
    "ib_ipoib",
    "ib_iser",
    "ib_isert",
    "ib_srp",
    "ib_umad",
    "ib_uverbs",
    "ice",
    "ionic",
    "ionic_rdma",
    "irdma",
    "iw_cm",
    "iw_cxgb4",
    "mana",
    "mana_ib",
    "mlx4_core",
    "mlx4_en",
    "mlx4_ib",
    "mlx5_core",
    "mlx5_ib",
    "mlx_compat",
    "nv_peer_mem",
    "nvidia",
    "nvidia_peermem",
    "qedr",
    "rdma_cm",
    "rdma_rxe",
    "rdma_ucm",
    "siw",
    "vmw_pvrdma",
];

/// Everything about the machine apart from its devices. `libibverbs` and `rdma_shared` have no file on a live machine: whoever asks
/// the library and netlink puts them in.
pub(crate) fn system(tree: &Tree) -> System {
    let modules = modules(tree);
    System {
        kernel: owed(tree, "proc/sys/kernel/osrelease", parse::plain),
        booted_at: beginning(tree, "proc/stat", LONG_BYTES_MAX, boot_time),
        virtual_machine: virtual_machine(tree),
        container: container::inside(tree),
        peer_memory: peer_memory(tree, &modules),
        modules,
        rdma_shared: rdma_netlink::shared(tree),
        iommu_translates: iommu_translates(tree),
        idle_exit_us: idle_exit(tree),
        governor: tree.owed_within(
            "sys/devices/system/cpu",
            tree.parsed("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", parse::plain),
        ),
        libibverbs: libibverbs(tree),
        memlock_bytes: beginning(tree, "proc/self/limits", SHORT_BYTES_MAX, memlock),
        memory_max_bytes: memory_max(tree),
        memory_available_bytes: beginning(tree, "proc/meminfo", SHORT_BYTES_MAX, memory_available),
    }
}

fn owed<T>(tree: &Tree, path: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Reading<T> {
    tree.owed(path, tree.parsed(path, parse))
}

/// A file that is always there, of which the beginning holds what is asked.
pub(crate) fn beginning<T>(
    tree: &Tree,
    path: &str,
    most: usize,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Reading<T> {
    match tree.owed(path, tree.beginning(path, most)) {
        Reading::Value(text) => {
            parse(&text).map_or_else(|why| Reading::Failed(format!("reading {path}: {why}")), Reading::Value)
        }
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

/// The rest of the line that begins with a word.
fn line<'a>(text: &'a str, word: &str) -> Result<&'a str, String> {
    text.lines()
        .find_map(|line| line.strip_prefix(word))
        .map(str::trim)
        .ok_or_else(|| format!("there is no line '{}'", word.trim()))
}

/// `btime` of `/proc/stat`: seconds since 1970.
fn boot_time(text: &str) -> Result<Wall, String> {
    let seconds: u64 = parse::number(line(text, "btime ")?)?;
    seconds.checked_mul(1000).map(Wall).ok_or_else(|| "the time of boot is out of range".to_owned())
}

/// The flag that hypervisors set for their guests. Processors other than x86 have no such flag: then it is not known.
fn virtual_machine(tree: &Tree) -> Reading<bool> {
    match beginning(tree, "proc/cpuinfo", PROCESSOR_BYTES_MAX, |text| Ok(processor_flags(text))) {
        Reading::Value(Some(hypervisor)) => Reading::Value(hypervisor),
        Reading::Value(None) | Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

fn processor_flags(text: &str) -> Option<bool> {
    let (_, flags) = text.lines().find(|line| line.starts_with("flags"))?.split_once(':')?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// `Max locked memory   8388608   8388608   bytes`: the first number is the limit that counts.
pub(crate) fn memlock(text: &str) -> Result<u64, String> {
    let rest = line(text, "Max locked memory ")?;
    match rest.split_whitespace().next() {
        Some("unlimited") => Ok(u64::MAX),
        Some(bytes) => parse::number(bytes),
        None => Err("there is no number in the line 'Max locked memory'".to_owned()),
    }
}

fn memory_available(text: &str) -> Result<u64, String> {
    let kibibytes: u64 = parse::number(line(text, "MemAvailable:")?.trim_end_matches("kB").trim())?;
    kibibytes.checked_mul(1024).ok_or_else(|| "MemAvailable is out of range".to_owned())
}

fn modules(tree: &Tree) -> Reading<BTreeMap<String, String>> {
    if !tree.is_there("sys/module") {
        return tree.owed("sys/module", Reading::Absent);
    }
    let mut loaded = BTreeMap::new();
    for name in MODULES {
        let folder = format!("sys/module/{name}");
        if tree.is_there(&folder) {
            // Modules of the kernel itself give no version; one that cannot be read is as good as none.
            let version = tree.parsed(&format!("{folder}/version"), parse::plain);
            loaded.insert(name.to_owned(), version.value().cloned().unwrap_or_default());
        }
    }
    Reading::Value(loaded)
}

/// Folder in which the RDMA core of NVIDIA's driver package lists peer memory clients.
const PEERS: &str = "sys/kernel/mm/memory_peers";

/// Without NVIDIA's driver there is nothing to register. The kernel's own RDMA core has no such list: a module that is loaded there
/// serves nobody.
fn peer_memory(tree: &Tree, modules: &Reading<BTreeMap<String, String>>) -> Reading<bool> {
    let loaded = match modules {
        Reading::Value(modules) => modules.contains_key("nvidia"),
        Reading::Absent => false,
        Reading::Failed(why) => return Reading::Failed(why.clone()),
    };
    match tree.list(PEERS) {
        Reading::Value(peers) if peers.iter().any(|name| name.starts_with("nv_mem")) => Reading::Value(true),
        Reading::Failed(why) => Reading::Failed(why),
        Reading::Value(_) | Reading::Absent if loaded => Reading::Value(false),
        Reading::Value(_) | Reading::Absent => Reading::Absent,
    }
}

const LIBIBVERBS: &str = "rdmascope/libibverbs";

/// The file in which a capture keeps whether the library can be loaded: `ok`, or why not.
pub(crate) fn library_file(library: &Reading<()>) -> Option<(String, String)> {
    let text = match library {
        Reading::Value(()) => "ok",
        Reading::Failed(why) => why,
        Reading::Absent => return None,
    };
    Some((LIBIBVERBS.to_owned(), format!("{text}\n")))
}

fn libibverbs(tree: &Tree) -> Reading<()> {
    if tree.is_real() {
        return crate::verbs::library();
    }
    match owed(tree, LIBIBVERBS, parse::plain) {
        Reading::Value(text) if text == "ok" => Reading::Value(()),
        // Why it could not be loaded.
        Reading::Value(_) | Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

const GROUPS: &str = "sys/kernel/iommu_groups";

/// No group: no IOMMU is on. `iommu=pt` passes all addresses through; a kernel that was built so says it in the type of its groups
/// (`identity`, Documentation/ABI/testing/sysfs-kernel-iommu_groups).
fn iommu_translates(tree: &Tree) -> Reading<bool> {
    let first = match tree.owed_within("sys/kernel", tree.list(GROUPS)) {
        Reading::Value(groups) => groups.into_iter().next(),
        Reading::Absent => None,
        Reading::Failed(why) => return Reading::Failed(why),
    };
    let Some(first) = first else { return Reading::Value(false) };
    match beginning(tree, "proc/cmdline", SHORT_BYTES_MAX, |text| Ok(passes_through(text))) {
        Reading::Value(true) => Reading::Value(false),
        Reading::Value(false) => match tree.text(&format!("{GROUPS}/{first}/type")) {
            Reading::Value(kind) => Reading::Value(kind != "identity"),
            // Kernels before 5.11 have no such file; they translate unless they are told not to.
            Reading::Absent => Reading::Value(true),
            Reading::Failed(why) => Reading::Failed(why),
        },
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

/// Words of the kernel's command line (`Documentation/admin-guide/kernel-parameters.txt`).
fn passes_through(command_line: &str) -> bool {
    command_line.split_whitespace().any(|word| {
        matches!(word, "iommu=pt" | "iommu.passthrough=1" | "iommu=off" | "intel_iommu=off" | "amd_iommu=off")
    })
}

/// Exit latency of the deepest idle state of processor 0 that is not switched off; `Absent` where there are no idle states
/// (virtual machines, `idle=poll`).
fn idle_exit(tree: &Tree) -> Reading<u32> {
    let base = "sys/devices/system/cpu/cpu0/cpuidle";
    let states = match tree.owed_within("sys/devices/system/cpu", tree.list(base)) {
        Reading::Value(states) => states,
        Reading::Absent => return Reading::Absent,
        Reading::Failed(why) => return Reading::Failed(why),
    };
    let mut deepest = Reading::Absent;
    for state in states.iter().filter(|name| name.starts_with("state")).take(IDLE_STATES_MAX) {
        let number = |file: &str| owed(tree, &format!("{base}/{state}/{file}"), parse::number::<u32>);
        let latency = match (number("disable"), number("latency")) {
            (Reading::Value(0), Reading::Value(latency)) => latency,
            (Reading::Value(_), Reading::Value(_)) => continue,
            (Reading::Failed(why), _) | (_, Reading::Failed(why)) => return Reading::Failed(why),
            (Reading::Absent, _) | (_, Reading::Absent) => continue,
        };
        deepest = Reading::Value(deepest.value().map_or(latency, |known| latency.max(*known)));
    }
    deepest
}

/// The smallest limit of our control group and of those above it (version 2, `Documentation/admin-guide/cgroup-v2.rst`). `Absent`
/// with version 1 alone.
fn memory_max(tree: &Tree) -> Reading<u64> {
    let own = beginning(tree, "proc/self/cgroup", SHORT_BYTES_MAX, |text| {
        Ok(text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned))
    });
    let group = match own {
        Reading::Value(Some(group)) => group,
        Reading::Value(None) | Reading::Absent => return Reading::Absent,
        Reading::Failed(why) => return Reading::Failed(why),
    };
    if !tree.is_there("sys/fs/cgroup") {
        return tree.owed("sys/fs/cgroup", Reading::Absent);
    }
    let mut smallest = u64::MAX;
    // `..` leads out of a namespace, to where nothing can be seen.
    let parts: Vec<&str> = group.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
    for depth in 0..=parts.len() {
        let folder: String = parts[..depth].iter().map(|part| format!("/{part}")).collect();
        let limit = tree.parsed(&format!("sys/fs/cgroup{folder}/memory.max"), |text| match text {
            "max" => Ok(u64::MAX),
            bytes => parse::number(bytes),
        });
        match limit {
            Reading::Value(bytes) => smallest = smallest.min(bytes),
            // The topmost group has no limit, and groups without the memory controller have none of their own.
            Reading::Absent => {}
            Reading::Failed(why) => return Reading::Failed(why),
        }
    }
    Reading::Value(smallest)
}

#[cfg(test)]
#[path = "system_tests.rs"]
mod tests;
