//! One odd file costs the readings that come from it, and no other: tried with every file of a machine.

use rdmascope_fixtures::FakeHost;
use rdmascope_host::{Host, PortMtu};
use rdmascope_model::{Reading, Snapshot};
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
        for port in &device.ports {
            let p = format!("{d}/{}", port.number);
            put(format!("{p} state"), &port.state);
            put(format!("{p} phys_state"), &port.phys_state);
            put(format!("{p} link_layer"), &port.link_layer);
            put(format!("{p} rate"), &port.rate_bps);
            put(format!("{p} lid"), &port.lid);
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
    }
    all
}

/// Names of the readings that may change with a file.
fn readings_of(path: &str, device: &str, netdev: &str) -> Vec<String> {
    let parts: Vec<&str> = path.rsplitn(4, '/').collect();
    let port = format!("{device}/1");
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
        ["ibdev", ..] => vec![format!("{device} uverbs")],
        [file @ ("active_mtu" | "max_mtu"), ..] => vec![format!("{port} {file}")],
        [file, "1", ..] => vec![format!("{port} {file}")],
        [file, "statistics", ..] => vec![format!("{netdev} {file}")],
        [file, place, ..] if place == netdev => vec![format!("{netdev} {file}")],
        [file, ..] => vec![format!("{device} {file}")],
        [] => Vec::new(),
    }
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn every_file_alone(host: &FakeHost, device: &str, netdev: &str) {
    let healthy = flat(&read(host));
    assert!(healthy.len() > 40, "the fake machine is read at all: {}", healthy.len());
    let files = host.folder().files();
    let mut never_noticed = BTreeSet::new();
    for file in &files {
        let mut noticed = false;
        for damage in ["unreadable", "garbage", "removed"] {
            let text = host.folder().text(file);
            match damage {
                "unreadable" => host.folder().unreadable(file),
                "garbage" => host.folder().write(file, "\u{1b}[2J\u{7}garbage"),
                _ => host.folder().remove(file),
            }
            let seen = flat(&read(host));
            if damage != "removed" {
                host.folder().remove(file);
            }
            host.folder().write(file, &text);
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
    let expected: BTreeSet<String> =
        ["abi_version", "dev_port", "hca_type", "lifespan", "parent", "type", "uevent"]
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
