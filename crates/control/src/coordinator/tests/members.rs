//! Who comes, who goes, and who is not let in.

use super::*;

#[test]
fn a_good_hello_is_welcomed_with_epoch_and_pause_flags() {
    let mut bench = Bench::new(quiet());
    bench.c.set_pause(None, |flags| flags.bandwidth = true, bench.now).unwrap();
    bench.hello(3, "n", "m");
    let to = ConnectionId(3);
    let welcome = ToAgent::Welcome { protocol: PROTOCOL_MAX, epoch: 7, heartbeat: Duration::from_secs(5) };
    let flags = PauseFlags { all: false, bandwidth: true };
    let actions = bench.take();
    assert_eq!(actions[..2], [Action::Send(to, welcome), Action::Send(to, ToAgent::Pause(flags))]);
    let [Action::Keep(rows, None)] = &actions[2..] else { panic!("{actions:?}") };
    assert_eq!((rows[0].kind, rows[0].node.as_str()), (RowKind::Connected, "n"));
    bench.frame(3, ToCoordinator::heartbeat(PauseFlags::default()));
    assert_eq!(bench.take(), [Action::Send(to, ToAgent::HeartbeatReply { pairs: Vec::new(), drain: None })]);
    assert_eq!(bench.c.members().connected(), 1);
}

#[test]
fn versions_without_overlap_are_refused_by_name_and_the_connection_closed() {
    let mut bench = Bench::new(quiet());
    let newer = Hello { protocol_min: 90, protocol_max: 92, ..hello("n", "m") };
    bench.frame(3, ToCoordinator::Hello(newer));
    let actions = bench.take();
    let [why] = &refusals(&actions, 3)[..] else { panic!("{actions:?}") };
    assert!(why.contains("90 to 92") && why.contains(&format!("{PROTOCOL_MIN} to {PROTOCOL_MAX}")), "{why}");
    assert_eq!(closes(&actions), [3]);
    let counted = actions.iter().filter(|a| **a == Action::Refused(Refusal::Version)).count();
    assert_eq!((bench.c.members().connected(), counted), (0, 1));
}

#[test]
fn a_connection_that_does_not_begin_with_a_hello_is_closed() {
    for frame in [
        ToCoordinator::heartbeat(PauseFlags::default()),
        ToCoordinator::inventory(vec![endpoint("n/d/1")], Vec::new()),
        ToCoordinator::Results(Vec::new()),
    ] {
        let mut bench = Bench::new(quiet());
        bench.frame(3, frame);
        let actions = bench.take();
        assert_eq!(refusals(&actions, 3), ["the first frame must be a hello"]);
        assert_eq!(closes(&actions), [3]);
        assert_eq!(bench.c.matrix().len(), 0, "nothing of it was taken");
    }
}

#[test]
fn a_second_hello_costs_the_connection_and_nobody_else_anything() {
    let mut bench = Bench::apart(quiet(), 3);
    bench.hello(1, "other", "m");
    let actions = bench.take();
    assert_eq!(refusals(&actions, 1).len(), 1);
    assert_eq!(closes(&actions), [1]);
    assert_eq!(bench.c.members().connected(), 2);
    assert!(bench.c.members().agent("other").is_none());
    bench.sweep(&[Metric::Latency]).unwrap();
    let leases = bench.take_leases();
    assert_eq!(
        pairs(&leases),
        [("n0".to_owned(), "n2".to_owned())],
        "no lease goes to a connection on its way out"
    );
}

#[test]
fn an_agent_speaks_for_its_own_node_only() {
    let mut bench = Bench::apart(quiet(), 2);
    bench.inventory(0, vec![endpoint("n0/d/1"), endpoint("n1/d/1")]);
    let actions = bench.take();
    let [why] = &refusals(&actions, 0)[..] else { panic!("{actions:?}") };
    assert!(why.contains("n0") && why.contains("n1/d/1"), "{why}");
    assert_eq!(closes(&actions), [0]);
    assert_eq!(bench.c.members().connected(), 1);

    let foreign = ProbeResult {
        lease: None,
        local: "n0/d/1".parse().unwrap(),
        peer: "n1/d/1".parse().unwrap(),
        role: Role::Source,
        metric: Some(Metric::Latency),
        measured_at: bench.now.wall,
        outcome: latency(1),
        effects: None,
        evidence: String::new(),
    };
    bench.frame(1, ToCoordinator::Results(vec![foreign]));
    assert_eq!(bench.cell(Metric::Latency, "n0", "n1"), Cell::Never);
}

