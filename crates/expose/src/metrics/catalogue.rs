//! Every metric family once: name, type, meaning, labels and who serves it. METRICS.md is made from this list.

use std::fmt::Write as _;

use super::counters::COUNTERS;

/// Type of a family in the text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only goes up, until its source is reset.
    Counter,
    /// Observations in buckets.
    Histogram,
    /// Quantiles made at the source.
    Summary,
}

impl Kind {
    /// The word of the text format.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// Where a family is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scrape {
    /// `/metrics` of every agent.
    Agent,
    /// `/metrics` of the coordinator.
    Coordinator,
    /// `/metrics` of both.
    Both,
    /// `/metrics/pairs` of the coordinator.
    Pairs,
}

impl Scrape {
    fn words(self) -> &'static str {
        match self {
            Self::Agent => "agent `/metrics`",
            Self::Coordinator => "coordinator `/metrics`",
            Self::Both => "agent and coordinator `/metrics`",
            Self::Pairs => "coordinator `/metrics/pairs`",
        }
    }
}

/// One metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Full name.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// One sentence, with the unit where the name does not say it.
    pub help: &'static str,
    /// Label names, in the order in which they are written.
    pub labels: &'static [&'static str],
    /// Who serves it.
    pub scrape: Scrape,
    /// Section of METRICS.md.
    pub section: &'static str,
}

type Labels = &'static [&'static str];

const fn family(
    section: &'static str,
    scrape: Scrape,
    kind: Kind,
    name: &'static str,
    labels: Labels,
    help: &'static str,
) -> Family {
    Family { name, kind, help, labels, scrape, section }
}

const PORT: Labels = &["device", "port"];
const PAUSED_BY: Labels = &["device", "port", "direction", "priority"];
const PORTS: &str = "Ports";
const CHECKS: &str = "Checks of a node";
const CLUSTER: &str = "Cluster";
const MATRIX: &str = "Matrix in short";
const PAIRS: &str = "Pairs";
const SELF: &str = "The daemons themselves";
pub(super) const COUNTED: &str = "Counters of a port";

const fn port(name: &'static str, labels: Labels, help: &'static str) -> Family {
    family(PORTS, Scrape::Agent, Kind::Gauge, name, labels, help)
}

pub(super) const fn port_counter(name: &'static str, help: &'static str) -> Family {
    family(COUNTED, Scrape::Agent, Kind::Counter, name, PORT, help)
}

const fn cluster(name: &'static str, labels: Labels, help: &'static str) -> Family {
    family(CLUSTER, Scrape::Coordinator, Kind::Gauge, name, labels, help)
}

const fn matrix(name: &'static str, labels: Labels, help: &'static str) -> Family {
    family(MATRIX, Scrape::Coordinator, Kind::Gauge, name, labels, help)
}

const fn mesh(kind: Kind, name: &'static str, labels: Labels, help: &'static str) -> Family {
    family(SELF, Scrape::Agent, kind, name, labels, help)
}

const PAIR: Labels =
    &["source_node", "source_device", "target_node", "target_device", "rail", "method", "clock"];

const GROUP: Labels = &["method", "rail", "scope"];
const WORST_PAIR: Labels =
    &["source_node", "source_device", "target_node", "target_device", "rail", "method"];

macro_rules! catalogue {
    ($($id:ident = $row:expr;)*) => {
        $(pub(super) static $id: Family = $row;)*
        static ROWS: &[&Family] = &[$(&$id),*];
    };
}

