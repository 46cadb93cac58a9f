//! What a measurement moves at a simulated port: packets by priority, retransmissions, processor time.

use crate::fabric::Fabric;
use rdmascope_model::{Carrier, Effects, EndpointName, Outcome, PerPriority, ProbePlan, ProbeSpec};

const PACKET_BYTES: u64 = 4_096;
/// Processor time for a gigabyte, nanoseconds: RDMA posts and polls, TCP copies (figures of a real server's order).
const PROCESSOR_NS_PER_GB: (u64, u64) = (10_000_000, 300_000_000);

impl Fabric {
    /// What both ends' agents find moved by a measurement.
    pub(crate) fn effects(&self, plan: &ProbePlan, source: &Outcome, target: &Outcome) -> [Effects; 2] {
        let sent = [packets(source, &plan.spec), packets(target, &plan.spec)];
        // The bytes of a latency probe go to and fro; those of a stream are acknowledged with a few packets.
        let class = |port: &EndpointName| {
            let class = usize::from(plan.manner.marks.traffic_class >> 5);
            if self.paths.honours_class(port) { class } else { 0 }
        };
        let [from, to] = [class(&plan.local), class(&plan.peer)];
        let own = priority(from, sent[0] + 1);
        let answers = priority(to, sent[1] + sent[0] / 16 + 1);
        let base = |outcome: &Outcome| Effects {
            retransmits: retransmits(outcome),
            congestion_notifications_sent: Some(0),
            congestion_notifications_handled: Some(0),
            congestion_marked: Some(0),
            discards: Some(0),
            pause_received: Some(PerPriority::default()),
            pause_received_ns: Some(PerPriority::default()),
            pause_sent: Some(PerPriority::default()),
            packets_sent: None,
            packets_received: None,
            processor_ns: Some(processor_ns(plan, sent[0] + sent[1])),
        };
        [
            Effects { packets_sent: Some(own), packets_received: Some(answers), ..base(source) },
            Effects { packets_sent: Some(answers), packets_received: Some(own), ..base(target) },
        ]
    }
}

fn priority(at: usize, packets: u64) -> PerPriority {
    let mut counts = PerPriority::default();
    counts.0.iter_mut().skip(at).take(1).for_each(|count| *count = packets);
    counts
}

fn packets(outcome: &Outcome, spec: &ProbeSpec) -> u64 {
    match (outcome, spec) {
        (Outcome::Bandwidth(stats, _), _) => stats.bytes / PACKET_BYTES,
        (Outcome::Latency(stats, _), _) => u64::from(stats.count),
        (Outcome::Pings(stats), _) => u64::from(stats.small.sent + stats.large.sent),
        _ => 0,
    }
}

fn retransmits(outcome: &Outcome) -> Option<u64> {
    match outcome {
        Outcome::Latency(_, delta) | Outcome::Bandwidth(_, delta) => delta.retransmits,
        _ => Some(0),
    }
}

fn processor_ns(plan: &ProbePlan, packets: u64) -> u64 {
    let (rdma, tcp) = PROCESSOR_NS_PER_GB;
    let of_gigabyte = if plan.manner.carrier == Carrier::Tcp { tcp } else { rdma };
    packets * PACKET_BYTES / 1_000 * of_gigabyte / 1_000_000
}
