//! What the probes of leases find over a whole fabric: their packets take the same ways as those of the mesh.

use crate::fabric::Fabric;
use crate::figures::Figures;
use crate::net::{Net, Packet};
use crate::random::Random;
use crate::window::delays;
use rdmascope_model::{
    BandwidthSpec, BandwidthStats, Carrier, CounterDelta, EchoSpec, EchoStats, Effects, LabelResult,
    LatencySpec, Load, Operation, Outcome, PingCounts, PingSpec, PingStats, ProbePlan, ProbeSpec, StampClock,
};
use rdmascope_probe::latency_stats;
use rdmascope_probe::mesh::{TIMEOUT, flow_label, pair_seed};
use std::time::Duration;

/// A packet that is not acknowledged is sent again after so long, nanoseconds.
const RETRANSMIT_NS: u64 = 4_000_000;
/// So often, and then the connection is given up.
const RETRIES_MAX: u32 = 7;
/// A way that loses more than this share carries no connection.
const DEAD: f32 = 0.95;
/// Time of one side between a message's arrival and the next one's leaving, nanoseconds.
const TURN_NS: u64 = 300;
/// How many times longer a message takes over TCP.
const TCP_LATENCY: u64 = 8;
/// Share of a port's rate that a stream reaches with nothing in the way.
const GOODPUT: f64 = 0.95;
/// What is left of it while a job fills the target's port.
const BESIDE_A_JOB: f64 = 0.5;
/// So often in the course of a probe it is looked whether a job fills a port.
const LOOKS: u64 = 16;
const PACKET_BYTES: u64 = 4_096;
const SMALL_BYTES: u32 = 64;
const LARGE_BYTES: u32 = 4_096;

/// A probe, its ends by their numbers, and when it began.
struct Leased<'a> {
    net: &'a Net,
    plan: &'a ProbePlan,
    ends: [usize; 2],
    at: u64,
}

impl Fabric {
    /// What a plan's source measures over the net; `None` without one, or when an end is not on it.
    pub(crate) fn measure_over_net(&mut self, plan: &ProbePlan, at: u64) -> Option<Figures> {
        let net = self.net.as_deref()?;
        let leased = Leased::new(net, plan, at)?;
        let random = &mut self.random;
        match &plan.spec {
            ProbeSpec::Latency(spec) => leased.ping_pong(spec, random),
            ProbeSpec::Bandwidth(spec) => Some(leased.streams(spec, random)),
            ProbeSpec::Pings(spec) => Some(leased.pings(spec, random)),
            ProbeSpec::Echo(spec) => Some(leased.echo(spec, random)),
        }
    }

    /// The net carries the plan's packets at all. Datagrams are sent whatever becomes of them.
    pub(crate) fn net_carries(&self, plan: &ProbePlan, at: u64) -> bool {
        let Some(leased) = self.net.as_deref().and_then(|net| Leased::new(net, plan, at)) else {
            return true;
        };
        plan.spec.load() == Load::Light || leased.carries()
    }

    /// Adds what jobs on the ports at both ends did meanwhile.
    pub(crate) fn add_congestion(
        &self,
        plan: &ProbePlan,
        (at, takes): (u64, u64),
        [source, target]: &mut [Effects; 2],
    ) {
        let Some(leased) = self.net.as_deref().and_then(|net| Leased::new(net, plan, at)) else { return };
        let fills = |end| (0..LOOKS).any(|look| leased.net.fills(end, at + takes / LOOKS * look));
        let packets = |effects: &Effects| effects.packets_received.map_or(1, |received| received.sum());
        if fills(leased.ends[1]) {
            let marked = packets(target).div_ceil(4);
            target.congestion_marked = Some(marked);
            target.congestion_notifications_sent = Some(marked);
            source.congestion_notifications_handled = Some(marked);
        }
        if fills(leased.ends[0]) {
            let marked = packets(source).div_ceil(4);
            source.congestion_marked = Some(marked);
            source.congestion_notifications_sent = Some(marked);
            target.congestion_notifications_handled = Some(marked);
        }
    }
}

impl<'a> Leased<'a> {
    fn new(net: &'a Net, plan: &'a ProbePlan, at: u64) -> Option<Self> {
        let ends = [net.topology().find(&plan.local)?, net.topology().find(&plan.peer)?];
        Some(Self { net, plan, ends, at })
    }

    fn packet(&self, back: bool, label: u32, large: bool, at: u64) -> Packet {
        let [from, to] = if back { [self.ends[1], self.ends[0]] } else { self.ends };
        Packet { from, to, label, large, at }
    }

    fn label(&self) -> u32 {
        self.plan.manner.marks.flow_label
    }

    fn carries(&self) -> bool {
        let large = self.plan.spec.load() == Load::Streams;
        [false, true].into_iter().all(|back| {
            let hit = self.net.hit(&self.packet(back, self.label(), large, self.at));
            hit.loss < DEAD
        })
    }

