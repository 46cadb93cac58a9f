//! Are the RoCE ports of the machine addressed in one family, IPv4 or IPv6?

use crate::addressing::{is_iwarp, usable_gid};
use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, is_not_ethernet, ok, port_subject, ports};
use crate::manifest::PortRole;
use rdmascope_model::{Finding, Status};
use std::net::IpAddr;

const ID: &str = "gid-family";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Are the RoCE ports of the machine addressed in one family, IPv4 or IPv6?",
    meaning: "Libraries choose GIDs by family: a port of the other family is left out, or gets a link-local GID and reaches nobody.",
    causes: &[
        "one port lost its IPv4 address and falls back to IPv6",
        "one rail was set up by another template",
    ],
    next_steps: &["`ip -br addr` for all of them; give the odd one an address of the family of the others."],
    settles: Settles::AfterDebounce,
    hard: false,
    limits: &[],
    judge,
};

/// Ports of one purpose must be alike; a storage network may well differ from the compute network.
fn judge(look: &Look<'_>) -> Vec<Finding> {
    let (snapshot, policy) = (look.now, look.policy);
    let mut seen: Vec<(PortRole, bool, String)> = Vec::new();
    for (device, port) in ports(snapshot, policy) {
        if is_not_ethernet(port) || is_down(port) || is_iwarp(device) {
            continue;
        }
        // A port without a usable GID has a finding of its own.
        if let Ok(entry) = usable_gid(&snapshot.netdevs, port) {
            let role = policy.manifest.of(device, Some(port)).role.unwrap_or_default();
            let six = matches!(entry.gid.ip(), IpAddr::V6(_));
            seen.push((role, six, port_subject(device, port)));
        }
    }
    let Some((_, first, _)) = seen.first() else { return Vec::new() };
    let mixed = [PortRole::Compute, PortRole::Storage].into_iter().find_map(|role| {
        let of = |six: bool| -> Vec<&str> {
            seen.iter().filter(|(r, s, _)| *r == role && *s == six).map(|(.., port)| port.as_str()).collect()
        };
        let (four, six) = (of(false), of(true));
        (!four.is_empty() && !six.is_empty()).then(|| (four.join(", "), six.join(", ")))
    });
    vec![match mixed {
        Some((four, six)) => Finding {
            id: ID.into(),
            status: Status::Warn,
            subject: "machine".to_owned(),
            summary: format!("RoCE ports of both families: IPv4 on {four}; IPv6 on {six}"),
            cause: "a setting of this host: the odd ones lost their address, or were set up by another template".to_owned(),
            next_step: "`ip -br addr`; give the odd ones an address of the family of the others, or tell the library which to use \
                        (NCCL_IB_ADDR_FAMILY)."
                .to_owned(),
            evidence: vec![format!("IPv4 = {four}"), format!("IPv6 = {six}")],
        },
        None => {
            let family = if *first { "IPv6" } else { "IPv4" };
            let one_role = seen.iter().all(|(_, six, _)| six == first);
            let summary = if one_role {
                format!("{} RoCE port(s), all addressed by {family}", seen.len())
            } else {
                "RoCE ports of each role are addressed in one family".to_owned()
            };
            ok(ID, "machine".to_owned(), summary)
        }
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::manifest::{Expectation, Manifest};
    use rdmascope_fixtures::snapshot::{gid, infiniband, roce};
    use rdmascope_model::{Reading, Snapshot};

    /// Two ports; the second has an IPv6 address alone.
    fn mixed() -> Snapshot {
        let mut machine = roce(2);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[1].ports[0].gids = Reading::Value(vec![gid(3, "fd93:db8::1", "RoCE v2", "eth1")]);
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth1").unwrap().addresses = Reading::Value(vec!["fd93:db8::1/64".parse().unwrap()]);
        machine
    }

    #[test]
    fn both_families_warn_within_one_role() {
        let judged = |machine: &Snapshot, policy: &Policy| judge(&Look::first(machine, policy));
        assert_eq!(judged(&roce(2), &Policy::default())[0].summary, "2 RoCE port(s), all addressed by IPv4");
        let found = judged(&mixed(), &Policy::default());
        assert_eq!((found.len(), found[0].status), (1, Status::Warn));
        assert_eq!(found[0].summary, "RoCE ports of both families: IPv4 on mlx5_0/1; IPv6 on mlx5_1/1");
        let row =
            Expectation { device: "mlx5_1".into(), role: Some(PortRole::Storage), ..Expectation::default() };
        let policy = Policy { manifest: Manifest { rows: vec![row] }, ..Policy::default() };
        assert_eq!(judged(&mixed(), &policy)[0].status, Status::Ok);
        assert!(judged(&infiniband(1), &Policy::default()).is_empty());
    }
}
