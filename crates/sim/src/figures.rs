//! What a probe that runs undisturbed measures: the fabric's figures with a little noise, and what loss makes of them.

use crate::fabric::Fabric;
use crate::random::Random;
use rdmascope_model::{
    BandwidthSpec, BandwidthStats, CounterDelta, EndpointName, LatencySpec, Mono, Outcome,
};
use rdmascope_probe::latency_stats;

/// An unacknowledged packet is sent again after so long, nanoseconds (about 4 ms was seen on the lab's Soft-RoCE).
const RETRANSMIT_NS: u64 = 4_000_000;
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
    /// A ping-pong between two ports; `None` when one of them is gone.
    pub(crate) fn ping_pong(
        &mut self,
        spec: &LatencySpec,
        source: &EndpointName,
        target: &EndpointName,
    ) -> Option<Figures> {
        let base = self.half_round_trip_ns(source, target)?
            + u64::from(spec.message_bytes) * 8_000_000_000 / self.goodput_bps(source, target)?;
        let loss = self.loss(source, target)?;
        let (mut takes_ns, mut sent_again) = (0, [0_u64; 2]);
        let mut samples = [Vec::new(), Vec::new()];
        for round in 0..spec.warmup + spec.samples {
            let mut late = 0;
            for again in &mut sent_again {
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
        Some(Figures { takes_ns, source: source?, target })
    }

    /// A stream from one port to another; `None` when one of them is gone.
    pub(crate) fn stream(
        &mut self,
        spec: &BandwidthSpec,
        source: &EndpointName,
        target: &EndpointName,
    ) -> Option<Figures> {
        let loss = u64::from(self.loss(source, target)?);
        // Everything behind a lost packet goes again: at 1 % loss about a third is left.
        let rate = self.goodput_bps(source, target)? / (1_000_000 + 200 * loss) * 1_000_000;
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
        };
        let packets = (bytes + warmup * message) / PACKET_BYTES;
        let delta = CounterDelta { retransmits: Some(packets * loss / 1_000_000) };
        let takes_ns = duration_ns + time_of(warmup * message, rate);
        Some(Figures { takes_ns, source: Outcome::Bandwidth(stats, delta), target: None })
    }

    fn loss(&self, a: &EndpointName, b: &EndpointName) -> Option<u32> {
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
