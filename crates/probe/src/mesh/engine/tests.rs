//! Tries to make an engine hurt somebody, or tell what is not so.

mod leases;
mod rota;

use super::rota::BATCHES_MAX;
use super::*;
use crate::mesh::packet::Sizes;
use crate::mesh::stamp::Stamps;
use rdmascope_model::StampClock;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// One way, through the fabric.
const WIRE: u64 = 5_000;

fn name(host: usize) -> EndpointName {
    format!("n{host}/d/1").parse().unwrap()
}

fn address(host: usize) -> DatagramAddress {
    let gid = format!("::ffff:10.8.{}.{}", host / 200, host % 200 + 1).parse().unwrap();
    DatagramAddress {
        gid,
        lid: 0,
        queue_pair: 100 + host as u32,
        queue_key: 7 + host as u32,
        mtu_bytes: 4096,
    }
}

fn source(host: usize) -> Source {
    Source { gid: Some(address(host).gid), lid: 0, queue_pair: address(host).queue_pair }
}

fn book(hosts: usize) -> Arc<[Peer]> {
    (0..hosts).map(|host| Peer { name: name(host), address: Some(address(host)), rail: 0 }).collect()
}

fn grant(until: u64) -> MeshGrant {
    MeshGrant {
        until: Mono(until),
        pings_per_second: 10,
        pings_per_batch: 30,
        labels: 1,
        cross_rail_every: 1,
        sweep: None,
    }
}

/// Engines on a wire that loses nothing but what `lose` says, and what they told.
struct Net {
    now: u64,
    engines: Vec<Engine>,
    lose: fn(&Header, usize) -> bool,
    /// What is under way: when it arrives, from whom, to whom.
    wire: Vec<(u64, usize, Datagram)>,
    /// Pings and questions by the engine that sent them, with their times.
    pings: Vec<(u64, usize)>,
    told: Vec<(usize, Output)>,
    /// Of all datagrams.
    classes: Vec<u8>,
}

impl Net {
    fn new(hosts: usize) -> Self {
        let engines: Vec<Engine> = (0..hosts)
            .map(|h| Engine::new(name(h), address(h), 0x1234_5678_0000 + h as u64, Mono(SECOND)))
            .collect();
        let mut net = Self {
            now: SECOND,
            engines,
            lose: |_, _| false,
            wire: Vec::new(),
            pings: Vec::new(),
            told: Vec::new(),
            classes: Vec::new(),
        };
        for at in 0..hosts {
            net.engines[at].set_book(book(hosts), Mono(SECOND));
        }
        net
    }

    fn granted(hosts: usize, grant: MeshGrant) -> Self {
        let mut net = Self::new(hosts);
        let now = Mono(net.now);
        net.engines.iter_mut().for_each(|engine| engine.set_grant(Some(grant), now));
        net
    }

    fn collect(&mut self, at: usize) {
        while let Some(output) = self.engines[at].pop() {
            match output {
                Output::Resolve { batch, .. } => self.engines[at].resolved(batch, Ok(()), Mono(self.now)),
                Output::Send(datagram) => {
                    let header = Header::decode(&datagram.header).unwrap();
                    if matches!(header.kind, Kind::Ping | Kind::Question) {
                        self.pings.push((self.now, at));
                    }
                    self.classes.push(datagram.to.marks.traffic_class);
                    self.engines[at].sent(datagram.id, Stamp::software(Mono(self.now)));
                    self.engines[at].completed(datagram.id);
                    if !(self.lose)(&header, at) {
                        self.wire.push((self.now + WIRE, at, datagram));
                    }
                }
                told => self.told.push((at, told)),
            }
        }
    }

