//! The machine's own readings, healthy and odd.

use super::*;
use rdmascope_fixtures::{FakeHost, Folder, snapshot};

fn seen(change: impl FnOnce(&Folder)) -> System {
    let host = FakeHost::mlx5(1);
    change(host.folder());
    system(&Tree::open(host.root()).unwrap())
}

#[test]
fn a_healthy_machine_is_read_whole() {
    assert_eq!(seen(|_| ()), snapshot::roce(1).system);
}

#[test]
fn an_empty_capture_tells_nothing_and_says_so() {
    let folder = Folder::new();
    let system = system(&Tree::open(folder.path()).unwrap());
    let missing = |why: Option<&str>| {
        assert!(why.is_some_and(|why| why.contains("not part of this capture")), "{why:?}")
    };
    missing(system.kernel.why_missing());
    missing(system.booted_at.why_missing());
    missing(system.virtual_machine.why_missing());
    missing(system.container.why_missing());
    missing(system.modules.why_missing());
    missing(system.rdma_shared.why_missing());
    missing(system.iommu_translates.why_missing());
    missing(system.idle_exit_us.why_missing());
    missing(system.governor.why_missing());
    missing(system.libibverbs.why_missing());
    missing(system.memlock_bytes.why_missing());
    missing(system.memory_max_bytes.why_missing());
    missing(system.memory_available_bytes.why_missing());
    missing(system.peer_memory.why_missing());
}

#[test]
fn a_guest_is_known_by_its_processor_flag_and_other_processors_have_none() {
    let x86 = "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n\nprocessor\t: 1\n";
    assert_eq!(seen(|f| f.write("proc/cpuinfo", x86)).virtual_machine, Reading::Value(true));
    let arm = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n";
    assert_eq!(seen(|f| f.write("proc/cpuinfo", arm)).virtual_machine, Reading::Absent);
    // Longer than what is read: 256 processors.
    let many = "processor\t: 0\nflags\t\t: fpu vme\n\n".repeat(2000);
    assert_eq!(seen(|f| f.write("proc/cpuinfo", &many)).virtual_machine, Reading::Value(false));
}

#[test]
fn the_iommu_translates_unless_it_is_off_or_passes_through() {
    let with = |command_line: &str, kind: Option<&str>| {
        seen(|f| {
            f.write("proc/cmdline", command_line);
            f.remove("sys/kernel/iommu_groups/0/type");
            if let Some(kind) = kind {
                f.write("sys/kernel/iommu_groups/0/type", kind);
            }
        })
        .iommu_translates
    };
    assert_eq!(with("root=/dev/sda1 intel_iommu=on iommu=pt", None), Reading::Value(false));
    assert_eq!(with("root=/dev/sda1 intel_iommu=on", Some("DMA-FQ")), Reading::Value(true));
    assert_eq!(with("root=/dev/sda1", Some("identity")), Reading::Value(false));
    assert_eq!(with("root=/dev/sda1", None), Reading::Value(true));
    let off = |f: &Folder| f.remove("sys/kernel/iommu_groups");
    assert_eq!(seen(off).iommu_translates, Reading::Value(false));
}

#[test]
fn the_deepest_idle_state_is_the_one_that_is_not_switched_off() {
    let state = "sys/devices/system/cpu/cpu0/cpuidle/state2/disable";
    assert_eq!(seen(|f| f.write(state, "0")).idle_exit_us, Reading::Value(133));
    assert!(matches!(seen(|f| f.remove(state)).idle_exit_us, Reading::Failed(_)));
    assert_eq!(seen(|f| f.remove("sys/devices/system/cpu/cpu0/cpuidle")).idle_exit_us, Reading::Absent);
}

#[test]
fn limits_are_read_in_bytes() {
    let line = "Max open files            1024                 4096                 files     \n\
                Max locked memory         8388608              8388608              bytes     \n";
    assert_eq!(seen(|f| f.write("proc/self/limits", line)).memlock_bytes, Reading::Value(8_388_608));
    let nested = seen(|f| {
        f.write("proc/self/cgroup", "1:name=systemd:/x\n0::/a.slice/b.scope\n");
        f.write("sys/fs/cgroup/a.slice/memory.max", "1073741824\n");
        f.write("sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n");
    });
    assert_eq!(nested.memory_max_bytes, Reading::Value(1 << 30));
    let old = seen(|f| f.write("proc/self/cgroup", "4:memory:/x\n"));
    assert_eq!(old.memory_max_bytes, Reading::Absent);
}

#[test]
fn peer_memory_is_asked_only_where_there_is_a_gpu_driver() {
    let module = |f: &Folder| f.write("sys/module/nvidia/version", "550.54.15\n");
    assert_eq!(seen(module).peer_memory, Reading::Value(false));
    let registered = seen(|f| {
        module(f);
        f.write("sys/kernel/mm/memory_peers/nv_mem_nc/version", "550.54.15\n");
    });
    assert_eq!(registered.peer_memory, Reading::Value(true));
    assert_eq!(registered.modules.value().unwrap()["nvidia"], "550.54.15");
}

#[test]
fn a_library_that_does_not_load_is_not_there() {
    let why = "libibverbs.so.1: cannot open shared object file";
    assert_eq!(seen(|f| f.write("rdmascope/libibverbs", why)).libibverbs, Reading::Absent);
    assert_eq!(seen(|f| f.write("rdmascope/rdma/system", "exclusive\n")).rdma_shared, Reading::Value(false));
}

#[test]
fn the_machine_that_runs_this_test_is_read_too() {
    let system = system(&Tree::open(std::path::Path::new("/")).unwrap());
    assert!(system.kernel.value().is_some() && system.memlock_bytes.value().is_some());
    let Reading::Value(Wall(booted)) = system.booted_at else { panic!("{:?}", system.booted_at) };
    let now = crate::Clock::new().now().wall.0;
    assert!(booted > 1_500_000_000_000 && booted < now, "{booted}");
    assert!(system.memory_available_bytes.value().is_some_and(|bytes| *bytes > 1 << 20));
    assert!(system.container.value().is_some(), "{:?}", system.container);
}
