//! Which measurements a full report of a pair takes, from what both ends are: the link layer first, then performance, then applications.

use super::{Asked, Part, Skipped};
use rdmascope_model::{
    BandwidthSpec, Carrier, EchoSpec, EndpointInfo, Fabric, LabelBy, LatencySpec, Manner, Marks, Memory,
    Operation, PingSpec, ProbeSpec,
};
use std::time::Duration;

/// Equal-cost paths that are assumed where nobody says how many: a leaf with four spines.
pub const PATHS_DEFAULT: u32 = 4;
/// Probability with which the labels hit all of them.
pub const PATHS_PROBABILITY: f64 = 0.99;

/// A median does not need more, and there are many labels.
const LATENCY_OF_LABEL: LatencySpec = LatencySpec { samples: 200, warmup: 20, message_bytes: 8 };
/// Long enough for the tail beside a stream, short enough to end before it.
const LATENCY_UNDER_LOAD: LatencySpec = LatencySpec { samples: 3_000, warmup: 0, message_bytes: 8 };
/// One lost ping of a size is 0.5 %.
const PINGS: PingSpec = PingSpec { count: 200, labels: 1, interval: Duration::from_millis(4) };
/// Enough for a median of each label.
const PINGS_OF_LABEL: u32 = 20;
/// The largest UDP payload in an MTU of 9000 over IPv4.
const ECHO_BYTES: u32 = 8_972;
const ECHO: EchoSpec = EchoSpec { count: 20, payload_bytes: ECHO_BYTES, interval: Duration::from_millis(10) };
/// A stream that others are measured beside, or that several sources send at once: a second, at 400 Gbit/s too.
const LONG_STREAM: BandwidthSpec = BandwidthSpec {
    message_bytes: 1 << 20,
    duration: Duration::from_secs(1),
    bytes_max: 50_000_000_000,
    ..BandwidthSpec::USUAL
};
/// Message sizes of bandwidth: what the matrix measures, and what fills fast ports.
const SIZES: [u32; 2] = [65_536, 1 << 20];
/// Queue pairs of bandwidth: one, and as many as fill fast ports.
const QUEUE_PAIRS: [u32; 2] = [1, 4];

/// One measurement to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Which question it answers.
    pub part: Part,
    /// From B to A instead of from A to B.
    pub reverse: bool,
    /// What to measure.
    pub spec: ProbeSpec,
    /// By which means.
    pub manner: Manner,
}

/// What runs at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Runs first, or alone.
    pub first: Task,
    /// Starts as soon as the first one runs.
    pub beside: Option<Task>,
}

/// The stages of a full report of the pair, in their order, and the parts that are left out with the reason.
#[must_use]
pub fn full(asked: &Asked, ends: [&EndpointInfo; 2]) -> (Vec<Stage>, Vec<Skipped>) {
    let mut plan =
        Plan { ends, marks: marks(asked.class, ends[0].fabric), stages: Vec::new(), skipped: Vec::new() };
    plan.datagrams();
    plan.echo();
    plan.latency();
    plan.labels(asked);
    plan.class(asked);
    plan.bandwidth();
    plan.under_load();
    plan.baseline();
    plan.gpu(asked);
    (plan.stages, plan.skipped)
}

/// What each source of an incast sends.
#[must_use]
pub fn incast_task(class: Option<u8>, fabric: Fabric) -> Task {
    // TCP has one connection only.
    let queue_pairs = if fabric == Fabric::Tcp { 1 } else { 4 };
    let manner = Manner { queue_pairs, marks: marks(class, fabric), ..Manner::default() };
    // What several sources have on their way must fit into the receiver's time-outs together.
    let stream = BandwidthSpec { message_bytes: 65_536, ..LONG_STREAM };
    let spec = ProbeSpec::Bandwidth(BandwidthSpec { depth: 2, ..stream });
    Task { part: Part::Incast, reverse: false, spec, manner }
}

/// Most bytes that a stream has on their way: eight times what 400 Gbit/s carry in 10 µs. More only waits, and on a slow device so long
/// that acknowledgements come after their time-out (seen on Soft-RoCE with 32 MiB: status 12).
const OUTSTANDING_BYTES: u32 = 4 << 20;

/// Messages of one stream that agents take, whatever their size.
const STREAM_MESSAGES_MAX: u64 = 1_000_000;

