//! Has an SR-IOV virtual function what it needs: a GUID, and a subnet manager that brings its port up?

use crate::check::{Check, Look, Settles};
use crate::duty::{Duty, has_no_guid, is_infiniband_virtual, links};
use crate::finding::{ok, port_subject, unknown, why};
use rdmascope_model::{Device, Finding, Function, PhysState, Port, PortState, Reading, Status};

const ID: &str = "virtual-function";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Has a virtual function a GUID, and did the subnet manager bring its port up?",
    meaning: "An InfiniBand virtual function without GUID, or under a subnet manager without virtualisation, stays down although the cable is fine.",
    causes: &[
        "nobody gave the function a node GUID and a port GUID before it was handed out",
        "the subnet manager does not know virtual ports (opensm of the distribution, virt_enabled unset)",
        "the port of the physical function is down itself",
    ],
    next_steps: &[
        "On the host: `ip link show dev PF` lists the functions with their GUIDs; `ip link set dev PF vf N node_guid GUID`, then `port_guid GUID`.",
        "Unbind and bind the function afterwards; in opensm.conf: `virt_enabled 2`.",
    ],
    settles: Settles::AfterDebounce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    links(look.now, look.policy)
        .filter(|(_, _, duty)| matches!(duty, Duty::Traffic | Duty::LinkOnly))
        .filter_map(|(device, port, _)| {
            if is_infiniband_virtual(device, port) {
                return Some(one(look, device, port));
            }
            let summary =
                "a virtual function over Ethernet: its link is judged like any other port's".to_owned();
            matches!(device.function.value(), Some(Function::Virtual { .. }))
                .then(|| ok(ID, port_subject(device, port), summary))
        })
        .collect()
}

fn one(look: &Look<'_>, device: &Device, port: &Port) -> Finding {
    let subject = port_subject(device, port);
    let state = match &port.state {
        Reading::Value(state) => state,
        missing => return unknown(ID, subject, "the state of the virtual function's port", why(missing)),
    };
    let no_guid = has_no_guid(device);
    if *state == PortState::Active && !no_guid {
        return ok(ID, subject, "the virtual function has a GUID and its port is ACTIVE".to_owned());
    }
    let linked = port.phys_state == Reading::Value(PhysState::LinkUp);
    let function = physical(look, device);
    let (seen, cause, next_step) = if no_guid {
        (
            "the virtual function has no GUID (all zeros)",
            "a setting of the host: nobody gave the function its GUIDs before it was handed out; the subnet manager leaves such a port alone",
            "On the host: `ip link set dev PF vf N node_guid GUID` and `... port_guid GUID`, then unbind and bind the function, before \
             it is moved into a pod or a virtual machine.",
        )
    } else if function.is_some_and(|(_, port)| port.state != Reading::Value(PortState::Active)) {
        (
            "the port of its physical function is not ACTIVE",
            "the link of the card: the virtual function goes with it",
            "See the finding of the physical function's port (`port-state`, `port-phys-state`).",
        )
    } else if linked || *state == PortState::Init {
        (
            "the link is up and the subnet manager has not activated the virtual port",
            "a setting of the fabric: the subnet manager runs without virtualisation, or does not know this GUID",
            "On the subnet manager: `virt_enabled 2` in opensm.conf (or UFM's virtualisation), restart it, and look at its log for this \
             GUID.",
        )
    } else {
        (
            "the virtual port has no link",
            "the link policy of the function or the physical port",
            "On the host: `ip link set dev PF vf N state auto`, and the state of the physical port: `ibstat`.",
        )
    };
    let mut evidence = vec![
        format!("state = {}", state.as_str()),
        format!(
            "phys_state = {}",
            port.phys_state.value().map_or_else(|| why(&port.phys_state), |s| s.as_str())
        ),
        format!("lid = {}", port.lid.value().map_or_else(|| why(&port.lid).to_owned(), u16::to_string)),
        format!(
            "node_guid = {}",
            device.node_guid.value().map_or_else(|| why(&device.node_guid), String::as_str)
        ),
    ];
    evidence.extend(function.map(|(device, port)| {
        format!("physical function = {} ({})", port_subject(device, port), state_of(port))
    }));
    Finding {
        id: ID.into(),
        status: Status::Fail,
        subject,
        summary: format!("{seen}: the port is {}", state.as_str()),
        cause: cause.to_owned(),
        next_step: next_step.to_owned(),
        evidence,
    }
}

