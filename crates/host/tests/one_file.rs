//! One odd file costs the readings that come from it, and no other: tried with every file of a machine.

use rdmascope_fixtures::FakeHost;
use rdmascope_host::{Host, PortMtu};
use rdmascope_model::{Reading, Snapshot, System};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

fn read(host: &FakeHost) -> Snapshot {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime can be made");
    let host = Host::new(host.root().to_owned()).expect("the root is there");
    runtime.block_on(host.snapshot(|_, _| PortMtu::failed("a capture must not ask the real machine")))
}

/// Every reading under a name of its own.
fn flat(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut put = |name: String, reading: &dyn Debug| all.insert(name, format!("{reading:?}"));
    for device in snapshot.devices.value().expect("devices are read") {
        let d = &device.name;
        put(format!("{d} node_guid"), &device.node_guid);
        put(format!("{d} fw_ver"), &device.firmware);
        put(format!("{d} node_type"), &device.node_type);
        put(format!("{d} board_id"), &device.board);
        put(format!("{d} driver"), &device.driver);
        put(format!("{d} pci"), &device.pci_address);
        put(format!("{d} numa_node"), &device.numa_node);
        put(format!("{d} uverbs"), &device.uverbs);
        put(format!("{d} function"), &device.function);
        put(format!("{d} devlink"), &device.devlink);
        put(format!("{d} hca_type"), &device.card);
        put(format!("{d} sys_image_guid"), &device.system_guid);
        for node in &device.nodes {
            put(format!("{d} node {}", node.name), &node.mode);
            put(format!("{d} node {} open", node.name), &node.open);
        }
        for port in &device.ports {
            let p = format!("{d}/{}", port.number);
            put(format!("{p} state"), &port.state);
            put(format!("{p} phys_state"), &port.phys_state);
            put(format!("{p} link_layer"), &port.link_layer);
            put(format!("{p} rate"), &port.rate_bps);
            put(format!("{p} lid"), &port.lid);
            put(format!("{p} sm_lid"), &port.sm_lid);
            put(format!("{p} pkeys"), &port.pkeys);
            put(format!("{p} active_mtu"), &port.active_mtu);
            put(format!("{p} max_mtu"), &port.max_mtu);
            put(format!("{p} netdev"), &port.netdev);
            put(format!("{p} gids_unread"), &port.gids_unread);
            for entry in port.gids.value().expect("the GID table is listed") {
                put(format!("{p} gid {}", entry.index), &entry.gid);
                put(format!("{p} gid type {}", entry.index), &entry.kind);
                put(format!("{p} gid netdev {}", entry.index), &entry.netdev);
            }
            for (name, value) in &port.counters {
                put(format!("{p} counter {name}"), value);
            }
        }
    }
    netdevs(snapshot, &mut all);
    pci(snapshot, &mut all);
    system(&snapshot.system, &mut all);
    routing(snapshot, &mut all);
    all
}

fn netdevs(snapshot: &Snapshot, all: &mut BTreeMap<String, String>) {
    let mut put = |name: String, reading: &dyn Debug| all.insert(name, format!("{reading:?}"));
    for (n, netdev) in snapshot.netdevs.value().expect("network devices are read") {
        put(format!("{n} ifindex"), &netdev.index);
        put(format!("{n} mtu"), &netdev.mtu);
        put(format!("{n} operstate"), &netdev.oper_state);
        put(format!("{n} flags"), &netdev.admin_up);
        put(format!("{n} carrier"), &netdev.carrier);
        put(format!("{n} carrier_changes"), &netdev.carrier_changes);
        put(format!("{n} tx_bytes"), &netdev.tx_bytes);
        put(format!("{n} rx_bytes"), &netdev.rx_bytes);
        put(format!("{n} addresses"), &netdev.addresses);
        put(format!("{n} carrier_down_count"), &netdev.carrier_down_count);
        put(format!("{n} type"), &netdev.hardware);
        put(format!("{n} kind"), &netdev.kind);
        put(format!("{n} parent"), &netdev.parent);
        put(format!("{n} phys_port_name"), &netdev.phys_port_name);
        put(format!("{n} lldp"), &netdev.lldp);
        put(format!("{n} dev_port"), &netdev.dev_port);
        put(format!("{n} arp_ignore"), &netdev.arp_ignore);
        put(format!("{n} arp_announce"), &netdev.arp_announce);
        put(format!("{n} rp_filter"), &netdev.rp_filter);
        put(format!("{n} pci"), &netdev.pci_address);
        put(format!("{n} netdev driver"), &netdev.driver);
    }
}

fn routing(snapshot: &Snapshot, all: &mut BTreeMap<String, String>) {
    all.insert("routes".to_owned(), format!("{:?}", snapshot.routing.routes));
    all.insert("rules".to_owned(), format!("{:?}", snapshot.routing.own_rules));
    all.insert("neighbours".to_owned(), format!("{:?}", snapshot.routing.unresolved));
    all.insert("workloads".to_owned(), format!("{:?}", snapshot.workloads));
}

