//! What can be seen of this machine from where we stand, and what it takes to see the rest.

use crate::parse;
use crate::snapshot::Host;
use rdmascope_model::{Device, KernelLog, Netdev, Port, Reading, Snapshot};

/// Capabilities by their bit (`include/uapi/linux/capability.h`).
const NET_ADMIN: (&str, u32) = ("CAP_NET_ADMIN", 12);
const SYS_PTRACE: (&str, u32) = ("CAP_SYS_PTRACE", 19);
const SYS_ADMIN: (&str, u32) = ("CAP_SYS_ADMIN", 21);
const SYSLOG: (&str, u32) = ("CAP_SYSLOG", 34);

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// What.
    pub what: &'static str,
    /// Whether it is seen; `Absent`: this machine has no such thing.
    pub seen: Reading<()>,
    /// What it takes to see it.
    pub needs: String,
}

impl Host {
    /// Capabilities in force of this process, a bit for each (`CapEff` of `proc/self/status`); of a capture, those of whoever made it.
    #[must_use]
    pub fn capabilities(&self) -> Reading<u64> {
        self.tree().parsed("proc/self/status", parse::capabilities)
    }
}

/// Everything that is looked at, whether it was seen, and what it takes: from a reading of the machine, the capabilities of this
/// process ([`Host::capabilities`]) and the kernel log.
#[must_use]
pub fn sight(snapshot: &Snapshot, capabilities: &Reading<u64>, log: &Reading<KernelLog>) -> Vec<Sight> {
    let with = |capability: (&str, u32), more: &str| {
        let held = match capabilities {
            Reading::Value(all) if all >> capability.1 & 1 == 1 => " (held)",
            Reading::Value(_) => " (not held)",
            Reading::Absent | Reading::Failed(_) => "",
        };
        format!("{}{held}{more}", capability.0)
    };
    let plain = str::to_owned;
    let rows = [
        (
            "verbs devices",
            ports(snapshot, |port| nothing(&port.max_mtu)),
            plain("libibverbs, the provider of the adapter, and /dev/infiniband"),
        ),
        (
            "counters of ports",
            ports(snapshot, counters),
            plain("the host's network namespace (hostNetwork: true)"),
        ),
        (
            "data centre bridging (PFC, ETS)",
            netdevs(snapshot, |netdev| nothing(&netdev.dcb)),
            plain("the host's network namespace (hostNetwork: true)"),
        ),
        (
            "module EEPROM",
            netdevs(snapshot, |netdev| nothing(&netdev.module)),
            with(NET_ADMIN, ", in the host's network namespace"),
        ),
        (
            "LLDP neighbour",
            netdevs(snapshot, |netdev| nothing(&netdev.lldp)),
            plain("an LLDP agent on this machine and a switch that sends LLDP"),
        ),
        (
            "ECN settings",
            netdevs(snapshot, |netdev| {
                worst(vec![nothing(&netdev.ecn.notification_point), nothing(&netdev.ecn.cnp_dscp)])
            }),
            with(SYS_ADMIN, " or root, and the host's debugfs (/sys/kernel/debug)"),
        ),
        (
            "ACS control registers",
            any(&snapshot.pci, |all| all.values().map(|function| nothing(&function.acs_control)).collect()),
            with(SYS_ADMIN, ": PCI configuration space beyond its first 64 bytes"),
        ),
        (
            "owners of queue pairs",
            any(&snapshot.workloads, |all| all.iter().map(|one| nothing(&one.queue_pairs)).collect()),
            plain("the host's process namespace (hostPID: true)"),
        ),
        (
            "limits and environment of other processes",
            any(&snapshot.workloads, |all| {
                all.iter().flat_map(|one| [nothing(&one.memlock_bytes), nothing(&one.environment)]).collect()
            }),
            with(SYS_PTRACE, ", in the host's process namespace (hostPID: true)"),
        ),
        ("kernel log", nothing(log), with(SYSLOG, " and /dev/kmsg")),
    ];
    rows.into_iter().map(|(what, seen, needs)| Sight { what, seen, needs }).collect()
}

/// Whether there is a value, whatever it is.
fn nothing<T>(reading: &Reading<T>) -> Reading<()> {
    reading.as_ref().map(|_| ())
}

/// Of several: a failure hides behind no success, and a success behind no "not here".
fn worst(all: Vec<Reading<()>>) -> Reading<()> {
    let failed = all.iter().find(|one| matches!(one, Reading::Failed(_)));
    let found = failed.or_else(|| all.iter().find(|one| one.value().is_some()));
    found.cloned().unwrap_or(Reading::Absent)
}

fn any<T>(all: &Reading<T>, each: impl FnOnce(&T) -> Vec<Reading<()>>) -> Reading<()> {
    match all {
        Reading::Value(all) => worst(each(all)),
        missing => nothing(missing),
    }
}

fn ports(snapshot: &Snapshot, of: impl Fn(&Port) -> Reading<()>) -> Reading<()> {
    let each = |devices: &Vec<Device>| devices.iter().flat_map(|device| &device.ports).map(&of).collect();
    any(&snapshot.devices, each)
}

fn counters(port: &Port) -> Reading<()> {
    if port.counters.is_empty() {
        return Reading::failed("no port counter is shown");
    }
    worst(port.counters.values().map(nothing).collect())
}

/// Only the network devices under RDMA ports: nobody misses the module of `lo`.
fn netdevs(snapshot: &Snapshot, of: impl Fn(&Netdev) -> Reading<()>) -> Reading<()> {
    let Reading::Value(netdevs) = &snapshot.netdevs else { return nothing(&snapshot.netdevs) };
    ports(snapshot, |port| match &port.netdev {
        Reading::Value(name) => netdevs
            .get(name)
            .map_or_else(|| Reading::Failed(format!("{name} is in another network namespace")), &of),
        missing => nothing(missing),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::{Folder, snapshot::roce};

    fn of(snapshot: &Snapshot, what: &str) -> Sight {
        let all = sight(snapshot, &Reading::Value(1 << 12), &Reading::Absent);
        all.into_iter().find(|sight| sight.what == what).unwrap()
    }

    #[test]
    fn one_that_cannot_be_seen_is_not_hidden_by_one_that_can() {
        let mut machine = roce(2);
        assert_eq!(of(&machine, "verbs devices").seen, Reading::Value(()));
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[1].ports[0].max_mtu = Reading::failed("no provider");
        assert_eq!(of(&machine, "verbs devices").seen, Reading::failed("no provider"));
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth0").unwrap().module = Reading::Absent;
        netdevs.get_mut("eth1").unwrap().module = Reading::Absent;
        assert_eq!(of(&machine, "module EEPROM").seen, Reading::Absent);
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.remove("eth1");
        assert!(matches!(of(&machine, "module EEPROM").seen, Reading::Failed(why) if why.contains("eth1")));
    }

    #[test]
    fn what_it_takes_says_whether_we_have_it() {
        let machine = roce(1);
        assert!(of(&machine, "module EEPROM").needs.starts_with("CAP_NET_ADMIN (held), "));
        assert!(of(&machine, "ACS control registers").needs.starts_with("CAP_SYS_ADMIN (not held): "));
        let folder = Folder::new();
        folder.write("proc/self/status", "Name:\tcheck\nCapEff:\t000001ffffffffff\n");
        let host = Host::new(folder.path().to_owned()).unwrap();
        assert_eq!(host.capabilities(), Reading::Value(0x1ff_ffff_ffff));
    }
}
