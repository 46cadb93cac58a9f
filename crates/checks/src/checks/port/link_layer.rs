//! Does the port speak what is expected of it, Ethernet or InfiniBand?

use crate::check::{Check, Look, Settles};
use crate::duty::{links, same_card};
use crate::finding::{ok, port_subject, unknown, why};
use rdmascope_model::{Device, Finding, LinkLayer, Port, Reading, Status};

const ID: &str = "link-layer";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does the port speak the link layer that is expected, Ethernet or InfiniBand?",
    meaning: "A port of the wrong link layer may well be up, but it reaches none of its peers: jobs miss a rail or fall back to another.",
    causes: &[
        "the adapter's firmware is set to the other protocol (LINK_TYPE_P1)",
        "a new adapter came with its factory setting",
        "the cable leads into the other fabric",
    ],
    next_steps: &[
        "`ibstat` or `rdma link` shows the link layer; `mlxconfig -d PCI_ADDRESS query | grep LINK_TYPE` the firmware's setting.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let all: Vec<(&Device, &Port)> =
        links(look.now, look.policy).map(|(device, port, _)| (device, port)).collect();
    all.iter().filter_map(|(device, port)| one(look, device, port, &all)).collect()
}

fn one(look: &Look<'_>, device: &Device, port: &Port, all: &[(&Device, &Port)]) -> Option<Finding> {
    let subject = port_subject(device, port);
    let layer = match &port.link_layer {
        Reading::Value(layer) => layer,
        Reading::Absent => return None,
        missing => return Some(unknown(ID, subject, "the port's link layer", why(missing))),
    };
    if let Some(expected) = look.policy.manifest.of(device, Some(port)).link_layer.filter(|e| e != layer) {
        return Some(wrong(subject, device, port, layer, &expected));
    }
    let other = all
        .iter()
        .find(|(d, p)| same_card(device, d) && p.link_layer.value().is_some_and(|other| other != layer));
    let beside = other.map_or_else(String::new, |(d, p)| {
        let other = p.link_layer.value().map_or("", LinkLayer::as_str);
        format!("; the card is mixed: {} speaks {other}", port_subject(d, p))
    });
    Some(ok(ID, subject, format!("the port speaks {}{beside}", layer.as_str())))
}

fn wrong(subject: String, device: &Device, port: &Port, layer: &LinkLayer, expected: &LinkLayer) -> Finding {
    let address = device.pci_address.value().map_or("PCI_ADDRESS", String::as_str);
    let setting = if *expected == LinkLayer::InfiniBand { 1 } else { 2 };
    Finding {
        id: ID.into(),
        status: Status::Fail,
        subject,
        summary: format!("wrong link layer: {}, {} expected by the manifest", layer.as_str(), expected.as_str()),
        cause: "a setting of this host: the adapter's firmware is set to the other protocol, or the adapter is a new one with its \
                factory setting"
            .to_owned(),
        next_step: format!(
            "`mlxconfig -d {address} query | grep LINK_TYPE`; set it while no job runs: `mlxconfig -d {address} set \
             LINK_TYPE_P{}={setting}`, then reboot.",
            port.number
        ),
        evidence: vec![format!("link_layer = {}", layer.as_str())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::manifest::{Expectation, Manifest};
    use rdmascope_fixtures::snapshot::{infiniband, roce};
    use rdmascope_model::Snapshot;

    fn expecting(layer: LinkLayer) -> Policy {
        let row = Expectation { device: "mlx5_*".into(), link_layer: Some(layer), ..Expectation::default() };
        Policy { manifest: Manifest { rows: vec![row] }, ..Policy::default() }
    }

    fn first(machine: &Snapshot, policy: &Policy) -> Finding {
        judge(&Look::first(machine, policy)).remove(0)
    }

    #[test]
    fn the_wrong_link_layer_is_called_so() {
        let found = first(&roce(1), &expecting(LinkLayer::InfiniBand));
        assert_eq!(found.status, Status::Fail);
        assert!(found.summary.starts_with("wrong link layer: Ethernet, InfiniBand expected"));
        assert!(found.next_step.contains("mlxconfig -d 0000:3b:00.0"));
        assert_eq!(first(&roce(1), &expecting(LinkLayer::Ethernet)).status, Status::Ok);
    }

    /// C128: a ConnectX-7 in Ethernet mode has the LIDs and the rate text of an InfiniBand port that is sick; it is neither.
    #[test]
    fn c128_the_link_layer_alone_tells_roce_from_infiniband() {
        assert_eq!(first(&roce(1), &Policy::default()).summary, "the port speaks Ethernet");
        assert_eq!(first(&infiniband(1), &Policy::default()).summary, "the port speaks InfiniBand");
    }

    #[test]
    fn a_mixed_card_is_said_and_an_unread_one_is_unknown() {
        let mut machine = roce(2);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[1].ports[0].link_layer = Reading::Value(LinkLayer::InfiniBand);
        let found = first(&machine, &Policy::default());
        assert_eq!(found.status, Status::Ok);
        assert!(found.summary.ends_with("the card is mixed: mlx5_1/1 speaks InfiniBand"));
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].link_layer = Reading::failed("EIO");
        assert_eq!(first(&machine, &Policy::default()).status, Status::Unknown);
    }
}
