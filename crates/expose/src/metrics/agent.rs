//! `/metrics` of an agent: its own ports and checks, from what was read last.

use std::collections::BTreeMap;
use std::time::Duration;

use rdmascope_model::{
    Device, Finding, GidType, KernelLog, LinkLayer, Metric, PhysState, Port, PortState, Reading, Snapshot,
    Wall,
};

use super::Family;
use super::build::build_info;
use super::catalogue::{
    MESH_DROPPED, MESH_ENDPOINTS, MESH_GAP, MESH_RECEIVES, MESH_REFUSED, MESH_WAITED, PAUSED,
    PORT_CARRIER_CHANGES, PORT_ECN_MARKED, PORT_EXPECTED_RATE, PORT_GIDS, PORT_INFO, PORT_MTU, PORT_PAIRS,
    PORT_PAUSE_FRAMES, PORT_PAUSE_SECONDS, PORT_PHYSICAL_STATE, PORT_RATE, PORT_RETRANSMITS, PORT_STATE,
    PORT_UP, PORT_WORST_BANDWIDTH, PORT_WORST_LATENCY, UPLINK_CONNECTED,
};
use super::checks::about_checks;
use super::counters::COUNTERS;
use super::pairs::Seconds;
use super::text::{Samples, Text};
use crate::api::PauseLevel;

const BITS_PER_BYTE: f64 = 8.0;
const UNKNOWN: &str = "unknown";
const MICROSECONDS: f64 = 1e6;

/// What an agent tells about itself.
#[derive(Clone, Copy)]
pub struct AgentInput<'a> {
    /// Version of the program.
    pub version: &'a str,
    /// What was read last; `None` before the first reading.
    pub snapshot: Option<&'a Snapshot>,
    /// What was found in it.
    pub findings: &'a [Finding],
    /// What was seen of the kernel log; `Absent` where nobody follows it.
    pub kernel_log: &'a Reading<KernelLog>,
    /// What a rule says of its lines, in a word.
    pub log_class: &'a dyn Fn(&str) -> &'static str,
    /// Signalling rate that an operator expects of a port, bits per second.
    pub expected_rate_bps: &'a dyn Fn(&Device, &Port) -> Option<u64>,
    /// How long the last reading of each part of the machine took, and the last run of the checks (`checks`).
    pub took: &'a BTreeMap<&'static str, Duration>,
    /// When each of these was done.
    pub done_at: &'a BTreeMap<&'static str, Wall>,
    /// Sum of a port's counters that mean "sent again", each event once.
    pub retransmits: fn(&BTreeMap<String, Reading<u64>>) -> Reading<u64>,
    /// What is paused on this node, by whichever way.
    pub paused: PauseLevel,
    /// The coordinator is connected.
    pub uplink_connected: bool,
    /// How the mesh of pings does; `None` before it has told.
    pub mesh: Option<MeshInput>,
    /// How the pairs of its endpoints do, as the coordinator told last.
    pub pairs: &'a [PairsInput<'a>],
}

/// The pairs of one endpoint in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairsInput<'a> {
    /// RDMA device.
    pub device: &'a str,
    /// Its port.
    pub port: u8,
    /// What was measured.
    pub metric: Metric,
    /// From the endpoint; else to it.
    pub outgoing: bool,
    /// How many are fresh, stale, failed.
    pub pairs: [u32; 3],
    /// The largest fresh median, nanoseconds; of bandwidth the smallest average, bits per second.
    pub worst: Option<u64>,
}

/// How the mesh of pings does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeshInput {
    /// Endpoints that are open.
    pub endpoints: u32,
    /// Receive buffers that are posted.
    pub receives_posted: u32,
    /// Receive buffers that should be.
    pub receives_wanted: u32,
    /// Datagrams thrown away since the start.
    pub refused: u64,
    /// Batches that nobody took, since the start.
    pub dropped: u64,
    /// Longest time between two turns of its thread.
    pub longest_gap: Duration,
    /// Of that time, what it waited for a processor; `None` where the kernel does not tell.
    pub waited: Option<Duration>,
}

