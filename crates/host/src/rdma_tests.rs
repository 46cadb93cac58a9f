//! Ports as published trees show them: each oddity costs its own reading and no other.

use super::*;
use rdmascope_fixtures::FakeHost;
use rdmascope_model::{LinkLayer, PhysState};

const REFUSED: &str = "the driver answers EINVAL (not supported on this port, or not in its present state)";

fn read(host: &FakeHost) -> Device {
    let tree = Tree::open(host.root()).unwrap();
    let mtu_of = |_: &str, _: u8| PortMtu::failed("not asked");
    let means = Means { mtu_of: &mtu_of, nodes: &Nodes::read(&tree), resting: None, rdma_netlink: None };
    device(&tree, "mlx5_0", &means)
}

/// The device with something about its files changed.
fn changed(change: impl FnOnce(&FakeHost)) -> Device {
    let host = FakeHost::mlx5(1);
    change(&host);
    read(&host)
}

/// The two devices differ in nothing but what `forget` makes equal.
#[track_caller]
fn alike_but_for(mut odd: Device, forget: impl Fn(&mut Device)) {
    let mut healthy = changed(|_| ());
    forget(&mut healthy);
    forget(&mut odd);
    assert_eq!(odd, healthy);
}

#[test]
fn the_files_of_omni_path_are_counters_too() {
    let odd = changed(|host| {
        for n in 0..160 {
            host.folder().write(&host.port_file("mlx5_0", &format!("hw_counters/RcvHdrOvr{n}")), "0\n");
        }
        host.folder().write(&host.port_file("mlx5_0", "hw_counters/SwLinkUp,32"), "7\n");
    });
    let counters = &odd.ports[0].counters;
    assert_eq!(
        (&counters["RcvHdrOvr159"], &counters["SwLinkUp,32"]),
        (&Reading::Value(0), &Reading::Value(7))
    );
    assert!(!counters.contains_key("hw_counters/"));
    alike_but_for(odd, |device| {
        device.ports[0].counters.retain(|name, _| !name.starts_with("RcvHdrOvr") && name != "SwLinkUp,32");
    });
}

#[test]
fn too_many_counters_are_said_and_settings_are_not_read() {
    let odd = changed(|host| {
        for n in 0..300 {
            host.folder().write(&host.port_file("mlx5_0", &format!("hw_counters/z{n:03}")), "0\n");
        }
        host.folder().write(&host.port_file("mlx5_0", "counters/clear_diag"), "1\n");
    });
    let counters = &odd.ports[0].counters;
    assert!(matches!(&counters["hw_counters/"], Reading::Failed(why) if why.contains("256")));
    assert!(!counters.contains_key("clear_diag") && !counters.contains_key("lifespan"));
    assert!(counters.contains_key("packet_seq_err") && !counters.contains_key("z299"));
}

#[test]
fn a_port_without_a_counter_folder_and_one_with_that_of_an_old_kernel() {
    alike_but_for(changed(|h| h.folder().remove(&h.port_file("mlx5_0", "counters"))), |device| {
        device.ports[0].counters.retain(|name, _| MLX5.contains(&&name[..]));
    });
    let old = changed(|h| h.folder().write(&h.port_file("mlx5_0", "counters_ext/port_xmit_data_64"), "1\n"));
    alike_but_for(old, |_| ());
}

/// Counters of `hw_counters/` in the fixture, of which there are two folders.
const MLX5: [&str; 11] = [
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "rx_write_requests",
];

#[test]
fn a_rate_that_is_refused_costs_the_rate() {
    let odd = changed(|h| h.folder().unreadable(&h.port_file("mlx5_0", "rate")));
    assert!(matches!(odd.ports[0].rate_bps, Reading::Failed(_)));
    alike_but_for(odd, |device| device.ports[0].rate_bps = Reading::Absent);
}

#[test]
fn a_gid_that_is_a_prefix_alone_is_an_empty_slot() {
    let filler = "fe80:0000:0000:0000:0000:0000:0000:0000\n";
    alike_but_for(changed(|h| h.folder().write(&h.port_file("mlx5_0", "gids/7"), filler)), |_| ());
}

#[test]
fn a_guid_without_a_line_end_and_a_link_layer_with_two() {
    alike_but_for(
        changed(|h| {
            let guid = h.port_file("mlx5_0", "../../node_guid");
            h.folder().write(&guid, "0200:00ff:fe00:0001");
            h.folder().write(&h.port_file("mlx5_0", "link_layer"), "Ethernet\n\n");
        }),
        |_| (),
    );
}

#[test]
fn a_missing_link_layer_is_not_known() {
    let odd = changed(|h| h.folder().remove(&h.port_file("mlx5_0", "link_layer")));
    assert!(matches!(odd.ports[0].link_layer, Reading::Failed(_)));
    alike_but_for(odd, |device| device.ports[0].link_layer = Reading::Absent);
}

