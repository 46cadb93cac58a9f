//! Frames read back as they were written, and foreign bytes are refused with a reason, never with a panic.

use rdmascope_link::{
    BASIS_MAX, DRAIN_FAULTS_MAX, DrainAnswer, DrainFault, EVIDENCE_BYTES_MAX, EVIDENCE_MAX, EventKind,
    FACTS_MAX, FRAME_BYTES_MAX, Fact, FindingBrief, FrameError, Hello, NUMBERED_PER_FRAME_MAX, NodeEvent,
    NumberedHeard, NumberedReport, PairsBrief, PauseFlags, PingReport, ProbeResult, RelayPayload, ToAgent,
    ToCoordinator,
};
use rdmascope_model::{
    BandwidthSpec, BandwidthStats, Carrier, Cause, Congestion, CounterDelta, DatagramAddress, Delays,
    EchoSpec, EchoStats, Effects, EndpointInfo, EndpointName, Exclusion, Fabric, Failure, Gid, Heard,
    LabelBy, LabelResult, LatencySpec, LatencyStats, LeaseId, Manner, Marks, Memory, MeshSweep, Metric,
    Operation, Outcome, PackedPings, Peer, PerPriority, PingCounts, PingFigures, PingSpec, PingStats,
    ProbePlan, ProbeSpec, Reading, Role, Side, StampClock, Status, Step, SwitchPort, Urgency, Wall,
};
use std::time::Duration;

fn name(text: &str) -> EndpointName {
    text.parse().expect("an endpoint name")
}

fn latency() -> LatencyStats {
    LatencyStats {
        count: 1_000,
        min_ns: 1,
        p50_ns: 2,
        p90_ns: 3,
        p99_ns: Some(4),
        p999_ns: None,
        max_ns: 5,
        host_delayed: 6,
    }
}

fn result(outcome: Outcome) -> ProbeResult {
    ProbeResult {
        lease: Some(LeaseId(7)),
        local: name("a/mlx5_0/1"),
        peer: name("b/mlx5_0/2"),
        role: Role::Target,
        metric: Some(Metric::Bandwidth),
        measured_at: Wall(1_796_000_000_123),
        outcome,
        effects: None,
        evidence: String::new(),
    }
}

fn plan(spec: ProbeSpec) -> ToAgent {
    ToAgent::Lease {
        epoch: 9,
        plan: ProbePlan {
            lease: LeaseId(3),
            role: Role::Source,
            local: name("a/mlx5_0/1"),
            peer: name("b/mlx5_0/1"),
            spec,
            manner: Manner::default(),
            urgency: Urgency::Drained,
            expires_in: Duration::from_millis(5_000),
        },
        setup_within: Duration::from_millis(3_000),
    }
}

/// Nothing in it is what a plan has by default.
fn unusual_plan() -> ToAgent {
    let spec = EchoSpec { count: 10, payload_bytes: 8_972, interval: Duration::from_millis(10) };
    let ToAgent::Lease { epoch, plan, setup_within } = plan(ProbeSpec::Echo(spec)) else {
        panic!("no lease")
    };
    let manner = Manner {
        operation: Operation::Read,
        queue_pairs: 4,
        both_ways: true,
        marks: Marks { traffic_class: 104, service_level: 3, flow_label: 0x000F_FFFF },
        carrier: Carrier::Tcp,
        source_memory: Memory::Gpu(0),
        target_memory: Memory::Gpu(7),
    };
    ToAgent::Lease { epoch, plan: ProbePlan { manner, ..plan }, setup_within }
}

fn address() -> DatagramAddress {
    DatagramAddress {
        gid: Gid([7; 16]),
        lid: 3,
        queue_pair: 0x00FF_FFFF,
        queue_key: 0x1111_1111,
        mtu_bytes: 4_096,
    }
}

fn pings() -> PingStats {
    let delays = Delays { count: 400, min_ns: 1, p50_ns: 2, p99_ns: Some(3), max_ns: 4 };
    PingStats {
        batch: 77,
        clock: StampClock::Hardware,
        small: PingCounts {
            payload_bytes: 64,
            sent: 20,
            answered: 11,
            lost_forward: Some(4),
            lost_backward: Some(3),
            late: 2,
            duplicate: 1,
            reordered: 5,
        },
        large: PingCounts { payload_bytes: 4_096, sent: 10, ..PingCounts::default() },
        network: Some(delays),
        network_large: None,
        responder: Some(Delays { p99_ns: None, ..delays }),
        prober: Some(delays),
        host_delayed: 6,
        invalid_stamps: 7,
        stale: 8,
        labels: vec![LabelResult { flow_label: 9, sent: 10, answered: 1, p50_ns: Some(11) }],
    }
}

