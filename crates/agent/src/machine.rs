//! Watches the machine: ports, addresses, MTU, idle ports and the pause file; tells the main loop what changed.
//!
//! Link and address changes come as events; everything is read again every minute. Every second only little is read: which
//! devices exist, their ports' state and traffic, and whether the pause file is there.

use rdmascope_checks::Policy;
use rdmascope_host::{Host, IdleGate, IdleState, LinkEvents, RdmaEvents, Traffic, ask_verbs};
use rdmascope_link::PauseFlags;
use rdmascope_model::{EndpointInfo, EndpointName, Finding, Mono, PortState, Reading, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tracing::{info, warn};

/// How often devices, traffic and the pause file are looked at.
const GLANCE: Duration = Duration::from_secs(1);
/// How often everything is read without an event that asks for it. A GID table of 256 slots costs 0.1 s in the lab's emulated
/// machine, and it changes with addresses, which come as events.
const FULL_READ: Duration = Duration::from_secs(60);
/// Events come in bursts; they are answered together.
const SETTLE: Duration = Duration::from_millis(100);
/// Longest text that is read from the pause file, bytes.
const PAUSE_BYTES_MAX: usize = 64;

/// What was seen.
pub(crate) enum News {
    /// Everything was read again.
    Read(Arc<Machine>),
    /// The endpoints whose ports are idle; all others are busy or not known.
    Idle(BTreeSet<EndpointName>),
    /// What the pause file says.
    Pause(PauseFlags),
}

/// One reading of the machine and what it means.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) snapshot: Snapshot,
    pub(crate) findings: Vec<Finding>,
    pub(crate) endpoints: Vec<EndpointInfo>,
}

/// Bytes that our own bandwidth probes moved, so that they do not count as somebody's job.
#[derive(Default)]
pub(crate) struct OwnTraffic {
    tallies: Mutex<BTreeMap<EndpointName, Tally>>,
}

#[derive(Default)]
struct Tally {
    running: u32,
    before: Option<Traffic>,
    bytes: u64,
}

impl OwnTraffic {
    /// A bandwidth probe begins: what the port moves from here on is ours.
    pub(crate) fn begin(&self, name: &EndpointName, now: &Reading<Traffic>) {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = tallies.entry(name.clone()).or_default();
        tally.running += 1;
        if tally.running == 1 {
            tally.before = now.value().copied();
        }
    }

    /// It has ended.
    pub(crate) fn end(&self, name: &EndpointName, now: &Reading<Traffic>) {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tally) = tallies.get_mut(name) else { return };
        tally.running = tally.running.saturating_sub(1);
        if tally.running == 0
            && let (Some(before), Some(after)) = (tally.before.take(), now.value())
        {
            let tx = after.tx_bytes.saturating_sub(before.tx_bytes);
            tally.bytes += tx + after.rx_bytes.saturating_sub(before.rx_bytes);
        }
    }

    /// Our bytes so far; `None` while a probe runs, since its bytes are not counted yet.
    fn bytes(&self, name: &EndpointName) -> Option<u64> {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        tallies.get(name).map_or(Some(0), |tally| (tally.running == 0).then_some(tally.bytes))
    }
}

/// Watches for as long as somebody listens.
pub(crate) struct Watcher {
    pub(crate) host: Host,
    pub(crate) node: String,
    pub(crate) devices: Vec<String>,
    pub(crate) pause_file: PathBuf,
    pub(crate) clock: rdmascope_host::Clock,
    pub(crate) own: Arc<OwnTraffic>,
    pub(crate) news: mpsc::Sender<News>,
}

/// What is remembered between two looks.
#[derive(Default)]
struct Seen {
    present: Option<BTreeSet<String>>,
    idle: Option<BTreeSet<EndpointName>>,
    pause: Option<PauseFlags>,
    states: Vec<Reading<PortState>>,
    machine: Option<Arc<Machine>>,
}

impl Watcher {
    /// Only the pause file: for a transport that does not use RDMA ports.
    pub(crate) async fn watch_pause(self) {
        let mut seen = Seen::default();
        let mut glance = interval(GLANCE);
        loop {
            glance.tick().await;
            if self.pause(&mut seen).await.is_none() {
                return;
            }
        }
    }

