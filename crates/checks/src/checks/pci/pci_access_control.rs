//! Do PCI bridges send GPU traffic of adapters round by the processor?

use super::{Functions, bridges, is_gpu};
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::verdict::Verdict;
use rdmascope_model::{Finding, PciFunction, Reading};
use std::collections::BTreeMap;

const ID: &str = "pci-access-control";

/// Request redirect, completion redirect and upstream forwarding (PCI Express 7.7.11.3).
const REDIRECTS: u16 = 0x04 | 0x08 | 0x10;

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is access control (ACS) of the bridges between GPUs and RDMA adapters off?",
    meaning: "With redirection on, GPUDirect traffic goes up to the processor and back: half the bandwidth, or failed transfers.",
    causes: &["the BIOS or the kernel turned ACS on, for virtual machines or because the IOMMU translates"],
    next_steps: &[
        "`lspci -vvv | grep -e '^[0-9a-f]' -e ACSCtl | grep -B1 'ReqRedir+'`.",
        "Bare metal: turn ACS off in the BIOS, or at each boot `setpci -s BRIDGE ECAP_ACS+0x6.w=0000`; keep it in virtual machines' hosts.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let machine = || "machine".to_owned();
    let all = match &look.now.pci {
        Reading::Value(all) => all,
        Reading::Absent => return Vec::new(),
        failed => return vec![unknown(ID, machine(), "the PCI functions", why(failed))],
    };
    let gpus: Vec<&str> = all.iter().filter(|(_, f)| is_gpu(f)).map(|(a, _)| a.as_str()).collect();
    if gpus.is_empty() {
        return vec![ok(ID, machine(), "no GPU".to_owned())];
    }
    match &look.now.system.virtual_machine {
        Reading::Value(true) => {
            return vec![ok(
                ID,
                machine(),
                "not judged in a virtual machine: its host needs access control".to_owned(),
            )];
        }
        Reading::Failed(why) => {
            return vec![unknown(ID, machine(), "whether this is a virtual machine", why)];
        }
        Reading::Value(false) | Reading::Absent => {}
    }
    let between = between(all, &gpus);
    let redirects = |bridge: &PciFunction| bridge.acs_control.value().is_some_and(|acs| acs & REDIRECTS != 0);
    let bad: Vec<Finding> = between
        .iter()
        .filter(|(_, (bridge, ..))| redirects(bridge))
        .map(|(address, (bridge, gpu, nic))| redirected(address, bridge, gpu, nic))
        .collect();
    if !bad.is_empty() {
        return bad;
    }
    let unread = between.values().find_map(|(bridge, ..)| match &bridge.acs_control {
        Reading::Failed(why) => Some(why),
        Reading::Value(_) | Reading::Absent => None,
    });
    vec![match unread {
        Some(why) => unknown(ID, machine(), "access control of the PCI bridges", why),
        None => ok(
            ID,
            machine(),
            format!(
                "none of {} bridges between {} GPUs and the adapters redirects",
                between.len(),
                gpus.len()
            ),
        ),
    }]
}

/// Bridges on the way from a GPU to an adapter, below what is above both; with one GPU and one adapter that they are between.
fn between<'a>(
    all: &'a Functions,
    gpus: &[&'a str],
) -> BTreeMap<&'a str, (&'a PciFunction, &'a str, &'a str)> {
    let mut found = BTreeMap::new();
    let adapters = all.iter().filter(|(_, function)| !function.rdma_devices.is_empty());
    for (nic, _) in adapters {
        let of_nic = bridges(all, nic);
        for gpu in gpus {
            let of_gpu = bridges(all, gpu);
            let common = |address: &str| {
                let has = |path: &[(&str, &PciFunction)]| path.iter().any(|(a, _)| *a == address);
                // A port that both hang on directly is between them; a bridge above it is not.
                has(&of_nic) && has(&of_gpu) && of_nic.first().map(|(a, _)| *a) != Some(address)
            };
            for (address, bridge) in of_nic.iter().chain(&of_gpu).filter(|(address, _)| !common(address)) {
                found.entry(*address).or_insert((*bridge, *gpu, nic.as_str()));
            }
        }
    }
    found
}

