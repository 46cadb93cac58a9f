//! From the state's words to what the API shows.

use crate::incidents;
use crate::sweeps::sweep;
use rdmascope_control::coordinator::{Coordinator, Endpoint, LeafSource, RailSource};
use rdmascope_expose::api::{
    BandwidthFigures, CellReason, CellState as Shown, CellView, EndpointList, EndpointView, LatencyFigures,
    MatrixCells, MatrixHead, MatrixRow, MatrixWriter, Needed, NodeList, NodePause, NodeView, PairVerdict,
    PairView, PauseLevel, PauseView, PingFigures, StatusView, SweepState,
};
use rdmascope_link::PauseFlags;
use rdmascope_localise::{
    Brief, Cell, CellState, Columns, EndpointIndex, IncidentState, Measured, PairEnds, Wanted, ping_verdicts,
};
use rdmascope_model::{CounterDelta, Fabric, Metric, Now, StampClock, Wall};
use std::cell::RefCell;

/// Version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How a metric is measured from an endpoint, as the API names it. Figures over TCP must never pass for RDMA.
pub(crate) fn method(state: &Coordinator, metric: Metric, source: EndpointIndex) -> &'static str {
    let fabric = state.members().endpoint(source).map(|endpoint| endpoint.info.fabric);
    // Known from an earlier run only: nobody has said since what it is.
    fabric.map_or("unknown", |fabric| method_over(fabric == Fabric::Tcp, metric))
}

/// The same where it is known whether it was over TCP.
pub(crate) fn method_over(tcp: bool, metric: Metric) -> &'static str {
    match (tcp, metric) {
        (_, Metric::Ping) => "ud_network_rtt",
        (true, Metric::Latency) => "tcp_half_rtt",
        (true, Metric::Bandwidth) => "tcp_stream",
        (false, Metric::Latency) => "rc_half_rtt",
        (false, Metric::Bandwidth) => "rc_write",
    }
}

/// The method of a whole matrix; `mixed` where it holds endpoints of several kinds.
pub(crate) fn method_of_all(state: &Coordinator, metric: Metric) -> &'static str {
    let mut methods = state.members().endpoints().map(|(index, _)| method(state, metric, index));
    let first = methods.next().unwrap_or("unknown");
    if methods.all(|method| method == first) { first } else { "mixed" }
}

/// The clock of everything but pings: the host's.
pub(crate) const CLOCK: &str = "sw";

/// The API's word for a cell's state.
pub(crate) fn shown(state: CellState) -> Shown {
    match state {
        CellState::Fresh => Shown::Fresh,
        CellState::Stale => Shown::Stale,
        CellState::Never => Shown::Never,
        CellState::Failed => Shown::Failed,
        CellState::Excluded => Shown::Excluded,
    }
}

/// The API's word for pause flags.
pub(crate) fn level(flags: PauseFlags) -> PauseLevel {
    PauseLevel::of(flags.all, flags.bandwidth)
}

pub(crate) fn status(state: &Coordinator, now: Now, insecure: bool) -> StatusView {
    let requested = state.sweep().map(|s| sweep(state, s, now, true));
    let background = state.background_sweep().map(|s| sweep(state, s, now, false));
    let running = requested.clone().filter(|s| s.state == SweepState::Running);
    StatusView {
        version: VERSION.to_owned(),
        epoch: state.epoch(),
        insecure,
        paused: pause(state),
        nodes: state.members().agents().count() as u64,
        nodes_connected: state.members().connected() as u64,
        endpoints: state.matrix().len() as u64,
        endpoints_usable: state.members().endpoints().filter(|(_, e)| usable(state, e)).count() as u64,
        sweep: running.or(background).or(requested),
        incidents: incidents::counts(state),
    }
}

/// What `systemctl status` shows.
pub(crate) fn status_line(state: &Coordinator) -> String {
    let members = state.members();
    let (connected, nodes, endpoints) = (members.connected(), members.agents().count(), state.matrix().len());
    let incidents = state.incidents().iter().filter(|incident| incident.state == IncidentState::Open).count();
    let paused = if state.paused().all || state.paused().bandwidth { "; probing is paused" } else { "" };
    format!(
        "{connected} of {nodes} agents connected, {endpoints} endpoints; {incidents} open incidents{paused}"
    )
}

/// Present, in order, and its agent connected.
pub(crate) fn usable(state: &Coordinator, endpoint: &Endpoint) -> bool {
    let connected = state.members().agent(&endpoint.info.name.node).is_some_and(|m| m.connection.is_some());
    connected && endpoint.gone_since.is_none() && endpoint.info.unusable.is_none()
}

/// Since when an endpoint is away: its agent no longer reports it, or is not connected.
fn gone_since(state: &Coordinator, endpoint: &Endpoint) -> Option<Wall> {
    let agent = state.members().agent(&endpoint.info.name.node);
    let agent_gone = agent.filter(|m| m.connection.is_none()).map(|m| m.last_seen);
    endpoint.gone_since.or(agent_gone)
}

