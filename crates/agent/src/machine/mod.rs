//! Watches the machine: reads each part as often as it deserves, has it judged, and tells the main loop what there is to tell.
//!
//! Link and address changes come as events and are answered at once; every second only little is read: which devices exist, their
//! ports' state and traffic, and whether the pause file is there. A long reading goes on beside that.

mod blind;
mod events;
mod holders;
mod judge;
mod kernel_log;
mod own_traffic;
mod pause;
pub(crate) mod schedule;
mod seen;

pub(crate) use holders::held;
pub(crate) use own_traffic::OwnTraffic;
pub(crate) use seen::Seen;

use events::{KernelEvent, Sources, is_ours};
use judge::Judge;
use kernel_log::FollowedLog;
use pause::pause_flags;
use rdmascope_checks::Policy;
use rdmascope_expose::metrics::AgentOwn;
use rdmascope_host::{Clock, Fresh, Host, IdleGate, MtuOf, Tier, ask_verbs};
use rdmascope_link::{DrainAnswer, DrainFault, Fact, FindingBrief, NodeEvent, PauseFlags};
use rdmascope_model::{EndpointInfo, EndpointName, LeaseId, Reading};
use rdmascope_sys::give_back_memory;
use schedule::Schedule;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

/// Checks run at most so often, unless something happened.
const JUDGE_GAP: Duration = Duration::from_secs(1);

/// What was seen.
pub(crate) enum News {
    /// The machine was judged again.
    Judged {
        endpoints: Vec<EndpointInfo>,
        findings: Vec<FindingBrief>,
        facts: Vec<Fact>,
        events: Vec<NodeEvent>,
    },
    /// Whether the ports are idle, or why not.
    Idle(BTreeMap<EndpointName, Result<(), String>>),
    /// Somebody looked who holds the device of a lease.
    Looked(LeaseId, Result<(), String>),
    /// What the pause file says.
    Pause(PauseFlags),
    /// Somebody on this machine asks for leave to drain it for these faults.
    AskDrain(Vec<DrainFault>, oneshot::Sender<DrainAnswer>),
}

/// Who is asked, and who is told; [`Watcher::watch`] watches for as long as somebody listens.
pub(crate) struct Watcher {
    pub(crate) host: Host,
    pub(crate) node: String,
    pub(crate) devices: Vec<String>,
    pub(crate) policy: watch::Receiver<Policy>,
    /// File with the kernel's messages, where `/dev/kmsg` is not to be followed.
    pub(crate) kernel_log: Option<PathBuf>,
    pub(crate) pause_file: PathBuf,
    pub(crate) clock: Clock,
    pub(crate) own: Arc<OwnTraffic>,
    pub(crate) counted: AgentOwn,
    pub(crate) seen: Arc<Mutex<Seen>>,
    pub(crate) news: mpsc::Sender<News>,
}

/// A reading that is under way: which part, and since when.
type Running = Pin<Box<dyn Future<Output = (Tier, Instant, Fresh)> + Send>>;

/// What is remembered between two looks.
struct Watching {
    it: Watcher,
    mtu_of: Arc<MtuOf>,
    schedule: Schedule,
    judge: Judge,
    judged_at: Option<Instant>,
    judge_at: Option<Instant>,
    /// Statistics have changed since.
    unjudged: bool,
    glanced_at: Option<Instant>,
    reads: u64,
    /// How often counters were read.
    remembered: u32,
    present: Option<BTreeSet<String>>,
    /// Their character devices, whose names are cheaper to ask for.
    verbs_nodes: Option<Vec<String>>,
    /// Devices that are being removed: the kernel still lists them, and whatever touches them may hang.
    leaving: BTreeSet<String>,
    endpoints: Vec<EndpointInfo>,
    gates: BTreeMap<EndpointName, IdleGate>,
    idle: Option<BTreeMap<EndpointName, Result<(), String>>>,
    pause: Option<PauseFlags>,
    /// What cannot be seen of this machine was said.
    blind_told: bool,
}

impl Watcher {
    /// Only the pause file: for a transport that does not use RDMA ports.
    pub(crate) async fn watch_pause(self) {
        let mut this = self.watching();
        loop {
            sleep_until(this.schedule.glance()).await;
            this.schedule.glanced(Instant::now());
            if this.pause().await.is_none() {
                return;
            }
        }
    }

