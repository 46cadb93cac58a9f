//! What a batch of pings says about its pair, in words: why nothing came back, and what is odd about what did.

use rdmascope_model::{Cause, Failure, PingCounts, PingFigures, Side, Spread, StampClock, Step};

/// Pings of a size that must be lost, all of them, before their size is blamed.
const LARGE_LOST_MIN: u32 = 3;
/// Pings with a label before the label is blamed, of which at least half must be lost.
const LABEL_SENT_MIN: u32 = 4;
/// A host that takes longer than this for an answer is slow, nanoseconds; hardware stamps see the host's part exactly, software
/// stamps include the way through the kernel.
pub(crate) const HOST_SLOW_HARDWARE_NS: u64 = 50_000;
pub(crate) const HOST_SLOW_SOFTWARE_NS: u64 = 1_000_000;

/// The two ends of a pair, as far as a verdict needs to know them.
#[derive(Clone, Copy, Debug)]
pub struct PairEnds<'a> {
    /// Name of the source.
    pub source: &'a str,
    /// Name of the target.
    pub target: &'a str,
    /// The source's RDMA MTU in use, bytes.
    pub source_mtu: Option<u32>,
    /// The target's.
    pub target_mtu: Option<u32>,
}

/// Something that is wrong with a pair although it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Stable kebab-case id; that of the cause where there is one.
    pub id: &'static str,
    /// What is wrong.
    pub text: String,
    /// What was seen.
    pub evidence: String,
    /// What to do next.
    pub next_step: &'static str,
}

/// Why a batch of pings failed; `None` when something was answered, however little.
#[must_use]
pub fn ping_failure(f: &PingFigures) -> Option<Failure> {
    if f.answered() > 0 {
        return None;
    }
    let late = f.small.late + f.large.late;
    let sent = format!("{} small and {} large pings sent, none answered in time", f.small.sent, f.large.sent);
    let (cause, step, side) = silence(f.stale, late);
    let seen = match cause {
        Cause::StaleAddress => format!("{} of them met a queue pair that the peer no longer has", f.stale),
        Cause::PeerSilent => format!("{late} answers came after the time-out"),
        _ => direction(f),
    };
    Some(Failure { cause, step, side, evidence: format!("{sent}; {seen}") })
}

/// What a batch without any answer in time is, of which so many pings met an old queue pair or were answered late.
pub(crate) fn silence(stale: u32, late: u32) -> (Cause, Step, Side) {
    let cause = if stale > 0 {
        Cause::StaleAddress
    } else if late > 0 {
        Cause::PeerSilent
    } else {
        Cause::NoFirstByte
    };
    (cause, Step::FirstByte, Side::Source)
}

fn both(f: &PingFigures, of: impl Fn(&PingCounts) -> Option<u32>) -> Option<u32> {
    let sizes = [f.small, f.large];
    let sent = sizes.iter().filter(|counts| counts.sent > 0);
    sent.map(of).try_fold(0, |sum, lost| Some(sum + lost?))
}

/// Where pings without any answer were lost.
fn direction(f: &PingFigures) -> String {
    match (both(f, |c| c.lost_forward), both(f, |c| c.lost_backward)) {
        (Some(forward), Some(0)) if forward > 0 => {
            "the peer heard none: lost on the way from source to target".to_owned()
        }
        (Some(0), Some(_)) => {
            "the peer heard all of them: the answers were lost on the way from target to source".to_owned()
        }
        (Some(forward), Some(backward)) => format!(
            "{forward} were lost on the way from source to target, the answers of {backward} on the way back"
        ),
        _ => "in which direction they were lost is not known: the peer's agent has not told what it heard"
            .to_owned(),
    }
}

/// What is wrong with a pair whose pings are answered, the most telling first. Nothing for a pair that is fine.
#[must_use]
pub fn ping_verdicts(f: &PingFigures, ends: &PairEnds<'_>) -> Vec<Verdict> {
    let size = size_verdict(f, ends);
    let label = label_verdict(f);
    // A loss that is explained by size or path is not told again as a loss.
    let loss = if size.is_none() && label.is_none() { loss_verdict(f, ends) } else { None };
    let host = host_verdict(f, ends);
    let loss = loss.map(|loss| if host.is_some() { lost_by_a_host(loss) } else { loss });
    [size, host, label, loss].into_iter().flatten().collect()
}

