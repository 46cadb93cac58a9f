//! What an agent must and must not do, whoever its coordinator is.

mod mesh;

use super::*;
use rdmascope_link::{DRAIN_FAULTS_MAX, EventKind, PROTOCOL_MAX, PairsBrief, ProbeResult, RelayPayload};
use rdmascope_model::{
    Cause, CounterDelta, Exclusion, Fabric, Failure, LatencySpec, LatencyStats, Manner, Metric, Outcome,
    ProbeSpec, Role, Step, Urgency, Wall,
};

mod safety;

/// Rate of the endpoint's port.
const RATE: u64 = 100_000_000_000;

fn at(ms: u64) -> Now {
    Now { mono: Mono(ms * 1_000_000), wall: Wall(1_000_000 + ms) }
}

fn endpoint(unusable: Option<Cause>) -> EndpointInfo {
    EndpointInfo {
        unusable,
        unusable_detail: "state DOWN".to_owned(),
        rate_bps: Some(RATE),
        ..EndpointInfo::bare("a/d/1".parse().unwrap(), Fabric::Simulated)
    }
}

fn latency_plan(lease: u64, role: Role) -> ProbePlan {
    ProbePlan {
        lease: LeaseId(lease),
        role,
        local: "a/d/1".parse().unwrap(),
        peer: "b/d/1".parse().unwrap(),
        spec: ProbeSpec::Latency(LatencySpec::USUAL),
        manner: Manner::default(),
        urgency: Urgency::Operator,
        expires_in: Duration::from_secs(5),
    }
}

fn bandwidth_plan(urgency: Urgency) -> ProbePlan {
    let spec = rdmascope_model::BandwidthSpec {
        message_bytes: 65_536,
        depth: 8,
        warmup: Duration::ZERO,
        duration: Duration::from_millis(200),
        completions_min: 100,
        bytes_max: 1 << 30,
    };
    ProbePlan { spec: ProbeSpec::Bandwidth(spec), urgency, ..latency_plan(2, Role::Source) }
}

fn lease(epoch: u64, plan: ProbePlan) -> Event {
    Event::Frame(ToAgent::Lease { epoch, plan, setup_within: Duration::from_secs(3) })
}

fn welcome(epoch: u64) -> Event {
    welcome_of(PROTOCOL_MAX, epoch)
}

fn welcome_of(protocol: u32, epoch: u64) -> Event {
    Event::Frame(ToAgent::Welcome { protocol, epoch, heartbeat: Duration::from_secs(5) })
}

fn drain(agent: &mut Agent) -> Vec<Action> {
    std::iter::from_fn(|| agent.poll_action()).collect()
}

/// An agent with one usable endpoint, accepted by a coordinator of epoch 7.
fn ready() -> Agent {
    let identity = Identity {
        node: "a".to_owned(),
        instance: 1,
        machine: "m".to_owned(),
        version: "0".to_owned(),
        metrics: None,
    };
    let mut agent = Agent::new(identity);
    agent.handle(Event::Inventory { endpoints: vec![endpoint(None)], findings: Vec::new() }, at(0));
    agent.handle(Event::Connected, at(0));
    agent.handle(welcome(7), at(0));
    drain(&mut agent);
    agent
}

fn outcomes(actions: &[Action]) -> Vec<&Outcome> {
    let results = actions.iter().filter_map(|a| match a {
        Action::Send(ToCoordinator::Results(results)) => Some(results),
        _ => None,
    });
    results.flatten().map(|r: &ProbeResult| &r.outcome).collect()
}

#[track_caller]
fn refused_with(actions: &[Action], cause: Cause) {
    match outcomes(actions)[..] {
        [Outcome::Failed(Failure { cause: seen, step: Step::Admit, .. })] => assert_eq!(*seen, cause),
        ref other => panic!("not refused: {other:?}"),
    }
    assert!(!actions.iter().any(|a| matches!(a, Action::Prepare(..))), "refused and yet begun");
}

