//! Whose counters and settings are judged: ports that carry RDMA traffic, and the network devices at the end of their cables.

use crate::Source;
use crate::check::Look;
use crate::finding::{is_not_ethernet, netdev_under, port_subject, ports, unknown};
use crate::manifest::PortRole;
use crate::verdict::Verdict;
use crate::watch::{Seen, seen};
use rdmascope_model::{Device, Finding, Function, Netdev, Port, Reading};
use std::collections::BTreeSet;
use std::time::Duration;

/// A network device at the end of a cable, with the RDMA port that it carries.
pub(crate) struct Wire<'a> {
    pub(crate) device: &'a Device,
    pub(crate) port: &'a Port,
    pub(crate) name: &'a str,
    pub(crate) netdev: &'a Netdev,
}

impl Wire<'_> {
    pub(crate) fn subject(&self) -> String {
        format!("netdev {}", self.name)
    }

    /// Statistics of these names; `N` in a name stands for every priority.
    pub(crate) fn statistics(&self, names: &[&str]) -> Vec<(String, Reading<u64>)> {
        spread(names)
            .map(|name| {
                let value = match &self.netdev.statistics {
                    Reading::Value(all) => all.get(&name).map_or(Reading::Absent, |v| Reading::Value(*v)),
                    missing => missing.as_ref().map(|_| 0),
                };
                (name, value)
            })
            .collect()
    }

    /// How far statistics of these names rose within a window.
    pub(crate) fn seen(&self, look: &Look<'_>, names: &[&str], window: Duration) -> Seen {
        seen(look, &Source::Netdev(self.name.to_owned()), self.statistics(names), window)
    }

    /// A finding about this device.
    pub(crate) fn finding(&self, id: &'static str, verdict: Verdict, evidence: Vec<String>) -> Finding {
        verdict.finding(id, self.subject(), evidence)
    }
}

fn spread(names: &[&str]) -> impl Iterator<Item = String> {
    names.iter().flat_map(|name| match name.split_once("prioN") {
        Some((before, after)) => (0..8).map(|p| format!("{before}prio{p}{after}")).collect(),
        None => vec![(*name).to_owned()],
    })
}

/// Judged ports that carry RDMA traffic: no representors, no management functions, no spares.
pub(crate) fn traffic_ports<'a>(look: &Look<'a>) -> impl Iterator<Item = (&'a Device, &'a Port)> {
    let policy = look.policy;
    ports(look.now, policy).filter(move |(device, port)| {
        let expected = policy.manifest.of(device, Some(port));
        !matches!(device.function, Reading::Value(Function::Representor | Function::Management))
            && !matches!(expected.role, Some(PortRole::Management | PortRole::Ignore))
            && expected.down != Some(true)
    })
}

/// Those of them that are not known to be anything but Ethernet.
pub(crate) fn roce_ports<'a>(look: &Look<'a>) -> impl Iterator<Item = (&'a Device, &'a Port)> {
    traffic_ports(look).filter(|(_, port)| !is_not_ethernet(port))
}

/// Every network device that carries a RoCE port to its cable, once: the port's own, or the members of its bond. One that cannot be
/// looked at is its subject and the reason.
pub(crate) fn wires<'a>(look: &Look<'a>) -> Vec<Result<Wire<'a>, (String, String)>> {
    let (snapshot, mut done, mut found) = (look.now, BTreeSet::new(), Vec::new());
    for (device, port) in roce_ports(look) {
        let (name, netdev) = match netdev_under(snapshot, port) {
            Ok(known) => known,
            Err(why) => {
                found.push(Err((port_subject(device, port), why)));
                continue;
            }
        };
        let legs: Vec<&str> = match &netdev.bond {
            Reading::Value(bond) => bond.members.iter().map(|m| m.name.as_str()).collect(),
            Reading::Absent | Reading::Failed(_) => vec![name],
        };
        for name in legs.into_iter().filter(|name| done.insert(*name)) {
            let netdev = snapshot.netdevs.value().and_then(|all| all.get(name));
            let away = || (format!("netdev {name}"), "it is not in this network namespace".to_owned());
            found.push(netdev.map(|netdev| Wire { device, port, name, netdev }).ok_or_else(away));
        }
    }
    found
}

/// Judges each of [`wires`]. `what` is what cannot be read where a device cannot be looked at.
pub(crate) fn each_wire(
    look: &Look<'_>,
    id: &'static str,
    what: &str,
    one: impl Fn(&Wire<'_>) -> Vec<Finding>,
) -> Vec<Finding> {
    wires(look)
        .into_iter()
        .flat_map(|wire| match wire {
            Ok(wire) => one(&wire),
            Err((subject, why)) => vec![unknown(id, subject, what, &why)],
        })
        .collect()
}

/// The network devices of the RoCE ports themselves, once each: a bond, not its members. Those that cannot be looked at are `unknown`.
pub(crate) fn each_netdev(
    look: &Look<'_>,
    id: &'static str,
    what: &str,
    one: impl Fn(&Wire<'_>) -> Option<Finding>,
) -> Vec<Finding> {
    let mut done = BTreeSet::new();
    roce_ports(look)
        .filter_map(|(device, port)| match netdev_under(look.now, port) {
            Ok((name, netdev)) => {
                done.insert(name).then(|| one(&Wire { device, port, name, netdev })).flatten()
            }
            Err(why) => Some(unknown(id, port_subject(device, port), what, &why)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::testing::{device, netdev};
    use rdmascope_fixtures::snapshot::roce;
    use rdmascope_model::{Bond, BondMember, Snapshot};

    fn names(machine: &Snapshot) -> Vec<Result<String, String>> {
        let policy = Policy::default();
        let found = wires(&Look::first(machine, &policy));
        found
            .into_iter()
            .map(|wire| wire.map(|w| w.name.to_owned()).map_err(|(subject, _)| subject))
            .collect()
    }

    #[test]
    fn a_bond_is_its_members_and_one_that_is_not_there_is_said() {
        let mut machine = roce(2);
        let member = |name: &str| BondMember {
            name: name.to_owned(),
            mii_status: Reading::Value("up".to_owned()),
            link_failures: Reading::Value(0),
            aggregated: Reading::Absent,
        };
        let members = vec![member("eth1"), member("gone0")];
        netdev(&mut machine, "eth0").bond = Reading::Value(Bond { mode: Reading::Absent, members });
        assert_eq!(names(&machine), [Ok("eth1".to_owned()), Err("netdev gone0".to_owned())]);
    }

    #[test]
    fn representors_and_management_functions_carry_no_traffic() {
        for function in [Function::Representor, Function::Management] {
            let mut machine = roce(2);
            device(&mut machine).function = Reading::Value(function);
            assert_eq!(names(&machine), [Ok("eth1".to_owned())]);
        }
    }
}
