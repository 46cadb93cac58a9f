//! A mesh of two endpoints over a fake libibverbs, as its tests open, grant and wait for it.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use crate::fake::Fake;
use crate::support::{endpoint, waker};
use rdmascope_model::{
    DatagramAddress, EndpointInfo, Fabric, Failure, LeaseId, Manner, Marks, Mono, Outcome, Peer, PingSpec,
    PingStats, ProbePlan, ProbeSpec, Role, Urgency,
};
use rdmascope_probe::TransportEvent;
use rdmascope_probe::mesh::{MeshCommand, MeshEvent, MeshGrant, MeshHealth};
use rdmascope_transport::Transport;
use rdmascope_transport::mesh::{Clock, Mesh};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

/// No test waits longer: what takes so long is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A mesh of two endpoints of two nodes in one process, over one fake library, and the folder of its devices' nodes.
pub(crate) struct Lab {
    pub(crate) mesh: Mesh,
    pub(crate) began: Instant,
    pub(crate) nodes: PathBuf,
    pub(crate) addresses: BTreeMap<String, DatagramAddress>,
    pub(crate) events: Vec<MeshEvent>,
    // Last: the library is unloaded after all its users.
    pub(crate) fake: Fake,
}

pub(crate) fn info(device: usize) -> EndpointInfo {
    let name = ["a/fake_0/1", "b/fake_1/1"][device];
    let gid = Some(format!("::ffff:10.8.0.{}", device + 1).parse().expect("a GID"));
    EndpointInfo { fabric: Fabric::Roce, gid, ..endpoint(name) }
}

impl Lab {
    pub(crate) fn new() -> Self {
        let fake = Fake::new();
        fake.set("devices", 2);
        Self::with(fake)
    }

    pub(crate) fn with(fake: Fake) -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let nodes = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("mesh-nodes-{}-{serial}", std::process::id()));
        std::fs::create_dir_all(&nodes).expect("the target directory is writable");
        for node in ["uverbs0", "uverbs1"] {
            std::fs::write(nodes.join(node), "").expect("the folder is writable");
        }
        let began = Instant::now();
        let clock: Clock = Arc::new(move || Mono(1 + began.elapsed().as_nanos() as u64));
        let mesh = Mesh::new(clock, waker(), Some(fake.path()), &nodes).expect("a thread");
        Self { mesh, began, nodes, addresses: BTreeMap::new(), events: Vec::new(), fake }
    }

    pub(crate) fn now(&self) -> Mono {
        Mono(1 + self.began.elapsed().as_nanos() as u64)
    }

    pub(crate) fn endpoints(&mut self, devices: &[usize]) {
        self.mesh.command(MeshCommand::Endpoints(devices.iter().map(|&device| info(device)).collect()));
    }

    pub(crate) fn take(&mut self) {
        while let Some(event) = self.mesh.next_event() {
            match &event {
                MeshEvent::Opened(name, address) => {
                    self.addresses.insert(name.to_string(), *address);
                }
                MeshEvent::Closed(name, _) => {
                    self.addresses.remove(&name.to_string());
                }
                _ => {}
            }
            self.events.push(event);
        }
    }

    pub(crate) fn wait<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let until = Instant::now() + LIMIT;
        loop {
            self.take();
            if let Some(found) = look(self) {
                return found;
            }
            assert!(Instant::now() < until, "{what}: {:?}", self.events);
            park_timeout(Duration::from_millis(1));
        }
    }

    /// Both endpoints open, the book handed out, and nothing granted.
    pub(crate) fn open(&mut self) {
        self.endpoints(&[0, 1]);
        self.wait("both are open", |lab| (lab.addresses.len() == 2).then_some(()));
        self.hand_out_book();
    }

    pub(crate) fn hand_out_book(&mut self) {
        let peer = |device: usize| {
            let name = info(device).name;
            let address = self.addresses.get(&name.to_string()).copied();
            Peer { name, address, rail: 0 }
        };
        self.mesh.command(MeshCommand::Book([peer(0), peer(1)].into()));
    }

    pub(crate) fn grant(&mut self, seconds: u64) {
        let until = self.now().after(Duration::from_secs(seconds));
        let grant = MeshGrant {
            until,
            pings_per_second: 100,
            pings_per_batch: 30,
            labels: 1,
            cross_rail_every: 1,
            sweep: None,
        };
        self.mesh.command(MeshCommand::Grant(Some(grant)));
    }

    pub(crate) fn batch(&mut self, from: &str) -> PingStats {
        self.wait("a batch", |lab| {
            lab.events.iter().find_map(|event| match event {
                MeshEvent::Pings(local, _, stats) if local.node == from => Some((**stats).clone()),
                _ => None,
            })
        })
    }

    pub(crate) fn closed(&mut self, node: &str) -> Option<Failure> {
        self.wait("it closes", |lab| {
            lab.events.iter().find_map(|event| match event {
                MeshEvent::Closed(name, why) if name.node == node => Some(why.clone()),
                _ => None,
            })
        })
    }

    pub(crate) fn lease_event(&mut self) -> (LeaseId, TransportEvent) {
        self.wait("an event of a lease", |lab| lab.mesh.poll(Mono(0)))
    }

    /// Both sides of a lease of pings, and how each ended: the source's is 1, the target's 2.
    pub(crate) fn lease(&mut self, spec: PingSpec) -> BTreeMap<LeaseId, Outcome> {
        // Two transports in life, one here: the two sides are two leases.
        self.mesh.prepare(&plan(Role::Source, 1, spec, 10), &info(0), Mono(0));
        self.mesh.prepare(&plan(Role::Target, 2, spec, 10), &info(1), Mono(0));
        let mut offers = BTreeMap::new();
        while offers.len() < 2 {
            match self.lease_event() {
                (lease, TransportEvent::Prepared { offer }) => offers.insert(lease, offer),
                other => panic!("{other:?}"),
            };
        }
        assert!(offers.values().all(|offer| offer.len() <= 256));
        self.mesh.connect(LeaseId(1), &offers[&LeaseId(2)], Mono(0));
        self.mesh.connect(LeaseId(2), &offers[&LeaseId(1)], Mono(0));
        for _ in 0..2 {
            assert!(matches!(self.lease_event(), (_, TransportEvent::Connected)));
        }
        self.mesh.start(LeaseId(2), Mono(0));
        self.mesh.start(LeaseId(1), Mono(0));
        let mut ends = BTreeMap::new();
        while ends.len() < 2 {
            match self.lease_event() {
                (lease, TransportEvent::Finished(outcome)) => ends.insert(lease, outcome),
                other => panic!("{other:?}"),
            };
        }
        ends
    }

    pub(crate) fn health(&mut self) -> MeshHealth {
        self.events.clear();
        self.wait("how the poller does", |lab| {
            lab.events
                .iter()
                .find_map(|event| if let MeshEvent::Health(health) = event { Some(*health) } else { None })
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A folder left behind in the target directory harms nobody.
        drop(std::fs::remove_dir_all(&self.nodes));
    }
}

pub(crate) fn plan(role: Role, lease: u64, spec: PingSpec, seconds: u64) -> ProbePlan {
    let (source, target) = (info(0).name, info(1).name);
    let (local, peer) = if role == Role::Source { (source, target) } else { (target, source) };
    ProbePlan {
        lease: LeaseId(lease),
        role,
        local,
        peer,
        spec: ProbeSpec::Pings(spec),
        manner: Manner { marks: Marks { traffic_class: 104, ..Marks::default() }, ..Manner::default() },
        urgency: Urgency::Operator,
        expires_in: Duration::from_secs(seconds),
    }
}
