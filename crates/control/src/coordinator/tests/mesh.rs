//! The address book and the grants: who gets what, and what pings leave to connections.

use super::*;
use rdmascope_link::PINGS_SINCE;
use rdmascope_model::{DatagramAddress, EndpointName, Peer};

pub(super) fn with_address(name: &str, queue_pair: u32) -> EndpointInfo {
    let address = DatagramAddress {
        gid: "::ffff:10.0.0.1".parse().unwrap(),
        lid: 0,
        queue_pair,
        queue_key: 0x1111_1111,
        mtu_bytes: 4_096,
    };
    EndpointInfo { datagrams: Some(address), ..endpoint(name) }
}

/// Nodes `n0`, `n1`, .. whose endpoints take datagrams, with their first book.
pub(super) fn pinged(settings: Settings, count: u64) -> Bench {
    let mut bench = Bench::apart(settings, 0);
    for i in 0..count {
        bench.hello(i, &format!("n{i}"), &format!("m{i}"));
        bench.inventory(i, vec![with_address(&format!("n{i}/d/1"), 100)]);
    }
    bench
}

fn settle(bench: &mut Bench) -> Vec<Action> {
    bench.pass(Duration::from_secs(1));
    bench.handle(Event::Tick);
    bench.take()
}

/// Books to one connection: generation, base, peers with their queue pairs, removed.
type Book = (u64, u64, Vec<(String, Option<u32>)>, Vec<String>);

fn books(actions: &[Action], connection: u64) -> Vec<Book> {
    let to = |peer: &Peer| (peer.name.node.clone(), peer.address.map(|address| address.queue_pair));
    let gone = |name: &EndpointName| name.node.clone();
    let book = |action: &Action| match action {
        Action::Send(c, ToAgent::Book { generation, base, peers, removed, .. }) if c.0 == connection => {
            Some((*generation, *base, peers.iter().map(to).collect(), removed.iter().map(gone).collect()))
        }
        _ => None,
    };
    actions.iter().filter_map(book).collect()
}

/// The last grant to a connection: generation, pings a second, pings of a batch, labels.
fn grant(actions: &[Action], connection: u64) -> Option<(u64, u32, u32, u32)> {
    let mut grants = actions.iter().filter_map(|action| match action {
        Action::Send(c, ToAgent::Grant { generation, pings_per_second, pings_per_batch, labels, .. })
            if c.0 == connection =>
        {
            Some((*generation, *pings_per_second, *pings_per_batch, *labels))
        }
        _ => None,
    });
    grants.next_back()
}

fn named(list: &[(&str, Option<u32>)]) -> Vec<(String, Option<u32>)> {
    list.iter().map(|(name, queue_pair)| ((*name).to_owned(), *queue_pair)).collect()
}

fn old_agent(bench: &mut Bench, connection: u64, node: &str) {
    let old = Hello { protocol_max: PINGS_SINCE - 1, protocol_min: 1, ..hello(node, node) };
    bench.frame(connection, ToCoordinator::Hello(old));
}

#[test]
fn everybody_gets_a_whole_book_with_addresses_and_then_changes_only() {
    let mut bench = pinged(Settings::default(), 2);
    let actions = settle(&mut bench);
    let whole = vec![(1, 0, named(&[("n0", Some(100)), ("n1", Some(100))]), Vec::new())];
    assert_eq!((books(&actions, 0), books(&actions, 1)), (whole.clone(), whole));
    assert_eq!(grant(&actions, 0), Some((1, 10, 60, 16)));

    // n1 restarts: a new connection and a new queue pair.
    bench.hello(9, "n1", "m1");
    bench.inventory(9, vec![with_address("n1/d/1", 200)]);
    let actions = settle(&mut bench);
    assert_eq!(books(&actions, 0), [(2, 1, named(&[("n1", Some(200))]), Vec::new())]);
    assert_eq!(books(&actions, 9), [(2, 0, named(&[("n0", Some(100)), ("n1", Some(200))]), Vec::new())]);
    assert_eq!(grant(&actions, 0).map(|g| g.0), Some(2));

    bench.inventory(9, Vec::new());
    bench.hello(10, "n2", "m2");
    bench.inventory(10, vec![with_address("n2/d/1", 5)]);
    let actions = settle(&mut bench);
    let gone = (3, 2, Vec::new(), vec!["n1".to_owned()]);
    let come = (3, 2, named(&[("n2", Some(5))]), Vec::new());
    assert_eq!(books(&actions, 0), [gone, come]);
}

