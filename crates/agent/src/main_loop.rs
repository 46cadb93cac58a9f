//! The agent's one loop: everything that can happen ends here as an event of the pure state, and its actions are done.

use crate::machine::{News, OwnTraffic, Watcher, held};
use crate::reload::Reload;
use crate::uplink::{Happened, Queues};
use crate::{Credentials, Error, Loaded, Stay, VERSION, http, local, probes, uplink};
use rdmascope_config::{AgentConfig, TransportKind};
use rdmascope_control::agent::{Action, Agent, Event, Identity};
use rdmascope_expose::metrics::ProbeOutcome;
use rdmascope_host::service_manager::{self, Heartbeat};
use rdmascope_host::{Clock, Host, boot_id, host_name};
use rdmascope_link::{DrainAnswer, ToCoordinator};
use rdmascope_model::{EndpointInfo, EndpointName, LeaseId, Load, Mono, Outcome, ProbePlan, Reading};
use rdmascope_probe::mesh::MeshEvent;
use rdmascope_transport::Transport;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

/// Events of the uplink and of the machine that may wait for the loop, which never waits for anything itself.
const EVENTS_MAX: usize = 64;
/// Without any deadline the state is looked at from time to time all the same.
const LONGEST: Duration = Duration::from_secs(60);

/// An agent that stays for one coordinator ends so long after that is gone: one that only restarts is back by then.
const GONE_FOR: Duration = Duration::from_secs(10);

struct Loop {
    state: Agent,
    clock: Clock,
    host: Host,
    transport: probes::Probes,
    queues: Option<Queues>,
    own: Arc<OwnTraffic>,
    /// Leases whose traffic is counted as our own.
    counted: BTreeMap<LeaseId, (EndpointName, Option<String>)>,
    /// Where whoever looks at the machine puts the answer.
    news: mpsc::Sender<News>,
    shown: Arc<http::Shown>,
    /// Who waits for the coordinator's word whether this node may be drained.
    asking: Vec<oneshot::Sender<DrainAnswer>>,
    /// When it ends if the coordinator is not reached until then, and whether it ever was.
    ends: Option<(Mono, bool)>,
    reload: Reload,
    heartbeat: Heartbeat,
}

pub(crate) async fn run(
    host: Host,
    loaded: Loaded,
    (stay, mut reloads): (Stay, mpsc::Receiver<Loaded>),
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let config = &loaded.config.clone();
    let coordinator = config.coordinator.clone().ok_or(Error::NoCoordinator)?;
    let node = node_name(config)?;
    let clock = Clock::new();
    let host = host.only(&config.devices).with_workloads(&config.workloads);
    let shown = Arc::new(http::Shown::new(loaded.policy.clone())?);
    let (reload, policy, credentials) = Reload::new(loaded, Arc::clone(&shown));
    let woken = Arc::new(Notify::new());
    let own_address = probes::own_address(&coordinator);
    let tcp = config.transport == TransportKind::Tcp;
    info!(node, version = VERSION, %coordinator, transport = ?config.transport, "agent starts");
    let listener = http::listen(config.listen).await?;
    let metrics = listener.as_ref().and_then(|listener| http::reachable(listener, own_address));
    let mut state = Agent::new(Identity { metrics, ..identity(&node, clock) });
    if tcp {
        let address = own_address.ok_or_else(|| Error::NoAddress(coordinator.to_string()))?;
        state.handle(only(probes::tcp_endpoint(&node, address)), clock.now());
    }
    let own = Arc::new(OwnTraffic::default());
    let (news_in, mut news) = mpsc::channel(EVENTS_MAX);
    let (happened_in, mut happened) = mpsc::channel(EVENTS_MAX);
    let local = local::Local::new(&shown, clock, &node, &news_in);
    let watcher = Watcher {
        host: host.clone(),
        node,
        devices: config.devices.clone(),
        policy,
        kernel_log: config.kernel_log.clone(),
        pause_file: config.state_dir.join("pause"),
        clock,
        own: Arc::clone(&own),
        counted: shown.own.clone(),
        seen: Arc::clone(&shown.seen),
        news: news_in.clone(),
    };
    // Dropped with this function, and with it every task.
    let mut tasks = JoinSet::new();
    serve_and_watch(&mut tasks, listener, &shown, &credentials);
    tasks.spawn(local.serve(config.state_dir.clone()));
    match tcp {
        true => tasks.spawn(watcher.watch_pause()),
        false => tasks.spawn(watcher.watch()),
    };
    let named = coordinator.to_string();
    tasks.spawn(uplink::keep(coordinator, credentials, happened_in));
    let transport = probes::Probes::new(config.transport, &host, clock, &woken, own_address);
    let mut this = Loop {
        state,
        clock,
        host,
        transport,
        queues: None,
        own,
        counted: BTreeMap::new(),
        news: news_in,
        shown,
        asking: Vec::new(),
        ends: match stay {
            Stay::Always => None,
            Stay::Once { reached_within } => Some((clock.now().mono.after(reached_within), false)),
        },
        reload,
        heartbeat: Heartbeat::new(),
    };
    this.work((&mut happened, &mut news, &mut reloads), &woken, shutdown).await;
    info!("agent stops");
    service_manager::stopping();
    this.close_all();
    this.reached(stay, named)
}