    fn ping_pong(&self, spec: &LatencySpec, random: &mut Random) -> Option<Figures> {
        let (mut takes_ns, mut sent_again) = (0, [0_u64; 2]);
        let mut samples = [Vec::new(), Vec::new()];
        let read = self.plan.manner.operation == Operation::Read;
        for round in 0..spec.warmup + spec.samples {
            let mut trip = 0;
            for (way, again) in sent_again.iter_mut().enumerate() {
                let mut tries = 0;
                let takes = loop {
                    let packet = self.packet(way == 1, self.label(), false, self.at + takes_ns + trip);
                    if let Some(takes) = self.net.carry(&packet, random) {
                        break takes;
                    }
                    tries += 1;
                    if tries > RETRIES_MAX {
                        break 0;
                    }
                };
                *again += u64::from(tries);
                trip += takes + TURN_NS + u64::from(tries) * RETRANSMIT_NS;
            }
            if self.plan.manner.carrier == Carrier::Tcp {
                trip *= TCP_LATENCY;
            }
            takes_ns += trip;
            if round >= spec.warmup {
                let told = if read { trip } else { trip / 2 };
                samples.iter_mut().for_each(|samples| samples.push(told));
            }
        }
        let [source, target] = [0, 1].map(|side| {
            let stats = latency_stats(&mut samples[side], 0)?;
            Some(Outcome::Latency(stats, CounterDelta { retransmits: Some(sent_again[side]) }))
        });
        Some(Figures { takes_ns, source: source?, target: if read { Some(Outcome::Served) } else { target } })
    }

    fn streams(&self, spec: &BandwidthSpec, random: &mut Random) -> Figures {
        // The bytes of a read travel towards the one who asks.
        let read = self.plan.manner.operation == Operation::Read;
        let there = self.stream(spec, read, random);
        if !self.plan.manner.both_ways {
            return Figures { target: Some(Outcome::Served), ..there };
        }
        let back = self.stream(spec, !read, random);
        Figures { takes_ns: there.takes_ns.max(back.takes_ns), target: Some(back.source), ..there }
    }

    fn stream(&self, spec: &BandwidthSpec, back: bool, random: &mut Random) -> Figures {
        let packet = self.packet(back, self.label(), true, self.at);
        let rate = self.net.goodput_bps(&packet) * (1.0 - 0.01 * random.unit());
        let message = u64::from(spec.message_bytes);
        let in_time = |time: Duration| (rate * time.as_secs_f64() / 8.0) as u64 / message;
        let all = spec.bytes_max / message;
        let warmup = in_time(spec.warmup).min(all / 2);
        let wanted = in_time(spec.duration).max(u64::from(spec.completions_min));
        let completions = wanted.min(in_time(4 * spec.duration)).min(all - warmup).max(1);
        let bytes = completions * message;
        let time_of = |bytes: u64| ((bytes as f64 * 8e9 / rate) as u64).max(1);
        let average_bps = rate as u64;
        let stats = BandwidthStats {
            bytes,
            duration_ns: time_of(bytes),
            average_bps,
            worst_window_bps: (completions >= 50).then(|| average_bps - random.below(average_bps / 20)),
            completions: u32::try_from(completions).unwrap_or(u32::MAX),
            variation_permille: None,
        };
        let lost = f64::from(self.net.hit(&packet).loss) * ((bytes + warmup * message) / PACKET_BYTES) as f64;
        let delta = CounterDelta { retransmits: Some(lost as u64) };
        let takes_ns = stats.duration_ns + time_of(warmup * message);
        Figures { takes_ns, source: Outcome::Bandwidth(stats, delta), target: None }
    }

    fn pings(&self, spec: &PingSpec, random: &mut Random) -> Figures {
        let interval = u64::try_from(spec.interval.as_nanos()).unwrap_or(u64::MAX);
        let mut tally = Tally::default();
        let mut labels = Vec::new();
        let mut at = self.at;
        for index in 0..spec.labels {
            let label = match spec.labels {
                1 => self.label(),
                _ => self.flow_label(index),
            };
            let mut of_label = LabelResult { flow_label: label, sent: 0, answered: 0, p50_ns: None };
            let mut trips = Vec::new();
            for sequence in 0..2 * spec.count {
                let large = sequence % 2 == 1;
                of_label.sent += 1;
                if let Some(trip) = tally.ping(self, label, large, at, random) {
                    of_label.answered += 1;
                    trips.extend((!large).then_some(trip));
                }
                at += interval;
            }
            of_label.p50_ns = delays(trips.into_iter()).map(|delays| delays.p50_ns);
            labels.push(of_label);
        }
        if spec.labels == 1 {
            labels.clear();
        }
        let stats = tally.stats(labels, self.net.topology().layout.hardware_stamps);
        // Until no late answer is waited for any more, where one is.
        let waits = if tally.is_whole() { 0 } else { 2 * TIMEOUT.as_nanos() as u64 };
        let source = Outcome::Pings(Box::new(stats));
        Figures { takes_ns: at - self.at + waits, source, target: Some(Outcome::Served) }
    }

