//! Probes over the network device underneath an RDMA port: TCP as the baseline, and don't-fragment echoes.

use crate::labels::Capture;
use rdmascope_model::{
    BandwidthSpec, Carrier, Cause, EchoSpec, EchoStats, EndpointInfo, LatencySpec, Manner, Marks, Outcome,
    ProbeSpec, Role,
};
use rdmascope_tests::guest::{Endpoint, Pair};
use rdmascope_transport::conformance::{RealTime, Subject, check};
use rdmascope_transport::echo::Echo;
use rdmascope_transport::tcp::Tcp;
use rdmascope_transport::{PortReader, PortReading, Transport};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

const FROM: Endpoint = Endpoint(1);
const TO: Endpoint = Endpoint(2);
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

fn no_counters() -> PortReader {
    Arc::new(|_| PortReading::default())
}

fn sent_bytes(endpoint: Endpoint) -> u64 {
    let path = format!("/sys/class/net/{}/statistics/tx_bytes", endpoint.port());
    std::fs::read_to_string(path).expect("the port is there").trim().parse().expect("a number")
}

#[test]
fn tcp_over_the_devices_of_rdma_ports_does_what_every_transport_must_do() {
    let mut drive = RealTime::new();
    let waker = drive.waker();
    let mut make = |role| -> (Box<dyn Transport>, EndpointInfo) {
        let endpoint = if role == Role::Source { FROM } else { TO };
        (Box::new(Tcp::new(no_counters(), waker.clone(), ANY, None)), endpoint.info())
    };
    check(Subject { make: &mut make, drive: &mut drive, held: None, manners: &[] });
}

#[test]
fn tcp_between_two_ports_of_one_machine_crosses_the_wire_in_the_class_asked_for() {
    let mut pair =
        Pair::new(FROM, TO, &no_counters(), |effects, waker| Box::new(Tcp::new(effects, waker, ANY, None)));
    let marks = Marks { traffic_class: 104, ..Marks::default() };
    let manner = Manner { carrier: Carrier::Tcp, marks, ..Manner::default() };
    let spec = BandwidthSpec {
        message_bytes: 64 << 10,
        depth: 8,
        warmup: Duration::from_millis(20),
        duration: Duration::from_millis(300),
        completions_min: 10,
        bytes_max: 1 << 30,
    };
    let capture = Capture::start(FROM, TO);
    let before = sent_bytes(FROM);
    let [source, target] =
        pair.run(ProbeSpec::Bandwidth(spec), manner).map(|end| end.expect("both ends tell"));
    let Outcome::Bandwidth(stats, _) = source.outcome else { panic!("no bandwidth: {source:?}") };
    assert!(sent_bytes(FROM) - before >= stats.bytes, "it went over {}", FROM.port());
    assert_eq!(target.outcome, Outcome::Served);
    for effects in [source.effects, target.effects] {
        let spent = effects.and_then(|effects| effects.processor_ns).expect("processor time is always known");
        assert!(spent > 0 && spent < 2_000_000_000, "{spent} ns for less than two seconds");
    }
    let classes = capture.classes(6);
    assert!(!classes.is_empty() && classes.iter().all(|class| *class == 104), "{classes:?}");
    let latency = ProbeSpec::Latency(LatencySpec { samples: 100, warmup: 5, message_bytes: 8 });
    let [source, _] = pair.run(latency, manner).map(|end| end.expect("both ends tell"));
    assert!(matches!(source.outcome, Outcome::Latency(stats, _) if stats.count == 100), "{source:?}");
}

fn echo() -> [Option<Outcome>; 2] {
    let spec = EchoSpec { count: 20, payload_bytes: 8_972, interval: Duration::from_millis(2) };
    let mut pair =
        Pair::new(FROM, TO, &no_counters(), |effects, waker| Box::new(Echo::new(effects, waker, ANY)));
    pair.run(ProbeSpec::Echo(spec), Manner::default()).map(|end| end.map(|end| end.outcome))
}

#[test]
fn a_path_of_mtu_9000_carries_8972_bytes_and_a_narrow_one_is_told_by_where_it_is() {
    let [source, target] = echo();
    let Some(Outcome::Echo(stats)) = source else { panic!("no echo: {source:?}") };
    assert_eq!((stats.sent, stats.heard, stats.answered), (20, Some(20), 20));
    assert!(stats.round_trip.is_some_and(|delays| delays.count == 20 && delays.min_ns > 0));
    assert_eq!(target, Some(Outcome::Served));

    let narrow = TO.mtu(1_500);
    let [source, _] = echo();
    drop(narrow);
    let nothing = EchoStats { payload_bytes: 8_972, sent: 20, heard: Some(0), answered: 0, round_trip: None };
    assert_eq!(source, Some(Outcome::Echo(nothing)), "small ones still tell that no large one came");

    let narrow = FROM.mtu(1_500);
    let [source, _] = echo();
    drop(narrow);
    let Some(Outcome::Failed(failure)) = source else { panic!("no failure: {source:?}") };
    assert_eq!(failure.cause, Cause::MessageTooLong, "{failure}");
    assert!(failure.evidence.contains("w1 has an MTU of 1500"), "{failure}");
}