fn effects() -> Effects {
    Effects {
        retransmits: Some(1),
        congestion_notifications_sent: Some(2),
        congestion_notifications_handled: Some(3),
        congestion_marked: Some(4),
        discards: Some(5),
        pause_received: Some(PerPriority([1, 2, 3, 4, 5, 6, 7, 8])),
        pause_received_ns: Some(PerPriority([9; 8])),
        pause_sent: None,
        packets_sent: Some(PerPriority([8; 8])),
        packets_received: None,
        processor_ns: Some(6),
    }
}

fn event(kind: EventKind) -> NodeEvent {
    NodeEvent {
        number: 17,
        at: Wall(1_796_000_000_002),
        kind,
        subject: "mlx5_0/1".to_owned(),
        id: "state".to_owned(),
        before: "ACTIVE".to_owned(),
        after: "DOWN".to_owned(),
        text: "the port went down".to_owned(),
        basis: (kind == EventKind::FindingRaised)
            .then(|| vec!["rdma_mtu 4.096e3 1.025e3".to_owned(), "= ow".to_owned()]),
    }
}

fn agent_frames() -> Vec<ToCoordinator> {
    let endpoint = EndpointInfo {
        name: name("a/mlx5_0/1"),
        fabric: Fabric::InfiniBand,
        gid: Some(Gid([9; 16])),
        netdev: Some("eth2".to_owned()),
        netdev_mtu: Some(9_000),
        active_mtu: None,
        rate_bps: Some(400_000_000_000),
        datagrams: Some(address()),
        pci_address: Some("0000:3b:00.0".to_owned()),
        rail: Some("rail-1".to_owned()),
        switch_port: Reading::Value(SwitchPort { switch: "leaf1".to_owned(), port: Some("swp3".to_owned()) }),
        connections_labelled_by: LabelBy::FlowLabel,
        datagrams_labelled_by: LabelBy::QueuePair,
        unusable: Some(Cause::PortDown),
        unusable_detail: "state 1: DOWN".to_owned(),
    };
    let finding = FindingBrief {
        id: "port-state".to_owned(),
        status: Status::Fail,
        subject: "mlx5_0/1".to_owned(),
        summary: "down".to_owned(),
        cause: "no link partner".to_owned(),
        next_step: "look".to_owned(),
        evidence: vec!["state = DOWN".to_owned(), "phys_state = Polling".to_owned()],
        settling: true,
        since: Wall(1_796_000_000_001),
        latched: true,
    };
    let fact = |key: &str, value: &str| Fact {
        subject: "mlx5_0/1".to_owned(),
        key: key.to_owned(),
        value: value.to_owned(),
    };
    vec![
        ToCoordinator::Hello(Hello {
            protocol_min: 1,
            protocol_max: 3,
            agent_version: "0.1.0".to_owned(),
            node: "node-7".to_owned(),
            instance: u64::MAX,
            machine: "boot".to_owned(),
            metrics: "[2001:db8::7]:19810".parse().ok(),
        }),
        ToCoordinator::Heartbeat {
            pause: PauseFlags { all: false, bandwidth: true },
            drain_for: vec![DrainFault { id: "port-phys-state".to_owned(), subject: "mlx5_0/1".to_owned() }],
        },
        ToCoordinator::heartbeat(PauseFlags { all: true, bandwidth: false }),
        ToCoordinator::Inventory {
            endpoints: vec![
                EndpointInfo { switch_port: Reading::failed("EIO"), ..endpoint.clone() },
                EndpointInfo { switch_port: Reading::Absent, ..endpoint.clone() },
                endpoint,
            ],
            findings: vec![finding],
            findings_left_out: 3,
        },
        ToCoordinator::Facts(vec![fact("netdev_mtu", "9000"), fact("pfc", "3")]),
        ToCoordinator::Events(EventKind::ALL.iter().map(|kind| event(*kind)).collect()),
        ToCoordinator::Relay { lease: LeaseId(3), payload: RelayPayload::Offer(vec![0, 1, 2]) },
        ToCoordinator::Relay { lease: LeaseId(3), payload: RelayPayload::Ready },
    ]
}

