//! Whether a running stream hurts somebody's job: the port's pauses, resent packets and foreign traffic, look by look; pure.
//!
//! Whoever moves the bytes looks at the own port about every 100 ms and asks [`Guard::look`]; where that answers, the stream ends at
//! once as `Outcome::Aborted` with what it has. Both ends guard their own port. A pause means that somebody downstream had no
//! room; a stream that goes on then holds back everybody who shares that queue.

use rdmascope_model::{Congestion, Effects, Mono, Urgency};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Share of the time for which one priority may be paused, where the 10 s before were no worse: DESIGN.md's 1 %. A healthy fabric
/// without load has none, and a stream alone loses 1 % of its goodput by it, which its own figure hardly shows.
pub const PAUSE_SHARE_FLOOR: f64 = 0.01;
/// Resent packets per packet, where the 10 s before were no worse: DESIGN.md's 1e-5. A cable at the bit error rate that IEEE 802.3
/// allows after correction (1e-12) loses 3e-8 of packets of 4 KiB; three hundred times that is congestion, not noise.
pub const RETRANSMIT_RATE_FLOOR: f64 = 1e-5;
/// Where the 10 s before were bad already, so many times worse is too much: less may be the job's own ups and downs.
pub const OVER_BASELINE: f64 = 3.0;
/// Fewer resent packets than this prove no rate: of 10 that were seen, at least 5 were to be expected (Poisson, 95 %), and one lost
/// packet alone has a few behind it sent again.
const RETRANSMITS_MIN: u64 = 10;
/// Foreign traffic from this share of the port's rate on; the idle gate's number, for this is the idle gate while a stream runs.
const FOREIGN_SHARE: f64 = 0.01;
/// What a packet of ours costs besides its payload, at most: Ethernet with VLAN and FCS 22, IPv6 40, UDP 8, BTH 12, RETH 16 and ICRC 4
/// bytes make 102; its acknowledgement, which the same port counts, makes 90.
const PACKET_OVERHEAD_BYTES: u64 = 200;
/// Looks closer together than this are not judged: a single pause frame would be a large share of so little time.
const STEP_MIN: Duration = Duration::from_millis(50);
/// So far back is judged: a storm at the end of a long stream must not be thinned by the quiet before it.
const WINDOW: Duration = Duration::from_secs(1);

/// What is known of port and stream before it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Ground {
    /// On whose behalf the stream runs.
    pub urgency: Urgency,
    /// Rate of the port, bits per second.
    pub rate_bps: Option<u64>,
    /// Payload of one packet: the smaller of path MTU and message, bytes.
    pub packet_bytes: Option<u32>,
    /// Most payload that is under way at one time (message × depth × queue pairs), bytes: the port may have counted it before our
    /// own completions do.
    pub in_flight_bytes: u64,
    /// Rates of the port in the 10 s before; `None` where nobody looked: then the floors alone apply.
    pub before: Option<Rates>,
}

/// One look at the port. All numbers count from an arbitrary beginning, as the driver does; `None`: not counted, or not readable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// When.
    pub at: Mono,
    /// The port's counters as they stand (not how far they moved).
    pub effects: Effects,
    /// Bytes that the port sent and received.
    pub port_bytes: Option<u64>,
    /// Payload bytes that this probe sent and received on this port.
    pub own_bytes: u64,
}

/// How bad it is on a port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Share of the time for which received pauses stopped the worst priority, 0 to 1.
    pub pause_share: Option<f64>,
    /// Resent packets per packet; `None` also where no packet moved.
    pub retransmit_rate: Option<f64>,
}

impl Rates {
    /// The rates between two looks; nothing is known where a counter went back.
    ///
    /// A receiving end counts what came out of order against what it received, so packets are those of the busier direction. Where the
    /// driver does not count packets they are worked out from the port's bytes (else from our own) at `packet_bytes` each.
    #[must_use]
    pub fn between(first: &Look, last: &Look, packet_bytes: Option<u32>) -> Self {
        let pauses = grown(first, last, |look| Some(look.effects.pause_received_ns?.0));
        let time = last.at.since(first.at).as_nanos() as f64;
        let pause_share = pauses.filter(|_| time > 0.0).map(|(before, after)| {
            let worst = after.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).max();
            (worst.unwrap_or(0) as f64 / time).min(1.0)
        });
        let packets = packets(first, last, packet_bytes).filter(|packets| *packets > 0);
        let resent = moved(first, last, |look| look.effects.retransmits);
        let retransmit_rate =
            resent.zip(packets).map(|(resent, packets)| (resent as f64 / packets as f64).min(1.0));
        Self { pause_share, retransmit_rate }
    }
}

