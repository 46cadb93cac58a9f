//! RC RDMA-write ping-pong between two processes, for comparing the wrapper's cost with `ib_write_lat`.
//!
//! `pingpong DEVICE listen PORT` on one side, `pingpong DEVICE 127.0.0.1:PORT [COUNT]` on the other. The side that
//! connects prints half round trips in microseconds.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;

use rdmascope_sys::{
    Access, AddressVector, Completion, CompletionQueue, Context, GidKind, GlobalRoute, InitAttributes,
    MemoryRegion, Mtu, QueuePair, QueuePairKind, QueuePairOptions, ReadyToReceiveAttributes,
    ReadyToSendAttributes, RemoteBuffer, SendRequest, TickScale, Verbs, ticks,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const SIZE: usize = 8;
const SEQUENCE: u32 = 1;

/// What one side must know of the other: sent as one line of text.
#[derive(Debug, Clone, Copy)]
struct Peer {
    gid: [u8; 16],
    queue_pair: u32,
    buffer: RemoteBuffer,
    count: u32,
}

impl Peer {
    fn exchange(self, stream: &mut BufReader<TcpStream>) -> Result<Self> {
        let Self { gid, queue_pair, buffer, count } = self;
        let gid = u128::from_be_bytes(gid);
        writeln!(stream.get_mut(), "{gid} {queue_pair} {} {} {count}", buffer.address, buffer.key)?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let words: Vec<u128> =
            line.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
        let [gid, queue_pair, address, key, count] = words[..] else { return Err("bad line".into()) };
        Ok(Self {
            gid: gid.to_be_bytes(),
            queue_pair: u32::try_from(queue_pair)?,
            buffer: RemoteBuffer { address: u64::try_from(address)?, key: u32::try_from(key)? },
            count: u32::try_from(count)?,
        })
    }
}

/// The first RoCE v2 GID that holds an IPv4 address.
fn own_gid(context: &Context) -> Result<([u8; 16], u8)> {
    let table = context.gid_table()?.ok_or("this libibverbs has no GID table call")?;
    let entry = table
        .iter()
        .find(|e| e.kind == GidKind::RoceV2 && e.gid[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
        .ok_or("no RoCE v2 GID with an IPv4 address")?;
    Ok((entry.gid, u8::try_from(entry.index)?))
}

fn connect(pair: &mut QueuePair, gid_index: u8, peer: &Peer, mtu: Mtu) -> Result<()> {
    let access = Access::REMOTE_WRITE | Access::LOCAL_WRITE;
    pair.to_init(&InitAttributes { port: 1, pkey_index: 0, access, queue_key: 0 })?;
    let route = GlobalRoute {
        destination: peer.gid,
        source_index: gid_index,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
    };
    pair.to_ready_to_receive(&ReadyToReceiveAttributes {
        address: AddressVector::routed(1, route),
        path_mtu: mtu,
        peer_queue_pair: peer.queue_pair,
        receive_sequence: SEQUENCE,
        max_incoming_reads: 1,
        receiver_not_ready_timer: 12,
    })?;
    pair.to_ready_to_send(&ReadyToSendAttributes {
        send_sequence: SEQUENCE,
        timeout: 14,
        retries: 7,
        receiver_not_ready_retries: 7,
        max_outgoing_reads: 1,
    })?;
    Ok(())
}

/// One turn each: wait for the peer's mark in our last byte, then write ours and wait until it is acknowledged.
/// Returns when each turn started.
fn ping_pong(
    first: bool,
    count: u32,
    pair: &QueuePair,
    queue: &CompletionQueue,
    region: &MemoryRegion,
    remote: RemoteBuffer,
) -> Result<Vec<u64>> {
    let (incoming, outgoing) = (&region.bytes()[SIZE - 1], &region.bytes()[2 * SIZE - 1]);
    let mut request = SendRequest::write(region, SIZE..2 * SIZE, remote)?.inline(true);
    let mut room = [Completion::default()];
    let mut stamps = Vec::with_capacity(count as usize);
    for turn in 0..count {
        let expected = if first { turn } else { turn + 1 } as u8;
        if !(first && turn == 0) {
            while incoming.load(Ordering::Acquire) != expected {}
        }
        outgoing.store((turn + 1) as u8, Ordering::Release);
        stamps.push(ticks());
        pair.post(&mut request)?;
        loop {
            match queue.poll(&mut room)? {
                [] => {}
                [done, ..] if done.is_success() => break,
                [done, ..] => return Err(done.status().to_string().into()),
            }
        }
    }
    Ok(stamps)
}

fn report(stamps: &[u64], nanoseconds: f64) {
    let mut halves: Vec<f64> = stamps.windows(2).map(|w| (w[1] - w[0]) as f64 * nanoseconds / 2e3).collect();
    halves.sort_by(f64::total_cmp);
    let at = |share: f64| halves[((halves.len() - 1) as f64 * share) as usize];
    println!(
        "count {} min {:.2} p50 {:.2} p99 {:.2} max {:.2} us",
        halves.len(),
        at(0.0),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (device, listening, address, count) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..]
    {
        [device, "listen", port] => (device, true, format!("127.0.0.1:{port}"), 0),
        [device, address] => (device, false, address.to_owned(), 1000),
        [device, address, count] => (device, false, address.to_owned(), count.parse()?),
        _ => return Err("usage: pingpong DEVICE listen PORT | pingpong DEVICE ADDRESS:PORT [COUNT]".into()),
    };
    let devices = Verbs::open(None)?.devices()?;
    let device = devices.into_iter().find(|d| d.name() == device).ok_or("no such device")?;
    let context = device.open()?;
    let port = context.query_port(1)?;
    let mtu = port.active_mtu.ok_or("the port reports no active MTU")?;
    let (gid, gid_index) = own_gid(&context)?;
    let domain = context.alloc_protection_domain()?;
    let queue = context.create_completion_queue(8, None)?;
    let region = domain.register(2 * SIZE, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let options = QueuePairOptions {
        kind: QueuePairKind::ReliableConnection,
        send_depth: 8,
        receive_depth: 1,
        max_inline: 64,
    };
    let mut pair = domain.create_queue_pair(&queue, &queue, &options)?;

    let mut stream = BufReader::new(if listening {
        TcpListener::bind(&address)?.accept()?.0
    } else {
        TcpStream::connect(&address)?
    });
    let buffer = RemoteBuffer { address: region.address(), key: region.remote_key() };
    let peer = Peer { gid, queue_pair: pair.number(), buffer, count }.exchange(&mut stream)?;
    connect(&mut pair, gid_index, &peer, mtu)?;
    // Both are ready to receive before either writes.
    Peer { gid, queue_pair: 0, buffer, count }.exchange(&mut stream)?;
    let scale = TickScale::new();
    let stamps = ping_pong(!listening, count.max(peer.count), &pair, &queue, &region, peer.buffer)?;
    if !listening {
        report(&stamps, scale.nanoseconds_per_tick().ok_or("the clocks do not move")?);
    }
    // Neither tears down before the other's last write is acknowledged.
    Peer { gid, queue_pair: 0, buffer, count }.exchange(&mut stream)?;
    Ok(())
}