/// Small pings arrive and large ones do not: a sender whose own MTU is smaller drops silently, so both ends are compared before the
/// path is blamed.
fn size_verdict(f: &PingFigures, ends: &PairEnds<'_>) -> Option<Verdict> {
    let none_of_the_large = f.large.answered == 0 && f.large.late == 0 && f.large.sent >= LARGE_LOST_MIN;
    if f.small.answered == 0 || !none_of_the_large || f.stale > 0 {
        return None;
    }
    let mtu = |mtu: Option<u32>| mtu.map_or("not known".to_owned(), |mtu| mtu.to_string());
    let differ = ends.source_mtu.zip(ends.target_mtu).is_some_and(|(source, target)| source != target);
    let cause = if differ { Cause::MtuMismatch } else { Cause::PathMtu };
    Some(Verdict {
        id: cause.id(),
        text: cause.text().to_owned(),
        evidence: format!(
            "{} of {} pings of {} bytes answered, none of {} of {} bytes; RDMA MTU of {}: {}, of {}: {}",
            f.small.answered,
            f.small.sent,
            f.small.payload_bytes,
            f.large.sent,
            f.large.payload_bytes,
            ends.source,
            mtu(ends.source_mtu),
            ends.target,
            mtu(ends.target_mtu)
        ),
        next_step: cause.next_step(),
    })
}

/// The host and not the network takes the time: always (its median), or for at least half of the answers.
fn host_verdict(f: &PingFigures, ends: &PairEnds<'_>) -> Option<Verdict> {
    let slow_ns = match f.clock {
        StampClock::Hardware => HOST_SLOW_HARDWARE_NS,
        StampClock::Software => HOST_SLOW_SOFTWARE_NS,
    };
    let often = f.host_delayed * 2 >= f.answered().max(1);
    let slow = |spread: Option<Spread>| {
        spread.filter(|s| s.p50_ns > slow_ns || (often && s.max_ns > slow_ns)).map(|s| (s.p50_ns, s.max_ns))
    };
    let hosts: Vec<_> = [(ends.source, slow(f.prober)), (ends.target, slow(f.responder))]
        .into_iter()
        .filter_map(|(name, slow)| slow.map(|delay| (name, delay)))
        .collect();
    if hosts.is_empty() {
        return None;
    }
    let names: Vec<_> = hosts.iter().map(|(name, _)| *name).collect();
    let delay = |(name, (p50, max)): &(&str, (u64, u64))| {
        format!("inside {name}: median {} µs, longest {} µs", p50 / 1_000, max / 1_000)
    };
    let delays: Vec<_> = hosts.iter().map(delay).collect();
    Some(Verdict {
        id: "host-delayed",
        text: format!("The time is spent inside the host of {}, not in the network.", names.join(" and of ")),
        evidence: format!("{}; {} of {} answers held up", delays.join(", "), f.host_delayed, f.answered()),
        next_step: Cause::HostStarved.next_step(),
    })
}

/// One path label loses most of its pings while the others arrive.
fn label_verdict(f: &PingFigures) -> Option<Verdict> {
    let label = f.worst_label.filter(|label| label.sent >= LABEL_SENT_MIN)?;
    let lost = label.sent.saturating_sub(label.answered);
    let others_sent = f.sent().saturating_sub(label.sent);
    let others_lost = f.lost().saturating_sub(lost);
    // Half of this label's pings at least, and of the others a tenth at most.
    if lost * 2 < label.sent || others_sent == 0 || others_lost * 10 > others_sent {
        return None;
    }
    Some(Verdict {
        id: "path-label",
        text: "One of the paths between the two loses packets, the others do not.".to_owned(),
        evidence: format!(
            "flow label {:#07x}: {lost} of {} pings lost; all others together: {others_lost} of {others_sent}",
            label.flow_label, label.sent
        ),
        next_step: "Trace the path of this flow label (on RoCE it decides the UDP source port); look at the error counters of its links.",
    })
}

/// A host that is kept from running does not empty its receive buffers, and what comes then is lost there.
fn lost_by_a_host(loss: Verdict) -> Verdict {
    Verdict {
        text: format!(
            "{} A host was kept from running meanwhile: its receive buffers may have been full, and the network need not be to blame.",
            loss.text
        ),
        next_step: Cause::HostStarved.next_step(),
        ..loss
    }
}

