//! Tables of texts before and after, and what must hold whatever the key is.

use super::*;
use std::hash::{BuildHasherDefault, DefaultHasher};

fn anonymiser() -> Anonymiser<BuildHasherDefault<DefaultHasher>> {
    Anonymiser::new(BuildHasherDefault::new(), &["gpu12".to_owned(), "gpu12.corp.example".to_owned()])
}

#[test]
fn what_tells_nothing_stays_as_it_is() {
    for text in [
        "28.41.1000",
        "20.43.1014 (MT_0000000838)",
        "firmware version: 227.1.111.0",
        "fw_ver = 229.0.154.0",
        "0000:3b:00.0",
        "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1",
        "mlx5_core 0000:3b:00.0 eth2: Link up",
        "lid: 0xffff sm_lid 12",
        "rx_prio3_pause: 18446744073709551615",
        "CapEff:\t000001ffffffffff",
        "0x2651e848",
        "26:3 48:6",
        "12:34:56 [ 1234.567890]",
        "00:00:00:00:00:00 ff:ff:ff:ff:ff:ff 33:33:00:00:00:01",
        "0000:0000:0000:0000:0000:0000:0000:0000",
        ":: ::1 ff02::1 2001:db8::17 127.0.0.1 0.0.0.0 255.255.255.255 224.0.0.1",
        "192.0.2.17/24 198.51.100.1 203.0.113.9 ::ffff:192.0.2.1",
        "gpu120 my-gpu12 gpu12-bmc xgpu12",
        "ends here. And: goes on; a-b_c",
        "4: ACTIVE",
        "",
    ] {
        assert_eq!(anonymiser().text(text), text);
    }
}

#[test]
fn hardware_addresses_become_numbers_of_the_range_for_documents() {
    for (before, after) in [
        ("b8:ce:f6:01:02:03", "00:00:5e:00:53:00"),
        ("B8-CE-F6-01-02-03.", "00-00-5e-00-53-00."),
        ("ba:ce:f6:01:02:03", "02:00:5e:00:53:00"),
        // The same one as GUID, as identifier of a link-local address, and as a GID in full.
        ("b8ce:f603:0001:0203", "0000:5e03:0000:5300"),
        ("bace:f6ff:fe01:0203", "0200:5eff:fe00:5300"),
        ("0xb8 fe80::bace:f6ff:fe01:203%eth0", "0xb8 fe80::200:5eff:fe00:5300%eth0"),
        ("fe80:0000:0000:0000:bace:f6ff:fe01:0203", "fe80:0000:0000:0000:0200:5eff:fe00:5300"),
        // A GUID of another making, with colons between bytes too; and an IPoIB address that holds it.
        ("506b:4b12:00f5:4b6c", "0000:5e10:0000:0001"),
        ("50:6b:4b:12:00:f5:4b:6c", "00:00:5e:10:00:00:00:01"),
        ("fe80::506b:4b12:f5:4b6c", "fe80::5e10:0:1"),
        (
            "80:00:00:67:fe:80:00:00:00:00:00:00:50:6b:4b:12:00:f5:4b:6c",
            "80:00:00:67:fe:80:00:00:00:00:00:00:00:00:5e:10:00:00:00:01",
        ),
        ("a 4c4c4544-0043-3610-8058-b4c04f4d3132", "a 00000000-0000-0000-0000-000000000001"),
        ("gpu12 mlx5_0; gpu12.corp.example: up. gpu12.", "host mlx5_0; host: up. host."),
    ] {
        assert_eq!(anonymiser().text(before), after);
    }
    let mut one = anonymiser();
    assert_eq!(one.text("b8:ce:f6:01:02:03 b8:ce:f6:01:02:04"), "00:00:5e:00:53:00 00:00:5e:00:53:01");
    assert_eq!(one.text("b8:ce:f6:01:02:04"), "00:00:5e:00:53:01", "stable within one capture");
}

fn ip(one: &mut Anonymiser<BuildHasherDefault<DefaultHasher>>, text: &str) -> u128 {
    match one.text(text).parse().unwrap() {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => u128::from(v6),
    }
}

