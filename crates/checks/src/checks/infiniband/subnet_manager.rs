//! Did a subnet manager configure the port, and is it still the same one?

use super::infiniband_ports;
use crate::check::{Check, Look, Settles};
use crate::duty::is_infiniband_virtual;
use crate::finding::{ok, port_subject, unknown, why};
use crate::limits;
use crate::motion::in_words;
use rdmascope_model::{Device, Finding, PhysState, Port, PortState, Reading, Status};
use std::time::Duration;

const ID: &str = "subnet-manager";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Did a subnet manager configure the InfiniBand port, and is it still the same one?",
    meaning: "Without a subnet manager an InfiniBand port stays in INIT and carries nothing; when another one takes over, paths may change under a running job.",
    causes: &[
        "opensm or UFM does not run, or not on this subnet",
        "the port is cut off from it, or in another subnet than thought",
        "the master subnet manager failed and a standby took over",
    ],
    next_steps: &[
        "`sminfo` says who answers, `saquery -s` lists all of them; `ibstat` shows state, LID and SM LID of the port.",
        "Look at the log of opensm (`/var/log/opensm.log`) or UFM; `ibdiagnet` for the way to it.",
    ],
    settles: Settles::AfterDebounce,
    hard: false,
    limits: &[&limits::RECENT_CHANGE_SECONDS],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    infiniband_ports(look.now, look.policy)
        // Without a link there is no manager to be seen, and virtual functions have their own check.
        .filter(|(device, port)| has_link(port) && !is_infiniband_virtual(device, port))
        .filter_map(|(device, port)| one(look, device, port))
        .collect()
}

/// The physical link is up, as far as is known.
fn has_link(port: &Port) -> bool {
    let dark = matches!(
        port.phys_state.value(),
        Some(
            PhysState::Sleep
                | PhysState::Polling
                | PhysState::Disabled
                | PhysState::PortConfigurationTraining
        )
    );
    port.state != Reading::Value(PortState::Down) && !dark
}

fn one(look: &Look<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let subject = port_subject(device, port);
    if let Reading::Value(state @ (PortState::Init | PortState::Armed)) = &port.state {
        let summary =
            format!("the link is up and the port is {}: no subnet manager brought it up", state.as_str());
        return Some(none(subject, port, summary));
    }
    let (manager, lid) = match (&port.sm_lid, &port.lid) {
        (Reading::Value(manager), Reading::Value(lid)) => (*manager, *lid),
        (Reading::Failed(_), _) => {
            return Some(unknown(ID, subject, "the subnet manager's LID", why(&port.sm_lid)));
        }
        (_, Reading::Failed(_)) => return Some(unknown(ID, subject, "the port's LID", why(&port.lid))),
        (Reading::Absent, _) | (_, Reading::Absent) => return None,
    };
    if manager == 0 {
        return Some(none(subject, port, "no subnet manager is known to the port (SM LID 0)".to_owned()));
    }
    if lid == 0 || lid == u16::MAX {
        let summary = format!("the subnet manager gave the port no LID (it shows {lid})");
        return Some(none(subject, port, summary));
    }
    let window = Duration::from_secs(u64::from(look.policy.whole(&limits::RECENT_CHANGE_SECONDS)));
    match look.past.manager_change(&device.name, port.number).filter(|change| change.age <= window) {
        Some(change) => Some(Finding {
            id: ID.into(),
            status: Status::Warn,
            subject,
            summary: format!(
                "the subnet manager changed from LID {} to LID {}, {} ago",
                change.from,
                change.to,
                in_words(change.age)
            ),
            cause: "the fabric: the master subnet manager failed or was restarted and another took over; routes may have changed"
                .to_owned(),
            next_step: "`sminfo` and `saquery -s` on any node, then the logs of both managers: why did the first one leave?".to_owned(),
            evidence: vec![format!("sm_lid = {manager}"), format!("lid = {lid}")],
        }),
        None => Some(ok(ID, subject, format!("subnet manager at LID {manager}, own LID {lid}"))),
    }
}

