//! Has each adapter on PCI that can do RDMA an RDMA device?

use super::Functions;
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::manifest::{PortRole, glob};
use crate::verdict::{Verdict, or_none};
use rdmascope_model::{Finding, PciFunction, Reading};

const ID: &str = "missing-rdma-device";

/// Mellanox, now NVIDIA networking.
const MELLANOX: u16 = 0x15b3;
/// Base class and subclass of Ethernet and InfiniBand controllers.
const NETWORK: [u32; 2] = [0x0200, 0x0207];
/// Drivers of other vendors whose functions are RDMA devices, or bring them along by a second module.
const DRIVERS: [(&str, &str); 6] = [
    ("mlx4_core", "mlx4_ib"),
    ("bnxt_en", "bnxt_re"),
    ("ice", "irdma"),
    ("cxgb4", "iw_cxgb4"),
    ("efa", "efa"),
    ("erdma", "erdma"),
];

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Has each adapter on PCI that can do RDMA an RDMA device?",
    meaning: "A card that died before this program started is in no list of RDMA devices: only PCI still knows it.",
    causes: &[
        "the driver's RDMA part is not loaded, or no driver is bound",
        "RoCE is switched off (devlink parameter enable_roce)",
        "the firmware failed at start, or does not fit the card",
    ],
    next_steps: &[
        "`lspci -k -s ADDRESS`; `rdma dev`; `dmesg -T | grep -i -e mlx5 -e ADDRESS`; `modprobe mlx5_ib`.",
        "`devlink dev param show pci/ADDRESS name enable_roce`.",
    ],
    settles: Settles::AfterDebounce,
    hard: true,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    if look.policy.in_container {
        return vec![ok(
            ID,
            "machine".to_owned(),
            "not judged inside a container: devices of others are not shown".to_owned(),
        )];
    }
    let all = match &look.now.pci {
        Reading::Value(all) => all,
        Reading::Absent => return Vec::new(),
        failed => return vec![unknown(ID, "machine".to_owned(), "the PCI functions", why(failed))],
    };
    or_none(
        all.iter().filter_map(|(address, function)| one(look, all, address, function)).collect(),
        ID,
        "no adapter on PCI lacks its RDMA device",
    )
}

fn one(look: &Look<'_>, all: &Functions, address: &str, function: &PciFunction) -> Option<Finding> {
    let mellanox = function.vendor == Reading::Value(MELLANOX);
    let network = function.class.value().is_some_and(|class| NETWORK.contains(&(class >> 8)));
    let driver = function.driver.value().map(String::as_str);
    let other = DRIVERS.iter().find(|(name, _)| Some(*name) == driver);
    if !(mellanox && network || other.is_some()) {
        return None;
    }
    let ignored = |row: &crate::manifest::Expectation| {
        matches!(row.role, Some(PortRole::Ignore | PortRole::Management)) && glob(&row.device, address)
    };
    // A virtual function without a driver, or with vfio's, belongs to a virtual machine.
    let given_away =
        driver == Some("vfio-pci") || (function.physical_function.value().is_some() && driver.is_none());
    if given_away || look.policy.manifest.rows.iter().any(ignored) {
        return None;
    }
    let subject = format!("pci {address}");
    if let Some(device) = function.rdma_devices.first() {
        return Some(ok(ID, subject, format!("is {device}")));
    }
    if let Some(device) = by_bond(look, all, function) {
        return Some(ok(ID, subject, format!("is part of {device}, over a bond")));
    }
    let module = other.map_or("mlx5_ib", |(_, module)| module);
    let loaded = look.now.system.modules.value().map(|modules| modules.contains_key(module));
    let evidence = vec![
        format!("driver = {}", driver.unwrap_or_else(|| why(&function.driver))),
        format!(
            "module {module} = {}",
            loaded.map_or("not known", |l| if l { "loaded" } else { "not loaded" })
        ),
    ];
    Some(missing(address, function, driver, (module, loaded)).finding(ID, subject, evidence))
}

