//! Pings of a large cluster: rails in the book, nodes in maintenance out of it, passes instead of leases, and what goes on by itself.

use super::*;
use rdmascope_link::PingReport;
use rdmascope_model::{DatagramAddress, EndpointName, MeshSweep, Peer, PingCounts, PingStats, StampClock};

/// An endpoint that takes datagrams, in a slot that makes it one of a rail.
fn pinged(node: u64, rail: u64) -> EndpointInfo {
    let address = DatagramAddress {
        gid: format!("::ffff:10.{rail}.{}.{}", node / 250, node % 250 + 1).parse().unwrap(),
        lid: 0,
        queue_pair: 100,
        queue_key: 7,
        mtu_bytes: 4_096,
    };
    EndpointInfo {
        datagrams: Some(address),
        pci_address: Some(format!("0000:{rail:02x}:00.0")),
        ..endpoint(&format!("n{node}/d{rail}/1"))
    }
}

fn cluster(nodes: u64, rails: u64, settings: Settings) -> Bench {
    let mut bench = Bench::new(settings);
    for node in 0..nodes {
        bench.hello(node, &format!("n{node}"), &format!("m{node}"));
        bench.inventory(node, (0..rails).map(|rail| pinged(node, rail)).collect());
    }
    settle(&mut bench);
    bench
}

fn settle(bench: &mut Bench) -> Vec<Action> {
    bench.pass(Duration::from_secs(1));
    bench.handle(Event::Tick);
    bench.take()
}

fn peers(actions: &[Action], connection: u64) -> Vec<Peer> {
    let book = |action: &Action| match action {
        Action::Send(to, ToAgent::Book { peers, .. }) if to.0 == connection => peers.to_vec(),
        _ => Vec::new(),
    };
    actions.iter().flat_map(book).collect()
}

/// The last grant to a connection: its rate, how often another rail, and its pass.
fn grant(actions: &[Action], connection: u64) -> Option<(u32, u32, Option<MeshSweep>)> {
    let of = |action: &Action| match action {
        Action::Send(to, ToAgent::Grant { pings_per_second, cross_rail_every, sweep, .. })
            if to.0 == connection =>
        {
            Some((*pings_per_second, *cross_rail_every, *sweep))
        }
        _ => None,
    };
    actions.iter().filter_map(of).next_back()
}

fn told(bench: &mut Bench, source: &EndpointName, target: &EndpointName, answered: u32) {
    let counts = PingCounts { payload_bytes: 64, sent: 6, answered, ..PingCounts::default() };
    let stats = PingStats {
        batch: 1,
        clock: StampClock::Software,
        small: counts,
        large: PingCounts { payload_bytes: 4_096, sent: 3, ..counts },
        network: None,
        network_large: None,
        responder: None,
        prober: None,
        host_delayed: 0,
        invalid_stamps: 0,
        stale: 0,
        labels: Vec::new(),
    };
    let report =
        PingReport { local: source.clone(), peer: target.clone(), measured_at: bench.now.wall, stats };
    let node = bench.c.members().agent(&source.node).unwrap().connection.unwrap();
    bench.frame(node.0, ToCoordinator::Pings { reports: vec![report], heard: Vec::new() });
}

fn drained_pings(cross_rail: bool) -> SweepOrder {
    SweepOrder { metrics: vec![Metric::Ping], drained: true, cross_rail, ..SweepOrder::default() }
}

#[test]
fn the_book_has_rails_and_a_rail_that_goes_changes_nobody_elses_number() {
    let mut bench = Bench::new(Settings::default());
    for node in 0..3 {
        bench.hello(node, &format!("n{node}"), &format!("m{node}"));
        bench.inventory(node, (0..3).map(|rail| pinged(node, rail)).collect());
    }
    let actions = settle(&mut bench);
    let rails: BTreeMap<String, u32> =
        peers(&actions, 0).iter().map(|peer| (peer.name.to_string(), peer.rail)).collect();
    let of = |rail: u64| (0..3).map(|node| rails[&format!("n{node}/d{rail}/1")]).collect::<BTreeSet<_>>();
    let numbers = [of(0), of(1), of(2)];
    assert!(numbers.iter().all(|rail| rail.len() == 1 && !rail.contains(&0)), "{rails:?}");
    assert_eq!(numbers.iter().flatten().collect::<BTreeSet<_>>().len(), 3);
    // Rail 0 is gone from all nodes but one, and with it the order in which rails are met.
    for node in 0..2 {
        bench.inventory(node, (1..3).map(|rail| pinged(node, rail)).collect());
    }
    let actions = settle(&mut bench);
    assert_eq!(peers(&actions, 2), [], "nobody is told of a peer that is what it was");
}