#[test]
fn a_lease_runs_from_its_order_to_its_result_and_is_closed_at_its_end() {
    let mut agent = ready();
    agent.handle(lease(7, latency_plan(1, Role::Source)), at(1));
    assert!(matches!(drain(&mut agent)[..], [Action::Prepare(..)]));
    agent.handle(Event::Transport(LeaseId(1), TransportEvent::Prepared { offer: vec![1] }), at(2));
    let relay = |payload| ToAgent::Relay { lease: LeaseId(1), payload };
    agent.handle(Event::Frame(relay(RelayPayload::Offer(vec![2]))), at(3));
    agent.handle(Event::Transport(LeaseId(1), TransportEvent::Connected), at(4));
    agent.handle(Event::Frame(relay(RelayPayload::Ready)), at(5));
    let actions = drain(&mut agent);
    assert!(actions.contains(&Action::Connect(LeaseId(1), vec![2])));
    assert_eq!(actions.last(), Some(&Action::Start(LeaseId(1))));
    agent.handle(Event::Frame(ToAgent::LeaseEnd { lease: LeaseId(1) }), at(6));
    assert_eq!(drain(&mut agent), [Action::Close(LeaseId(1))]);
    assert_eq!(agent.probes(), 0);
}

#[test]
fn an_order_of_another_epoch_is_not_obeyed() {
    let mut agent = ready();
    for epoch in [6, 8] {
        agent.handle(lease(epoch, latency_plan(1, Role::Source)), at(1));
        assert_eq!(drain(&mut agent), []);
    }
}

#[test]
fn a_second_coordinator_with_an_older_epoch_is_left() {
    let mut agent = ready();
    agent.handle(Event::Disconnected, at(1));
    agent.handle(Event::Connected, at(2));
    drain(&mut agent);
    agent.handle(welcome(6), at(3));
    assert!(
        matches!(&drain(&mut agent)[..], [Action::Disconnect(why)] if why.contains("second coordinator"))
    );
}

#[test]
fn what_the_agent_forbids_is_refused_with_its_reason() {
    let mut agent = ready();
    let mut greedy = latency_plan(1, Role::Source);
    greedy.spec = ProbeSpec::Latency(LatencySpec { samples: 1_000_000, warmup: 0, message_bytes: 8 });
    agent.handle(lease(7, greedy), at(1));
    refused_with(&drain(&mut agent), Cause::LeaseRejected);

    let mut elsewhere = latency_plan(1, Role::Source);
    elsewhere.local = "a/gone/1".parse().unwrap();
    agent.handle(lease(7, elsewhere), at(1));
    refused_with(&drain(&mut agent), Cause::DeviceGone);

    let background = ProbePlan { urgency: Urgency::Background, ..latency_plan(1, Role::Source) };
    agent.handle(lease(7, background), at(1));
    refused_with(&drain(&mut agent), Cause::LeaseRejected);

    agent.handle(
        Event::Inventory { endpoints: vec![endpoint(Some(Cause::PortDown))], findings: Vec::new() },
        at(2),
    );
    drain(&mut agent);
    agent.handle(lease(7, latency_plan(1, Role::Source)), at(3));
    refused_with(&drain(&mut agent), Cause::PortDown);
}

#[test]
fn a_local_pause_stops_what_runs_and_refuses_what_comes_with_or_without_a_coordinator() {
    let mut agent = ready();
    agent.handle(lease(7, latency_plan(1, Role::Source)), at(1));
    drain(&mut agent);
    agent.handle(Event::LocalPause(PauseFlags { all: true, bandwidth: false }), at(2));
    let actions = drain(&mut agent);
    assert!(actions.contains(&Action::Close(LeaseId(1))));
    assert_eq!(outcomes(&actions), [&Outcome::Excluded(Exclusion::Policy)]);
    agent.handle(Event::Frame(ToAgent::Pause(PauseFlags::default())), at(3));
    drain(&mut agent);
    agent.handle(lease(7, latency_plan(2, Role::Source)), at(4));
    assert_eq!(outcomes(&drain(&mut agent)), [&Outcome::Excluded(Exclusion::Policy)]);
}

