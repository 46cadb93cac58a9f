//! In the steady state a ping allocates nothing, on neither side: counted by the allocator itself.
#![expect(clippy::unwrap_used, reason = "tests")]

use rdmascope_model::{DatagramAddress, Mono, Peer};
use rdmascope_probe::mesh::{Datagram, Engine, MeshGrant, Output, Source, Stamp, Stamps};
use std::sync::Arc;

#[path = "../../sys/tests/counting/mod.rs"]
mod counting;
use counting::allocations;

const SECOND: u64 = 1_000_000_000;

fn address(host: u32) -> DatagramAddress {
    let gid = format!("::ffff:10.8.0.{}", host + 1).parse().unwrap();
    DatagramAddress { gid, lid: 0, queue_pair: 100 + host, queue_key: 7, mtu_bytes: 4096 }
}

/// Two engines that reach each other at once. Answers how many allocations there were while nothing but pings moved, and
/// how many pings that were.
fn run(engines: &mut [Engine; 2], now: &mut u64, until: u64) -> (u64, u64) {
    let (mut allocated, mut pings) = (0, 0);
    let mut wire: Vec<(usize, Datagram)> = Vec::with_capacity(256);
    let mut told = Vec::with_capacity(256);
    while *now < until {
        let before = allocations();
        let at = Mono(*now);
        let mut others = 0;
        engines.iter_mut().for_each(|engine| engine.tick(at));
        loop {
            for (from, engine) in engines.iter_mut().enumerate() {
                while let Some(output) = engine.pop() {
                    match output {
                        Output::Send(datagram) => {
                            engine.sent(datagram.id, Stamp::software(at));
                            engine.sent(datagram.id, Stamp::hardware(at.0));
                            engine.completed(datagram.id);
                            wire.push((from, datagram));
                        }
                        Output::Resolve { batch, .. } => {
                            others += 1;
                            engine.resolved(batch, Ok(()), at);
                        }
                        other => {
                            others += 1;
                            told.push(other);
                        }
                    }
                }
            }
            if wire.is_empty() {
                break;
            }
            for (from, datagram) in wire.drain(..) {
                pings += 1;
                let own = engines[from].address();
                let source = Source { gid: Some(own.gid), lid: 0, queue_pair: own.queue_pair };
                let (header, bytes) = (datagram.header, datagram.payload_bytes);
                let hardware = Some(Stamp::hardware(at.0));
                let stamps = Stamps { software: Stamp::software(at), hardware };
                engines[1 - from].received(Some(source), &header, bytes, stamps, at);
            }
        }
        // Beginning and ending a batch may allocate; a ping between them may not.
        if others == 0 {
            allocated += allocations() - before;
        }
        told.clear();
        let due = engines.iter().filter_map(|engine| engine.due(at)).min().unwrap();
        *now = due.0.max(*now);
    }
    (allocated, pings)
}

#[test]
fn a_ping_allocates_nothing_by_either_clock() {
    for by_device in [false, true] {
        check(by_device);
    }
}

fn check(by_device: bool) {
    let names: [rdmascope_model::EndpointName; 2] = ["a/d/1", "b/d/1"].map(|name| name.parse().unwrap());
    let book: Arc<[Peer]> = (0..2)
        .map(|host| Peer { name: names[host].clone(), address: Some(address(host as u32)), rail: 0 })
        .collect();
    let mut now = SECOND;
    let grant = MeshGrant {
        until: Mono(100 * SECOND),
        pings_per_second: 100,
        pings_per_batch: 90,
        labels: 8,
        cross_rail_every: 1,
        sweep: None,
    };
    let mut engines = [0, 1].map(|host| {
        let mut engine =
            Engine::new(names[host].clone(), address(host as u32), 1 << 40 | host as u64, Mono(now));
        engine.set_book(Arc::clone(&book), Mono(now));
        engine.set_grant(Some(grant), Mono(now));
        if by_device {
            engine.trust_device();
        }
        engine
    });
    run(&mut engines, &mut now, 10 * SECOND);
    let (allocated, datagrams) = run(&mut engines, &mut now, 60 * SECOND);
    // 2 engines, 100 pings a second, 3 datagrams each.
    assert!(datagrams > 25_000, "{datagrams} datagrams");
    assert_eq!(allocated, 0, "in {datagrams} datagrams");
}