fn none(subject: String, port: &Port, summary: String) -> Finding {
    let number =
        |reading: &Reading<u16>| reading.value().map_or_else(|| why(reading).to_owned(), u16::to_string);
    Finding {
        id: ID.into(),
        status: Status::Fail,
        subject,
        summary,
        cause: "the fabric: no subnet manager runs on this subnet, or it does not reach this port; the cable itself is fine".to_owned(),
        next_step: "`sminfo` here and on a healthy node; start or repair opensm (UFM) for this subnet: `systemctl status opensm`, its log."
            .to_owned(),
        evidence: vec![
            format!("state = {}", port.state.value().map_or_else(|| why(&port.state), PortState::as_str)),
            format!("sm_lid = {}", number(&port.sm_lid)),
            format!("lid = {}", number(&port.lid)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Past, Policy};
    use rdmascope_fixtures::snapshot::{infiniband, roce};
    use rdmascope_model::{Mono, Snapshot};

    fn with(change: impl FnOnce(&mut Port)) -> Snapshot {
        let mut machine = infiniband(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        change(&mut devices[0].ports[0]);
        machine
    }

    fn seen(change: impl FnOnce(&mut Port)) -> Vec<Finding> {
        judge(&Look::first(&with(change), &Policy::default()))
    }

    /// C061: LinkUp and INIT, beside a port that is down and not asked.
    #[test]
    fn c061_init_means_that_no_subnet_manager_came() {
        let found = seen(|port| {
            port.state = Reading::Value(PortState::Init);
            (port.lid, port.sm_lid) = (Reading::Value(0), Reading::Value(0));
        });
        assert_eq!((found[0].status, found[0].summary.contains("INIT")), (Status::Fail, true));
        assert!(found[0].next_step.contains("sminfo"));
        let down = seen(|port| {
            port.state = Reading::Value(PortState::Down);
            port.phys_state = Reading::Value(PhysState::Polling);
        });
        assert!(down.is_empty());
    }

    #[test]
    fn lids_of_an_active_port() {
        assert_eq!(seen(|_| {})[0].summary, "subnet manager at LID 1, own LID 298");
        assert_eq!(seen(|port| port.sm_lid = Reading::Value(0))[0].status, Status::Fail);
        assert_eq!(seen(|port| port.lid = Reading::Value(0))[0].status, Status::Fail);
        assert_eq!(seen(|port| port.lid = Reading::Value(u16::MAX))[0].status, Status::Fail);
        assert_eq!(seen(|port| port.sm_lid = Reading::failed("EIO"))[0].status, Status::Unknown);
        assert_eq!(seen(|port| port.lid = Reading::failed("EIO"))[0].status, Status::Unknown);
    }

    /// C092 and C128: on RoCE, LID and SM LID are 0 in health, whatever the rate text says.
    #[test]
    fn c092_c128_roce_has_no_subnet_manager() {
        let machine = roce(2);
        let port = &machine.devices.value().unwrap()[0].ports[0];
        assert_eq!((port.lid.value(), port.sm_lid.value()), (Some(&0), Some(&0)));
        assert!(judge(&Look::first(&machine, &Policy::default())).is_empty());
    }

    #[test]
    fn another_manager_warns_for_a_while() {
        let mut past = Past::new();
        past.observe(&with(|_| {}), Mono(1));
        let now = with(|port| port.sm_lid = Reading::Value(9));
        let policy = Policy::default();
        for (seconds, status) in [(60, Status::Warn), (3600, Status::Warn), (3700, Status::Ok)] {
            past.observe(&now, Mono(seconds * 1_000_000_000));
            let found = judge(&Look { past: &past, ..Look::first(&now, &policy) }).remove(0);
            assert_eq!(found.status, status, "after {seconds} s: {}", found.summary);
            if status == Status::Warn {
                assert!(found.summary.starts_with("the subnet manager changed from LID 1 to LID 9"));
            }
        }
    }
}