pub(crate) fn nodes(state: &Coordinator) -> NodeList {
    let nodes = state.members().agents().map(|(name, member)| {
        let own = state.members().endpoints().filter(|(_, e)| e.info.name.node == name);
        NodeView {
            name: name.to_owned(),
            connected: member.connection.is_some(),
            last_seen: Some(member.last_seen.to_string()),
            agent_version: Some(member.version.clone()),
            endpoints: own.map(|(_, e)| e.info.name.to_string()).collect(),
            paused: level(state.pause_of(name)),
            worst_finding: None,
        }
        .with_findings(member.findings.iter().map(|f| f.status))
    });
    NodeList { nodes: nodes.collect() }
}

pub(crate) fn endpoints(state: &Coordinator) -> EndpointList {
    let view = |(index, e): (EndpointIndex, &Endpoint)| {
        placed(state, index, EndpointView::new(&e.info, gone_since(state, e)))
    };
    let mut endpoints: Vec<_> = state.members().endpoints().map(view).collect();
    endpoints.sort_by(|a, b| a.name.cmp(&b.name));
    EndpointList { endpoints }
}

/// With where the endpoint stands now.
pub(crate) fn placed(state: &Coordinator, index: EndpointIndex, view: EndpointView) -> EndpointView {
    let place = state.place_names(index);
    let rail = place.rail.zip(place.sources.rail.map(RailSource::as_str));
    let leaf = place.leaf.zip(place.sources.leaf.map(LeafSource::as_str));
    view.at(rail, leaf, place.pod)
}

/// The rail of a pair as a label: the name of the one that both ends are on, `cross` for two, empty where one is not known.
pub(crate) fn rail_of(state: &Coordinator, source: EndpointIndex, target: EndpointIndex) -> &str {
    match (state.place_names(source).rail, state.place_names(target).rail) {
        (Some(a), Some(b)) if a == b => a,
        (Some(_), Some(_)) => "cross",
        _ => "",
    }
}

pub(crate) fn pause(state: &Coordinator) -> PauseView {
    let nodes = state.members().agents().filter_map(|(node, member)| {
        let local_file = member.local_pause.all || member.local_pause.bandwidth;
        let own = if local_file { member.local_pause } else { member.operator_pause };
        let level = level(own);
        (level != PauseLevel::None).then(|| NodePause { node: node.to_owned(), level, local_file })
    });
    PauseView { cluster: level(state.paused()), nodes: nodes.collect() }
}

pub(crate) fn pair(state: &Coordinator, source: EndpointIndex, target: EndpointIndex, now: Now) -> PairView {
    let name = |index| state.matrix().name(index).to_string();
    PairView {
        source: name(source),
        target: name(target),
        latency: cell(state, Metric::Latency, source, target, now, |measured| match measured {
            Measured::Latency(stats, _) => LatencyFigures::from(stats).into(),
            Measured::Bandwidth(..) | Measured::Ping(_) => None,
        }),
        bandwidth: cell(state, Metric::Bandwidth, source, target, now, |measured| match measured {
            Measured::Bandwidth(stats, _) => BandwidthFigures::from(stats).into(),
            Measured::Latency(..) | Measured::Ping(_) => None,
        }),
        ping: cell(state, Metric::Ping, source, target, now, |measured| match measured {
            Measured::Ping(figures) => Some(ping(figures)),
            Measured::Latency(..) | Measured::Bandwidth(..) => None,
        }),
        verdicts: verdicts(state, source, target, now),
    }
}

fn ping(figures: &rdmascope_localise::PingFigures) -> PingFigures {
    PingFigures {
        clock: figures.clock.as_str().to_owned(),
        loss_ratio: figures.loss_ratio(),
        network_p50_ns: figures.network.map(|spread| spread.p50_ns),
        network_max_ns: figures.network.map(|spread| spread.max_ns),
        large_p50_ns: figures.large_p50_ns,
        responder_p50_ns: figures.responder.map(|spread| spread.p50_ns),
        responder_max_ns: figures.responder.map(|spread| spread.max_ns),
        prober_p50_ns: figures.prober.map(|spread| spread.p50_ns),
        prober_max_ns: figures.prober.map(|spread| spread.max_ns),
        host_delayed: figures.host_delayed,
        invalid_stamps: figures.invalid_stamps,
        stale: figures.stale,
        small: (&figures.small).into(),
        large: (&figures.large).into(),
        worst_label: figures.worst_label.as_ref().map(Into::into),
    }
}