    fn run(&mut self, until: u64) {
        loop {
            (0..self.engines.len()).for_each(|at| self.collect(at));
            let arrival = self.wire.iter().map(|(at, ..)| *at).min();
            let due =
                self.engines.iter().filter_map(|engine| engine.due(Mono(self.now))).map(|due| due.0).min();
            let next = [arrival, due].into_iter().flatten().min().unwrap_or(u64::MAX).max(self.now);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            let now = Mono(next);
            if let Some(first) = self.wire.iter().position(|(at, ..)| *at <= next) {
                let (_, from, datagram) = self.wire.remove(first);
                let to = self.engines.iter().position(|e| e.address.gid == datagram.to.address.gid).unwrap();
                if datagram.to.address.queue_pair == self.engines[to].address.queue_pair {
                    let own = self.engines[from].address;
                    let source = Source { gid: Some(own.gid), lid: 0, queue_pair: own.queue_pair };
                    let (header, bytes) = (datagram.header, datagram.payload_bytes);
                    self.engines[to].received(Some(source), &header, bytes, Stamp::software(now), now);
                }
            }
            self.engines.iter_mut().for_each(|engine| engine.tick(now));
        }
    }

    fn pings_of(&self, host: usize) -> usize {
        self.pings.iter().filter(|(_, at)| *at == host).count()
    }

    fn stats(&self, host: usize) -> Vec<&PingStats> {
        let of_host = self.told.iter().filter(|(at, _)| *at == host);
        of_host
            .filter_map(|(_, told)| if let Output::Pings(_, stats) = told { Some(&**stats) } else { None })
            .collect()
    }

    fn heard(&self) -> Vec<&Heard> {
        self.told
            .iter()
            .filter_map(|(_, told)| if let Output::Heard(heard) = told { Some(heard) } else { None })
            .collect()
    }
}

#[test]
fn a_batch_of_each_peer_is_told_with_both_sizes_and_the_shares_of_its_time() {
    let mut net = Net::granted(3, grant(100 * SECOND));
    net.run(13 * SECOND);
    let stats = net.stats(0);
    assert!(stats.len() >= 3, "{} batches in 12 s of 3 s each", stats.len());
    let first = stats[0];
    assert_eq!((first.small.sent, first.small.answered, first.small.payload_bytes), (20, 20, 64));
    assert_eq!((first.large.sent, first.large.answered, first.large.payload_bytes), (10, 10, 4096));
    assert_eq!((first.small.lost_forward, first.small.lost_backward), (Some(0), Some(0)));
    assert_eq!((first.invalid_stamps, first.stale, first.host_delayed), (0, 0, 0));
    let network = first.network.unwrap();
    assert_eq!((network.count, network.min_ns, network.max_ns), (20, 2 * WIRE, 2 * WIRE));
    assert_eq!(first.network_large.unwrap().p50_ns, 2 * WIRE);
    assert_eq!((first.responder.unwrap().max_ns, first.prober.unwrap().max_ns), (0, 0));
    assert_ne!(first.batch, 0);
    assert!(net.heard().iter().any(|heard| heard.small == 20 && heard.large == 10));
    let peers: Vec<&EndpointName> = net
        .told
        .iter()
        .filter_map(|(at, told)| match told {
            Output::Pings(peer, _) if *at == 0 => Some(peer),
            _ => None,
        })
        .collect();
    assert_eq!(peers[..2], [&name(1), &name(2)], "one peer after the other");
}

#[test]
fn nothing_is_sent_without_a_grant() {
    let mut net = Net::new(3);
    net.run(20 * SECOND);
    assert_eq!(net.pings, []);
    let now = Mono(net.now);
    net.engines[0].set_grant(Some(grant(10 * SECOND)), now);
    net.engines[1].set_grant(Some(MeshGrant { pings_per_second: 0, ..grant(60 * SECOND) }), now);
    net.run(40 * SECOND);
    assert_eq!(net.pings, [], "a grant that has run out, and one of nothing");
}

