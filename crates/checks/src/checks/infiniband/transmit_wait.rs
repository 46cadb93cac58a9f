//! Does data wait for credits on an InfiniBand port for a large part of the time?

use super::infiniband_ports;
use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, ok, port_subject, unknown, why};
use crate::motion::{Motion, in_words, moved, port_counter};
use crate::{Source, limits};
use rdmascope_model::{Device, Finding, Port, Reading, Status};
use std::time::Duration;

const ID: &str = "transmit-wait";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does data wait for credits on the InfiniBand port for a large part of the time?",
    meaning: "The port has data and may not send it: something behind it is congested, or a receiver takes nothing. Bandwidth is lost without an error.",
    causes: &[
        "several senders to one receiver (incast)",
        "a slow receiver: PCI Express, memory, or a virtual lane without credits",
        "two jobs that share a link of the fabric",
    ],
    next_steps: &[
        "`ibdiagnet --pm_per_lane` or `perfquery -x` along the way: which port waits, and which one behind it does not?",
        "The unit of the counter is the vendor's: `perfquery -c LID PORT` shows the tick of the port.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::TRANSMIT_WAIT_WARN_SHARE, &limits::CONGESTION_WINDOW_SECONDS],
    judge,
};

const COUNTER: &str = "port_xmit_wait";

/// Bits that a tick stands for. The specification leaves the tick to the vendor; NVIDIA's switches of the Quantum line count one for
/// 8 bytes of the port's rate that were not sent, older ones for more, so that the share is not overestimated. At 400 Gb/s the counter
/// reaches its end after 0.7 s of waiting; then it tells nothing (check `counter-saturated`).
const BITS_PER_TICK: f64 = 64.0;

fn judge(look: &Look<'_>) -> Vec<Finding> {
    infiniband_ports(look.now, look.policy)
        .filter(|(_, port)| !is_down(port))
        .filter_map(|(device, port)| one(look, device, port))
        .collect()
}

fn one(look: &Look<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let subject = port_subject(device, port);
    let window = Duration::from_secs(u64::from(look.policy.whole(&limits::CONGESTION_WINDOW_SECONDS)));
    let source = Source::Port(device.name.clone(), port.number);
    let limit = look.policy.limit(&limits::TRANSMIT_WAIT_WARN_SHARE);
    let share =
        |ticks: u64, bps: f64, within: Duration| ticks as f64 * BITS_PER_TICK / bps / within.as_secs_f64();
    let (ticks, within, once) = match moved(look, &source, COUNTER, &port_counter(port, COUNTER), window) {
        Motion::NotThere | Motion::Stuck(_) => return None,
        Motion::Unread(reason) => return Some(unknown(ID, subject, COUNTER, &reason)),
        Motion::By(ticks, within) => (ticks, within, None),
        Motion::AtMost(total, reason) => (total, window, Some(reason)),
    };
    if ticks == 0 {
        return Some(ok(ID, subject, "no data waited for credits".to_owned()));
    }
    let bps = match &port.rate_bps {
        Reading::Value(bps) if *bps > 0 => *bps as f64,
        Reading::Value(_) => return Some(unknown(ID, subject, "the port's rate", "it says 0")),
        missing => return Some(unknown(ID, subject, "the port's rate", why(missing))),
    };
    let seen = share(ticks, bps, within);
    match once {
        _ if seen < limit => {
            let most = if once.is_some() { "at most " } else { "" };
            let summary = format!("data waited for credits {most}{:.2} % of the time", seen * 100.0);
            Some(ok(ID, subject, summary))
        }
        Some(reason) => Some(unknown(ID, subject, &format!("how fast {COUNTER} rises"), &reason)),
        None => Some(congested(subject, seen, ticks, within)),
    }
}

fn congested(subject: String, share: f64, ticks: u64, within: Duration) -> Finding {
    Finding {
        id: ID.into(),
        status: Status::Warn,
        subject,
        summary: format!(
            "data waited for credits about {:.0} % of the time within {}, if a tick is 8 bytes of the port's rate (the unit is the \
             vendor's)",
            share * 100.0,
            in_words(within)
        ),
        cause: "the fabric or a peer: congestion behind this port, or a receiver that is too slow; this host only waits".to_owned(),
        next_step: "Find the end of the tree of congestion: `ibdiagnet`, `perfquery -x` of the switch ports along the way; which jobs share \
                    them?"
            .to_owned(),
        evidence: vec![format!("{COUNTER} rose by {ticks} ticks within {}", in_words(within))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Past, Policy};
    use rdmascope_fixtures::snapshot::{infiniband, roce};
    use rdmascope_model::{Mono, Snapshot};

    fn with(mut machine: Snapshot, ticks: u64) -> Snapshot {
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].counters.insert(COUNTER.to_owned(), Reading::Value(ticks));
        machine
    }

    fn risen(ticks: u64, seconds: u64) -> Finding {
        let mut past = Past::new();
        past.observe(&with(infiniband(1), 7), Mono(1));
        let now = with(infiniband(1), 7 + ticks);
        past.observe(&now, Mono(1 + seconds * 1_000_000_000));
        let policy = Policy::default();
        judge(&Look { past: &past, ..Look::first(&now, &policy) }).remove(0)
    }

    #[test]
    fn a_tenth_of_the_time_warns() {
        // 100 Gb/s are 1,562,500,000 ticks a second.
        assert_eq!(risen(1_562_500_000, 10).status, Status::Warn);
        assert_eq!(risen(1_500_000_000, 10).status, Status::Ok);
        assert_eq!(risen(0, 10).summary, "no data waited for credits");
        assert!(risen(3_125_000_000, 10).summary.contains("about 20 % of the time within 10 s"));
        assert!(risen(3_125_000_000, 10).summary.contains("the unit is the vendor's"));
    }

    #[test]
    fn a_single_look_and_a_counter_at_its_end() {
        let once = |ticks| judge(&Look::first(&with(infiniband(1), ticks), &Policy::default()));
        // 3,846 ticks since the last reset are nothing, whenever they were.
        assert_eq!(once(3_846)[0].status, Status::Ok);
        // C124: at its end it is context, and no judgement.
        assert!(once(u64::from(u32::MAX)).is_empty());
        let mut strict = Policy::default();
        assert!(strict.limits.set("transmit_wait_warn_share", 0.001));
        let found = judge(&Look::first(&with(infiniband(1), 2_489_603_687), &strict));
        assert_eq!(found[0].status, Status::Unknown);
    }

    #[test]
    fn roce_ports_are_judged_by_pause_and_not_by_this() {
        assert!(judge(&Look::first(&with(roce(1), 5), &Policy::default())).is_empty());
    }
}
