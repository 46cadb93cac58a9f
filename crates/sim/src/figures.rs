//! What a probe that runs undisturbed measures: the fabric's figures with a little noise, and what loss makes of them.

use crate::fabric::Fabric;
use crate::random::Random;
use rdmascope_model::{
    BandwidthSpec, BandwidthStats, Carrier, CounterDelta, EndpointName, LatencySpec, Mono, Operation,
    Outcome, ProbePlan, ProbeSpec,
};
use rdmascope_probe::latency_stats;

/// An unacknowledged packet is sent again after so long, nanoseconds (about 4 ms was seen on the lab's Soft-RoCE).
const RETRANSMIT_NS: u64 = 4_000_000;
/// What a stream of the same pair puts ahead of a message, nanoseconds: some dozen packets at 100 Gbit/s.
const QUEUE_NS: u64 = 5_000;
/// How many times longer a message takes over TCP.
const TCP_LATENCY: u64 = 8;
/// Bytes of a packet.
const PACKET_BYTES: u64 = 4_096;

/// An outcome of both sides, and how long it takes.
pub(crate) struct Figures {
    pub(crate) takes_ns: u64,
    pub(crate) source: Outcome,
    /// `None` where the target has nothing to tell.
    pub(crate) target: Option<Outcome>,
}

impl Fabric {
    /// What a plan's source measures; `None` when one of the ports is gone.
    pub(crate) fn measure(&mut self, plan: &ProbePlan, now: Mono) -> Option<Figures> {
        if self.net.is_some() {
            return self.measure_over_net(plan, now.0);
        }
        match &plan.spec {
            ProbeSpec::Latency(spec) => self.ping_pong(spec, plan),
            ProbeSpec::Bandwidth(spec) => self.streams(spec, plan),
            ProbeSpec::Pings(spec) => self.pings(plan, spec),
            ProbeSpec::Echo(spec) => self.echo(plan, spec),
        }
    }

    /// A ping-pong between two ports, or reads of one from the other.
    fn ping_pong(&mut self, spec: &LatencySpec, plan: &ProbePlan) -> Option<Figures> {
        let (source, target) = (&plan.local, &plan.peer);
        let fault = self.paths.label(source, target, plan.manner.marks.flow_label);
        let half = self.half_round_trip_ns(source, target)?
            + self.queue_ns(plan)
            + fault.delay_ns
            + u64::from(spec.message_bytes) * 8_000_000_000 / self.goodput_bps(source, target)?;
        let read = plan.manner.operation == Operation::Read;
        let base = match plan.manner.carrier {
            Carrier::Tcp => TCP_LATENCY * half,
            // A read is over when the answer is there: the whole round trip.
            Carrier::Native if read => 2 * half,
            Carrier::Native => half,
        };
        let ports = self.loss(source, target)? + fault.loss;
        let loss = [ports + self.paths.loss(source, target), ports + self.paths.loss(target, source)];
        let (mut takes_ns, mut sent_again) = (0, [0_u64; 2]);
        let mut samples = [Vec::new(), Vec::new()];
        for round in 0..spec.warmup + spec.samples {
            let mut late = 0;
            for (again, loss) in sent_again.iter_mut().zip(loss) {
                if self.random.chance(loss) {
                    *again += 1;
                    late += RETRANSMIT_NS;
                }
            }
            takes_ns += 2 * base + late;
            if round >= spec.warmup {
                samples.iter_mut().for_each(|s| s.push(noisy(&mut self.random, base) + late / 2));
            }
        }
        let [source, target] = [0, 1].map(|side| {
            let stats = latency_stats(&mut samples[side], 0)?;
            Some(Outcome::Latency(stats, CounterDelta { retransmits: Some(sent_again[side]) }))
        });
        // The adapter answers reads by itself.
        Some(Figures { takes_ns, source: source?, target: if read { Some(Outcome::Served) } else { target } })
    }

    /// What waits ahead of a message of a pair that streams at the same time, nanoseconds.
    pub(crate) fn queue_ns(&self, plan: &ProbePlan) -> u64 {
        if self.streams_between(&plan.local, &plan.peer) { QUEUE_NS } else { 0 }
    }

