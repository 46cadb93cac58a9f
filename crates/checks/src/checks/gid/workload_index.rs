//! Do the GID numbers in the environment of running jobs stand for GIDs that work?

use crate::Policy;
use crate::addressing::{is_iwarp, usable_gid};
use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, is_not_ethernet, ok, port_subject, ports, unknown, why};
use rdmascope_model::{Device, Finding, GidEntry, GidType, Port, Reading, Snapshot, Status, Workload};

const ID: &str = "workload-gid-index";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Do the GID numbers in the environment of running jobs stand for GIDs that work?",
    meaning: "A number that was right on another machine points to an empty slot, a link-local address or RoCE v1 here: connections fail with `Invalid argument`, `No such device`, or time out with status 12.",
    causes: &[
        "the number was taken from a guide or another vendor's adapter",
        "addresses changed their slots since the job script was written",
        "the network device has no address, so the expected slot is not there",
    ],
    next_steps: &[
        "`show_gids` lists slots, addresses and versions; best unset NCCL_IB_GID_INDEX and UCX_IB_GID_INDEX and let the library choose.",
        "`tr '\\\\0' '\\\\n' < /proc/PID/environ | grep -E 'NCCL_IB|UCX'` shows what the process was given.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

/// A variable with a slot number, and the one that chooses the devices that it holds for.
const VARIABLES: [(&str, &str); 2] =
    [("NCCL_IB_GID_INDEX", "NCCL_IB_HCA"), ("UCX_IB_GID_INDEX", "UCX_NET_DEVICES")];

fn judge(look: &Look<'_>) -> Vec<Finding> {
    match &look.now.workloads {
        Reading::Value(workloads) => {
            workloads.iter().filter_map(|workload| one(look.now, look.policy, workload)).collect()
        }
        Reading::Absent => Vec::new(),
        missing => vec![unknown(ID, "machine".to_owned(), "the processes that use RDMA", why(missing))],
    }
}

fn one(snapshot: &Snapshot, policy: &Policy, workload: &Workload) -> Option<Finding> {
    let subject = format!("process {} ({})", workload.pid, workload.name);
    let environment = match &workload.environment {
        Reading::Value(environment) => environment,
        Reading::Absent => return None,
        missing => return Some(unknown(ID, subject, "the environment of the process", why(missing))),
    };
    let set = VARIABLES.into_iter().filter_map(|(variable, chooser)| {
        let chosen = environment.get(chooser).map_or("", String::as_str);
        Some((variable, environment.get(variable)?.trim(), chooser, chosen))
    });
    let judged: Vec<Finding> = set
        .filter_map(|(variable, number, chooser, chosen)| {
            let setting = Setting { variable, number, chooser, chosen };
            setting.judge(snapshot, policy, &subject)
        })
        .collect();
    judged.into_iter().reduce(|worst, next| if next.status > worst.status { next } else { worst })
}

/// What a process was told about GIDs.
struct Setting<'a> {
    variable: &'static str,
    number: &'a str,
    chooser: &'static str,
    chosen: &'a str,
}

/// What a number means on one port.
enum Slot {
    Works(String),
    Wrong { seen: String, right: Option<u32> },
    Unread(String),
}