#[test]
fn an_agent_that_comes_again_replaces_its_old_connection_and_its_leases() {
    let mut bench = Bench::apart(quiet(), 2);
    bench.sweep(&[Metric::Latency]).unwrap();
    let leases = bench.take_leases();
    assert_eq!(leases.len(), 2);
    bench.hello(9, "n1", "m1");
    let actions = bench.take();
    assert_eq!(closes(&actions), [1]);
    let ended = |to| Action::Send(ConnectionId(to), ToAgent::LeaseEnd { lease: leases[0].1.lease });
    assert!(actions.contains(&ended(0)) && actions.contains(&ended(9)), "both must close it: {actions:?}");
    assert_eq!(bench.c.leases_running(), 0);
    assert_eq!(bench.cause(Metric::Latency, "n0", "n1"), Cause::PeerGone);
    assert_eq!(bench.cause(Metric::Latency, "n1", "n0"), Cause::AgentGone);
    // The old connection's end comes late: it must not take the new one with it.
    bench.handle(Event::Closed(ConnectionId(1)));
    assert_eq!(bench.c.members().connected(), 2);
    bench.frame(1, ToCoordinator::heartbeat(PauseFlags::default()));
    assert_eq!(closes(&bench.take()), [1], "what the old connection still says is not taken");
}

#[test]
fn a_node_that_comes_back_with_another_boot_id_leaves_its_old_machine_free() {
    let mut bench =
        Bench::nodes(quiet(), 3, |i| if i == 2 { "other".to_owned() } else { "shared".to_owned() });
    bench.sweep(&[Metric::Latency]).unwrap();
    bench.take();
    bench.hello(9, "n1", "after-reboot");
    bench.hello(10, "n0", "after-reboot-too");
    for _ in 0..6 {
        let leases = bench.take_leases();
        bench.complete(&leases);
    }
    assert!(bench.c.sweep().unwrap().finished_at.is_some());
    bench.hello(11, "n0", "shared");
    bench.hello(12, "n1", "shared");
    bench.sweep(&[Metric::Latency]).unwrap();
    assert!(!bench.take_leases().is_empty(), "nothing runs on the old machine any more");
}

#[test]
fn an_endpoint_that_goes_is_remembered_and_comes_back_under_its_number() {
    let mut bench = Bench::apart(quiet(), 2);
    let index = bench.c.find_endpoint("n1/d/1").unwrap();
    bench.inventory(1, Vec::new());
    let gone = bench.c.members().endpoint(index).unwrap().gone_since;
    assert_eq!(gone, Some(bench.now.wall));
    bench.pass(Duration::from_secs(1));
    bench.inventory(1, Vec::new());
    assert_eq!(
        bench.c.members().endpoint(index).unwrap().gone_since,
        gone,
        "since it went, not since it was missed"
    );
    assert!(bench.sweep(&[Metric::Latency]).unwrap_err().to_string().contains("at least two"));
    let id = bench.c.start_probe("n0", "n1", &[Metric::Latency], false, bench.now).unwrap();
    assert_eq!(bench.c.probe(id).unwrap().left, 0, "it is known without a packet");
    assert_eq!(bench.cause(Metric::Latency, "n0", "n1"), Cause::DeviceGone);

    bench.inventory(1, vec![endpoint("n1/d/1")]);
    assert_eq!(bench.c.find_endpoint("n1/d/1"), Ok(index));
    assert_eq!(bench.c.members().endpoint(index).unwrap().gone_since, None);
    bench.take();
    bench.sweep(&[Metric::Latency]).unwrap();
    assert_eq!(bench.take_leases().len(), 2);
}

#[test]
fn an_agent_that_is_silent_for_three_heartbeats_is_closed() {
    let mut bench = Bench::apart(quiet(), 2);
    bench.sweep(&[Metric::Latency]).unwrap();
    bench.take();
    bench.pass(Duration::from_secs(14));
    bench.frame(0, ToCoordinator::heartbeat(PauseFlags::default()));
    assert_eq!(closes(&bench.take()), [0_u64; 0], "14 s of silence are not three heartbeats");
    assert_eq!(bench.c.next_wakeup(), Some(bench.now.mono.after(Duration::from_secs(1))));
    bench.pass(Duration::from_secs(1));
    bench.handle(Event::Tick);
    assert_eq!(closes(&bench.take()), [1]);
    assert_eq!(bench.c.members().connected(), 1);
    bench.handle(Event::Tick);
    assert_eq!(closes(&bench.take()), [0_u64; 0], "once");
}

