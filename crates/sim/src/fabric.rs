//! The fabric as it is: ports, what lies between them, and what is broken about it just now.

use crate::exchange::{CONNECT, Exchange, Exchanges, PREPARE};
use crate::net::Net;
use crate::path::PathFaults;
use crate::random::{DIGEST_START, Random, digest};
use rdmascope_model::{EndpointName, LeaseId, Mono};
use rdmascope_probe::TransportEvent;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// A fabric that several transports share.
pub type Shared = Rc<RefCell<Fabric>>;

/// One transport on the fabric: the process that owns its probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerId(pub u64);

/// One port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    /// Its share of a half round trip, nanoseconds.
    pub(crate) latency_ns: u64,
    /// What is added to that by a fault, nanoseconds.
    pub(crate) delay_ns: u64,
    /// Signalling rate, bits per second.
    pub(crate) rate_bps: u64,
    /// Packets lost in a million, either way.
    pub(crate) loss: u32,
    /// Carries packets.
    pub(crate) up: bool,
}

/// Everything that probes run over.
#[derive(Clone, Debug)]
pub struct Fabric {
    pub(crate) random: Random,
    pub(crate) ports: BTreeMap<EndpointName, Port>,
    pub(crate) paths: PathFaults,
    /// Pairs between which nothing arrives, the smaller name first.
    blocked: BTreeSet<(EndpointName, EndpointName)>,
    /// Processes that do not run: their hardware still answers, they do not.
    pub(crate) stopped: BTreeSet<OwnerId>,
    owners: u64,
    pub(crate) exchanges: Exchanges,
    /// Making a queue pair with its memory, and connecting it.
    pub(crate) set_up: [Duration; 2],
    /// Where there is one, it says what probes find; ports and pairs above only say what is plugged in.
    pub(crate) net: Option<Box<Net>>,
}

impl Fabric {
    /// An empty fabric; `seed` decides its figures and its noise.
    #[must_use]
    pub fn new(seed: u64) -> Shared {
        let fabric = Self {
            random: Random::new(seed),
            ports: BTreeMap::new(),
            paths: PathFaults::default(),
            blocked: BTreeSet::new(),
            stopped: BTreeSet::new(),
            owners: 0,
            exchanges: Exchanges::default(),
            set_up: [PREPARE, CONNECT],
            net: None,
        };
        Rc::new(RefCell::new(fabric))
    }

    /// A copy that shares nothing with this one; what is left to chance goes by another seed.
    pub(crate) fn fork(&self, seed: u64) -> Shared {
        Rc::new(RefCell::new(Self { random: Random::new(seed), ..self.clone() }))
    }

    /// From now on making a queue pair with its memory takes so long, and connecting it; else it is as quick as a good adapter.
    pub fn set_up_takes(&mut self, prepare: Duration, connect: Duration) {
        self.set_up = [prepare, connect];
    }

    /// Plugs a port in, with a latency of its own and this rate in bits per second.
    pub fn plug(&mut self, name: &EndpointName, rate_bps: u64) {
        let latency_ns = 400 + self.random.below(200);
        let port = Port { latency_ns, delay_ns: 0, rate_bps, loss: 0, up: true };
        self.ports.insert(name.clone(), port);
    }

    /// Takes a port out: what runs over it breaks.
    pub fn unplug(&mut self, name: &EndpointName, now: Mono) {
        self.ports.remove(name);
        self.broken(now);
    }

    /// Cuts or mends a port's cable.
    pub fn set_up(&mut self, name: &EndpointName, up: bool, now: Mono) {
        self.ports.entry(name.clone()).and_modify(|port| port.up = up);
        self.broken(now);
    }

    /// Adds so many nanoseconds to every half round trip over a port.
    pub fn set_delay(&mut self, name: &EndpointName, delay_ns: u64) {
        self.ports.entry(name.clone()).and_modify(|port| port.delay_ns = delay_ns);
    }

    /// Loses so many packets in a million on a port.
    pub fn set_loss(&mut self, name: &EndpointName, per_million: u32) {
        self.ports.entry(name.clone()).and_modify(|port| port.loss = per_million);
    }

    /// Lets nothing through between two ports that are both well, or mends that.
    pub fn set_blocked(&mut self, a: &EndpointName, b: &EndpointName, blocked: bool, now: Mono) {
        let pair = ordered(a, b);
        if blocked {
            self.blocked.insert(pair);
        } else {
            self.blocked.remove(&pair);
        }
        self.broken(now);
    }

    /// A process stops running, or goes on.
    pub(crate) fn set_stopped(&mut self, owner: OwnerId, stopped: bool, now: Mono) {
        if stopped {
            self.stopped.insert(owner);
        } else {
            self.stopped.remove(&owner);
        }
        self.broken(now);
    }

    pub(crate) fn new_owner(&mut self) -> OwnerId {
        self.owners += 1;
        OwnerId(self.owners)
    }

    /// Packets get through between two ports.
    pub(crate) fn path_is_open(&self, a: &EndpointName, b: &EndpointName) -> bool {
        let up = |name| self.ports.get(name).is_some_and(|port| port.up);
        up(a) && up(b) && !self.blocked.contains(&ordered(a, b))
    }

    /// The half round trip between two ports without noise and loss, nanoseconds. Every pair has its own.
    #[must_use]
    pub fn half_round_trip_ns(&self, a: &EndpointName, b: &EndpointName) -> Option<u64> {
        let (own, other) = (self.ports.get(a)?, self.ports.get(b)?);
        let (first, second) = ordered(a, b);
        let wire = 500 + hash(&first, &second) % 1_000;
        Some(own.latency_ns + own.delay_ns + wire + other.latency_ns + other.delay_ns)
    }

    /// What a stream from one port to another reaches without noise and loss, bits per second. Every direction has its own.
    #[must_use]
    pub fn goodput_bps(&self, source: &EndpointName, target: &EndpointName) -> Option<u64> {
        let rate = self.ports.get(source)?.rate_bps.min(self.ports.get(target)?.rate_bps);
        Some(rate / 1_000 * (900 + hash(source, target) % 80))
    }

    /// Probes that hold something now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.exchanges.len()
    }

    /// All measurements that began so far.
    #[must_use]
    pub fn history(&self) -> &[Exchange] {
        &self.exchanges.history
    }

    /// When the next event becomes known.
    #[must_use]
    pub fn next_due(&self) -> Option<Mono> {
        self.exchanges.next_due()
    }

    /// Lets everything happen that is due. Answers the transports that have something to tell.
    pub fn advance(&mut self, now: Mono) -> Vec<OwnerId> {
        self.exchanges.advance(now)
    }

    pub(crate) fn poll(&mut self, owner: OwnerId, now: Mono) -> Option<(LeaseId, TransportEvent)> {
        self.exchanges.advance(now);
        self.exchanges.poll(owner)
    }
}

fn ordered(a: &EndpointName, b: &EndpointName) -> (EndpointName, EndpointName) {
    let (first, second) = if a < b { (a, b) } else { (b, a) };
    (first.clone(), second.clone())
}

fn hash(a: &EndpointName, b: &EndpointName) -> u64 {
    digest(DIGEST_START, format!("{a}>{b}").as_bytes()) >> 16
}
