//! PCI functions that matter here and every bridge above them, from `/sys/bus/pci/devices` (`Documentation/ABI/testing/sysfs-bus-pci`).

use crate::rdma::NOT_YET;
use crate::tree::Tree;
use crate::{acs, parse};
use rdmascope_model::{PciFunction, PciLink, Reading};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const BUS: &str = "sys/bus/pci/devices";

/// Bytes of a PCI Express configuration space.
const CONFIG_BYTES: usize = 4096;

/// Kernel drivers of adapters that speak RDMA but are of no network class (InfiniBand and Omni-Path adapters of old).
const RDMA_DRIVERS: [&str; 8] =
    ["mlx5_core", "mlx4_core", "ib_mthca", "ib_qib", "hfi1", "efa", "erdma", "ionic"];

/// NVIDIA and AMD: whose display and 3D controllers are GPUs that compute.
const GPU_VENDORS: [u32; 2] = [0x10de, 0x1002];

/// All of them by address. `Absent` on a machine without PCI.
pub(crate) fn functions(tree: &Tree) -> Reading<BTreeMap<String, PciFunction>> {
    let names = match tree.list(BUS) {
        Reading::Value(names) => names,
        Reading::Absent if !tree.is_real() => return tree.owed(BUS, Reading::Absent),
        Reading::Absent => return tree.owed_within("sys/bus", Reading::Absent),
        Reading::Failed(why) => return Reading::Failed(why),
    };
    let rdma = owners(tree, crate::rdma::CLASS);
    let netdevs = owners(tree, "sys/class/net");
    let mut wanted = BTreeMap::new();
    for name in names.iter().filter(|name| parse::is_pci_address(name)) {
        if rdma.contains_key(name) || matters(tree, name) {
            let chain = chain(tree, name);
            for (i, address) in chain.iter().enumerate() {
                let parent = i.checked_sub(1).map(|above| chain[above].clone());
                wanted.insert(address.clone(), parent);
            }
        }
    }
    let read = |(address, parent): (String, Option<String>)| {
        let of = |owners: &BTreeMap<String, BTreeSet<String>>| {
            owners.get(&address).into_iter().flatten().cloned().collect()
        };
        let function = function(tree, &address, parent, of(&rdma), of(&netdevs));
        (address, function)
    };
    Reading::Value(wanted.into_iter().map(read).collect())
}

