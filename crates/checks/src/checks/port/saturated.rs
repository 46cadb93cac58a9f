//! Does a counter of the port stand at its end, so that nothing can be told from it any more?

use crate::check::{Check, Look, Settles};
use crate::counters::{Place, Width, find};
use crate::duty::{Duty, links};
use crate::finding::{ok, port_subject, unknown, why};
use rdmascope_model::{Device, Finding, Port, Reading, Status};

const ID: &str = "counter-saturated";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Do the port's error counters still count?",
    meaning: "InfiniBand's error counters have 4 to 32 bits and stop at their maximum: from then on new errors do not show.",
    causes: &[
        "errors since the last reset, which may be long ago",
        "a link that went up and down in the night of a repair",
        "a driver that gives the maximum where the adapter counts nothing",
    ],
    next_steps: &[
        "See which: `perfquery DEVICE_LID PORT` or `grep . /sys/class/infiniband/DEVICE/ports/PORT/counters/*`.",
        "Reset them by hand at a quiet time (`perfquery -R LID PORT`) and look again after an hour; nothing here ever resets a counter.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

/// It counts waiting, not errors: within minutes of traffic it stands at its end on many healthy ports.
const CONTEXT: &str = "port_xmit_wait";

fn judge(look: &Look<'_>) -> Vec<Finding> {
    links(look.now, look.policy)
        .filter(|(_, _, duty)| matches!(duty, Duty::Traffic | Duty::LinkOnly))
        .filter_map(|(device, port, _)| one(device, port))
        .collect()
}

fn one(device: &Device, port: &Port) -> Option<Finding> {
    let subject = port_subject(device, port);
    if let Some(folder @ Reading::Failed(_)) = port.counters.get("counters/") {
        return Some(unknown(ID, subject, "the port's counters", why(folder)));
    }
    let ends = port.counters.iter().filter_map(|(name, reading)| match find(Place::Port, name)?.width {
        Width::StopsAt(end) => Some((name.as_str(), *reading.value()?, end)),
        Width::Wraps32 | Width::Whole => None,
    });
    let (stuck, counting): (Vec<_>, Vec<_>) = ends.partition(|(_, value, end)| value == end);
    let names: Vec<&str> = stuck.iter().map(|(name, ..)| *name).filter(|name| *name != CONTEXT).collect();
    if stuck.is_empty() {
        let none = || ok(ID, subject, "no error counter stands at its maximum".to_owned());
        return (!counting.is_empty()).then(none);
    }
    if names.is_empty() {
        let summary = format!(
            "{CONTEXT} stands at its maximum: waiting for credits is not counted any more; no error counter does"
        );
        return Some(ok(ID, subject, summary));
    }
    Some(Finding {
        id: ID.into(),
        status: Status::Warn,
        subject,
        summary: format!("at the maximum, new errors do not show: {}", names.join(", ")),
        cause: "so many errors since the counters were last reset, perhaps long ago; whether there are new ones, they cannot tell"
            .to_owned(),
        next_step: format!(
            "Reset them by hand at a quiet time (`perfquery -R LID {}`, or reload the driver) and look again after an hour; until then \
             trust the kernel log and the switch's counters.",
            port.number
        ),
        evidence: stuck.iter().map(|(name, value, _)| format!("{name} = {value}")).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use rdmascope_fixtures::snapshot::infiniband;

    fn with(counters: &[(&str, u64)]) -> Finding {
        let mut machine = infiniband(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        for (name, value) in counters {
            devices[0].ports[0].counters.insert((*name).to_owned(), Reading::Value(*value));
        }
        judge(&Look::first(&machine, &Policy::default())).remove(0)
    }

    /// C124: an H100 node with small counters at odd values.
    #[test]
    fn c124_counters_at_their_end_warn_and_others_do_not() {
        let quiet = with(&[("port_rcv_errors", 14), ("port_rcv_switch_relay_errors", 1)]);
        assert_eq!(quiet.status, Status::Ok);
        let found =
            with(&[("link_downed", 255), ("excessive_buffer_overrun_errors", 15), ("port_rcv_errors", 14)]);
        assert_eq!(found.status, Status::Warn);
        assert_eq!(found.evidence, ["excessive_buffer_overrun_errors = 15", "link_downed = 255"]);
        assert!(found.summary.ends_with("excessive_buffer_overrun_errors, link_downed"));
        // 16 bits: 255 is nothing special for this one.
        assert_eq!(with(&[("port_rcv_errors", 255)]).status, Status::Ok);
        assert_eq!(with(&[("port_xmit_discards", 65_535)]).status, Status::Warn);
    }

    #[test]
    fn waiting_at_its_end_is_context() {
        let found = with(&[("port_xmit_wait", u64::from(u32::MAX))]);
        assert_eq!(found.status, Status::Ok);
        assert!(found.summary.contains("port_xmit_wait stands at its maximum"));
        let both = with(&[("port_xmit_wait", u64::from(u32::MAX)), ("symbol_error", 65_535)]);
        assert_eq!((both.status, both.evidence.len()), (Status::Warn, 2));
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_unknown_and_one_that_is_not_there_is_nothing() {
        let mut machine = infiniband(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].counters.clear();
        assert!(judge(&Look::first(&machine, &Policy::default())).is_empty());
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].counters.insert("counters/".into(), Reading::failed("EACCES"));
        assert_eq!(judge(&Look::first(&machine, &Policy::default()))[0].status, Status::Unknown);
    }
}
