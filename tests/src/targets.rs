//! The list of fuzz targets: whatever reads bytes that somebody else wrote, as a name and a function that takes any bytes.
//!
//! `cargo xtask fuzz` runs each of them under libFuzzer, and `tests/corpus.rs` with what was found before, in every run of the tests.
//! A new one is a function and a line, here or in the list of the crate that keeps its decoder private.

use rdmascope_checks::log::Rules;
use rdmascope_checks::{Look, Policy, run};
use rdmascope_control::agent::{self, Agent, Identity};
use rdmascope_control::coordinator::{Action, ConnectionId, Coordinator, Event, Settings};
use rdmascope_expose::api::{
    EndpointList, EventView, FindingList, HealthView, HistoryView, IncidentDetail, IncidentList, MatrixView,
    NodeList, PairView, ProbeView, Problem, SelfcheckReport, StatusView, SweepList, SweepView, decode_bin,
};
use rdmascope_host::{Host, KernelLogReader, PortMtu};
use rdmascope_link::{Hello, PROTOCOL_MAX, PROTOCOL_MIN, ToAgent, ToCoordinator};
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{Address, EndpointInfo, EndpointName, Fabric, Gid, Metric, Mono, Now, Wall};
use rdmascope_probe::mesh::{GRH_BYTES, Header, source_gid};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;

/// Name and function. It panics only where the decoder, or what it promises, is broken.
pub type Target = (&'static str, fn(&[u8]));

const OWN: [Target; 14] = [
    ("agent-state", agent_state),
    ("api-answers", api_answers),
    ("capture", captured_machine),
    ("certificates", certificates),
    ("config", config),
    ("coordinator-state", coordinator_state),
    ("datagrams", datagrams),
    ("frames-to-agent", frames_to_agent),
    ("frames-to-coordinator", frames_to_coordinator),
    ("kept-cells", kept_cells),
    ("kernel-log-rules", kernel_log_rules),
    ("matrix", matrix),
    ("names", names),
    ("node-lists", node_lists),
];

/// All of them, in the order of their names.
#[must_use]
pub fn targets() -> Vec<Target> {
    let mut all = [
        &OWN[..],
        &rdmascope_coordinator::DECODERS,
        &rdmascope_host::DECODERS,
        &rdmascope_sys::DECODERS,
        &rdmascope_transport::DECODERS,
    ]
    .concat();
    all.sort_unstable_by_key(|(name, _)| *name);
    all
}

/// What a coordinator answers, as commands read it; what is read is written as it is read.
fn api_answers(bytes: &[u8]) {
    fn one<T: DeserializeOwned + Serialize>(bytes: &[u8]) {
        let Ok(answer) = serde_json::from_slice::<T>(bytes) else { return };
        let written = serde_json::to_string(&answer).expect("an answer can be written");
        let again: T = serde_json::from_str(&written).expect("a written answer can be read");
        assert_eq!(serde_json::to_string(&again).expect("an answer can be written"), written);
    }
    one::<EndpointList>(bytes);
    one::<EventView>(bytes);
    one::<FindingList>(bytes);
    one::<HealthView>(bytes);
    one::<HistoryView>(bytes);
    one::<IncidentDetail>(bytes);
    one::<IncidentList>(bytes);
    one::<MatrixView>(bytes);
    one::<NodeList>(bytes);
    one::<PairView>(bytes);
    one::<ProbeView>(bytes);
    one::<Problem>(bytes);
    one::<SelfcheckReport>(bytes);
    one::<StatusView>(bytes);
    one::<SweepList>(bytes);
    one::<SweepView>(bytes);
}

/// A whole capture, with what it holds of some seconds earlier: it is read and judged.
fn captured_machine(bytes: &[u8]) {
    let Ok(host) = Host::from_archive(&String::from_utf8_lossy(bytes)) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    for host in [host.earlier(), Some(host)].into_iter().flatten() {
        let nobody = |_: &str, _: u8| PortMtu::failed("a capture asks nobody");
        let snapshot = runtime.block_on(host.snapshot(nobody));
        let log = KernelLogReader::new(None).read_now(&host, &Rules::builtin(), &snapshot);
        let policy = Policy::default();
        drop(run(&Look { log: &log, ..Look::first(&snapshot, &policy) }));
    }
}

/// A certificate in DER, and any bytes as PEM.
fn certificates(bytes: &[u8]) {
    drop(rdmascope_secure::subjects(bytes));
    let der = rdmascope_secure::CertificateDer::from(bytes.to_vec());
    drop(rdmascope_secure::Subject::of(&der));
}

/// A config, or all that is wrong with it, each with a line of the file.
fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(problems) = rdmascope_config::parse(&text, Path::new("rdmascope.yaml")) {
        let lines = text.lines().count().max(1);
        for problem in &problems.list {
            assert!(problem.line.is_none_or(|line| (1..=lines + 1).contains(&line)), "{problem:?}");
        }
        assert!(!problems.list.is_empty() && !problems.to_string().is_empty(), "refused, and no reason");
    }
}