#[test]
fn a_book_waits_while_agents_still_come_and_not_for_ever() {
    for (every_ms, agents, first_book_ms) in [(5_000, 2, 1_000), (400, 4, 1_700), (400, 40, 5_000)] {
        let mut bench = Bench::apart(Settings::default(), 0);
        let (mut came, mut told) = (0, None);
        for at_ms in (0..7_000).step_by(100) {
            if at_ms % every_ms == 0 && came < agents {
                bench.hello(came, &format!("n{came}"), &format!("m{came}"));
                bench.inventory(came, vec![with_address(&format!("n{came}/d/1"), 100)]);
                came += 1;
            }
            bench.handle(Event::Tick);
            let book = books(&bench.take(), 0).first().map(|(_, _, peers, _)| peers.len() as u64);
            told = told.or(book.map(|peers| (at_ms, peers, came)));
            bench.pass(Duration::from_millis(100));
        }
        let (at_ms, peers, came) = told.expect("a book");
        assert_eq!((at_ms, peers), (first_book_ms, came), "{agents} agents, one every {every_ms} ms");
    }
}

#[test]
fn an_agent_that_is_connected_again_gets_the_whole_book_and_nobody_else_anything() {
    let mut bench = pinged(Settings::default(), 2);
    settle(&mut bench);
    bench.hello(9, "n1", "m1");
    bench.inventory(9, vec![with_address("n1/d/1", 100)]);
    let actions = settle(&mut bench);
    assert_eq!(books(&actions, 0), []);
    assert_eq!(books(&actions, 9).len(), 1);
    assert_eq!(books(&actions, 9)[0].1, 0, "from scratch");
    assert_eq!(grant(&actions, 0).map(|g| g.0), Some(1), "of the book that it has");
}

#[test]
fn an_agent_without_pings_hears_of_names_only() {
    let mut bench = pinged(Settings::default(), 1);
    old_agent(&mut bench, 5, "old");
    bench.inventory(5, vec![endpoint("old/d/1")]);
    let actions = settle(&mut bench);
    assert_eq!(books(&actions, 5), [(1, 0, named(&[("n0", None), ("old", None)]), Vec::new())]);

    bench.inventory(0, vec![with_address("n0/d/1", 200)]);
    let actions = settle(&mut bench);
    assert_eq!(books(&actions, 0).len(), 1);
    assert_eq!(books(&actions, 5), [], "an address is nothing to it");
    assert_eq!(grant(&actions, 5).map(|g| g.0), Some(1), "its grant is for the book that it has");
    assert_eq!(grant(&actions, 0).map(|g| g.0), Some(2));

    bench.hello(6, "n1", "m1");
    bench.inventory(6, vec![with_address("n1/d/1", 1)]);
    let actions = settle(&mut bench);
    let whole = named(&[("n0", None), ("n1", None), ("old", None)]);
    assert_eq!(books(&actions, 5), [(3, 0, whole, Vec::new())], "it knows no changes");
}

#[test]
fn a_book_after_a_pause_is_newer_than_the_one_before_it() {
    let mut bench = pinged(Settings::default(), 2);
    settle(&mut bench);
    bench.c.set_pause(None, |flags| flags.all = true, bench.now).unwrap();
    settle(&mut bench);
    bench.c.set_pause(None, |flags| flags.all = false, bench.now).unwrap();
    let actions = settle(&mut bench);
    let [(generation, base, peers, _)] = &books(&actions, 0)[..] else { panic!("{actions:?}") };
    assert!(*generation > 1, "an agent ignores an older one");
    assert_eq!((*base, peers.len()), (0, 2));
}