/// The one endpoint of a machine on which nothing is judged.
fn only(endpoint: EndpointInfo) -> Event {
    Event::Inventory { endpoints: vec![endpoint], findings: Vec::new() }
}

/// The own port, where there is one, and the files of certificates, where there are some.
fn serve_and_watch(
    tasks: &mut JoinSet<()>,
    listener: Option<TcpListener>,
    shown: &Arc<http::Shown>,
    credentials: &watch::Receiver<Credentials>,
) {
    if let Some(listener) = listener {
        tasks.spawn(http::serve(listener, Arc::clone(shown), credentials.clone()));
    }
    if let Some(tls) = credentials.borrow().tls.clone() {
        tasks.spawn(tls.watch());
    }
}

fn node_name(config: &AgentConfig) -> Result<String, Error> {
    let host_name = || match host_name() {
        Reading::Value(name) => Ok(name),
        other => Err(Error::NodeName(other.why_missing().unwrap_or_default().to_owned())),
    };
    let name = config.node_name.clone().map_or_else(host_name, Ok)?;
    let as_endpoint: Result<EndpointName, _> = format!("{name}/device/1").parse();
    as_endpoint.map(|_| name).map_err(|error| Error::NodeName(error.to_string()))
}

fn identity(node: &str, clock: Clock) -> Identity {
    // Without a boot id the node stands for its machine: then only its own probes are kept apart.
    let machine = boot_id().value().cloned().unwrap_or_else(|| format!("node {node}"));
    let started = clock.now().wall.0;
    let instance = (started << 20) ^ u64::from(std::process::id());
    Identity { node: node.to_owned(), instance, machine, version: VERSION.to_owned(), metrics: None }
}

impl Loop {
    /// Until it is told to stop, or leaves by itself.
    async fn work(
        &mut self,
        (happened, news, reloads): (
            &mut mpsc::Receiver<Happened>,
            &mut mpsc::Receiver<News>,
            &mut mpsc::Receiver<Loaded>,
        ),
        woken: &Notify,
        shutdown: impl Future<Output = ()>,
    ) {
        tokio::pin!(shutdown);
        loop {
            let now = self.clock.now().mono;
            let leaves = self.leaves_at();
            if leaves.is_some_and(|(at, _)| at <= now) {
                break;
            }
            self.beat(now);
            let wakes = [self.state.next_wakeup(), leaves.map(|(at, _)| at), self.heartbeat.due()];
            let wakes = wakes.into_iter().flatten().min();
            let wait = wakes.map_or(LONGEST, |at| at.since(now).min(LONGEST));
            tokio::select! {
                () = &mut shutdown => break,
                Some(happened) = happened.recv() => self.uplink(happened),
                Some(news) = news.recv() => self.machine(news),
                Some(new) = reloads.recv() => self.reload.take(new),
                () = woken.notified() => {}
                () = tokio::time::sleep(wait) => self.feed(Event::Tick),
            }
            self.poll_transport();
            self.poll_mesh();
        }
    }