#[test]
fn words_that_are_no_number_cost_one_counter() {
    let odd =
        changed(|h| h.folder().write(&h.port_file("mlx5_0", "counters/VL15_dropped"), "N/A (no PMA)\n"));
    // The kernel's words for "this device does not count it": nothing that could not be looked at.
    assert_eq!(odd.ports[0].counters["VL15_dropped"], Reading::Absent);
    alike_but_for(odd, |device| drop(device.ports[0].counters.remove("VL15_dropped")));
}

#[test]
fn names_that_other_drivers_lack() {
    let odd = changed(|host| {
        for file in ["../../board_id", "../../hca_type"] {
            host.folder().remove(&host.port_file("mlx5_0", file));
        }
        host.folder().write(&host.port_file("mlx5_0", "phys_state"), "4: ACTIVE\n");
        host.folder().write(&host.port_file("mlx5_0", "state"), "5: ACTIVE_DEFER\n");
    });
    assert_eq!((&odd.board, &odd.card), (&Reading::Absent, &Reading::Absent));
    assert_eq!(odd.ports[0].phys_state, Reading::Value(PhysState::Other("ACTIVE".to_owned())));
}

#[test]
fn a_bond_is_named_as_sysfs_names_it() {
    let odd = changed(|host| {
        for slot in 0..4 {
            host.folder().write(&host.port_file("mlx5_0", &format!("gid_attrs/ndevs/{slot}")), "bond0\n");
        }
    });
    // The folder of the function still holds the member alone.
    assert_eq!(odd.ports[0].netdev, Reading::Value("bond0".to_owned()));
    let none = changed(|host| {
        for slot in 0..4 {
            host.folder().unreadable(&host.port_file("mlx5_0", &format!("gid_attrs/ndevs/{slot}")));
        }
    });
    assert_eq!(none.ports[0].netdev, Reading::Value("eth0".to_owned()));
}

#[test]
fn every_port_is_read_and_infiniband_has_a_subnet_manager_and_partitions() {
    let host = FakeHost::infiniband(1);
    let write = |file: &str, text: &str| host.folder().write(&host.port_file("mlx5_0", file), text);
    write("pkeys/1", "0x0000\n");
    write("pkeys/2", "0x8001\n");
    write("pkeys/3", "0x0000\n");
    write("../2/state", "1: DOWN\n");
    write("../2/link_layer", "InfiniBand\n");
    let device = read(&host);
    let [first, second] = &device.ports[..] else { panic!("{} ports", device.ports.len()) };
    assert_eq!((first.number, second.number), (1, 2));
    assert_eq!(first.link_layer, Reading::Value(LinkLayer::InfiniBand));
    assert_eq!((&first.lid, &first.sm_lid), (&Reading::Value(0x12a), &Reading::Value(1)));
    assert_eq!(first.pkeys, Reading::Value(vec![0xffff, 0x8001]));
    assert_eq!((&second.pkeys, &second.sm_lid), (&Reading::Absent, &Reading::Absent));
    host.folder().unreadable(&host.port_file("mlx5_0", "pkeys/1"));
    assert!(matches!(read(&host).ports[0].pkeys, Reading::Failed(_)));
}

#[test]
fn a_partition_table_is_not_read_to_its_end() {
    let host = FakeHost::infiniband(1);
    for slot in 1..128 {
        host.folder().write(&host.port_file("mlx5_0", &format!("pkeys/{slot}")), "0x0000\n");
    }
    host.folder().unreadable(&host.port_file("mlx5_0", "pkeys/60"));
    assert_eq!(read(&host).ports[0].pkeys, Reading::Value(vec![0xffff]));
}

#[test]
fn counters_that_were_refused_are_left_alone() {
    let host = FakeHost::mlx5(1);
    let tree = Tree::open(host.root()).unwrap();
    let resting = Resting::default();
    let base = format!("{CLASS}/mlx5_0/ports/1");
    let seen = |resting: Option<&Resting>| {
        let mut counters = BTreeMap::new();
        add_counters(&tree, &base, "counters", resting, &mut counters);
        counters
    };
    // One refused file among others rests alone.
    resting.rest(&format!("{base}/counters/VL15_dropped"), Instant::now(), REFUSED);
    let one = seen(Some(&resting));
    assert_eq!(one["VL15_dropped"], Reading::failed(REFUSED));
    assert_eq!(one["symbol_error"], Reading::Value(0));
    // Two, and no answer before: the port is restricted, and the others are not tried.
    resting.rest(&format!("{base}/counters/excessive_buffer_overrun_errors"), Instant::now(), REFUSED);
    let all = seen(Some(&resting));
    assert!(all.values().all(|value| *value == Reading::failed(REFUSED)), "{all:?}");
    assert_eq!(seen(None)["symbol_error"], Reading::Value(0), "a capture is read whole");
}
