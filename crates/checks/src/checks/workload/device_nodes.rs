//! Can RDMA devices be opened: are their nodes in `/dev/infiniband`?

use super::in_container;
use crate::addressing::is_iwarp;
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, port_subject, unknown, why};
use crate::limits;
use crate::verdict::{Verdict, shown};
use rdmascope_model::{Device, DeviceNode, Finding, LinkLayer, Port, PortState, Reading};

const ID: &str = "device-nodes";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Are the nodes of each RDMA device in /dev/infiniband, and can they be opened?",
    meaning: "A port may be ACTIVE and yet no program can use it: without its uverbs node jobs fall back to TCP, or do not start.",
    causes: &[
        "inside a container: the devices were not handed in; in a systemd unit: PrivateDevices=yes",
        "the module ib_uverbs or ib_umad is not loaded, or udev did not make the node",
    ],
    next_steps: &[
        "`ls -l /dev/infiniband; ls /sys/class/infiniband_verbs /sys/class/infiniband_mad`, side by side.",
        "Docker: `--device /dev/infiniband`; Kubernetes: ask for the RDMA resource; systemd: `PrivateDevices=no`.",
        "Host: `modprobe ib_uverbs ib_umad`; `udevadm trigger --subsystem-match=infiniband_verbs`.",
    ],
    settles: Settles::AfterDebounce,
    hard: false,
    limits: &[&limits::ISSM_NODES_EXPECTED],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let active =
        |device: &&Device| device.ports.iter().any(|port| port.state == Reading::Value(PortState::Active));
    let devices = look.now.devices.value().into_iter().flatten();
    let judged: Vec<&Device> = devices.filter(|device| look.policy.judges(device)).filter(active).collect();
    if in_container(look) {
        inside(&judged)
    } else {
        judged.iter().flat_map(|device| outside(look, device)).collect()
    }
}

/// What is wrong with the device's uverbs node; nothing when it can be opened.
enum Uverbs {
    Usable(String),
    Missing(String),
    Closed(String, String),
    Unread(String),
}

fn uverbs(device: &Device) -> Uverbs {
    let node = device.nodes.iter().find(|node| node.name.starts_with("uverbs"));
    let Some(node) = node else {
        return match &device.uverbs {
            Reading::Failed(why) => Uverbs::Unread(why.clone()),
            Reading::Value(name) => Uverbs::Missing(name.clone()),
            Reading::Absent => Uverbs::Missing("uverbs (module ib_uverbs is not loaded)".to_owned()),
        };
    };
    match (&node.mode, &node.open) {
        (Reading::Absent, _) => Uverbs::Missing(node.name.clone()),
        (_, Reading::Failed(why)) => Uverbs::Closed(node.name.clone(), why.clone()),
        (Reading::Failed(why), _) => Uverbs::Unread(why.clone()),
        (Reading::Value(_), _) => Uverbs::Usable(node.name.clone()),
    }
}

fn outside(look: &Look<'_>, device: &Device) -> Vec<Finding> {
    let subject = device.name.clone();
    let evidence: Vec<String> = device.nodes.iter().map(told).collect();
    let fail = |summary: String, cause: &str, next: String| {
        vec![Verdict::fail(summary, cause, next).finding(ID, device.name.clone(), evidence.clone())]
    };
    match uverbs(device) {
        Uverbs::Usable(_) => {}
        Uverbs::Unread(why) => return vec![unknown(ID, subject, "the device's nodes", &why)],
        Uverbs::Missing(node) => {
            return fail(
                format!("{} is ACTIVE, but its node {node} is missing", device.name),
                "this host: ib_uverbs is not loaded, or udev did not make the node",
                "`ls -l /dev/infiniband; ls /sys/class/infiniband_verbs`; `modprobe ib_uverbs`; `udevadm trigger --subsystem-match=infiniband_verbs`.".to_owned(),
            );
        }
        Uverbs::Closed(node, why) => {
            return fail(
                format!("{node} of {} cannot be opened: {why}", device.name),
                "this host: rights of the node, a device control group, or a card that does not answer",
                format!(
                    "`ls -l /dev/infiniband/{node}` (usually 0666); `ibv_devinfo -d {}` as the job's user; `dmesg -T | tail`.",
                    device.name
                ),
            );
        }
    }
    if let Some(umad) = device.nodes.iter().find(|n| n.name.starts_with("umad") && n.mode == Reading::Absent)
    {
        return fail(
            format!("node {} of {} is missing", umad.name, device.name),
            "this host: udev did not make the node",
            "`ls /dev/infiniband /sys/class/infiniband_mad`; `udevadm trigger --subsystem-match=infiniband_mad`.".to_owned(),
        );
    }
    let without: Vec<Finding> = device.ports.iter().filter_map(|port| issm(look, device, port)).collect();
    if without.is_empty() {
        let names: Vec<&str> = device.nodes.iter().map(|node| node.name.as_str()).collect();
        return vec![Finding { evidence, ..ok(ID, subject, format!("{} are there", names.join(", "))) }];
    }
    without
}

