//! Has a RoCE port a RoCE v2 GID that peers can reach: one for an IP address of its network device?

use crate::addressing::{NoGid, is_iwarp, usable_gid};
use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, is_not_ethernet, ok, port_subject, ports, unknown};
use rdmascope_model::{Finding, GidEntry, GidType, Port, Reading, Status};

const ID: &str = "gid-usable";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Has a RoCE port a RoCE v2 GID that peers can reach?",
    meaning: "Without a routable RoCE v2 GID connections to other subnets fail with status 12 (transport retry counter exceeded).",
    causes: &[
        "the network device has no IP address",
        "the address changed and the GID table did not follow",
        "the driver offers RoCE v1 only",
    ],
    next_steps: &[
        "See addresses and table: `ip addr show dev NETDEV`, `rdma link`, `show_gids`.",
        "Give the network device an address: `ip addr add ADDRESS/LENGTH dev NETDEV`.",
    ],
    settles: Settles::AfterDebounce,
    hard: false,
    limits: &[],
    judge,
};

/// Entries that are shown as evidence; more would bury the rest of the report.
const EVIDENCE_MAX: usize = 8;

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let (snapshot, policy) = (look.now, look.policy);
    ports(snapshot, policy)
        .filter(|(device, port)| !is_not_ethernet(port) && !is_down(port) && !is_iwarp(device))
        .map(|(device, port)| {
            let subject = port_subject(device, port);
            match usable_gid(&snapshot.netdevs, port) {
                Ok(entry) => ok(ID, subject, format!("RoCE v2 GID {} in slot {}", entry.gid, entry.index)),
                Err(NoGid::Unread(why)) => unknown(ID, subject, "the usable GID", &why),
                Err(NoGid::Missing(words)) => missing(subject, port, &words),
            }
        })
        .collect()
}

fn missing(subject: String, port: &Port, words: &str) -> Finding {
    let gids: &[GidEntry] = port.gids.value().map_or(&[], Vec::as_slice);
    let netdev = port.netdev.value().map_or("NETDEV", String::as_str);
    let global = |entry: &&GidEntry| !entry.gid.is_link_local();
    let (summary, cause) = if gids.is_empty() {
        ("the GID table is empty", "the network device is down, or it was taken away from the RDMA device")
    } else if !gids.iter().any(|entry| !entry.gid.is_link_local()) {
        ("the port has link-local GIDs only", "the network device has no IP address that is routable")
    } else if gids.iter().filter(global).all(|entry| entry.kind != Reading::Value(GidType::RoceV2)) {
        ("the port has no RoCE v2 GID", "the driver or its settings offer RoCE v1 only")
    } else {
        (
            "no GID of the port belongs to an address of its network device",
            "the address changed and the GID table did not follow, or the address is on another device (bond, bridge, namespace)",
        )
    };
    let next_step = format!(
        "See addresses and table: `ip addr show dev {netdev}`, `rdma link`, `show_gids` or \
         `grep . /sys/class/infiniband/*/ports/*/gid_attrs/types/*`; give {netdev} an IP address (`ip addr add ADDRESS/LENGTH dev \
         {netdev}`)."
    );
    let mut evidence: Vec<String> = gids.iter().take(EVIDENCE_MAX).map(in_words).collect();
    evidence.insert(0, words.to_owned());
    Finding {
        id: ID.into(),
        status: Status::Fail,
        subject,
        summary: summary.to_owned(),
        cause: cause.to_owned(),
        next_step,
        evidence,
    }
}

fn in_words(entry: &GidEntry) -> String {
    let kind = match &entry.kind {
        Reading::Value(GidType::RoceV2) => "RoCE v2",
        Reading::Value(GidType::IbOrRoceV1) => "RoCE v1",
        Reading::Value(GidType::Other(word)) => word,
        missing => missing.why_missing().unwrap_or_default(),
    };
    let netdev = entry.netdev.value().map_or("no network device", String::as_str);
    format!("gid {} = {} ({kind}, {netdev})", entry.index, entry.gid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use rdmascope_fixtures::snapshot::{gid, infiniband, roce};
    use rdmascope_model::{Device, PortState};

    fn seen(addresses: &[&str], change: impl FnOnce(&mut Device)) -> Vec<Finding> {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        change(&mut devices[0]);
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth0").unwrap().addresses =
            Reading::Value(addresses.iter().map(|text| text.parse().unwrap()).collect());
        judge(&Look::first(&machine, &Policy::default()))
    }

    fn table(entries: Vec<GidEntry>) -> impl FnOnce(&mut Device) {
        move |device| device.ports[0].gids = Reading::Value(entries)
    }

    #[test]
    fn the_gid_that_will_be_used_is_named() {
        let found = seen(&["192.0.2.1"], |_| {});
        assert_eq!(found[0].summary, "RoCE v2 GID ::ffff:192.0.2.1 in slot 3");
    }

    #[test]
    fn link_local_only_fails() {
        let found = seen(&["fe80::1"], table(vec![gid(1, "fe80::1", "RoCE v2", "eth0")]));
        assert_eq!(
            (found[0].status, found[0].summary.as_str()),
            (Status::Fail, "the port has link-local GIDs only")
        );
        assert!(found[0].next_step.contains("ip addr show dev eth0"));
        assert_eq!(found[0].evidence[1], "gid 1 = fe80::1 (RoCE v2, eth0)");
    }

    #[test]
    fn an_empty_table_roce_v1_and_foreign_addresses_fail_with_their_own_words() {
        let summary = |addresses: &[&str], entries: Vec<GidEntry>| {
            let found = seen(addresses, table(entries)).remove(0);
            assert_eq!(found.status, Status::Fail);
            found.summary
        };
        assert_eq!(summary(&["192.0.2.1"], vec![]), "the GID table is empty");
        assert_eq!(
            summary(&["192.0.2.1"], vec![gid(2, "::ffff:192.0.2.1", "IB/RoCE v1", "eth0")]),
            "the port has no RoCE v2 GID"
        );
        assert_eq!(
            summary(&["198.51.100.1"], vec![gid(3, "::ffff:192.0.2.1", "RoCE v2", "eth0")]),
            "no GID of the port belongs to an address of its network device"
        );
    }

    #[test]
    fn a_table_that_was_read_in_part_is_no_proof_that_the_gid_is_missing() {
        let found = seen(&["192.0.2.1"], |device| {
            device.ports[0].gids = Reading::Value(vec![]);
            device.ports[0].gids_unread = vec!["slot 3: EIO".into()];
        });
        assert_eq!(found[0].status, Status::Unknown);
        let found = seen(&["192.0.2.1"], |device| device.ports[0].gids = Reading::Failed("EIO".into()));
        assert_eq!(found[0].status, Status::Unknown);
    }

    #[test]
    fn other_fabrics_and_ports_that_are_down_are_not_asked() {
        assert!(judge(&Look::first(&infiniband(1), &Policy::default())).is_empty());
        assert!(seen(&[], |device| device.ports[0].state = Reading::Value(PortState::Down)).is_empty());
        assert!(seen(&[], |device| device.node_type = Reading::Value("RNIC".into())).is_empty());
    }
}
