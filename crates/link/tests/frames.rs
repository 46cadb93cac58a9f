//! Frames read back as they were written, and foreign bytes are refused with a reason, never with a panic.

use rdmascope_link::{
    FRAME_BYTES_MAX, FindingBrief, FrameError, Hello, PauseFlags, ProbeResult, RelayPayload, ToAgent,
    ToCoordinator,
};
use rdmascope_model::{
    BandwidthSpec, BandwidthStats, Cause, CounterDelta, EndpointInfo, EndpointName, Exclusion, Fabric,
    Failure, Gid, LatencySpec, LatencyStats, LeaseId, Metric, Outcome, ProbePlan, ProbeSpec, Role, Side,
    Status, Step, Urgency, Wall,
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
        metric: Metric::Bandwidth,
        measured_at: Wall(1_796_000_000_123),
        outcome,
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
            urgency: Urgency::Drained,
            expires_in: Duration::from_millis(5_000),
        },
        setup_within: Duration::from_millis(3_000),
    }
}

fn agent_frames() -> Vec<ToCoordinator> {
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
        completions: 100,
    };
    let delta = CounterDelta { retransmits: Some(11) };
    let endpoint = EndpointInfo {
        name: name("a/mlx5_0/1"),
        fabric: Fabric::InfiniBand,
        gid: Some(Gid([9; 16])),
        netdev: Some("eth2".to_owned()),
        netdev_mtu: Some(9_000),
        active_mtu: None,
        rate_bps: Some(400_000_000_000),
        unusable: Some(Cause::PortDown),
        unusable_detail: "state 1: DOWN".to_owned(),
    };
    let finding = FindingBrief {
        id: "port-state".to_owned(),
        status: Status::Fail,
        subject: "mlx5_0/1".to_owned(),
        summary: "down".to_owned(),
        next_step: "look".to_owned(),
    };
    vec![
        ToCoordinator::Hello(Hello {
            protocol_min: 1,
            protocol_max: 3,
            agent_version: "0.1.0".to_owned(),
            node: "node-7".to_owned(),
            instance: u64::MAX,
            machine: "boot".to_owned(),
        }),
        ToCoordinator::Heartbeat(PauseFlags { all: false, bandwidth: true }),
        ToCoordinator::Inventory { endpoints: vec![endpoint], findings: vec![finding] },
        ToCoordinator::Relay { lease: LeaseId(3), payload: RelayPayload::Offer(vec![0, 1, 2]) },
        ToCoordinator::Relay { lease: LeaseId(3), payload: RelayPayload::Ready },
        ToCoordinator::Results(vec![
            result(Outcome::Latency(latency(), delta)),
            result(Outcome::Bandwidth(bandwidth, CounterDelta { retransmits: None })),
            result(Outcome::Failed(failure)),
            ProbeResult { lease: None, ..result(Outcome::Excluded(Exclusion::Busy)) },
        ]),
    ]
}

fn coordinator_frames() -> Vec<ToAgent> {
    vec![
        ToAgent::Welcome { protocol: 1, epoch: 1_796_000_000_123, heartbeat: Duration::from_secs(5) },
        ToAgent::Refused { message: "no".to_owned() },
        ToAgent::HeartbeatReply,
        ToAgent::Book { generation: 4, total: 900, peers: vec![name("b/mlx5_0/1")] },
        ToAgent::Grant { epoch: 9, generation: 4, expires_in: Duration::from_secs(60), pings_per_second: 10 },
        plan(ProbeSpec::Latency(LatencySpec { samples: 1_000, warmup: 100, message_bytes: 8 })),
        plan(ProbeSpec::Bandwidth(BandwidthSpec {
            message_bytes: 65_536,
            depth: 16,
            warmup: Duration::from_millis(20),
            duration: Duration::from_millis(200),
            completions_min: 100,
            bytes_max: 1 << 30,
        })),
        ToAgent::Relay { lease: LeaseId(3), payload: RelayPayload::Ready },
        ToAgent::LeaseEnd { lease: LeaseId(3) },
        ToAgent::Pause(PauseFlags { all: true, bandwidth: false }),
    ]
}

#[test]
fn every_frame_reads_back_as_it_was_written() {
    for frame in agent_frames() {
        assert_eq!(ToCoordinator::decode(&frame.encode()).unwrap(), frame);
    }
    for frame in coordinator_frames() {
        assert_eq!(ToAgent::decode(&frame.encode()).unwrap(), frame);
    }
}

#[test]
fn foreign_bytes_are_refused_and_never_panic() {
    let agent = agent_frames().into_iter().map(|f| f.encode());
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
fn a_failure_dressed_as_a_number_is_refused() {
    let zero = BandwidthStats {
        bytes: 0,
        duration_ns: 1_000,
        average_bps: 0,
        worst_window_bps: None,
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
    });
    assert!(matches!(ToCoordinator::decode(&hello.encode()), Err(FrameError::BadField { .. })));
}
