//! The UD mesh on real devices: an agent's mesh for each endpoint, pings of both sizes, and loss with its direction.

use rdmascope_model::{DatagramAddress, EndpointInfo, Fabric, Heard, Mono, Peer, PingStats};
use rdmascope_probe::mesh::{MeshCommand, MeshEvent, MeshGrant};
use rdmascope_tests::guest::{Endpoint, endpoints, pairs, wait_until};
use rdmascope_transport::mesh::{Clock, Mesh};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An emulated machine is slow; what takes longer is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// One endpoint's mesh and what it told.
struct Member {
    endpoint: Endpoint,
    mesh: Mesh,
    address: Option<DatagramAddress>,
    /// Batches by the peer's number.
    batches: Vec<(Endpoint, PingStats)>,
    heard: Vec<Heard>,
}

struct Fabrics {
    members: Vec<Member>,
    began: Instant,
}

fn info(endpoint: Endpoint) -> EndpointInfo {
    let gid = Some(format!("::ffff:{}", endpoint.address()).parse().expect("a GID"));
    EndpointInfo { gid, ..EndpointInfo::bare(endpoint.name().parse().expect("a name"), Fabric::Roce) }
}

impl Fabrics {
    /// All endpoints open, known to each other and allowed to ping.
    fn start() -> Self {
        let began = Instant::now();
        let clock: Clock = Arc::new(move || Mono(1 + began.elapsed().as_nanos() as u64));
        let member = |endpoint| {
            let nodes = Path::new("/dev/infiniband");
            let mut mesh = Mesh::new(Arc::clone(&clock), Arc::new(|| {}), None, nodes).expect("a thread");
            mesh.command(MeshCommand::Endpoints(vec![info(endpoint)]));
            Member { endpoint, mesh, address: None, batches: Vec::new(), heard: Vec::new() }
        };
        let mut all = Self { members: endpoints().map(member).collect(), began };
        wait_until("all endpoints take datagrams", PATIENCE, || {
            all.take();
            if all.members.iter().all(|member| member.address.is_some()) {
                Ok(())
            } else {
                Err("not all".to_owned())
            }
        });
        let peer =
            |member: &Member| Peer { name: info(member.endpoint).name, address: member.address, rail: 0 };
        let book: Arc<[Peer]> = all.members.iter().map(peer).collect();
        let until = Mono(1).after(began.elapsed() + Duration::from_secs(600));
        let grant = MeshGrant {
            until,
            pings_per_second: 50,
            pings_per_batch: 60,
            labels: 1,
            cross_rail_every: 1,
            sweep: None,
        };
        for member in &mut all.members {
            member.mesh.command(MeshCommand::Book(Arc::clone(&book)));
            member.mesh.command(MeshCommand::Grant(Some(grant)));
        }
        all
    }

    fn take(&mut self) {
        for member in &mut self.members {
            while let Some(event) = member.mesh.next_event() {
                match event {
                    MeshEvent::Opened(_, address) => member.address = Some(address),
                    MeshEvent::Closed(name, why) => panic!("{name} was closed: {why:?}"),
                    MeshEvent::Unreachable(from, to, why) => panic!("{from} to {to}: {why}"),
                    MeshEvent::Pings(_, peer, stats) => {
                        let to = endpoints().find(|other| other.name() == peer.to_string());
                        member.batches.push((to.expect("a peer of the lab"), *stats));
                    }
                    MeshEvent::Heard(heard) => member.heard.push(heard),
                    MeshEvent::Health(_) => {}
                }
            }
        }
    }

    fn forget(&mut self) {
        self.take();
        self.members.iter_mut().for_each(|member| member.batches.clear());
    }

    /// Batches from one endpoint to another that began and ended since the last call of `forget`.
    fn batches(&mut self, from: Endpoint, to: Endpoint, at_least: usize) -> Vec<PingStats> {
        wait_until(&format!("{at_least} batches from {from:?} to {to:?}"), PATIENCE, || {
            self.take();
            let member = self.members.iter().find(|member| member.endpoint == from).expect("a member");
            let of_pair =
                member.batches.iter().filter(|(peer, _)| *peer == to).map(|(_, stats)| stats.clone());
            let found: Vec<PingStats> = of_pair.collect();
            if found.len() >= at_least {
                Ok(found)
            } else {
                Err(format!("{} after {:?}", found.len(), self.began.elapsed()))
            }
        })
    }
}

