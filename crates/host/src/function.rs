//! Which kind of function an RDMA device is: not every one is meant to carry a job's traffic.

use crate::tree::Tree;
use crate::{parse, pci};
use rdmascope_model::{Function, Reading};
use std::path::Path;

/// Virtual functions by vendor and device id, for a virtual machine, where nothing else tells. Source: `pci.ids`, and the tables of
/// `drivers/net/ethernet/mellanox/{mlx4,mlx5/core}/main.c` and `drivers/net/ethernet/intel/iavf/iavf_main.c`.
const VIRTUAL: [(u32, u32); 14] = [
    (0x15b3, 0x1002),
    (0x15b3, 0x1004),
    (0x15b3, 0x1012),
    (0x15b3, 0x1014),
    (0x15b3, 0x1016),
    (0x15b3, 0x1018),
    (0x15b3, 0x101a),
    (0x15b3, 0x101c),
    (0x15b3, 0x101e),
    (0x15b3, 0xa2d3),
    (0x8086, 0x1571),
    (0x8086, 0x154c),
    (0x8086, 0x37cd),
    (0x8086, 0x1889),
];

/// Management interfaces of BlueField DPUs. Source: `pci.ids` (c2d1 auxiliary communication channel, c2d2 to c2d6 SoC management).
const MANAGEMENT: std::ops::RangeInclusive<u32> = 0xc2d1..=0xc2d6;

const NVIDIA_NETWORKING: u32 = 0x15b3;

/// The kind of a device whose folder is `base`; `netdev` is the network device of its first port.
pub(crate) fn function(tree: &Tree, base: &str, netdev: Option<&str>) -> Reading<Function> {
    match tree.resolved(base) {
        Reading::Value(path) if is_virtual(&path) => return Reading::Value(Function::Software),
        Reading::Value(_) => {}
        Reading::Absent => return Reading::Absent,
        Reading::Failed(why) => return Reading::Failed(why),
    }
    if is_software(tree, base) {
        return Reading::Value(Function::Software);
    }
    let link = format!("{base}/device");
    if !tree.is_there(&link) {
        // Every hardware driver gives one; only in a hand-made folder it may be missing.
        return tree.owed(&link, Reading::Absent);
    }
    match tree.target_name(&format!("{link}/physfn")) {
        Reading::Value(of) => return Reading::Value(Function::Virtual { of: Reading::Value(of) }),
        Reading::Absent => {}
        Reading::Failed(why) => return Reading::Failed(why),
    }
    let id = |file: &str| tree.parsed(&format!("{link}/{file}"), parse::hex_u32);
    if let (Reading::Value(vendor), Reading::Value(device)) = (id("vendor"), id("device")) {
        if VIRTUAL.contains(&(vendor, device)) {
            return Reading::Value(Function::Virtual { of: Reading::Absent });
        }
        if vendor == NVIDIA_NETWORKING && MANAGEMENT.contains(&device) {
            return Reading::Value(Function::Management);
        }
    }
    let port_name =
        netdev.map(|name| tree.parsed(&format!("sys/class/net/{name}/phys_port_name"), parse::plain));
    match port_name {
        Some(Reading::Value(name)) if is_representor(&name) => Reading::Value(Function::Representor),
        Some(Reading::Failed(why)) => Reading::Failed(why),
        Some(Reading::Value(_) | Reading::Absent) | None => Reading::Value(Function::Physical),
    }
}

/// The nearest PCI function of an RDMA device. A software device stands below its network device's function on old kernels (Soft-RoCE
/// up to 5.8, Soft-iWARP): that is not its own.
pub(crate) fn pci_address(tree: &Tree, base: &str, function: &Reading<Function>) -> Reading<String> {
    if *function == Reading::Value(Function::Software) {
        return Reading::Absent;
    }
    pci::address_at(tree, &format!("{base}/device"))
}

/// `/sys/devices/virtual/infiniband/rxe1`.
fn is_virtual(path: &Path) -> bool {
    let parts: Vec<&str> = path.components().filter_map(|part| part.as_os_str().to_str()).collect();
    parts.windows(2).any(|pair| pair == ["devices", "virtual"])
}

