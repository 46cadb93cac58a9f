//! What is private in a file by its name: serial numbers, arguments and environments of processes, PCI vital product data.

use super::Anonymiser;
use std::hash::BuildHasher;

/// Beginnings of the environment variables that a capture keeps; all others may hold secrets and are left out.
const VARIABLES: [&str; 12] = [
    "NCCL_",
    "RCCL_",
    "UCX_",
    "GLOO_",
    "OMPI_MCA_btl",
    "OMPI_MCA_pml",
    "OMPI_MCA_mtl",
    "IBV_",
    "MLX5_",
    "RDMAV_",
    "FI_",
    "NVSHMEM_",
];

/// Parts of the kernel's command line that a judge needs; the values of all others are left out.
const PARAMETERS: [&str; 8] = ["iommu", "pci", "pcie_", "idle", "cstate", "nohz", "isolcpus", "modprobe"];

/// Lines of a process's status that a judge needs; users and groups are nobody's business.
const STATUS: [&str; 6] = ["Name:", "Pid:", "NSpid:", "VmLck:", "VmPin:", "Cap"];

/// PCI Express extended capability "device serial number" (PCI Express Base Specification, 7.9.3).
const SERIAL_CAPABILITY: u16 = 3;

/// First extended capability in a function's configuration space.
const EXTENDED: usize = 0x100;

impl<S: BuildHasher> Anonymiser<S> {
    /// The bytes of a captured file.
    pub(crate) fn file(&mut self, path: &str, bytes: &[u8]) -> Vec<u8> {
        let name = path.rsplit('/').next().unwrap_or_default();
        match name {
            "vpd" => return without_vpd_values(bytes),
            "config" if path.contains("/pci") || path.contains("/0000:") => return without_serial(bytes),
            _ => {}
        }
        let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
        match name {
            "environ" => {
                let kept = |variable: &&str| VARIABLES.iter().any(|known| variable.starts_with(known));
                let variables: Vec<String> = text.split('\0').filter(kept).map(|v| self.text(v)).collect();
                variables.iter().flat_map(|variable| variable.bytes().chain([0])).collect()
            }
            "cmdline" if path == "proc/cmdline" => self.kernel_parameters(text).into_bytes(),
            "cmdline" => text.split_inclusive('\0').next().unwrap_or_default().as_bytes().to_vec(),
            "status" if path.starts_with("proc/") => {
                let kept = |line: &&str| STATUS.iter().any(|known| line.starts_with(known));
                text.split_inclusive('\n').filter(kept).collect::<String>().into_bytes()
            }
            "phys_switch_id" | "phys_port_id" if !text.trim().is_empty() => {
                let number = self.number("switch", text.trim());
                format!("{number:0width$x}\n", width = text.trim().len()).into_bytes()
            }
            _ if is_serial(name) => self.stand_in("serial", text).into_bytes(),
            _ if name.contains("version") || matches!(name, "fw_ver" | "osrelease") => bytes.to_vec(),
            _ => {
                let lldp = path.starts_with("rdmascope/") && name == "lldp";
                let lines = text.split('\n').map(|line| self.keyed(line, lldp));
                lines.collect::<Vec<_>>().join("\n").into_bytes()
            }
        }
    }

    /// A line whose key says that its value is private, or any other line.
    fn keyed(&mut self, line: &str, lldp: bool) -> String {
        if let Some(at) = line.find([':', '=']) {
            let (key, value) = (line[..at].to_ascii_lowercase(), line[at + 1..].trim());
            let kind = if key.contains("serial") {
                Some("serial")
            } else if key.trim() == "ssid" || key.ends_with("_ssid") {
                Some("ssid")
            } else if lldp && key.trim() == "system" {
                Some("switch")
            } else {
                None
            };
            if let Some(kind) = kind.filter(|_| !value.is_empty() && value != "-") {
                return format!("{} {}", &line[..=at], self.stand_in(kind, value).trim());
            }
        }
        self.text(line)
    }

    fn stand_in(&mut self, kind: &'static str, text: &str) -> String {
        match text.trim() {
            "" => text.to_owned(),
            word => format!("{kind}-{}\n", self.number(kind, word)),
        }
    }

    fn kernel_parameters(&mut self, text: &str) -> String {
        let words = text.split_whitespace().map(|word| match word.split_once('=') {
            Some((key, _)) if !PARAMETERS.iter().any(|known| key.contains(known)) => format!("{key}=..."),
            _ => self.text(word),
        });
        words.collect::<Vec<_>>().join(" ") + "\n"
    }
}

fn is_serial(name: &str) -> bool {
    name.ends_with("serial")
        || matches!(
            name,
            "serial_number" | "product_uuid" | "machine-id" | "boot_id" | "asset_tag" | "hostname"
        )
        || name.ends_with("_asset_tag")
}

/// Values of vital product data become `X`, except the part number: serial numbers stand in SN, and vendors put more into V0 to VZ
/// (PCI Local Bus Specification 3.0, appendix I).
fn without_vpd_values(bytes: &[u8]) -> Vec<u8> {
    let mut new = bytes.to_vec();
    let length = |at: usize| Some(usize::from(*bytes.get(at)?) | usize::from(*bytes.get(at + 1)?) << 8);
    let mut at = 0;
    // Large resources: tag, two bytes of length. 0x90: read-only fields, 0x91: writable ones.
    while let (Some(tag), Some(size)) = (bytes.get(at), length(at + 1)) {
        if tag & 0x80 == 0 {
            break;
        }
        let (mut field, end) = (at + 3, (at + 3 + size).min(bytes.len()));
        while matches!(tag, 0x90 | 0x91) && field + 3 <= end {
            let (key, size) = (&bytes[field..field + 2], usize::from(bytes[field + 2]));
            let value = field + 3..(field + 3 + size).min(end);
            if !matches!(key, b"PN" | b"RV" | b"RW") {
                new[value].fill(b'X');
            }
            field += 3 + size;
        }
        at = end;
    }
    new
}

/// The configuration space of a PCI function without its serial number, which network adapters make from a MAC address.
fn without_serial(bytes: &[u8]) -> Vec<u8> {
    let mut new = bytes.to_vec();
    let mut at = EXTENDED;
    // A chain that leads back to where it was must not hold us.
    for _ in 0..bytes.len() / 4 {
        let Some(header) = bytes.get(at..at + 4) else { break };
        let id = u16::from_le_bytes([header[0], header[1]]);
        if let Some(serial) = new.get_mut(at + 4..at + 12).filter(|_| id == SERIAL_CAPABILITY) {
            serial.fill(0);
        }
        at = usize::from(u16::from_le_bytes([header[2], header[3]]) >> 4) & !3;
        if at < EXTENDED {
            break;
        }
    }
    new
}