#[test]
fn what_the_book_is_said_to_cost_is_what_it_costs() {
    let mut bench = Bench::apart(Settings::default(), 0);
    let ports = |node: u32, queue_pair| -> Vec<_> {
        (0..8).map(|port| with_address(&format!("gpu-node-{node:04}/mlx5_{port}/1"), queue_pair)).collect()
    };
    for (connection, node) in [(0, 1), (1, 2)] {
        bench.hello(connection, &format!("gpu-node-{node:04}"), "m");
        bench.inventory(connection, ports(node, 0x1_0000));
    }
    let bytes = |actions: &[Action], connection: u64| -> usize {
        let book =
            |action: &&Action| matches!(action, Action::Send(c, ToAgent::Book { .. }) if c.0 == connection);
        let encoded = actions.iter().filter(book).map(|action| match action {
            Action::Send(_, frame) => frame.encode().len(),
            _ => 0,
        });
        encoded.sum()
    };
    let whole = settle(&mut bench);
    let entry = bytes(&whole, 0) / 16;
    assert!((60..=80).contains(&entry), "an entry takes {entry} bytes");
    bench.inventory(1, Vec::new());
    let gone = settle(&mut bench);
    bench.inventory(1, ports(2, 0x2_0000));
    let back = settle(&mut bench);
    let restart = bytes(&gone, 0) + bytes(&back, 0);
    assert!((700..=900).contains(&restart), "one restart costs another agent {restart} bytes");
}

#[test]
fn endpoints_that_take_datagrams_are_left_to_pings() {
    let mut bench = pinged(Settings::default(), 4);
    settle(&mut bench);
    for _ in 0..200 {
        bench.pass(Duration::from_secs(4));
        for connection in 0..4 {
            bench.frame(connection, ToCoordinator::heartbeat(PauseFlags::default()));
        }
        assert_eq!(bench.take_leases(), [], "pings cover all pairs");
    }
    assert_eq!(bench.c.coverage(), Some(Duration::from_secs(3 * 6 + 6)));
    assert_eq!(bench.c.fresh_for(), Duration::from_secs(360), "three times what was asked for");
    bench.sweep(&[Metric::Latency]).unwrap();
    assert_eq!(bench.take_leases().len(), 4, "an operator's sweep is another matter");
}

#[test]
fn pairs_that_pings_cannot_cover_are_probed_as_before_at_half_the_rate() {
    let mut bench = pinged(Settings::default(), 2);
    old_agent(&mut bench, 5, "old");
    bench.inventory(5, vec![endpoint("old/d/1")]);
    let actions = settle(&mut bench);
    assert_eq!(grant(&actions, 0), Some((1, 5, 60, 16)), "the other half is for connections");
    let mut probed = BTreeSet::new();
    let mut leases: Vec<_> = actions
        .into_iter()
        .filter_map(|action| match action {
            Action::Send(to, ToAgent::Lease { plan, .. }) => Some((to, plan)),
            _ => None,
        })
        .collect();
    for _ in 0..200 {
        probed.extend(pairs(&leases));
        bench.complete(&leases);
        bench.pass(Duration::from_secs(2));
        for connection in [0, 1, 5] {
            bench.frame(connection, ToCoordinator::heartbeat(PauseFlags::default()));
        }
        leases = bench.take_leases();
    }
    let seen: BTreeSet<_> =
        probed.iter().map(|(a, b)| if a == "old" { b.as_str() } else { a.as_str() }).collect();
    assert_eq!(seen, ["n0", "n1"].into());
    assert!(probed.iter().all(|(a, b)| a == "old" || b == "old"), "{probed:?}");
    // Two peers for each: 200 round trips take 60 s at 5 a second, twice, and the pause.
    assert_eq!(bench.c.coverage(), Some(Duration::from_secs(2 * 60 + 10)), "the slower of the two");
}

#[test]
fn a_sweep_that_began_before_the_addresses_were_there_ends_without_them() {
    let mut bench = Bench::apart(Settings::default(), 4);
    settle(&mut bench);
    assert!(bench.c.background_sweep().is_some());
    for i in 0..4 {
        bench.inventory(i, vec![with_address(&format!("n{i}/d/1"), 100)]);
    }
    bench.pass(Duration::from_secs(10));
    bench.handle(Event::Tick);
    assert!(bench.c.background_sweep().is_none(), "{:?}", bench.c.background_sweep());
    assert_eq!(bench.take_leases().iter().filter(|(_, plan)| plan.lease.0 > 2).count(), 0);
}