/// Frames, each behind its length (u16, little-endian).
fn frames(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (frame, behind) = behind.split_at(length);
        rest = behind;
        Some(frame)
    })
}

const START: Now = Now { mono: Mono(1_000_000_000), wall: Wall(1_796_000_000_000) };
/// Between two frames.
const STEP: Duration = Duration::from_millis(700);

/// What a coordinator says to an agent with one endpoint: the agent goes on, and what it answers can be read.
fn agent_state(bytes: &[u8]) {
    let mut agent = Agent::new(Identity {
        node: "a".to_owned(),
        version: "0.1.0".to_owned(),
        instance: 1,
        machine: "m".to_owned(),
        metrics: None,
    });
    let endpoint = "a/d/1".parse().map(|name| EndpointInfo::bare(name, Fabric::Simulated));
    let mut now = START;
    agent.handle(
        agent::Event::Inventory { endpoints: endpoint.into_iter().collect(), findings: Vec::new() },
        now,
    );
    agent.handle(agent::Event::Connected, now);
    for frame in frames(bytes) {
        if let Ok(frame) = ToAgent::decode(frame) {
            agent.handle(agent::Event::Frame(frame), now);
        }
        now.mono = now.mono.after(STEP);
        agent.handle(agent::Event::Tick, now);
        while let Some(action) = agent.poll_action() {
            match action {
                agent::Action::Send(frame) => {
                    drop(ToCoordinator::decode(&frame.encode()).expect("it can be read"))
                }
                agent::Action::Look(lease, _) => agent.handle(agent::Event::Looked(lease, Ok(())), now),
                _ => {}
            }
        }
    }
    agent.handle(agent::Event::Disconnected, now);
}

/// What an agent says that has been let in: the coordinator goes on, and what it answers can be read.
fn coordinator_state(bytes: &[u8]) {
    let mut state = Coordinator::new(Settings::default(), 1);
    let mut now = START;
    let hello = Hello {
        protocol_min: PROTOCOL_MIN,
        protocol_max: PROTOCOL_MAX,
        agent_version: "0.1.0".to_owned(),
        node: "a".to_owned(),
        instance: 1,
        machine: "m".to_owned(),
        metrics: None,
    };
    state.handle(Event::Frame(ConnectionId(1), ToCoordinator::Hello(hello)), now);
    for frame in frames(bytes) {
        if let Ok(frame) = ToCoordinator::decode(frame) {
            state.handle(Event::Frame(ConnectionId(1), frame), now);
        }
        now.mono = now.mono.after(STEP);
        state.handle(Event::Tick, now);
        while let Some(action) = state.poll_action() {
            if let Action::Send(_, frame) = action {
                drop(ToAgent::decode(&frame.encode()).expect("it can be read"));
            }
        }
    }
    state.handle(Event::Closed(ConnectionId(1)), now);
}

/// What a receive of a datagram puts before the payload, then the payload.
fn datagrams(bytes: &[u8]) {
    let Some((before, payload)) = bytes.split_first_chunk::<GRH_BYTES>() else { return };
    let _ = source_gid(before);
    if let Some(header) = Header::decode(payload) {
        assert_eq!(Header::decode(&header.encode()), Some(header), "a header changes");
    }
}

