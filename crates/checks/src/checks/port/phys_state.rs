//! Is the physical link up, and if not, how far did it get?

use crate::check::{Check, Look, Settles};
use crate::duty::{Duty, is_infiniband_virtual, links, state_is_constant};
use crate::finding::{ok, port_subject, unknown, why};
use rdmascope_model::{Device, Finding, PhysState, Port, Reading, Status};

const ID: &str = "port-phys-state";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is the physical link up?",
    meaning: "Without a physical link nothing above it can work.",
    causes: &[
        "no cable, or a bad one",
        "transceiver not seated, too hot or not supported",
        "the port at the other end is off",
    ],
    next_steps: &["`ethtool NETDEV` and `ethtool -m NETDEV` (or `mlxlink -d DEVICE`), then the other end."],
    settles: Settles::AfterDebounce,
    hard: true,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    links(look.now, look.policy)
        // A virtual function has no cable, and a driver that always says LinkUp tells nothing.
        .filter(|(device, port, _)| !is_infiniband_virtual(device, port) && !state_is_constant(device))
        .map(|(device, port, duty)| one(look, device, port, &duty))
        .collect()
}

fn one(look: &Look<'_>, device: &Device, port: &Port, duty: &Duty) -> Finding {
    let subject = port_subject(device, port);
    let state = match &port.phys_state {
        Reading::Value(PhysState::LinkUp) => return ok(ID, subject, "the physical link is up".to_owned()),
        Reading::Value(state) if *duty == Duty::MeantDown => {
            return ok(ID, subject, format!("{}, and meant to be down", state.as_str()));
        }
        Reading::Value(state)
            if matches!(duty, Duty::Unused(_)) && !look.past.was_active(&device.name, port.number) =>
        {
            return ok(ID, subject, format!("{}, and not in use: it never had a link", state.as_str()));
        }
        Reading::Value(PhysState::Other(word)) => {
            let why = format!("the driver says '{word}', which is no physical state");
            return unknown(ID, subject, "the physical state", &why);
        }
        Reading::Value(state) => state,
        missing => return unknown(ID, subject, "the physical state", why(missing)),
    };
    let netdev = port.netdev.value().map_or("NETDEV", String::as_str);
    let (cause, next_step) = match state {
        PhysState::Polling => (
            "the port looks for a partner and finds none: no cable, a dead transceiver, or the far end is off",
            format!(
                "Reseat or swap the cable and look at the far end: `ethtool -m {netdev}`, the switch port."
            ),
        ),
        PhysState::Disabled | PhysState::Sleep => (
            "the port is switched off, or its network device has no carrier",
            format!(
                "`ip link show dev {netdev}` (UP and LOWER_UP?), `ip link set dev {netdev} up`, the switch port."
            ),
        ),
        PhysState::PortConfigurationTraining | PhysState::LinkErrorRecovery => (
            "the link trains and does not come up: a marginal cable or transceiver, or a speed or FEC that the two ends do not share",
            format!(
                "`ethtool {netdev}`, `ethtool --show-fec {netdev}`, error counters of both ends; swap the cable."
            ),
        ),
        _ => (
            "the port is in a test mode",
            "See who started the test; a driver reload or a restart of the port ends it.".to_owned(),
        ),
    };
    Finding {
        id: ID.into(),
        status: Status::Fail,
        subject,
        summary: format!("the physical link is not up: {}", state.as_str()),
        cause: cause.to_owned(),
        next_step,
        evidence: vec![format!("phys_state = {}", state.as_str())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use rdmascope_fixtures::snapshot::roce;

    fn seen(state: Reading<PhysState>) -> Finding {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].phys_state = state;
        judge(&Look::first(&machine, &Policy::default())).remove(0)
    }

    #[test]
    fn only_link_up_is_ok() {
        assert_eq!(seen(Reading::Value(PhysState::LinkUp)).status, Status::Ok);
        for state in [
            PhysState::Sleep,
            PhysState::Polling,
            PhysState::Disabled,
            PhysState::PortConfigurationTraining,
            PhysState::LinkErrorRecovery,
            PhysState::PhyTest,
        ] {
            let found = seen(Reading::Value(state.clone()));
            assert_eq!(found.status, Status::Fail, "{state:?}");
            assert!(found.summary.contains(state.as_str()) && !found.next_step.is_empty());
        }
    }

    #[test]
    fn a_published_nonsense_value_and_an_unread_one_are_unknown() {
        let odd = seen(Reading::Value(PhysState::Other("ACTIVE".into())));
        assert_eq!(odd.status, Status::Unknown);
        assert!(odd.summary.contains("'ACTIVE'"));
        assert_eq!(seen(Reading::Failed("EINVAL".into())).status, Status::Unknown);
    }
}
