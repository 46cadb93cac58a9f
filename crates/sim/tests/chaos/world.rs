//! A cluster to which things are done, what can be done to it, and how it is put right again.

use crate::check::{CELLS, complaints};
use rdmascope_control::coordinator::Settings;
use rdmascope_link::PROTOCOL_MAX;
use rdmascope_localise::{Cell, CellState};
use rdmascope_model::Metric;
use rdmascope_sim::{Cluster, Random, Shape};
use std::time::Duration;

const HOUR_MS: i64 = 3_600_000;

/// One thing that is done.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    KillAgent(usize),
    StartAgent(usize),
    /// Its control group gives it no processor time.
    Throttle(usize),
    Resume(usize),
    KillCoordinator,
    StartCoordinator,
    Partition(usize),
    /// Half open: nothing gets to the agent, or nothing from it.
    CutOneWay(usize, bool),
    Heal(usize),
    /// The connection breaks with everything that is under way.
    Reset(usize),
    /// Every frame breaks its connection with this chance, in a million.
    Breaks(u32),
    AgentClock(usize, i64),
    CoordinatorClock(i64),
    /// A second coordinator; true: its epoch is the older one.
    StartRival(bool),
    StopRival,
    RemoveDevice(usize),
    AddDevice(usize),
    PortDown(usize),
    PortUp(usize),
    /// Its address moves, and its GID with it.
    MoveGid(usize, u16),
    DiskFull(bool),
    KeepMatrix,
    /// The agent's next connection speaks no newer protocol.
    Protocol(usize, u32),
    Hold(usize, bool),
    Event(usize),
    Sweep(bool),
    Probe(usize, usize),
}

/// The cluster, and what is done to it now.
pub(crate) struct World {
    pub(crate) c: Cluster,
    pub(crate) nodes: usize,
    pub(crate) coordinator: bool,
    throttled: Vec<bool>,
    device: Vec<bool>,
    port: Vec<bool>,
}

pub(crate) fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

impl World {
    /// A cluster with a disk, whose agents are all known.
    pub(crate) fn new(seed: u64, nodes: usize, settings: Settings) -> Self {
        let mut c = Cluster::new(&Shape { seed, nodes, one_machine: false, settings });
        c.give_disk();
        let (throttled, device, port) = (vec![false; nodes], vec![true; nodes], vec![true; nodes]);
        let mut world = Self { c, nodes, coordinator: true, throttled, device, port };
        assert!(world.everybody_is_here(10), "not all agents came");
        world
    }

    pub(crate) fn everybody_is_here(&mut self, within: u64) -> bool {
        let nodes = self.nodes;
        self.c.run_until(seconds(within), |c| {
            let members = c.coordinator().members();
            let present = members.endpoints().filter(|(_, e)| e.gone_since.is_none()).count();
            members.connected() == nodes && present == nodes
        })
    }

    /// What is wrong now.
    pub(crate) fn complaints(&self) -> Vec<String> {
        complaints(&self.c, self.nodes, self.coordinator)
    }

    /// Does it, where it can be done now; a schedule is made without knowing what its parts come to.
    pub(crate) fn act(&mut self, act: &Act) {
        let c = &mut self.c;
        match *act {
            Act::KillAgent(host) if c.agent(host).is_some() => {
                self.throttled[host] = false;
                c.kill_agent(host);
            }
            Act::StartAgent(host) if c.agent(host).is_none() => c.start_agent(host),
            Act::Throttle(host) if c.agent(host).is_some() && !self.throttled[host] => {
                self.throttled[host] = true;
                c.stop_agent(host);
            }
            Act::Resume(host) if self.throttled[host] => {
                self.throttled[host] = false;
                c.resume_agent(host);
            }
            Act::KillCoordinator if self.coordinator => {
                self.coordinator = false;
                c.kill_coordinator();
            }
            Act::StartCoordinator if !self.coordinator => {
                self.coordinator = true;
                c.start_coordinator();
            }
            Act::Partition(host) => c.partition(host),
            Act::CutOneWay(host, to_agent) => c.cut_one_way(host, to_agent),
            Act::Heal(host) => c.heal(host),
            Act::Reset(host) => c.reset(host),
            Act::Breaks(per_million) => c.break_connections(per_million),
            Act::AgentClock(host, ahead_ms) => c.set_clock(host, ahead_ms),
            Act::CoordinatorClock(ahead_ms) => c.set_coordinator_clock(ahead_ms),
            Act::StartRival(older) if self.coordinator && c.rival().is_none() => c.start_rival(older),
            Act::StopRival => c.stop_rival(),
            Act::DiskFull(full) => c.set_disk_full(full),
            Act::KeepMatrix => c.keep_matrix(),
            Act::Protocol(host, newest) => c.set_protocol(host, newest),
            Act::Hold(host, held) => c.hold(host, held.then_some("job 4711 of user alice holds sim0")),
            Act::Event(host) if !self.throttled[host] => c.event_on(host),
            _ => self.act_on_ports(act),
        }
    }