/// Soft-RoCE has the file `parent` (`rxe_verbs.c`); Soft-iWARP names itself (`siw_main.c`).
fn is_software(tree: &Tree, base: &str) -> bool {
    tree.is_there(&format!("{base}/parent"))
        || tree
            .text(&format!("{base}/node_desc"))
            .value()
            .is_some_and(|text| text.starts_with("Software iWARP"))
}

/// `pf0`, `pf0vf1`, `pf0sf4`, with `c1` in front where it belongs to another host (`net/devlink/port.c`); `p0` is the uplink.
fn is_representor(name: &str) -> bool {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut rest = name;
    if let Some(after) = rest.strip_prefix('c') {
        rest = &after[digits(after)..];
    }
    let Some(after) = rest.strip_prefix("pf") else { return false };
    let number = digits(after);
    if number == 0 {
        return false;
    }
    let rest = &after[number..];
    let below = rest.strip_prefix("vf").or_else(|| rest.strip_prefix("sf"));
    rest.is_empty() || below.is_some_and(|text| !text.is_empty() && digits(text) == text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::FakeHost;

    const PLACE: &str = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0";

    fn of(host: &FakeHost, device: &str, netdev: &str) -> Reading<Function> {
        function(&Tree::open(host.root()).unwrap(), &format!("sys/class/infiniband/{device}"), Some(netdev))
    }

    fn changed(change: impl FnOnce(&FakeHost)) -> Reading<Function> {
        let host = FakeHost::mlx5(1);
        change(&host);
        of(&host, "mlx5_0", "eth0")
    }

    #[test]
    fn every_kind_is_told_apart() {
        assert_eq!(changed(|_| ()), Reading::Value(Function::Physical));
        assert_eq!(of(&FakeHost::rxe(1), "rxe1", "w1"), Reading::Value(Function::Software));
        let physfn = changed(|h| h.folder().link(&format!("{PLACE}/physfn"), "../0000:3b:00.0"));
        let of = Reading::Value("0000:3b:00.0".to_owned());
        assert_eq!(physfn, Reading::Value(Function::Virtual { of }));
        let device = |id: &'static str| changed(move |h| h.folder().write(&format!("{PLACE}/device"), id));
        assert_eq!(device("0x101e"), Reading::Value(Function::Virtual { of: Reading::Absent }));
        assert_eq!(device("0xc2d5"), Reading::Value(Function::Management));
        let port = |name: &'static str| {
            changed(move |h| h.folder().write(&h.netdev_file("mlx5_0", "phys_port_name"), name))
        };
        assert_eq!(port("pf0vf3"), Reading::Value(Function::Representor));
        assert_eq!(port("p1"), Reading::Value(Function::Physical));
    }

    #[test]
    fn a_software_device_of_an_old_kernel_is_not_the_card_that_it_stands_on() {
        let host = FakeHost::mlx5(1);
        host.folder().write(&format!("{PLACE}/infiniband/mlx5_0/parent"), "eth0\n");
        assert_eq!(of(&host, "mlx5_0", "eth0"), Reading::Value(Function::Software));
        let host = FakeHost::mlx5(1);
        host.folder().write(&format!("{PLACE}/infiniband/mlx5_0/node_desc"), "Software iWARP stack\n");
        let function = of(&host, "mlx5_0", "eth0");
        assert_eq!(function, Reading::Value(Function::Software));
        let tree = Tree::open(host.root()).unwrap();
        assert_eq!(pci_address(&tree, "sys/class/infiniband/mlx5_0", &function), Reading::Absent);
    }

    #[test]
    fn a_hand_made_folder_without_the_link_is_not_taken_for_software() {
        let gone = changed(|h| h.folder().remove(&format!("{PLACE}/infiniband/mlx5_0/device")));
        assert!(matches!(gone, Reading::Failed(why) if why.contains("not part of this capture")));
    }

    #[test]
    fn names_of_representors() {
        for (name, is) in [
            ("pf0", true),
            ("pf1vf12", true),
            ("pf0sf88", true),
            ("c1pf0vf0", true),
            ("p0", false),
            ("pf", false),
            ("pf0vf", false),
            ("pf0hpf", false),
            ("port1", false),
            ("", false),
        ] {
            assert_eq!(is_representor(name), is, "{name}");
        }
    }
}