/// The nearest PCI function at or above where a path leads: some drivers put an auxiliary device in between (Intel, Broadcom).
pub(crate) fn address_at(tree: &Tree, path: &str) -> Reading<String> {
    match tree.resolved(path) {
        Reading::Value(target) => addresses(&target).pop().map_or(Reading::Absent, Reading::Value),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

/// Every PCI address in a path, from the root bus down.
fn addresses(path: &Path) -> Vec<String> {
    let parts = path.components().filter_map(|part| part.as_os_str().to_str());
    parts.filter(|part| parse::is_pci_address(part)).map(str::to_owned).collect()
}

/// A function and every bridge above it, the highest first. Where the link leads says it all: one path, no other file.
fn chain(tree: &Tree, address: &str) -> Vec<String> {
    match tree.resolved(&format!("{BUS}/{address}")) {
        Reading::Value(target) => {
            let chain = addresses(&target);
            if chain.is_empty() { vec![address.to_owned()] } else { chain }
        }
        Reading::Absent | Reading::Failed(_) => vec![address.to_owned()],
    }
}

/// Which PCI function the entries of a class folder belong to.
fn owners(tree: &Tree, class: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // A class folder that cannot be listed is a failed reading of the devices themselves.
    for name in tree.list(class).value().into_iter().flatten() {
        if let Reading::Value(address) = address_at(tree, &format!("{class}/{name}/device")) {
            owners.entry(address).or_default().insert(name.clone());
        }
    }
    owners
}

/// Network (0x0200xx) and InfiniBand (0x0207xx) controllers, GPUs, and what an RDMA driver has bound. A function whose class cannot
/// be read is kept: it may be one of them.
fn matters(tree: &Tree, address: &str) -> bool {
    let base = format!("{BUS}/{address}");
    let class = tree.parsed(&format!("{base}/class"), parse::hex_u32);
    match class.value().map(|class| class >> 8) {
        Some(0x0200 | 0x0207) => true,
        // VGA, 3D and display controllers, processing accelerators.
        Some(0x0300 | 0x0302 | 0x0380 | 0x1200) => tree
            .parsed(&format!("{base}/vendor"), parse::hex_u32)
            .value()
            .is_some_and(|vendor| GPU_VENDORS.contains(vendor)),
        // Bridges come with what is below them.
        Some(0x0604) => false,
        Some(_) => tree
            .target_name(&format!("{base}/driver"))
            .value()
            .is_some_and(|d| RDMA_DRIVERS.contains(&&d[..])),
        None => matches!(class, Reading::Failed(_)),
    }
}

fn function(
    tree: &Tree,
    address: &str,
    parent: Option<String>,
    rdma_devices: Vec<String>,
    netdevs: Vec<String>,
) -> PciFunction {
    let base = format!("{BUS}/{address}");
    let number = |file: &str| {
        let path = format!("{base}/{file}");
        tree.owed(&path, tree.parsed(&path, parse::hex_u32))
    };
    let short = |reading: Reading<u32>| match reading {
        Reading::Value(v) => u16::try_from(v)
            .map_or_else(|_| Reading::Failed(format!("{base}: {v:#x} is no 16-bit id")), Reading::Value),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    };
    PciFunction {
        vendor: short(number("vendor")),
        device: short(number("device")),
        class: number("class"),
        parent,
        driver: tree.target_name(&format!("{base}/driver")),
        physical_function: tree.target_name(&format!("{base}/physfn")),
        link: link(tree, &base),
        errors: errors(tree, &base),
        acs_control: acs_control(tree, &base),
        numa_node: numa_node(tree, &base),
        rdma_devices,
        netdevs,
        enable_roce: Reading::failed(NOT_YET),
    }
}

/// NUMA node of a device folder; `Absent` where the kernel says -1: the firmware of the machine does not say.
pub(crate) fn numa_node(tree: &Tree, base: &str) -> Reading<u32> {
    match tree.parsed(&format!("{base}/numa_node"), parse::number::<i64>) {
        Reading::Value(node) => u32::try_from(node).map_or(Reading::Absent, Reading::Value),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

/// Lanes that `current_link_width` shows when the device does not answer: all ones of a six-bit field.
const ALL_ONES: u8 = 63;

/// `drivers/pci/pci-sysfs.c`. Virtual functions and devices of a hypervisor have no link of their own and show `Unknown` and 0.
fn link(tree: &Tree, base: &str) -> PciLink {
    let speed = |file: &str| parse::known(tree.parsed(&format!("{base}/{file}"), link_speed));
    let width = |file: &str| parse::known(tree.parsed(&format!("{base}/{file}"), link_width));
    let mut link = PciLink {
        speed_mts: speed("current_link_speed"),
        speed_max_mts: speed("max_link_speed"),
        width: width("current_link_width"),
        width_max: width("max_link_width"),
    };
    if link.width == Reading::Value(ALL_ONES) {
        let why = format!("{base}: the device does not answer (its link registers read all ones)");
        (link.width, link.speed_mts) = (Reading::Failed(why.clone()), Reading::Failed(why));
    }
    link
}

/// `16.0 GT/s PCIe`, `32 GT/s` or `Unknown`, in megatransfers per second.
fn link_speed(text: &str) -> Result<Option<u32>, String> {
    if text.starts_with("Unknown") {
        return Ok(None);
    }
    let wrong = || "not a link speed such as '16.0 GT/s PCIe'".to_owned();
    let (amount, _) = text.split_once(" GT/s").ok_or_else(wrong)?;
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, "0"));
    let whole: u32 = whole.parse().map_err(|_| wrong())?;
    let tenths: u32 =
        if fraction.len() == 1 { fraction.parse().map_err(|_| wrong())? } else { return Err(wrong()) };
    whole.checked_mul(1000).and_then(|v| v.checked_add(tenths * 100)).map(Some).ok_or_else(wrong)
}

/// Lanes; 0 and 255 (`PCIE_LNK_WIDTH_UNKNOWN`) are not known.
fn link_width(text: &str) -> Result<Option<u8>, String> {
    parse::number::<u8>(text).map(|lanes| Some(lanes).filter(|lanes| *lanes != 0 && *lanes != 255))
}

/// Counts since boot of `aer_dev_correctable`, `aer_dev_nonfatal` and `aer_dev_fatal` (`Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats`).
fn errors(tree: &Tree, base: &str) -> Reading<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    let mut seen = false;
    for kind in ["correctable", "nonfatal", "fatal"] {
        match tree.parsed(&format!("{base}/aer_dev_{kind}"), error_lines) {
            Reading::Value(counts) => {
                seen = true;
                all.extend(counts.into_iter().map(|(name, count)| (format!("{kind}/{name}"), count)));
            }
            Reading::Absent => {}
            Reading::Failed(why) => return Reading::Failed(why),
        }
    }
    if seen { Reading::Value(all) } else { Reading::Absent }
}

/// Lines such as `BadTLP 0`; the last one, such as `TOTAL_ERR_COR 0`, is their sum.
fn error_lines(text: &str) -> Result<Vec<(String, u64)>, String> {
    let mut counts = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (name, count) = line
            .trim()
            .rsplit_once(' ')
            .ok_or_else(|| "a line of it is not of the form 'BadTLP 0'".to_owned())?;
        let count: u64 = parse::number(count)?;
        if count > 0 && !name.starts_with("TOTAL") {
            counts.push((parse::plain(name)?, count));
        }
    }
    Ok(counts)
}

