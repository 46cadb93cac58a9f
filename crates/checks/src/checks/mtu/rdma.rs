//! Is the RDMA MTU in use as large as it should be, and does it fit the network device's MTU?

use crate::addressing::is_iwarp;
use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, is_not_ethernet, netdev_under, ok, port_subject, ports, unknown, why};
use crate::manifest::Expectation;
use crate::{Policy, limits};
use rdmascope_model::{Finding, Port, Reading, Snapshot, Status};

const ID: &str = "rdma-mtu";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is the RDMA MTU as large as it can be, and does it fit the network device?",
    meaning: "At an RDMA MTU of 1024 headers take 5 % more of the line rate than at 4096; two ends with different ones fail at large messages.",
    causes: &[
        "the network device's MTU leaves no room",
        "the device below (bond member, VLAN parent) has a lower MTU",
        "InfiniBand: the partition's MTU in the subnet manager",
    ],
    next_steps: &[
        "`ibv_devinfo -v` shows active_mtu and max_mtu; `ip -d link show dev NETDEV` its network device and what is below.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::NETDEV_MTU, &limits::RDMA_MTU],
    judge,
};

/// Bytes that drivers keep free for headers in a packet of the network device's MTU: 80 in `rdma_rxe` (`RXE_MAX_HDR_LENGTH`), 96 in
/// the function that the others use (`iboe_get_mtu` in `include/rdma/ib_addr.h`: 40 + 8 + 12 + 4 + 28 + 4).
const HEADER_BYTES: std::ops::RangeInclusive<u32> = 80..=96;

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let (snapshot, policy) = (look.now, look.policy);
    ports(snapshot, policy)
        // iWARP sizes its packets by TCP; a port that is down reports 1024 whatever it is set to.
        .filter(|(device, port)| !is_iwarp(device) && !is_down(port))
        .map(|(device, port)| {
            let expected = policy.manifest.of(device, Some(port));
            one(port_subject(device, port), snapshot, port, policy, &expected)
        })
        .collect()
}

fn one(
    subject: String,
    snapshot: &Snapshot,
    port: &Port,
    policy: &Policy,
    manifest: &Expectation,
) -> Finding {
    let active = match &port.active_mtu {
        Reading::Value(active) => *active,
        missing => return unknown(ID, subject, "the RDMA MTU in use (a verbs port query)", why(missing)),
    };
    let netdev = if is_not_ethernet(port) { None } else { netdev_under(snapshot, port).ok() };
    let below = netdev.and_then(|(name, netdev)| Some((name, *netdev.mtu.value()?)));
    if let Some((name, mtu)) = below.filter(|(_, mtu)| !fits(active, *mtu)) {
        return inconsistent(subject, active, name, mtu);
    }
    let expected = manifest.rdma_mtu.unwrap_or_else(|| policy.whole(&limits::RDMA_MTU));
    if active >= expected {
        // Both, since people who set 9000 wonder about 4096: an RDMA packet is never larger.
        let beside = below.map_or_else(String::new, |(name, mtu)| format!(" ({name}: MTU {mtu})"));
        return ok(ID, subject, format!("RDMA MTU {active} bytes in use{beside}"));
    }
    let (cause, next_step) = if port.max_mtu.value().is_some_and(|max| *max < expected) {
        (
            "the adapter cannot do more",
            "Nothing to set; expect less goodput, and compare the peers.".to_owned(),
        )
    } else if let Some((name, mtu)) = below {
        (
            "the network device's MTU leaves no room for more: the RDMA MTU is the largest of 256, 512, 1024, 2048 and 4096 that fits",
            format!(
                "Network device {name} has MTU {mtu}: `ip link set dev {name} mtu {}`, and on the switch port.",
                manifest.netdev_mtu.unwrap_or_else(|| policy.whole(&limits::NETDEV_MTU))
            ),
        )
    } else {
        (
            "the subnet manager, the network device's MTU or the adapter sets the limit",
            "`ibv_devinfo -v` shows active_mtu and max_mtu; on InfiniBand see the subnet manager's partition settings (mtu=5)."
                .to_owned(),
        )
    };
    Finding {
        id: ID.into(),
        status: Status::Warn,
        subject,
        summary: format!("RDMA MTU {active} bytes in use, {expected} expected: more headers, less goodput"),
        cause: cause.to_owned(),
        next_step,
        evidence: evidence(active, &port.max_mtu, below),
    }
}

/// Whether an RDMA MTU is what a driver makes of a network device's MTU.
fn fits(active: u32, netdev_mtu: u32) -> bool {
    let largest = |headers: u32| {
        let room = netdev_mtu.saturating_sub(headers);
        [4096, 2048, 1024, 512, 256].into_iter().find(|size| *size <= room).unwrap_or(0)
    };
    (largest(*HEADER_BYTES.end())..=largest(*HEADER_BYTES.start())).contains(&active)
}

