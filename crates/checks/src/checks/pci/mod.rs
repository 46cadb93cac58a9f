//! Does PCI Express carry what the port can do, and does each card show as an RDMA device?

pub(super) mod missing_rdma_device;
pub(super) mod pci_access_control;
pub(super) mod pci_errors;
pub(super) mod pci_link;
pub(super) mod pci_stalls;

use rdmascope_model::PciFunction;
use std::collections::BTreeMap;

/// All functions by their address.
type Functions = BTreeMap<String, PciFunction>;

/// PCI base class and subclass (PCI Code and ID Assignment Specification) of 3D controllers.
const CONTROLLER_3D: u32 = 0x0302;
/// ... of display controllers that are none of the other kinds.
const DISPLAY_VGA: u32 = 0x0300;
/// ... of processing accelerators.
const ACCELERATOR: u32 = 0x1200;
/// Vendor ids of those who make GPUs with a VGA class: NVIDIA and AMD.
const GPU_VENDORS: [u16; 2] = [0x10de, 0x1002];

/// Whether a function is a GPU.
pub(super) fn is_gpu(function: &PciFunction) -> bool {
    let of_gpu_vendor = function.vendor.value().is_some_and(|vendor| GPU_VENDORS.contains(vendor));
    match function.class.value().map(|class| class >> 8) {
        Some(CONTROLLER_3D | ACCELERATOR) => true,
        Some(DISPLAY_VGA) => of_gpu_vendor,
        _ => false,
    }
}

/// The bridges above a function, the nearest first.
fn bridges<'a>(all: &'a Functions, address: &str) -> Vec<(&'a str, &'a PciFunction)> {
    let mut found: Vec<(&str, &PciFunction)> = Vec::new();
    let mut next = all.get(address).and_then(|function| function.parent.as_deref());
    while let Some((address, bridge)) = next.and_then(|address| all.get_key_value(address)) {
        // A capture may be wrong: no circle.
        if found.iter().any(|(known, _)| *known == address.as_str()) {
            break;
        }
        found.push((address, bridge));
        next = bridge.parent.as_deref();
    }
    found
}
