//! The mesh of a whole cluster packet by packet: the real engine of each endpoint over the simulated fabric.

use crate::net::{Net, Packet};
use crate::random::Random;
use rdmascope_model::{DatagramAddress, Gid, Mono, Peer, StampClock};
use rdmascope_probe::mesh::{Datagram, Engine, MeshEvent, MeshGrant, Output, Source, Stamp};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// One endpoint whose agent runs.
#[derive(Clone, Debug)]
struct Open {
    engine: Engine,
    due: Option<Place>,
}

/// A place in the queue.
type Place = (u64, u64);

#[derive(Clone, Debug)]
enum Event {
    /// The engine of an endpoint has something to do.
    Due(usize),
    /// An endpoint's agent looks at a datagram.
    Look(Box<Arrival>),
}

#[derive(Clone, Debug)]
struct Arrival {
    from: usize,
    to: usize,
    queue_pair: u32,
    datagram: Datagram,
    stamp: Stamp,
}

/// All endpoints and the packets between them.
#[derive(Clone, Debug)]
pub(crate) struct Packets {
    open: Vec<Option<Open>>,
    by_gid: BTreeMap<Gid, usize>,
    queue: BTreeMap<Place, Event>,
    serial: u64,
    /// What meshes tell, with the endpoint that does.
    pub(crate) told: Vec<(usize, MeshEvent)>,
}

/// Where an endpoint takes datagrams in a run of its agent.
pub(crate) fn address(end: usize, run: u64) -> DatagramAddress {
    let [.., high, low] = u32::try_from(end + 1).unwrap_or(u32::MAX).to_be_bytes();
    let queue_pair = u32::try_from(0x100 + run * 0x1_0000).unwrap_or(u32::MAX) + end as u32;
    DatagramAddress {
        gid: Gid::from(std::net::IpAddr::V4(Ipv4Addr::new(10, 8, high, low))),
        lid: 0,
        queue_pair: queue_pair & 0x00ff_ffff,
        queue_key: 0x1000 + end as u32,
        mtu_bytes: 4_096,
    }
}