    /// Everything.
    pub(crate) async fn watch(self) {
        let mut events = Sources::open();
        let (mut log, first) = FollowedLog::open(self.kernel_log.clone(), &self.policy.borrow().rules);
        self.seen().log = first;
        let mut policies = self.policy.clone();
        let mut this = self.watching();
        let mut running: Option<Running> = None;
        loop {
            let (due, tier) = this.schedule.next();
            let go_on = tokio::select! {
                () = sleep_until(due), if running.is_none() => {
                    running = Some(this.begin(tier));
                    Some(())
                }
                (tier, began, fresh) = ended(&mut running) => {
                    running = None;
                    this.take_over(tier, began, fresh).await
                }
                event = events.next() => {
                    let ours = match event {
                        KernelEvent::Link(event) => is_ours(&this.it.seen().snapshot, &event),
                        KernelEvent::Rdma => true,
                    };
                    this.schedule.event(Instant::now(), ours);
                    Some(())
                }
                read = log.next() => {
                    this.it.seen().log = read;
                    this.judge_soon();
                    Some(())
                }
                Ok(()) = policies.changed() => {
                    let policy = policies.borrow_and_update().clone();
                    if let Some(again) = this.judge_by(policy) {
                        log = again;
                    }
                    Some(())
                }
                () = sleep_until(this.schedule.glance()) => this.glance().await,
                () = until(this.judge_at) => this.judge().await,
            };
            if go_on.is_none() {
                return;
            }
        }
    }