    /// One stream, or one each way.
    fn streams(&mut self, spec: &BandwidthSpec, plan: &ProbePlan) -> Option<Figures> {
        let (source, target) = (&plan.local, &plan.peer);
        let there = self.stream(spec, plan, source, target)?;
        if !plan.manner.both_ways {
            return Some(Figures { target: Some(Outcome::Served), ..there });
        }
        let back = self.stream(spec, plan, target, source)?;
        Some(Figures { takes_ns: there.takes_ns.max(back.takes_ns), target: Some(back.source), ..there })
    }

    fn stream(
        &mut self,
        spec: &BandwidthSpec,
        plan: &ProbePlan,
        source: &EndpointName,
        target: &EndpointName,
    ) -> Option<Figures> {
        // The bytes of a read travel towards the one who asks.
        let read = plan.manner.operation == Operation::Read;
        let (from, to) = if read { (target, source) } else { (source, target) };
        let of_label = self.paths.label(from, to, plan.manner.marks.flow_label).loss;
        let loss = u64::from(self.loss(source, target)? + self.paths.loss(from, to) + of_label);
        let share = match (plan.manner.carrier, plan.manner.operation) {
            (Carrier::Tcp, _) => 30,
            (Carrier::Native, Operation::Write) => 100,
            (Carrier::Native, Operation::Read | Operation::Send) => 97,
        };
        let sources = self.streams_into(target).max(1);
        let fair = self.ports.get(target)?.rate_bps / 100 * 96 / sources;
        let alone = self.goodput_bps(from, to)? / 100 * share;
        let goodput = if sources > 1 { alone.min(fair) } else { alone };
        // Everything behind a lost packet goes again: at 1 % loss about a third is left.
        let rate = goodput / (1_000_000 + 200 * loss) * 1_000_000;
        let rate = rate - self.random.below(rate / 100);
        let message = u64::from(spec.message_bytes);
        let in_time =
            |ns: u128| u64::try_from(u128::from(rate) * ns / 8_000_000_000).unwrap_or(u64::MAX) / message;
        let all = spec.bytes_max / message;
        let warmup = in_time(spec.warmup.as_nanos()).min(all / 2);
        let wanted = in_time(spec.duration.as_nanos()).max(u64::from(spec.completions_min));
        let completions = wanted.min(in_time(4 * spec.duration.as_nanos())).min(all - warmup).max(1);
        let bytes = completions * message;
        let duration_ns = time_of(bytes, rate);
        let average_bps =
            u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(duration_ns)).unwrap_or(u64::MAX);
        let stats = BandwidthStats {
            bytes,
            duration_ns,
            average_bps,
            worst_window_bps: (completions >= 50).then(|| average_bps - self.random.below(average_bps / 20)),
            completions: u32::try_from(completions).unwrap_or(u32::MAX),
            variation_permille: None,
        };
        let packets = (bytes + warmup * message) / PACKET_BYTES;
        let delta = CounterDelta { retransmits: Some(packets * loss / 1_000_000) };
        let takes_ns = duration_ns + time_of(warmup * message, rate);
        Some(Figures { takes_ns, source: Outcome::Bandwidth(stats, delta), target: None })
    }

    pub(crate) fn loss(&self, a: &EndpointName, b: &EndpointName) -> Option<u32> {
        Some(self.ports.get(a)?.loss + self.ports.get(b)?.loss)
    }
}

fn time_of(bytes: u64, rate_bps: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(rate_bps.max(1))).unwrap_or(u64::MAX).max(1)
}

/// Up to 2 % above the base; one in a hundred up to three times as long.
fn noisy(random: &mut Random, base: u64) -> u64 {
    let tail = if random.chance(10_000) { random.below(2 * base) } else { 0 };
    base + random.below(base / 50) + tail
}

/// When something that takes so long is over.
pub(crate) fn later(now: Mono, takes_ns: u64) -> Mono {
    Mono(now.0.saturating_add(takes_ns))
}