catalogue! {
    PORT_INFO = port("rdmascope_port_info",
        &["device", "port", "netdev", "link_layer", "pci", "driver", "firmware", "board"],
        "Facts about an RDMA port that change slowly; always 1.");
    PORT_UP = port("rdmascope_port_up", PORT, "1 while the port's state is ACTIVE, else 0; absent when it could not be read.");
    PORT_STATE = port("rdmascope_port_state", &["device", "port", "state"],
        "Logical state of the port: 1 for the current state, 0 for the others; unknown when it could not be read.");
    PORT_PHYSICAL_STATE = port("rdmascope_port_physical_state", &["device", "port", "state"],
        "Physical state of the port: 1 for the current state, 0 for the others; unknown when it could not be read.");
    PORT_RATE = port("rdmascope_port_rate_bytes_per_second", PORT, "Signalling rate of the port.");
    PORT_EXPECTED_RATE = port("rdmascope_port_expected_rate_bytes_per_second", PORT,
        "Signalling rate that the manifest expects of the port; absent where it says none.");
    PORT_MTU = port("rdmascope_port_mtu_bytes", &["device", "port", "kind"],
        "MTU: of the network device, the RDMA MTU in use, and the largest RDMA MTU that the port can do.");
    PORT_GIDS = port("rdmascope_port_gids", &["device", "port", "gid_type"],
        "Used slots of the port's GID table by type.");
    PORT_RETRANSMITS = port_counter("rdmascope_port_retransmits_total",
        "Times that this port, as the sender, began to send again, summed over the driver's counters of it; each event once.");
    PORT_CARRIER_CHANGES = port_counter("rdmascope_port_carrier_changes_total",
        "Carrier changes of the network device underneath the port.");
    PORT_PAUSE_FRAMES = family(COUNTED, Scrape::Agent, Kind::Counter, "rdmascope_port_pfc_pause_frames_total", PAUSED_BY,
        "Pause frames of the network device underneath, by direction (received: the switch stopped this port; transmitted: this host stopped the switch) and priority (global: all of them).");
    PORT_PAUSE_SECONDS = family(COUNTED, Scrape::Agent, Kind::Counter, "rdmascope_port_pfc_pause_seconds_total", PAUSED_BY,
        "Time in pause, likewise; its rate is the share of time.");
    PORT_ECN_MARKED = family(COUNTED, Scrape::Agent, Kind::Counter, "rdmascope_port_ecn_marked_packets_total", &["device", "port", "priority"],
        "Packets received with a congestion mark, by priority.");
    CHECK_LAST_RUN = family(CHECKS, Scrape::Agent, Kind::Gauge, "rdmascope_check_last_run_timestamp_seconds", &["check"],
        "When the check was last made.");
    COLLECTOR_LAST_RUN = family(CHECKS, Scrape::Agent, Kind::Gauge, "rdmascope_collector_last_run_timestamp_seconds", &["collector"],
        "When each part of the machine was last read, and the checks were last made (parts as in rdmascope_collector_duration_seconds).");
    CHECK_STATUS = family(CHECKS, Scrape::Agent, Kind::Gauge, "rdmascope_check_status", &["check", "status"],
        "Worst result of a check over all that it looked at: 1 for the current status, 0 for the others.");
    FINDING = family(CHECKS, Scrape::Agent, Kind::Gauge, "rdmascope_finding", &["check", "subject", "status"],
        "1 for each finding above ok, the worst first, at most 200; what settles is shown as it counts now. A finding that is fine has no sample.");
    FINDINGS_LEFT_OUT = family(CHECKS, Scrape::Agent, Kind::Gauge, "rdmascope_findings_left_out", &[],
        "Findings above ok that have no sample because there are more than 200.");
    KERNEL_LOG_LINES = family(CHECKS, Scrape::Agent, Kind::Counter, "rdmascope_kernel_log_lines_total", &["rule", "class"],
        "Lines of the kernel log that a rule knows, also those from before the agent's start, and what the rule says of them: out-of-service, error, warn, info, context. A rule without a line has no sample.");
    KERNEL_LOG_LOST = family(CHECKS, Scrape::Agent, Kind::Counter, "rdmascope_kernel_log_lost_total", &[],
        "Records that the kernel dropped before they could be read; absent where the kernel log is not followed.");
    COLLECTOR_DURATION = family(CHECKS, Scrape::Agent, Kind::Gauge, "rdmascope_collector_duration_seconds", &["collector"],
        "How long the last reading took: state (every second), counters, statistics, event (after a change), slow (everything); and the last run of the checks.");
    CHECKS_LAST_RUN = family(CHECKS, Scrape::Agent, Kind::Gauge, "rdmascope_checks_last_run_timestamp_seconds", &[],
        "When the machine was read last.");
    COLLECTOR_SUCCESS = family(CHECKS, Scrape::Agent, Kind::Gauge, "rdmascope_collector_success", &["collector"],
        "1 when everything that this reader looks for could be read, 0 when it could not look.");
    UPLINK_CONNECTED = family(CHECKS, Scrape::Agent, Kind::Gauge, "rdmascope_uplink_connected", &[],
        "1 while the agent is connected to its coordinator.");
    PORT_PAIRS = port("rdmascope_port_pairs", &["device", "port", "metric", "direction", "state"],
        "Pairs from this port (out) and to it (in) that are fresh, stale or failed, as the coordinator counted last; absent while it is not connected.");
    PORT_WORST_LATENCY = port("rdmascope_port_worst_pair_latency_seconds", &["device", "port", "metric", "direction"],
        "Largest median among the fresh pairs from this port (out) and to it (in): of latency half the round trip, of pings the round trip in the network.");
    PORT_WORST_BANDWIDTH = port("rdmascope_port_worst_pair_bandwidth_bytes_per_second", &["device", "port", "direction"],
        "Smallest average goodput among the fresh pairs from this port (out) and to it (in).");
    BUILD_INFO = family(SELF, Scrape::Both, Kind::Gauge, "rdmascope_build_info", &["version", "role", "revision"],
        "Version of the program, what it runs as, and the revision of its sources (only in builds that were told it, as packages are); always 1.");
    PAUSED = family(SELF, Scrape::Both, Kind::Gauge, "rdmascope_paused", &["scope"],
        "1 while probes of this scope (bandwidth, all) are paused: on this node for an agent, on the whole cluster for the coordinator.");
    NODES = cluster("rdmascope_nodes", &["state"], "Nodes by the state of their agent: connected or lost.");
    NODES_PAUSED = cluster("rdmascope_nodes_paused", &["scope"],
        "Nodes with a pause of their own, by the widest scope that is paused.");
    NODES_MAINTENANCE = cluster("rdmascope_nodes_maintenance", &[], "Nodes that are in maintenance.");
    CLUSTER_FINDINGS = cluster("rdmascope_cluster_findings", &["status", "state"],
        "Findings above ok of all nodes and between them: acknowledged, else in maintenance, else open.");
    INCIDENTS = cluster("rdmascope_incidents", &["status", "state"],
        "Incidents that are not over: suspected (being measured again), else acknowledged, else in maintenance, else open.");
    INCIDENT = cluster("rdmascope_incident", &["subject", "component", "effect", "status", "node", "leaf"],
        "1 for each open incident that nobody has acknowledged, the worst first, at most 50; subject is who is to blame, node and leaf where it is about one. One that is over has no sample.");
    DRIFT_PARTS = cluster("rdmascope_drift_parts", &["setting"],
        "Ports, devices and machines that have another value of this setting than most of their kind; those that somebody acknowledged, or works on, do not count.");
    AGENTS_WITHOUT_METRICS = cluster("rdmascope_agents_without_metrics", &[],
        "Agents that serve no metrics that others could read, and are not in the list for service discovery.");
    INCIDENTS_LEFT_OUT = cluster("rdmascope_incidents_left_out", &[],
        "Open incidents that have no sample because there are more than 50.");
    EVENTS = family(CLUSTER, Scrape::Coordinator, Kind::Counter, "rdmascope_events_total", &["kind"],
        "Events that entered the history since the coordinator's start.");
    ENDPOINTS = cluster("rdmascope_endpoints", &["state"],
        "Endpoints: usable, unusable (the port cannot be probed) or gone (no longer reported).");
    INSECURE = cluster("rdmascope_insecure", &[], "1 while the coordinator is open to the network without credentials.");
    EPOCH = cluster("rdmascope_epoch", &[], "The coordinator's epoch; it grows with every start.");
    GRANTS = cluster("rdmascope_mesh_grants", &[], "Mesh grants in force.");
    LEASES = cluster("rdmascope_pair_leases", &[], "Pair leases in force: probes that run now.");
    QUEUE_ENTRIES = cluster("rdmascope_queue_entries", &["queue"], "Entries that wait in a bounded queue.");
    QUEUE_LIMIT = cluster("rdmascope_queue_entries_limit", &["queue"], "Entries that the queue can hold.");
    SWEEP_RUNNING = cluster("rdmascope_sweep_running", &["metric"], "1 while a sweep of this metric runs.");
    SWEEP_DURATION = cluster("rdmascope_sweep_duration_seconds", &["metric"],
        "How long the running sweep has taken so far, else how long the last one took.");
    SWEEP_PROBES = cluster("rdmascope_sweep_probes", &["metric", "state"],
        "Probes of the running sweep, else of the last one: measured, failed, excluded or waiting; together all that were planned.");
    PAIRS_BY_STATE = matrix("rdmascope_pairs", &["metric", "state"], "Ordered pairs of endpoints by the state of their cell.");
    MATRIX_AGE = matrix("rdmascope_matrix_age_seconds", &["metric"],
        "Age of the oldest figure in the matrix; absent while nothing is measured.");
    MATRIX_COVERAGE = matrix("rdmascope_matrix_coverage_ratio", &["metric"],
        "Share of pairs that are fresh or failed, that is known, of all that are not excluded; absent without pairs.");
    MATRIX_STALE_AFTER = matrix("rdmascope_matrix_stale_after_seconds", &["metric"], "Age from which a cell counts as stale.");
    MATRIX_MEDIAN_LATENCY = matrix("rdmascope_matrix_median_latency_seconds", &[],
        "Median over all fresh pairs of their median latency; absent while none is fresh.");
    MATRIX_MEDIAN_BANDWIDTH = matrix("rdmascope_matrix_median_bandwidth_bytes_per_second", &[],
        "Median over all fresh pairs of their average bandwidth; absent while none is fresh.");
    MATRIX_MEDIAN_PING = matrix("rdmascope_matrix_median_ping_seconds", &[],
        "Median over all fresh pairs of the median network round trip of their pings; absent while none is fresh.");
    PROBE_LATENCY = family(MATRIX, Scrape::Coordinator, Kind::Histogram, "rdmascope_probe_latency_seconds", GROUP,
        "Median of each latency probe (half round trip) and of each batch of pings (round trip in the network), by method, rail (cross: its ends are on two) and scope: how far the ends are apart (node, leaf, pod, far, unknown).");
    PROBE_BANDWIDTH_RATIO = family(MATRIX, Scrape::Coordinator, Kind::Histogram, "rdmascope_probe_bandwidth_ratio", GROUP,
        "Average bandwidth of each bandwidth probe over the signalling rate of the slower of its two ports, likewise.");
    RAIL_PAIRS = matrix("rdmascope_rail_pairs", &["metric", "rail", "scope", "state"],
        "Ordered pairs of endpoints by the state of their cell, rail and scope (as above); groups without a pair have no sample.");
    WORST_PAIR_LATENCY = matrix("rdmascope_worst_pair_latency_seconds", WORST_PAIR,
        "Median latency of the worst 20 fresh pairs of each rail; a pair keeps its place for ten minutes, so that series do not come and go.");
    WORST_PAIR_BANDWIDTH = matrix("rdmascope_worst_pair_bandwidth_bytes_per_second", WORST_PAIR,
        "Average goodput of the worst 20 fresh pairs of each rail, likewise.");
    NODE_FAILED_PAIRS = matrix("rdmascope_node_failed_pairs", &["metric", "node"],
        "Failed pairs that end or begin on a node, for the 50 nodes with the most; a node with none has no sample.");
    COVERAGE_SECONDS = matrix("rdmascope_matrix_coverage_seconds", &[],
        "In which time what goes on by itself looks at every pair once; absent while nothing does.");
    PROBES = family(MATRIX, Scrape::Coordinator, Kind::Counter, "rdmascope_probes_total", &["metric", "outcome"],
        "Probes that ended: measured, failed or excluded; for ping: batches of pings, which failed when none was answered.");
    PROBE_FAILURES = family(MATRIX, Scrape::Coordinator, Kind::Counter, "rdmascope_probe_failures_total", &["cause"],
        "Failed probes by cause.");
    PAIR_LATENCY = family(PAIRS, Scrape::Pairs, Kind::Summary, "rdmascope_pair_latency_seconds",
        &["source_node", "source_device", "target_node", "target_device", "rail", "method", "clock", "quantile"],
        "Latency of an ordered pair, by quantile; only fresh pairs. Half round trip (methods rc_half_rtt, tcp_half_rtt), or the round trip of pings without the time inside the hosts (ud_network_rtt, which has no 0.99: its batches are short).");
    PAIR_BANDWIDTH = family(PAIRS, Scrape::Pairs, Kind::Gauge, "rdmascope_pair_bandwidth_bytes_per_second", PAIR,
        "Average goodput from source to target; only fresh pairs.");
    PAIR_STATE = family(PAIRS, Scrape::Pairs, Kind::Gauge, "rdmascope_pair_state",
        &["source_node", "source_device", "target_node", "target_device", "rail", "metric", "state"],
        "1 for the current state of the pair: fresh, stale, never, failed or excluded; other states have no sample. While everything that is measured of the pair is fresh, it is one sample with the metric `all`.");
    NODE_PAIR_LATENCY = family(PAIRS, Scrape::Pairs, Kind::Gauge, "rdmascope_node_pair_worst_latency_seconds",
        &["source_node", "target_node", "method"],
        "Largest median latency between the endpoints of two nodes, on one rail where rails are known; only with more than metrics.pairs_max pairs, and while there are at most as many pairs of nodes.");
    NODE_PAIR_BANDWIDTH = family(PAIRS, Scrape::Pairs, Kind::Gauge, "rdmascope_node_pair_worst_bandwidth_bytes_per_second",
        &["source_node", "target_node", "method"],
        "Smallest average goodput between the endpoints of two nodes; as above.");
    LEAF_PAIR_LATENCY = family(PAIRS, Scrape::Pairs, Kind::Gauge, "rdmascope_leaf_pair_worst_latency_seconds",
        &["source_leaf", "target_leaf", "method"],
        "Largest median latency between the endpoints of two leaves, on one rail where rails are known; only with more than metrics.pairs_max pairs, and while there are at most as many pairs of leaves.");
    LEAF_PAIR_BANDWIDTH = family(PAIRS, Scrape::Pairs, Kind::Gauge, "rdmascope_leaf_pair_worst_bandwidth_bytes_per_second",
        &["source_leaf", "target_leaf", "method"],
        "Smallest average goodput between the endpoints of two leaves; as above.");
    PAIRS_LEFT_OUT = family(PAIRS, Scrape::Pairs, Kind::Gauge, "rdmascope_pairs_left_out", &[],
        "Pairs that exist and are not in this answer, because there are more than metrics.pairs_max.");
    AGENT_PROBES = family(SELF, Scrape::Agent, Kind::Counter, "rdmascope_agent_probes_total", &["metric", "outcome"],
        "Probes in which this agent took part, as source or target: measured, failed or excluded.");
    AGENT_RECONNECTS = family(SELF, Scrape::Agent, Kind::Counter, "rdmascope_agent_reconnects_total", &[],
        "Times that the connection to the coordinator was lost and made again.");
    AGENT_DROPPED = family(SELF, Scrape::Agent, Kind::Counter, "rdmascope_agent_results_dropped_total", &[],
        "Results thrown away because the queue to the coordinator was full.");
    EVENTS_DROPPED = family(SELF, Scrape::Agent, Kind::Counter, "rdmascope_events_dropped_total", &[],
        "Events of this node thrown away because no coordinator took them for too long.");
    MESH_ENDPOINTS = mesh(Kind::Gauge, "rdmascope_mesh_endpoints", &[],
        "Endpoints of this node that take pings. Like all of the mesh absent until its thread has told of itself.");
    MESH_RECEIVES = mesh(Kind::Gauge, "rdmascope_mesh_receive_buffers", &["state"],
        "Receive buffers for pings, over all endpoints: posted, and wanted. Fewer posted than wanted for long means that this agent grows deaf.");
    MESH_REFUSED = mesh(Kind::Counter, "rdmascope_mesh_datagrams_refused_total", &[],
        "Datagrams thrown away: unreadable, from nobody in the address book, or too many.");
    MESH_DROPPED = mesh(Kind::Counter, "rdmascope_mesh_batches_dropped_total", &[],
        "Batches of pings, own and heard, whose results nobody took in time, or no coordinator was there for.");
    MESH_GAP = mesh(Kind::Gauge, "rdmascope_mesh_longest_gap_seconds", &[],
        "Longest time between two turns of the mesh's thread while it had something to do, in the last few seconds.");
    MESH_WAITED = mesh(Kind::Gauge, "rdmascope_mesh_processor_wait_seconds", &[],
        "Of that time, what the thread waited for a processor; absent where the kernel does not tell.");
    KERNEL_READS = family(SELF, Scrape::Agent, Kind::Counter, "rdmascope_agent_kernel_reads_total", &["tier"],
        "Files, folders and links that the agent opened to read the machine, and its netlink questions, by the part that was read (see rdmascope_collector_duration_seconds).");
    AGENTS_REFUSED = family(SELF, Scrape::Coordinator, Kind::Counter, "rdmascope_agents_refused_total", &["reason"],
        "Connections of agents that were refused: wrong token, unsupported version, frames out of order or about another node (conduct), a certificate for another node (identity), too many of them (full), no hello within ten seconds (silent), or one that takes nothing of what is sent, for 30 seconds or with 256 frames waiting (stuck).");
    CERTIFICATE_EXPIRY = family(SELF, Scrape::Both, Kind::Gauge, "rdmascope_tls_certificate_expiry_timestamp_seconds", &["file"],
        "When the first certificate of a file expires, in seconds since 1970; only where there are certificates (tls_dir).");
    CONNECTIONS_REFUSED = family(SELF, Scrape::Both, Kind::Counter, "rdmascope_http_connections_refused_total", &["reason"],
        "Connections that were not served: too many (full), too many of one address for ten seconds (address), not secure within ten seconds (slow), TLS failed (handshake), plain text to a port with TLS (plain).");
    WRITES_FAILED = family(SELF, Scrape::Coordinator, Kind::Counter, "rdmascope_state_writes_failed_total", &["file"],
        "Times that a file in state_dir could not be written (full disk, quota, permissions): the history of events with all notes (history), the matrix (matrix), the history of pairs (pairs). Events wait in memory and are written when it is possible again.");
    FRAMES_DELAYED = family(SELF, Scrape::Coordinator, Kind::Counter, "rdmascope_frames_delayed_total", &[],
        "Times that an agent had sent more than 1,024 frames at once or 500 a second and was kept waiting.");
    FRAMES_MALFORMED = family(SELF, Scrape::Coordinator, Kind::Counter, "rdmascope_frames_malformed_total", &[],
        "Frames of agents that could not be understood; the connection is closed.");
}