/// Watches the port under one stream.
#[derive(Clone, Debug)]
pub struct Guard {
    ground: Ground,
    /// Looks of the last second.
    looks: VecDeque<Look>,
    /// What could be judged at least once.
    judged: BTreeSet<Congestion>,
}

impl Guard {
    /// A guard that has not looked yet.
    #[must_use]
    pub fn new(ground: Ground) -> Self {
        Self { ground, looks: VecDeque::new(), judged: BTreeSet::new() }
    }

    /// Takes a look; the first one belongs right before the first byte. `Some`: the stream must end now. A stream on drained nodes is
    /// never told to end: it records.
    pub fn look(&mut self, look: Look) -> Option<Congestion> {
        if let Some(last) = self.looks.back() {
            if went_back(last, &look) {
                // Driver reload or reset: what was before says nothing about what comes.
                self.looks.clear();
            } else if look.at.since(last.at) < STEP_MIN {
                return None;
            }
        }
        self.looks.push_back(look);
        let last = self.looks.back()?;
        let old = self.looks.iter().take_while(|kept| last.at.since(kept.at) > WINDOW).count();
        self.looks.drain(..old);
        let why = self.judge();
        why.filter(|_| self.ground.urgency != Urgency::Drained)
    }

    /// What could not be judged so far, because the driver does not count it, it cannot be read, or nothing moved: a stream that
    /// was not given up is not said to have been harmless in these.
    #[must_use]
    pub fn blind_to(&self) -> BTreeSet<Congestion> {
        Congestion::ALL.into_iter().filter(|why| !self.judged.contains(why)).collect()
    }

    fn judge(&mut self) -> Option<Congestion> {
        let (first, last) = (self.looks.front()?, self.looks.back()?);
        if self.looks.len() < 2 {
            return None;
        }
        let rates = Rates::between(first, last, self.ground.packet_bytes);
        let before = self.ground.before.unwrap_or_default();
        let enough = moved(first, last, |look| look.effects.retransmits) >= Some(RETRANSMITS_MIN);
        let foreign = self.foreign_share(first, last);
        let findings = [
            (Congestion::Pauses, rates.pause_share.map(|share| share > pause_limit(before.pause_share))),
            (
                Congestion::Retransmits,
                rates.retransmit_rate.map(|rate| enough && rate > retransmit_limit(before.retransmit_rate)),
            ),
            // A forced probe was told to run beside a job.
            (
                Congestion::Traffic,
                foreign.map(|share| share > FOREIGN_SHARE && self.ground.urgency != Urgency::Forced),
            ),
        ];
        self.judged.extend(findings.iter().filter(|(_, seen)| seen.is_some()).map(|(why, _)| *why));
        findings.into_iter().find(|(_, seen)| *seen == Some(true)).map(|(why, _)| why)
    }

    /// Traffic that cannot be ours, as a share of the port's rate: everything that ours may have cost is taken off.
    fn foreign_share(&self, first: &Look, last: &Look) -> Option<f64> {
        let packet = u64::from(self.ground.packet_bytes.filter(|bytes| *bytes > 0)?);
        let rate = self.ground.rate_bps.filter(|rate| *rate > 0)?;
        let all = moved(first, last, |look| look.port_bytes)?;
        let payload = last.own_bytes.saturating_sub(first.own_bytes) + self.ground.in_flight_bytes;
        let resent = moved(first, last, |look| look.effects.retransmits).unwrap_or(0);
        let sent = payload.div_ceil(packet) + resent;
        let ours = sent.saturating_mul(packet + PACKET_OVERHEAD_BYTES);
        let time = last.at.since(first.at).as_secs_f64();
        Some(all.saturating_sub(ours) as f64 * 8.0 / (rate as f64 * time))
    }
}

/// Three times what was before, and never more than half of the time that was left: a share cannot exceed 1.
fn pause_limit(before: Option<f64>) -> f64 {
    let before = before.unwrap_or(0.0);
    (OVER_BASELINE * before).min(f64::midpoint(1.0, before)).max(PAUSE_SHARE_FLOOR)
}