    fn watching(self) -> Watching {
        let policy = self.policy.borrow().clone();
        Watching {
            mtu_of: Arc::new(ask_verbs()),
            schedule: Schedule::new(Instant::now()),
            judge: Judge::new(policy),
            judged_at: None,
            judge_at: None,
            unjudged: false,
            glanced_at: None,
            reads: 0,
            remembered: 0,
            present: None,
            verbs_nodes: None,
            leaving: BTreeSet::new(),
            endpoints: Vec::new(),
            gates: BTreeMap::new(),
            idle: None,
            pause: None,
            blind_told: false,
            it: self,
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `None` when nobody listens any more; so in all functions that tell.
impl Watching {
    fn begin(&mut self, tier: Tier) -> Running {
        let began = Instant::now();
        self.schedule.began(tier, began);
        let fresh = self.it.host.refresh(&self.it.seen().snapshot, tier, &self.mtu_of);
        Box::pin(async move { (tier, began, fresh.await) })
    }

    async fn take_over(&mut self, tier: Tier, began: Instant, mut fresh: Fresh) -> Option<()> {
        self.count(tier);
        let changed = {
            let mut seen = self.it.seen();
            let seen = &mut *seen;
            if fresh.needs_more(&seen.snapshot) {
                self.schedule.everything(began);
                return Some(());
            }
            seen.done(tier.as_str(), began.elapsed(), self.it.clock.now());
            if self.glanced_at.is_some_and(|at| at > began) {
                fresh.keep_states(&seen.snapshot);
            }
            fresh.without(&self.leaving);
            let changed = fresh.apply(&mut seen.snapshot) | !seen.begun;
            seen.begun = true;
            if matches!(tier, Tier::Counters | Tier::Event | Tier::Slow) {
                self.judge.remember(&seen.snapshot, self.it.clock.now().mono);
                self.remembered = self.remembered.saturating_add(1);
            }
            changed
        };
        if tier == Tier::Slow && !std::mem::replace(&mut self.blind_told, true) {
            blind::tell(&self.it.host.capabilities(), &self.it.seen());
        }
        match tier {
            Tier::Event => self.judge().await?,
            Tier::Slow => {
                self.judge().await?;
                // Two machines were in memory, with all their texts.
                give_back_memory();
            }
            // Judged with the counters, which come more often: only then is it known how fast they rise.
            Tier::Statistics => self.unjudged |= changed,
            // From the second time on it is known what rises and what does not, although nothing changed.
            Tier::State | Tier::Counters if changed || self.unjudged || self.remembered == 2 => {
                self.judge_soon();
            }
            Tier::State | Tier::Counters => {}
        }
        Some(())
    }

    /// Has the machine judged by another policy. With other rules the kernel log is followed from its beginning again: what they say of
    /// old lines counts, too.
    fn judge_by(&mut self, policy: Policy) -> Option<FollowedLog> {
        let again = (self.judge.policy.rules != policy.rules).then(|| {
            let (log, first) = FollowedLog::open(self.it.kernel_log.clone(), &policy.rules);
            self.it.seen().log = first;
            log
        });
        self.judge.policy = policy;
        self.judge_soon();
        again
    }

    /// Has the machine judged as soon as the last time is long enough ago.
    fn judge_soon(&mut self) {
        let now = Instant::now();
        self.judge_at = Some(self.judged_at.map_or(now, |last| (last + JUDGE_GAP).max(now)));
    }

    /// Has the machine judged and tells of it.
    async fn judge(&mut self) -> Option<()> {
        let began = Instant::now();
        (self.judged_at, self.judge_at, self.unjudged) = (Some(began), None, false);
        let judgement = {
            let mut seen = self.it.seen();
            if !seen.begun {
                return Some(());
            }
            let judgement = self.judge.run(&mut seen, self.it.clock.now());
            self.endpoints = self.judge.endpoints(&seen.snapshot, &self.it.node, &self.it.devices);
            seen.done("checks", began.elapsed(), self.it.clock.now());
            judgement
        };
        let news = News::Judged {
            endpoints: self.endpoints.clone(),
            findings: judgement.findings,
            facts: judgement.facts,
            events: judgement.events,
        };
        self.it.news.send(news).await.ok()
    }

    /// The little that is looked at every second.
    async fn glance(&mut self) -> Option<()> {
        let now = Instant::now();
        self.schedule.glanced(now);
        self.pause().await?;
        let devices = self.devices_changed().await;
        let states = {
            let seen = self.it.seen();
            seen.begun.then(|| self.it.host.refresh(&seen.snapshot, Tier::State, &self.mtu_of))
        };
        let mut changed = devices;
        if let Some(states) = states {
            let fresh = states.await;
            self.count(Tier::State);
            self.glanced_at = Some(Instant::now());
            self.tell_idle(&fresh).await?;
            let mut seen = self.it.seen();
            seen.done(Tier::State.as_str(), now.elapsed(), self.it.clock.now());
            changed |= fresh.apply(&mut seen.snapshot);
        }
        if changed {
            self.schedule.event(now, true);
        }
        let settles = self.judge.is_settling() && self.judged_at.is_none_or(|last| last + JUDGE_GAP <= now);
        if changed || settles { self.judge().await } else { Some(()) }
    }

    /// Sees devices come and go; true when they did. A device that is being removed is forgotten at once, without reading
    /// anything of it.
    async fn devices_changed(&mut self) -> bool {
        let (host, known) = (self.it.host.clone(), self.verbs_nodes.clone());
        let changed = move || {
            let names = host.uverbs_names().value().cloned().filter(|names| known.as_ref() != Some(names))?;
            Some((names, host.uverbs_nodes()))
        };
        let Ok(Some((names, Reading::Value(nodes)))) = spawn_blocking(changed).await else { return false };
        // A node that does not say yet whose it is will be asked again.
        self.verbs_nodes = (nodes.len() == names.len()).then_some(names);
        let present: BTreeSet<String> = nodes.into_keys().collect();
        let Some(before) = self.present.replace(present.clone()) else { return false };
        if before == present {
            return false;
        }
        self.leaving.extend(before);
        self.leaving.retain(|device| !present.contains(device));
        if let Reading::Value(devices) = &mut self.it.seen().snapshot.devices {
            devices.retain(|device| !self.leaving.contains(&device.name));
        }
        true
    }

    async fn tell_idle(&mut self, fresh: &Fresh) -> Option<()> {
        let now = self.it.clock.now().mono;
        let (endpoints, gates) = (&self.endpoints, &mut self.gates);
        gates.retain(|name, _| endpoints.iter().any(|e| e.name == *name));
        let mut idle = BTreeMap::new();
        for endpoint in endpoints {
            let name = &endpoint.name;
            let Some(traffic) = fresh.traffic(&name.device, name.port) else { continue };
            let gate = gates.entry(name.clone()).or_default();
            if let Some(own) = self.it.own.bytes(name) {
                gate.push(now, traffic, own);
            }
            let rate = endpoint.rate_bps.map_or(Reading::Absent, Reading::Value);
            idle.insert(name.clone(), gate.state(now, &rate).words());
        }
        if self.idle.as_ref() != Some(&idle) {
            self.idle = Some(idle.clone());
            self.it.news.send(News::Idle(idle)).await.ok()?;
        }
        Some(())
    }

    async fn pause(&mut self) -> Option<()> {
        let path = self.it.pause_file.clone();
        let Ok(flags) = spawn_blocking(move || pause_flags(&path)).await else { return Some(()) };
        if self.pause != Some(flags) {
            self.pause = Some(flags);
            self.it.news.send(News::Pause(flags)).await.ok()?;
        }
        Some(())
    }

    /// What the kernel was asked since this was called last counts for this tier.
    fn count(&mut self, tier: Tier) {
        let reads = self.it.host.reads();
        self.it.counted.kernel_reads(tier.as_str(), reads.saturating_sub(self.reads));
        self.reads = reads;
    }
}

/// The end of a reading; waits for ever while there is none.
async fn ended(running: &mut Option<Running>) -> (Tier, Instant, Fresh) {
    match running {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