/// How probes ended, in every way.
fn results() -> Vec<ToCoordinator> {
    let failure = Failure {
        cause: Cause::RetryExceeded,
        step: Step::FirstByte,
        side: Side::Source,
        evidence: "status 12, vendor 0x81".to_owned(),
    };
    let bandwidth = BandwidthStats {
        bytes: 6_553_600,
        duration_ns: 1_000,
        average_bps: 52,
        worst_window_bps: Some(40),
        variation_permille: Some(125),
        completions: 100,
    };
    let delta = CounterDelta { retransmits: Some(11) };
    vec![
        ToCoordinator::Results(vec![
            result(Outcome::Latency(latency(), delta)),
            result(Outcome::Bandwidth(bandwidth, CounterDelta { retransmits: None })),
            result(Outcome::Failed(failure)),
            ProbeResult {
                lease: None,
                metric: None,
                evidence: "job 4711 of user alice holds mlx5_0".to_owned(),
                ..result(Outcome::Excluded(Exclusion::Busy))
            },
            ProbeResult { effects: Some(Box::new(effects())), ..result(Outcome::Served) },
            result(Outcome::Pings(Box::new(pings()))),
            result(Outcome::Echo(EchoStats {
                payload_bytes: 8_972,
                sent: 10,
                heard: Some(9),
                answered: 8,
                round_trip: Some(Delays { count: 8, min_ns: 1, p50_ns: 2, p99_ns: None, max_ns: 3 }),
            })),
            result(Outcome::Aborted(Some(bandwidth), delta, Congestion::Pauses)),
            result(Outcome::Aborted(None, delta, Congestion::Retransmits)),
        ]),
        ToCoordinator::Pings {
            reports: vec![PingReport {
                local: name("a/mlx5_0/1"),
                peer: name("b/mlx5_0/1"),
                measured_at: Wall(1_796_000_000_004),
                stats: pings(),
            }],
            heard: vec![Heard {
                local: name("a/mlx5_0/1"),
                peer: name("b/mlx5_0/1"),
                batch: 78,
                small: 9,
                large: 8,
            }],
        },
        ToCoordinator::Numbered {
            reports: vec![NumberedReport {
                local: 4_095,
                peer: 0,
                measured_at: Wall(1_796_000_000_004),
                batch: 0x8000_0001,
                figures: PackedPings::pack(&PingFigures::from(&pings())),
            }],
            heard: vec![NumberedHeard { local: 4_095, peer: 0, batch: 78, small: 254, large: 8 }],
        },
    ]
}

fn coordinator_frames() -> Vec<ToAgent> {
    vec![
        ToAgent::Welcome { protocol: 1, epoch: 1_796_000_000_123, heartbeat: Duration::from_secs(5) },
        ToAgent::Refused { message: "no".to_owned() },
        ToAgent::HeartbeatReply {
            pairs: vec![PairsBrief {
                device: "mlx5_0".to_owned(),
                port: 1,
                metric: Metric::Ping,
                outgoing: true,
                fresh: 4_000,
                stale: 94,
                failed: 1,
                worst: Some(9_000),
            }],
            drain: Some(DrainAnswer { leave: true, why: "1 of 2".to_owned() }),
        },
        ToAgent::HeartbeatReply { pairs: Vec::new(), drain: None },
        ToAgent::Book {
            generation: 4,
            base: 3,
            total: 900,
            peers: [
                Peer { name: name("b/mlx5_0/1"), address: Some(address()), rail: 3 },
                Peer { name: name("c/siw0/1"), address: None, rail: 0 },
            ]
            .into(),
            numbers: [4_095, 0].into(),
            removed: vec![name("d/mlx5_0/1")],
        },
        ToAgent::Grant {
            epoch: 9,
            generation: 4,
            expires_in: Duration::from_secs(60),
            pings_per_second: 10,
            pings_per_batch: 30,
            labels: 16,
            cross_rail_every: 4,
            sweep: Some(MeshSweep {
                number: 1_796_000_000_123,
                pings_per_second: 500,
                pings_per_batch: 9,
                cross_rail: true,
            }),
        },
        plan(ProbeSpec::Latency(LatencySpec { samples: 1_000, warmup: 100, message_bytes: 8 })),
        plan(ProbeSpec::Bandwidth(BandwidthSpec {
            message_bytes: 65_536,
            depth: 16,
            warmup: Duration::from_millis(20),
            duration: Duration::from_millis(200),
            completions_min: 100,
            bytes_max: 1 << 30,
        })),
        plan(ProbeSpec::Pings(PingSpec { count: 40, labels: 16, interval: Duration::from_micros(500) })),
        unusual_plan(),
        ToAgent::Relay { lease: LeaseId(3), payload: RelayPayload::Ready },
        ToAgent::LeaseEnd { lease: LeaseId(3) },
        ToAgent::Pause(PauseFlags { all: true, bandwidth: false }),
        ToAgent::EventsSeen { number: u64::MAX },
    ]
}

