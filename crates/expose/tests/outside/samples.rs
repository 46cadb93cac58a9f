//! A node and a cluster with something of everything, for the tests of the metrics.

use std::collections::BTreeMap;

use prometheus::Registry;
use rdmascope_expose::api::{CellState, PauseLevel};
use rdmascope_expose::metrics::{
    AgentInput, AgentOwn, CoordinatorInput, CoordinatorOwn, FindingCounts, FindingState, GroupInput,
    IncidentInput, IncidentState, MeshInput, MetricInput, NodeFailures, PairBandwidth, PairLatency, PairPing,
    PairRow, PairsInput, ProbeOutcome, QueueInput, SpreadInput, SweepInput, WorstOf, WorstPairInput,
    WorstRow, agent, coordinator, encode, pairs, worst_pairs,
};
use rdmascope_model::{
    Cause, Device, EndpointName, Finding, GidEntry, GidType, KernelLog, LinkLayer, LogHit, Metric, Netdev,
    PhysState, Port, PortState, Reading, Routing, Snapshot, Status, System, Wall,
};

/// Every counter file that any driver gives.
const FILES: &[&str] = &[
    "port_rcv_data",
    "port_xmit_data",
    "port_rcv_packets",
    "port_xmit_packets",
    "port_xmit_wait",
    "port_xmit_discards",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "symbol_error",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "roce_adp_retrans",
    "req_transport_retries_exceeded",
    "out_of_sequence",
    "duplicate_request",
    "rnr_nak_retry_err",
    "out_of_buffer",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_icrc_encapsulated",
];

/// What `ethtool -S` says.
const STATISTICS: &[(&str, u64)] = &[
    ("rx_prio3_pause", 5),
    ("rx_prio3_pause_duration", 2_500_000),
    ("rx_prio3_pause_transition", 9),
    ("tx_prio3_pause", 6),
    ("tx_global_pause", 7),
    ("tx_global_pause_duration", 500),
    ("rx_prio3_marked", 8),
    ("rx_prio3_packets", 99),
];

fn word(text: &str) -> Reading<String> {
    Reading::Value(text.to_owned())
}

/// A port in good health.
pub(crate) fn port() -> Port {
    Port {
        number: 1,
        state: Reading::Value(PortState::Active),
        phys_state: Reading::Value(PhysState::LinkUp),
        link_layer: Reading::Value(LinkLayer::Ethernet),
        rate_bps: Reading::Value(100_000_000_000),
        lid: Reading::Value(0),
        gids: Reading::Value(vec![GidEntry {
            index: 3,
            gid: "::ffff:10.0.0.1".parse().unwrap(),
            kind: Reading::Value(GidType::RoceV2),
            netdev: word("eth1"),
        }]),
        gids_unread: Vec::new(),
        active_mtu: Reading::Value(4096),
        max_mtu: Reading::Value(4096),
        netdev: word("eth1"),
        sm_lid: Reading::Value(0),
        pkeys: Reading::Value(vec![0xffff]),
        counters: FILES.iter().map(|file| ((*file).to_owned(), Reading::Value(7))).collect(),
    }
}

/// A node with one device, of these ports.
pub(crate) fn snapshot(ports: Vec<Port>) -> Snapshot {
    let netdev = Netdev {
        index: Reading::Value(2),
        mtu: Reading::Value(9000),
        oper_state: word("up"),
        admin_up: Reading::Value(true),
        carrier: Reading::Value(true),
        carrier_changes: Reading::Value(3),
        tx_bytes: Reading::Value(1),
        rx_bytes: Reading::Value(1),
        statistics: Reading::Value(
            STATISTICS.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        ),
        addresses: Reading::Value(vec!["10.0.0.1/24".parse().unwrap()]),
        ..Netdev::unread("not part of this sample")
    };
    Snapshot {
        taken_at: Wall(1_796_000_000_500),
        devices: Reading::Value(vec![Device {
            name: "mlx5_0".to_owned(),
            node_guid: word("b859:9f03:00d4:1c2a"),
            firmware: word("20.39.1002"),
            node_type: word("CA"),
            board: word("MT_0000000008"),
            driver: word("mlx5_core"),
            pci_address: word("0000:3b:00.0"),
            numa_node: Reading::Value(0),
            uverbs: word("uverbs0"),
            ports,
            ..Device::unread("mlx5_0", "not part of this sample")
        }]),
        netdevs: Reading::Value(BTreeMap::from([("eth1".to_owned(), netdev)])),
        routing: Routing::unread("not part of this sample"),
        pci: Reading::Absent,
        system: System::unread("not part of this sample"),
        workloads: Reading::Value(Vec::new()),
    }
}

/// Stands for the sum that the agent makes of several counters.
pub(crate) fn retransmits(counters: &BTreeMap<String, Reading<u64>>) -> Reading<u64> {
    counters.get("packet_seq_err").cloned().unwrap_or(Reading::Absent)
}