    /// The sign of life, from here and nowhere else: when this loop hangs, it must stop.
    fn beat(&mut self, now: Mono) {
        let Self { heartbeat, state, shown, .. } = self;
        heartbeat.beat(now, || {
            let coordinator =
                if state.is_connected() { "connected" } else { "NO CONNECTION to the coordinator" };
            let paused =
                if state.paused().all || state.paused().bandwidth { "; probing is paused" } else { "" };
            format!("{coordinator}; {}{paused}", shown.findings())
        });
    }

    /// Whether it was there for what it was to stay for.
    fn reached(&self, stay: Stay, coordinator: String) -> Result<(), Error> {
        match (stay, self.leaves_at()) {
            (Stay::Once { reached_within }, Some((at, false))) if at <= self.clock.now().mono => {
                Err(Error::NeverReached { coordinator, seconds: reached_within.as_secs() })
            }
            _ => Ok(()),
        }
    }

    /// When it ends by itself, unless the coordinator comes; and whether that was ever there.
    fn leaves_at(&self) -> Option<(Mono, bool)> {
        self.ends.filter(|_| !self.state.is_connected())
    }

    fn feed(&mut self, event: Event) {
        let was_connected = self.state.is_connected();
        self.state.handle(event, self.clock.now());
        // One that refuses it, for its token or its version, was never reached.
        if let Some((at, reached)) = &mut self.ends {
            let connected = self.state.is_connected();
            *reached |= connected;
            if was_connected && !connected {
                *at = self.clock.now().mono.after(GONE_FOR);
            }
        }
        while let Some(action) = self.state.poll_action() {
            self.act(action);
        }
        self.shown.state(self.state.is_connected(), self.state.paused());
    }

    fn uplink(&mut self, happened: Happened) {
        match happened {
            Happened::Connected(queues) => {
                self.queues = Some(queues);
                self.shown.own.reconnects.inc();
                self.feed(Event::Connected);
            }
            Happened::Lost => {
                self.queues = None;
                self.feed(Event::Disconnected);
            }
            Happened::Frame(frame) => self.feed(Event::Frame(*frame)),
        }
        self.shown.pairs(self.state.pairs());
    }

    fn machine(&mut self, news: News) {
        match news {
            News::Judged { endpoints, findings, facts, events } => {
                // First what happened, so that it is kept before what comes of it.
                if !events.is_empty() {
                    self.feed(Event::Happened(events));
                    self.count_dropped();
                }
                self.feed(Event::Inventory { endpoints, findings });
                self.feed(Event::Facts(facts));
            }
            News::Idle(ports) => self.feed(Event::Idle(ports)),
            News::Looked(lease, free) => self.feed(Event::Looked(lease, free)),
            News::AskDrain(faults, asker) => {
                self.asking.retain(|asker| !asker.is_closed());
                self.asking.push(asker);
                self.feed(Event::AskDrain(faults));
            }
            News::Pause(flags) => {
                if flags.all || flags.bandwidth {
                    warn!(all = flags.all, bandwidth = flags.bandwidth, "the local pause file is there");
                }
                self.feed(Event::LocalPause(flags));
            }
        }
    }

    fn count_dropped(&mut self) {
        let counted = &self.shown.own.events_dropped;
        counted.inc_by(self.state.events_dropped().saturating_sub(counted.get()));
    }

