//! What a message is about: the PCI function, RDMA device or network device that it names, and the process.

/// Beginnings of names of RDMA devices, as drivers and udev give them.
const RDMA: &[&str] = &[
    "mlx5_bond_",
    "mlx4_bond_",
    "mlx5_ib",
    "mlx4_ib",
    "mlx5_",
    "mlx4_",
    "bnxt_re_bond",
    "bnxt_re",
    "irdma",
    "hfi1_",
    "erdma_",
    "hns_",
    "hrn3_bond_",
    "hrn3_",
    "efa_",
    "qedr",
    "rxe",
    "siw",
    "i40iw",
    "mana_",
    "rocep",
    "rdmap",
];

/// Subject of a finding: `pci ADDRESS`, `mlx5_0/1`, `mlx5_0` or `netdev NAME`; `None` when the message names nothing.
pub(crate) fn subject(text: &str) -> Option<String> {
    address(text)
        .map(|address| format!("pci {address}"))
        .or_else(|| rdma(text))
        .or_else(|| netdev(text).map(|name| format!("netdev {name}")))
}

/// The process in `(pid 123)`.
pub(crate) fn pid(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("(pid ")?;
    rest.split_once(')')?.0.parse().ok()
}

/// The first PCI address; its domain may have up to eight digits, and an IOMMU line may leave it out.
fn address(text: &str) -> Option<String> {
    let foreign = |c: char| !(c.is_ascii_hexdigit() || c == ':' || c == '.');
    text.split(foreign).find_map(|word| {
        let word = word.trim_matches(':').trim_end_matches('.');
        let (front, function) = word.split_once('.')?;
        let mut parts = front.rsplit(':');
        let (device, bus, domain) = (parts.next()?, parts.next()?, parts.next());
        let hex = |part: &str, least: usize, most: usize| {
            (least..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit())
        };
        let digit = function.len() == 1 && matches!(function.as_bytes(), [b'0'..=b'7']);
        if !digit || !hex(device, 2, 2) || !hex(bus, 2, 2) || parts.next().is_some() {
            return None;
        }
        match domain {
            Some(domain) if hex(domain, 4, 8) => Some(word.to_ascii_lowercase()),
            None if text.contains("device [") || text.contains("device=") => {
                Some(format!("0000:{}", word.to_ascii_lowercase()))
            }
            Some(_) | None => None,
        }
    })
}

/// `mlx5_0`, or `mlx5_0/1` where the port follows as `/1` or `:1`.
fn rdma(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix("infiniband ") {
        let name = rest.split([':', ' ']).next().filter(|name| !name.is_empty())?;
        let with_port = text.match_indices(name).map(|(at, _)| &text[at + name.len()..]).find_map(port);
        return Some(with_port.map_or_else(|| name.to_owned(), |port| format!("{name}/{port}")));
    }
    let foreign = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let mut at = 0;
    for word in text.split(foreign) {
        let after = &text[at + word.len()..];
        at += word.len() + after.chars().next().map_or(0, char::len_utf8);
        if is_rdma(word) {
            return Some(port(after).map_or_else(|| word.to_owned(), |port| format!("{word}/{port}")));
        }
    }
    None
}

fn is_rdma(word: &str) -> bool {
    let Some(rest) = RDMA.iter().find_map(|begin| word.strip_prefix(begin)) else { return false };
    let by_slot = word.starts_with("rocep") || word.starts_with("rdmap");
    let fits = |b: u8| b.is_ascii_digit() || (by_slot && matches!(b, b's' | b'f' | b'n' | b'p' | b'd'));
    !rest.is_empty() && rest.bytes().all(fits) && rest.ends_with(|c: char| c.is_ascii_digit() || by_slot)
}

fn port(after: &str) -> Option<u8> {
    let rest = after.strip_prefix(['/', ':'])?;
    let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
    digits.parse().ok().filter(|port| *port > 0)
}

/// A network device where messages name one: `(slave NAME)`, `NETDEV WATCHDOG: NAME (`, `mlx4_en: NAME:`, after a program's tag,
/// or in front of everything.
fn netdev(text: &str) -> Option<&str> {
    let after = |mark: &str, end: &str| text.split_once(mark)?.1.split_once(end).map(|(name, _)| name);
    let tagged = text.split_once("]: ").map(|(_, rest)| rest).unwrap_or_default();
    let first = |text: &str| -> Option<usize> { text.find(": ") };
    let candidates = [
        after("(slave ", ")"),
        after("NETDEV WATCHDOG: ", " ("),
        after("mlx4_en: ", ":"),
        first(tagged).map(|at| &tagged[..at]),
        first(text).map(|at| &text[..at]),
    ];
    candidates.into_iter().flatten().find(|name| is_netdev(name))
}

/// At most 15 letters (`IFNAMSIZ`), with a digit, and no driver's name.
fn is_netdev(name: &str) -> bool {
    let letters = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'@');
    (2..=15).contains(&name.len())
        && name.bytes().all(letters)
        && name.bytes().any(|b| b.is_ascii_digit())
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && !name.starts_with("mlx")
        && !name.starts_with("nvme")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn seen(text: &str, expected: Option<&str>) {
        assert_eq!(subject(text).as_deref(), expected, "{text}");
    }

    #[test]
    fn a_message_is_about_what_it_names_first() {
        seen("mlx5_core 0000:41:00.0 enp65s0f0np0: Link up", Some("pci 0000:41:00.0"));
        seen("mlx5_core 468b:00:02.0: wait_fw_init:199:(pid 17): x", Some("pci 468b:00:02.0"));
        seen("mlx5_core: probe of 10000:6F:00.0 failed with error -110", Some("pci 10000:6f:00.0"));
        seen("mlx5_core: INFO: synd 0x8: unrecoverable hardware error.", None);
        seen("mlx5_cmd_out_err:838:(pid 1441871): ACCESS_REG(0x805) x", None);
        seen("mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, x", None);
        seen(
            "DMAR: [DMA Read NO_PASID] Request device [5e:00.0] fault addr 0x7f2b4000",
            Some("pci 0000:5e:00.0"),
        );
        seen(
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:5e:00.0 domain=0x0042",
            Some("pci 0000:5e:00.0"),
        );
        seen("mlx5_0: dump_cqe:272:(pid 0): WC error: 4", Some("mlx5_0"));
        seen("infiniband mlx5_bond_0: f:310:(pid 0): mlx5_bond_0/1: QP 12 error: x", Some("mlx5_bond_0/1"));
        seen("infiniband odd-name: Couldn't query port", Some("odd-name"));
        seen("Transport retry count exceeded on mlx5_0:1/IB", Some("mlx5_0/1"));
        seen("NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 0 timed out", Some("netdev eth0"));
        seen("bond0: (slave ens1f0np0): link status definitely down", Some("netdev ens1f0np0"));
        seen("bond0: now running without any active interface!", Some("netdev bond0"));
        seen("systemd-networkd[5398]: ib6: lost carrier", Some("netdev ib6"));
        seen("wpa_supplicant[1234]: ens300np0: CTRL-EVENT-EAP-FAILURE x", Some("netdev ens300np0"));
        seen("mlx4_en: eth1: Link Down", Some("netdev eth1"));
        seen("NCCL WARN NET/IB : Got completion from peer 192.0.2.17<38560> with error 12", None);
        seen("a time of 12:30.5 and é", None);
    }

    #[test]
    fn the_process_is_the_one_in_brackets() {
        assert_eq!(pid("wait_func:1132:(pid 141181): x"), Some(141_181));
        assert_eq!(pid("no process (pid x)"), None);
    }
}
