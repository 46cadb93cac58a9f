//! Do packets of each size get through: both ends' MTU compared first, then what datagrams and echoes found.

use super::{Report, Verdict};
use crate::pair::{EXPECTED_MTU, Part, Progress};
use rdmascope_model::{Cause, Fabric, Outcome, ProbeSpec, Status};

/// MTU of network devices in clusters.
const NETDEV_MTU: u32 = 9_000;
/// What fills it.
const ECHO_PAYLOAD_MIN: u32 = 8_952;

fn told(mtu: Option<u32>) -> String {
    mtu.map_or("not known".to_owned(), |bytes| bytes.to_string())
}

/// Both ends' MTU, as an evidence line each.
fn both_mtu(report: &Report) -> [String; 2] {
    [0, 1].map(|at| {
        let info = &report.ends[at].info;
        format!(
            "{}: RDMA MTU {}, network device's {}",
            info.name,
            told(info.active_mtu),
            told(info.netdev_mtu)
        )
    })
}

/// Both ends' active MTU, compared without a packet.
pub(super) fn mtu(report: &Report) -> Vec<Verdict> {
    let [a, b] = [0, 1].map(|at| &report.ends[at].info);
    let rdma = !matches!(a.fabric, Fabric::Tcp | Fabric::Iwarp);
    let [first, second] = if rdma { [a.active_mtu, b.active_mtu] } else { [a.netdev_mtu, b.netdev_mtu] };
    let what = if rdma { "RDMA MTU" } else { "MTU of the network devices" };
    let verdict = |status, text: String| {
        let [one, other] = both_mtu(report);
        Verdict::new("mtu-mismatch", status, report.both(), text).seen(one).seen(other)
    };
    vec![match (first, second) {
        (Some(one), Some(other)) if one == other => {
            verdict(Status::Ok, format!("both ends have the same {what}: {one} bytes"))
        }
        (Some(one), Some(other)) => {
            verdict(Status::Fail, format!("the {what} differs: {one} and {other} bytes"))
                .cause(Cause::MtuMismatch)
        }
        _ => verdict(Status::Unknown, format!("not known: an end has not told its {what}")),
    }]
}

/// An MTU that is the same on both ends may still be too small.
pub(super) fn own_mtu(report: &Report) -> Vec<Verdict> {
    let end = |at: usize| {
        let info = &report.ends[at].info;
        let verdict = |status, text: String| Verdict::new("own-mtu", status, report.host(at), text);
        match (info.fabric, info.active_mtu) {
            (Fabric::Tcp | Fabric::Iwarp, _) => {
                verdict(Status::Ok, "no RDMA MTU: the bytes travel over TCP".to_owned())
            }
            (_, None) => {
                verdict(Status::Unknown, "not known: the agent has not told the RDMA MTU".to_owned())
            }
            (_, Some(mtu)) if mtu >= EXPECTED_MTU => verdict(Status::Ok, format!("RDMA MTU {mtu} bytes")),
            (_, Some(mtu)) => verdict(
                Status::Warn,
                format!("RDMA MTU {mtu} bytes; {EXPECTED_MTU} are expected"),
            )
            .seen(format!("MTU of the network device: {}", told(info.netdev_mtu)))
            .next(
                "Set the MTU of the network device to 9000 (about 4200 is enough): the RDMA MTU follows it.",
            ),
        }
    };
    vec![end(0), end(1)]
}

/// Small datagrams arrive and those of the full path MTU do not.
pub(super) fn path_mtu(report: &Report) -> Vec<Verdict> {
    let stats = report.of(Part::Ping).find_map(|m| match m.found() {
        Some(Outcome::Pings(stats)) => Some(stats),
        _ => None,
    });
    let Some(stats) = stats.filter(|stats| stats.small.answered > 0 && stats.large.sent > 0) else {
        return report.unknown("path-mtu", report.direction(0), Part::Ping);
    };
    let (small, large) = (stats.small, stats.large);
    let counts = format!(
        "{} of {} pings of {} bytes answered, {} of {} of {} bytes",
        small.answered, small.sent, small.payload_bytes, large.answered, large.sent, large.payload_bytes
    );
    let verdict =
        |status, text: &str| Verdict::new("path-mtu", status, report.direction(0), text).seen(&counts);
    if large.answered > 0 {
        return vec![verdict(Status::Ok, "packets of the full RDMA MTU arrive")];
    }
    let where_lost = match (large.lost_forward, large.lost_backward) {
        (Some(forward), Some(0)) if forward > 0 => "on their way there",
        (Some(0), Some(backward)) if backward > 0 => "on their way back",
        _ => "in which direction is not known",
    };
    let [one, other] = both_mtu(report);
    let differ = report.ends[0].info.active_mtu != report.ends[1].info.active_mtu;
    let cause = if differ { Cause::MtuMismatch } else { Cause::PathMtu };
    let text = format!("small packets arrive, packets of the full RDMA MTU are lost ({where_lost})");
    vec![verdict(Status::Fail, &text).seen(one).seen(other).cause(cause)]
}