    fn poll_transport(&mut self) {
        while let Some((lease, event)) = self.transport.poll(self.clock.now().mono) {
            debug!(lease = lease.0, ?event, "probe");
            self.feed(Event::Transport(lease, event));
        }
    }

    fn poll_mesh(&mut self) {
        while let Some(event) = self.transport.next_mesh_event() {
            if let MeshEvent::Closed(endpoint, Some(failure)) = &event {
                warn!(%endpoint, %failure, "an endpoint takes no pings any more");
            }
            self.feed(Event::Mesh(event));
        }
        self.shown.mesh(self.state.mesh_health(), self.state.pings_dropped());
    }

    fn act(&mut self, action: Action) {
        let now = self.clock.now().mono;
        match action {
            Action::Send(frame) => self.send(&frame),
            Action::Disconnect(why) => {
                warn!(why, "the connection to the coordinator is given up");
                self.queues = None;
            }
            Action::Prepare(plan, endpoint) => {
                self.count_from(&plan, endpoint.netdev.clone());
                self.transport.prepare(&plan, &endpoint, now);
            }
            Action::Connect(lease, offer) => self.transport.connect(lease, &offer, now),
            Action::Look(lease, name) => {
                let (host, news) = (self.host.clone(), self.news.clone());
                tokio::spawn(async move {
                    let free = held(&host, &name.device).await;
                    // Nobody listens any more: the agent stops.
                    let _ = news.send(News::Looked(lease, free)).await;
                });
            }
            Action::Start(lease) => self.transport.start(lease, now),
            Action::Close(lease) => self.close(lease, now),
            Action::Mesh(command) => self.transport.mesh(command),
            // Who asked may be gone.
            Action::Drain(answer) => self.asking.drain(..).for_each(|asker| drop(asker.send(answer.clone()))),
        }
    }

    fn send(&mut self, frame: &ToCoordinator) {
        let Some(queues) = &self.queues else { return };
        // New results are awaited by a lease; old ones, sent again after a restart, and those of pings can wait.
        let bulk = match frame {
            ToCoordinator::Results(results) => {
                self.shown.count(results);
                results.iter().all(|result| result.lease.is_none())
            }
            ToCoordinator::Pings { .. } | ToCoordinator::Numbered { .. } => true,
            _ => false,
        };
        let queue = if bulk { &queues.bulk } else { &queues.control };
        if queue.try_send(frame.encode()).is_err() {
            self.shown.own.results_dropped.inc();
            warn!("a queue to the coordinator is full; one frame is dropped");
        }
    }

    fn count_from(&mut self, plan: &ProbePlan, netdev: Option<String>) {
        if plan.spec.load() == Load::Streams {
            let traffic = self.host.traffic(&plan.local.device, plan.local.port, netdev.as_deref());
            self.own.begin(&plan.local, &traffic);
            self.counted.insert(plan.lease, (plan.local.clone(), netdev));
        }
    }

    fn close(&mut self, lease: LeaseId, now: Mono) {
        self.transport.close(lease, now);
        if let Some((name, netdev)) = self.counted.remove(&lease) {
            let traffic = self.host.traffic(&name.device, name.port, netdev.as_deref());
            self.own.end(&name, &traffic);
        }
    }

    fn close_all(&mut self) {
        let now = self.clock.now().mono;
        for lease in std::mem::take(&mut self.counted).into_keys() {
            self.transport.close(lease, now);
        }
    }
}

/// How a result counts.
pub(crate) fn outcome(outcome: &Outcome) -> ProbeOutcome {
    match outcome {
        Outcome::Latency(..)
        | Outcome::Bandwidth(..)
        | Outcome::Pings(_)
        | Outcome::Echo(_)
        | Outcome::Served
        | Outcome::Aborted(..) => ProbeOutcome::Measured,
        Outcome::Failed(_) => ProbeOutcome::Failed,
        Outcome::Excluded(_) => ProbeOutcome::Excluded,
    }
}