fn redirected(address: &str, bridge: &PciFunction, gpu: &str, nic: &str) -> Finding {
    let acs = bridge.acs_control.value().copied().unwrap_or(0);
    let verdict = Verdict::fail(
        format!("access control of bridge {address} redirects traffic between GPU {gpu} and adapter {nic}"),
        "a setting of this host (BIOS or kernel): ACS is on, so GPUDirect goes round by the processor",
        format!(
            "`lspci -vvv -s {address} | grep ACSCtl`; bare metal: ACS off in the BIOS, or `setpci -s {address} ECAP_ACS+0x6.w=0000` at each boot."
        ),
    );
    verdict.finding(
        ID,
        format!("pci {address}"),
        vec![format!("acs control = {acs:#06x}"), format!("gpu = {gpu}"), format!("adapter = {nic}")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::first;
    use rdmascope_fixtures::snapshot::add_gpu;
    use rdmascope_model::{Snapshot, Status};

    const BRIDGE: &str = "0000:3a:00.0";

    fn acs(m: &mut Snapshot, control: Reading<u16>) {
        add_gpu(m, "0000:3c:00.0");
        let Reading::Value(all) = &mut m.pci else { panic!("no PCI") };
        all.get_mut(BRIDGE).unwrap().acs_control = control;
    }

    #[test]
    fn c041_request_redirect_between_gpu_and_adapter() {
        let found = first(&CHECK, |m| acs(m, Reading::Value(0x04))).remove(0);
        assert_eq!((found.status, found.subject.as_str()), (Status::Fail, "pci 0000:3a:00.0"));
    }

    #[test]
    fn c043_all_of_access_control_on_and_source_validation_alone_off_the_hook() {
        assert_eq!(first(&CHECK, |m| acs(m, Reading::Value(0x1d)))[0].status, Status::Fail);
        assert_eq!(first(&CHECK, |m| acs(m, Reading::Value(0x01)))[0].status, Status::Ok);
    }

    #[test]
    fn not_in_virtual_machines_and_unknown_only_with_gpus() {
        let vm = first(&CHECK, |m| {
            acs(m, Reading::Value(0x1d));
            m.system.virtual_machine = Reading::Value(true);
        });
        assert_eq!(vm[0].status, Status::Ok);
        assert_eq!(first(&CHECK, |m| acs(m, Reading::failed("EPERM")))[0].status, Status::Unknown);
        let without = first(&CHECK, |m| {
            acs(m, Reading::failed("EPERM"));
            let Reading::Value(all) = &mut m.pci else { panic!("no PCI") };
            all.remove("0000:3c:00.0");
        });
        assert_eq!(without[0].status, Status::Ok);
    }

    #[test]
    fn what_is_above_both_is_not_between_them_and_what_is_above_one_is() {
        // mlx5_0 - 3a - 38 (switch) - 37 (root); the GPU hangs on the switch, or on a root port of its own.
        let judged = |gpu_parent: &str, redirecting: &str| {
            first(&CHECK, |m| {
                add_gpu(m, "0000:3c:00.0");
                let Reading::Value(all) = &mut m.pci else { panic!("no PCI") };
                let bridge = all[BRIDGE].clone();
                for (address, parent) in [("38", Some("37")), ("37", None), ("60", None), ("3a", Some("38"))]
                {
                    let parent = parent.map(|p| format!("0000:{p}:00.0"));
                    all.insert(format!("0000:{address}:00.0"), PciFunction { parent, ..bridge.clone() });
                }
                all.get_mut("0000:3c:00.0").unwrap().parent = Some(gpu_parent.to_owned());
                all.get_mut(redirecting).unwrap().acs_control = Reading::Value(0x1c);
            })[0]
                .status
        };
        assert_eq!(judged("0000:38:00.0", "0000:37:00.0"), Status::Ok);
        assert_eq!(judged("0000:38:00.0", BRIDGE), Status::Fail);
        assert_eq!(judged("0000:60:00.0", "0000:38:00.0"), Status::Fail);
    }
}
