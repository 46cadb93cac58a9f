//! Does the port signal at the rate that is pinned, or at that of its siblings?

use crate::check::{Check, Look, Settles};
use crate::finding::{is_down, ok, port_subject, ports, unknown, why};
use rdmascope_model::{Device, Finding, Function, LinkLayer, Port, Reading, Status};

const ID: &str = "port-rate";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does the port run at the rate that is expected of it?",
    meaning: "A slow port slows down every job that uses it to its own rate.",
    causes: &[
        "the cable or transceiver cannot do more",
        "the switch port is set to a lower speed",
        "lanes are broken",
    ],
    next_steps: &[
        "Compare both ends: `ethtool NETDEV`, `rdma link`, and the switch port; try another cable.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

/// Fewer ports make no majority.
const MAJORITY_OF: usize = 3;

/// What ports must share so that their rates can be compared.
type Kind<'a> = (&'a str, &'a LinkLayer);

/// A port that is down prints a default rate (40 Gb/s on RoCE, 10 while an InfiniBand port polls), so only an active one is asked.
fn judge(look: &Look<'_>) -> Vec<Finding> {
    let (snapshot, policy) = (look.now, look.policy);
    let active: Vec<(&Device, &Port)> = ports(snapshot, policy).filter(|(_, port)| !is_down(port)).collect();
    let rates: Vec<(Kind<'_>, u64)> = active
        .iter()
        .filter_map(|(device, port)| Some((kind(device, port)?, *port.rate_bps.value()?)))
        .collect();
    active
        .iter()
        .map(|(device, port)| {
            let subject = port_subject(device, port);
            let bps = match &port.rate_bps {
                Reading::Value(bps) => *bps,
                missing => return unknown(ID, subject, "the port's rate", why(missing)),
            };
            let pinned = policy.manifest.of(device, Some(port)).rate_bps;
            let usual = || usual(&rates, kind(device, port)?);
            match (pinned, usual()) {
                (Some(expected), _) if expected != bps => unlike(subject, port, bps, expected, None),
                (None, Some((expected, of))) if expected != bps => {
                    unlike(subject, port, bps, expected, Some(of))
                }
                _ => ok(ID, subject, format!("the port signals at {} Gb/s", gigabits(bps))),
            }
        })
        .collect()
}

/// Card type and link layer; virtual functions have the rate of somebody else.
fn kind<'a>(device: &'a Device, port: &'a Port) -> Option<Kind<'a>> {
    let hardware = !matches!(device.function.value(), Some(Function::Virtual { .. } | Function::Software));
    Some((device.card.value()?.as_str(), port.link_layer.value()?)).filter(|_| hardware)
}

/// The rate that more than half of the ports of a kind have, and how many of how many.
fn usual(rates: &[(Kind<'_>, u64)], kind: Kind<'_>) -> Option<(u64, (usize, usize))> {
    let of_kind: Vec<u64> = rates.iter().filter(|(k, _)| *k == kind).map(|(_, bps)| *bps).collect();
    let count = |bps: u64| of_kind.iter().filter(|other| **other == bps).count();
    let (most, bps) = of_kind.iter().map(|bps| (count(*bps), *bps)).max()?;
    let majority = of_kind.len() >= MAJORITY_OF && most * 2 > of_kind.len();
    majority.then_some((bps, (most, of_kind.len())))
}

/// `majority` is how many of how many ports of the card type have the expected rate; without it, the manifest says so.
fn unlike(
    subject: String,
    port: &Port,
    bps: u64,
    expected: u64,
    majority: Option<(usize, usize)>,
) -> Finding {
    let netdev = port.netdev.value().map_or("NETDEV", String::as_str);
    let basis = match majority {
        Some((most, of)) => format!("{most} of {of} ports of the same card type on this machine have it"),
        None => "the manifest says so".to_owned(),
    };
    let (status, cause) = if majority.is_none() && bps < expected {
        (
            Status::Fail,
            "a cable or transceiver that cannot do more, broken lanes, or a switch port set to less",
        )
    } else if bps < expected {
        (
            Status::Warn,
            "a cable or transceiver that cannot do more, broken lanes, or a switch port set to less",
        )
    } else {
        (Status::Warn, "another cable, card or switch port than was expected; this host is as it was built")
    };
    Finding {
        id: ID.into(),
        status,
        subject,
        summary: format!(
            "the port signals at {} Gb/s, {} expected: {basis}",
            gigabits(bps),
            gigabits(expected)
        ),
        cause: cause.to_owned(),
        next_step: format!(
            "Compare both ends: `ethtool {netdev}` (or `ibstat`, `mlxlink -d DEVICE`) and the switch port; swap the cable; where the \
             rate is right, pin it in the manifest."
        ),
        evidence: vec![
            format!("rate = {} Gb/s", gigabits(bps)),
            format!("expected = {} Gb/s", gigabits(expected)),
        ],
    }
}

/// At most three digits after the point: `100`, `2.5`, `25.781`.
fn gigabits(bps: u64) -> String {
    let text = format!("{}.{:03}", bps / 1_000_000_000, bps / 1_000_000 % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::manifest::{Expectation, Manifest};
    use rdmascope_fixtures::snapshot::roce;
    use rdmascope_model::{PortState, Snapshot};

    const G: u64 = 1_000_000_000;

    fn machine(rates: &[u64]) -> Snapshot {
        let mut machine = roce(rates.len());
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        for (device, rate) in devices.iter_mut().zip(rates) {
            device.ports[0].rate_bps = Reading::Value(*rate);
        }
        machine
    }

    fn seen(rate: Reading<u64>, state: PortState) -> Vec<Finding> {
        let mut machine = roce(1);
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        devices[0].ports[0].rate_bps = rate;
        devices[0].ports[0].state = Reading::Value(state);
        judge(&Look::first(&machine, &Policy::default()))
    }

    fn statuses(machine: &Snapshot, policy: &Policy) -> Vec<Status> {
        judge(&Look::first(machine, policy)).into_iter().map(|f| f.status).collect()
    }

    #[test]
    fn the_rate_is_said() {
        let found = seen(Reading::Value(2_500_000_000), PortState::Active);
        assert_eq!(found[0].summary, "the port signals at 2.5 Gb/s");
        assert_eq!(gigabits(100_000_000_000), "100");
        assert_eq!(gigabits(25_781_250_000), "25.781");
    }

    #[test]
    fn a_rate_that_cannot_be_read_is_unknown_not_fine() {
        assert_eq!(seen(Reading::Failed("EINVAL".into()), PortState::Active)[0].status, Status::Unknown);
        assert_eq!(seen(Reading::Absent, PortState::Active)[0].status, Status::Unknown);
    }

    #[test]
    fn the_default_rate_of_a_port_that_is_down_is_not_quoted() {
        assert!(seen(Reading::Value(40_000_000_000), PortState::Down).is_empty());
        assert!(seen(Reading::Value(10_000_000_000), PortState::Init).is_empty());
    }

    #[test]
    fn the_manifest_pins_a_rate() {
        let row = Expectation { device: "mlx5_*".into(), rate_bps: Some(400 * G), ..Expectation::default() };
        let policy = Policy { manifest: Manifest { rows: vec![row] }, ..Policy::default() };
        let rates = [400 * G, 200 * G, 800 * G];
        assert_eq!(statuses(&machine(&rates), &policy), [Status::Ok, Status::Fail, Status::Warn]);
        let found = judge(&Look::first(&machine(&rates), &policy));
        assert_eq!(found[1].summary, "the port signals at 200 Gb/s, 400 expected: the manifest says so");
    }

    #[test]
    fn the_odd_one_out_of_a_card_type_warns_and_two_make_no_majority() {
        let odd = machine(&[400 * G, 400 * G, 200 * G]);
        assert_eq!(statuses(&odd, &Policy::default()), [Status::Ok, Status::Ok, Status::Warn]);
        let found = judge(&Look::first(&odd, &Policy::default()));
        assert!(found[2].summary.contains("2 of 3 ports"), "{}", found[2].summary);
        let none = machine(&[400 * G, 200 * G]);
        assert_eq!(statuses(&none, &Policy::default()), [Status::Ok; 2]);
        let half = machine(&[400 * G, 400 * G, 200 * G, 200 * G]);
        assert_eq!(statuses(&half, &Policy::default()), [Status::Ok; 4]);
        // Another card type is another matter.
        let mut other = odd.clone();
        let Reading::Value(devices) = &mut other.devices else { panic!("no devices") };
        devices[2].card = Reading::Value("MT41692".into());
        assert_eq!(statuses(&other, &Policy::default()), [Status::Ok; 3]);
    }
}