impl Setting<'_> {
    /// `None` where the variable leaves the choice to the library.
    fn judge(&self, snapshot: &Snapshot, policy: &Policy, subject: &str) -> Option<Finding> {
        if self.number.is_empty() || self.number == "-1" || self.number == "auto" {
            return None;
        }
        let text = format!("{}={}", self.variable, self.number);
        let Ok(index) = self.number.parse::<u32>() else {
            return Some(self.finding(subject, format!("{text} is no number"), None, Vec::new()));
        };
        // UCX's list may name network devices alone, which is no fault.
        if self.chooser == "NCCL_IB_HCA" && !self.names_any(snapshot) {
            let summary = format!("{}={} names no RDMA port of this machine", self.chooser, self.chosen);
            return Some(self.finding(subject, summary, None, Vec::new()));
        }
        // What a port that is down says of addresses means nothing; its state is a finding already.
        let roce = ports(snapshot, policy)
            .filter(|(device, port)| chosen(self.chosen, device, port))
            .filter(|(device, port)| !is_not_ethernet(port) && !is_down(port) && !is_iwarp(device));
        let slots: Vec<(String, Slot)> =
            roce.map(|(device, port)| (port_subject(device, port), look_at(snapshot, port, index))).collect();
        let wrong = slots.iter().find_map(|(port, slot)| match slot {
            Slot::Wrong { seen, right } => Some((port, seen, *right)),
            _ => None,
        });
        let evidence: Vec<String> = slots.iter().map(|(port, slot)| slot.in_words(port, index)).collect();
        if let Some((port, seen, right)) = wrong {
            let summary = format!("{text}, but on {port} slot {index} {seen}{}", instead(right));
            return Some(self.finding(subject, summary, Some(right), evidence));
        }
        let unread = slots.iter().find_map(|(port, slot)| match slot {
            Slot::Unread(why) => Some((port, why)),
            _ => None,
        });
        if let Some((port, why)) = unread {
            return Some(unknown(ID, subject.to_owned(), &format!("slot {index} of {port}"), why));
        }
        let works =
            slots.iter().map(|(port, slot)| slot.in_words(port, index)).collect::<Vec<_>>().join("; ");
        let summary = if works.is_empty() {
            format!("{text}: no RoCE port to use it on")
        } else {
            format!("{text}: {works}")
        };
        Some(ok(ID, subject.to_owned(), summary))
    }

    /// Whether the list means any port of the machine; yes where the devices could not be read.
    fn names_any(&self, snapshot: &Snapshot) -> bool {
        let Reading::Value(devices) = &snapshot.devices else { return true };
        let mut all = devices.iter().flat_map(|device| device.ports.iter().map(move |port| (device, port)));
        all.any(|(device, port)| chosen(self.chosen, device, port))
    }

    /// `right` is `None` where no slot was looked at.
    fn finding(
        &self,
        subject: &str,
        summary: String,
        right: Option<Option<u32>>,
        evidence: Vec<String>,
    ) -> Finding {
        let (cause, next_step) = match right {
            Some(Some(right)) => (
                "a setting of the job: the number does not fit this machine's GID table",
                format!(
                    "Unset {} (or set it to {right} for this port) and start the job again; `show_gids`.",
                    self.variable
                ),
            ),
            Some(None) => (
                "a setting of this host: the port has no routable RoCE v2 GID at all, most often because its network device has no IP \
                 address",
                format!(
                    "Give the network device an address (`ip addr add ADDRESS/LENGTH dev NETDEV`), or leave the device out of {}; \
                     `show_gids`.",
                    self.chooser
                ),
            ),
            None => (
                "a setting of the job",
                format!(
                    "Correct or unset it and start the job again: `rdma link` lists the devices, `show_gids` the slots ({}).",
                    self.variable
                ),
            ),
        };
        let mut all = vec![format!("{} = {}", self.variable, self.number)];
        if !self.chosen.is_empty() {
            all.push(format!("{} = {}", self.chooser, self.chosen));
        }
        all.extend(evidence);
        Finding {
            id: ID.into(),
            status: Status::Fail,
            subject: subject.to_owned(),
            summary,
            cause: cause.to_owned(),
            next_step,
            evidence: all,
        }
    }
}

fn instead(right: Option<u32>) -> String {
    right.map_or_else(
        || "; no slot of the port is usable".to_owned(),
        |right| format!("; the usable one is slot {right}"),
    )
}

impl Slot {
    fn in_words(&self, port: &str, index: u32) -> String {
        match self {
            Self::Works(address) => format!("slot {index} of {port} is {address} (RoCE v2)"),
            Self::Wrong { seen, right } => format!("slot {index} of {port} {seen}{}", instead(*right)),
            Self::Unread(why) => format!("slot {index} of {port} could not be read: {why}"),
        }
    }
}

fn look_at(snapshot: &Snapshot, port: &Port, index: u32) -> Slot {
    let table = match &port.gids {
        Reading::Value(table) => table,
        missing => return Slot::Unread(why(missing).to_owned()),
    };
    let global =
        |entry: &&GidEntry| !entry.gid.is_link_local() && entry.kind == Reading::Value(GidType::RoceV2);
    // A job in a namespace of its own uses the same table; its addresses are not seen from here.
    let right =
        usable_gid(&snapshot.netdevs, port).ok().or_else(|| table.iter().find(global)).map(|e| e.index);
    let Some(entry) = table.iter().find(|entry| entry.index == index) else {
        return match (port.gids_unread.first(), table.iter().map(|e| e.index).max()) {
            (Some(why), _) => Slot::Unread(why.clone()),
            (None, Some(last)) if last > index => Slot::Wrong { seen: "is empty".to_owned(), right },
            (None, last) => {
                let used = last.map_or_else(|| "none".to_owned(), |last| last.to_string());
                Slot::Wrong { seen: format!("does not exist or is empty (last used slot: {used})"), right }
            }
        };
    };
    let old = match &entry.kind {
        Reading::Value(GidType::RoceV2) => false,
        Reading::Value(_) => true,
        missing => return Slot::Unread(why(missing).to_owned()),
    };
    match (entry.gid.is_link_local(), old) {
        (false, false) => Slot::Works(entry.gid.ip().to_string()),
        (true, true) => Slot::Wrong { seen: format!("is {}, link-local and RoCE v1", entry.gid), right },
        (true, false) => Slot::Wrong { seen: format!("is {}, which is link-local", entry.gid), right },
        (false, true) => Slot::Wrong { seen: format!("is {} as RoCE v1, not v2", entry.gid.ip()), right },
    }
}