/// The RDMA device of a bond that the function is a member of: the second function of a RoCE bond has none of its own.
fn by_bond(look: &Look<'_>, all: &Functions, function: &PciFunction) -> Option<String> {
    let netdevs = look.now.netdevs.value()?;
    let master = |name: &String| netdevs.get(name)?.master.value().cloned();
    let bond = function.netdevs.iter().find_map(master)?;
    let member = |other: &&PciFunction| other.netdevs.iter().filter_map(master).any(|m| m == bond);
    all.values().filter(member).find_map(|other| other.rdma_devices.first().cloned())
}

fn missing(
    address: &str,
    function: &PciFunction,
    driver: Option<&str>,
    (module, loaded): (&str, Option<bool>),
) -> Verdict {
    if function.enable_roce == Reading::Value(false) {
        return Verdict::warn(
            "RoCE is switched off on this adapter: it has no RDMA device".to_owned(),
            "a setting of this host: devlink parameter enable_roce",
            format!(
                "`devlink dev param set pci/{address} name enable_roce value true cmode driverinit && devlink dev reload pci/{address}`; where it is meant so: `role: ignore` in the manifest."
            ),
        );
    }
    let summary = "an adapter that can do RDMA has no RDMA device".to_owned();
    match (driver, loaded) {
        (None, _) => Verdict::fail(
            format!("{summary}: no driver is bound"),
            "this host: the driver is not loaded, or gave up when the card did not start",
            format!(
                "`lspci -k -s {address}`; `dmesg -T | grep {address}`; cold start of the node when the card does not answer."
            ),
        ),
        (_, Some(false)) => Verdict::fail(
            format!("{summary}: module {module} is not loaded"),
            "this host: the driver's RDMA part is not installed or not loaded",
            format!("`modprobe {module}`; then `rdma dev`; see that it is loaded at boot."),
        ),
        _ => Verdict::fail(
            summary,
            "the card or its firmware: the driver is there and no RDMA device came of it",
            format!(
                "`dmesg -T | grep -e {address} -e {module}`; `devlink dev info pci/{address}` (firmware, PSID); compare with a good node."
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::testing::netdev;
    use rdmascope_fixtures::snapshot::roce;
    use rdmascope_model::{Snapshot, Status};

    fn second(m: &mut Snapshot) -> &mut PciFunction {
        let Reading::Value(all) = &mut m.pci else { panic!("no PCI") };
        all.get_mut("0000:3b:00.1").unwrap()
    }

    fn judged(edit: impl Fn(&mut Snapshot)) -> Vec<Finding> {
        let mut machine = roce(2);
        edit(&mut machine);
        judge(&Look::first(&machine, &Policy::default()))
    }

    #[test]
    fn c071_a_card_on_pci_that_is_no_rdma_device() {
        let found = judged(|m| second(m).rdma_devices.clear());
        assert_eq!((found[0].status, found[1].status), (Status::Ok, Status::Fail));
        assert_eq!(found[1].subject, "pci 0000:3b:00.1");
        let found = judged(|m| {
            second(m).rdma_devices.clear();
            second(m).driver = Reading::Absent;
        });
        assert!(found[1].summary.contains("no driver is bound"), "{}", found[1].summary);
    }

    #[test]
    fn roce_switched_off_and_a_missing_module_are_named() {
        let off = judged(|m| {
            second(m).rdma_devices.clear();
            second(m).enable_roce = Reading::Value(false);
        });
        assert_eq!(off[1].status, Status::Warn);
        let module = judged(|m| {
            second(m).rdma_devices.clear();
            let Reading::Value(modules) = &mut m.system.modules else { panic!("no modules") };
            modules.remove("mlx5_ib");
        });
        assert!(module[1].next_step.contains("modprobe mlx5_ib"), "{}", module[1].next_step);
    }

    #[test]
    fn members_of_a_bond_and_functions_of_virtual_machines_are_no_loss() {
        let bonded = judged(|m| {
            second(m).rdma_devices.clear();
            for name in ["eth0", "eth1"] {
                netdev(m, name).master = Reading::Value("bond0".into());
            }
        });
        assert_eq!(bonded[1].status, Status::Ok);
        let given = judged(|m| {
            second(m).rdma_devices.clear();
            second(m).driver = Reading::Value("vfio-pci".into());
        });
        assert_eq!(given.len(), 1);
    }
}