fn inconsistent(subject: String, active: u32, name: &str, mtu: u32) -> Finding {
    let (summary, cause) = if active.saturating_add(*HEADER_BYTES.start()) > mtu {
        (
            format!("RDMA MTU {active} bytes in use, too large for packets of {name} (MTU {mtu})"),
            "the network device's MTU was lowered and the RDMA port did not follow",
        )
    } else {
        (
            format!("RDMA MTU {active} bytes in use, although {name} has MTU {mtu}"),
            "the device below (bond member, VLAN parent, physical function) has a lower MTU, or the driver did not follow a change",
        )
    };
    Finding {
        id: ID.into(),
        status: Status::Fail,
        subject,
        summary,
        cause: cause.to_owned(),
        next_step: format!(
            "Compare all layers: `ip -d link show dev {name}`, its members and parent, `ibv_devinfo -v`; set the MTU again from the \
             lowest up (`ip link set dev {name} mtu {mtu}`)."
        ),
        evidence: evidence(active, &Reading::Absent, Some((name, mtu))),
    }
}

fn evidence(active: u32, max: &Reading<u32>, below: Option<(&str, u32)>) -> Vec<String> {
    let mut list = vec![format!("active_mtu = {active}")];
    list.extend(max.value().map(|max| format!("max_mtu = {max}")));
    list.extend(below.map(|(name, mtu)| format!("mtu of {name} = {mtu}")));
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;
    use rdmascope_fixtures::snapshot::{infiniband, roce};
    use rdmascope_model::PortState;

    #[test]
    fn the_manifest_may_expect_less() {
        let row = Expectation { device: "mlx5_0".into(), rdma_mtu: Some(1024), ..Expectation::default() };
        let policy = Policy { manifest: Manifest { rows: vec![row] }, ..Policy::default() };
        let machine = with(roce(1), Reading::Value(1024), 1500);
        assert_eq!(judge(&Look::first(&machine, &policy))[0].status, Status::Ok);
        assert_eq!(judge(&Look::first(&machine, &Policy::default()))[0].status, Status::Warn);
    }

    fn with(mut machine: Snapshot, active: Reading<u32>, netdev_mtu: u32) -> Snapshot {
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].active_mtu = active;
        if let Reading::Value(netdevs) = &mut machine.netdevs {
            netdevs.values_mut().for_each(|n| n.mtu = Reading::Value(netdev_mtu));
        }
        machine
    }

    fn seen(active: u32, netdev_mtu: u32) -> (Status, String) {
        let found =
            judge(&Look::first(&with(roce(1), Reading::Value(active), netdev_mtu), &Policy::default()))
                .remove(0);
        (found.status, found.summary)
    }

    #[test]
    fn the_kernels_own_pairs_are_consistent() {
        assert_eq!(seen(4096, 9000).0, Status::Ok);
        assert_eq!(seen(4096, 4220).0, Status::Ok);
        let (status, summary) = seen(1024, 1500);
        assert_eq!(status, Status::Warn);
        assert_eq!(summary, "RDMA MTU 1024 bytes in use, 4096 expected: more headers, less goodput");
        assert_eq!(seen(2048, 4096).0, Status::Warn);
        // Between the two header lengths drivers differ.
        assert_eq!(seen(4096, 4180).0, Status::Ok);
        assert_eq!(seen(2048, 4180).0, Status::Warn);
    }

    /// Pitfall 10: "MTU 9000, but RoCE is no faster". RDMA ends at 4096, which 4,200 bytes already carry.
    #[test]
    fn a_network_device_at_9000_is_told_beside_the_4096_that_rdma_has_at_most() {
        for netdev_mtu in [9000, 4200] {
            let told = format!("RDMA MTU 4096 bytes in use (eth0: MTU {netdev_mtu})");
            assert_eq!(seen(4096, netdev_mtu), (Status::Ok, told));
        }
        assert_eq!(seen(2048, 4000).0, Status::Warn, "less than 4096 is worth a word");
    }

    #[test]
    fn a_pair_that_no_driver_makes_fails() {
        let (status, summary) = seen(1024, 9000);
        assert_eq!(
            (status, summary.as_str()),
            (Status::Fail, "RDMA MTU 1024 bytes in use, although eth0 has MTU 9000")
        );
        let (status, summary) = seen(4096, 1500);
        assert_eq!(
            (status, summary.as_str()),
            (Status::Fail, "RDMA MTU 4096 bytes in use, too large for packets of eth0 (MTU 1500)")
        );
    }

    #[test]
    fn unread_is_unknown_and_down_is_not_judged() {
        let unread = with(roce(1), Reading::Failed("libibverbs could not be loaded".into()), 9000);
        let found = judge(&Look::first(&unread, &Policy::default()));
        assert_eq!(found[0].status, Status::Unknown);
        assert!(found[0].summary.contains("libibverbs"));
        let mut down = with(roce(1), Reading::Value(1024), 9000);
        let Reading::Value(devices) = &mut down.devices else { panic!("no devices") };
        devices[0].ports[0].state = Reading::Value(PortState::Down);
        assert!(judge(&Look::first(&down, &Policy::default())).is_empty());
    }

    #[test]
    fn infiniband_is_judged_without_a_network_device() {
        let found = judge(&Look::first(&with(infiniband(1), Reading::Value(2048), 0), &Policy::default()));
        assert_eq!(found[0].status, Status::Warn);
        assert!(found[0].next_step.contains("subnet manager"));
        assert_eq!(judge(&Look::first(&infiniband(1), &Policy::default()))[0].status, Status::Ok);
    }
}