#[test]
fn every_frame_reads_back_as_it_was_written() {
    for frame in agent_frames().into_iter().chain(results()) {
        assert_eq!(ToCoordinator::decode(&frame.encode()).unwrap(), frame);
    }
    for frame in coordinator_frames() {
        assert_eq!(ToAgent::decode(&frame.encode()).unwrap(), frame);
    }
}

#[test]
fn foreign_bytes_are_refused_and_never_panic() {
    let agent = agent_frames().into_iter().chain(results()).map(|f| f.encode());
    let coordinator = coordinator_frames().into_iter().map(|f| f.encode());
    for good in agent.chain(coordinator) {
        for cut in 0..good.len() {
            let _ = ToCoordinator::decode(&good[..cut]);
            let _ = ToAgent::decode(&good[..cut]);
            for bit in 0..8 {
                let mut flipped = good.clone();
                flipped[cut] ^= 1 << bit;
                let _ = ToCoordinator::decode(&flipped);
                let _ = ToAgent::decode(&flipped);
            }
        }
    }
    assert!(matches!(ToCoordinator::decode(b"GET / HTTP/1.1"), Err(FrameError::Undecodable(_))));
    assert!(matches!(ToCoordinator::decode(&[]), Err(FrameError::UnknownKind)));
    assert!(matches!(ToAgent::decode(&vec![0; FRAME_BYTES_MAX + 1]), Err(FrameError::TooLong(_))));
}

#[test]
fn numbered_pings_that_contradict_themselves_or_are_too_many_are_refused() {
    let mut figures = PingFigures::from(&pings());
    let report = |figures: &PingFigures| NumberedReport {
        local: 1,
        peer: 2,
        measured_at: Wall(1),
        batch: 1,
        figures: PackedPings::pack(figures),
    };
    let read =
        |reports| ToCoordinator::decode(&ToCoordinator::Numbered { reports, heard: Vec::new() }.encode());
    assert!(read(vec![report(&figures); NUMBERED_PER_FRAME_MAX]).is_ok());
    assert!(read(vec![report(&figures); NUMBERED_PER_FRAME_MAX + 1]).is_err());
    figures.small.answered = figures.small.sent + 1;
    assert!(read(vec![report(&figures)]).is_err());
    let heard = NumberedHeard { local: 1, peer: 2, batch: 3, small: 4, large: 5 };
    let most = |count| ToCoordinator::Numbered { reports: Vec::new(), heard: vec![heard; count] }.encode();
    assert!(ToCoordinator::decode(&most(NUMBERED_PER_FRAME_MAX)).is_ok());
    assert!(ToCoordinator::decode(&most(NUMBERED_PER_FRAME_MAX + 1)).is_err());
}

#[test]
fn a_failure_dressed_as_a_number_is_refused() {
    let zero = BandwidthStats {
        bytes: 0,
        duration_ns: 1_000,
        average_bps: 0,
        worst_window_bps: None,
        variation_permille: None,
        completions: 0,
    };
    let none = LatencyStats { count: 0, ..latency() };
    let falling = LatencyStats { p50_ns: 9, ..latency() };
    let delta = CounterDelta { retransmits: None };
    for outcome in
        [Outcome::Bandwidth(zero, delta), Outcome::Latency(none, delta), Outcome::Latency(falling, delta)]
    {
        let bytes = ToCoordinator::Results(vec![result(outcome)]).encode();
        assert!(matches!(ToCoordinator::decode(&bytes), Err(FrameError::BadField { .. })));
    }
}