    /// Everything.
    pub(crate) async fn watch(self) {
        // Opened before the first reading, so that nothing falls between them.
        let mut events = LinkEvents::open().map_err(|error| warn!(%error, "link events cannot be had")).ok();
        let mut rdma_events = rdma_events();
        let mtu_of = Arc::new(ask_verbs());
        let mut seen = Seen::default();
        let mut gates = BTreeMap::new();
        let mut glance = interval(GLANCE);
        glance.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut read_at = Instant::now();
        loop {
            tokio::select! {
                () = sleep_until(read_at) => {
                    let ask = Arc::clone(&mtu_of);
                    let snapshot = self.host.snapshot(move |device, port| ask(device, port)).await;
                    read_at = Instant::now() + FULL_READ;
                    if self.read(snapshot, &mut seen).await.is_none() {
                        return;
                    }
                }
                event = next_event(&mut events) => {
                    if event {
                        read_at = read_at.min(Instant::now() + SETTLE);
                    } else {
                        warn!("link events have ended; changes are seen every minute");
                        events = None;
                    }
                }
                event = next_rdma_event(&mut rdma_events) => {
                    if event {
                        read_at = read_at.min(Instant::now() + SETTLE);
                    } else {
                        warn!("RDMA device events have ended; changes are seen every second");
                        rdma_events = None;
                    }
                }
                _ = glance.tick() => match self.glance(&mut seen, &mut gates).await {
                    Some(true) => read_at = read_at.min(Instant::now() + SETTLE),
                    Some(false) => {}
                    None => return,
                },
            }
        }
    }

    /// The little that is looked at every second; true when everything must be read again.
    async fn glance(&self, seen: &mut Seen, gates: &mut BTreeMap<EndpointName, IdleGate>) -> Option<bool> {
        self.pause(seen).await?;
        let devices = self.devices_changed(seen).await?;
        let ports = self.ports(seen, gates).await?;
        Some(devices || ports)
    }

    /// Judges a reading and tells of it. `None` when nobody listens any more; so in the functions below.
    async fn read(&self, snapshot: Snapshot, seen: &mut Seen) -> Option<()> {
        let policy = Policy { devices: self.devices.clone(), ..Policy::default() };
        let findings = rdmascope_checks::run(&rdmascope_checks::Look::first(&snapshot, &policy));
        let mut endpoints = rdmascope_host::endpoints(&snapshot, &self.node, &self.devices);
        if let Some(present) = &seen.present {
            endpoints.retain(|e| present.contains(&e.name.device));
        }
        let machine = Arc::new(Machine { snapshot, findings, endpoints });
        seen.machine = Some(Arc::clone(&machine));
        self.news.send(News::Read(machine)).await.ok()
    }

    /// Sees devices come and go. A device that is being removed is taken from the inventory at once, without reading
    /// anything of it: whatever touches it may hang.
    async fn devices_changed(&self, seen: &mut Seen) -> Option<bool> {
        let host = self.host.clone();
        let Ok(Reading::Value(nodes)) = spawn_blocking(move || host.uverbs_nodes()).await else {
            return Some(false);
        };
        let present: BTreeSet<_> = nodes.into_keys().collect();
        let changed = seen.present.as_ref().is_some_and(|before| *before != present);
        let machine = seen.machine.clone().filter(|_| changed);
        seen.present = Some(present.clone());
        if let Some(machine) = machine {
            let here = |e: &&EndpointInfo| present.contains(&e.name.device);
            let endpoints: Vec<_> = machine.endpoints.iter().filter(here).cloned().collect();
            if endpoints.len() != machine.endpoints.len() {
                let machine = Arc::new(Machine {
                    snapshot: machine.snapshot.clone(),
                    findings: machine.findings.clone(),
                    endpoints,
                });
                seen.machine = Some(Arc::clone(&machine));
                self.news.send(News::Read(machine)).await.ok()?;
            }
        }
        Some(changed)
    }

    /// State and traffic of every port; true when a state is not what it was.
    async fn ports(&self, seen: &mut Seen, gates: &mut BTreeMap<EndpointName, IdleGate>) -> Option<bool> {
        let Some(machine) = seen.machine.clone() else { return Some(false) };
        gates.retain(|name, _| machine.endpoints.iter().any(|e| e.name == *name));
        let host = self.host.clone();
        let read = Arc::clone(&machine);
        let ports = spawn_blocking(move || {
            let of = |e: &EndpointInfo| {
                let name = &e.name;
                let state = host.port_state(&name.device, name.port);
                (state, host.traffic(&name.device, name.port, e.netdev.as_deref()))
            };
            read.endpoints.iter().map(of).collect::<Vec<_>>()
        });
        let Ok(ports) = ports.await else { return Some(false) };
        let (states, traffic): (Vec<_>, Vec<_>) = ports.into_iter().unzip();
        let changed = seen.states.len() == states.len() && seen.states != states;
        seen.states = states;
        let idle = self.idle(&machine.endpoints, &traffic, gates);
        if seen.idle.as_ref() != Some(&idle) {
            seen.idle = Some(idle.clone());
            self.news.send(News::Idle(idle)).await.ok()?;
        }
        Some(changed)
    }