/// What one look at a machine tells, without an agent: its ports and checks.
#[must_use]
pub fn look(input: &AgentInput<'_>) -> String {
    let mut text = Text::default();
    machine(&mut text, input);
    build_info(&mut text, input.version, "check");
    text.done()
}

fn machine(text: &mut Text, input: &AgentInput<'_>) {
    let ports = input.snapshot.map(Row::all).unwrap_or_default();
    about_ports(text, &ports);
    per_port(text, &PORT_EXPECTED_RATE, &ports, |row| {
        (input.expected_rate_bps)(row.device, row.port).map(|bits| bits as f64 / BITS_PER_BYTE)
    });
    about_traffic(text, &ports, input);
    about_checks(text, input);
}

/// The text of an agent's own families.
#[must_use]
pub fn agent(input: &AgentInput<'_>) -> String {
    let mut text = Text::default();
    machine(&mut text, input);
    text.single(&UPLINK_CONNECTED, u8::from(input.uplink_connected));
    build_info(&mut text, input.version, "agent");
    paused(&mut text, input.paused);
    input.mesh.iter().for_each(|mesh| about_mesh(&mut text, mesh));
    about_pairs(&mut text, input.pairs);
    text.done()
}

fn about_pairs(text: &mut Text, pairs: &[PairsInput<'_>]) {
    let way = |row: &PairsInput<'_>| if row.outgoing { "out" } else { "in" };
    text.family(&PORT_PAIRS, |out| {
        for row in pairs {
            for (state, count) in ["fresh", "stale", "failed"].into_iter().zip(row.pairs) {
                out.add(&[row.device, &row.port.to_string(), row.metric.as_str(), way(row), state], count);
            }
        }
    });
    let worst = |of_bandwidth: bool| {
        let rows = pairs.iter().filter(move |row| (row.metric == Metric::Bandwidth) == of_bandwidth);
        rows.filter_map(|row| Some((row, row.worst?)))
    };
    text.family(&PORT_WORST_LATENCY, |out| {
        for (row, ns) in worst(false) {
            out.add(&[row.device, &row.port.to_string(), row.metric.as_str(), way(row)], Seconds(ns));
        }
    });
    text.family(&PORT_WORST_BANDWIDTH, |out| {
        for (row, bits) in worst(true) {
            out.add(&[row.device, &row.port.to_string(), way(row)], bits as f64 / BITS_PER_BYTE);
        }
    });
}

fn about_mesh(text: &mut Text, mesh: &MeshInput) {
    text.single(&MESH_ENDPOINTS, mesh.endpoints);
    text.family(&MESH_RECEIVES, |out| {
        out.add(&["posted"], mesh.receives_posted);
        out.add(&["wanted"], mesh.receives_wanted);
    });
    text.single(&MESH_REFUSED, mesh.refused);
    text.single(&MESH_DROPPED, mesh.dropped);
    text.single(&MESH_GAP, mesh.longest_gap.as_secs_f64());
    mesh.waited.iter().for_each(|waited| text.single(&MESH_WAITED, waited.as_secs_f64()));
}

pub(super) fn paused(text: &mut Text, level: PauseLevel) {
    text.family(&PAUSED, |out| {
        for scope in [PauseLevel::Bandwidth, PauseLevel::All] {
            // Whoever pauses everything pauses bandwidth too.
            out.add(&[scope.as_str()], u8::from(level >= scope));
        }
    });
}

/// One port with what stands around it.
pub(super) struct Row<'a> {
    device: &'a Device,
    pub(super) port: &'a Port,
    number: String,
    pub(super) netdev: Option<&'a rdmascope_model::Netdev>,
}

impl<'a> Row<'a> {
    pub(super) fn all(snapshot: &'a Snapshot) -> Vec<Self> {
        let devices = snapshot.devices.value().map(Vec::as_slice).unwrap_or_default();
        let netdevs = snapshot.netdevs.value();
        let row = |device: &'a Device, port: &'a Port| Row {
            device,
            port,
            number: port.number.to_string(),
            netdev: port.netdev.value().and_then(|name| netdevs?.get(name)),
        };
        devices.iter().flat_map(|device| device.ports.iter().map(move |port| row(device, port))).collect()
    }