/// InfiniBand ports have an issm node, for a subnet manager; Ethernet ports never do, and iWARP ports neither, which old kernels
/// call InfiniBand.
fn issm(look: &Look<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let asked = port.link_layer == Reading::Value(LinkLayer::InfiniBand)
        && !is_iwarp(device)
        && port.state == Reading::Value(PortState::Active)
        && look.policy.limit(&limits::ISSM_NODES_EXPECTED) > 0.0;
    let of_port = |n: &&DeviceNode| n.name.starts_with("issm") && n.port == Some(port.number);
    let there = device.nodes.iter().find(of_port).is_some_and(|node| node.mode != Reading::Absent);
    (asked && !there).then(|| {
        let verdict = Verdict::warn(
            format!("{} is ACTIVE and has no issm node", port_subject(device, port)),
            "the driver or firmware made none: normal on some machines (GB300), on others device plugins refuse the port",
            "`ls /dev/infiniband /sys/class/infiniband_mad`; compare with a good node; where it is normal set the limit issm_nodes_expected to 0.",
        );
        verdict.finding(ID, port_subject(device, port), device.nodes.iter().map(told).collect())
    })
}

/// In a container all devices of the host are seen and only those handed in can be opened: one that can be is enough.
fn inside(devices: &[&Device]) -> Vec<Finding> {
    if devices.is_empty() {
        return Vec::new();
    }
    let machine = || "machine".to_owned();
    let all: Vec<(&str, Uverbs)> =
        devices.iter().map(|device| (device.name.as_str(), uverbs(device))).collect();
    let evidence: Vec<String> = all
        .iter()
        .map(|(device, found)| match found {
            Uverbs::Usable(node) => format!("{device} = {node} can be opened"),
            Uverbs::Missing(node) => format!("{device} = no {node}"),
            Uverbs::Closed(node, why) => format!("{device} = {node} cannot be opened: {why}"),
            Uverbs::Unread(why) => format!("{device} = not known: {why}"),
        })
        .collect();
    let usable = all.iter().filter(|(_, found)| matches!(found, Uverbs::Usable(_))).count();
    if usable > 0 {
        let summary = format!("{} devices are visible, {usable} can be used here", all.len());
        return vec![Finding { evidence, ..ok(ID, machine(), summary) }];
    }
    if let Some(why) =
        all.iter().find_map(|(_, found)| if let Uverbs::Unread(why) = found { Some(why) } else { None })
    {
        return vec![unknown(ID, machine(), "the devices' nodes", why)];
    }
    let verdict = Verdict::fail(
        format!("{} RDMA devices are visible and none can be opened here", all.len()),
        "a setting of the container or unit: no device was handed in, or PrivateDevices=yes",
        "`ls -l /dev/infiniband`; Docker: `--device /dev/infiniband/uverbsN --device /dev/infiniband/rdma_cm`; Kubernetes: the RDMA resource in the pod's limits; systemd: `PrivateDevices=no`.",
    );
    vec![verdict.finding(ID, machine(), evidence)]
}