#[test]
fn a_grant_ends_by_itself_when_nobody_says_anything_any_more() {
    let mut net = Net::granted(3, grant(5 * SECOND));
    net.run(60 * SECOND);
    let last = net.pings.iter().map(|(at, _)| *at).max().unwrap();
    assert!((4 * SECOND..5 * SECOND).contains(&last), "the last ping left at {last}");
    let sent: u32 = net.stats(0).iter().map(|s| s.small.sent + s.large.sent).sum();
    assert_eq!(sent as usize, net.pings_of(0), "what was sent until then is told");
    assert!(net.engines.iter().all(|engine| engine.due(Mono(net.now)).is_none()), "and then they sleep");
}

#[test]
fn taking_the_grant_away_stops_the_pings_but_not_the_answers() {
    let mut net = Net::granted(2, grant(100 * SECOND));
    net.run(3 * SECOND);
    let now = Mono(net.now);
    net.engines[0].set_grant(None, now);
    let before = net.pings_of(0);
    net.run(20 * SECOND);
    assert_eq!(net.pings_of(0), before);
    assert!(
        net.stats(1).iter().all(|s| s.small.answered == s.small.sent && s.small.sent > 0),
        "1 is answered"
    );
}

#[test]
fn no_grant_and_no_book_exceeds_the_rate() {
    let fast = MeshGrant {
        pings_per_second: u32::MAX,
        pings_per_batch: u32::MAX,
        labels: u32::MAX,
        ..grant(100 * SECOND)
    };
    let mut net = Net::new(2);
    let now = Mono(net.now);
    net.engines[0].set_grant(Some(fast), now);
    for step in 0..100 {
        net.run(SECOND + step * 100 * MS);
        // Grants that come again and again, of changing rates, are no way around it.
        let rate = if step % 2 == 0 { 100 } else { 99 };
        let now = Mono(net.now);
        net.engines[0].set_grant(Some(MeshGrant { pings_per_second: rate, ..fast }), now);
        net.engines[0].set_book(book(2), now);
    }
    let times: Vec<u64> = net.pings.iter().filter(|(_, at)| *at == 0).map(|(at, _)| *at).collect();
    assert!(times.len() > 800, "{} pings in 10 s", times.len());
    // A hundred, those of one moment at an end of the window, and those of one for a beat that moved.
    for window in times.windows(109) {
        assert!(window[108] - window[0] > SECOND, "109 pings within a second");
    }
}

#[test]
fn a_book_of_4096_peers_changes_neither_the_rate_nor_what_is_kept() {
    let mut net = Net::new(1);
    let now = Mono(net.now);
    net.engines[0].set_book(book(4_096), now);
    net.engines[0].set_grant(Some(grant(100 * SECOND)), now);
    net.lose = |_, _| true;
    net.run(61 * SECOND);
    assert!((590..=601).contains(&net.pings_of(0)), "{} pings in 60 s at 10 a second", net.pings_of(0));
    assert!(net.engines[0].batches.len() <= BATCHES_MAX);
    let bytes: usize = net.engines[0].batches.iter().map(|batch| batch.pings.capacity() * 64).sum();
    assert!(bytes <= BATCHES_MAX * 30 * 64, "{bytes} bytes of pings under way");
}

#[test]
fn each_endpoint_begins_elsewhere_in_the_book_and_pings_neither_its_own_node_nor_another_kind() {
    let mut entries = book(4).to_vec();
    entries[1].address = None;
    entries.push(Peer { name: "n0/e/1".parse().unwrap(), address: Some(address(9)), rail: 0 });
    let six = DatagramAddress { gid: "fd00::9".parse().unwrap(), ..address(9) };
    entries.push(Peer { name: "n7/d/1".parse().unwrap(), address: Some(six), rail: 0 });
    entries.push(Peer {
        name: "n8/d/1".parse().unwrap(),
        address: Some(DatagramAddress { lid: 4, ..address(9) }),
        rail: 0,
    });
    let entries: Arc<[Peer]> = entries.into();
    let mut firsts = Vec::new();
    for (own, others) in [(0, 2), (2, 3)] {
        let mut engine = Engine::new(name(own), address(own), 1, Mono(0));
        engine.set_book(Arc::clone(&entries), Mono(0));
        assert_eq!(engine.pingable, others);
        engine.set_grant(Some(grant(SECOND)), Mono(0));
        let mut asked = Vec::new();
        while let Some(Output::Resolve { to, .. }) = engine.pop() {
            asked.push(to[0].address.queue_pair - 100);
        }
        firsts.push(asked);
    }
    assert_eq!(firsts, [vec![2, 3], vec![3, 9]]);
}