/// The stream with no more messages outstanding on each queue pair than are of use.
fn outstanding(stream: BandwidthSpec, queue_pairs: u32) -> BandwidthSpec {
    let fits = OUTSTANDING_BYTES / (stream.message_bytes * queue_pairs);
    BandwidthSpec { depth: stream.depth.min(fits).max(1), ..stream }
}

/// A stream of messages of another size, over one queue pair: no more on their way than are of use, and no more messages in all than an
/// agent takes.
#[must_use]
pub fn stream_of(stream: BandwidthSpec, message_bytes: u32) -> BandwidthSpec {
    let message_bytes = message_bytes.max(1);
    let bytes_max = stream.bytes_max.min(u64::from(message_bytes) * STREAM_MESSAGES_MAX);
    outstanding(BandwidthSpec { message_bytes, bytes_max, ..stream }, 1)
}

/// A class as packets carry it: a DSCP in the traffic class, or a service level on InfiniBand (15 at most).
#[must_use]
pub fn marks(class: Option<u8>, fabric: Fabric) -> Marks {
    let class = class.unwrap_or(0);
    match fabric {
        Fabric::InfiniBand => Marks { service_level: class.min(15), ..Marks::default() },
        Fabric::Roce | Fabric::Iwarp | Fabric::Tcp | Fabric::Simulated => {
            Marks { traffic_class: class << 2, ..Marks::default() }
        }
    }
}

struct Plan<'a> {
    ends: [&'a EndpointInfo; 2],
    marks: Marks,
    stages: Vec<Stage>,
    skipped: Vec<Skipped>,
}