fn loss_verdict(f: &PingFigures, ends: &PairEnds<'_>) -> Option<Verdict> {
    let lost = f.lost();
    if lost == 0 {
        return None;
    }
    let (source, target) = (ends.source, ends.target);
    let text = match (both(f, |c| c.lost_forward), both(f, |c| c.lost_backward)) {
        (Some(forward), Some(0)) if forward > 0 => {
            format!("Packets are lost on the way from {source} to {target}.")
        }
        (Some(0), Some(backward)) if backward > 0 => {
            format!("Packets are lost on the way back, from {target} to {source}.")
        }
        (Some(forward), Some(backward)) if forward > 0 => {
            format!(
                "Packets are lost in both directions: {forward} on the way there, {backward} on the way back."
            )
        }
        _ => "Packets are lost; in which direction is not known.".to_owned(),
    };
    let of = |counts: &PingCounts| {
        format!("{} of {} of {} bytes answered", counts.answered, counts.sent, counts.payload_bytes)
    };
    let sizes: Vec<_> = [f.small, f.large].iter().filter(|counts| counts.sent > 0).map(of).collect();
    Some(Verdict {
        id: "loss",
        text,
        evidence: format!("{lost} of {} pings lost: {}", f.sent(), sizes.join(", ")),
        next_step: "Look at the error and discard counters of both ports and of the switch ports between them; compare other pairs of either end.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_model::LabelResult;

    const ENDS: PairEnds<'static> =
        PairEnds { source: "a/d/1", target: "b/d/1", source_mtu: Some(4_096), target_mtu: Some(4_096) };

    fn counts(payload_bytes: u32, sent: u32, answered: u32) -> PingCounts {
        PingCounts {
            payload_bytes,
            sent,
            answered,
            lost_forward: Some(sent - answered),
            lost_backward: Some(0),
            ..PingCounts::default()
        }
    }

    fn healthy() -> PingFigures {
        let usual = Some(Spread { p50_ns: 20_000, max_ns: 40_000 });
        PingFigures {
            clock: StampClock::Software,
            small: counts(64, 40, 40),
            large: counts(4_096, 20, 20),
            network: usual,
            large_p50_ns: Some(30_000),
            responder: usual,
            prober: usual,
            host_delayed: 0,
            invalid_stamps: 0,
            stale: 0,
            worst_label: None,
        }
    }

    fn silent() -> PingFigures {
        let unknown = |c: PingCounts| PingCounts { lost_forward: None, lost_backward: None, ..c };
        PingFigures { small: unknown(counts(64, 40, 0)), large: unknown(counts(4_096, 20, 0)), ..healthy() }
    }

    fn ids(f: &PingFigures, ends: &PairEnds<'_>) -> Vec<&'static str> {
        ping_verdicts(f, ends).iter().map(|v| v.id).collect()
    }

    #[test]
    fn a_pair_that_answers_has_not_failed_and_a_healthy_one_has_no_verdict() {
        assert_eq!(ping_failure(&healthy()), None);
        assert_eq!(ping_verdicts(&healthy(), &ENDS), []);
        assert_eq!(ping_failure(&PingFigures { small: counts(64, 40, 1), ..silent() }), None);
    }

    #[test]
    fn silence_says_its_direction_as_soon_as_somebody_tells() {
        let told = |f: &PingFigures| {
            let failure = ping_failure(f).unwrap();
            assert_eq!(
                (failure.cause, failure.step, failure.side),
                (Cause::NoFirstByte, Step::FirstByte, Side::Source)
            );
            failure.evidence
        };
        assert!(told(&silent()).contains("40 small and 20 large pings sent"));
        assert!(told(&silent()).contains("direction they were lost is not known"));
        assert!(
            told(&silent().with_heard(0, 0)).contains("heard none: lost on the way from source to target")
        );
        assert!(
            told(&silent().with_heard(40, 20)).contains("answers were lost on the way from target to source")
        );
        assert!(
            told(&silent().with_heard(40, 0))
                .contains("20 were lost on the way from source to target, the answers of 40")
        );
    }

    #[test]
    fn an_old_address_and_a_late_answer_are_not_a_dead_path() {
        let stale = PingFigures { stale: 60, ..silent() };
        assert_eq!(ping_failure(&stale).unwrap().cause, Cause::StaleAddress);
        let late = PingFigures { small: PingCounts { late: 40, ..silent().small }, ..silent() };
        let failure = ping_failure(&late).unwrap();
        assert_eq!(failure.cause, Cause::PeerSilent);
        assert!(failure.evidence.contains("40 answers came after the time-out"), "{}", failure.evidence);
    }

    #[test]
    fn large_pings_that_vanish_blame_the_path_only_where_both_ends_agree() {
        let hole = PingFigures { large: counts(4_096, 20, 0), ..healthy() };
        let [path] = &ping_verdicts(&hole, &ENDS)[..] else { panic!("one verdict, and no loss beside it") };
        assert_eq!(path.id, "path-mtu");
        assert!(path.evidence.contains("40 of 40 pings of 64 bytes answered, none of 20 of 4096 bytes"));
        let ends = PairEnds { target_mtu: Some(1_024), ..ENDS };
        let verdicts = ping_verdicts(&hole, &ends);
        assert_eq!(verdicts[0].id, "mtu-mismatch");
        assert!(verdicts[0].evidence.contains("a/d/1: 4096, of b/d/1: 1024"), "{}", verdicts[0].evidence);
        assert_eq!(ids(&hole, &PairEnds { target_mtu: None, ..ENDS }), ["path-mtu"]);
        let one_arrived = PingFigures { large: counts(4_096, 20, 1), ..healthy() };
        assert_eq!(ids(&one_arrived, &ENDS), ["loss"], "a path that lets one through has no smaller MTU");
        let too_few = PingFigures { large: counts(4_096, 2, 0), ..healthy() };
        assert_eq!(ids(&too_few, &ENDS), ["loss"]);
        let stale = PingFigures { stale: 20, ..hole };
        assert_eq!(ids(&stale, &ENDS), [""; 0]);
    }

    #[test]
    fn the_host_that_takes_the_time_is_named() {
        let slow = Some(Spread { p50_ns: 3_000_000, max_ns: 20_000_000 });
        let text = |f: &PingFigures| {
            let verdicts = ping_verdicts(f, &ENDS);
            assert_eq!(verdicts.iter().map(|v| v.id).collect::<Vec<_>>(), ["host-delayed"]);
            verdicts[0].text.clone()
        };
        assert!(text(&PingFigures { responder: slow, ..healthy() }).contains("inside the host of b/d/1,"));
        assert!(text(&PingFigures { prober: slow, ..healthy() }).contains("inside the host of a/d/1,"));
        assert!(
            text(&PingFigures { prober: slow, responder: slow, ..healthy() }).contains("a/d/1 and of b/d/1")
        );
        let at_times = Some(Spread { p50_ns: 20_000, max_ns: 20_000_000 });
        let often = PingFigures { responder: at_times, host_delayed: 30, ..healthy() };
        assert!(text(&often).contains("inside the host of b/d/1,"));
        assert_eq!(
            ids(&PingFigures { host_delayed: 29, ..often }, &ENDS),
            [""; 0],
            "now and then is no verdict"
        );
        let exact = PingFigures {
            clock: StampClock::Hardware,
            responder: Some(Spread { p50_ns: 60_000, max_ns: 60_000 }),
            ..healthy()
        };
        assert_eq!(ids(&exact, &ENDS), ["host-delayed"]);
        assert_eq!(ids(&PingFigures { clock: StampClock::Software, ..exact }, &ENDS), [""; 0]);
    }

    #[test]
    fn what_is_lost_while_a_host_is_held_up_is_not_laid_to_the_network() {
        let slow = Some(Spread { p50_ns: 3_000_000, max_ns: 20_000_000 });
        let lost = PingFigures { small: counts(64, 40, 30), responder: slow, ..healthy() };
        let verdicts = ping_verdicts(&lost, &ENDS);
        let [host, loss] = &verdicts[..] else { panic!("{verdicts:?}") };
        assert_eq!((host.id, loss.id, loss.next_step), ("host-delayed", "loss", host.next_step));
        assert!(loss.text.contains("its receive buffers may have been full"), "{}", loss.text);
    }

    #[test]
    fn loss_names_its_direction() {
        let text = |forward, backward| {
            let lost = PingCounts {
                lost_forward: forward,
                lost_backward: backward,
                answered: 38,
                ..counts(64, 40, 40)
            };
            let verdicts = ping_verdicts(&PingFigures { small: lost, ..healthy() }, &ENDS);
            assert_eq!(verdicts[0].id, "loss");
            verdicts[0].text.clone()
        };
        assert_eq!(text(Some(2), Some(0)), "Packets are lost on the way from a/d/1 to b/d/1.");
        assert_eq!(text(Some(0), Some(2)), "Packets are lost on the way back, from b/d/1 to a/d/1.");
        assert!(text(Some(1), Some(1)).contains("both directions: 1 on the way there, 1 on the way back"));
        assert!(text(None, None).contains("in which direction is not known"));
    }

    #[test]
    fn a_label_that_loses_alone_is_a_path_and_one_of_many_that_lose_is_not() {
        let label = |sent, answered| Some(LabelResult { flow_label: 0x12, sent, answered, p50_ns: None });
        let alone = PingFigures { small: counts(64, 40, 36), worst_label: label(4, 0), ..healthy() };
        let verdicts = ping_verdicts(&alone, &ENDS);
        assert_eq!(verdicts[0].id, "path-label");
        assert_eq!(verdicts.len(), 1, "the loss is explained");
        assert!(verdicts[0].evidence.contains("0x00012: 4 of 4 pings lost; all others together: 0 of 56"));
        let among_many = PingFigures { small: counts(64, 40, 20), worst_label: label(4, 0), ..healthy() };
        assert_eq!(ids(&among_many, &ENDS), ["loss"]);
        let by_chance = PingFigures { small: counts(64, 40, 39), worst_label: label(1, 0), ..healthy() };
        assert_eq!(ids(&by_chance, &ENDS), ["loss"]);
    }
}