/// What is wrong with a pair whose pings are answered; nothing of figures that are stale.
fn verdicts(state: &Coordinator, source: EndpointIndex, target: EndpointIndex, now: Now) -> Vec<PairVerdict> {
    let shown = state.shown(now.wall);
    let cell = shown.cell(Metric::Ping, source, target);
    let fresh = cell.state(now.wall, shown.fresh_for(source, target)) == CellState::Fresh;
    let Cell::Known { measured: Measured::Ping(figures), .. } = cell else { return Vec::new() };
    let name = |index| state.matrix().name(index).to_string();
    let mtu = |index| {
        let info = &state.members().endpoint(index)?.info;
        info.datagrams.map(|address| address.mtu_bytes).or(info.active_mtu)
    };
    let ends = PairEnds {
        source: &name(source),
        target: &name(target),
        source_mtu: mtu(source),
        target_mtu: mtu(target),
    };
    let found = if fresh { ping_verdicts(&figures, &ends) } else { Vec::new() };
    let shown = found.into_iter().map(|verdict| PairVerdict {
        id: verdict.id.to_owned(),
        text: verdict.text,
        evidence: verdict.evidence,
        next_step: verdict.next_step.to_owned(),
    });
    shown.collect()
}

fn cell<F>(
    state: &Coordinator,
    metric: Metric,
    source: EndpointIndex,
    target: EndpointIndex,
    now: Now,
    figures: impl FnOnce(&Measured) -> Option<F>,
) -> CellView<F> {
    let shown = state.shown(now.wall);
    let cell = shown.cell(metric, source, target);
    let stale = cell.state(now.wall, shown.fresh_for(source, target)) == CellState::Stale;
    match cell {
        Cell::Never => CellView::never(),
        Cell::Failed { at, failure } => {
            CellView::failed(&failure, method(state, metric, source), at, now.wall)
        }
        Cell::Excluded { at, why } => CellView::excluded(why, Some(at), now.wall),
        Cell::Known { at, measured } => {
            let delta = match &measured {
                Measured::Latency(_, delta) | Measured::Bandwidth(_, delta) => *delta,
                Measured::Ping(_) => CounterDelta { retransmits: None },
            };
            let median = Fresh::of(state, metric, now).median.filter(|&median| median > 0);
            let ratio = measured.headline().zip(median).map(|(value, median)| value as f64 / median as f64);
            match figures(&measured) {
                Some(figures) => {
                    CellView::measured(figures, delta, method(state, metric, source), stale, at, now.wall)
                        .with_ratio(ratio)
                }
                None => CellView::never(),
            }
        }
    }
}

/// What all fresh cells of a metric have in common.
pub(crate) struct Fresh {
    /// Median of their headlines.
    pub(crate) median: Option<u64>,
    /// Their clock: `sw`, `hw`, or `mixed`.
    clock: &'static str,
}

impl Fresh {
    /// As they are now, or in a large matrix as they were when it was last counted.
    pub(crate) fn of(state: &Coordinator, metric: Metric, now: Now) -> Self {
        let counted = state.counted(metric, now);
        let clock = match (counted.tally.software, counted.tally.hardware) {
            (true, true) => "mixed",
            (false, true) => StampClock::Hardware.as_str(),
            (_, false) => CLOCK,
        };
        Self { median: counted.tally.median(), clock }
    }
}

/// Everything of a matrix but its cells, and who its rows and columns are.
pub(crate) fn matrix_head(state: &Coordinator, metric: Metric, now: Now) -> (MatrixHead, Vec<EndpointIndex>) {
    let matrix = state.matrix();
    let fresh = Fresh::of(state, metric, now);
    let (endpoints, indices) = matrix.endpoints().map(|(name, index)| (name.to_string(), index)).unzip();
    let head = MatrixHead {
        metric,
        method: method_of_all(state, metric),
        clock: fresh.clock,
        revision: matrix.revision(),
        generated_at: now.wall,
        coverage_seconds: state.coverage().map(|c| c.as_secs_f64()),
        stale_after_seconds: state.fresh_for().as_secs_f64(),
        median: fresh.median,
        endpoints,
    };
    (head, indices)
}

/// The next portion of a matrix that is being written: its cells as they are now.
pub(crate) fn matrix_portion(
    state: &Coordinator,
    now: Now,
    metric: Metric,
    (writer, cells_max): (&mut MatrixWriter, usize),
    indices: &[EndpointIndex],
) -> Option<Vec<u8>> {
    let (matrix, cells) = (state.matrix(), state.shown(now.wall));
    let letters = CellState::ALL.map(|state| shown(state).letter() as u8);
    let columns = RefCell::new(Columns::default());
    let row = |source: usize, needed: Needed, read: &mut dyn FnMut(MatrixRow<'_>)| {
        let columns = &mut *columns.borrow_mut();
        let wanted = Wanted { figures: needed.figures, beside: needed.beside, at: needed.at };
        let source = indices[source];
        let light = cells.lights_from(source);
        columns.read(matrix, metric, (source, indices), (now.wall, light), letters, wanted);
        let Columns { states, figures, beside, at_ms } = &*columns;
        read(MatrixRow { states, figures, beside, at_ms });
    };
    let reason = |source: usize, target: usize| match cells.brief(metric, indices[source], indices[target]) {
        Brief::Failed { cause, step, side, .. } => Some(CellReason::Failed(cause, step, side)),
        Brief::Excluded { why, .. } => Some(CellReason::Excluded(why)),
        Brief::Never | Brief::Known { .. } => None,
    };
    writer.next(cells_max, MatrixCells { row: &row, reason: &reason })
}
