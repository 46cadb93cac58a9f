//! Do processors sleep so deeply that the first packet after a pause is late?

use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::limits;
use crate::verdict::{Verdict, shown};
use rdmascope_model::{Finding, Reading};

const ID: &str = "idle-states";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Are deep idle states off, and is the frequency governor `performance`?",
    meaning: "A processor in a deep idle state needs longer to wake up than an RDMA round trip takes: latency after each pause grows.",
    causes: &[
        "the distribution's default, which saves power",
        "a profile that was not applied after an update",
    ],
    next_steps: &[
        "`tuned-adm profile network-latency`, or `cpupower idle-set -D 10` and `cpupower frequency-set -g performance`; lasting: BIOS profile.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::IDLE_EXIT_WARN_US],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let system = &look.now.system;
    let subject = "machine".to_owned();
    let evidence =
        vec![shown("deepest idle exit µs", &system.idle_exit_us), shown("governor", &system.governor)];
    let limit = look.policy.limit(&limits::IDLE_EXIT_WARN_US);
    let next = "`cpupower idle-info`, `cpupower frequency-info`; `tuned-adm profile network-latency`, or `cpupower idle-set -D 10; cpupower frequency-set -g performance`.";
    let power = "a setting of this host: it saves power";
    let verdict = match &system.idle_exit_us {
        Reading::Failed(why) => return vec![unknown(ID, subject, "the idle states", why)],
        Reading::Value(exit) if f64::from(*exit) > limit => Some(Verdict::warn(
            format!("processors may sleep so deeply that waking up takes {exit} µs"),
            power,
            next,
        )),
        Reading::Value(_) | Reading::Absent => None,
    };
    // A virtual machine's governor is not that of the processor.
    let bare_metal = system.virtual_machine == Reading::Value(false);
    let verdict = match (&system.governor, verdict) {
        (_, Some(verdict)) => Some(verdict),
        (Reading::Value(governor), None) if bare_metal && governor != "performance" => {
            Some(Verdict::warn(format!("the frequency governor is {governor}, not performance"), power, next))
        }
        (failed @ Reading::Failed(_), None) if bare_metal => {
            return vec![unknown(ID, subject, "the frequency governor", why(failed))];
        }
        _ => None,
    };
    vec![match verdict {
        Some(verdict) => verdict.finding(ID, subject, evidence),
        None => Finding { evidence, ..ok(ID, subject, "processors wake up fast enough".to_owned()) },
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::first;
    use rdmascope_model::Status;

    #[test]
    fn deep_sleep_and_the_governor() {
        assert_eq!(first(&CHECK, |m| m.system.idle_exit_us = Reading::Value(170))[0].status, Status::Warn);
        assert_eq!(first(&CHECK, |m| m.system.idle_exit_us = Reading::Value(100))[0].status, Status::Ok);
        assert_eq!(
            first(&CHECK, |m| m.system.idle_exit_us = Reading::failed("EIO"))[0].status,
            Status::Unknown
        );
        let saving = |virtual_machine| {
            first(&CHECK, |m| {
                m.system.governor = Reading::Value("powersave".into());
                m.system.virtual_machine = Reading::Value(virtual_machine);
            })[0]
                .status
        };
        assert_eq!((saving(false), saving(true)), (Status::Warn, Status::Ok));
    }
}