#[test]
fn a_name_that_could_break_a_label_is_refused_at_the_door() {
    let hello = ToCoordinator::Hello(Hello {
        protocol_min: 1,
        protocol_max: 1,
        agent_version: String::new(),
        node: "a\"} 1\n".to_owned(),
        instance: 1,
        machine: String::new(),
        metrics: None,
    });
    assert!(matches!(ToCoordinator::decode(&hello.encode()), Err(FrameError::BadField { .. })));
}

/// A machine with as much to say as it can, in characters of four bytes.
#[test]
fn whatever_a_machine_has_to_say_fits_into_a_frame() {
    let long = "\u{1f525}".repeat(1_000);
    let endpoint = |number: u8| EndpointInfo {
        unusable: Some(Cause::PortDown),
        unusable_detail: long.clone(),
        rail: Some(long.clone()),
        switch_port: Reading::Value(SwitchPort { switch: long.clone(), port: Some(long.clone()) }),
        ..EndpointInfo::bare(name(&format!("a/mlx5_{number}/1")), Fabric::Roce)
    };
    let finding = |number: usize| FindingBrief {
        id: format!("check-{number}"),
        status: Status::Fail,
        subject: long.clone(),
        summary: long.clone(),
        cause: long.clone(),
        next_step: long.clone(),
        evidence: vec![long.clone(); 50],
        settling: false,
        since: Wall(u64::MAX),
        latched: false,
    };
    let frame = ToCoordinator::inventory((0..64).map(endpoint).collect(), (0..300).map(finding).collect());
    let bytes = frame.encode();
    assert!(bytes.len() <= FRAME_BYTES_MAX, "{}", bytes.len());
    let Ok(ToCoordinator::Inventory { endpoints, findings, findings_left_out }) =
        ToCoordinator::decode(&bytes)
    else {
        panic!("an inventory");
    };
    assert_eq!((endpoints.len(), findings.len() + findings_left_out as usize), (64, 300));
    assert!(findings.len() > 10, "{}", findings.len());
    assert!(
        findings.iter().enumerate().all(|(place, f)| f.id == format!("check-{place}")),
        "the worst first"
    );
    assert_eq!(findings[0].evidence.len(), EVIDENCE_MAX);
    assert!(findings[0].evidence[0].len() <= EVIDENCE_BYTES_MAX && findings[0].evidence[0].ends_with("..."));

    let fact = |number: usize| Fact {
        subject: format!("{number:04}{long}"),
        key: long.clone(),
        value: long.clone(),
    };
    let bytes = ToCoordinator::facts((0..2 * FACTS_MAX).map(fact).collect()).encode();
    assert!(bytes.len() <= FRAME_BYTES_MAX && ToCoordinator::decode(&bytes).is_ok());

    let loud = NodeEvent {
        subject: long.clone(),
        id: long.clone(),
        before: long.clone(),
        after: long.clone(),
        text: long.clone(),
        basis: Some(vec!["x".repeat(120); BASIS_MAX]),
        ..event(EventKind::FindingRaised)
    };
    let bytes = ToCoordinator::events(&vec![loud.clone(); 1_000]).encode();
    assert!(bytes.len() <= FRAME_BYTES_MAX);
    let Ok(ToCoordinator::Events(events)) = ToCoordinator::decode(&bytes) else { panic!("events") };
    assert!(events.len() > 20 && events[0].basis.is_some());
    let longer = NodeEvent { basis: Some(vec!["x".repeat(121)]), ..loud };
    let ToCoordinator::Events(events) = ToCoordinator::events(&[longer]) else { panic!("events") };
    assert_eq!(events[0].basis, None, "a part of it says nothing");
}

/// A finding of version 1 has the first five fields only: the rest reads as nothing said.
#[test]
fn a_finding_of_an_older_agent_can_be_read() {
    // Inventory (3) { finding (2) { id (1) "a", status (2) 4, subject (3) "b", summary (4) "c", next step (5) "d" } }.
    let finding = b"\x0a\x01a\x10\x04\x1a\x01b\x22\x01c\x2a\x01d";
    let mut bytes = vec![0x1a, finding.len() as u8 + 2, 0x12, finding.len() as u8];
    bytes.extend(finding);
    let Ok(ToCoordinator::Inventory { findings, findings_left_out, .. }) = ToCoordinator::decode(&bytes)
    else {
        panic!("an inventory");
    };
    let [finding] = &findings[..] else { panic!("one finding") };
    assert_eq!((finding.id.as_str(), finding.status, finding.next_step.as_str()), ("a", Status::Fail, "d"));
    assert_eq!((finding.cause.as_str(), finding.since, findings_left_out), ("", Wall(0), 0));
    assert!(!finding.settling && !finding.latched && finding.evidence.is_empty());
}