fn pci(snapshot: &Snapshot, all: &mut BTreeMap<String, String>) {
    for (address, function) in snapshot.pci.value().expect("PCI functions are read") {
        let mut put =
            |what: &str, reading: &dyn Debug| all.insert(format!("{address} {what}"), format!("{reading:?}"));
        put("vendor", &function.vendor);
        put("device", &function.device);
        put("class", &function.class);
        put("current_link_speed", &function.link.speed_mts);
        put("max_link_speed", &function.link.speed_max_mts);
        put("current_link_width", &function.link.width);
        put("max_link_width", &function.link.width_max);
        put("errors", &function.errors);
        put("config", &function.acs_control);
        put("numa_node", &function.numa_node);
        put("params", &function.enable_roce);
    }
}

fn system(system: &System, all: &mut BTreeMap<String, String>) {
    let mut put = |name: &str, reading: &dyn Debug| all.insert(name.to_owned(), format!("{reading:?}"));
    put("kernel", &system.kernel);
    put("booted_at", &system.booted_at);
    put("virtual_machine", &system.virtual_machine);
    put("container", &system.container);
    put("modules", &system.modules);
    put("rdma_shared", &system.rdma_shared);
    put("iommu_translates", &system.iommu_translates);
    put("idle_exit_us", &system.idle_exit_us);
    put("governor", &system.governor);
    put("libibverbs", &system.libibverbs);
    put("memlock_bytes", &system.memlock_bytes);
    put("memory_max_bytes", &system.memory_max_bytes);
    put("memory_available_bytes", &system.memory_available_bytes);
    put("peer_memory", &system.peer_memory);
}

/// Names of the readings that may change with a file.
fn readings_of(path: &str, device: &str, netdev: &str) -> Vec<String> {
    let parts: Vec<&str> = path.rsplitn(4, '/').collect();
    let port = format!("{device}/1");
    if let Some(readings) = readings_of_the_machine(path, device) {
        return readings;
    }
    match parts[..] {
        [slot, "gids", ..] => ["gid", "gid type", "gid netdev"]
            .iter()
            .map(|what| format!("{port} {what} {slot}"))
            .chain([format!("{port} gids_unread")])
            .collect(),
        [slot, "types", ..] => vec![format!("{port} gid type {slot}")],
        // The port's own network device is that of its lowest used slot.
        [slot, "ndevs", ..] => vec![format!("{port} gid netdev {slot}"), format!("{port} netdev")],
        [name, "counters" | "hw_counters", ..] => vec![format!("{port} counter {name}")],
        ["ibdev", node, "infiniband_mad", ..] | ["port", node, ..] => node_readings(device, node),
        ["ibdev", node, ..] => {
            node_readings(device, node).into_iter().chain([format!("{device} uverbs")]).collect()
        }
        [_, "pkeys", ..] => vec![format!("{port} pkeys")],
        ["link", ..] => vec![format!("{netdev} kind"), format!("{netdev} parent")],
        // A representor is told by its name.
        ["phys_port_name", ..] => vec![format!("{netdev} phys_port_name"), format!("{device} function")],
        ["health" | "info", ..] => vec![format!("{device} devlink")],
        ["params", address, ..] => vec![format!("{address} params")],
        [setting, _, "conf", ..] => vec![format!("{netdev} {setting}")],
        [file, address, ..] if address.starts_with("0000:") && path.starts_with("sys/devices") => {
            readings_of_a_function(file, address, device)
        }
        [file @ ("active_mtu" | "max_mtu"), ..] => vec![format!("{port} {file}")],
        [file, "1", ..] => vec![format!("{port} {file}")],
        [file, "statistics", ..] => vec![format!("{netdev} {file}")],
        [file, place, ..] if place == netdev => vec![format!("{netdev} {file}")],
        [file, ..] => vec![format!("{device} {file}")],
        [] => Vec::new(),
    }
}

/// Files of the machine itself, each with its one reading.
fn readings_of_the_machine(path: &str, device: &str) -> Option<Vec<String>> {
    let name = match path {
        "proc/sys/kernel/osrelease" => "kernel",
        "proc/stat" => "booted_at",
        "proc/cpuinfo" => "virtual_machine",
        "proc/cmdline" | "sys/kernel/iommu_groups/0/type" => "iommu_translates",
        "proc/self/limits" => "memlock_bytes",
        "proc/self/mountinfo" => "container",
        "proc/meminfo" => "memory_available_bytes",
        "rdmascope/libibverbs" => "libibverbs",
        "rdmascope/rdma/system" => "rdma_shared",
        "rdmascope/rdma/queue_pairs" => "workloads",
        "rdmascope/routes" | "rdmascope/rules" | "rdmascope/neighbours" => last(path),
        // Our control group says which limit is ours, and names a container's runtime.
        "proc/self/cgroup" => return Some(vec!["memory_max_bytes".to_owned(), "container".to_owned()]),
        "rdmascope/device_nodes" => {
            return Some(["uverbs0", "umad0"].iter().flat_map(|node| node_readings(device, node)).collect());
        }
        _ if path.starts_with("sys/fs/cgroup") => "memory_max_bytes",
        _ if path.contains("/cpuidle/") => "idle_exit_us",
        _ if path.ends_with("/scaling_governor") => "governor",
        _ => return None,
    };
    Some(vec![name.to_owned()])
}