impl Packets {
    pub(crate) fn new(net: &Net) -> Self {
        let ends = net.topology().len();
        Self {
            open: vec![None; ends],
            by_gid: (0..ends).map(|end| (address(end, 0).gid, end)).collect(),
            queue: BTreeMap::new(),
            serial: 0,
            told: Vec::new(),
        }
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<u64> {
        self.queue.first_key_value().map(|(&(at, _), _)| at)
    }

    /// An endpoint's agent begins.
    pub(crate) fn open(&mut self, end: usize, address: DatagramAddress, nonce: u64, now: Mono, net: &Net) {
        let mut engine = Engine::new(net.topology().name(end), address, nonce, now);
        if clock(net) == StampClock::Hardware {
            engine.trust_device();
        }
        self.close(end);
        self.open[end] = Some(Open { engine, due: None });
    }

    /// An endpoint's agent ends; packets to it come to nobody.
    pub(crate) fn close(&mut self, end: usize) {
        let due = self.open[end].take().and_then(|open| open.due);
        due.and_then(|due| self.queue.remove(&due));
    }

    pub(crate) fn set_book(
        &mut self,
        end: usize,
        book: &Arc<[Peer]>,
        now: Mono,
        net: &Net,
        random: &mut Random,
    ) {
        if let Some(open) = &mut self.open[end] {
            open.engine.set_book(Arc::clone(book), now);
            self.settle(end, now.0, net, random);
        }
    }

    pub(crate) fn set_grant(
        &mut self,
        end: usize,
        grant: Option<MeshGrant>,
        now: Mono,
        net: &Net,
        random: &mut Random,
    ) {
        if let Some(open) = &mut self.open[end] {
            open.engine.set_grant(grant, now);
            self.settle(end, now.0, net, random);
        }
    }

    /// Lets the next thing happen; at whose endpoint.
    pub(crate) fn step(&mut self, net: &Net, random: &mut Random) -> Option<usize> {
        let ((now, _), event) = self.queue.pop_first()?;
        let end = match event {
            Event::Due(end) => {
                if let Some(open) = &mut self.open[end] {
                    open.due = None;
                }
                end
            }
            Event::Look(arrival) => {
                self.look(&arrival, now);
                arrival.to
            }
        };
        self.settle(end, now, net, random);
        Some(end)
    }

    fn look(&mut self, arrival: &Arrival, now: u64) {
        let Some(open) = &mut self.open[arrival.to] else { return };
        let datagram = &arrival.datagram;
        if datagram.to.address.queue_pair != open.engine.address().queue_pair {
            return;
        }
        let gid = Some(address(arrival.from, 0).gid);
        let source = Source { gid, lid: 0, queue_pair: arrival.queue_pair };
        open.engine.received(
            Some(source),
            &datagram.header,
            datagram.payload_bytes,
            arrival.stamp,
            Mono(now),
        );
    }

    /// Lets an engine do what is due, unless its host is kept from running; takes what it wants.
    fn settle(&mut self, end: usize, now: u64, net: &Net, random: &mut Random) {
        let Some(open) = &mut self.open[end] else { return };
        let runs = net.runs_at(end, now);
        if runs == now {
            open.engine.tick(Mono(now));
        }
        while let Some(output) = self.open[end].as_mut().and_then(|open| open.engine.pop()) {
            self.take(end, output, now, net, random);
        }
        let Some(open) = &mut self.open[end] else { return };
        open.due.take().and_then(|due| self.queue.remove(&due));
        let due = open.engine.due(Mono(now)).map(|due| net.runs_at(end, due.0.max(now)));
        if let Some(at) = due {
            // A thing that is due at once waits for a nanosecond, so that time goes on.
            let key = self.expect(at.max(now + 1), Event::Due(end));
            self.open[end].iter_mut().for_each(|open| open.due = Some(key));
        }
    }

    fn take(&mut self, end: usize, output: Output, now: u64, net: &Net, random: &mut Random) {
        let Some(open) = &mut self.open[end] else { return };
        let engine = &mut open.engine;
        match output {
            Output::Resolve { batch, .. } => engine.resolved(batch, Ok(()), Mono(now)),
            Output::Send(datagram) => {
                let clock = clock(net);
                engine.sent(datagram.id, Stamp { ns: now, clock, vague: false });
                engine.completed(datagram.id);
                let queue_pair = engine.address().queue_pair;
                self.carry(end, queue_pair, datagram, now, net, random);
            }
            Output::Pings(peer, stats) => {
                let local = net.topology().name(end);
                self.told.push((end, MeshEvent::Pings(local, peer, stats)));
            }
            Output::Heard(heard) => self.told.push((end, MeshEvent::Heard(heard))),
            Output::Unreachable(..) | Output::Leased(..) => {}
        }
    }

    fn carry(
        &mut self,
        from: usize,
        queue_pair: u32,
        datagram: Datagram,
        now: u64,
        net: &Net,
        random: &mut Random,
    ) {
        let Some(&to) = self.by_gid.get(&datagram.to.address.gid) else { return };
        let label = datagram.to.marks.flow_label;
        let packet = Packet { from, to, label, large: datagram.payload_bytes > 64, at: now };
        let Some(out) = net.carry(&packet, random) else { return };
        let on_wire = now + out;
        let Some(held) = net.held(to, on_wire, random) else { return };
        let lag = net.stamp_lag(random);
        let clock = clock(net);
        let vague = held.vague && clock == StampClock::Software;
        let stamp = Stamp { ns: on_wire + lag, clock, vague };
        let arrival = Arrival { from, to, queue_pair, datagram, stamp };
        self.expect(on_wire + held.ns.max(lag), Event::Look(Box::new(arrival)));
    }

    fn expect(&mut self, at: u64, event: Event) -> Place {
        self.serial += 1;
        let place = (at, self.serial);
        self.queue.insert(place, event);
        place
    }
}

fn clock(net: &Net) -> StampClock {
    if net.topology().layout.hardware_stamps { StampClock::Hardware } else { StampClock::Software }
}
