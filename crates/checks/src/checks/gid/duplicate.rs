//! Is one GID on two ports of the machine?

use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, is_not_ethernet, ok, port_subject, ports, unknown};
use rdmascope_model::{Finding, Gid, GidEntry, GidType, Reading, Status};
use std::collections::BTreeMap;

const ID: &str = "gid-duplicate";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is each GID on one port of the machine only?",
    meaning: "Two ports with one GID answer for each other: packets arrive at the port that did not ask, and connections hang at random.",
    causes: &[
        "the same IP address on two network devices",
        "InfiniBand: two adapters with the same GUID (firmware burnt from one image)",
    ],
    next_steps: &[
        "`show_gids` (or `ip -br addr`): which ports have the address twice? Take it off one of them: `ip addr del ADDRESS/LENGTH dev NETDEV`.",
        "InfiniBand: `ibstat | grep -i guid`; burn the card's own GUID: `flint -d PCI_ADDRESS query`.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let mut holders: BTreeMap<Gid, Vec<(String, &GidEntry)>> = BTreeMap::new();
    let mut found = Vec::new();
    let mut looked = false;
    for (device, port) in ports(look.now, look.policy).filter(|(_, port)| !is_down(port)) {
        let subject = port_subject(device, port);
        match &port.gids {
            Reading::Value(entries) => {
                looked = true;
                let counts = |e: &&GidEntry| is_own(e, is_not_ethernet(port));
                for entry in entries.iter().filter(counts) {
                    holders.entry(entry.gid).or_default().push((subject.clone(), entry));
                }
            }
            Reading::Failed(why) => found.push(unknown(ID, subject, "the GID table", why)),
            Reading::Absent => {}
        }
    }
    let mut duplicates: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (gid, places) in &holders {
        for (subject, entry) in places {
            // Two RDMA devices that stand on one network device share its GIDs: the check `device-mapping` speaks of them.
            let other = places.iter().find(|(s, e)| s != subject && !same_netdev(e, entry));
            if let Some((other, _)) = other {
                duplicates.entry(subject.clone()).or_default().push(format!("{gid} is on {other} too"));
            }
        }
    }
    let any = !duplicates.is_empty();
    found.extend(duplicates.into_iter().map(|(subject, words)| duplicate(subject, words)));
    if looked && !any {
        found.push(ok(ID, "machine".to_owned(), "no GID is on two ports".to_owned()));
    }
    found
}

/// A GID that must be on one port only: not a link-local address, which holds for one link, and not the filler of empty slots.
fn is_own(entry: &GidEntry, infiniband: bool) -> bool {
    let interface_id = entry.gid.0.iter().skip(8).any(|byte| *byte != 0);
    if infiniband {
        interface_id
    } else {
        interface_id && !entry.gid.is_link_local() && entry.kind != Reading::Value(GidType::IbOrRoceV1)
    }
}

fn same_netdev(one: &GidEntry, other: &GidEntry) -> bool {
    one.netdev.value().is_some_and(|name| other.netdev.value() == Some(name))
}

fn duplicate(subject: String, words: Vec<String>) -> Finding {
    Finding {
        id: ID.into(),
        status: Status::Warn,
        subject,
        summary: words.join("; "),
        cause: "a setting of this host: the same address on two network devices; on InfiniBand two adapters with one GUID".to_owned(),
        next_step: "`ip -br addr` and `show_gids`: take the address off one of the devices (`ip addr del ADDRESS/LENGTH dev NETDEV`), in \
                    the network manager's files too; on InfiniBand compare `ibstat | grep -i guid`."
            .to_owned(),
        evidence: words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use rdmascope_fixtures::snapshot::{gid, infiniband, roce};
    use rdmascope_model::Snapshot;

    fn second_has(entry: GidEntry) -> Snapshot {
        let mut machine = roce(2);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        let Reading::Value(gids) = &mut devices[1].ports[0].gids else { panic!("no GIDs") };
        gids.push(entry);
        machine
    }

    fn judged(machine: &Snapshot) -> Vec<Finding> {
        judge(&Look::first(machine, &Policy::default()))
    }

    #[test]
    fn an_address_on_two_ports_warns_at_both() {
        assert_eq!(judged(&roce(2))[0].summary, "no GID is on two ports");
        let found = judged(&second_has(gid(5, "::ffff:192.0.2.1", "RoCE v2", "eth1")));
        let seen: Vec<_> = found.iter().map(|f| (f.subject.as_str(), f.status)).collect();
        assert_eq!(seen, [("mlx5_0/1", Status::Warn), ("mlx5_1/1", Status::Warn)]);
        assert_eq!(found[0].summary, "::ffff:192.0.2.1 is on mlx5_1/1 too");
    }

    #[test]
    fn link_local_addresses_and_shared_network_devices_are_no_duplicates() {
        assert_eq!(
            judged(&second_has(gid(5, "fe80::200:ff:fe00:1", "RoCE v2", "eth1")))[0].status,
            Status::Ok
        );
        assert_eq!(judged(&second_has(gid(5, "::ffff:192.0.2.1", "RoCE v2", "eth0")))[0].status, Status::Ok);
    }

    #[test]
    fn infiniband_guids_must_differ_and_fillers_need_not() {
        let mut machine = infiniband(2);
        let filler = gid(1, "fe80::", "IB/RoCE v1", "");
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        for device in devices.iter_mut() {
            let Reading::Value(gids) = &mut device.ports[0].gids else { panic!("no GIDs") };
            gids.push(GidEntry { netdev: Reading::failed("EINVAL"), ..filler.clone() });
        }
        assert_eq!(judged(&machine)[0].status, Status::Ok);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[1].ports[0].gids = devices[0].ports[0].gids.clone();
        assert_eq!(judged(&machine).len(), 2);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[1].ports[0].gids = Reading::failed("EIO");
        let found = judged(&machine);
        assert_eq!((found[0].status, found[1].status), (Status::Unknown, Status::Ok));
    }
}
