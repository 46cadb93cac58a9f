//! What the mesh of pings is told, and what becomes of what it tells.

use super::*;
use rdmascope_link::{NumberedHeard, PINGS_PER_FRAME_MAX, PINGS_SINCE};
use rdmascope_model::{DatagramAddress, Heard, Peer, PingStats, StampClock};
use rdmascope_probe::mesh::{MeshGrant, MeshHealth};
use std::sync::Arc;

fn commands(agent: &mut Agent) -> Vec<MeshCommand> {
    let mesh = drain(agent).into_iter().filter_map(|action| match action {
        Action::Mesh(command) => Some(command),
        _ => None,
    });
    mesh.collect()
}

fn grants(agent: &mut Agent) -> Vec<Option<MeshGrant>> {
    let grants = commands(agent).into_iter().filter_map(|command| match command {
        MeshCommand::Grant(grant) => Some(grant),
        _ => None,
    });
    grants.collect()
}

fn give(agent: &mut Agent, epoch: u64, pings_per_batch: u32, ms: u64) {
    let grant = ToAgent::Grant {
        epoch,
        generation: 1,
        expires_in: Duration::from_secs(60),
        pings_per_second: 10,
        pings_per_batch,
        labels: 16,
        cross_rail_every: 1,
        sweep: None,
    };
    agent.handle(Event::Frame(grant), at(ms));
}

fn granted(until_ms: u64) -> Option<MeshGrant> {
    let until = Mono(until_ms * 1_000_000);
    Some(MeshGrant {
        until,
        pings_per_second: 10,
        pings_per_batch: 9,
        labels: 16,
        cross_rail_every: 1,
        sweep: None,
    })
}

fn address(queue_pair: u32) -> DatagramAddress {
    DatagramAddress {
        gid: "::ffff:10.0.0.1".parse().unwrap(),
        lid: 0,
        queue_pair,
        queue_key: 1,
        mtu_bytes: 4_096,
    }
}

fn own() -> EndpointName {
    "a/d/1".parse().unwrap()
}

fn pings(batch: u32) -> Event {
    let stats = PingStats {
        batch,
        clock: StampClock::Software,
        small: rdmascope_model::PingCounts::default(),
        large: rdmascope_model::PingCounts::default(),
        network: None,
        network_large: None,
        responder: None,
        prober: None,
        host_delayed: 0,
        invalid_stamps: 0,
        stale: 0,
        labels: Vec::new(),
    };
    Event::Mesh(MeshEvent::Pings(own(), "b/d/1".parse().unwrap(), Box::new(stats)))
}

fn heard(batch: u32) -> Event {
    let heard = Heard { local: own(), peer: "b/d/1".parse().unwrap(), batch, small: 1, large: 0 };
    Event::Mesh(MeshEvent::Heard(heard))
}

/// Batches of each frame of pings: own and heard.
fn told(agent: &mut Agent) -> Vec<(Vec<u32>, Vec<u32>)> {
    let frames = drain(agent).into_iter().filter_map(|action| match action {
        Action::Send(ToCoordinator::Pings { reports, heard }) => Some((
            reports.iter().map(|report| report.stats.batch).collect(),
            heard.iter().map(|heard| heard.batch).collect(),
        )),
        _ => None,
    });
    frames.collect()
}

/// The datagram addresses of each inventory that was sent.
fn inventories(agent: &mut Agent) -> Vec<Vec<Option<DatagramAddress>>> {
    let frames = drain(agent).into_iter().filter_map(|action| match action {
        Action::Send(ToCoordinator::Inventory { endpoints, .. }) => {
            Some(endpoints.iter().map(|info| info.datagrams).collect())
        }
        _ => None,
    });
    frames.collect()
}

fn look(agent: &mut Agent, endpoints: Vec<EndpointInfo>, ms: u64) {
    agent.handle(Event::Inventory { endpoints, findings: Vec::new() }, at(ms));
}

#[test]
fn the_mesh_opens_what_can_be_probed_and_takes_datagrams() {
    let mut agent = ready();
    let on = |device: &str, fabric| EndpointInfo::bare(format!("a/{device}/1").parse().unwrap(), fabric);
    let broken = EndpointInfo { unusable: Some(Cause::PortDown), ..on("d4", Fabric::Roce) };
    let (roce, infiniband) = (on("d0", Fabric::Roce), on("d1", Fabric::InfiniBand));
    let all = vec![roce.clone(), infiniband.clone(), on("d2", Fabric::Iwarp), on("d3", Fabric::Tcp), broken];
    look(&mut agent, all.clone(), 1);
    assert_eq!(commands(&mut agent), [MeshCommand::Endpoints(vec![roce, infiniband.clone()])]);
    look(&mut agent, all.clone(), 2);
    assert_eq!(commands(&mut agent), [], "nothing has changed");
    look(&mut agent, all[1..].to_vec(), 3);
    assert_eq!(commands(&mut agent), [MeshCommand::Endpoints(vec![infiniband])]);
}

