//! Datagrams of a lease: what becomes of each, small and large, and of don't-fragment echoes.

use crate::fabric::Fabric;
use crate::figures::Figures;
use rdmascope_model::{
    Delays, EchoSpec, EchoStats, LabelResult, Outcome, PingCounts, PingSpec, PingStats, ProbePlan, StampClock,
};

const SMALL_BYTES: u32 = 64;
const LARGE_BYTES: u32 = 4_096;
/// Time inside a host that has nothing else to do, nanoseconds.
const HOST_NS: u64 = 1_500;

/// What became of the pings of one size and label.
#[derive(Clone, Copy, Default)]
struct Fate {
    sent: u32,
    answered: u32,
    lost: [u32; 2],
}

impl Fabric {
    /// A batch of pings from the plan's end to its peer; `None` when one of them is gone.
    pub(crate) fn pings(&mut self, plan: &ProbePlan, spec: &PingSpec) -> Option<Figures> {
        let half = self.half_round_trip_ns(&plan.local, &plan.peer)? + self.queue_ns(plan);
        let mut sizes = [Fate::default(); 2];
        let mut labels = Vec::new();
        let mut samples: [Vec<u64>; 2] = Default::default();
        for label in 1..=spec.labels {
            let fault = self.paths.label(&plan.local, &plan.peer, if spec.labels > 1 { label } else { 0 });
            let mut of_label = Fate::default();
            for (large, fate) in sizes.iter_mut().enumerate() {
                for _ in 0..spec.count {
                    fate.sent += 1;
                    of_label.sent += 1;
                    match self.lost_at(plan, large == 1, fault.loss) {
                        Some(way) => fate.lost[way] += 1,
                        None => {
                            fate.answered += 1;
                            of_label.answered += 1;
                            let noise = self.random.below(half / 20 + 1);
                            samples[large].push(2 * (half + fault.delay_ns) + noise);
                        }
                    }
                }
            }
            let p50_ns = (of_label.answered > 0).then_some(2 * (half + fault.delay_ns));
            labels.push(LabelResult {
                flow_label: label,
                sent: of_label.sent,
                answered: of_label.answered,
                p50_ns,
            });
        }
        let counts = |payload_bytes, fate: Fate| PingCounts {
            payload_bytes,
            sent: fate.sent,
            answered: fate.answered,
            lost_forward: Some(fate.lost[0]),
            lost_backward: Some(fate.lost[1]),
            ..PingCounts::default()
        };
        let [small, large] = samples;
        let host =
            || Some(Delays { count: 1, min_ns: HOST_NS, p50_ns: HOST_NS, p99_ns: None, max_ns: HOST_NS });
        let answered = sizes[0].answered + sizes[1].answered > 0;
        let stats = PingStats {
            batch: 1,
            clock: StampClock::Software,
            small: counts(SMALL_BYTES, sizes[0]),
            large: counts(LARGE_BYTES, sizes[1]),
            network: delays(small),
            network_large: delays(large),
            responder: host().filter(|_| answered),
            prober: host().filter(|_| answered),
            host_delayed: 0,
            invalid_stamps: 0,
            stale: 0,
            labels: if spec.labels > 1 { labels } else { Vec::new() },
        };
        let takes = spec.interval * (2 * spec.count * spec.labels);
        let takes_ns = u64::try_from(takes.as_nanos()).unwrap_or(u64::MAX);
        Some(Figures { takes_ns, source: Outcome::Pings(Box::new(stats)), target: Some(Outcome::Served) })
    }

    /// On which way a datagram is lost: there (0) or back (1).
    fn lost_at(&mut self, plan: &ProbePlan, large: bool, of_label: u32) -> Option<usize> {
        let ways = [(&plan.local, &plan.peer), (&plan.peer, &plan.local)];
        let ports = self.loss(&plan.local, &plan.peer).unwrap_or(0);
        ways.into_iter().position(|(from, to)| {
            let loss = self.paths.loss(from, to) + ports / 2 + of_label;
            (large && !self.paths.large_arrive(from, to)) || self.random.chance(loss)
        })
    }

    /// Don't-fragment datagrams over the network device; they are large.
    pub(crate) fn echo(&mut self, plan: &ProbePlan, spec: &EchoSpec) -> Option<Figures> {
        let half = self.half_round_trip_ns(&plan.local, &plan.peer)?;
        let (mut heard, mut answered) = (0, 0);
        for _ in 0..spec.count {
            let lost = self.lost_at(plan, true, 0);
            heard += u32::from(lost != Some(0));
            answered += u32::from(lost.is_none());
        }
        let samples = (0..answered).map(|_| 20 * half + self.random.below(half)).collect();
        let stats = EchoStats {
            payload_bytes: spec.payload_bytes,
            sent: spec.count,
            heard: Some(heard),
            answered,
            round_trip: delays(samples),
        };
        let takes = spec.interval * spec.count;
        let takes_ns = u64::try_from(takes.as_nanos()).unwrap_or(u64::MAX);
        Some(Figures { takes_ns, source: Outcome::Echo(stats), target: Some(Outcome::Served) })
    }
}

fn delays(mut samples: Vec<u64>) -> Option<Delays> {
    samples.sort_unstable();
    let (min_ns, max_ns) = (*samples.first()?, *samples.last()?);
    let at = |quantile: usize| samples.get(samples.len() * quantile / 100).copied();
    let p99_ns = at(99).filter(|_| samples.len() >= 300);
    Some(Delays {
        count: u32::try_from(samples.len()).unwrap_or(u32::MAX),
        min_ns,
        p50_ns: at(50)?,
        p99_ns,
        max_ns,
    })
}