fn retransmit_limit(before: Option<f64>) -> f64 {
    (OVER_BASELINE * before.unwrap_or(0.0)).max(RETRANSMIT_RATE_FLOOR)
}

/// A list of counters at both looks, where both are known and none went back.
fn grown<const N: usize>(
    first: &Look,
    last: &Look,
    of: impl Fn(&Look) -> Option<[u64; N]>,
) -> Option<([u64; N], [u64; N])> {
    let (before, after) = of(first).zip(of(last))?;
    before.iter().zip(after).all(|(before, after)| *before <= after).then_some((before, after))
}

fn moved(first: &Look, last: &Look, of: impl Fn(&Look) -> Option<u64>) -> Option<u64> {
    of(last)?.checked_sub(of(first)?)
}

fn packets(first: &Look, last: &Look, packet_bytes: Option<u32>) -> Option<u64> {
    let sent = moved(first, last, |look| look.effects.packets_sent.map(|packets| packets.sum()));
    let received = moved(first, last, |look| look.effects.packets_received.map(|packets| packets.sum()));
    if sent.is_some() || received.is_some() {
        return sent.max(received);
    }
    let bytes = moved(first, last, |look| look.port_bytes.or(Some(look.own_bytes)))?;
    Some(bytes / u64::from(packet_bytes.filter(|bytes| *bytes > 0)?))
}