fn frames_to_agent(bytes: &[u8]) {
    if let Ok(frame) = ToAgent::decode(bytes) {
        assert_eq!(ToAgent::decode(&frame.encode()).expect("a written frame can be read"), frame);
    }
}

fn frames_to_coordinator(bytes: &[u8]) {
    if let Ok(frame) = ToCoordinator::decode(bytes) {
        assert_eq!(ToCoordinator::decode(&frame.encode()).expect("a written frame can be read"), frame);
    }
}

/// A part of the matrix and of the history as an earlier coordinator kept them; what is taken is kept as it was taken.
fn kept_cells(bytes: &[u8]) {
    let now = START;
    let named: Vec<EndpointName> =
        ["a/d/1", "b/d/1", "c/d/1"].iter().filter_map(|n| n.parse().ok()).collect();
    let new = || {
        let mut state = Coordinator::new(Settings::default(), 1);
        let numbers = state.restore_names(&named);
        (state, numbers)
    };
    let (mut state, numbers) = new();
    let restored =
        state.restore(bytes, &numbers, now).is_ok() | state.restore_trails(bytes, &numbers).is_ok();
    for source in (0..3).map(EndpointIndex).filter(|_| restored) {
        for metric in Metric::ALL {
            let (mut kept, mut again) = (Vec::new(), Vec::new());
            state.keep(metric, source, 3, &mut kept);
            if kept.is_empty() {
                continue;
            }
            let (mut other, numbers) = new();
            other.restore(&kept, &numbers, now).expect("what was kept can be taken");
            other.keep(metric, source, 3, &mut again);
            assert_eq!(again.len(), kept.len(), "cells are lost");
        }
        let mut kept = Vec::new();
        state.keep_trails(source, 3, &mut kept);
        if !kept.is_empty() {
            let (mut other, numbers) = new();
            other.restore_trails(&kept, &numbers).expect("what was kept can be taken");
        }
        for target in (0..3).map(EndpointIndex) {
            let trail = state.trail(source, target, now.wall);
            let pair = trail.and_then(|trail| trail.pair);
            Metric::ALL.into_iter().for_each(|metric| drop(pair.map(|pair| pair.moments(metric))));
            Metric::ALL.into_iter().for_each(|metric| drop(state.matrix().cell(metric, source, target)));
        }
    }
}

/// An operator's own rules.
fn kernel_log_rules(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    if let Err(problems) = Rules::with_folder(&[("own.yaml".to_owned(), text)]) {
        assert!(!problems.is_empty(), "refused, and no reason");
    }
}

/// The matrix in its binary form: no more cells than there are bytes.
fn matrix(bytes: &[u8]) {
    if let Ok(matrix) = decode_bin(bytes) {
        let n = matrix.endpoints.len();
        assert_eq!(matrix.states.len(), n * n);
        assert!(matrix.planes.iter().all(|plane| plane.len() == n * n) && n * n <= bytes.len());
    }
}

/// Names, addresses and times as texts; what is read is shown so that it can be read again.
fn names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(name) = text.parse::<EndpointName>() {
        assert_eq!(name.to_string().parse(), Ok(name));
    }
    if let Ok(gid) = text.parse::<Gid>() {
        assert_eq!(gid.to_string().parse(), Ok(gid));
    }
    if let Ok(address) = text.parse::<Address>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
    if let Ok(time) = text.parse::<Wall>() {
        assert_eq!(time.to_string().parse(), Ok(time));
    }
    if let Ok(metric) = text.parse::<Metric>() {
        assert_eq!(metric.to_string().parse(), Ok(metric));
    }
    if let Ok(at) = text.parse::<rdmascope_config::HostPort>() {
        assert_eq!(at.to_string().parse(), Ok(at));
    }
}

/// Files that say where nodes hang and which of them are not to be used.
fn node_lists(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    drop(rdmascope_config::topology(&text));
    drop(rdmascope_config::in_maintenance(&text));
    drop(rdmascope_config::node_names(&text));
}