/// Lost forward and backward, of how many; both sizes. Batches whose direction is not known count as neither.
fn lost(batches: &[PingStats]) -> (u32, u32, u32) {
    let counts = || batches.iter().flat_map(|stats| [&stats.small, &stats.large]);
    let forward = counts().filter_map(|counts| counts.lost_forward).sum();
    let backward = counts().filter_map(|counts| counts.lost_backward).sum();
    (forward, backward, counts().map(|counts| counts.sent).sum())
}

#[test]
fn every_pair_answers_pings_of_both_sizes() {
    let mut all = Fabrics::start();
    for (from, to) in pairs(endpoints()) {
        let batches = all.batches(from, to, 2);
        let last = batches.last().expect("two batches");
        assert_eq!((last.small.sent, last.large.sent), (40, 20), "{from:?} to {to:?}: {last:?}");
        assert_eq!((last.small.payload_bytes, last.large.payload_bytes), (64, 4096));
        // An emulated machine that gets no processor for half a second makes some late.
        assert!(last.small.answered >= 36 && last.large.answered >= 18, "{from:?} to {to:?}: {last:?}");
        assert_eq!((last.small.lost_forward, last.large.lost_backward), (Some(0), Some(0)), "{last:?}");
        assert_eq!(last.stale, 0);
        // Where the machine itself held most of them up, nothing is said of the network.
        assert!(last.network.is_some() || last.host_delayed >= 50, "{from:?} to {to:?}: {last:?}");
        let (network, responder) = (last.network, last.responder.expect("figures"));
        eprintln!(
            "{from:?} to {to:?}: network {network:?} responder {responder:?} invalid {}",
            last.invalid_stamps
        );
    }
}

#[test]
fn loss_towards_one_endpoint_is_told_with_its_direction() {
    let mut all = Fabrics::start();
    all.batches(Endpoint(1), Endpoint(2), 1);
    let _fault = Endpoint(2).netem("loss 20%");
    // Batches that were under way when the fault began are among these; they have lost less, nowhere else.
    all.forget();
    let towards = lost(&all.batches(Endpoint(1), Endpoint(2), 4));
    let from = lost(&all.batches(Endpoint(2), Endpoint(1), 4));
    let beside = lost(&all.batches(Endpoint(3), Endpoint(4), 4));
    eprintln!("forward, backward, sent: to 2 {towards:?}, from 2 {from:?}, beside {beside:?}");
    // 240 pings: 48 lost with a standard deviation of 6.2; five of them, and one batch that began before.
    assert!((10..=79).contains(&towards.0) && towards.1 <= 2, "1 to 2: {towards:?}");
    assert!((10..=79).contains(&from.1) && from.0 <= 2, "2 to 1: {from:?}");
    assert!(beside.0 + beside.1 <= 2, "3 to 4: {beside:?}");
}

#[test]
fn a_hole_for_large_packets_is_small_fine_and_large_lost() {
    let mut all = Fabrics::start();
    all.batches(Endpoint(1), Endpoint(2), 1);
    let _fault = Endpoint(2).hole_for_large_packets();
    all.batches(Endpoint(1), Endpoint(2), 2);
    all.forget();
    let batches = all.batches(Endpoint(1), Endpoint(2), 2);
    let last = batches.last().expect("two batches");
    assert!(last.small.answered >= 36 && last.small.lost_forward == Some(0), "{last:?}");
    assert_eq!((last.large.sent, last.large.answered), (20, 0), "{last:?}");
    assert_eq!((last.large.lost_forward, last.large.lost_backward), (Some(20), Some(0)), "{last:?}");
    let back = all.batches(Endpoint(2), Endpoint(1), 2);
    let last = back.last().expect("two batches");
    assert_eq!(
        (last.large.answered, last.large.lost_forward, last.large.lost_backward),
        (0, Some(0), Some(20))
    );
    let beside = all.batches(Endpoint(3), Endpoint(4), 1);
    assert!(beside[0].large.answered >= 18, "{:?}", beside[0]);
}