const fn process(kind: Kind, name: &'static str, help: &'static str) -> Family {
    family(SELF, Scrape::Both, kind, name, &[], help)
}

/// What the library's collector tells of the process, by the names that every exporter has.
static PROCESS: [Family; 7] = [
    process(Kind::Counter, "process_cpu_seconds_total", "Processor time of the process, in whole seconds."),
    process(Kind::Gauge, "process_resident_memory_bytes", "Resident memory of the process."),
    process(Kind::Gauge, "process_virtual_memory_bytes", "Virtual memory of the process."),
    process(Kind::Gauge, "process_open_fds", "File descriptors that are open."),
    process(Kind::Gauge, "process_max_fds", "File descriptors that may be open."),
    process(Kind::Gauge, "process_threads", "Threads of the process."),
    process(Kind::Gauge, "process_start_time_seconds", "When the process began, seconds since 1970."),
];

/// Every family, sorted by section and then as listed there.
pub fn families() -> impl Iterator<Item = &'static Family> {
    ROWS.iter().copied().chain(COUNTERS.iter().map(|row| &row.family)).chain(&PROCESS)
}

/// The text of `dashboards/METRICS.md`.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::from(INTRODUCTION);
    for section in [PORTS, COUNTED, CHECKS, CLUSTER, MATRIX, PAIRS, SELF] {
        let _ = write!(
            out,
            "\n## {section}\n\n| name | type | labels | served by | meaning |\n| --- | --- | --- | --- | --- |\n"
        );
        for row in families().filter(|row| row.section == section) {
            let labels = row.labels.join(", ");
            let (kind, scrape) = (row.kind.as_str(), row.scrape.words());
            let _ = writeln!(out, "| `{}` | {kind} | {labels} | {scrape} | {} |", row.name, row.help);
        }
    }
    out
}

const INTRODUCTION: &str = "\
# Metrics

Made from the catalogue in `crates/expose/src/metrics`; a test compares them.

- Text format 0.0.4. Base units: seconds, bytes, ratios from 0 to 1.
- A value that is not known is absent, never 0. A failed or stale pair has no latency and no bandwidth, only its state.
- A pair has the state of its pings only where both endpoints take datagrams. Path labels are in no label.
- `/metrics` grows with the number of ports and nodes. `/metrics/pairs` carries every ordered pair up to `metrics.pairs_max` (10,000);
  above it the pairs that failed or are stale, failed ones first, at most 1,000, and `rdmascope_pairs_left_out` says how many are missing.
- The `device` of a pair is the RDMA device; for ports other than the first it is followed by `/` and the port number.
- Shipped alerts never use pair series.
- `/metrics` of an agent has at most 1,500 series for eight ports, whatever is wrong with them, that of the coordinator some 5,000 for 4,096
  endpoints on eight rails; tests hold both. Set `sample_limit` to 20,000.
";
