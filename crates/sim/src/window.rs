//! One batch of the mesh's pings drawn at once: the figures that the engines would have told, without a packet.
//!
//! What a ping meets is asked of the same [`Net`] as packet by packet, for the way there, the way back and the second acknowledgement. Only
//! the engines are left out: what they count, what they can know and when they tell it is worked out here.

use crate::net::{Net, Packet};
use crate::random::Random;
use rdmascope_model::{Delays, LabelResult, PingCounts, PingStats, StampClock};
use rdmascope_probe::mesh::TIMEOUT;

const SMALL_BYTES: u32 = 64;
const LARGE_BYTES: u32 = 4_096;
const MILLI: u64 = 1_000_000;
/// As in the engine: an answer after this is late, after twice this it is not waited for any more.
const TIMEOUT_NS: u64 = TIMEOUT.as_nanos() as u64;
/// Questions, and the time between two.
const QUESTIONS_MAX: u32 = 3;
const ASK_EVERY_NS: u64 = 100 * MILLI;
/// A host that takes longer than this, and than five times its median, was busy with something else.
const DELAYED_NS: [u64; 2] = [MILLI, 50_000];

/// What is to be drawn.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) number: u32,
    /// When each ping leaves; each third one is large.
    pub(crate) times: &'a [u64],
    /// Flow labels, which change after each large ping; a single 0 for none.
    pub(crate) labels: &'a [u32],
    /// The label to begin with.
    pub(crate) first_label: usize,
}

/// What the responder heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeardPings {
    pub(crate) small: u32,
    pub(crate) large: u32,
    /// When the last one came.
    pub(crate) last_at: u64,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) stats: PingStats,
    /// When the prober has told it.
    pub(crate) over_at: u64,
    /// `None` when nothing was heard.
    pub(crate) heard: Option<HeardPings>,
    /// When questions were asked, each in place of a ping of the next batch.
    pub(crate) questions: Vec<u64>,
}

/// One ping.
#[derive(Clone, Copy, Default)]
struct Ping {
    large: bool,
    label: u32,
    heard: bool,
    acked: bool,
    answered: bool,
    late: bool,
    /// Network (`None` where it cannot be told from the hosts), responder and prober, nanoseconds; absent without a second
    /// acknowledgement.
    shares: Option<(Option<u64>, u64, u64)>,
}

impl Batch<'_> {
    /// Draws it.
    pub(crate) fn draw(&self, net: &Net, random: &mut Random) -> Drawn {
        let (mut heard, mut over_at) = (HeardPings::default(), 0);
        let mut pings = Vec::with_capacity(self.times.len());
        for (sequence, &at) in self.times.iter().enumerate() {
            let label = self.labels[(self.first_label + sequence / 3) % self.labels.len()];
            let mut ping = Ping { large: sequence % 3 == 2, label, ..Ping::default() };
            self.ping(&mut ping, at, net, &mut heard, &mut over_at, random);
            pings.push(ping);
        }
        let told = pings.iter().rposition(|ping| ping.answered || ping.late).map_or(0, |last| last + 1);
        let untold = pings.iter().skip(told).any(|ping| !ping.answered && !ping.late);
        let open = pings.iter().any(|ping| !ping.late && ping.shares.is_none());
        let last = self.times.last().copied().unwrap_or(0);
        let (known, questions) = if untold { self.ask(net, last, random) } else { (true, Vec::new()) };
        if open {
            let asked = questions.last().map_or(0, |asked| asked + TIMEOUT_NS);
            over_at = asked.max(last + 2 * TIMEOUT_NS);
        }
        let hardware = net.topology().layout.hardware_stamps;
        let stats = stats(&pings, self.number, hardware, known, self.labels.len() > 1);
        let heard = Some(heard).filter(|heard| heard.small + heard.large > 0);
        Drawn { stats, over_at, heard, questions }
    }

    fn ping(
        &self,
        ping: &mut Ping,
        at: u64,
        net: &Net,
        heard: &mut HeardPings,
        over_at: &mut u64,
        random: &mut Random,
    ) {
        let there = Packet { from: self.from, to: self.to, label: ping.label, large: ping.large, at };
        let Some(out) = net.carry(&there, random) else { return };
        let Some(held) = net.held(self.to, at + out, random) else { return };
        ping.heard = true;
        *(if ping.large { &mut heard.large } else { &mut heard.small }) += 1;
        let lags = [net.stamp_lag(random), net.stamp_lag(random)];
        let responder = held.ns.max(lags[0]);
        heard.last_at = heard.last_at.max(at + out + responder);
        ping.acked = true;
        let answers = at + out + responder;
        // Answers are not labelled.
        let back = Packet { from: self.to, to: self.from, label: 0, at: answers, ..there };
        let Some(home) = net.carry(&back, random) else { return };
        let Some(own) = net.held(self.from, answers + home, random) else { return };
        let prober = own.ns.max(lags[1]);
        let handled = answers + home + prober;
        if handled - at >= TIMEOUT_NS {
            ping.late = handled < self.times.last().copied().unwrap_or(at) + 2 * TIMEOUT_NS;
            return;
        }
        ping.answered = true;
        *over_at = handled.max(*over_at);
        let second = Packet { large: false, ..back };
        if net.carry(&second, random).is_some() {
            let hardware = net.topology().layout.hardware_stamps;
            let vague = (held.vague || own.vague) && !hardware;
            let network = (!vague).then_some(out + home + lags[0] + lags[1]);
            ping.shares = Some((network, responder - lags[0], prober - lags[1]));
        }
    }

    /// Asks how many pings were heard: whether that is known in the end, and when each question was asked.
    fn ask(&self, net: &Net, last: u64, random: &mut Random) -> (bool, Vec<u64>) {
        let mut asked = Vec::new();
        let label = self.labels.first().copied().unwrap_or(0);
        for question in 0..QUESTIONS_MAX {
            let at = last + TIMEOUT_NS + u64::from(question) * ASK_EVERY_NS;
            asked.push(at);
            let there = Packet { from: self.from, to: self.to, label, large: false, at };
            let back = Packet { from: self.to, to: self.from, label: 0, ..there };
            let heard = net.carry(&there, random).and_then(|out| net.held(self.to, at + out, random));
            if heard.is_some() && net.carry(&back, random).is_some() {
                return (true, asked);
            }
        }
        (false, asked)
    }
}