#[test]
fn names_may_be_short_while_they_are_clear() {
    let mut bench = Bench::new(quiet());
    bench.hello(0, "n0", "m");
    bench.inventory(0, ["n0/d0/1", "n0/d1/1", "n0/d1/2"].map(endpoint).to_vec());
    bench.hello(1, "n1", "m");
    bench.inventory(1, vec![endpoint("n1/d/1")]);
    let full = |name: &str| bench.c.find_endpoint(name).map(|i| bench.c.matrix().name(i).to_string());
    assert_eq!(full("n0/d1/2").as_deref(), Ok("n0/d1/2"));
    assert_eq!(full("n0/d0").as_deref(), Ok("n0/d0/1"));
    assert_eq!(full("n1").as_deref(), Ok("n1/d/1"));
    for (unclear, candidates) in [("n0", "n0/d0/1, n0/d1/1, n0/d1/2"), ("n0/d1", "n0/d1/1, n0/d1/2")] {
        let text = full(unclear).unwrap_err().to_string();
        assert_eq!(text, format!("'{unclear}' may be any of: {candidates}"));
    }
    let text = full("n9").unwrap_err().to_string();
    assert_eq!(text, "no endpoint 'n9'; there are: n0/d0/1, n0/d1/1, n0/d1/2, n1/d/1");
    assert!(full("n").is_err(), "a beginning is not a name");
}

#[test]
fn a_list_of_names_for_people_ends() {
    let mut bench = Bench::new(quiet());
    let text = bench.c.find_endpoint("x").unwrap_err().to_string();
    assert_eq!(text, "no endpoint 'x'; there are: none yet");
    for i in 0..25 {
        bench.hello(i, &format!("n{i:02}"), "m");
        bench.inventory(i, vec![endpoint(&format!("n{i:02}/d/1"))]);
    }
    let text = bench.c.find_endpoint("x").unwrap_err().to_string();
    assert!(text.contains("n19/d/1") && !text.contains("n20/d/1") && text.ends_with("and 5 more"), "{text}");
    let pause = bench.c.set_pause(Some(&["n01".to_owned(), "x".to_owned()]), |f| f.all = true, bench.now);
    assert!(
        matches!(pause, Err(CommandError::UnknownNode(text)) if text.contains("no node 'x'") && text.contains("n00"))
    );
    assert!(!bench.c.members().agent("n01").unwrap().operator_pause.all, "all or nothing");
}

#[test]
fn findings_that_change_do_not_send_everybody_a_new_address_book() {
    let mut bench = Bench::apart(Settings::default(), 3);
    bench.pass(Duration::from_secs(1));
    bench.handle(Event::Tick);
    let books = |actions: &[Action]| {
        actions.iter().filter(|a| matches!(a, Action::Send(_, ToAgent::Book { .. }))).count()
    };
    assert_eq!(books(&bench.take()), 3, "the first book, once for each agent");
    let finding = FindingBrief {
        id: "x".to_owned(),
        status: rdmascope_model::Status::Warn,
        subject: String::new(),
        summary: String::new(),
        cause: String::new(),
        next_step: String::new(),
        evidence: Vec::new(),
        settling: false,
        since: Wall(0),
        latched: false,
    };
    let endpoints = vec![EndpointInfo { active_mtu: Some(1_024), ..endpoint("n0/d/1") }];
    bench.frame(0, ToCoordinator::inventory(endpoints, vec![finding]));
    bench.pass(Duration::from_secs(2));
    bench.handle(Event::Tick);
    assert_eq!(books(&bench.take()), 0);
    bench.inventory(0, Vec::new());
    bench.pass(Duration::from_secs(2));
    bench.handle(Event::Tick);
    assert_eq!(books(&bench.take()), 3, "an endpoint went: everybody learns it");
}

#[test]
fn a_membership_that_never_rests_does_not_keep_the_grants_back() {
    let mut bench = Bench::apart(Settings::default(), 3);
    let mut granted = 0;
    for round in 0..40 {
        let endpoints = if round % 2 == 0 { Vec::new() } else { vec![endpoint("n0/d/1")] };
        bench.inventory(0, endpoints);
        bench.pass(Duration::from_millis(500));
        for connection in 0..3 {
            bench.frame(connection, ToCoordinator::heartbeat(PauseFlags::default()));
        }
        let actions = bench.take();
        granted += actions.iter().filter(|a| matches!(a, Action::Send(_, ToAgent::Grant { .. }))).count();
    }
    assert!(granted >= 3 * 10, "a grant lasts 60 s, a book settles within 1 s; {granted} grants in 20 s");
}