#[test]
fn a_node_in_maintenance_is_in_nobodys_book_and_pings_nobody() {
    let mut bench = cluster(3, 1, Settings::default());
    bench.c.set_listed([("n1".to_owned(), "maint".to_owned())].into(), bench.now);
    let actions = settle(&mut bench);
    let removed = actions.iter().any(|action| {
        matches!(action, Action::Send(to, ToAgent::Book { removed, .. }) if to.0 == 0 && removed.len() == 1)
    });
    assert!(removed, "{actions:?}");
    assert_eq!(grant(&actions, 1).map(|grant| grant.0), Some(0));
    assert_eq!(grant(&actions, 0).map(|grant| grant.0), Some(10));
    bench.c.set_listed([("n2".to_owned(), "maint".to_owned())].into(), bench.now);
    let actions = settle(&mut bench);
    assert_eq!(peers(&actions, 0).len(), 1, "n1 is back");
    assert_eq!((grant(&actions, 1).map(|g| g.0), grant(&actions, 2).map(|g| g.0)), (Some(10), Some(0)));
}

#[test]
fn what_goes_on_by_itself_says_its_time_and_its_bytes() {
    let bench = cluster(4, 2, Settings::default());
    let plan = bench.c.continuous_plan();
    let pings = plan.pings.unwrap();
    // Three peers on the rail, three on the other: 60 pings each at ten a second.
    assert_eq!((pings.pairs, pings.cross_rail_pairs, plan.connections), (24, 24, None));
    assert_eq!(
        (pings.within, pings.cross_rail_within),
        (Duration::from_secs(42), Some(Duration::from_secs(42)))
    );
    assert_eq!((pings.per_second, pings.per_turn, pings.bytes_per_second), (10, 60, 10 * 3_090));
    assert_eq!(bench.c.coverage(), Some(pings.within));
    let few = Settings { coverage: Duration::from_secs(3), ..Settings::default() };
    let bench = cluster(4, 2, few);
    let pings = bench.c.continuous_plan().pings.unwrap();
    // Nine pings to each of three peers, three turns of four; the others have the fourth.
    assert_eq!(pings.within, Duration::from_millis(3_600 + 6_000));
    assert_eq!(pings.cross_rail_within, Some(Duration::from_millis(10_800 + 6_000)));
    let index = |name: &str| bench.c.find_endpoint(name).unwrap();
    let shown = bench.c.shown(bench.now.wall);
    let (same, cross) = (index("n1/d0"), index("n1/d1"));
    let fresh = |other| shown.fresh_for(index("n0/d0"), other);
    assert_eq!((fresh(same), fresh(cross)), (Duration::from_secs(60), Duration::from_secs(60)), "never less");
    assert_eq!(cluster(4, 2, quiet()).c.continuous_plan(), ContinuousPlan::default());
}

#[test]
fn a_large_drained_cluster_is_pinged_in_one_pass_and_knows_when_it_is_over() {
    let mut bench = cluster(33, 2, Settings::default());
    let plan = bench.c.plan_sweep(&drained_pings(false), bench.now).unwrap();
    assert_eq!((plan.pairs, plan.probes, plan.rounds), (66 * 32, 66 * 32, 32));
    // 60 pings to each of 32 peers at 500 a second.
    assert_eq!(plan.time, Duration::from_millis(32 * 60 * 2 + 400));
    bench.c.start_sweep_of(&drained_pings(false), bench.now).unwrap();
    let actions = bench.take();
    assert_eq!(bench.c.leases_running(), 0);
    let (rate, _, sweep) = grant(&actions, 7).unwrap();
    let sweep = sweep.expect("at once");
    assert_eq!((rate, sweep.pings_per_second, sweep.pings_per_batch, sweep.cross_rail), (10, 500, 60, false));
    assert!(sweep.number > 0);
    let names: Vec<EndpointName> = bench.c.matrix().endpoints().map(|(name, _)| name.clone()).collect();
    // Somebody comes, and everybody gets another book and grant: it is the same pass.
    bench.hello(33, "n33", "m33");
    bench.inventory(33, vec![pinged(33, 0)]);
    assert_eq!(grant(&settle(&mut bench), 7).and_then(|grant| grant.2), Some(sweep));
    let pairs = names.iter().flat_map(|a| names.iter().map(move |b| (a, b)));
    let wanted: Vec<_> = pairs.filter(|(a, b)| a.node != b.node && a.device == b.device).collect();
    assert_eq!(wanted.len(), 66 * 32);
    let (last, rest) = wanted.split_last().unwrap();
    for (a, b) in rest {
        told(&mut bench, a, b, if a.node == "n3" { 0 } else { 6 });
        told(&mut bench, a, b, 6);
    }
    // Pings across rails go on, and are not of the pass.
    told(&mut bench, &names[0], &names[3], 6);
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((sweep.done, sweep.finished_at), (66 * 32 - 1, None));
    told(&mut bench, last.0, last.1, 6);
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((sweep.done, sweep.failed, sweep.excluded), (66 * 32, 64, 0));
    assert!(sweep.finished_at.is_some());
    assert_eq!(grant(&bench.take(), 7).map(|grant| grant.2), Some(None), "everybody is told at once");
}