/// One result of a check.
pub(crate) fn finding(id: &'static str, status: Status) -> Finding {
    Finding {
        id: id.into(),
        status,
        subject: "mlx5_0/1".to_owned(),
        summary: "Seen.".to_owned(),
        cause: String::new(),
        next_step: String::new(),
        evidence: Vec::new(),
    }
}

static NOTHING_TOOK: BTreeMap<&str, std::time::Duration> = BTreeMap::new();
static NOTHING_DONE: BTreeMap<&str, Wall> = BTreeMap::new();
static NO_LOG: Reading<KernelLog> = Reading::Absent;

/// An agent's input over a snapshot and findings.
pub(crate) fn agent_input<'a>(snapshot: Option<&'a Snapshot>, findings: &'a [Finding]) -> AgentInput<'a> {
    AgentInput {
        version: "1.2.3",
        snapshot,
        findings,
        kernel_log: &NO_LOG,
        log_class: &|_| "error",
        expected_rate_bps: &|_, port| (port.number == 1).then_some(200_000_000_000),
        took: &NOTHING_TOOK,
        done_at: &NOTHING_DONE,
        retransmits,
        paused: PauseLevel::Bandwidth,
        uplink_connected: true,
        mesh: None,
        pairs: &[],
    }
}

/// All that a healthy agent answers.
pub(crate) fn agent_text() -> String {
    let snapshot = snapshot(vec![port()]);
    let registry = Registry::new();
    let own = AgentOwn::new(&registry).unwrap();
    own.probe(Metric::Latency.as_str(), ProbeOutcome::Measured);
    own.daemon.certificate("/etc/rdmascope/tls/tls.crt".as_ref(), Wall(1_900_000_000_000));
    let findings = [finding("port-state", Status::Ok), finding("netdev-mtu", Status::Warn)];
    let hit = LogHit {
        rule: "mlx5-health".to_owned(),
        subject: None,
        count: 2,
        first: Reading::Absent,
        last: Reading::Absent,
        recent: Vec::new(),
        line: String::new(),
    };
    let log =
        KernelLog { hits: vec![hit.clone(), LogHit { count: 3, ..hit }], lost: 4, ..KernelLog::default() };
    let log = Reading::Value(log);
    let took = BTreeMap::from([("state", std::time::Duration::from_micros(1_500))]);
    let done_at = BTreeMap::from([("state", Wall(1_796_000_001_000)), ("checks", Wall(1_796_000_002_000))]);
    let input = agent_input(Some(&snapshot), &findings);
    let mesh = MeshInput {
        endpoints: 8,
        receives_posted: 255,
        receives_wanted: 256,
        refused: 2,
        dropped: 1,
        longest_gap: std::time::Duration::from_millis(20),
        waited: Some(std::time::Duration::from_millis(15)),
    };
    let pairs = |metric, worst| PairsInput {
        device: "mlx5_0",
        port: 1,
        metric,
        outgoing: true,
        pairs: [61, 1, 2],
        worst: Some(worst),
    };
    let pairs = [pairs(Metric::Ping, 9_000), pairs(Metric::Bandwidth, 80_000_000_000)];
    let (mesh, pairs) = (Some(mesh), &pairs);
    agent(&AgentInput { kernel_log: &log, took: &took, done_at: &done_at, mesh, pairs, ..input })
        + &encode(&registry).unwrap()
}

/// The matrix of one metric in short.
pub(crate) fn metric_input(metric: Metric) -> MetricInput {
    MetricInput {
        metric,
        pairs: [6, 2, 1, 2, 1],
        age_seconds: Some(12.5),
        stale_after_seconds: 60.0,
        median: Some(2_000),
        sweep: Some(SweepInput { running: true, seconds: 7.5, total: 12, done: 9, failed: 2, excluded: 1 }),
    }
}

fn finding_counts() -> FindingCounts {
    let mut counts = FindingCounts::default();
    counts.add(Status::Fail, FindingState::Open);
    counts.add(Status::Warn, FindingState::Acknowledged);
    counts.add(Status::Warn, FindingState::Acknowledged);
    counts.add(Status::Ok, FindingState::Open);
    counts
}

/// An incident that is not over.
pub(crate) fn incident(subject: &str, state: IncidentState) -> IncidentInput {
    let subject = subject.to_owned();
    let (node, leaf) = (subject.split('/').next().unwrap_or_default().to_owned(), String::new());
    IncidentInput { state, status: Status::Fail, subject, component: "endpoint", effect: "lossy", node, leaf }
}

/// All that a coordinator answers on `/metrics`, with one open and one suspected incident.
pub(crate) fn coordinator_text() -> String {
    coordinator_with(&[
        incident("node7/mlx5_0/1", IncidentState::Open),
        incident("node8/mlx5_0/1", IncidentState::Suspected),
    ])
}