fn ping(batch: u32, sequence: u32) -> Header {
    Header {
        kind: Kind::Ping,
        large: false,
        batch,
        sequence,
        nonce: 99,
        queue_key: 8,
        label: 0,
        heard: Sizes::default(),
        acked: Sizes::default(),
        delay: None,
        vague: false,
    }
}

/// Datagrams that an engine sends upon one that comes in; their buffers are free at once.
fn upon(engine: &mut Engine, from: Option<Source>, header: &Header, now: u64) -> Vec<Header> {
    let at = Mono(now);
    engine.received(from, &header.encode(), 64, Stamp::software(at), at);
    let mut sent = Vec::new();
    while let Some(output) = engine.pop() {
        if let Output::Send(datagram) = output {
            engine.sent(datagram.id, Stamp::software(at));
            engine.completed(datagram.id);
            sent.push(Header::decode(&datagram.header).unwrap());
        }
    }
    sent
}

#[test]
fn a_peer_that_floods_is_answered_at_a_bounded_rate_and_counted() {
    let mut engine = Net::new(3).engines.swap_remove(0);
    let mut answers = 0;
    for i in 0..100_000_u64 {
        // 10,000 a second for 10 s.
        answers += upon(&mut engine, Some(source(1)), &ping(5, i as u32), SECOND + i * 100_000).len();
    }
    assert!(
        (4_000..=4_500).contains(&answers),
        "{answers} answers, two for each of 200 pings a second and a burst"
    );
    assert!(engine.refused() > 97_000, "{}", engine.refused());
    assert_eq!(upon(&mut engine, Some(source(2)), &ping(1, 0), 11 * SECOND).len(), 2, "others are answered");
}

#[test]
fn strangers_noise_and_forged_answers_are_refused_and_nothing_is_sent_to_them() {
    let mut net = Net::granted(2, grant(100 * SECOND));
    net.lose = |_, _| true;
    net.run(2 * SECOND);
    let engine = &mut net.engines[0];
    let number = engine.batches[0].number;
    let before = engine.refused();
    assert_eq!(upon(engine, Some(source(77)), &ping(1, 0), 2 * SECOND), [], "unknown GID");
    assert_eq!(upon(engine, None, &ping(1, 0), 2 * SECOND), [], "no GID at all");
    assert_eq!(upon(engine, Some(source(1)), &Header { queue_key: 1 << 31, ..ping(1, 0) }, 2 * SECOND), []);
    engine.received(Some(source(1)), &[0; 64], 64, Stamp::software(Mono(1)), Mono(1));
    engine.received(Some(source(1)), b"short", 5, Stamp::software(Mono(1)), Mono(1));
    let answer = Header { kind: Kind::FirstAck, nonce: engine.nonce, ..ping(number, 0) };
    assert_eq!(upon(engine, Some(source(77)), &answer, 2 * SECOND), [], "an answer from a stranger");
    assert_eq!(engine.refused() - before, 6);
    // The right port, but a wrong batch, run or queue pair: told as stale, never as an answer.
    let forged = [
        (source(1), Header { batch: number + 77, ..answer }),
        (source(1), Header { nonce: 1, ..answer }),
        (Source { queue_pair: 5, ..source(1) }, answer),
    ];
    for (from, header) in forged {
        assert_eq!(upon(engine, Some(from), &header, 2 * SECOND), []);
    }
    assert_eq!(engine.batches[0].stale_answers, 3);
    // An answer to a ping that was never sent.
    upon(engine, Some(source(1)), &Header { sequence: u32::MAX, ..answer }, 2 * SECOND);
    net.run(10 * SECOND);
    let stats = net.stats(0)[0];
    assert_eq!((stats.stale, stats.small.answered, stats.large.answered), (3, 0, 0));
}