/// Version 3 is older than rails and passes: its frames end before them, and it skips what it does not know.
#[test]
fn rails_and_passes_mean_nothing_to_who_does_not_know_them_and_are_not_missed_by_who_does() {
    // Book (4) { generation (1) 4, total (2) 1, peers (3) { "b" "d" 1 }, addresses (5) {} }.
    let book = b"\x08\x04\x10\x01\x1a\x08\x0a\x01b\x12\x01d\x18\x01\x2a\x00";
    let bytes = [&[0x22, book.len() as u8][..], book].concat();
    let Ok(ToAgent::Book { peers, .. }) = ToAgent::decode(&bytes) else { panic!("a book") };
    assert_eq!((peers.len(), peers[0].rail), (1, 0));
    let (numbers, removed) = ([].into(), Vec::new());
    let unplaced = ToAgent::Book { generation: 4, base: 0, total: 1, peers, numbers, removed };
    assert_eq!(unplaced.encode(), bytes, "where neither rails nor numbers are known, not a byte is added");
    // Grant (5) { epoch (1) 9, generation (2) 4, expiry (3) 60 s, rate (4) 10, batch (5) 30, labels (6) 16 }.
    let grant = b"\x08\x09\x10\x04\x18\xe0\xd4\x03\x20\x0a\x28\x1e\x30\x10";
    let bytes = [&[0x2a, grant.len() as u8][..], grant].concat();
    let Ok(ToAgent::Grant { cross_rail_every, sweep, labels, .. }) = ToAgent::decode(&bytes) else {
        panic!("a grant")
    };
    assert_eq!((cross_rail_every, sweep, labels), (0, None, 16));
    // A field of a version to come.
    let newer = [&[0x2a, grant.len() as u8 + 3][..], grant, b"\xf8\x01\x07"].concat();
    assert!(ToAgent::decode(&newer).is_ok());
}

/// Leave to drain is part of heartbeats: who is older skips the question, and its answer is no leave.
#[test]
fn an_older_coordinator_skips_the_question_for_leave_and_gives_none() {
    // Heartbeat (2) { all (1) true }, as it was before there were leaves.
    let before = b"\x12\x02\x08\x01";
    let paused = PauseFlags { all: true, bandwidth: false };
    assert_eq!(ToCoordinator::heartbeat(paused).encode(), before, "who asks for nothing adds not a byte");
    assert_eq!(ToCoordinator::decode(before).unwrap(), ToCoordinator::heartbeat(paused));
    // HeartbeatReply (3) {}.
    let Ok(ToAgent::HeartbeatReply { drain: None, .. }) = ToAgent::decode(b"\x1a\x00") else {
        panic!("a reply without an answer")
    };
    let fault = DrainFault { id: "port-phys-state".to_owned(), subject: "mlx5_0/1".to_owned() };
    let many = |count| ToCoordinator::Heartbeat { pause: paused, drain_for: vec![fault.clone(); count] };
    assert!(ToCoordinator::decode(&many(DRAIN_FAULTS_MAX).encode()).is_ok());
    assert!(ToCoordinator::decode(&many(DRAIN_FAULTS_MAX + 1).encode()).is_err());
}

/// An agent from before leaves, rails and PCI addresses were told.
#[test]
fn an_endpoint_of_an_older_agent_stands_nowhere() {
    // Inventory (3) { endpoint (1) { name (1) { "a" "d" 1 }, fabric (2) 1 } }.
    let endpoint = b"\x0a\x08\x0a\x01a\x12\x01d\x18\x01\x10\x01";
    let bytes = [&[0x1a, endpoint.len() as u8 + 2, 0x0a, endpoint.len() as u8][..], endpoint].concat();
    let Ok(ToCoordinator::Inventory { endpoints, .. }) = ToCoordinator::decode(&bytes) else {
        panic!("an inventory")
    };
    let [endpoint] = &endpoints[..] else { panic!("one endpoint") };
    assert_eq!(
        (&endpoint.switch_port, &endpoint.rail, &endpoint.pci_address),
        (&Reading::Absent, &None, &None)
    );
}