impl Plan<'_> {
    fn measure(&mut self, part: Part, spec: ProbeSpec, manner: Manner) {
        self.stages.push(Stage { first: Task { part, reverse: false, spec, manner }, beside: None });
    }

    fn skip(&mut self, part: Part, reason: impl Into<String>) {
        self.skipped.push(Skipped { part, reason: reason.into() });
    }

    fn manner(&self) -> Manner {
        Manner { marks: self.marks, ..Manner::default() }
    }

    /// TCP knows no verbs: a stream of bytes is all that there is.
    fn operations(&self) -> &'static [Operation] {
        if self.ends[0].fabric == Fabric::Tcp { &[Operation::Write] } else { &Operation::ALL }
    }

    /// Why no datagrams can be sent; `None` when they can.
    fn no_datagrams(&self) -> Option<String> {
        let without = self.ends.into_iter().find(|end| end.datagrams.is_none())?;
        Some(match without.fabric {
            Fabric::Tcp => "the endpoints are TCP, without RDMA datagrams".to_owned(),
            Fabric::Iwarp => "iWARP has no datagrams".to_owned(),
            Fabric::Roce | Fabric::InfiniBand | Fabric::Simulated => format!(
                "{} has told no address for datagrams: its agent is too old, or its mesh is not open",
                without.name
            ),
        })
    }

    fn datagrams(&mut self) {
        match self.no_datagrams() {
            Some(reason) => self.skip(Part::Ping, reason),
            None => self.measure(Part::Ping, ProbeSpec::Pings(PINGS), self.manner()),
        }
    }

    fn echo(&mut self) {
        let [own, peer] = self.ends;
        let (Some(mtu), Some(_)) = (own.netdev_mtu, peer.netdev_mtu) else {
            return self.skip(Part::Echo, "an end has no network device underneath, or its MTU is not known");
        };
        // IP and UDP header.
        let headers = if own.gid.is_some_and(|gid| gid.ip().is_ipv6()) { 48 } else { 28 };
        let payload_bytes = ECHO_BYTES.min(mtu.saturating_sub(headers));
        self.measure(Part::Echo, ProbeSpec::Echo(EchoSpec { payload_bytes, ..ECHO }), Manner::default());
    }

    fn latency(&mut self) {
        for &operation in self.operations() {
            let manner = Manner { operation, ..self.manner() };
            self.measure(Part::Latency, ProbeSpec::Latency(LatencySpec::USUAL), manner);
        }
    }

    fn labels(&mut self, asked: &Asked) {
        if asked.labels <= 1 {
            return self.skip(Part::Label, "one path between the ends was assumed");
        }
        let without = self.ends.into_iter().find(|end| end.connections_labelled_by != LabelBy::FlowLabel);
        match without {
            Some(end) => {
                let by = end.connections_labelled_by.as_str();
                let name = &end.name;
                self.skip(
                    Part::Label,
                    format!("the flow label does not move connections of {name} (what does: {by})"),
                );
            }
            None => {
                for flow_label in 1..=asked.labels {
                    let marks = Marks { flow_label, ..self.marks };
                    self.measure(
                        Part::Label,
                        ProbeSpec::Latency(LATENCY_OF_LABEL),
                        Manner { marks, ..self.manner() },
                    );
                }
            }
        }
        let datagrams = self.ends.iter().all(|end| end.datagrams_labelled_by == LabelBy::FlowLabel);
        if datagrams && self.no_datagrams().is_none() {
            let spec = PingSpec { count: PINGS_OF_LABEL, labels: asked.labels, ..PINGS };
            self.measure(Part::Label, ProbeSpec::Pings(spec), self.manner());
        }
    }

    fn class(&mut self, asked: &Asked) {
        if asked.class.is_none_or(|class| class == 0) {
            return self.skip(Part::Class, "no class was asked for: all ran in class 0");
        }
        for (part, manner) in [(Part::Class, self.manner()), (Part::Control, Manner::default())] {
            self.measure(part, ProbeSpec::Latency(LatencySpec::USUAL), manner);
            self.measure(part, ProbeSpec::Bandwidth(BandwidthSpec::USUAL), manner);
        }
    }

    fn bandwidth(&mut self) {
        for &operation in self.operations() {
            for message_bytes in SIZES {
                for queue_pairs in QUEUE_PAIRS {
                    for (reverse, both_ways) in [(false, false), (true, false), (false, true)] {
                        let stream = BandwidthSpec { message_bytes, ..BandwidthSpec::USUAL };
                        let spec = ProbeSpec::Bandwidth(outstanding(stream, queue_pairs));
                        let manner = Manner { operation, queue_pairs, both_ways, ..self.manner() };
                        let first = Task { part: Part::Bandwidth, reverse, spec, manner };
                        self.stages.push(Stage { first, beside: None });
                    }
                }
            }
        }
    }

    fn under_load(&mut self) {
        let task = |part, spec, manner| Task { part, reverse: false, spec, manner };
        let stream = Manner { queue_pairs: 4, ..self.manner() };
        let beside = match self.no_datagrams() {
            Some(_) => ProbeSpec::Latency(LATENCY_UNDER_LOAD),
            None => ProbeSpec::Pings(PINGS),
        };
        self.stages.push(Stage {
            first: task(Part::Load, ProbeSpec::Bandwidth(outstanding(LONG_STREAM, 4)), stream),
            beside: Some(task(Part::UnderLoad, beside, self.manner())),
        });
    }

    fn baseline(&mut self) {
        if self.ends[0].fabric == Fabric::Tcp {
            return self.skip(Part::Baseline, "the endpoints are TCP themselves");
        }
        if self.ends.iter().any(|end| end.netdev_mtu.is_none()) {
            return self.skip(Part::Baseline, "an end has no network device underneath for TCP");
        }
        let manner = Manner { carrier: Carrier::Tcp, ..self.manner() };
        self.measure(Part::Baseline, ProbeSpec::Latency(LatencySpec::USUAL), manner);
        self.measure(Part::Baseline, ProbeSpec::Bandwidth(BandwidthSpec::USUAL), manner);
    }

    fn gpu(&mut self, asked: &Asked) {
        let Some(gpu) = asked.gpu else { return };
        let memory = Memory::Gpu(gpu);
        let manner = Manner { source_memory: memory, target_memory: memory, ..self.manner() };
        self.measure(Part::Gpu, ProbeSpec::Latency(LatencySpec::USUAL), manner);
        let spec = outstanding(BandwidthSpec { message_bytes: 1 << 20, ..BandwidthSpec::USUAL }, 4);
        self.measure(Part::Gpu, ProbeSpec::Bandwidth(spec), Manner { queue_pairs: 4, ..manner });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_model::DatagramAddress;

    const ASKED: Asked = Asked { class: None, paths: 4, labels: 21, gpu: None };

    fn end(name: &str, fabric: Fabric) -> EndpointInfo {
        let gid = "::ffff:10.0.0.1".parse().unwrap();
        let address = DatagramAddress { gid, lid: 0, queue_pair: 17, queue_key: 1, mtu_bytes: 4_096 };
        EndpointInfo {
            gid: Some(gid),
            netdev_mtu: Some(9_000),
            active_mtu: Some(4_096),
            datagrams: Some(address),
            connections_labelled_by: LabelBy::FlowLabel,
            datagrams_labelled_by: LabelBy::FlowLabel,
            ..EndpointInfo::bare(name.parse().unwrap(), fabric)
        }
    }

    fn parts(stages: &[Stage]) -> Vec<Part> {
        let mut parts: Vec<_> = stages.iter().map(|stage| stage.first.part).collect();
        parts.dedup();
        parts
    }

    fn reason(skipped: &[Skipped], part: Part) -> &str {
        &skipped.iter().find(|skipped| skipped.part == part).unwrap().reason
    }

    #[test]
    fn a_roce_pair_gets_everything_from_the_link_up() {
        let (a, b) = (end("a/d/1", Fabric::Roce), end("b/d/1", Fabric::Roce));
        let asked = Asked { class: Some(26), gpu: Some(0), ..ASKED };
        let (stages, skipped) = full(&asked, [&a, &b]);
        let order = [
            Part::Ping,
            Part::Echo,
            Part::Latency,
            Part::Label,
            Part::Class,
            Part::Control,
            Part::Bandwidth,
            Part::Load,
            Part::Baseline,
            Part::Gpu,
        ];
        assert_eq!((parts(&stages), skipped), (order.to_vec(), Vec::new()));
        let of = |part| stages.iter().filter(move |stage| stage.first.part == part);
        assert_eq!((of(Part::Latency).count(), of(Part::Bandwidth).count()), (3, 3 * 2 * 2 * 3));
        let labels: Vec<_> = of(Part::Label).map(|stage| stage.first.manner.marks.flow_label).collect();
        assert_eq!(labels, (1..=21).chain([0]).collect::<Vec<_>>(), "21 connections, and one lease of pings");
        assert!(of(Part::Class).all(|stage| stage.first.manner.marks.traffic_class == 26 << 2));
        assert!(of(Part::Control).all(|stage| stage.first.manner.marks == Marks::default()));
        let beside = of(Part::Load).next().unwrap().beside.unwrap();
        assert!(matches!(beside.spec, ProbeSpec::Pings(_)) && beside.part == Part::UnderLoad);
    }

    #[test]
    fn what_cannot_be_measured_is_left_out_with_its_reason() {
        let (mut a, b) = (end("a/d/1", Fabric::Iwarp), end("b/d/1", Fabric::Iwarp));
        a.datagrams = None;
        a.connections_labelled_by = LabelBy::QueuePair;
        a.netdev_mtu = Some(1_500);
        let (stages, skipped) = full(&ASKED, [&a, &b]);
        assert_eq!(reason(&skipped, Part::Ping), "iWARP has no datagrams");
        assert!(reason(&skipped, Part::Label).contains("a/d/1 (what does: queue-pair)"));
        assert!(reason(&skipped, Part::Class).starts_with("no class"));
        let echo = stages.iter().find(|stage| stage.first.part == Part::Echo).unwrap();
        assert!(matches!(echo.first.spec, ProbeSpec::Echo(spec) if spec.payload_bytes == 1_472));
        let load = stages.iter().find(|stage| stage.first.part == Part::Load).unwrap();
        assert!(matches!(load.beside.unwrap().spec, ProbeSpec::Latency(_)));
    }

    #[test]
    fn tcp_endpoints_are_measured_without_verbs_and_are_their_own_baseline() {
        let bare = |name: &str| EndpointInfo::bare(name.parse().unwrap(), Fabric::Tcp);
        let (a, b) = (bare("a/d/1"), bare("b/d/1"));
        let (stages, skipped) = full(&ASKED, [&a, &b]);
        assert_eq!(parts(&stages), [Part::Latency, Part::Bandwidth, Part::Load]);
        let left_out: Vec<_> = skipped.iter().map(|skipped| skipped.part).collect();
        assert_eq!(left_out, [Part::Ping, Part::Echo, Part::Label, Part::Class, Part::Baseline]);
    }

    #[test]
    fn infiniband_carries_the_class_as_its_service_level() {
        let task = incast_task(Some(3), Fabric::InfiniBand);
        assert_eq!((task.manner.marks.service_level, task.manner.marks.traffic_class), (3, 0));
    }
}
