//! What the readers make of whole machines, and what the checks say of them.

use rdmascope_checks::{Look, Policy, run, worst};
use rdmascope_fixtures::{FakeHost, Folder, snapshot};
use rdmascope_host::{Host, HostError, PortMtu, Traffic, endpoints};
use rdmascope_model::{Cause, Finding, Function, LinkLayer, PhysState, PortState, Reading, Snapshot, Status};
use std::collections::BTreeMap;

fn host(fake: &FakeHost) -> Host {
    Host::new(fake.root().to_owned()).expect("the root is there")
}

fn read(host: &Host) -> Snapshot {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime can be made");
    runtime.block_on(host.snapshot(|_, _| PortMtu::failed("a capture must not ask the real machine")))
}

fn judged(fake: &FakeHost) -> Vec<Finding> {
    run(&Look::first(&read(&host(fake)), &Policy::default()))
}

/// Findings that are not ok, as `id status subject`.
#[track_caller]
fn complaints(findings: &[Finding], expected: &[&str]) {
    let found: Vec<String> = findings
        .iter()
        .filter(|f| f.status != Status::Ok)
        .map(|f| format!("{} {} {}", f.id, f.status.as_str(), f.subject))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_connectx_machine_is_read_as_the_kernel_shows_it() {
    let seen = read(&host(&FakeHost::mlx5(2)));
    let devices = seen.devices.value().unwrap();
    let device = &devices[1];
    assert_eq!(device.name, "mlx5_1");
    assert_eq!(device.node_guid, Reading::Value("0200:00ff:fe00:0002".into()));
    assert_eq!(device.firmware, Reading::Value("28.41.1000".into()));
    assert_eq!(device.node_type, Reading::Value("CA".into()));
    assert_eq!(device.board, Reading::Value("MT_0000000838".into()));
    assert_eq!(device.driver, Reading::Value("mlx5_core".into()));
    assert_eq!(device.pci_address, Reading::Value("0000:3b:00.1".into()));
    assert_eq!(device.numa_node, Reading::Value(0));
    assert_eq!(device.uverbs, Reading::Value("uverbs1".into()));
    let port = &device.ports[0];
    assert_eq!(port.state, Reading::Value(PortState::Active));
    assert_eq!(port.phys_state, Reading::Value(PhysState::LinkUp));
    assert_eq!(port.link_layer, Reading::Value(LinkLayer::Ethernet));
    assert_eq!(port.rate_bps, Reading::Value(100_000_000_000));
    assert_eq!(port.lid, Reading::Value(0));
    assert_eq!((&port.active_mtu, &port.max_mtu), (&Reading::Value(4096), &Reading::Value(4096)));
    assert_eq!(port.netdev, Reading::Value("eth1".into()));
    let indices: Vec<u32> = port.gids.value().unwrap().iter().map(|entry| entry.index).collect();
    assert_eq!(indices, [0, 1, 2, 3], "empty slots are left out, and their types are not asked for");
    assert_eq!(port.counters["port_xmit_wait"], Reading::Value(2_489_603_687));
    assert_eq!(port.counters["packet_seq_err"], Reading::Value(1));
    let netdev = &seen.netdevs.value().unwrap()["eth1"];
    assert_eq!((&netdev.mtu, &netdev.index), (&Reading::Value(9000), &Reading::Value(3)));
    assert_eq!((&netdev.admin_up, &netdev.carrier), (&Reading::Value(true), &Reading::Value(true)));
    assert_eq!(netdev.addresses.value().unwrap()[0].to_string(), "192.0.2.2/24");
}

#[test]
fn what_netlink_tells_is_in_the_snapshot() {
    let fake = FakeHost::mlx5(2);
    fake.folder().write(
        "rdmascope/devlink/0000:3b:00.1/health",
        "pci/0000:3b:00.1:\n  reporter fw_fatal\n    state error error 2 recover 1\n",
    );
    fake.folder().write(
        "rdmascope/netdev/eth1/lldp",
        "system: leaf-12\nport: Ethernet1/7\nframe_bytes_max: 9216\npfc: 3\nage_seconds: 20\n",
    );
    fake.folder()
        .write("rdmascope/routes", "default via 203.0.113.1 dev eth9\n192.0.2.0/24 dev eth1 table 101\n");
    let seen = read(&host(&fake));
    assert_eq!(seen.system.rdma_shared, Reading::Value(true));
    assert_eq!(
        (&seen.routing.own_rules, &seen.routing.unresolved),
        (&Reading::Value(2), &Reading::Value(vec![]))
    );
    let routes = seen.routing.routes.value().unwrap();
    assert_eq!((routes.len(), routes[0].to, routes[1].table), (2, None, 101));
    let devices = seen.devices.value().unwrap();
    let devlink = devices[1].devlink.value().unwrap();
    assert!(devlink.reporters[0].in_error && devlink.reporters[0].errors == 2);
    assert_eq!(devlink.running["fw.version"], "28.41.1000");
    let netdev = &seen.netdevs.value().unwrap()["eth1"];
    assert_eq!(
        (&netdev.kind, &netdev.parent, &netdev.master),
        (&Reading::Absent, &Reading::Absent, &Reading::Absent)
    );
    assert_eq!(netdev.hardware, Reading::Value(1));
    assert_eq!(netdev.lldp.value().unwrap().pfc, Reading::Value(1 << 3));
    // Software has no function under it, and a neighbour that says nothing is none.
    let soft = read(&host(&FakeHost::rxe(1)));
    assert_eq!(soft.devices.value().unwrap()[0].devlink, Reading::Absent);
    let netdev = &soft.netdevs.value().unwrap()["w1"];
    assert_eq!((&netdev.lldp, &netdev.kind), (&Reading::Absent, &Reading::Value("veth".into())));
    // What was not asked for is not taken for healthy.
    fake.folder().remove("rdmascope/devlink/0000:3b:00.1");
    let seen = read(&host(&fake));
    let devlink = &seen.devices.value().unwrap()[1].devlink;
    assert!(
        matches!(devlink, Reading::Failed(why) if why.contains("not part of this capture")),
        "{devlink:?}"
    );
}

#[test]
fn the_same_machine_as_files_and_as_readings() {
    let (seen, built) = (read(&host(&FakeHost::mlx5(2))), snapshot::roce(2));
    assert_eq!(seen.system, built.system);
    assert_eq!(seen.workloads, built.workloads);
    assert_eq!(seen.pci, built.pci);
    assert_eq!(seen.routing.own_rules, built.routing.own_rules);
    for (seen, built) in seen.devices.value().unwrap().iter().zip(built.devices.value().unwrap()) {
        assert_eq!((&seen.function, &seen.nodes), (&built.function, &built.nodes));
        assert_eq!((&seen.card, &seen.system_guid), (&built.card, &built.system_guid));
        assert_eq!(seen.devlink, built.devlink);
        let (port, expected) = (&seen.ports[0], &built.ports[0]);
        assert_eq!((&port.sm_lid, &port.pkeys), (&expected.sm_lid, &expected.pkeys));
        assert_eq!((&port.rate_bps, &port.gids), (&expected.rate_bps, &expected.gids));
    }
    for (name, built) in built.netdevs.value().unwrap() {
        let seen = &seen.netdevs.value().unwrap()[name];
        assert_eq!((&seen.pci_address, &seen.driver), (&built.pci_address, &built.driver));
        assert_eq!((&seen.dev_port, &seen.bond), (&built.dev_port, &built.bond));
        assert_eq!((&seen.arp_ignore, &seen.arp_announce), (&built.arp_ignore, &built.arp_announce));
        assert_eq!(&seen.rp_filter, &built.rp_filter);
    }
}

#[test]
fn an_infiniband_machine_has_no_network_device_and_is_well() {
    let fake = FakeHost::infiniband(2);
    let seen = read(&host(&fake));
    let port = &seen.devices.value().unwrap()[1].ports[0];
    assert_eq!((&port.link_layer, &port.netdev), (&Reading::Value(LinkLayer::InfiniBand), &Reading::Absent));
    assert_eq!((&port.lid, &port.sm_lid), (&Reading::Value(0x12a), &Reading::Value(1)));
    let nodes: Vec<&str> = seen.devices.value().unwrap()[1].nodes.iter().map(|node| &node.name[..]).collect();
    assert_eq!(nodes, ["uverbs1", "issm1", "umad1"]);
    complaints(&judged(&fake), &[]);
}

#[test]
fn what_a_minute_ago_was_is_a_machine_of_its_own() {
    let fake = FakeHost::mlx5(1);
    let before = read(&Host::new(fake.root().join("rdmascope/earlier")).unwrap());
    let now = read(&host(&fake));
    let sent = |snapshot: &Snapshot| {
        *snapshot.devices.value().unwrap()[0].ports[0].counters["port_xmit_packets"].value().unwrap()
    };
    assert_eq!(sent(&now) - sent(&before), 36_600_000);
    assert_eq!((&before.system, &before.pci), (&now.system, &now.pci));
    let counter = |snapshot: &Snapshot| {
        rdmascope_checks::counters::retransmits(&snapshot.devices.value().unwrap()[0].ports[0].counters)
    };
    assert_eq!(counter(&before), counter(&now));
}

#[test]
fn processes_that_should_use_rdma_are_named_by_the_caller() {
    let fake = FakeHost::mlx5(1);
    fake.folder().write("proc/12/comm", "python3\n");
    let names = |host: &Host| -> Vec<String> {
        read(host).workloads.value().unwrap().iter().map(|workload| workload.name.clone()).collect()
    };
    assert!(names(&host(&fake)).is_empty());
    assert_eq!(names(&host(&fake).with_workloads(&["python*".to_owned()])), ["python3"]);
}

#[test]
fn a_soft_roce_device_has_less_and_is_no_worse_for_it() {
    let fake = FakeHost::rxe(2);
    let seen = read(&host(&fake));
    let device = &seen.devices.value().unwrap()[0];
    assert_eq!((&device.firmware, &device.pci_address), (&Reading::Absent, &Reading::Absent));
    assert_eq!((&device.driver, &device.numa_node), (&Reading::Absent, &Reading::Absent));
    assert_eq!(device.function, Reading::Value(Function::Software));
    assert_eq!(seen.pci, Reading::Value(BTreeMap::new()));
    assert_eq!(device.ports[0].rate_bps, Reading::Value(10_000_000_000));
    assert_eq!(device.ports[0].netdev, Reading::Value("w1".into()));
    assert!(!device.ports[0].counters.contains_key("port_xmit_data"));
    complaints(&judged(&fake), &[]);
}

#[test]
fn healthy_machines_have_no_complaint_and_say_what_was_seen() {
    let findings = judged(&FakeHost::mlx5(2));
    complaints(&findings, &[]);
    assert_eq!(worst(&findings), Status::Ok);
    for id in [
        "device-present",
        "port-state",
        "port-phys-state",
        "gid-usable",
        "netdev-mtu",
        "rdma-mtu",
        "netdev-link",
    ] {
        assert!(findings.iter().any(|f| f.id == id && !f.summary.is_empty()), "{id} says nothing");
    }
}

#[test]
fn a_rate_that_cannot_be_read_is_unknown_not_fine() {
    let fake = FakeHost::mlx5(2);
    // The driver answers EINVAL where no transceiver is plugged.
    fake.folder().unreadable(&fake.port_file("mlx5_0", "rate"));
    let findings = judged(&fake);
    complaints(&findings, &["port-rate unknown mlx5_0/1"]);
    assert_eq!(worst(&findings), Status::Unknown);
}

#[test]
fn one_broken_thing_is_one_complaint() {
    let fake = FakeHost::mlx5(2);
    fake.remove_address("mlx5_1");
    complaints(&judged(&fake), &["gid-usable fail mlx5_1/1"]);

    let fake = FakeHost::mlx5(2);
    fake.set_mtu("mlx5_0", 9000, 1024);
    complaints(&judged(&fake), &["rdma-mtu fail mlx5_0/1"]);

    let fake = FakeHost::mlx5(2);
    fake.folder().write(&fake.port_file("mlx5_0", "state"), "2: INIT\n");
    complaints(&judged(&fake), &["port-state fail mlx5_0/1"]);
}

#[test]
fn a_pulled_cable_and_a_port_switched_off_are_told_apart() {
    let fake = FakeHost::mlx5(1);
    fake.pull_cable("mlx5_0");
    let cable = judged(&fake);
    complaints(
        &cable,
        &["port-state fail mlx5_0/1", "port-phys-state fail mlx5_0/1", "netdev-link fail netdev eth0"],
    );
    let fake = FakeHost::mlx5(1);
    fake.switch_off("mlx5_0");
    let off = judged(&fake);
    complaints(
        &off,
        &["port-state fail mlx5_0/1", "port-phys-state fail mlx5_0/1", "netdev-link fail netdev eth0"],
    );
    let next =
        |findings: &[Finding]| findings.iter().find(|f| f.id == "netdev-link").unwrap().next_step.clone();
    assert!(next(&off).contains("ip link set dev eth0 up"), "{}", next(&off));
    assert!(!next(&cable).contains("eth0 up") && next(&cable).contains("cable"), "{}", next(&cable));
}

#[test]
fn a_lower_mtu_is_one_cause_and_shows_at_both_layers() {
    let fake = FakeHost::rxe(2);
    fake.set_mtu("rxe2", 1500, 1024);
    complaints(&judged(&fake), &["netdev-mtu fail netdev w2", "rdma-mtu warn rxe2/1"]);
}

#[test]
fn no_device_and_no_sysfs_are_two_different_findings() {
    let fake = FakeHost::mlx5(1);
    fake.remove_device("mlx5_0");
    complaints(&judged(&fake), &["device-present fail machine", "missing-rdma-device fail pci 0000:3b:00.0"]);
    let empty = Folder::new();
    let host = Host::new(empty.path().to_owned()).unwrap();
    let findings = run(&Look::first(&read(&host), &Policy::default()));
    // A folder with nothing in it: nothing is known, and nothing is wrong.
    assert_eq!((findings[0].id.as_ref(), findings[0].status), ("device-present", Status::Unknown));
    assert!(findings.iter().all(|f| matches!(f.status, Status::Unknown | Status::Ok)), "{findings:?}");
    let missing = Host::new(empty.path().join("typo")).unwrap_err();
    assert!(matches!(missing, HostError::Root { .. }) && missing.to_string().contains("typo"));
}

#[test]
fn a_machine_of_published_oddities_is_read_as_far_as_it_goes() {
    let fake = FakeHost::mlx5(1);
    let write = |file: &str, text: &str| fake.folder().write(&fake.port_file("mlx5_0", file), text);
    write("link_layer", "InfiniBand\n\n");
    write("phys_state", "4: ACTIVE\n");
    write("rate", "10 Gb/sec (4X)\n");
    write("lid", "0xffff\n");
    write("counters/VL15_dropped", "N/A (no PMA)\n");
    write("hw_counters/SwLinkUp,32", "7\n");
    // Slots of mlx4 and qib that hold nothing but a prefix.
    write("gids/5", "fe80:0000:0000:0000:0000:0000:0000:0000\n");
    let seen = read(&host(&fake));
    let port = &seen.devices.value().unwrap()[0].ports[0];
    assert_eq!(port.link_layer, Reading::Value(LinkLayer::InfiniBand));
    assert_eq!(port.phys_state, Reading::Value(PhysState::Other("ACTIVE".into())));
    assert_eq!((&port.rate_bps, &port.lid), (&Reading::Value(10_000_000_000), &Reading::Value(0xffff)));
    assert_eq!(port.counters["VL15_dropped"], Reading::Absent);
    assert_eq!(port.counters["SwLinkUp,32"], Reading::Value(7));
    assert_eq!(port.gids.value().unwrap().len(), 4);
}

#[test]
fn traffic_comes_from_where_rdma_is_seen() {
    let fake = FakeHost::mlx5(1);
    let expected = Traffic { tx_bytes: 230_442_669_431_839 * 4, rx_bytes: 230_539_874_932_483 * 4 };
    assert_eq!(host(&fake).traffic("mlx5_0", 1, Some("eth0")), Reading::Value(expected));
    // An adapter whose driver has no such counters: its network device sees no RDMA and must not stand in.
    fake.folder().remove(&fake.port_file("mlx5_0", "counters"));
    assert!(matches!(host(&fake).traffic("mlx5_0", 1, Some("eth0")), Reading::Failed(_)));
    let soft = FakeHost::rxe(1);
    let expected = Traffic { tx_bytes: 1_000_000, rx_bytes: 2_000_000 };
    assert_eq!(host(&soft).traffic("rxe1", 1, Some("w1")), Reading::Value(expected));
    assert!(matches!(host(&soft).traffic("rxe1", 1, None), Reading::Failed(_)));
    // 32-bit counters that have come to their end.
    let old = FakeHost::mlx5(1);
    old.folder().write(&old.port_file("mlx5_0", "counters/port_xmit_data"), "4294967295\n");
    assert!(matches!(host(&old).traffic("mlx5_0", 1, Some("eth0")), Reading::Failed(_)));
}

#[test]
fn retransmits_are_read_without_the_rest_of_the_machine() {
    assert_eq!(host(&FakeHost::mlx5(1)).read_retransmits("mlx5_0", 1), Reading::Value(231));
    let fake = FakeHost::rxe(1);
    assert_eq!(host(&fake).read_retransmits("rxe1", 1), Reading::Value(3));
    assert_eq!(host(&fake).read_retransmits("rxe9", 1), Reading::Absent);
    fake.folder().unreadable(&fake.port_file("rxe1", "hw_counters/completer_retry_err"));
    assert!(matches!(host(&fake).read_retransmits("rxe1", 1), Reading::Failed(_)));
}

#[test]
fn endpoints_of_a_machine_with_one_port_down() {
    let fake = FakeHost::rxe(3);
    fake.pull_cable("rxe2");
    fake.remove_address("rxe3");
    let seen: Vec<_> =
        endpoints(&read(&host(&fake)), "lab", &[], &rdmascope_checks::manifest::Manifest::default())
            .into_iter()
            .map(|e| (e.name.to_string(), e.gid.map(|g| g.to_string()), e.unusable))
            .collect();
    let gid = |n: u8| Some(format!("::ffff:192.0.2.{n}"));
    assert_eq!(
        seen,
        [
            ("lab/rxe1/1".to_owned(), gid(1), None),
            ("lab/rxe2/1".to_owned(), gid(2), Some(Cause::PortDown)),
            ("lab/rxe3/1".to_owned(), None, Some(Cause::NoUsableGid)),
        ]
    );
}

#[test]
fn devices_that_nobody_asked_for_are_not_touched() {
    let fake = FakeHost::rxe(3);
    let one = host(&fake).only(&["rxe2".to_owned()]);
    let names: Vec<String> = read(&one).devices.value().unwrap().iter().map(|d| d.name.clone()).collect();
    assert_eq!(names, ["rxe2"]);
    assert_eq!(one.port_state("rxe2", 1), Reading::Value(PortState::Active));
    assert_eq!(one.port_state("rxe9", 1), Reading::Absent);
}

#[test]
fn character_devices_name_the_devices_that_are_there() {
    let fake = FakeHost::rxe(2);
    let nodes = host(&fake).uverbs_nodes();
    assert_eq!(nodes.value().unwrap()["rxe2"], "uverbs1");
    let without = FakeHost::rxe(1);
    without.folder().remove("sys/class/infiniband_verbs");
    assert_eq!(host(&without).uverbs_nodes(), Reading::Absent);
}