fn told(node: &DeviceNode) -> String {
    let mode = node.mode.as_ref().map(|mode| format!("{mode:04o}"));
    match &node.open {
        Reading::Failed(why) => format!("{}, open: {why}", shown(&node.name, &mode)),
        Reading::Value(()) | Reading::Absent => match node.mode {
            Reading::Absent => format!("{}: {}", node.name, why(&node.mode)),
            _ => shown(&node.name, &mode),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::testing::{device, first};
    use rdmascope_fixtures::snapshot::{infiniband, roce};
    use rdmascope_model::{Snapshot, Status};

    fn close(m: &mut Snapshot, which: usize) {
        let Reading::Value(devices) = &mut m.devices else { panic!("no devices") };
        devices[which].nodes[0].open = Reading::failed("EPERM");
    }

    fn without_nodes(m: &mut Snapshot, which: usize) {
        let Reading::Value(devices) = &mut m.devices else { panic!("no devices") };
        for node in &mut devices[which].nodes {
            node.mode = Reading::Absent;
            node.open = Reading::Absent;
        }
    }

    fn contained(count: usize, edit: impl Fn(&mut Snapshot)) -> Finding {
        let mut machine = roce(count);
        machine.system.container = Reading::Value(true);
        edit(&mut machine);
        judge(&Look::first(&machine, &Policy::default())).remove(0)
    }

    #[test]
    fn c090_an_infiniband_port_without_issm_warns_where_it_is_expected() {
        let mut machine = infiniband(1);
        assert_eq!(judge(&Look::first(&machine, &Policy::default()))[0].status, Status::Ok);
        device(&mut machine).nodes.retain(|node| !node.name.starts_with("issm"));
        let found = judge(&Look::first(&machine, &Policy::default())).remove(0);
        assert_eq!((found.status, found.subject.as_str()), (Status::Warn, "mlx5_0/1"));
        let mut policy = Policy::default();
        policy.limits.set("issm_nodes_expected", 0.0);
        assert_eq!(judge(&Look::first(&machine, &policy))[0].status, Status::Ok);
        // Ethernet ports have none, and an iWARP port has none whatever an old kernel calls it.
        assert_eq!(first(&CHECK, |_| ())[0].status, Status::Ok);
        device(&mut machine).node_type = Reading::Value("RNIC".into());
        assert_eq!(judge(&Look::first(&machine, &Policy::default()))[0].status, Status::Ok);
    }

    #[test]
    fn c098_c099_nothing_can_be_opened_in_the_container() {
        let closed = contained(1, |m| close(m, 0));
        assert_eq!(closed.status, Status::Fail);
        assert!(closed.evidence[0].contains("EPERM"), "{:?}", closed.evidence);
        assert_eq!(contained(1, |m| without_nodes(m, 0)).status, Status::Fail);
    }

    #[test]
    fn c101_one_node_of_four_devices_is_enough() {
        let found = contained(4, |m| (1..4).for_each(|i| without_nodes(m, i)));
        assert_eq!(
            (found.status, found.summary.as_str()),
            (Status::Ok, "4 devices are visible, 1 can be used here")
        );
    }

    #[test]
    fn c102_devices_of_other_pods_are_no_fault() {
        assert_eq!(contained(3, |m| (0..2).for_each(|i| close(m, i))).status, Status::Ok);
    }

    #[test]
    fn c107_a_unit_with_private_devices() {
        let found = contained(2, |m| (0..2).for_each(|i| without_nodes(m, i)));
        assert_eq!(found.status, Status::Fail);
        assert!(found.next_step.contains("PrivateDevices=no"), "{}", found.next_step);
    }

    #[test]
    fn on_the_host_every_device_needs_its_nodes() {
        assert_eq!(first(&CHECK, |m| without_nodes(m, 0))[0].status, Status::Fail);
        assert_eq!(first(&CHECK, |m| close(m, 0))[0].status, Status::Fail);
        assert_eq!(first(&CHECK, |m| device(m).nodes[1].mode = Reading::Absent)[0].status, Status::Fail);
        assert!(first(&CHECK, |m| device(m).ports[0].state = Reading::Value(PortState::Down)).is_empty());
    }
}
