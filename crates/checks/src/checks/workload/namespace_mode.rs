//! Does a container see the RDMA devices and counters that belong to it?

use super::in_container;
use crate::check::{Check, Look, Settles};
use crate::finding::{netdev_under, ok, unknown, why};
use crate::verdict::{Verdict, shown};
use crate::wires::{roce_ports, traffic_ports};
use rdmascope_model::{Finding, Port, Reading};

const ID: &str = "namespace-mode";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does this container see the RDMA devices and counters that belong to it?",
    meaning: "RDMA devices are shared by all network namespaces by default: a container sees devices that it cannot use, and none of their counters.",
    causes: &[
        "the RDMA subsystem is in shared mode",
        "the virtual function's network device is in another namespace than the RDMA device",
    ],
    next_steps: &[
        "On the host: `rdma system show`; exclusive mode: `rdma system set netns exclusive` (before any container starts) and the CNI plugin rdma-cni.",
        "For health run the agent in the host's network namespace.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let subject = "machine".to_owned();
    let system = &look.now.system;
    if let (false, failed @ Reading::Failed(_)) = (look.policy.in_container, &system.container) {
        return vec![unknown(ID, subject, "whether this is a container", why(failed))];
    }
    if !in_container(look) {
        return vec![ok(ID, subject, "not in a container".to_owned())];
    }
    let mode = system.rdma_shared.as_ref().map(|shared| if *shared { "shared" } else { "exclusive" });
    let evidence = vec![shown("rdma system netns", &mode)];
    let shared = system.rdma_shared.value() != Some(&false);
    let roce = roce_ports(look).count();
    let bound = roce_ports(look).filter(|(_, port)| netdev_under(look.now, port).is_ok()).count();
    if look.policy.in_container && shared && roce > 0 && bound == 0 {
        if let Some(why) = unread(look) {
            let what = "whether an RDMA device belongs to a network device of this namespace";
            return vec![Finding { evidence, ..unknown(ID, subject, what, why) }];
        }
        let verdict = Verdict::fail(
            "no RDMA device belongs to a network device of this namespace: connections by rdma_cm find no device".to_owned(),
            "a setting of the host: RDMA devices are shared by all namespaces, and this pod's network device has none of them",
            "On the host: `rdma system set netns exclusive` and rdma-cni; or give the pod the virtual function whose network device it has.",
        );
        return vec![verdict.finding(ID, subject, evidence)];
    }
    // A port without any counter file: the kernel hides them outside the first network namespace.
    let mut ports = traffic_ports(look).peekable();
    if shared && ports.peek().is_some() && ports.all(|(_, port)| port.counters.is_empty()) {
        let why = "the kernel shows port counters in the first network namespace only; health is not known, not zero";
        let found = unknown(ID, subject, "the counters of all ports", why);
        let cause = "a setting: this runs in a container's network namespace".to_owned();
        let next_step = "Run the agent in the host's network namespace (`hostNetwork: true`, or the host's unit) with the host's /sys.".to_owned();
        return vec![Finding { cause, next_step, evidence, ..found }];
    }
    vec![Finding {
        evidence,
        ..ok(ID, subject, "devices and counters of this container are visible".to_owned())
    }]
}

/// Why it is not known which network devices there are, or which one carries a port.
fn unread<'a>(look: &Look<'a>) -> Option<&'a str> {
    let failed = |(_, port): (_, &'a Port)| match (&port.netdev, &look.now.netdevs) {
        (Reading::Failed(why), _) | (_, Reading::Failed(why)) => Some(why.as_str()),
        _ => None,
    };
    roce_ports(look).find_map(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::testing::{device, first, with};
    use rdmascope_model::{Snapshot, Status};
    use std::collections::BTreeMap;

    fn contained(m: &mut Snapshot) {
        m.system.container = Reading::Value(true);
    }

    #[test]
    fn c104_no_rdma_device_for_the_pods_network_device() {
        let inside = Policy { in_container: true, ..Policy::default() };
        let found = with(&CHECK, &inside, |m| m.netdevs = Reading::Value(BTreeMap::new())).remove(0);
        assert_eq!(found.status, Status::Fail);
        assert!(found.next_step.contains("exclusive"), "{}", found.next_step);
        let found = with(&CHECK, &inside, |m| m.netdevs = Reading::failed("EACCES")).remove(0);
        assert!(found.status == Status::Unknown && found.summary.contains("EACCES"), "{found:?}");
    }

    #[test]
    fn c105_hidden_counters_are_unknown_and_not_zero() {
        let found = first(&CHECK, |m| {
            contained(m);
            device(m).ports[0].counters.clear();
        })
        .remove(0);
        assert_eq!(found.status, Status::Unknown);
        assert!(found.summary.contains("not zero"), "{}", found.summary);
        assert_eq!(first(&CHECK, contained)[0].status, Status::Ok);
        assert_eq!(first(&CHECK, |_| ())[0].status, Status::Ok);
    }
}
