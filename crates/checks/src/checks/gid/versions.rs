//! Is each address of a RoCE port in its GID table as RoCE v2, beside whatever there is as v1?

use crate::addressing::is_iwarp;
use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, is_not_ethernet, ok, port_subject, ports, unknown, why};
use rdmascope_model::{Device, Finding, GidEntry, GidType, Port, Reading, Status};
use std::collections::BTreeMap;

const ID: &str = "gid-versions";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is each address of a RoCE port in its GID table as RoCE v2?",
    meaning: "Kernels list an address once as RoCE v1 and once as v2, which is normal. An address with v1 alone cannot be routed: whoever takes it reaches the same subnet at most.",
    causes: &[
        "the driver did not finish its table after a change",
        "the device above (VLAN, macvlan) offers v1 only",
    ],
    next_steps: &[
        "`show_gids` shows the version of each slot; take the address off and put it back: `ip addr del` and `ip addr add`.",
    ],
    settles: Settles::AfterDebounce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    ports(look.now, look.policy)
        .filter(|(device, port)| !is_not_ethernet(port) && !is_down(port) && !is_iwarp(device))
        .filter_map(|(device, port)| one(device, port))
        .collect()
}

fn one(device: &Device, port: &Port) -> Option<Finding> {
    let subject = port_subject(device, port);
    let Reading::Value(table) = &port.gids else {
        return Some(unknown(ID, subject, "the GID table", why(&port.gids)));
    };
    let unread = table.iter().find_map(|entry| match &entry.kind {
        Reading::Failed(why) => Some((entry.index, why)),
        _ => None,
    });
    if let Some((slot, why)) = unread {
        return Some(unknown(ID, subject, &format!("the version of slot {slot}"), why));
    }
    let has = |entry: &GidEntry, kind: GidType| entry.kind == Reading::Value(kind);
    let mut addresses: BTreeMap<_, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    for entry in table.iter().filter(|entry| !entry.gid.is_link_local()) {
        let (old, new) = addresses.entry(entry.gid).or_default();
        if has(entry, GidType::RoceV2) {
            new.push(entry.index);
        } else if has(entry, GidType::IbOrRoceV1) {
            old.push(entry.index);
        }
    }
    let with_new = addresses.values().filter(|(_, new)| !new.is_empty()).count();
    if with_new == 0 {
        // Without any usable GID the check `gid-usable` fails.
        return None;
    }
    let only_old: Vec<String> = addresses
        .iter()
        .filter(|(_, (old, new))| new.is_empty() && !old.is_empty())
        .map(|(gid, (old, _))| format!("{gid} is RoCE v1 only (slot {})", old.first().copied().unwrap_or(0)))
        .collect();
    // A slot that could not be read may be the one that is missed.
    match (only_old.is_empty(), port.gids_unread.first()) {
        (true, _) => {
            let both = addresses.values().filter(|(old, new)| !old.is_empty() && !new.is_empty()).count();
            let summary = format!(
                "{with_new} address(es) as RoCE v2, {both} of them as v1 too, which is normal: choose by address and type"
            );
            Some(ok(ID, subject, summary))
        }
        (false, Some(why)) => Some(unknown(ID, subject, "a part of the GID table", why)),
        (false, None) => Some(v1_only(subject, port, only_old)),
    }
}

fn v1_only(subject: String, port: &Port, only_old: Vec<String>) -> Finding {
    let netdev = port.netdev.value().map_or("NETDEV", String::as_str);
    Finding {
        id: ID.into(),
        status: Status::Warn,
        subject,
        summary: only_old.join("; "),
        cause: "this host: the driver did not finish its GID table, or the device that has the address offers RoCE v1 only".to_owned(),
        next_step: format!(
            "`show_gids`; take the address off and put it back (`ip addr del ADDRESS/LENGTH dev {netdev}`, `ip addr add ...`) while no job \
             runs."
        ),
        evidence: only_old,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use rdmascope_fixtures::snapshot::{gid, infiniband, roce};

    fn seen(entries: Vec<GidEntry>) -> Vec<Finding> {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].gids = Reading::Value(entries);
        judge(&Look::first(&machine, &Policy::default()))
    }

    /// C011: the same address as v1 and as v2 is how the kernel does it.
    #[test]
    fn c011_one_address_in_both_versions_is_normal() {
        let both = vec![
            gid(2, "::ffff:192.0.2.9", "IB/RoCE v1", "eth0"),
            gid(3, "::ffff:192.0.2.9", "RoCE v2", "eth0"),
        ];
        let found = seen(both);
        assert_eq!(found[0].status, Status::Ok);
        assert!(found[0].summary.starts_with("1 address(es) as RoCE v2, 1 of them as v1 too"));
    }

    #[test]
    fn an_address_without_v2_warns_unless_nothing_has_it() {
        let old = || gid(4, "::ffff:198.51.100.1", "IB/RoCE v1", "eth0");
        let mut entries = vec![gid(3, "::ffff:192.0.2.9", "RoCE v2", "eth0"), old()];
        let found = seen(entries.clone());
        assert_eq!((found[0].status, found[0].evidence.len()), (Status::Warn, 1));
        assert!(found[0].summary.contains("::ffff:198.51.100.1 is RoCE v1 only (slot 4)"));
        assert!(seen(vec![old()]).is_empty());
        entries[0].kind = Reading::failed("EINVAL");
        assert_eq!(seen(entries)[0].status, Status::Unknown);
        assert!(judge(&Look::first(&infiniband(1), &Policy::default())).is_empty());
    }
}