fn stats(pings: &[Ping], batch: u32, hardware: bool, known: bool, labelled: bool) -> PingStats {
    let shares = || pings.iter().filter(|ping| ping.answered).filter_map(|ping| ping.shares);
    let responder = delays(shares().map(|share| share.1));
    let prober = delays(shares().map(|share| share.2));
    let limit = |usual: Option<Delays>| {
        usual.map_or(u64::MAX, |usual| DELAYED_NS[usize::from(hardware)].max(5 * usual.p50_ns))
    };
    let limits = (limit(responder), limit(prober));
    let delayed = shares().filter(|share| share.0.is_none() || share.1 > limits.0 || share.2 > limits.1);
    let network = |large: bool| {
        let of_size = pings.iter().filter(move |ping| ping.answered && ping.large == large);
        delays(of_size.filter_map(|ping| ping.shares.and_then(|share| share.0)))
    };
    PingStats {
        batch,
        clock: if hardware { StampClock::Hardware } else { StampClock::Software },
        small: counts(pings, false, known),
        large: counts(pings, true, known),
        network: network(false),
        network_large: network(true),
        responder,
        prober,
        host_delayed: number(delayed.count()),
        invalid_stamps: 0,
        stale: 0,
        labels: if labelled { labels(pings) } else { Vec::new() },
    }
}

fn counts(pings: &[Ping], large: bool, known: bool) -> PingCounts {
    let count =
        |is: fn(&Ping) -> bool| number(pings.iter().filter(|ping| ping.large == large && is(ping)).count());
    let (sent, answered, late) = (count(|_| true), count(|ping| ping.answered), count(|ping| ping.late));
    let bytes = if large { LARGE_BYTES } else { SMALL_BYTES };
    PingCounts {
        payload_bytes: if sent > 0 { bytes } else { 0 },
        sent,
        answered,
        lost_forward: known.then(|| sent - count(|ping| ping.heard)),
        lost_backward: known.then(|| count(|ping| ping.acked) - answered - late),
        late,
        duplicate: 0,
        reordered: 0,
    }
}

/// One label after the other, in the order of their first ping.
fn labels(pings: &[Ping]) -> Vec<LabelResult> {
    let mut results: Vec<LabelResult> = Vec::with_capacity(pings.len() / 3);
    for ping in pings {
        let known = results.iter_mut().find(|result| result.flow_label == ping.label);
        let answered = u32::from(ping.answered);
        match known {
            Some(result) => {
                result.sent += 1;
                result.answered += answered;
            }
            None => {
                results.push(LabelResult { flow_label: ping.label, sent: 1, answered, p50_ns: None });
            }
        }
    }
    for result in &mut results {
        let small =
            pings.iter().filter(|ping| ping.label == result.flow_label && ping.answered && !ping.large);
        let network = small.filter_map(|ping| ping.shares.and_then(|share| share.0));
        result.p50_ns = delays(network).map(|delays| delays.p50_ns);
    }
    results
}

/// The figures of a batch's samples, of which there are too few for a 99th percentile.
pub(crate) fn delays(samples: impl Iterator<Item = u64>) -> Option<Delays> {
    let mut samples: Vec<u64> = samples.collect();
    samples.sort_unstable();
    let (&min_ns, &max_ns) = (samples.first()?, samples.last()?);
    let rank = |per_mille: usize| samples[(samples.len() * per_mille).div_ceil(1_000).max(1) - 1];
    Some(Delays {
        count: number(samples.len()),
        min_ns,
        p50_ns: rank(500),
        p99_ns: (samples.len() >= 300).then(|| rank(990)),
        max_ns,
    })
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
