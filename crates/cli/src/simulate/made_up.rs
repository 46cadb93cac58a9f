//! Figures of a fabric that is not there: plausible, and different from pair to pair, so that nothing is cheap by being always the same.

use rdmascope_link::ProbeResult;
use rdmascope_model::{
    BandwidthStats, CounterDelta, DatagramAddress, EndpointInfo, EndpointName, Fabric, Gid, LabelResult,
    LatencyStats, Metric, Outcome, PackedPings, PingCounts, PingFigures, Role, Spread, StampClock, Wall,
};
use std::net::{IpAddr, Ipv6Addr};

/// Different batches that are told in turns.
const VARIANTS: u64 = 64;
/// Signalling rate of each port, bits per second.
pub(super) const RATE_BPS: u64 = 400_000_000_000;
const MTU: u32 = 4_096;

/// The name of an endpoint: nodes count through, devices are rails.
pub(super) fn name(node: usize, rail: usize) -> EndpointName {
    EndpointName { node: node_name(node), device: format!("mlx5_{rail}"), port: 1 }
}

/// The name of a node.
pub(super) fn node_name(node: usize) -> String {
    format!("node-{node:04}")
}

/// An endpoint in good health.
pub(super) fn endpoint(name: EndpointName) -> EndpointInfo {
    EndpointInfo {
        active_mtu: Some(MTU),
        rate_bps: Some(RATE_BPS),
        ..EndpointInfo::bare(name, Fabric::Simulated)
    }
}

/// Where its datagrams would go.
pub(super) fn address(node: usize, rail: usize) -> DatagramAddress {
    let low = [node >> 8, node & 0xFF, rail >> 8, rail & 0xFF].map(|byte| byte as u8);
    let [a, b, c, d] = low;
    let own = Ipv6Addr::from([0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]);
    let queue_pair = 0x100 + u32::try_from(rail).unwrap_or_default();
    DatagramAddress {
        gid: Gid::from(IpAddr::V6(own)),
        lid: 0,
        queue_pair,
        queue_key: 0x1111_1111,
        mtu_bytes: MTU,
    }
}

/// Spreads the bits of two numbers.
fn mixed(a: u64, b: u64) -> u64 {
    let sum = a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    sum ^ sum >> 31
}

/// Batches of so many pings, a third of them large, all of them answered; then one of which none was.
pub(super) fn batches(pings: u32) -> Vec<PackedPings> {
    let counts = |payload_bytes, sent: u32, answered: u32| PingCounts {
        payload_bytes,
        sent,
        answered,
        lost_forward: (answered == sent).then_some(0),
        lost_backward: (answered == sent).then_some(0),
        ..PingCounts::default()
    };
    let (small, large) = (pings - pings / 3, pings / 3);
    let answered = (0..VARIANTS).map(|variant| {
        let p50_ns = 2_600 + mixed(variant, 1) % 900;
        let spread = |p50_ns: u64| Some(Spread { p50_ns, max_ns: p50_ns * 2 + mixed(variant, 2) % 5_000 });
        PingFigures {
            clock: StampClock::Hardware,
            small: counts(64, small, small),
            large: counts(MTU, large, large),
            network: spread(p50_ns),
            large_p50_ns: Some(p50_ns + 700),
            responder: spread(1_800 + mixed(variant, 3) % 400),
            prober: spread(2_100 + mixed(variant, 4) % 400),
            host_delayed: 0,
            invalid_stamps: 0,
            stale: 0,
            worst_label: Some(LabelResult {
                flow_label: (mixed(variant, 5) & 0xF_FFFF) as u32,
                sent: 1,
                answered: 1,
                p50_ns: Some(p50_ns + 300),
            }),
        }
    });
    let silent = PingFigures {
        clock: StampClock::Hardware,
        small: counts(64, small, 0),
        large: counts(MTU, large, 0),
        network: None,
        large_p50_ns: None,
        responder: None,
        prober: None,
        host_delayed: 0,
        invalid_stamps: 0,
        stale: 0,
        worst_label: None,
    };
    answered.chain([silent]).map(|figures| PackedPings::pack(&figures)).collect()
}

/// Which of [`batches`] a pair has in a round; `None` for the one that nobody answered.
pub(super) fn variant(source: u32, target: u32, round: u32) -> usize {
    (mixed(u64::from(source) << 32 | u64::from(target), round.into()) % VARIANTS) as usize
}

/// What an agent remembers of a pair.
pub(super) fn result(local: EndpointName, peer: EndpointName, metric: Metric, at: Wall) -> ProbeResult {
    let odd = mixed(u64::from(local.port) << 32 | at.0, peer.node.len() as u64);
    let none = CounterDelta { retransmits: Some(0) };
    let p50_ns = 1_900 + odd % 700;
    let outcome = match metric {
        Metric::Bandwidth => {
            let average_bps = RATE_BPS / 1_000 * (960 + odd % 20);
            let stats = BandwidthStats {
                bytes: average_bps / 8 / 4,
                duration_ns: 250_000_000,
                average_bps,
                worst_window_bps: Some(average_bps / 100 * 97),
                variation_permille: None,
                completions: 500,
            };
            Outcome::Bandwidth(stats, none)
        }
        Metric::Latency | Metric::Ping => Outcome::Latency(
            LatencyStats {
                count: 1_000,
                min_ns: p50_ns - 200,
                p50_ns,
                p90_ns: p50_ns + 150,
                p99_ns: Some(p50_ns + 900),
                p999_ns: None,
                max_ns: p50_ns + 9_000,
                host_delayed: 0,
            },
            none,
        ),
    };
    ProbeResult {
        lease: None,
        local,
        peer,
        role: Role::Source,
        metric: Some(metric),
        measured_at: at,
        outcome,
        effects: None,
        evidence: String::new(),
    }
}

/// The batch that nobody answers is the last one.
pub(super) const SILENT: usize = VARIANTS as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_sound_and_the_last_one_has_no_answer() {
        for pings in [9, 18, 60] {
            let batches = batches(pings);
            assert!(batches.iter().all(|batch| batch.flaw().is_none() && batch.in_short().sent == pings));
            let answered: Vec<_> = batches.iter().map(|batch| batch.in_short().answered).collect();
            assert_eq!((answered[SILENT], answered.len()), (0, SILENT + 1));
            assert!(answered[..SILENT].iter().all(|answered| *answered == pings));
            assert!((0..100).all(|target| variant(3, target, 1) < SILENT));
        }
    }
}