#[test]
fn a_peer_that_restarts_is_stale_and_not_lost() {
    let mut net = Net::granted(2, grant(100 * SECOND));
    net.run(2 * SECOND);
    // It comes back with another queue pair; half a second later the new book is there.
    let reborn = DatagramAddress { queue_pair: 900, queue_key: 901, ..address(1) };
    net.engines[1] = Engine::new(name(1), reborn, 55, Mono(net.now));
    net.run(2 * SECOND + 900 * MS);
    let new: Arc<[Peer]> = [
        Peer { name: name(0), address: Some(address(0)), rail: 0 },
        Peer { name: name(1), address: Some(reborn), rail: 0 },
    ]
    .into();
    let now = Mono(net.now);
    net.engines.iter_mut().for_each(|engine| engine.set_book(Arc::clone(&new), now));
    net.run(12 * SECOND);
    let stats = net.stats(0);
    let lost = |s: &PingStats| s.small.sent + s.large.sent - s.small.answered - s.large.answered;
    assert_eq!(stats.iter().map(|s| lost(s)).collect::<Vec<_>>(), vec![0; stats.len()], "no loss");
    assert!((8..=10).contains(&stats[0].stale), "{} pings to the old queue pair", stats[0].stale);
    assert!(stats.iter().skip(1).all(|s| s.stale == 0 && s.small.answered > 0));
}

#[test]
fn the_direction_of_loss_is_told_and_where_nothing_came_back_it_is_not() {
    let lost = |lose: fn(&Header, usize) -> bool| {
        let mut net = Net::granted(2, grant(5 * SECOND));
        net.engines[1].set_grant(None, Mono(net.now));
        net.lose = lose;
        net.run(20 * SECOND);
        let first = net.stats(0)[0];
        let heard: u32 = net.heard().iter().filter(|h| h.batch == first.batch).map(|h| h.small).sum();
        (first.small.sent - first.small.answered, first.small.lost_forward, first.small.lost_backward, heard)
    };
    assert_eq!(lost(|h, _| h.kind == Kind::Ping && h.sequence % 3 == 1), (10, Some(10), Some(0), 10));
    assert_eq!(lost(|h, _| h.kind == Kind::FirstAck && h.sequence % 3 == 1), (10, Some(0), Some(10), 20));
    // The last pings: only a question can tell.
    assert_eq!(lost(|h, _| h.kind == Kind::Ping && h.sequence >= 15), (10, Some(10), Some(0), 10));
    assert_eq!(lost(|h, at| at == 1 && h.sequence >= 15 && h.sequence < 30), (10, Some(0), Some(10), 20));
    // A dead direction: the responder's own report tells which.
    assert_eq!(lost(|_, at| at == 1), (20, None, None, 20));
    assert_eq!(lost(|_, at| at == 0), (20, None, None, 0));
}

#[test]
fn second_acknowledgements_that_are_lost_hold_nothing_up() {
    let mut net = Net::granted(2, grant(100 * SECOND));
    net.engines[1].set_grant(None, Mono(net.now));
    net.lose = |h, _| h.kind == Kind::SecondAck;
    // 30 pings in 2.9 s, and what is left of 300 ms is less than the time after which a ping counts as lost.
    net.run(SECOND + 3_200 * MS);
    let stats = net.stats(0);
    assert_eq!(stats.len(), 1, "told although nothing is known of the responder's host");
    assert_eq!((stats[0].small.answered, stats[0].large.answered, stats[0].responder), (20, 10, None));
}

#[test]
fn a_hole_for_large_packets_shows_in_large_pings_only() {
    let mut net = Net::granted(2, grant(100 * SECOND));
    net.lose = |h, _| h.large && h.kind != Kind::SecondAck;
    net.run(6 * SECOND);
    let first = net.stats(0)[0];
    assert_eq!((first.small.answered, first.large.answered), (20, 0));
    assert_eq!((first.large.lost_forward, first.large.lost_backward), (Some(10), Some(0)));
    assert_eq!(first.network_large, None);
}