    fn act_on_ports(&mut self, act: &Act) {
        let c = &mut self.c;
        match *act {
            Act::RemoveDevice(host) if self.device[host] => {
                self.device[host] = false;
                c.remove_device(host);
            }
            Act::AddDevice(host) if !self.device[host] => {
                (self.device[host], self.port[host]) = (true, true);
                c.add_device(host);
            }
            Act::PortDown(host) if self.device[host] => {
                self.port[host] = false;
                c.port_down(host);
            }
            Act::PortUp(host) if !self.port[host] && self.device[host] => {
                self.port[host] = true;
                c.port_up(host);
            }
            Act::MoveGid(host, last) => {
                let gid = format!("::ffff:10.{host}.0.{}", last % 250 + 1).parse().unwrap();
                c.change_endpoint(host, |endpoint| endpoint.gid = Some(gid));
            }
            Act::Sweep(both) => {
                let metrics = if both { &CELLS[..] } else { &CELLS[..1] };
                // One may run already.
                let _ = c.command(|coordinator, now| coordinator.start_sweep(metrics, true, now));
            }
            Act::Probe(a, b) => {
                let names = [a, b].map(|host| c.endpoint(host).to_string());
                // An end may be gone.
                let _ = c.command(|coordinator, now| {
                    coordinator.start_probe(&names[0], &names[1], &CELLS, true, now)
                });
            }
            _ => {}
        }
    }

    /// Puts everything right that an operator would, and nothing else.
    pub(crate) fn mend(&mut self) {
        let mut acts = vec![Act::Breaks(0), Act::DiskFull(false), Act::CoordinatorClock(0)];
        let was_rivalled = self.c.rival().is_some();
        acts.push(Act::StopRival);
        for host in 0..self.nodes {
            acts.extend([
                Act::Heal(host),
                Act::Resume(host),
                Act::StartAgent(host),
                Act::AgentClock(host, 0),
                Act::AddDevice(host),
                Act::PortUp(host),
                Act::Protocol(host, PROTOCOL_MAX),
                Act::Hold(host, false),
            ]);
        }
        acts.push(Act::StartCoordinator);
        acts.iter().for_each(|act| self.act(act));
        // Agents that have seen a newer epoch refuse this coordinator until it is started again.
        let own = self.c.coordinator().epoch();
        let newer = (0..self.nodes).filter_map(|host| self.c.agent(host)).any(|agent| agent.epoch() > own);
        if was_rivalled || newer {
            self.act(&Act::KillCoordinator);
            self.act(&Act::StartCoordinator);
        }
    }

    /// After [`Self::mend`] everybody is back soon, every pair is measured by itself, and what is measured is right.
    pub(crate) fn recovers(&mut self) {
        assert!(self.everybody_is_here(60), "not everybody is back");
        let nodes = self.nodes;
        let is_fresh = |c: &Cluster| {
            pairs(nodes).all(|(a, b)| state(c, Metric::Latency, a, b) == Some(CellState::Fresh))
        };
        let within = 4 * self.c.coordinator().fresh_for();
        if !self.c.run_until(within, is_fresh) {
            let cells: Vec<_> = pairs(nodes).map(|(a, b)| cell(&self.c, Metric::Latency, a, b)).collect();
            panic!("not every cell is fresh after {within:?}, it is {}: {cells:?}", self.c.now().wall);
        }
        assert_eq!(self.complaints(), [""; 0]);
        let over = |c: &Cluster| c.coordinator().sweep().is_none_or(|sweep| sweep.finished_at.is_some());
        assert!(self.c.run_until(seconds(300), over), "a sweep does not end");
        self.sweep_is_right();
    }