#[test]
fn addresses_that_shared_a_prefix_share_one_of_the_same_length() {
    let one = &mut anonymiser();
    let shared = |a: u128, b: u128| (a ^ b).leading_zeros();
    for (a, b, bits) in [
        ("10.1.4.1", "10.1.7.254", 22),
        ("10.1.4.1", "10.1.4.2", 30),
        ("172.16.0.1", "172.31.0.1", 12),
        ("192.168.1.1", "192.168.2.1", 22),
        ("129.132.1.1", "129.132.2.1", 22),
        ("fd12:3456::1", "fd12:3457::1", 31),
        ("2a02:168:1:2::1", "2a02:168:1:3::1", 63),
    ] {
        let (a, b) = (ip(one, a), ip(one, b));
        assert_eq!(shared(a, b), bits, "{a:x} {b:x}");
    }
    for (text, block) in [("10.9.8.7", "10."), ("192.168.7.7", "192.168."), ("169.254.3.4", "169.254.")] {
        let new = one.text(text);
        assert!(new.starts_with(block) && new != text, "{text} {new}");
    }
    let public = one.text("129.132.1.1");
    assert!(public.starts_with("198.18.") || public.starts_with("198.19."), "{public}");
    assert!(one.text("2a02:168:1:2::1").starts_with("2001:db8:"));
    let mapped = one.text("::ffff:10.9.8.7 0000:0000:0000:0000:0000:ffff:0a09:0807");
    let v4: Ipv4Addr = one.text("10.9.8.7").parse().unwrap();
    assert_eq!(mapped.split(' ').next().unwrap(), v4.to_ipv6_mapped().to_string());
    assert_eq!(mapped.split(' ').nth(1).unwrap().parse(), Ok(v4.to_ipv6_mapped()), "sysfs writes it in full");
    assert_eq!(mapped.split(' ').nth(1).unwrap().len(), 39);
    assert_eq!(one.text("from 10.9.8.7:4791, to"), format!("from {v4}:4791, to"));
}

#[test]
fn a_network_stays_a_network() {
    let one = &mut anonymiser();
    let route = one.text("10.1.4.0/22 dev eth0");
    let (network, _) = route.split_once('/').unwrap();
    assert_eq!(u32::from(network.parse::<Ipv4Addr>().unwrap()) & 0x3ff, 0, "{route}");
    assert_eq!(ip(one, "10.1.5.9") >> 106, u128::from(u32::from(network.parse::<Ipv4Addr>().unwrap())) >> 10);
    assert!(one.text("2a02:168:1::/48").ends_with("::/48"));
}

fn file(path: &str, text: &str) -> String {
    String::from_utf8(anonymiser().file(path, text.as_bytes())).unwrap()
}

#[test]
fn files_lose_what_their_name_says_is_private() {
    for (path, before, after) in [
        ("proc/7/environ", "TOKEN=x\0NCCL_IB_HCA=mlx5_0\0HOME=/h\0", "NCCL_IB_HCA=mlx5_0\0"),
        ("proc/7/cmdline", "python3\0--password=x\0", "python3\0"),
        ("proc/7/status", "Name:\tpython3\nUid:\t1004\nCapEff:\t0\n", "Name:\tpython3\nCapEff:\t0\n"),
        ("proc/cmdline", "root=UUID=1 iommu=pt key=x quiet\n", "root=... iommu=pt key=... quiet\n"),
        ("sys/class/dmi/id/board_serial", "CZ2D1\n", "serial-1\n"),
        ("proc/sys/kernel/hostname", "gpu12\n", "serial-1\n"),
        ("sys/class/net/eth0/phys_switch_id", "e2e4de0003a1420c\n", "0000000000000001\n"),
        (
            "rdmascope/devlink/0000:3b:00.0/info",
            "serial_number: MT23\nfw: 227.1.111.0\n",
            "serial_number: serial-1\nfw: 227.1.111.0\n",
        ),
        ("rdmascope/netdev/eth0/lldp", "system: leaf7\nport: Eth1/1\n", "system: switch-1\nport: Eth1/1\n"),
        ("rdmascope/netdev/wlan0/wifi", "ssid: Home\n", "ssid: ssid-1\n"),
        ("sys/class/infiniband/bnxt_re0/fw_ver", "227.1.111.0\n", "227.1.111.0\n"),
        ("sys/class/infiniband/mlx5_0/node_desc", "gpu12 mlx5_0\n", "host mlx5_0\n"),
        ("sys/class/net/eth0/mtu", "9000\n", "9000\n"),
    ] {
        assert_eq!(file(path, before), after, "{path}");
    }
}

#[test]
fn serial_numbers_leave_binary_files() {
    let vpd = b"\x82\x02\x00CX\x90\x0f\x00PN\x03MCXSN\x04ABCDRV\x00\x78";
    let new = anonymiser().file("sys/devices/pci0000:3a/0000:3b:00.0/vpd", vpd);
    assert_eq!(new, b"\x82\x02\x00CX\x90\x0f\x00PN\x03MCXSN\x04XXXXRV\x00\x78");
    let mut config = vec![0; 4096];
    // AER at 0x100, next 0x150: the serial number, next 0x100: a chain without an end.
    config[0x100..0x104].copy_from_slice(&[1, 0, 0x02, 0x15]);
    config[0x150..0x15c].copy_from_slice(&[3, 0, 0x01, 0x10, 1, 2, 3, 4, 5, 6, 7, 8]);
    let new = anonymiser().file("sys/devices/pci0000:3a/0000:3b:00.0/config", &config);
    assert_eq!(new[0x150..0x15c], [3, 0, 0x01, 0x10, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(new[0x100..0x104], config[0x100..0x104]);
}