#[test]
fn late_duplicate_and_overtaking_answers_are_counted_apart() {
    let mut engine = Net::new(2).engines.swap_remove(0);
    let fast = MeshGrant { pings_per_second: 100, pings_per_batch: 7, ..grant(100 * SECOND) };
    engine.set_grant(Some(fast), Mono(SECOND));
    let mut now = SECOND;
    let (mut sent, mut told) = (Vec::new(), None);
    while told.is_none() {
        while let Some(output) = engine.pop() {
            match output {
                Output::Resolve { batch, .. } => engine.resolved(batch, Ok(()), Mono(now)),
                Output::Send(datagram) => {
                    engine.sent(datagram.id, Stamp::software(Mono(now)));
                    engine.completed(datagram.id);
                    sent.push(Header::decode(&datagram.header).unwrap());
                }
                Output::Pings(_, stats) => told = Some(stats),
                _ => {}
            }
        }
        let mut answer = |sequence: usize, count: usize| {
            let ack = Header {
                kind: Kind::FirstAck,
                heard: Sizes { small: 5, large: 2 },
                acked: Sizes { small: 5, large: 2 },
                ..sent[sequence]
            };
            for _ in 0..count {
                engine.received(Some(source(1)), &ack.encode(), 64, Stamp::software(Mono(now)), Mono(now));
            }
        };
        if sent.len() >= 7 && now < SECOND + 200 * MS {
            // 0 in time, 3 overtakes 1, 4 comes three times, 5 never, 6 late, 2 late.
            [(0, 1), (3, 1), (1, 1), (4, 3)]
                .into_iter()
                .for_each(|(sequence, count)| answer(sequence, count));
            engine.set_grant(None, Mono(now));
            now = SECOND + 700 * MS;
            engine.tick(Mono(now));
            for sequence in [6, 2] {
                let ack = Header { kind: Kind::FirstAck, ..sent[sequence] };
                engine.received(Some(source(1)), &ack.encode(), 64, Stamp::software(Mono(now)), Mono(now));
            }
        } else {
            now = engine.due(Mono(now)).map_or(now + SECOND, |due| due.0.max(now));
        }
        engine.tick(Mono(now));
    }
    let stats = told.unwrap();
    let seen = |c: &rdmascope_model::PingCounts| (c.sent, c.answered, c.late, c.duplicate, c.reordered);
    assert_eq!(seen(&stats.small), (5, 4, 1, 2, 1), "{stats:?}");
    assert_eq!(seen(&stats.large), (2, 0, 1, 0, 0), "{stats:?}");
}

/// Eight pings by that clock.
fn plan(clock: StampClock) -> Plan {
    Plan {
        pings: 8,
        labels: vec![0],
        marks: Marks::default(),
        first_label: 0,
        lease: None,
        of_pass: false,
        large_bytes: 4096,
        clock,
    }
}