#[test]
fn the_coordinator_is_told_where_datagrams_go_as_long_as_they_do() {
    let mut agent = ready();
    agent.handle(Event::Mesh(MeshEvent::Opened(own(), address(7))), at(1));
    assert_eq!(inventories(&mut agent), [[Some(address(7))]]);
    agent.handle(Event::Mesh(MeshEvent::Opened(own(), address(7))), at(2));
    assert_eq!(inventories(&mut agent), [[None; 0]; 0], "no news");
    agent.handle(Event::Mesh(MeshEvent::Closed(own(), None)), at(3));
    assert_eq!(inventories(&mut agent), [[None]]);

    agent.handle(Event::Mesh(MeshEvent::Opened(own(), address(8))), at(4));
    agent.handle(Event::Disconnected, at(5));
    drain(&mut agent);
    agent.handle(Event::Connected, at(6));
    agent.handle(welcome(7), at(6));
    assert_eq!(inventories(&mut agent), [[Some(address(8))]], "told again on a new connection");

    look(&mut agent, vec![endpoint(Some(Cause::PortDown))], 7);
    assert_eq!(inventories(&mut agent), [[None]], "its queue pair goes with it");
    agent.handle(Event::Mesh(MeshEvent::Opened(own(), address(9))), at(8));
    look(&mut agent, vec![endpoint(None)], 9);
    assert_eq!(inventories(&mut agent), [[None]], "what was opened too late is closed already");
}

#[test]
fn a_grant_holds_until_it_ends_or_is_paused_or_the_coordinator_is_another() {
    let mut agent = ready();
    give(&mut agent, 6, 9, 0);
    assert_eq!(grants(&mut agent), [], "of another epoch");
    give(&mut agent, 7, 9, 0);
    assert_eq!(grants(&mut agent), [granted(60_000)]);

    let paused = PauseFlags { all: true, bandwidth: false };
    agent.handle(Event::LocalPause(paused), at(1));
    assert_eq!(grants(&mut agent), [None]);
    give(&mut agent, 7, 9, 2);
    assert_eq!(grants(&mut agent), [], "paused is paused");
    agent.handle(Event::LocalPause(PauseFlags { all: false, bandwidth: true }), at(3));
    assert_eq!(grants(&mut agent), [granted(60_002)], "a pause of bandwidth does not stop pings");

    agent.handle(Event::Disconnected, at(10));
    assert_eq!(grants(&mut agent), [], "it ends by itself");
    assert_eq!(agent.next_wakeup(), Some(Mono(60_002_000_000)));
    agent.handle(Event::Tick, at(60_002));
    assert_eq!(grants(&mut agent), [None]);
    assert_eq!(agent.next_wakeup(), None);

    agent.handle(Event::Connected, at(60_010));
    agent.handle(welcome(7), at(60_010));
    give(&mut agent, 7, 9, 60_010);
    assert_eq!(grants(&mut agent), [granted(120_010)]);
    agent.handle(Event::Disconnected, at(60_020));
    agent.handle(Event::Connected, at(60_030));
    agent.handle(welcome(8), at(60_030));
    assert_eq!(grants(&mut agent), [None], "the coordinator is another one");
}

#[test]
fn a_coordinator_that_wants_no_pings_gets_none() {
    let mut agent = ready();
    give(&mut agent, 7, 0, 0);
    assert_eq!(commands(&mut agent), []);
}

#[test]
fn a_whole_book_goes_to_the_mesh_and_a_part_of_one_does_not() {
    let mut agent = ready();
    let peer = |name: &str| Peer { name: name.parse().unwrap(), address: Some(address(1)), rail: 0 };
    let part = |generation, base, total, peers: Vec<Peer>| {
        let (peers, numbers) = (peers.into(), Arc::default());
        Event::Frame(ToAgent::Book { generation, base, total, peers, numbers, removed: Vec::new() })
    };
    agent.handle(part(1, 0, 2, vec![peer("a/d/1")]), at(0));
    assert_eq!(commands(&mut agent), []);
    agent.handle(part(1, 0, 2, vec![peer("b/d/1")]), at(0));
    assert_eq!(commands(&mut agent), [MeshCommand::Book([peer("a/d/1"), peer("b/d/1")].into())]);
    agent.handle(part(3, 2, 3, vec![peer("c/d/1")]), at(0));
    assert_eq!(commands(&mut agent), [], "a change of a book that is not here");
    agent.handle(part(2, 1, 3, vec![peer("c/d/1")]), at(0));
    let book = [peer("a/d/1"), peer("b/d/1"), peer("c/d/1")].into();
    assert_eq!(commands(&mut agent), [MeshCommand::Book(book)]);
}

