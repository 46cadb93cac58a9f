//! Writes the manifest of a healthy node: what every port is now becomes what is expected of it.

use rdmascope_model::{Device, LinkLayer, Netdev, Port, PortState, Reading, Snapshot};
use std::fmt::Write as _;

/// The text of a `manifest` section that this machine fits. Fields that could not be read are left out, and said so.
#[must_use]
pub fn pinned(snapshot: &Snapshot) -> String {
    let mut text = String::from(
        "# Manifest of this node as it is now: review it, take out what may differ, and put it into the config of all nodes alike.\n\
         # A port that is down now is pinned as meant to be down.\n\
         manifest:\n",
    );
    let mut ports = 0;
    for device in snapshot.devices.value().into_iter().flatten() {
        for port in &device.ports {
            row(&mut text, snapshot, device, port);
            ports += 1;
        }
    }
    if ports == 0 {
        text.push_str("  # no RDMA port was found\n");
    }
    text
}

fn row(text: &mut String, snapshot: &Snapshot, device: &Device, port: &Port) {
    let netdev = port.netdev.value().and_then(|name| snapshot.netdevs.value()?.get(name));
    let words =
        |reading: &Reading<String>| reading.value().cloned().unwrap_or_else(|| "not known".to_owned());
    // Writing into a String cannot fail.
    let _ = writeln!(
        text,
        "  # {}, network device {}, card {}, board {}, GUID {}",
        device.name,
        words(&port.netdev),
        words(&device.card),
        words(&device.board),
        words(&device.node_guid)
    );
    let _ = writeln!(text, "  - device: \"{}\"", device.pci_address.value().unwrap_or(&device.name));
    let _ = writeln!(text, "    port: {}\n    role: compute", port.number);
    let mut unread = Vec::new();
    for (field, value) in fields(snapshot, device, port, netdev) {
        match value {
            Reading::Value(value) => {
                let _ = writeln!(text, "    {field}: {value}");
            }
            Reading::Absent => {}
            Reading::Failed(_) => unread.push(field),
        }
    }
    if !unread.is_empty() {
        let _ = writeln!(text, "    # could not be read: {}", unread.join(", "));
    }
}

fn fields(
    snapshot: &Snapshot,
    device: &Device,
    port: &Port,
    netdev: Option<&Netdev>,
) -> Vec<(&'static str, Reading<String>)> {
    let up = port.state == Reading::Value(PortState::Active);
    // What a port that is down says of its rate and its sizes is not what it will be.
    let when_up = |reading: Reading<String>| if up { reading } else { Reading::Absent };
    let link_layer = match &port.link_layer {
        Reading::Value(LinkLayer::Ethernet) => Reading::Value("ethernet".to_owned()),
        Reading::Value(LinkLayer::InfiniBand) => Reading::Value("infiniband".to_owned()),
        Reading::Value(LinkLayer::Other(_)) | Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why.clone()),
    };
    let pfc = netdev.map_or(Reading::Absent, |netdev| match &netdev.dcb {
        Reading::Value(dcb) => dcb.pfc.clone().map(priorities),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why.clone()),
    });
    let function = device.pci_address.value().and_then(|address| snapshot.pci.value()?.get(address));
    let down = match &port.state {
        Reading::Value(PortState::Down) => Reading::Value("true".to_owned()),
        _ => Reading::Absent,
    };
    vec![
        ("link_layer", link_layer),
        ("rate_gbps", when_up(port.rate_bps.clone().map(|bits| (bits / 1_000_000_000).to_string()))),
        ("mtu", netdev.map_or(Reading::Absent, |netdev| netdev.mtu.clone().map(|mtu| mtu.to_string()))),
        ("rdma_mtu", when_up(port.active_mtu.clone().map(|mtu| mtu.to_string()))),
        ("pfc", pfc),
        ("firmware", device.firmware.clone().map(|version| format!("\"{version}\""))),
        (
            "pci_width",
            function.map_or(Reading::Absent, |f| f.link.width.clone().map(|lanes| lanes.to_string())),
        ),
        ("down", down),
    ]
}

fn priorities(mask: u8) -> String {
    let list: Vec<String> =
        (0..8).filter(|priority| mask >> priority & 1 == 1).map(|p: u8| p.to_string()).collect();
    format!("[{}]", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_checks::{Look, Policy, run, worst};
    use rdmascope_fixtures::snapshot::roce;
    use rdmascope_model::Status;

    fn judged(snapshot: &Snapshot, manifest: &str) -> Status {
        let config = crate::parse(manifest, std::path::Path::new("m.yaml")).expect("the manifest reads back");
        worst(&run(&Look::first(snapshot, &config.policy)))
    }

    #[test]
    fn a_machine_fits_its_own_manifest_and_a_changed_one_does_not() {
        let mut machine = roce(2);
        let manifest = pinned(&machine);
        assert!(manifest.contains("rate_gbps: 100") && manifest.contains("pfc: [3]"), "{manifest}");
        assert_eq!(manifest.matches("- device: \"0000:3b:00.").count(), 2, "{manifest}");
        assert_eq!(judged(&machine, &manifest), worst(&run(&Look::first(&machine, &Policy::default()))));
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[1].ports[0].state = Reading::Value(PortState::Down);
        let manifest = pinned(&machine);
        assert_eq!(manifest.matches("down: true").count(), 1, "{manifest}");
        assert_eq!(manifest.matches("rate_gbps").count(), 1, "the rate of a port that is down means nothing");
    }

    #[test]
    fn what_could_not_be_read_is_named_and_never_invented() {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].firmware = Reading::Failed("EIO".into());
        assert!(pinned(&machine).contains("# could not be read: firmware"));
        machine.devices = Reading::Absent;
        assert!(pinned(&machine).contains("no RDMA port"));
    }
}
