//! Can adapters reach GPU memory without going through the host's?

use crate::check::{Check, Look, Settles};
use crate::checks::pci::is_gpu;
use crate::finding::{ok, unknown, why};
use crate::verdict::Verdict;
use rdmascope_model::{Finding, Reading};

const ID: &str = "gpudirect";

/// NVIDIA's vendor id: other vendors' drivers bring their own way.
const NVIDIA: u16 = 0x10de;
/// Modules that register GPU memory with the RDMA core.
const MODULES: [&str; 3] = ["nvidia_peermem", "nv_peer_mem", "nv_peermem"];
/// First kernel whose RDMA core takes dma-buf memory.
const DMA_BUF_KERNEL: (u32, u32) = (5, 12);

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Can RDMA adapters reach GPU memory (GPUDirect RDMA)?",
    meaning: "Without it all GPU traffic is copied through host memory: a third of the bandwidth, and a busy processor.",
    causes: &[
        "the module nvidia_peermem is not loaded, or was loaded before the RDMA driver",
        "GPU driver without dma-buf support",
    ],
    next_steps: &[
        "`lsmod | grep peermem`; `modprobe nvidia-peermem`, and at boot (`/etc/modules-load.d`); `NCCL_DEBUG=INFO` shows GDRDMA on its channels.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let subject = "machine".to_owned();
    let system = &look.now.system;
    let all = match &look.now.pci {
        Reading::Value(all) => all,
        Reading::Absent => return Vec::new(),
        failed => return vec![unknown(ID, subject, "the PCI functions", why(failed))],
    };
    let gpus = all.values().filter(|f| is_gpu(f) && f.vendor == Reading::Value(NVIDIA)).count();
    let devices = look.now.devices.value().is_some_and(|devices| !devices.is_empty());
    if gpus == 0 || !devices {
        return vec![ok(ID, subject, "no NVIDIA GPU beside an RDMA adapter".to_owned())];
    }
    if system.peer_memory == Reading::Value(true) {
        return vec![ok(ID, subject, "NVIDIA's peer memory is registered with the RDMA core".to_owned())];
    }
    let loaded = match &system.modules {
        Reading::Value(modules) => MODULES.into_iter().find(|name| modules.contains_key(*name)),
        Reading::Absent => None,
        failed => return vec![unknown(ID, subject, "the loaded modules", why(failed))],
    };
    if let Some(module) = loaded {
        return vec![ok(ID, subject, format!("module {module} is loaded"))];
    }
    let kernel = system.kernel.value().map_or("not known", String::as_str);
    let evidence = vec![
        format!("gpus = {gpus}"),
        format!("kernel = {kernel}"),
        "module nvidia_peermem = not loaded".to_owned(),
    ];
    let next = "`modprobe nvidia-peermem`, and at boot: `echo nvidia-peermem > /etc/modules-load.d/nvidia-peermem.conf`; then `NCCL_DEBUG=INFO` must show GDRDMA.";
    let verdict = match version(kernel) {
        Some(version) if version < DMA_BUF_KERNEL => Verdict::fail(
            format!("{gpus} GPUs, nvidia_peermem is not loaded, and kernel {kernel} has no dma-buf for RDMA"),
            "a setting of this host: GPU traffic is copied through host memory",
            next,
        ),
        _ => Verdict::warn(
            format!(
                "{gpus} GPUs and nvidia_peermem is not loaded; whether the GPU driver offers dma-buf is not known"
            ),
            "a setting of this host, unless the open GPU modules give dma-buf",
            next,
        ),
    };
    vec![verdict.finding(ID, subject, evidence)]
}

/// Major and minor version of a kernel release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::first;
    use rdmascope_fixtures::snapshot::add_gpu;
    use rdmascope_model::{Snapshot, Status};

    fn with_gpu(edit: impl Fn(&mut Snapshot)) -> Finding {
        first(&CHECK, |m| {
            add_gpu(m, "0000:3c:00.0");
            edit(m);
        })
        .remove(0)
    }

    #[test]
    fn c044_neither_module_nor_dma_buf() {
        let found = with_gpu(|m| m.system.kernel = Reading::Value("5.4.0-150-generic".into()));
        assert_eq!(found.status, Status::Fail);
        assert!(found.next_step.contains("modprobe nvidia-peermem"));
        // A kernel that has dma-buf: whether the GPU driver has it is not known.
        assert_eq!(with_gpu(|_| ()).status, Status::Warn);
    }

    #[test]
    fn either_way_is_enough_and_without_gpus_nothing_is_asked() {
        assert_eq!(with_gpu(|m| m.system.peer_memory = Reading::Value(true)).status, Status::Ok);
        let module = with_gpu(|m| {
            let Reading::Value(modules) = &mut m.system.modules else { panic!("no modules") };
            modules.insert("nvidia_peermem".into(), "550.54".into());
        });
        assert_eq!(module.status, Status::Ok);
        assert_eq!(first(&CHECK, |_| ())[0].status, Status::Ok);
        assert_eq!((version("6.1.0-44-amd64"), version("next")), (Some((6, 1)), None));
    }
}