fn state_of(port: &Port) -> &str {
    port.state.value().map_or_else(|| why(&port.state), PortState::as_str)
}

/// The physical function's first port, where this machine has it.
fn physical<'a>(look: &Look<'a>, device: &Device) -> Option<(&'a Device, &'a Port)> {
    let Some(Function::Virtual { of: Reading::Value(address) }) = device.function.value() else {
        return None;
    };
    let devices = look.now.devices.value()?;
    let found = devices.iter().find(|d| d.pci_address.value() == Some(address))?;
    Some((found, found.ports.first()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, run};
    use rdmascope_fixtures::snapshot::{infiniband, roce};
    use rdmascope_model::Snapshot;

    /// A physical function that is ACTIVE and one virtual function of it, changed.
    fn machine(change: impl FnOnce(&mut Device)) -> Snapshot {
        let mut machine = infiniband(2);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[1].function = Reading::Value(Function::Virtual { of: Reading::Value("0000:3b:00.0".into()) });
        change(&mut devices[1]);
        machine
    }

    fn judged(machine: &Snapshot) -> Finding {
        judge(&Look::first(machine, &Policy::default())).remove(0)
    }

    fn set(device: &mut Device, state: PortState, lid: u16) {
        device.ports[0].state = Reading::Value(state);
        device.ports[0].lid = Reading::Value(lid);
    }

    /// C093: no GUID, the port is down, and the physical function is ACTIVE.
    #[test]
    fn c093_a_function_without_guid_is_down() {
        let seen = machine(|vf| {
            vf.node_guid = Reading::Value("0000:0000:0000:0000".into());
            set(vf, PortState::Down, 0);
        });
        let found = judged(&seen);
        assert_eq!((found.status, found.subject.as_str()), (Status::Fail, "mlx5_1/1"));
        assert!(found.summary.contains("no GUID") && found.next_step.contains("node_guid"));
        // The one cause is told once.
        let failed: Vec<_> = run(&Look::first(&seen, &Policy::default()))
            .into_iter()
            .filter(|f| f.status == Status::Fail)
            .map(|f| f.id)
            .collect();
        assert_eq!(failed, [ID]);
    }

    /// C095: in a pod, without a sight of the physical function: DOWN over LinkUp, LID 65535.
    #[test]
    fn c095_a_virtual_port_that_the_subnet_manager_left_alone() {
        let mut seen = infiniband(1);
        let Reading::Value(devices) = &mut seen.devices else { panic!("no devices") };
        set(&mut devices[0], PortState::Down, u16::MAX);
        let found = judged(&seen);
        assert_eq!(found.status, Status::Fail);
        assert!(found.summary.contains("subnet manager has not activated"));
        assert!(found.next_step.contains("virt_enabled 2"));
    }

    /// C096: INIT, LID 65535 and no GUID.
    #[test]
    fn c096_no_guid_explains_init() {
        let mut seen = infiniband(1);
        let Reading::Value(devices) = &mut seen.devices else { panic!("no devices") };
        devices[0].node_guid = Reading::Value("0000:0000:0000:0000".into());
        set(&mut devices[0], PortState::Init, u16::MAX);
        let found = judged(&seen);
        assert_eq!((found.status, found.summary.contains("no GUID")), (Status::Fail, true));
    }

    #[test]
    fn healthy_ones_and_other_fabrics() {
        assert_eq!(judged(&machine(|_| {})).status, Status::Ok);
        assert!(judge(&Look::first(&infiniband(2), &Policy::default())).is_empty());
        let mut ethernet = roce(1);
        let Reading::Value(devices) = &mut ethernet.devices else { panic!("no devices") };
        devices[0].function = Reading::Value(Function::Virtual { of: Reading::Absent });
        assert_eq!(judged(&ethernet).status, Status::Ok);
        let unread = machine(|vf| vf.ports[0].state = Reading::failed("EIO"));
        assert_eq!(judged(&unread).status, Status::Unknown);
    }

    #[test]
    fn a_dead_card_is_not_the_subnet_managers_fault() {
        let mut seen = machine(|vf| set(vf, PortState::Down, u16::MAX));
        let Reading::Value(devices) = &mut seen.devices else { panic!("no devices") };
        devices[0].ports[0].state = Reading::Value(PortState::Down);
        devices[0].ports[0].phys_state = Reading::Value(PhysState::Polling);
        assert!(judged(&seen).summary.starts_with("the port of its physical function is not ACTIVE"));
    }
}