#[test]
fn a_pass_of_which_nobody_tells_ends_and_says_what_was_not_measured() {
    let mut bench = cluster(65, 1, Settings::default());
    bench.c.start_sweep_of(&drained_pings(true), bench.now).unwrap();
    let names = [0, 1].map(|node| format!("n{node}/d0/1").parse::<EndpointName>().unwrap());
    told(&mut bench, &names[0], &names[1], 6);
    let plan = bench.c.sweep().unwrap().plan.time;
    let ends = bench.c.next_wakeup().unwrap();
    assert!(ends > bench.now.mono);
    let mut waited = Duration::ZERO;
    while bench.c.sweep().unwrap().finished_at.is_none() {
        bench.pass(Duration::from_secs(1));
        waited += Duration::from_secs(1);
        (0..65).for_each(|node| bench.frame(node, ToCoordinator::heartbeat(PauseFlags::default())));
        assert!(waited < 3 * plan + Duration::from_secs(20), "it never ends");
    }
    let sweep = bench.c.sweep().unwrap();
    assert_eq!((sweep.done, sweep.excluded), (65 * 64, 65 * 64 - 1));
}

#[test]
fn leases_ping_a_small_cluster_one_that_works_and_one_with_an_older_agent() {
    let leased = |bench: &mut Bench, order: &SweepOrder| {
        bench.c.start_sweep_of(order, bench.now).unwrap();
        bench.take_leases().len() > 60
    };
    assert!(leased(&mut cluster(64, 1, Settings::default()), &drained_pings(false)));
    let at_work = SweepOrder { drained: false, ..drained_pings(false) };
    assert!(leased(&mut cluster(65, 1, Settings::default()), &at_work));
    let mut bench = cluster(65, 1, Settings::default());
    let old = Hello { protocol_max: 2, ..hello("n65", "m65") };
    bench.frame(65, ToCoordinator::Hello(old));
    bench.inventory(65, vec![endpoint("n65/d0/1")]);
    settle(&mut bench);
    assert!(leased(&mut bench, &drained_pings(false)));
    assert!(!leased(&mut cluster(65, 1, Settings::default()), &drained_pings(false)), "a pass");
}

#[test]
fn buffers_last_as_long_as_the_rate_lets_them_and_briefly_while_figures_of_a_pass_are_fresh() {
    let mut bench = cluster(65, 1, Settings::default());
    let last = |bench: &Bench| bench.c.buffers_last(bench.now);
    assert_eq!(last(&bench), Duration::from_secs(1), "32 buffers, 10 pings a second, two answers to each");
    let faster = cluster(3, 1, Settings { pings_per_second: 100, ..Settings::default() });
    assert_eq!(last(&faster), Duration::from_millis(100));
    bench.c.start_sweep_of(&drained_pings(false), bench.now).unwrap();
    assert_eq!(last(&bench), Duration::from_millis(20), "500 a second");
    while bench.c.sweep().unwrap().finished_at.is_none() {
        bench.pass(Duration::from_secs(5));
        (0..65).for_each(|node| bench.frame(node, ToCoordinator::heartbeat(PauseFlags::default())));
    }
    assert_eq!(last(&bench), Duration::from_millis(20), "what it measured counts still");
    bench.pass(bench.c.fresh_for());
    assert_eq!(last(&bench), Duration::from_secs(1));
}
