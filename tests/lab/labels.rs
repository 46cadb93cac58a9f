//! What moves the UDP source port of RoCE packets, seen on the wire: the flow label for connections of rxe, and not for its datagrams.

use rdmascope_model::{LatencySpec, Manner, Marks, Outcome, ProbeSpec};
use rdmascope_sys::{
    Access, AddressVector, Completion, GidKind, GlobalRoute, InitAttributes, QueuePairKind, QueuePairOptions,
    ReadyToSendAttributes, SendRequest, Verbs as Library,
};
use rdmascope_tests::guest::{Endpoint, Pair, wait_until};
use rdmascope_transport::verbs::Verbs;
use rdmascope_transport::{PortReader, PortReading};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const FROM: Endpoint = Endpoint(1);
const TO: Endpoint = Endpoint(2);
/// `ETH_P_IP` in network byte order.
const IPV4: u32 = 0x0008;
const UDP: u8 = 17;
/// RoCE v2.
const ROCE_PORT: u16 = 4791;
/// Opcodes of the base transport header: reliable connections are below, unreliable datagrams at 0x64 and above.
const CONNECTIONS: std::ops::Range<u8> = 0..0x20;
const DATAGRAMS: std::ops::Range<u8> = 0x60..0x80;

/// All packets from one endpoint to another, while it lives.
pub(crate) struct Capture {
    socket: OwnedFd,
    between: [[u8; 4]; 2],
}

/// One IPv4 packet: class, protocol, and what follows the header.
struct Packet {
    class: u8,
    protocol: u8,
    payload: Vec<u8>,
}

impl Capture {
    pub(crate) fn start(from: Endpoint, to: Endpoint) -> Self {
        let protocol = Protocol::from_raw(NonZeroU32::new(IPV4).expect("not 0"));
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, Some(protocol));
        let between = [from, to].map(|end| [10, 8, 0, end.0]);
        Self { socket: socket.expect("the lab's tests run as root"), between }
    }

    /// What came since the last call.
    fn packets(&self) -> Vec<Packet> {
        let mut frame = [0; 16_384];
        let mut packets = Vec::new();
        while let Ok((length, _)) = recv(&self.socket, &mut frame, RecvFlags::empty()) {
            let Some(ip) = frame.get(14..length) else { continue };
            let [from, to] = self.between;
            if ip.len() > 20 && ip[12..16] == from && ip[16..20] == to {
                let header = usize::from(ip[0] & 0xf) * 4;
                packets.push(Packet { class: ip[1], protocol: ip[9], payload: ip[header..].to_vec() });
            }
        }
        packets
    }

    /// Traffic classes of the packets of one protocol.
    pub(crate) fn classes(&self, protocol: u8) -> BTreeSet<u8> {
        self.packets()
            .iter()
            .filter(|packet| packet.protocol == protocol)
            .map(|packet| packet.class)
            .collect()
    }

    /// (UDP source port, traffic class) of RoCE packets with such opcodes.
    fn ports(&self, opcodes: &std::ops::Range<u8>) -> BTreeSet<(u16, u8)> {
        let roce = |packet: &Packet| {
            let udp = packet.payload.get(..9)?;
            let number = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
            let ours = packet.protocol == UDP && number(2) == ROCE_PORT && opcodes.contains(&udp[8]);
            ours.then(|| (number(0), packet.class))
        };
        self.packets().iter().filter_map(roce).collect()
    }
}

/// `rdma_flow_label_to_udp_sport` of the kernel's `include/rdma/ib_verbs.h`.
fn port_of(label: u32) -> u16 {
    u16::try_from((label & 0x3fff) ^ (label >> 14) | 0xc000).expect("16 bits")
}

