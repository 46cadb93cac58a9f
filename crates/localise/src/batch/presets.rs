//! What a healthy batch of each kind of port reaches: the numbers of `rdmascope selfcheck --preset`, each with its reason.

use super::{Limit, Limits};

/// Limits under one name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// For which ports it is.
    pub text: &'static str,
    /// Its numbers.
    pub limits: Limits,
    /// Endpoints that speak plain TCP may pass: nothing about RDMA is known then.
    pub tcp: bool,
}

/// What every preset for real ports asks.
///
/// - MTU 4096 and 97 % of the goodput ceiling at that MTU with messages of 1 MiB: a healthy port reaches 98 to 99 % of its ceiling (98 %
///   of the line rate at 4096 bytes); at MTU 1024 the ceiling itself is 92.6 % of the line rate, so that such a port fails here and would
///   pass "92 % of the line rate".
/// - 64 bytes: what `ib_write_lat` users compare with, and inline everywhere.
/// - Nothing is sent again: a batch carries no job, and pairs of a round share no port.
/// - An incast fills the receiver to 90 % of its ceiling; below that it collapses (`localise/pair/incast.rs`).
const PORT: Limits = Limits::NONE
    .with(Limit::Mtu, Some(4_096.0))
    .with(Limit::LatencyBytes, Some(64.0))
    .with(Limit::GoodputBytes, Some(1_048_576.0))
    .with(Limit::Goodput, Some(97.0))
    .with(Limit::Retransmits, Some(0.0))
    .with(Limit::Incast, Some(90.0))
    .with(Limit::IncastRetransmits, Some(0.0));

/// A port of this rate with these latencies.
///
/// Operators accept 4.2 to 5 µs (9 µs on machines with a slower path to the adapter), three times the healthy median of 1.6 µs through one
/// switch; another tier of switches adds 1 to 2 µs, and Ethernet switches are slower than InfiniBand's. The 99th percentile of a healthy
/// idle pair is within twice the median; three times is left for interrupts of the host.
const fn port(rate: f64, latency: f64, p99: f64) -> Limits {
    PORT.with(Limit::Rate, Some(rate)).with(Limit::Latency, Some(latency)).with(Limit::P99, Some(p99))
}

/// All of them.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "25g-roce",
        text: "RoCE v2 at 25 Gbit/s",
        // Serialising 64 bytes costs more, and such clusters have older adapters: single-digit microseconds are what can be asked.
        limits: port(25.0, 9.0, 27.0),
        tcp: false,
    },
    Preset { name: "100g", text: "ports of 100 Gbit/s", limits: port(100.0, 6.0, 18.0), tcp: false },
    Preset { name: "200g", text: "ports of 200 Gbit/s", limits: port(200.0, 5.0, 15.0), tcp: false },
    Preset { name: "400g", text: "RoCE v2 at 400 Gbit/s", limits: port(400.0, 5.0, 15.0), tcp: false },
    // No Ethernet on the way: 4.2 µs is what large fleets ask of NDR.
    Preset { name: "ndr", text: "InfiniBand NDR, 400 Gbit/s", limits: port(400.0, 4.2, 12.6), tcp: false },
    Preset {
        name: "lab",
        text: "software devices (Soft-RoCE, TCP): compared with each other, since no port says what they can do",
        // A virtual machine shares two processors among all ends: medians differ by half, and a pair loses its processor for a while.
        // What is broken differs by far more. The usual 64 KiB, since a slow device takes long for few large messages.
        limits: Limits::NONE
            .with(Limit::LatencyBytes, Some(64.0))
            .with(Limit::LatencyOfBatch, Some(4.0))
            .with(Limit::GoodputBytes, Some(65_536.0))
            .with(Limit::GoodputOfBatch, Some(25.0)),
        tcp: true,
    },
];

impl Preset {
    /// The preset of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::ceiling_bps;
    use rdmascope_model::{EndpointInfo, Fabric};

    #[test]
    fn a_port_at_mtu_1500_fails_although_it_has_92_per_cent_of_its_line_rate() {
        let end = EndpointInfo {
            rate_bps: Some(100_000_000_000),
            gid: Some("::ffff:10.0.0.1".parse().unwrap()),
            ..EndpointInfo::bare("n/d/1".parse().unwrap(), Fabric::Roce)
        };
        let ceiling = |mtu| ceiling_bps([&end, &end], mtu).unwrap() as f64;
        // RDMA MTU 1024 is what a network device of 1500 has room for.
        let reached = ceiling(1_024);
        assert!(reached > 0.92 * 1e11, "{reached}");
        let asked = Preset::from_name("100g").unwrap().limits.get(Limit::Goodput).unwrap();
        assert!(!Limit::Goodput.holds(asked, 100.0 * reached / ceiling(4_096)));
        assert!(Limit::Goodput.holds(asked, 100.0 * 0.98 * ceiling(4_096) / ceiling(4_096)));
    }

    #[test]
    fn every_preset_of_real_ports_asks_for_all_and_single_digit_microseconds() {
        for preset in PRESETS.iter().filter(|preset| !preset.tcp) {
            let of = |limit| preset.limits.get(limit);
            assert!(of(Limit::Latency).is_some_and(|us| us < 10.0), "{}", preset.name);
            assert!(of(Limit::P99) > of(Limit::Latency), "{}", preset.name);
            assert!(of(Limit::Rate).is_some() && of(Limit::Mtu) == Some(4_096.0), "{}", preset.name);
            assert_eq!((of(Limit::Goodput), of(Limit::IncastRetransmits)), (Some(97.0), Some(0.0)));
        }
    }
}
