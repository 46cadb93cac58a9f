//! Did a RoCE v2 GID change its slot lately, so that jobs that remember the number cannot come back?

use crate::addressing::is_iwarp;
use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, is_not_ethernet, ok, port_subject, ports, unknown, why};
use crate::limits;
use crate::motion::in_words;
use crate::past::GidMove;
use rdmascope_model::{Device, Finding, Port, Reading, Status};
use std::time::Duration;

const ID: &str = "gid-moved";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is each RoCE v2 GID still in the slot in which it was?",
    meaning: "Applications remember the slot number: after a move running jobs cannot reconnect over the port, and fixed settings are wrong.",
    causes: &[
        "the link was lost and came back while old connections still held the old slots",
        "an address was taken away and given again by a network manager or a container runtime",
        "an address was added before this one",
    ],
    next_steps: &[
        "`show_gids` or `grep . /sys/class/infiniband/*/ports/*/gid_attrs/types/*` shows the slots as they are.",
        "Restart jobs that run on the port; choose GIDs by type and address, never by number. Then look for the flap that caused it.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::RECENT_CHANGE_SECONDS],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    ports(look.now, look.policy)
        .filter(|(device, port)| !is_not_ethernet(port) && !is_down(port) && !is_iwarp(device))
        .map(|(device, port)| one(look, device, port))
        .collect()
}

fn one(look: &Look<'_>, device: &Device, port: &Port) -> Finding {
    let subject = port_subject(device, port);
    let Reading::Value(table) = &port.gids else {
        return unknown(ID, subject, "the GID table", why(&port.gids));
    };
    let window = Duration::from_secs(u64::from(look.policy.whole(&limits::RECENT_CHANGE_SECONDS)));
    let there = |moved: &GidMove| table.iter().any(|e| e.gid == moved.gid && e.index == moved.slots.to);
    let moves: Vec<GidMove> = look
        .past
        .gid_moves(&device.name, port.number)
        .into_iter()
        .filter(|moved| !moved.gid.is_link_local() && moved.slots.age <= window && there(moved))
        .collect();
    let Some(first) = moves.first() else {
        return ok(ID, subject, "no RoCE v2 GID was seen to change its slot lately".to_owned());
    };
    let words = |m: &GidMove| format!("{} {}->{}", m.gid, m.slots.from, m.slots.to);
    Finding {
        id: ID.into(),
        status: Status::Warn,
        subject,
        summary: format!(
            "the RoCE v2 GID {} moved from slot {} to {}, {} ago: jobs that remember {} cannot reconnect",
            first.gid,
            first.slots.from,
            first.slots.to,
            in_words(first.slots.age),
            first.slots.from
        ),
        cause: "this host: the link or the address went and came back while the old slots were still held; see the check `link-flaps` \
                for the event behind it"
            .to_owned(),
        next_step: format!(
            "Restart what runs on {}; choose the GID by type and address (unset NCCL_IB_GID_INDEX and UCX_IB_GID_INDEX); `show_gids` \
             shows the slots; then `dmesg -T | grep -i link` for the flap.",
            device.name
        ),
        evidence: moves.iter().map(words).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Past, Policy};
    use rdmascope_fixtures::snapshot::{gid, infiniband, roce};
    use rdmascope_model::{GidEntry, Mono, Snapshot};

    fn table(entries: Vec<GidEntry>) -> Snapshot {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].gids = Reading::Value(entries);
        machine
    }

    fn link_local() -> [GidEntry; 2] {
        [gid(0, "fe80::1", "IB/RoCE v1", "eth0"), gid(1, "fe80::1", "RoCE v2", "eth0")]
    }

    fn with_slots(v1: u32, v2: u32) -> Snapshot {
        let mut entries = Vec::from(link_local());
        entries.push(gid(v1, "::ffff:192.0.2.1", "IB/RoCE v1", "eth0"));
        entries.push(gid(v2, "::ffff:192.0.2.1", "RoCE v2", "eth0"));
        table(entries)
    }

    /// C005: after the flap slots 2 and 3 stay empty and the address is in 4 and 5.
    #[test]
    fn c005_a_gid_that_came_back_elsewhere() {
        let mut past = Past::new();
        let second = |s: u64| Mono(s * 1_000_000_000);
        past.observe(&with_slots(2, 3), second(1));
        past.observe(&table(link_local().into()), second(2));
        let after = with_slots(4, 5);
        past.observe(&after, second(3));
        let policy = Policy::default();
        let found = judge(&Look { past: &past, ..Look::first(&after, &policy) }).remove(0);
        assert_eq!((found.status, found.subject.as_str()), (Status::Warn, "mlx5_0/1"));
        assert!(found.summary.contains("moved from slot 3 to 5"), "{}", found.summary);
        assert_eq!(found.evidence, ["::ffff:192.0.2.1 3->5"]);
        // After an hour it is history; a GID that is gone again is not moved.
        let gone = judge(&Look { past: &past, ..Look::first(&table(link_local().into()), &policy) });
        assert_eq!(gone[0].status, Status::Ok);
        past.observe(&after, second(3700));
        assert_eq!(judge(&Look { past: &past, ..Look::first(&after, &policy) })[0].status, Status::Ok);
    }

    #[test]
    fn unread_is_unknown_and_infiniband_is_not_asked() {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].gids = Reading::failed("EIO");
        assert_eq!(judge(&Look::first(&machine, &Policy::default()))[0].status, Status::Unknown);
        assert!(judge(&Look::first(&infiniband(1), &Policy::default())).is_empty());
    }
}