#[test]
fn a_device_that_goes_ends_its_probes_with_that_cause() {
    let mut agent = ready();
    agent.handle(lease(7, latency_plan(1, Role::Source)), at(1));
    drain(&mut agent);
    agent.handle(Event::Inventory { endpoints: Vec::new(), findings: Vec::new() }, at(2));
    let actions = drain(&mut agent);
    assert!(actions.contains(&Action::Close(LeaseId(1))));
    match outcomes(&actions)[..] {
        [Outcome::Failed(failure)] => assert_eq!(failure.cause, Cause::DeviceGone),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_coordinator_a_lease_runs_out_and_is_closed() {
    let mut agent = ready();
    agent.handle(lease(7, latency_plan(1, Role::Source)), at(0));
    agent.handle(Event::Disconnected, at(1));
    drain(&mut agent);
    for _ in 0..4 {
        if let Some(wakeup) = agent.next_wakeup() {
            agent.handle(Event::Tick, Now { mono: wakeup, wall: Wall(0) });
        }
    }
    assert!(drain(&mut agent).contains(&Action::Close(LeaseId(1))));
    assert_eq!((agent.probes(), agent.next_wakeup()), (0, None));
}

#[test]
fn a_restarted_coordinator_gets_the_last_results_with_their_time() {
    let mut agent = ready();
    agent.handle(lease(7, latency_plan(1, Role::Target)), at(1));
    let stats = LatencyStats {
        count: 10,
        min_ns: 1,
        p50_ns: 2,
        p90_ns: 3,
        p99_ns: None,
        p999_ns: None,
        max_ns: 4,
        host_delayed: 0,
    };
    let outcome = Outcome::Latency(stats, CounterDelta { retransmits: None });
    agent.handle(Event::Transport(LeaseId(1), TransportEvent::Finished(outcome.clone())), at(50));
    agent.handle(Event::Disconnected, at(60));
    agent.handle(Event::Connected, at(70));
    drain(&mut agent);
    agent.handle(welcome(8), at(80));
    let actions = drain(&mut agent);
    assert!(actions.contains(&Action::Close(LeaseId(1))), "the old coordinator's lease is void");
    let again = ProbeResult {
        lease: None,
        local: "a/d/1".parse().unwrap(),
        peer: "b/d/1".parse().unwrap(),
        role: Role::Target,
        metric: Some(Metric::Latency),
        measured_at: at(50).wall,
        outcome,
        effects: None,
        evidence: String::new(),
    };
    assert!(actions.contains(&Action::Send(ToCoordinator::Results(vec![again]))));

    agent.handle(Event::Disconnected, at(90));
    agent.handle(Event::Connected, at(91));
    agent.handle(welcome(8), at(92));
    assert_eq!(outcomes(&drain(&mut agent)).len(), 0, "the same coordinator has them already");
}

#[test]
fn a_hello_without_an_answer_ends_the_connection() {
    let mut agent = ready();
    agent.handle(Event::Disconnected, at(1));
    agent.handle(Event::Connected, at(2));
    drain(&mut agent);
    let wakeup = agent.next_wakeup().expect("the answer is waited for");
    agent.handle(Event::Tick, Now { mono: wakeup, wall: Wall(0) });
    assert!(matches!(&drain(&mut agent)[..], [Action::Disconnect(why)] if why.contains("hello")));
    assert_eq!(agent.next_wakeup(), None, "the shell must not be woken again and again");
}

#[test]
fn leases_end_with_the_connection_that_they_came_on() {
    let mut agent = ready();
    agent.handle(lease(7, latency_plan(1, Role::Source)), at(1));
    agent.handle(Event::Disconnected, at(2));
    agent.handle(Event::Connected, at(3));
    drain(&mut agent);
    agent.handle(welcome(7), at(4));
    assert!(drain(&mut agent).contains(&Action::Close(LeaseId(1))));
}

#[test]
fn a_silent_coordinator_is_left_after_three_heartbeats() {
    let mut agent = ready();
    let mut sent = 0;
    loop {
        let wakeup = agent.next_wakeup().expect("a heartbeat is due");
        agent.handle(Event::Tick, Now { mono: wakeup, wall: Wall(0) });
        match &drain(&mut agent)[..] {
            [Action::Send(ToCoordinator::Heartbeat { .. })] => sent += 1,
            [Action::Disconnect(why)] => {
                assert!(why.contains("3 heartbeats"), "{why}");
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sent, 3);
}

#[test]
fn what_is_known_of_its_pairs_lasts_until_it_is_told_anew_or_the_coordinator_is_gone() {
    let brief = |failed| PairsBrief {
        device: "d".to_owned(),
        port: 1,
        metric: Metric::Ping,
        outgoing: false,
        fresh: 9,
        stale: 0,
        failed,
        worst: Some(5_000),
    };
    let mut agent = ready();
    let mut told = |pairs| {
        agent.handle(Event::Frame(ToAgent::HeartbeatReply { pairs, drain: None }), at(1));
        agent.pairs().to_vec()
    };
    assert_eq!(told(vec![brief(0)]), [brief(0)]);
    assert_eq!(told(Vec::new()), [brief(0)], "nothing was counted since");
    assert_eq!(told(vec![brief(1)]), [brief(1)]);
    agent.handle(Event::Disconnected, at(2));
    assert_eq!(agent.pairs().to_vec(), []);
}

#[test]
fn leave_to_drain_is_the_coordinators_and_without_one_there_is_none() {
    let fault = || DrainFault { id: "port-phys-state".to_owned(), subject: "d/1".to_owned() };
    let answer = |leave| DrainAnswer { leave, why: "because".to_owned() };
    let mut agent = ready();
    agent.handle(Event::AskDrain(vec![fault(); 99]), at(1));
    let [Action::Send(ToCoordinator::Heartbeat { drain_for, .. })] = &drain(&mut agent)[..] else {
        panic!("the question, and no answer yet")
    };
    assert_eq!((drain_for[0].clone(), drain_for.len()), (fault(), DRAIN_FAULTS_MAX));
    let reply = |drain| Event::Frame(ToAgent::HeartbeatReply { pairs: Vec::new(), drain });
    agent.handle(reply(None), at(2));
    assert_eq!(drain(&mut agent), [], "an older coordinator does not answer that");
    agent.handle(reply(Some(answer(true))), at(3));
    assert_eq!(drain(&mut agent), [Action::Drain(answer(true))]);
    agent.handle(Event::Disconnected, at(4));
    agent.handle(Event::AskDrain(vec![fault()]), at(5));
    let [Action::Drain(DrainAnswer { leave: false, why })] = &drain(&mut agent)[..] else {
        panic!("no coordinator, no leave")
    };
    assert!(why.contains("no connection"), "{why}");
}

fn happened(count: usize) -> Event {
    let event = NodeEvent {
        number: 0,
        at: Wall(1),
        kind: EventKind::StateChange,
        subject: "d/1".to_owned(),
        id: "state".to_owned(),
        before: "ACTIVE".to_owned(),
        after: "DOWN".to_owned(),
        text: String::new(),
        basis: None,
    };
    Event::Happened(vec![event; count])
}

fn numbers(actions: &[Action]) -> Vec<u64> {
    let events = actions.iter().filter_map(|action| match action {
        Action::Send(ToCoordinator::Events(events)) => Some(events),
        _ => None,
    });
    events.flatten().map(|event| event.number).collect()
}

#[test]
fn events_are_sent_again_until_the_coordinator_has_them_for_good() {
    let mut agent = ready();
    agent.handle(happened(3), at(1));
    assert_eq!(numbers(&drain(&mut agent)), [1, 2, 3], "at once");
    agent.handle(happened(1), at(2));
    assert_eq!(numbers(&drain(&mut agent)), [4], "once on one connection");
    agent.handle(Event::Frame(ToAgent::EventsSeen { number: 2 }), at(3));
    agent.handle(Event::Disconnected, at(4));
    agent.handle(happened(1), at(5));
    assert_eq!(drain(&mut agent), []);
    agent.handle(Event::Connected, at(6));
    drain(&mut agent);
    agent.handle(welcome(7), at(7));
    assert_eq!(numbers(&drain(&mut agent)), [3, 4, 5]);
}

#[test]
fn events_that_find_no_room_are_counted_and_leave_a_gap() {
    let mut agent = ready();
    agent.handle(Event::Disconnected, at(1));
    agent.handle(happened(1_003), at(2));
    assert_eq!(agent.events_dropped(), 3);
    agent.handle(Event::Connected, at(3));
    drain(&mut agent);
    agent.handle(welcome(7), at(4));
    assert_eq!(numbers(&drain(&mut agent)), (4..=1_003).collect::<Vec<_>>());
}

#[test]
fn a_coordinator_of_version_1_gets_no_frame_that_it_cannot_read() {
    let mut agent = ready();
    let fact = Fact { subject: "d/1".to_owned(), key: "rate".to_owned(), value: "1".to_owned() };
    agent.handle(Event::Disconnected, at(1));
    agent.handle(Event::Connected, at(1));
    agent.handle(welcome_of(1, 7), at(1));
    agent.handle(happened(1), at(2));
    agent.handle(Event::Facts(vec![fact.clone()]), at(2));
    let newer = |actions: Vec<Action>| {
        let is_newer = |action: &&Action| {
            matches!(action, Action::Send(ToCoordinator::Events(_) | ToCoordinator::Facts(_)))
        };
        actions.iter().filter(is_newer).count()
    };
    assert_eq!(newer(drain(&mut agent)), 0);
    // The coordinator is updated: now it gets both.
    agent.handle(Event::Disconnected, at(3));
    agent.handle(Event::Connected, at(3));
    agent.handle(welcome_of(2, 7), at(3));
    assert_eq!(newer(drain(&mut agent)), 2);
    agent.handle(Event::Facts(vec![fact]), at(4));
    assert_eq!(newer(drain(&mut agent)), 0, "nothing has changed");
}

#[test]
fn words_that_change_do_not_send_the_inventory_again_at_once() {
    let mut agent = ready();
    let finding = |status, summary: &str| FindingBrief {
        id: "congestion".to_owned(),
        status,
        subject: "netdev eth0".to_owned(),
        summary: summary.to_owned(),
        cause: String::new(),
        next_step: String::new(),
        evidence: Vec::new(),
        settling: false,
        since: Wall(1),
        latched: false,
    };
    let mut sent = |ms, finding: FindingBrief| {
        let inventory = Event::Inventory { endpoints: vec![endpoint(None)], findings: vec![finding] };
        agent.handle(inventory, at(ms));
        drain(&mut agent).into_iter().find_map(|action| match action {
            Action::Send(ToCoordinator::Inventory { findings, .. }) => Some(findings[0].summary.clone()),
            _ => None,
        })
    };
    use rdmascope_model::Status::{Fail, Warn};
    assert_eq!(sent(1_000, finding(Warn, "6 %")).as_deref(), Some("6 %"), "new");
    assert_eq!(sent(11_000, finding(Warn, "7 %")), None);
    assert_eq!(sent(21_000, finding(Warn, "7 %")), None);
    assert_eq!(sent(31_000, finding(Fail, "21 %")).as_deref(), Some("21 %"), "worse: at once");
    assert_eq!(sent(41_000, finding(Fail, "22 %")), None);
    assert_eq!(sent(92_000, finding(Fail, "22 %")).as_deref(), Some("22 %"), "the last words, in the end");
    assert_eq!(sent(200_000, finding(Fail, "22 %")), None);
}

#[test]
fn nothing_is_told_of_a_machine_that_was_not_looked_at() {
    let identity = Identity {
        node: "a".to_owned(),
        instance: 2,
        machine: "m".to_owned(),
        version: "0".to_owned(),
        metrics: None,
    };
    let mut agent = Agent::new(identity);
    agent.handle(Event::Connected, at(0));
    agent.handle(welcome(7), at(0));
    let inventories = |agent: &mut Agent| {
        let is = |a: &Action| matches!(a, Action::Send(ToCoordinator::Inventory { .. }));
        drain(agent).iter().filter(|action| is(action)).count()
    };
    assert_eq!(inventories(&mut agent), 0);
    // A machine without anything is told, once.
    for ms in [1, 2] {
        agent.handle(Event::Inventory { endpoints: vec![], findings: vec![] }, at(ms));
    }
    assert_eq!(inventories(&mut agent), 1);
}