#[test]
fn the_flow_label_of_a_connection_becomes_its_source_port_and_the_class_is_the_one_asked_for() {
    let effects: PortReader = Arc::new(|_| PortReading::default());
    let mut pair = Pair::new(FROM, TO, &effects, |effects, waker| {
        Box::new(Verbs::new(effects, waker, None, Path::new("/dev/infiniband")))
    });
    let spec = ProbeSpec::Latency(LatencySpec { samples: 5, warmup: 0, message_bytes: 8 });
    for (flow_label, traffic_class) in [(1, 0), (0x2a, 104), (0xf_0000, 0)] {
        let capture = Capture::start(FROM, TO);
        let marks = Marks { flow_label, traffic_class, ..Marks::default() };
        let [source, _] = pair.run(spec, Manner { marks, ..Manner::default() });
        assert!(matches!(source.as_ref().map(|end| &end.outcome), Some(Outcome::Latency(..))), "{source:?}");
        let expected = BTreeSet::from([(port_of(flow_label), traffic_class)]);
        assert_eq!(capture.ports(&CONNECTIONS), expected, "flow label {flow_label:#x}");
    }
}

#[test]
fn the_flow_label_of_a_datagram_moves_nothing_on_this_driver() {
    let devices = Library::open(None).expect("libibverbs is there").devices().expect("devices");
    let device = devices.into_iter().find(|device| device.name() == FROM.device()).expect("rxe1 is there");
    let context = device.open().expect("it opens");
    let domain = context.alloc_protection_domain().expect("a domain");
    let queue = context.create_completion_queue(8, None).expect("a queue");
    let region = domain.register(64, Access::LOCAL_WRITE).expect("memory");
    let options =
        QueuePairOptions { kind: QueuePairKind::Datagram, send_depth: 4, receive_depth: 1, max_inline: 0 };
    let mut pair = domain.create_queue_pair(&queue, &queue, &options).expect("a queue pair");
    pair.to_init(&InitAttributes { port: 1, pkey_index: 0, access: Access::LOCAL_WRITE, queue_key: 7 })
        .expect("INIT");
    pair.to_ready_to_receive_datagrams().expect("RTR");
    let ready = ReadyToSendAttributes {
        send_sequence: 0,
        timeout: 0,
        retries: 0,
        receiver_not_ready_retries: 0,
        max_outgoing_reads: 0,
    };
    pair.to_ready_to_send(&ready).expect("RTS");
    let gid = |end: Endpoint| end.info().gid.expect("it has one").0;
    let table = context.gid_table().expect("it can be read").expect("the library is new enough");
    let own = table.iter().find(|entry| entry.gid == gid(FROM) && entry.kind == GidKind::RoceV2);
    let source_index = u8::try_from(own.expect("our address").index).expect("8 bits");
    let capture = Capture::start(FROM, TO);
    for flow_label in [1, 0x2a, 0xf_0000] {
        let route =
            GlobalRoute { destination: gid(TO), source_index, hop_limit: 64, traffic_class: 0, flow_label };
        let address = domain.create_address(&AddressVector::routed(1, route)).expect("an address");
        // Nobody has this number: the packet is on the wire all the same.
        let mut request = SendRequest::datagram(&region, 0..64, &address, 0x00ff_fff0, 7).expect("a request");
        pair.post(&mut request).expect("it is sent");
        wait_until("the datagram left", Duration::from_secs(10), || {
            let mut room = [Completion::default()];
            match queue.poll(&mut room) {
                Ok([done]) if done.is_success() => Ok(()),
                Ok([failed, ..]) => Err(format!("{}", failed.status())),
                _ => Err("nothing yet".to_owned()),
            }
        });
    }
    let mut ports = BTreeSet::new();
    wait_until("it is seen on the wire", Duration::from_secs(10), || {
        ports.extend(capture.ports(&DATAGRAMS));
        if ports.is_empty() { Err("nothing".to_owned()) } else { Ok(()) }
    });
    ports.extend(capture.ports(&DATAGRAMS));
    assert_eq!(ports.len(), 1, "one source port for three labels: {ports:?}");
}