fn went_back(last: &Look, look: &Look) -> bool {
    let back = |of: &dyn Fn(&Look) -> Option<u64>| of(last).zip(of(look)).is_some_and(|(a, b)| b < a);
    back(&|look| look.effects.retransmits)
        || back(&|look| look.effects.pause_received_ns.map(|pauses| pauses.sum()))
        || back(&|look| look.effects.packets_sent.map(|packets| packets.sum()))
        || back(&|look| look.effects.packets_received.map(|packets| packets.sum()))
        || back(&|look| look.port_bytes)
        || back(&|look| Some(look.own_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_model::PerPriority;

    const RATE: u64 = 100_000_000_000;
    const MTU: u32 = 4_096;

    fn ground(urgency: Urgency, before: Option<Rates>) -> Ground {
        Ground { urgency, rate_bps: Some(RATE), packet_bytes: Some(MTU), in_flight_bytes: 8 * 65_536, before }
    }

    /// What one tenth of a second adds.
    #[derive(Clone, Copy, Default)]
    struct Tenth {
        pause_ns: u64,
        resent: u64,
        foreign: u64,
    }

    /// A port under a stream at line rate.
    struct Port {
        look: Look,
    }

    impl Port {
        fn new() -> Self {
            let effects = Effects {
                retransmits: Some(7_000),
                pause_received_ns: Some(PerPriority([5; 8])),
                packets_sent: Some(PerPriority([0, 0, 0, 1_000, 0, 0, 0, 0])),
                packets_received: Some(PerPriority([0; 8])),
                ..Effects::default()
            };
            Self { look: Look { at: Mono(9), effects, port_bytes: Some(1 << 40), own_bytes: 0 } }
        }

        fn go_on(&mut self, tenth: Tenth) -> Look {
            // 95 % of the rate as payload, and the headers that make it 98 %.
            let payload = RATE / 80 * 95 / 100;
            let packets = payload / u64::from(MTU);
            let look = &mut self.look;
            look.at = look.at.after(Duration::from_millis(100));
            look.own_bytes += payload;
            look.port_bytes = look.port_bytes.map(|bytes| bytes + payload + packets * 130 + tenth.foreign);
            let effects = &mut look.effects;
            effects.retransmits = effects.retransmits.map(|count| count + tenth.resent);
            // Two priorities: shares of different queues are not added up.
            effects.pause_received_ns.iter_mut().for_each(|pauses| {
                pauses.0[3] += tenth.pause_ns;
                pauses.0[4] += tenth.pause_ns / 2;
            });
            effects.packets_sent.iter_mut().for_each(|sent| sent.0[3] += packets);
            look.clone()
        }
    }

    /// What a guard said after each tenth of a second, until it told the stream to end.
    fn run(guard: &mut Guard, port: &mut Port, tenths: &[Tenth]) -> Option<(usize, Congestion)> {
        assert_eq!(guard.look(port.look.clone()), None);
        let mut looks = tenths.iter().enumerate();
        looks.find_map(|(at, tenth)| Some((at, guard.look(port.go_on(*tenth))?)))
    }

    fn told(urgency: Urgency, before: Option<Rates>, tenths: &[Tenth]) -> Option<(usize, Congestion)> {
        run(&mut Guard::new(ground(urgency, before)), &mut Port::new(), tenths)
    }

    fn paused(ms: u64) -> Tenth {
        Tenth { pause_ns: ms * 1_000_000, ..Tenth::default() }
    }

    fn resent(resent: u64) -> Tenth {
        Tenth { resent, ..Tenth::default() }
    }

    const QUIET: Tenth = Tenth { pause_ns: 0, resent: 0, foreign: 0 };

    #[test]
    fn a_quiet_stream_goes_on_and_everything_was_looked_at() {
        let mut guard = Guard::new(ground(Urgency::Operator, None));
        // 0.9 % of the time paused, and 2 of 290,000 packets sent again.
        let almost = Tenth { pause_ns: 900_000, resent: 2, foreign: 0 };
        assert_eq!(run(&mut guard, &mut Port::new(), &[almost; 40]), None);
        assert_eq!(guard.blind_to(), BTreeSet::new());
    }

    #[test]
    fn a_pause_storm_ends_the_stream_at_the_next_look_however_long_it_was_quiet() {
        // 20 ms of the last second are 2 %, and of all of it 0.6 %.
        let mut storm = vec![QUIET; 30];
        storm.push(paused(20));
        assert_eq!(told(Urgency::Operator, None, &storm), Some((30, Congestion::Pauses)));
        assert_eq!(told(Urgency::Operator, None, &[paused(2)]), Some((0, Congestion::Pauses)));
    }

    #[test]
    fn resent_packets_end_the_stream_when_they_are_enough_to_prove_a_rate() {
        // 290,000 packets in a tenth of a second.
        assert_eq!(told(Urgency::Operator, None, &[resent(30)]), Some((0, Congestion::Retransmits)));
        let slow = |resent| {
            let mut guard = Guard::new(ground(Urgency::Operator, None));
            let mut look =
                Look { effects: Effects { retransmits: Some(0), ..Effects::default() }, ..Look::default() };
            assert_eq!(guard.look(look.clone()), None);
            // 100 packets alone: one that is sent again is 1 %, and proves nothing.
            look = Look { at: Mono(100_000_000), own_bytes: 409_600, ..look };
            look.effects.retransmits = Some(resent);
            guard.look(look)
        };
        assert_eq!(slow(9), None);
        assert_eq!(slow(10), Some(Congestion::Retransmits), "packets were worked out from our own bytes");
    }

    #[test]
    fn what_was_bad_before_ends_it_only_at_three_times_that() {
        let bad = Some(Rates { pause_share: Some(0.05), retransmit_rate: Some(1e-4) });
        let as_before = Tenth { pause_ns: 5_000_000, resent: 29, foreign: 0 };
        assert_eq!(told(Urgency::Operator, bad, &[as_before; 20]), None);
        assert_eq!(told(Urgency::Operator, bad, &[paused(14); 20]), None);
        assert_eq!(told(Urgency::Operator, bad, &[paused(16)]), Some((0, Congestion::Pauses)));
        assert_eq!(told(Urgency::Operator, bad, &[resent(80); 20]), None);
        assert_eq!(told(Urgency::Operator, bad, &[resent(95)]), Some((0, Congestion::Retransmits)));
        // Three times 60 % cannot be reached; half of what was left can.
        let worse = Some(Rates { pause_share: Some(0.6), retransmit_rate: None });
        assert_eq!(told(Urgency::Operator, worse, &[paused(79)]), None);
        assert_eq!(told(Urgency::Operator, worse, &[paused(81)]), Some((0, Congestion::Pauses)));
        // A quiet time before does not make the floors stricter.
        let quiet = Some(Rates { pause_share: Some(0.0), retransmit_rate: Some(0.0) });
        assert_eq!(
            told(Urgency::Operator, quiet, &[Tenth { pause_ns: 900_000, resent: 2, foreign: 0 }]),
            None
        );
    }

    #[test]
    fn somebody_elses_traffic_ends_it_and_our_own_headers_do_not() {
        // 4 % of the rate in a tenth of a second: beside a full stream, what its headers may cost hides less than 2 %.
        let job = Tenth { foreign: RATE / 80 / 25, ..Tenth::default() };
        assert_eq!(told(Urgency::Operator, None, &[QUIET; 20]), None);
        let mut comes = vec![QUIET; 5];
        comes.extend([job; 10]);
        assert!(matches!(told(Urgency::Operator, None, &comes), Some((5.., Congestion::Traffic))));
        assert_eq!(told(Urgency::Forced, None, &comes), None, "it was told to run beside a job");
    }

    #[test]
    fn force_does_not_lift_the_guard_and_drained_nodes_only_record() {
        assert_eq!(told(Urgency::Forced, None, &[paused(50)]), Some((0, Congestion::Pauses)));
        assert_eq!(told(Urgency::Forced, None, &[resent(100)]), Some((0, Congestion::Retransmits)));
        let storm = Tenth { pause_ns: 50_000_000, resent: 1_000, foreign: RATE / 80 };
        assert_eq!(told(Urgency::Drained, None, &[storm; 20]), None);
    }

    #[test]
    fn what_is_not_counted_ends_nothing_and_is_said() {
        let mut guard = Guard::new(ground(Urgency::Operator, None));
        let mut port = Port::new();
        port.look.effects = Effects::default();
        port.look.port_bytes = None;
        assert_eq!(
            run(&mut guard, &mut port, &[Tenth { pause_ns: 50_000_000, resent: 1_000, foreign: 0 }; 3]),
            None
        );
        assert_eq!(guard.blind_to(), BTreeSet::from(Congestion::ALL));
        // One of the three is counted: it is judged, and the others are still not.
        let mut guard = Guard::new(ground(Urgency::Operator, None));
        port.look.effects.pause_received_ns = Some(PerPriority::default());
        assert_eq!(run(&mut guard, &mut port, &[QUIET, paused(50)]), Some((1, Congestion::Pauses)));
        assert_eq!(guard.blind_to(), BTreeSet::from([Congestion::Retransmits, Congestion::Traffic]));
        assert_eq!(Guard::new(ground(Urgency::Drained, None)).blind_to().len(), 3, "nobody has looked yet");
    }

    #[test]
    fn a_counter_that_is_reset_is_no_storm_and_does_not_hide_the_next_one() {
        let mut guard = Guard::new(ground(Urgency::Operator, None));
        let mut port = Port::new();
        assert_eq!(run(&mut guard, &mut port, &[QUIET; 3]), None);
        port.look.effects.pause_received_ns = Some(PerPriority::default());
        port.look.effects.retransmits = Some(0);
        port.look.port_bytes = Some(0);
        assert_eq!(guard.look(port.go_on(paused(1))), None);
        assert_eq!(guard.look(port.go_on(QUIET)), None);
        assert_eq!(guard.look(port.go_on(paused(30))), Some(Congestion::Pauses));
    }

    #[test]
    fn one_pause_frame_between_two_quick_looks_is_not_a_storm() {
        let mut guard = Guard::new(ground(Urgency::Operator, None));
        let mut port = Port::new();
        assert_eq!(run(&mut guard, &mut port, &[QUIET; 2]), None);
        // 100 µs, ten milliseconds after the last look.
        let mut quick = port.look.clone();
        quick.at = quick.at.after(Duration::from_millis(10));
        quick.effects.pause_received_ns.iter_mut().for_each(|pauses| pauses.0[3] += 100_000);
        assert_eq!(guard.look(quick), None);
        assert_eq!(guard.look(port.go_on(Tenth { pause_ns: 100_000, ..QUIET })), None);
    }

    #[test]
    fn a_receiver_counts_against_what_it_received() {
        let effects = |resent, received| Effects {
            retransmits: Some(resent),
            packets_sent: Some(PerPriority([100; 8])),
            packets_received: Some(PerPriority([received; 8])),
            ..Effects::default()
        };
        let first = Look { effects: effects(0, 0), ..Look::default() };
        let last = Look { at: Mono(1_000), effects: effects(8, 1_000), ..Look::default() };
        assert_eq!(Rates::between(&first, &last, None).retransmit_rate, Some(8.0 / 8_000.0));
        assert_eq!(Rates::between(&last, &first, None), Rates::default(), "counters went back");
    }
}