fn node_readings(device: &str, node: &str) -> Vec<String> {
    vec![format!("{device} node {node}"), format!("{device} node {node} open")]
}

/// Files of a PCI function. Its NUMA node is the RDMA device's too; its ids tell what kind of function that is.
fn readings_of_a_function(file: &str, address: &str, device: &str) -> Vec<String> {
    let own = |file: &str| format!("{address} {file}");
    match file {
        "numa_node" => vec![own(file), format!("{device} numa_node")],
        "vendor" | "device" => vec![own(file), format!("{device} function")],
        // Without it a bridge may be a controller that RoCE is offered for.
        "class" => vec![own(file), own("params")],
        _ if file.starts_with("aer_dev") => vec![own("errors")],
        _ => vec![own(file)],
    }
}

/// Files that other readers and their tests look after.
fn is_of_others(path: &str) -> bool {
    let texts = ["dcb", "ethtool", "module", "statistics"];
    path.starts_with("rdmascope/earlier/")
        || path.starts_with("rdmascope/netdev/") && texts.contains(&last(path))
        || path.contains("/ecn/roce_")
        || ["kernel-log", "taken_at"].contains(&last(path))
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn every_file_alone(host: &FakeHost, device: &str, netdev: &str) {
    let healthy = flat(&read(host));
    assert!(healthy.len() > 40, "the fake machine is read at all: {}", healthy.len());
    let files: Vec<String> = host.folder().files().into_iter().filter(|path| !is_of_others(path)).collect();
    let mut never_noticed = BTreeSet::new();
    for file in &files {
        let mut noticed = false;
        for damage in ["unreadable", "garbage", "removed"] {
            let before = host.folder().bytes(file);
            match damage {
                "unreadable" => host.folder().unreadable(file),
                "garbage" => host.folder().write(file, "\u{1b}[2J\u{7}garbage"),
                _ => host.folder().remove(file),
            }
            let seen = flat(&read(host));
            if damage != "removed" {
                host.folder().remove(file);
            }
            host.folder().write_bytes(file, &before);
            let allowed = readings_of(file, device, netdev);
            for name in healthy.keys().chain(seen.keys()).collect::<BTreeSet<_>>() {
                let same = healthy.get(name) == seen.get(name);
                noticed |= !same;
                assert!(
                    same || allowed.contains(name),
                    "{damage} {file} changed '{name}': {:?}",
                    seen.get(name)
                );
                if let (false, Some(now)) = (same, seen.get(name)) {
                    let by_another_way = name.ends_with(" netdev") && now == &format!("Value(\"{netdev}\")");
                    let ok =
                        ["Absent", "Failed", "["].iter().any(|word| now.starts_with(word)) || by_another_way;
                    assert!(ok, "{damage} {file} made a value up for '{name}': {now}");
                }
            }
        }
        if !noticed {
            never_noticed.insert(last(file).to_owned());
        }
    }
    // Files that are there in the machine and that nothing is read from, or only as a second source.
    let expected: BTreeSet<String> = ["abi_version", "initstate", "lifespan", "parent", "type", "uevent"]
        .into_iter()
        .filter(|name| files.iter().any(|file| last(file) == *name))
        .map(str::to_owned)
        .collect();
    assert_eq!(never_noticed, expected, "readings that do not notice the loss of their file");
}

#[test]
fn on_a_connectx_machine() {
    every_file_alone(&FakeHost::mlx5(1), "mlx5_0", "eth0");
}

#[test]
fn on_a_soft_roce_machine() {
    every_file_alone(&FakeHost::rxe(1), "rxe1", "w1");
}

#[test]
fn a_lost_counter_folder_is_no_healthy_port() {
    let host = FakeHost::mlx5(2);
    host.folder().remove(&host.port_file("mlx5_0", "hw_counters"));
    host.folder().write(&host.port_file("mlx5_0", "hw_counters"), "not a folder");
    let seen = read(&host);
    let devices = seen.devices.value().unwrap();
    assert!(matches!(devices[0].ports[0].counters.get("hw_counters/"), Some(Reading::Failed(_))));
    assert!(matches!(
        rdmascope_checks::counters::retransmits(&devices[0].ports[0].counters),
        Reading::Failed(_)
    ));
    assert_eq!(rdmascope_checks::counters::retransmits(&devices[1].ports[0].counters), Reading::Value(231));
}