    /// A sweep of both metrics finds what the fabric is, and leaves nothing behind.
    pub(crate) fn sweep_is_right(&mut self) {
        let nodes = self.nodes;
        let begun = self.c.command(|coordinator, now| coordinator.start_sweep(&CELLS, true, now));
        begun.expect("the coordinator runs").expect("a sweep can begin");
        let over = |c: &Cluster| c.coordinator().sweep().is_some_and(|sweep| sweep.finished_at.is_some());
        assert!(self.c.run_until(seconds(300), over), "the sweep does not end");
        for metric in CELLS {
            pairs(nodes).for_each(|(a, b)| self.is_right(metric, a, b));
        }
        let quiet = self.c.run_until(seconds(200), |c| {
            let agents = (0..nodes).filter_map(|host| c.agent(host)).all(|agent| agent.probes() == 0);
            agents && c.coordinator().leases_running() == 0 && c.fabric().borrow().held() == 0
        });
        assert!(quiet, "{} probes are held on the fabric", self.c.fabric().borrow().held());
        assert_eq!(self.complaints(), [""; 0]);
    }

    /// The cell has the figure of this pair, within the simulated noise, and of no other.
    #[track_caller]
    pub(crate) fn is_right(&self, metric: Metric, source: usize, target: usize) {
        let cell = cell(&self.c, metric, source, target);
        let Some(Cell::Known { measured, .. }) = &cell else {
            let sweep = self.c.coordinator().sweep().map(|s| (s.total, s.done, s.failed, s.excluded));
            panic!("{metric} {source} to {target}: {cell:?}; the sweep: {sweep:?}")
        };
        let (from, to) = (self.c.endpoint(source), self.c.endpoint(target));
        let fabric = self.c.fabric();
        let fabric = fabric.borrow();
        let expected = match metric {
            Metric::Latency => fabric.half_round_trip_ns(&from, &to),
            _ => fabric.goodput_bps(&from, &to),
        };
        let (expected, seen) = (expected.unwrap(), measured.headline().unwrap());
        let off = seen.abs_diff(expected) * 100 / expected;
        assert!(off <= 2, "{metric} {source} to {target}: {seen} is {off} % off {expected}");
    }
}

pub(crate) fn pairs(nodes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..nodes).flat_map(move |a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b)
}

pub(crate) fn cell(c: &Cluster, metric: Metric, source: usize, target: usize) -> Option<Cell> {
    let matrix = c.coordinator().matrix();
    let [from, to] = [source, target].map(|host| matrix.find(&c.endpoint(host)));
    Some(matrix.cell(metric, from?, to?))
}

pub(crate) fn state(c: &Cluster, metric: Metric, source: usize, target: usize) -> Option<CellState> {
    let fresh_for = c.coordinator().fresh_for();
    cell(c, metric, source, target).map(|cell| cell.state(c.now().wall, fresh_for))
}

/// Any of the things that can be done, to anybody.
pub(crate) fn draw(random: &mut Random, nodes: usize) -> Act {
    let below = |random: &mut Random, bound: usize| usize::try_from(random.below(bound as u64)).unwrap();
    let host = below(random, nodes);
    let yes = random.chance(500_000);
    let clock_ms = [-24 * HOUR_MS, -HOUR_MS, 0, HOUR_MS, 24 * HOUR_MS][below(random, 5)];
    match below(random, 36) {
        0 | 1 => Act::KillAgent(host),
        2..=4 => Act::StartAgent(host),
        5 => Act::Throttle(host),
        6 | 7 => Act::Resume(host),
        8 => Act::KillCoordinator,
        9..=11 => Act::StartCoordinator,
        12 => Act::Partition(host),
        13 => Act::CutOneWay(host, yes),
        14..=16 => Act::Heal(host),
        17 => Act::Reset(host),
        18 => Act::Breaks([0, 10_000, 100_000, 300_000][below(random, 4)]),
        19 => Act::Breaks(0),
        20 => Act::AgentClock(host, clock_ms),
        21 => Act::CoordinatorClock(clock_ms),
        22 => Act::StartRival(yes),
        23 => Act::StopRival,
        24 => Act::RemoveDevice(host),
        25 => Act::AddDevice(host),
        26 => [Act::PortDown(host), Act::PortUp(host)][usize::from(yes)].clone(),
        27 => Act::MoveGid(host, u16::try_from(random.below(1_000)).unwrap()),
        28 => Act::DiskFull(yes),
        29 => Act::KeepMatrix,
        30 => Act::Protocol(host, 1 + u32::try_from(random.below(3)).unwrap()),
        31 => Act::Hold(host, yes),
        32 | 33 => Act::Event(host),
        34 => Act::Sweep(yes),
        _ => Act::Probe(host, (host + 1 + below(random, nodes - 1)) % nodes),
    }
}