#[test]
fn batches_are_told_together_two_seconds_after_the_first_or_when_a_frame_is_full() {
    let mut agent = ready();
    agent.handle(pings(1), at(100));
    agent.handle(heard(2), at(1_500));
    assert_eq!(told(&mut agent), [], "they wait for others");
    agent.handle(Event::Tick, at(2_099));
    assert_eq!(told(&mut agent), []);
    assert_eq!(agent.next_wakeup(), Some(Mono(2_100_000_000)));
    agent.handle(Event::Tick, at(2_100));
    assert_eq!(told(&mut agent), [(vec![1], vec![2])]);

    let full = u32::try_from(PINGS_PER_FRAME_MAX).unwrap();
    (0..full - 1).for_each(|batch| agent.handle(pings(batch), at(2_200)));
    assert_eq!(told(&mut agent), []);
    agent.handle(pings(full - 1), at(2_200));
    assert_eq!(told(&mut agent), [((0..full).collect(), vec![])]);
    (0..full).for_each(|batch| agent.handle(heard(batch), at(2_300)));
    assert_eq!(told(&mut agent).len(), 1);
    assert_eq!(agent.pings_dropped(), 0);
}

#[test]
fn a_coordinator_that_gave_numbers_is_told_by_numbers() {
    let mut agent = ready();
    let peer = |name: &str| Peer { name: name.parse().unwrap(), address: Some(address(1)), rail: 0 };
    let book = |names: &[&str], numbers: &[u32]| ToAgent::Book {
        generation: 1,
        base: 0,
        total: 2,
        peers: names.iter().map(|name| peer(name)).collect(),
        numbers: numbers.into(),
        removed: Vec::new(),
    };
    agent.handle(Event::Frame(book(&["a/d/1"], &[7])), at(0));
    agent.handle(pings(1), at(100));
    agent.handle(heard(2), at(100));
    agent.handle(Event::Tick, at(2_100));
    assert_eq!(told(&mut agent), [(vec![1], vec![2])], "the peer has no number yet");

    agent.handle(Event::Frame(book(&["b/d/1"], &[9])), at(5_200));
    agent.handle(pings(3), at(5_300));
    agent.handle(heard(4), at(5_300));
    agent.handle(Event::Tick, at(7_300));
    let numbered = drain(&mut agent).into_iter().find_map(|action| match action {
        Action::Send(ToCoordinator::Numbered { reports, heard }) => Some((reports, heard)),
        _ => None,
    });
    let (reports, heard) = numbered.unwrap();
    assert_eq!(reports.iter().map(|r| (r.local, r.peer, r.batch)).collect::<Vec<_>>(), [(7, 9, 3)]);
    assert_eq!(heard, [NumberedHeard { local: 7, peer: 9, batch: 4, small: 1, large: 0 }]);

    agent.handle(Event::Disconnected, at(10_400));
    agent.handle(Event::Connected, at(10_500));
    agent.handle(welcome_of(PINGS_SINCE, 8), at(10_500));
    agent.handle(pings(5), at(10_600));
    agent.handle(Event::Tick, at(12_600));
    assert_eq!(told(&mut agent), [(vec![5], vec![])], "another coordinator has other numbers");
}

#[test]
fn what_no_coordinator_takes_is_dropped_and_counted() {
    let mut agent = ready();
    agent.handle(pings(1), at(100));
    agent.handle(heard(1), at(100));
    agent.handle(Event::Disconnected, at(200));
    (0..1_000).for_each(|batch| agent.handle(pings(batch), at(300)));
    agent.handle(heard(2), at(300));
    assert_eq!((told(&mut agent), agent.pings_dropped()), (vec![], 1_003));

    agent.handle(Event::Connected, at(400));
    agent.handle(welcome_of(PINGS_SINCE - 1, 7), at(400));
    agent.handle(pings(1), at(500));
    agent.handle(heard(1), at(500));
    agent.handle(Event::Tick, at(9_000));
    assert_eq!((told(&mut agent), agent.pings_dropped()), (vec![], 1_005), "an older coordinator");
}

#[test]
fn how_the_mesh_does_is_there_for_who_asks() {
    let mut agent = ready();
    assert_eq!(agent.mesh_health(), None);
    let health = MeshHealth { endpoints: 1, refused: 3, ..MeshHealth::default() };
    agent.handle(Event::Mesh(MeshEvent::Health(health)), at(1));
    assert_eq!((agent.mesh_health(), drain(&mut agent)), (Some(health), vec![]));
}