    fn labels(&self) -> [&str; 2] {
        [&self.device.name, &self.number]
    }
}

/// One family with at most one sample per port.
fn per_port<V: std::fmt::Display>(
    text: &mut Text,
    family: &Family,
    ports: &[Row<'_>],
    value: impl Fn(&Row<'_>) -> Option<V>,
) {
    text.family(family, |out| {
        for row in ports {
            if let Some(value) = value(row) {
                out.add(&row.labels(), value);
            }
        }
    });
}

fn about_ports(text: &mut Text, ports: &[Row<'_>]) {
    text.family(&PORT_INFO, |out| ports.iter().for_each(|row| info(out, row)));
    per_port(text, &PORT_UP, ports, |row| row.port.state.value().map(|s| u8::from(*s == PortState::Active)));
    text.family(&PORT_STATE, |out| {
        for row in ports {
            one_hot(out, row, &PORT_STATES, row.port.state.value().map_or(UNKNOWN, port_state));
        }
    });
    text.family(&PORT_PHYSICAL_STATE, |out| {
        for row in ports {
            one_hot(out, row, &PHYSICAL_STATES, row.port.phys_state.value().map_or(UNKNOWN, physical_state));
        }
    });
    per_port(text, &PORT_RATE, ports, |row| {
        row.port.rate_bps.value().map(|bits| *bits as f64 / BITS_PER_BYTE)
    });
    text.family(&PORT_MTU, |out| {
        for row in ports {
            let [device, port] = row.labels();
            let netdev = row.netdev.and_then(|n| n.mtu.value());
            let (active, max) = (row.port.active_mtu.value(), row.port.max_mtu.value());
            for (kind, bytes) in [("netdev", netdev), ("rdma_active", active), ("rdma_max", max)] {
                bytes.into_iter().for_each(|bytes| out.add(&[device, port, kind], bytes));
            }
        }
    });
    text.family(&PORT_GIDS, |out| ports.iter().for_each(|row| gids(out, row)));
}

fn info(out: &mut Samples<'_>, row: &Row<'_>) {
    let (device, port) = (row.device, row.port);
    let text = |reading: &'_ Reading<String>| reading.value().cloned().unwrap_or_default();
    let link_layer = match port.link_layer.value() {
        Some(LinkLayer::Ethernet) => "ethernet",
        Some(LinkLayer::InfiniBand) => "infiniband",
        Some(LinkLayer::Other(word)) => word,
        None => "",
    };
    let (netdev, pci, driver) = (text(&port.netdev), text(&device.pci_address), text(&device.driver));
    let (firmware, board) = (text(&device.firmware), text(&device.board));
    out.add(&[&device.name, &row.number, &netdev, link_layer, &pci, &driver, &firmware, &board], 1);
}

fn gids(out: &mut Samples<'_>, row: &Row<'_>) {
    // A part of the table is not the table: slots that could not be read might hold any type.
    let Some(gids) = row.port.gids.value().filter(|_| row.port.gids_unread.is_empty()) else { return };
    let [device, port] = row.labels();
    // The kernel prints one word for InfiniBand, RoCE v1 and all that is neither (iWARP, EFA); node type and link layer tell them apart.
    let adapter = row.device.node_type.value().is_none_or(|kind| kind == "CA");
    let v1 = match row.port.link_layer.value() {
        _ if !adapter => "other",
        Some(LinkLayer::InfiniBand) => "ib",
        _ => "rocev1",
    };
    let word = |kind: &Reading<GidType>| match kind.value() {
        Some(GidType::IbOrRoceV1) => v1,
        Some(GidType::RoceV2) => "rocev2",
        Some(GidType::Other(_)) => "other",
        None => UNKNOWN,
    };
    let kinds = [v1, "rocev2", "other", UNKNOWN];
    for kind in kinds.into_iter().skip(usize::from(v1 == "other")) {
        out.add(&[device, port, kind], gids.iter().filter(|entry| word(&entry.kind) == kind).count());
    }
}

const PORT_STATES: [&str; 7] = ["down", "init", "armed", "active", "active_defer", "other", UNKNOWN];

fn port_state(state: &PortState) -> &'static str {
    match state {
        PortState::Down => "down",
        PortState::Init => "init",
        PortState::Armed => "armed",
        PortState::Active => "active",
        PortState::ActiveDefer => "active_defer",
        PortState::Other(_) => "other",
    }
}

const PHYSICAL_STATES: [&str; 9] = [
    "sleep",
    "polling",
    "disabled",
    "port_configuration_training",
    "link_up",
    "link_error_recovery",
    "phy_test",
    "other",
    UNKNOWN,
];

fn physical_state(state: &PhysState) -> &'static str {
    match state {
        PhysState::Sleep => "sleep",
        PhysState::Polling => "polling",
        PhysState::Disabled => "disabled",
        PhysState::PortConfigurationTraining => "port_configuration_training",
        PhysState::LinkUp => "link_up",
        PhysState::LinkErrorRecovery => "link_error_recovery",
        PhysState::PhyTest => "phy_test",
        PhysState::Other(_) => "other",
    }
}

fn one_hot(out: &mut Samples<'_>, row: &Row<'_>, words: &[&str], current: &str) {
    let [device, port] = row.labels();
    for word in words {
        out.add(&[device, port, word], u8::from(*word == current));
    }
}

fn about_traffic(text: &mut Text, ports: &[Row<'_>], input: &AgentInput<'_>) {
    per_port(text, &PORT_RETRANSMITS, ports, |row| (input.retransmits)(&row.port.counters).value().copied());
    per_port(text, &PORT_CARRIER_CHANGES, ports, |row| row.netdev?.carrier_changes.value().copied());
    about_pauses(text, ports);
    for counter in COUNTERS {
        per_port(text, &counter.family, ports, |row| {
            let mut there = counter.files.iter().filter_map(|file| row.port.counters.get(*file)?.value());
            there.next().map(|count| u128::from(*count) * u128::from(counter.scale))
        });
    }
}

/// Direction, and the priority where the name has one, of a statistic such as `rx_prio3_pause`, `tx_global_pause_duration`.
fn pause<'a>(name: &'a str, end: &str) -> Option<(&'static str, &'a str)> {
    let direction = match name.get(..3)? {
        "rx_" => "received",
        "tx_" => "transmitted",
        _ => return None,
    };
    let of = name[3..].strip_suffix(end)?;
    let priority =
        of.strip_prefix("prio").filter(|digit| digit.len() == 1).or((of == "global").then_some(of))?;
    Some((direction, priority))
}

fn statistics<'a>(row: &Row<'a>) -> impl Iterator<Item = (&'a str, u64)> + use<'a> {
    let all = row.netdev.and_then(|netdev| netdev.statistics.value()).into_iter().flatten();
    all.map(|(name, count)| (name.as_str(), *count))
}

fn about_pauses(text: &mut Text, ports: &[Row<'_>]) {
    let families = [
        (&PORT_PAUSE_FRAMES, "_pause", 1.0),
        // The driver counts microseconds.
        (&PORT_PAUSE_SECONDS, "_pause_duration", MICROSECONDS),
    ];
    for (family, end, unit) in families {
        text.family(family, |out| {
            for row in ports {
                for (name, count) in statistics(row) {
                    if let Some((direction, priority)) = pause(name, end) {
                        let [device, port] = row.labels();
                        out.add(&[device, port, direction, priority], count as f64 / unit);
                    }
                }
            }
        });
    }
    text.family(&PORT_ECN_MARKED, |out| {
        for row in ports {
            for (name, count) in statistics(row) {
                let priority = name.strip_prefix("rx_prio").and_then(|rest| rest.strip_suffix("_marked"));
                if let Some(priority) = priority {
                    let [device, port] = row.labels();
                    out.add(&[device, port, priority], count);
                }
            }
        }
    });
}