    fn flow_label(&self, index: u32) -> u32 {
        let seed = pair_seed(&self.plan.local, &self.plan.peer);
        flow_label(seed, u16::try_from(index).unwrap_or(0), Duration::from_nanos(self.at))
    }

    fn echo(&self, spec: &EchoSpec, random: &mut Random) -> Figures {
        let (mut heard, mut trips) = (0, Vec::new());
        for index in 0..spec.count {
            let at = self.at + u64::try_from((spec.interval * index).as_nanos()).unwrap_or(0);
            let Some(there) = self.net.carry(&self.packet(false, 0, true, at), random) else { continue };
            heard += 1;
            let back = self.net.carry(&self.packet(true, 0, true, at + there), random);
            trips.extend(back.map(|back| TCP_LATENCY * (there + back)));
        }
        let answered = u32::try_from(trips.len()).unwrap_or(u32::MAX);
        let stats = EchoStats {
            payload_bytes: spec.payload_bytes,
            sent: spec.count,
            heard: Some(heard),
            answered,
            round_trip: delays(trips.into_iter()),
        };
        let takes_ns = u64::try_from((spec.interval * spec.count).as_nanos()).unwrap_or(u64::MAX);
        Figures { takes_ns, source: Outcome::Echo(stats), target: Some(Outcome::Served) }
    }
}

/// What became of the pings of a lease, small and large.
#[derive(Default)]
struct Tally {
    sent: [u32; 2],
    heard: [u32; 2],
    answered: [u32; 2],
    late: [u32; 2],
    network: [Vec<u64>; 2],
    responder: Vec<u64>,
    prober: Vec<u64>,
    delayed: u32,
}

impl Tally {
    /// One ping; its network round trip when it was answered in time.
    fn ping(
        &mut self,
        leased: &Leased<'_>,
        label: u32,
        large: bool,
        at: u64,
        random: &mut Random,
    ) -> Option<u64> {
        let (net, size) = (leased.net, usize::from(large));
        self.sent[size] += 1;
        let there = net.carry(&leased.packet(false, label, large, at), random)?;
        let held = net.held(leased.ends[1], at + there, random)?;
        self.heard[size] += 1;
        let lags = [net.stamp_lag(random), net.stamp_lag(random)];
        let leaves = at + there + held.ns.max(lags[0]);
        // Answers of a lease are marked as its plan says.
        let back = net.carry(&leased.packet(true, leased.label(), large, leaves), random)?;
        let own = net.held(leased.ends[0], leaves + back, random)?;
        if leaves + back + own.ns - at >= TIMEOUT.as_nanos() as u64 {
            self.late[size] += 1;
            return None;
        }
        self.answered[size] += 1;
        self.responder.push(held.ns.max(lags[0]) - lags[0]);
        self.prober.push(own.ns.max(lags[1]) - lags[1]);
        let trip = there + back + lags[0] + lags[1];
        if (held.vague || own.vague) && !net.topology().layout.hardware_stamps {
            self.delayed += 1;
        } else {
            self.network[size].push(trip);
        }
        Some(trip)
    }

    /// Every ping was answered.
    fn is_whole(&self) -> bool {
        self.sent == self.answered
    }

    fn stats(&self, labels: Vec<LabelResult>, hardware: bool) -> PingStats {
        // Without any answer nobody has told what was heard.
        let known = self.answered != [0, 0] || self.late != [0, 0];
        let counts = |size: usize, payload_bytes| PingCounts {
            payload_bytes,
            sent: self.sent[size],
            answered: self.answered[size],
            lost_forward: known.then(|| self.sent[size] - self.heard[size]),
            lost_backward: known.then(|| self.heard[size] - self.answered[size] - self.late[size]),
            late: self.late[size],
            ..PingCounts::default()
        };
        PingStats {
            batch: 1,
            clock: if hardware { StampClock::Hardware } else { StampClock::Software },
            small: counts(0, SMALL_BYTES),
            large: counts(1, LARGE_BYTES),
            network: delays(self.network[0].iter().copied()),
            network_large: delays(self.network[1].iter().copied()),
            responder: delays(self.responder.iter().copied()),
            prober: delays(self.prober.iter().copied()),
            host_delayed: self.delayed,
            invalid_stamps: 0,
            stale: 0,
            labels,
        }
    }
}

impl Net {
    /// What a stream reaches on this way with nothing else there, bits per second.
    pub(crate) fn goodput_bps(&self, packet: &Packet) -> f64 {
        let [a, b] = [packet.from, packet.to].map(|end| self.topology().ends[end].rate_bps);
        let hit = self.hit(packet);
        let job = if self.fills(packet.to, packet.at) { BESIDE_A_JOB } else { 1.0 };
        // Everything behind a lost packet goes again: at 1 % loss about a third is left.
        let rate =
            a.min(b) as f64 * GOODPUT * f64::from(hit.rate_left) * job / (1.0 + 200.0 * f64::from(hit.loss));
        rate.max(1.0)
    }
}