#[test]
fn stamps_that_are_of_no_use_are_counted_and_not_averaged() {
    let hardware = |ns| Stamp { ns, clock: StampClock::Hardware, vague: false };
    let delay = |ns| Some((ns, StampClock::Hardware));
    // t2, t5, what the second acknowledgement says; usable?
    let cases = [
        (hardware(1_000), hardware(9_000), delay(3_000), true),
        (hardware(0), hardware(9_000), delay(3_000), false),
        (hardware(1_000), hardware(0), delay(3_000), false),
        (hardware(9_000), hardware(1_000), delay(3_000), false),
        (hardware(1_000), hardware(9_000), delay(8_001), false),
        (hardware(1_000), hardware(9_000), None, false),
        (
            hardware(1_000),
            Stamp { ns: 9_000, clock: StampClock::Software, vague: false },
            delay(3_000),
            false,
        ),
    ];
    let mut batch = Batch::new(1, name(1), address(1), plan(StampClock::Hardware));
    for (sequence, (t2, t5, delay, _)) in (0..).zip(cases) {
        batch.issue(Mono(500_000));
        batch.sent(sequence, t2);
        let ack = Header { delay, ..ping(1, sequence) };
        batch.answered(&ack, true, t5.into(), Mono(520_000));
        batch.answered(&ack, false, t5.into(), Mono(530_000));
    }
    let stats = crate::mesh::stats::stats(&batch);
    assert_eq!(stats.clock, StampClock::Hardware);
    assert_eq!((stats.invalid_stamps, stats.small.answered + stats.large.answered), (6, 7));
    let (network, prober) = (stats.network.unwrap(), stats.prober.unwrap());
    assert_eq!((network.count, network.p50_ns, prober.p50_ns), (1, 5_000, 12_000));
}

#[test]
fn what_cannot_be_told_apart_from_a_busy_host_is_the_hosts_and_never_the_networks_nor_invalid() {
    let at = |us: u64| Stamp::software(Mono(500_000 + us * 1_000));
    let vague = |us: u64| Stamp::vague(Mono(500_000 + us * 1_000));
    let told = |us: u64, vague: bool| (us * 1_000, vague);
    // t2, t5, the responder's delay; t1 is at 0 and t6 at 50 ms. Only the first two are the network's.
    let cases = [
        (at(10), at(30), told(5, false)),
        (at(10), at(40), told(15, false)),
        (vague(9_000), at(9_900), told(5, false)),
        (at(10), vague(9_900), told(5, false)),
        (at(10), at(49_000), told(20_000, true)),
        // It was woken for something else, and stamped the ping as early as that.
        (at(10), at(30), told(20_000, true)),
        (at(10), at(30), told(21, false)),
        // Posted, and the answer was there before the program went on.
        (at(9_000), at(30), told(5, false)),
    ];
    let mut batch = Batch::new(1, name(1), address(1), plan(StampClock::Software));
    for (sequence, (t2, t5, (delay_ns, vague))) in (0..).zip(cases) {
        batch.issue(Mono(500_000));
        batch.sent(sequence, t2);
        let ack = Header { delay: Some((delay_ns, StampClock::Software)), vague, ..ping(1, sequence) };
        batch.answered(&ack, true, t5.into(), Mono(50_500_000));
        batch.answered(&ack, false, t5.into(), Mono(50_600_000));
    }
    let stats = crate::mesh::stats::stats(&batch);
    let network = stats.network.unwrap();
    assert_eq!((network.count, network.max_ns, stats.network_large), (2, 15_000, None), "{stats:?}");
    assert_eq!((stats.host_delayed, stats.invalid_stamps), (6, 0));
    let (prober, responder) = (stats.prober.unwrap(), stats.responder.unwrap());
    assert_eq!((prober.count, responder.count), (8, 8), "hosts answer for all of them");
    assert_eq!((prober.max_ns, responder.max_ns), (50_000_000, 20_000_000));
}

#[test]
fn a_responder_that_was_kept_from_running_says_so() {
    for (received, sent, vague) in [
        (Stamp::software(Mono(5)), Stamp::software(Mono(9)), false),
        (Stamp::vague(Mono(5)), Stamp::software(Mono(9)), true),
        (Stamp::software(Mono(5)), Stamp::vague(Mono(9)), true),
    ] {
        let mut engine = Net::new(2).engines.swap_remove(0);
        engine.received(Some(source(1)), &ping(1, 0).encode(), 64, received, Mono(2 * SECOND));
        let Some(Output::Send(first)) = engine.pop() else { panic!("no answer") };
        engine.sent(first.id, sent);
        let Some(Output::Send(second)) = engine.pop() else { panic!("no second answer") };
        let header = Header::decode(&second.header).unwrap();
        assert_eq!((header.delay, header.vague), (Some((4, StampClock::Software)), vague));
    }
}