/// Don't-fragment datagrams over the network device.
pub(super) fn echo(report: &Report) -> Vec<Verdict> {
    let Some(measurement) = report.of(Part::Echo).next() else {
        return report.unknown("echo-mtu", report.both(), Part::Echo);
    };
    let asked = match measurement.spec {
        ProbeSpec::Echo(spec) => spec.payload_bytes,
        _ => 0,
    };
    let subject = measurement.direction();
    let verdict = |status, text: String| Verdict::new("echo-mtu", status, subject.clone(), text);
    let [one, other] = both_mtu(report);
    let judged = match (measurement.found(), &measurement.progress) {
        (Some(Outcome::Echo(stats)), _) if stats.answered == 0 && stats.sent > 0 => {
            let heard = match stats.heard {
                Some(0) => "none reached the peer",
                Some(_) => "they reached the peer and were lost on the way back",
                None => "whether they reached the peer is not known",
            };
            verdict(Status::Fail, format!("echoes of {asked} bytes are lost: {heard}"))
                .seen(one)
                .seen(other)
                .next("Compare the MTU of both network devices and of every switch port between them (9216 is usual there).")
                .cause(Cause::PathMtu)
        }
        (Some(Outcome::Echo(stats)), _) if asked < ECHO_PAYLOAD_MIN => {
            verdict(
                Status::Warn,
                format!("echoes of {asked} bytes arrive: all that the own MTU allows; 8972 are expected, of an MTU of {NETDEV_MTU}"),
            )
            .seen(format!("{} of {} answered", stats.answered, stats.sent))
            .next("Set the MTU of the network device to 9000 on both ends, where the switches allow it.")
        }
        (Some(Outcome::Echo(stats)), _) => {
            verdict(Status::Ok, format!("echoes of {asked} bytes arrive unfragmented"))
                .seen(format!("{} of {} answered", stats.answered, stats.sent))
        }
        (_, Progress::Failed(failure)) if failure.cause == Cause::MessageTooLong => {
            verdict(Status::Fail, format!("{asked} bytes do not leave the own network device"))
                .seen(failure.evidence.clone())
                .cause(Cause::MessageTooLong)
        }
        _ => return report.unknown("echo-mtu", report.both(), Part::Echo),
    };
    vec![judged]
}

#[cfg(test)]
mod tests {
    use super::super::samples::{change, healthy, pings, the, told_failure};
    use super::*;

    #[test]
    fn different_mtu_are_told_before_any_packet() {
        let mut report = healthy();
        report.ends[0].info.active_mtu = Some(1_024);
        let verdict = the(&report, "mtu-mismatch");
        assert_eq!((verdict.status, verdict.cause), (Status::Fail, Some(Cause::MtuMismatch)));
        assert!(verdict.text.contains("1024 and 4096"), "{verdict:?}");
        report.ends[0].info.active_mtu = None;
        assert_eq!(the(&report, "mtu-mismatch").status, Status::Unknown);
    }

    #[test]
    fn a_hole_for_large_packets_is_blamed_on_the_path_only_when_both_ends_agree() {
        let mut report = healthy();
        change(
            &mut report,
            Part::Ping,
            pings(|stats| {
                (stats.large.answered, stats.large.lost_forward) = (0, Some(stats.large.sent));
            }),
        );
        let verdict = the(&report, "path-mtu");
        assert_eq!((verdict.status, verdict.cause), (Status::Fail, Some(Cause::PathMtu)));
        assert!(verdict.text.contains("on their way there"), "{verdict:?}");
        assert!(
            verdict.evidence[0].contains("200 of 200 pings of 64 bytes answered, 0 of 200 of 4096"),
            "{verdict:?}"
        );
        report.ends[0].info.active_mtu = Some(1_024);
        assert_eq!(the(&report, "path-mtu").cause, Some(Cause::MtuMismatch));
    }

    #[test]
    fn without_an_answer_to_small_pings_nothing_is_said_of_large_ones() {
        let mut report = healthy();
        change(&mut report, Part::Ping, pings(|stats| (stats.small.answered, stats.large.answered) = (0, 0)));
        assert_eq!(the(&report, "path-mtu").status, Status::Unknown);
    }

    #[test]
    fn a_lost_echo_and_one_that_had_to_be_smaller_are_told_apart() {
        let mut report = healthy();
        change(&mut report, Part::Echo, |m| {
            if let Some(Outcome::Echo(stats)) = m.told[0].as_mut().map(|told| &mut told.outcome) {
                (stats.answered, stats.heard) = (0, Some(0));
            }
        });
        let verdict = the(&report, "echo-mtu");
        assert_eq!((verdict.status, verdict.cause), (Status::Fail, Some(Cause::PathMtu)));
        let mut report = healthy();
        change(&mut report, Part::Echo, |m| {
            if let ProbeSpec::Echo(spec) = &mut m.spec {
                spec.payload_bytes = 1_472;
            }
        });
        let verdict = the(&report, "echo-mtu");
        assert_eq!(verdict.status, Status::Warn);
        assert!(
            verdict.text.contains("1472 bytes") && verdict.text.contains("8972 are expected"),
            "{verdict:?}"
        );
        change(&mut report, Part::Echo, told_failure(Cause::MessageTooLong));
        assert_eq!(the(&report, "echo-mtu").cause, Some(Cause::MessageTooLong));
    }
}