fn acs_control(tree: &Tree, base: &str) -> Reading<u16> {
    let path = format!("{base}/config");
    match tree.owed(&path, tree.binary(&path, CONFIG_BYTES)) {
        Reading::Value(config) => acs::control(&config).map_or_else(
            |why| Reading::Failed(format!("reading {path}: {why}")),
            |control| control.map_or(Reading::Absent, Reading::Value),
        ),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::{FakeHost, Folder};

    fn read(folder: &Folder) -> BTreeMap<String, PciFunction> {
        functions(&Tree::open(folder.path()).unwrap()).value().unwrap().clone()
    }

    const FUNCTION: &str = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0";

    #[test]
    fn link_texts_of_all_kernels() {
        for (text, speed) in [
            ("16.0 GT/s PCIe", Some(16_000)),
            ("32 GT/s", Some(32_000)),
            ("2.5 GT/s PCIe", Some(2_500)),
            ("64.0 GT/s PCIe", Some(64_000)),
            ("Unknown", None),
            ("Unknown speed", None),
        ] {
            assert_eq!(link_speed(text), Ok(speed), "{text}");
        }
        for bad in ["", "fast", "-1 GT/s", "1.25 GT/s", "99999999 GT/s", "GT/s"] {
            assert!(link_speed(bad).is_err(), "{bad:?} was read");
        }
        assert_eq!(
            (link_width("16"), link_width("0"), link_width("255")),
            (Ok(Some(16)), Ok(None), Ok(None))
        );
    }

    #[test]
    fn the_bridges_above_are_read_and_other_functions_are_not() {
        let host = FakeHost::mlx5(2);
        let folder = host.folder();
        for (address, vendor, class) in [
            ("0000:3b:00.5", "0x144d", "0x010802"),
            ("0000:3b:00.6", "0x10de", "0x030200"),
            ("0000:3b:00.7", "0x102b", "0x030000"),
            ("0000:3c:00.0", "0x8086", "0x0c0600"),
        ] {
            let files = format!("sys/devices/pci0000:3a/0000:3a:00.0/{address}");
            folder.write(&format!("{files}/vendor"), vendor);
            folder.write(&format!("{files}/device"), "0x2330");
            folder.write(&format!("{files}/class"), class);
            folder.link(&format!("{BUS}/{address}"), &format!("/{files}"));
        }
        folder.link("sys/devices/pci0000:3a/0000:3a:00.0/0000:3c:00.0/driver", "/sys/bus/pci/drivers/ib_qib");
        folder.write("sys/bus/pci/drivers/ib_qib/bind", "");
        let seen = read(folder);
        let addresses: Vec<&str> = seen.keys().map(String::as_str).collect();
        assert_eq!(
            addresses,
            ["0000:3a:00.0", "0000:3b:00.0", "0000:3b:00.1", "0000:3b:00.6", "0000:3c:00.0"]
        );
        assert_eq!(seen["0000:3b:00.1"].parent.as_deref(), Some("0000:3a:00.0"));
        assert_eq!(
            (&seen["0000:3a:00.0"].parent, seen["0000:3a:00.0"].class.value()),
            (&None, Some(&0x06_04_00))
        );
        assert_eq!(seen["0000:3b:00.6"].driver, Reading::Absent);
        assert_eq!(seen["0000:3b:00.1"].rdma_devices, ["mlx5_1"]);
        assert_eq!(seen["0000:3b:00.1"].netdevs, ["eth1"]);
    }

    #[test]
    fn an_adapter_without_an_rdma_device_is_seen_and_an_auxiliary_one_is_found() {
        let host = FakeHost::mlx5(2);
        host.remove_device("mlx5_1");
        // irdma: the RDMA device hangs below an auxiliary device of the PCI function.
        let files = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3d:00.0";
        host.folder().write(&format!("{files}/class"), "0x020000");
        host.folder().write(&format!("{files}/ice.roce.0/infiniband/rocep61s0/fw_ver"), "1.64");
        host.folder().link(&format!("{files}/ice.roce.0/infiniband/rocep61s0/device"), "../..");
        let class = "sys/class/infiniband/rocep61s0";
        host.folder().link(class, &format!("/{files}/ice.roce.0/infiniband/rocep61s0"));
        host.folder().link(&format!("{BUS}/0000:3d:00.0"), &format!("/{files}"));
        let seen = read(host.folder());
        assert!(seen["0000:3b:00.1"].rdma_devices.is_empty());
        assert_eq!(seen["0000:3b:00.1"].vendor, Reading::Value(0x15b3));
        assert_eq!(seen["0000:3d:00.0"].rdma_devices, ["rocep61s0"]);
    }

    #[test]
    fn errors_are_counted_by_kind_and_a_dead_device_is_no_narrow_link() {
        let host = FakeHost::mlx5(1);
        let write = |file: &str, text: &str| host.folder().write(&format!("{FUNCTION}/{file}"), text);
        write("aer_dev_correctable", "RxErr 0\nBadTLP 17\nBadDLLP 2\nTOTAL_ERR_COR 19\n");
        write("aer_dev_fatal", "DLP 1\nTOTAL_ERR_FATAL 1\n");
        write("current_link_width", "63\n");
        write("current_link_speed", "Unknown\n");
        write("max_link_width", "255\n");
        let seen = read(host.folder()).remove("0000:3b:00.0").unwrap();
        let counts = [("correctable/BadTLP", 17), ("correctable/BadDLLP", 2), ("fatal/DLP", 1)];
        let expected = counts.map(|(name, count)| (name.to_owned(), count)).into();
        assert_eq!(seen.errors, Reading::Value(expected));
        assert!(matches!(&seen.link.width, Reading::Failed(why) if why.contains("does not answer")));
        assert!(matches!(&seen.link.speed_mts, Reading::Failed(_)));
        assert_eq!(
            (&seen.link.width_max, &seen.link.speed_max_mts),
            (&Reading::Absent, &Reading::Value(16_000))
        );
        write("aer_dev_correctable", "garbage\n");
        assert!(matches!(read(host.folder())["0000:3b:00.0"].errors, Reading::Failed(_)));
    }

    #[test]
    fn a_virtual_function_names_its_physical_one_and_has_no_link() {
        let host = FakeHost::mlx5(1);
        let files = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:01.0";
        let write = |file: &str, text: &str| host.folder().write(&format!("{files}/{file}"), text);
        write("class", "0x020000\n");
        write("vendor", "0x15b3\n");
        write("device", "0x101e\n");
        write("current_link_speed", "Unknown\n");
        write("current_link_width", "0\n");
        host.folder().link(&format!("{files}/physfn"), "../0000:3b:00.0");
        host.folder().link(&format!("{BUS}/0000:3b:01.0"), &format!("/{files}"));
        let seen = read(host.folder()).remove("0000:3b:01.0").unwrap();
        assert_eq!(seen.physical_function, Reading::Value("0000:3b:00.0".to_owned()));
        assert_eq!((&seen.link.width, &seen.link.speed_mts), (&Reading::Absent, &Reading::Absent));
        assert!(
            matches!(&seen.acs_control, Reading::Failed(why) if why.contains("not part of this capture"))
        );
    }

    #[test]
    fn no_pci_bus_in_a_capture_is_a_gap_of_the_capture() {
        let folder = Folder::new();
        folder.write("sys/class/net/lo/mtu", "65536");
        assert!(matches!(functions(&Tree::open(folder.path()).unwrap()), Reading::Failed(_)));
    }
}