    fn idle(
        &self,
        endpoints: &[EndpointInfo],
        traffic: &[Reading<Traffic>],
        gates: &mut BTreeMap<EndpointName, IdleGate>,
    ) -> BTreeSet<EndpointName> {
        let now: Mono = self.clock.now().mono;
        let mut idle = BTreeSet::new();
        for (endpoint, traffic) in endpoints.iter().zip(traffic) {
            let gate = gates.entry(endpoint.name.clone()).or_default();
            if let Some(own) = self.own.bytes(&endpoint.name) {
                gate.push(now, traffic, own);
            }
            let rate = endpoint.rate_bps.map_or(Reading::Absent, Reading::Value);
            if gate.state(now, &rate) == IdleState::Idle {
                idle.insert(endpoint.name.clone());
            }
        }
        idle
    }

    async fn pause(&self, seen: &mut Seen) -> Option<()> {
        let path = self.pause_file.clone();
        let Ok(flags) = spawn_blocking(move || pause_flags(&path)).await else { return Some(()) };
        if seen.pause != Some(flags) {
            seen.pause = Some(flags);
            self.news.send(News::Pause(flags)).await.ok()?;
        }
        Some(())
    }
}

/// True for an event, false when there will be none any more; waits for ever without a source.
async fn next_event(events: &mut Option<LinkEvents>) -> bool {
    match events {
        Some(events) => events.next().await.is_some(),
        None => std::future::pending().await,
    }
}

/// The kernel's own word when RDMA devices change, where it gives one; said once where it does not.
fn rdma_events() -> Option<RdmaEvents> {
    match RdmaEvents::open() {
        Ok(Some(events)) => Some(events),
        Ok(None) => {
            info!("this kernel tells no RDMA device events (Linux 6.12 does); changes are seen every second");
            None
        }
        Err(error) => {
            warn!(%error, "RDMA device events cannot be had; changes are seen every second");
            None
        }
    }
}

/// As [`next_event`], for RDMA devices.
async fn next_rdma_event(events: &mut Option<RdmaEvents>) -> bool {
    match events {
        Some(events) => events.next().await.is_some(),
        None => std::future::pending().await,
    }
}

/// What the pause file says: `bandwidth` in it pauses bandwidth probes, anything else (nothing, too) every probe. A file
/// that is there and cannot be read pauses everything.
fn pause_flags(path: &std::path::Path) -> PauseFlags {
    use std::io::Read as _;
    let mut text = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(PAUSE_BYTES_MAX as u64).read_to_end(&mut text));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => PauseFlags::default(),
        Ok(_) if text.trim_ascii() == b"bandwidth" => PauseFlags { all: false, bandwidth: true },
        Ok(_) | Err(_) => PauseFlags { all: true, bandwidth: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_file_pauses_whatever_is_in_it() {
        let path = std::env::temp_dir().join(format!("rdmascope-pause-test-{}", std::process::id()));
        let all = PauseFlags { all: true, bandwidth: false };
        let written = |text: &str| {
            std::fs::write(&path, text).unwrap();
            pause_flags(&path)
        };
        assert_eq!(written(""), all);
        assert_eq!(written("maintenance, ask Kim\n"), all);
        assert_eq!(written("bandwidth\n"), PauseFlags { all: false, bandwidth: true });
        std::fs::remove_file(&path).unwrap();
        assert_eq!(pause_flags(&path), PauseFlags::default());
    }

    #[test]
    fn own_traffic_is_counted_from_the_first_probe_to_the_last() {
        let own = OwnTraffic::default();
        let name: EndpointName = "a/d/1".parse().unwrap();
        let at = |bytes| Reading::Value(Traffic { tx_bytes: bytes, rx_bytes: 0 });
        assert_eq!(own.bytes(&name), Some(0));
        own.begin(&name, &at(100));
        own.begin(&name, &at(150));
        own.end(&name, &at(200));
        assert_eq!(own.bytes(&name), None, "one still runs");
        own.end(&name, &at(300));
        assert_eq!(own.bytes(&name), Some(200));
    }
}