/// Whether a list of devices means this port. NCCL's form: names that begin so, `=` before the list for whole names, `^` for all but
/// these, `:PORT` behind a name; UCX's form is a list of `NAME:PORT` or `all`, and may name network devices beside.
fn chosen(list: &str, device: &Device, port: &Port) -> bool {
    let (but, list) = list.trim().strip_prefix('^').map_or((false, list.trim()), |rest| (true, rest));
    let (exact, list) = list.strip_prefix('=').map_or((false, list), |rest| (true, rest));
    let mut names = list.split(',').map(str::trim).filter(|name| !name.is_empty()).peekable();
    if names.peek().is_none() || list == "all" {
        return true;
    }
    let named = names.any(|name| {
        let (name, number) = name.split_once(':').map_or((name, None), |(name, number)| (name, Some(number)));
        let fits = if exact { device.name == name } else { device.name.starts_with(name) };
        fits && number.is_none_or(|number| number.parse() == Ok(port.number))
    });
    named != but
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::snapshot::{gid, roce, workload};

    /// What is said of a job with these variables on a port with this table.
    fn seen(environment: &[(&str, &str)], addresses: &[&str], table: Vec<GidEntry>) -> Finding {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].gids = Reading::Value(table);
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth0").unwrap().addresses =
            Reading::Value(addresses.iter().map(|a| a.parse().unwrap()).collect());
        machine.workloads = Reading::Value(vec![workload(environment)]);
        judge(&Look::first(&machine, &Policy::default())).remove(0)
    }

    fn nccl(index: &str) -> [(&'static str, &str); 1] {
        [("NCCL_IB_GID_INDEX", index)]
    }

    fn four(address: &str) -> Vec<GidEntry> {
        let local = "fe80::200:ff:fe00:1";
        vec![
            gid(0, local, "IB/RoCE v1", "eth0"),
            gid(1, local, "RoCE v2", "eth0"),
            gid(2, address, "IB/RoCE v1", "eth0"),
            gid(3, address, "RoCE v2", "eth0"),
        ]
    }

    /// C001: slot 1 is link-local; the right one is 3.
    #[test]
    fn c001_a_link_local_slot() {
        let found = seen(&nccl("1"), &["192.0.2.1/24"], four("::ffff:192.0.2.1"));
        assert_eq!((found.status, found.subject.as_str()), (Status::Fail, "process 4711 (python3)"));
        assert!(found.summary.contains("link-local") && found.summary.ends_with("the usable one is slot 3"));
        assert!(found.next_step.contains("set it to 3"));
        let fine = seen(&nccl("3"), &["192.0.2.1/24"], four("::ffff:192.0.2.1"));
        assert_eq!(fine.summary, "NCCL_IB_GID_INDEX=3: slot 3 of mlx5_0/1 is 192.0.2.1 (RoCE v2)");
    }

    /// C007: IPv6 addresses alone; slot 0 is link-local RoCE v1, and slot 3 is right.
    #[test]
    fn c007_ipv6_is_as_good() {
        let found = seen(&nccl("0"), &["fd93:db8::1/64"], four("fd93:db8::1"));
        assert!(
            found.summary.contains("link-local and RoCE v1; the usable one is slot 3"),
            "{}",
            found.summary
        );
        assert_eq!(seen(&nccl("3"), &["fd93:db8::1/64"], four("fd93:db8::1")).status, Status::Ok);
    }

    /// C010: a device with one slot.
    #[test]
    fn c010_a_slot_that_does_not_exist() {
        let found = seen(&nccl("1"), &["192.0.2.1/24"], vec![gid(0, "::ffff:192.0.2.1", "RoCE v2", "eth0")]);
        assert_eq!(found.status, Status::Fail);
        assert!(
            found
                .summary
                .contains("slot 1 does not exist or is empty (last used slot: 0); the usable one is slot 0")
        );
    }

    /// C011: the address is right, the version is not.
    #[test]
    fn c011_the_same_address_as_v1() {
        let found = seen(&nccl("2"), &["192.0.2.9/24"], four("::ffff:192.0.2.9"));
        assert!(
            found.summary.contains("192.0.2.9 as RoCE v1, not v2; the usable one is slot 3"),
            "{}",
            found.summary
        );
    }

    /// C013: two vendors on one machine, 3 asked for on both; one has its address in slot 1, the other has none.
    #[test]
    fn c013_each_device_has_its_own_layout() {
        let mut machine = roce(2);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].name = "hrn3_bond_0".into();
        devices[0].ports[0].gids = Reading::Value(vec![
            gid(0, "fe80::1", "RoCE v2", "eth0"),
            gid(1, "::ffff:192.0.2.1", "RoCE v2", "eth0"),
        ]);
        devices[1].name = "mlx5_bond_0".into();
        devices[1].ports[0].gids = Reading::Value(four("::ffff:192.0.2.2")[..2].to_vec());
        let said = |hca: &str, index: &str, machine: &Snapshot| {
            let mut machine = machine.clone();
            let environment = [("NCCL_IB_GID_INDEX", index), ("NCCL_IB_HCA", hca)];
            machine.workloads = Reading::Value(vec![workload(&environment)]);
            judge(&Look::first(&machine, &Policy::default())).remove(0)
        };
        let mellanox = said("mlx5_bond_0", "3", &machine);
        assert!(mellanox.summary.ends_with("no slot of the port is usable"), "{}", mellanox.summary);
        assert!(mellanox.next_step.contains("ip addr add"));
        let huawei = said("hrn3_bond_0", "3", &machine);
        assert!(huawei.summary.ends_with("the usable one is slot 1"), "{}", huawei.summary);
        assert_eq!(said("=hrn3_bond_0", "1", &machine).status, Status::Ok);
        assert_eq!(said("^mlx5", "1", &machine).status, Status::Ok);
        assert_eq!(said("hrn3", "1", &machine).status, Status::Ok);
        assert_eq!(said("=hrn3", "1", &machine).status, Status::Fail);
    }

    /// C014: `No such device` on the way to RTR: the slot is empty.
    #[test]
    fn c014_an_empty_slot() {
        let mut table = four("::ffff:192.0.2.1");
        table.remove(2);
        let found = seen(&nccl("2"), &["192.0.2.1/24"], table);
        assert!(found.summary.contains("slot 2 is empty; the usable one is slot 3"), "{}", found.summary);
    }

    #[test]
    fn lists_of_devices() {
        let machine = roce(2);
        let devices = machine.devices.value().unwrap();
        for (list, first, second) in [
            ("", true, true),
            ("all", true, true),
            ("mlx5", true, true),
            ("mlx5_0,mlx5_1", true, true),
            ("=mlx5_0", true, false),
            ("=mlx5", false, false),
            ("^mlx5_1", true, false),
            ("^=mlx5_0:1", false, true),
            ("mlx5_0:2", false, false),
            ("mlx5_1:1", false, true),
        ] {
            let seen = [&devices[0], &devices[1]].map(|d| chosen(list, d, &d.ports[0]));
            assert_eq!(seen, [first, second], "{list}");
        }
    }

    #[test]
    fn left_to_the_library_unread_and_nonsense() {
        let mut machine = roce(1);
        let judged = |machine: &Snapshot| judge(&Look::first(machine, &Policy::default()));
        machine.workloads =
            Reading::Value(vec![workload(&[("UCX_IB_GID_INDEX", "auto"), ("NCCL_IB_GID_INDEX", "-1")])]);
        assert!(judged(&machine).is_empty());
        machine.workloads = Reading::Value(vec![workload(&[("UCX_IB_GID_INDEX", "first")])]);
        assert!(judged(&machine)[0].summary.contains("is no number"));
        let mut hidden = workload(&[]);
        hidden.environment = Reading::failed("EACCES");
        machine.workloads = Reading::Value(vec![hidden]);
        assert_eq!(judged(&machine)[0].status, Status::Unknown);
        machine.workloads = Reading::failed("EACCES");
        assert_eq!(judged(&machine)[0].status, Status::Unknown);
        let list = |chooser, variable| workload(&[(variable, "3"), (chooser, "eth0")]);
        machine.workloads = Reading::Value(vec![list("UCX_NET_DEVICES", "UCX_IB_GID_INDEX")]);
        assert_eq!(judged(&machine)[0].status, Status::Ok);
        machine.workloads = Reading::Value(vec![list("NCCL_IB_HCA", "NCCL_IB_GID_INDEX")]);
        assert_eq!(judged(&machine)[0].summary, "NCCL_IB_HCA=eth0 names no RDMA port of this machine");
        machine.workloads = Reading::Value(vec![workload(&nccl("3"))]);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].gids = Reading::failed("EIO");
        assert_eq!(judged(&machine)[0].status, Status::Unknown);
    }
}