/// The same with other incidents.
pub(crate) fn coordinator_with(incidents: &[IncidentInput]) -> String {
    let [source, target] =
        ["node1/mlx5_0/1", "node2/mlx5_0/2"].map(|name| name.parse::<EndpointName>().unwrap());
    let worst = |metric, method, figure| WorstPairInput {
        metric,
        source: &source,
        target: &target,
        rail: "rail-0",
        method,
        figure,
    };
    let registry = Registry::new();
    let own = CoordinatorOwn::new(&registry, &["state-change"]).unwrap();
    own.event("state-change");
    own.daemon.certificate("/etc/rdmascope/tls/ca.crt".as_ref(), Wall(1_900_000_000_000));
    own.measured(Metric::Latency);
    own.failed(Metric::Latency, Cause::RetryExceeded);
    let metrics = Metric::ALL.map(metric_input);
    let input = CoordinatorInput {
        version: "1.2.3",
        epoch: 5,
        insecure: false,
        paused: PauseLevel::None,
        nodes_connected: 4,
        nodes_lost: 1,
        nodes_paused_bandwidth: 0,
        nodes_paused_all: 1,
        nodes_maintenance: 1,
        without_metrics: 2,
        drifting: &[("pfc", 1), ("netdev_mtu", 0)],
        findings: finding_counts(),
        incidents,
        endpoints_usable: 4,
        endpoints_unusable: 1,
        endpoints_gone: 0,
        grants: 4,
        leases: 2,
        queues: &[QueueInput { name: "agent_bulk", entries: 3, limit: 1_024 }],
        metrics: &metrics,
        coverage_seconds: Some(40.0),
        groups: &[
            GroupInput { metric: Metric::Ping, rail: "rail-0", scope: "leaf", pairs: [3, 0, 1, 0, 0] },
            GroupInput { metric: Metric::Ping, rail: "rail-1", scope: "leaf", pairs: [0; 5] },
        ],
        worst: &[worst(Metric::Ping, "ud_network_rtt", 9_000), worst(Metric::Bandwidth, "rc_write", 8_000)],
        failures: &[NodeFailures { metric: Metric::Ping, node: "node1", pairs: 4 }],
        latencies: &[SpreadInput {
            labels: ["rc_half_rtt", "rail-0", "leaf"],
            bounds: &[0.000_001, 0.000_002],
            counts: &[1, 2, 3],
            sum: 0.5,
        }],
        ratios: &[SpreadInput {
            labels: ["rc_write", "", "unknown"],
            bounds: &[0.5, 0.99],
            counts: &[0, 4, 0],
            sum: 3.6,
        }],
    };
    coordinator(&input) + &encode(&registry).unwrap()
}

/// Names of `count` endpoints.
pub(crate) fn names(count: usize) -> Vec<EndpointName> {
    (0..count)
        .map(|i| EndpointName { node: format!("node{i}"), device: "mlx5_0".to_owned(), port: 1 })
        .collect()
}

/// A pair that was measured.
pub(crate) fn fresh<'a>(source: &'a EndpointName, target: &'a EndpointName) -> PairRow<'a> {
    PairRow {
        source,
        target,
        rail: "",
        latency: Some(PairLatency {
            state: CellState::Fresh,
            p50_ns: Some(2_500),
            p99_ns: Some(9_000),
            method: "rc_half_rtt",
            clock: "sw",
        }),
        bandwidth: PairBandwidth {
            state: CellState::Fresh,
            average_bps: Some(96_000_000_000),
            method: "rc_write",
            clock: "sw",
        },
        ping: Some(PairPing { state: CellState::Fresh, p50_ns: Some(3_000), clock: "hw" }),
    }
}

/// Every ordered pair, changed by `change`.
pub(crate) fn all_pairs(
    names: &[EndpointName],
    change: impl Fn(usize, usize, &mut PairRow<'_>) + Copy,
) -> impl Iterator<Item = PairRow<'_>> + Clone {
    (0..names.len()).flat_map(move |s| {
        (0..names.len()).filter(move |t| *t != s).map(move |t| {
            let mut row = fresh(&names[s], &names[t]);
            change(s, t, &mut row);
            row
        })
    })
}

/// All that a coordinator answers on `/metrics/pairs` for four endpoints, one of which is dead.
pub(crate) fn pairs_text() -> String {
    let names = names(4);
    let rows = all_pairs(&names, |s, t, row| {
        if s == 3 || t == 3 {
            row.latency.iter_mut().for_each(|latency| latency.state = CellState::Failed);
            row.bandwidth.state = CellState::Never;
        }
    });
    let worst = |metric, method, figure| WorstRow { source: "n0", target: "n1", metric, method, figure };
    let worst = [
        worst(Metric::Latency, "rc_half_rtt", 2_500),
        worst(Metric::Ping, "ud_network_rtt", 3_000),
        worst(Metric::Bandwidth, "rc_write", 96_000_000_000),
    ];
    let groups = [WorstOf::Nodes, WorstOf::Leaves].map(|of| worst_pairs(of, &worst));
    pairs(12, 10_000, rows).chain(groups).collect()
}
