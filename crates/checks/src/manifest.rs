//! What operators expect of each port, pinned in the config; without it only what is wrong on any machine is judged.

use rdmascope_model::{Device, LinkLayer, Port, Reading};

/// Rows in the order of the config. A port takes each field from the first row that matches it and gives the field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The rows.
    pub rows: Vec<Expectation>,
}

/// What a port is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortRole {
    /// Carries the job: judged in full.
    #[default]
    Compute,
    /// Carries storage: judged in full.
    Storage,
    /// Management network: its link is judged, nothing of what RDMA needs.
    Management,
    /// Not looked at.
    Ignore,
}

/// One row; a field that is `None` says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// Device name, PCI address or node GUID; `*` stands for any letters.
    pub device: String,
    /// Port number; `None`: every port.
    pub port: Option<u8>,
    /// What it is for.
    pub role: Option<PortRole>,
    /// Which plane of the fabric it belongs to.
    pub rail: Option<String>,
    /// Ethernet or InfiniBand.
    pub link_layer: Option<LinkLayer>,
    /// Signalling rate, bits per second.
    pub rate_bps: Option<u64>,
    /// MTU of the network device, bytes.
    pub netdev_mtu: Option<u32>,
    /// RDMA MTU, bytes.
    pub rdma_mtu: Option<u32>,
    /// Priorities with PFC, bit 0 = priority 0.
    pub pfc: Option<u8>,
    /// DSCP of RDMA traffic.
    pub dscp: Option<u8>,
    /// Firmware version.
    pub firmware: Option<String>,
    /// PCI Express lanes.
    pub pci_width: Option<u8>,
    /// It is meant to be down (a spare, not cabled).
    pub down: Option<bool>,
}

impl Manifest {
    /// What is expected of one port; all `None` where no row matches.
    #[must_use]
    pub fn of(&self, device: &Device, port: Option<&Port>) -> Expectation {
        let mut found = Expectation::default();
        for row in self.rows.iter().filter(|row| row.matches(device, port)) {
            found.fill_from(row);
        }
        found
    }

    /// Rows that name one device (no `*`) which is none of these, each once; with the reason where a device could not be read that
    /// may be the one. Rows to be ignored ask for nothing.
    pub(crate) fn missing<'a>(&'a self, devices: &'a [Device]) -> Vec<(&'a str, Option<&'a str>)> {
        let mut found: Vec<(&str, Option<&str>)> = Vec::new();
        let wanted = |row: &&Expectation| !row.device.contains('*') && row.role != Some(PortRole::Ignore);
        for row in self.rows.iter().filter(wanted) {
            let there = devices.iter().any(|device| row.matches(device, None));
            if there || found.iter().any(|(name, _)| *name == row.device) {
                continue;
            }
            let unread = |device: &'a Device| match (&device.pci_address, &device.node_guid) {
                (Reading::Failed(why), _) | (_, Reading::Failed(why)) => Some(why.as_str()),
                _ => None,
            };
            // A device's name has no colon; addresses and GUIDs have.
            let by_name = !row.device.contains(':');
            found.push((&row.device, devices.iter().filter_map(unread).next().filter(|_| !by_name)));
        }
        found
    }
}

impl Expectation {
    fn matches(&self, device: &Device, port: Option<&Port>) -> bool {
        let names = [Some(&device.name), device.pci_address.value(), device.node_guid.value()];
        let named = names.into_iter().flatten().any(|name| glob(&self.device, name));
        named && self.port.is_none_or(|number| port.is_none_or(|port| port.number == number))
    }

    fn fill_from(&mut self, row: &Self) {
        self.role = self.role.or(row.role);
        self.rail = self.rail.take().or_else(|| row.rail.clone());
        self.link_layer = self.link_layer.take().or_else(|| row.link_layer.clone());
        self.rate_bps = self.rate_bps.or(row.rate_bps);
        self.netdev_mtu = self.netdev_mtu.or(row.netdev_mtu);
        self.rdma_mtu = self.rdma_mtu.or(row.rdma_mtu);
        self.pfc = self.pfc.or(row.pfc);
        self.dscp = self.dscp.or(row.dscp);
        self.firmware = self.firmware.take().or_else(|| row.firmware.clone());
        self.pci_width = self.pci_width.or(row.pci_width);
        self.down = self.down.or(row.down);
    }
}

/// Whether `pattern`, in which `*` stands for any letters, is all of `text`.
#[must_use]
pub fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    if first.len() == pattern.len() {
        return rest.is_empty();
    }
    let mut parts: Vec<&str> = parts.collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::snapshot::roce;

    #[test]
    fn stars_stand_for_any_letters() {
        for (pattern, text, fits) in [
            ("mlx5_0", "mlx5_0", true),
            ("mlx5_0", "mlx5_01", false),
            ("mlx5_*", "mlx5_bond_0", true),
            ("*", "", true),
            ("0000:*:00.0", "0000:3b:00.0", true),
            ("0000:*:00.0", "0000:3b:00.1", false),
            ("a*b*c", "aXbYbZc", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_row_that_gives_a_field_wins() {
        let machine = roce(2);
        let devices = machine.devices.value().unwrap();
        let row = |device: &str| Expectation { device: device.to_owned(), ..Expectation::default() };
        let manifest = Manifest {
            rows: vec![
                Expectation { netdev_mtu: Some(4220), ..row("mlx5_1") },
                Expectation { netdev_mtu: Some(9000), rail: Some("a".to_owned()), ..row("mlx5_*") },
            ],
        };
        let port = &devices[1].ports[0];
        let found = manifest.of(&devices[1], Some(port));
        assert_eq!((found.netdev_mtu, found.rail.as_deref()), (Some(4220), Some("a")));
        assert_eq!(manifest.of(&devices[0], None).netdev_mtu, Some(9000));
        assert_eq!(Manifest::default().of(&devices[0], None), Expectation::default());
    }
}
