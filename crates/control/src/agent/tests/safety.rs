//! "Never hurt the job": each test tries to break one rule, as a coordinator that is wrong, gone or out of date would.

use super::*;
use rdmascope_model::{Marks, Operation, Peer};

const HOLDER: &str = "job 4711 of user alice holds d (python3, queue pairs: 16)";

fn here() -> EndpointName {
    endpoint(None).name
}

fn port(idle: Result<(), &str>) -> Event {
    Event::Idle(BTreeMap::from([(here(), idle.map_err(str::to_owned))]))
}

/// An agent whose port is idle.
fn idle() -> Agent {
    let mut agent = ready();
    agent.handle(port(Ok(())), at(0));
    agent
}

fn looked(lease: u64, free: Result<(), &str>) -> Event {
    Event::Looked(LeaseId(lease), free.map_err(str::to_owned))
}

fn told(lease: u64, event: TransportEvent) -> Event {
    Event::Transport(LeaseId(lease), event)
}

fn peer(lease: u64, payload: RelayPayload) -> Event {
    Event::Frame(ToAgent::Relay { lease: LeaseId(lease), payload })
}

/// Everything until the point where this side may start.
fn connect(agent: &mut Agent, plan: ProbePlan) {
    let id = plan.lease.0;
    agent.handle(lease(7, plan), at(10));
    agent.handle(told(id, TransportEvent::Prepared { offer: vec![1] }), at(11));
    agent.handle(peer(id, RelayPayload::Offer(vec![2])), at(12));
    agent.handle(told(id, TransportEvent::Connected), at(13));
    agent.handle(peer(id, RelayPayload::Ready), at(14));
}

fn results(actions: &[Action]) -> Vec<(&Outcome, &str)> {
    let results = actions.iter().filter_map(|action| match action {
        Action::Send(ToCoordinator::Results(results)) => Some(results),
        _ => None,
    });
    results.flatten().map(|result| (&result.outcome, result.evidence.as_str())).collect()
}

fn is_ready(action: &Action) -> bool {
    matches!(action, Action::Send(ToCoordinator::Relay { payload: RelayPayload::Ready, .. }))
}

#[test]
fn a_port_that_is_not_known_to_be_idle_is_refused_and_the_job_is_named() {
    let mut agent = ready();
    agent.handle(lease(7, bandwidth_plan(Urgency::Operator)), at(1));
    assert_eq!(drain(&mut agent), [Action::Look(LeaseId(2), here())], "nothing is set up");
    agent.handle(looked(2, Ok(())), at(2));
    let actions = drain(&mut agent);
    assert_eq!(
        results(&actions),
        [(&Outcome::Excluded(Exclusion::Busy), "the port was not looked at yet")],
        "unknown counts as busy"
    );
    agent.handle(port(Err("it carries 12 % of its rate")), at(3));
    agent.handle(lease(7, bandwidth_plan(Urgency::Operator)), at(3));
    agent.handle(looked(2, Err(HOLDER)), at(4));
    let actions = drain(&mut agent);
    let both = format!("{HOLDER}; it carries 12 % of its rate");
    assert_eq!(results(&actions), [(&Outcome::Excluded(Exclusion::Busy), both.as_str())]);
    assert!(!actions.iter().any(|action| matches!(action, Action::Prepare(..))));
}

#[test]
fn a_stream_starts_only_after_somebody_looked_who_holds_the_device() {
    for role in [Role::Source, Role::Target] {
        let mut agent = idle();
        connect(&mut agent, ProbePlan { role, ..bandwidth_plan(Urgency::Operator) });
        let actions = drain(&mut agent);
        assert!(actions.contains(&Action::Look(LeaseId(2), here())));
        assert!(!actions.contains(&Action::Start(LeaseId(2))), "not before the answer");
        // The source would send as soon as it hears "ready" of the target.
        assert_eq!(actions.iter().any(is_ready), role == Role::Source);
        agent.handle(looked(2, Ok(())), at(20));
        let actions = drain(&mut agent);
        assert_eq!(actions.first(), Some(&Action::Start(LeaseId(2))));
        assert_eq!(actions.iter().any(is_ready), role == Role::Target);
        agent.handle(looked(2, Err(HOLDER)), at(21));
        assert_eq!(drain(&mut agent), [], "one look, one answer");
    }
}

#[test]
fn a_job_that_begins_between_lease_and_first_byte_stops_the_probe() {
    for role in [Role::Source, Role::Target] {
        let mut agent = idle();
        connect(&mut agent, ProbePlan { role, ..bandwidth_plan(Urgency::Operator) });
        drain(&mut agent);
        agent.handle(looked(2, Err(HOLDER)), at(20));
        let actions = drain(&mut agent);
        assert_eq!(results(&actions), [(&Outcome::Excluded(Exclusion::Busy), HOLDER)]);
        assert!(actions.contains(&Action::Close(LeaseId(2))) && !actions.iter().any(is_ready));
        assert_eq!(agent.probes(), 0);
    }
    // Nobody holds the device, and meanwhile its port is not idle any more.
    let mut agent = idle();
    connect(&mut agent, bandwidth_plan(Urgency::Operator));
    agent.handle(port(Err("it carries 12 % of its rate")), at(15));
    drain(&mut agent);
    agent.handle(looked(2, Ok(())), at(20));
    let actions = drain(&mut agent);
    assert_eq!(results(&actions)[0].1, "it carries 12 % of its rate");
    assert!(!actions.contains(&Action::Start(LeaseId(2))));
}

#[test]
fn a_look_that_nobody_answers_never_starts_the_stream() {
    let mut agent = idle();
    connect(&mut agent, bandwidth_plan(Urgency::Operator));
    let mut actions = drain(&mut agent);
    while agent.probes() > 0 {
        let mono = agent.next_wakeup().expect("the lease runs out");
        agent.handle(Event::Tick, Now { mono, wall: Wall(0) });
        actions.extend(drain(&mut agent));
    }
    assert!(actions.contains(&Action::Close(LeaseId(2))) && !actions.contains(&Action::Start(LeaseId(2))));
    agent.handle(looked(2, Ok(())), at(9_000));
    assert!(!drain(&mut agent).contains(&Action::Start(LeaseId(2))), "it comes too late");
}

#[test]
fn what_runs_on_drained_nodes_or_does_not_fill_the_port_asks_nobody() {
    let mut agent = ready();
    connect(&mut agent, bandwidth_plan(Urgency::Drained));
    let actions = drain(&mut agent);
    assert!(actions.contains(&Action::Start(LeaseId(2))));
    connect(&mut agent, latency_plan(3, Role::Source));
    let actions = drain(&mut agent);
    assert!(actions.contains(&Action::Start(LeaseId(3))));
    assert!(!actions.iter().any(|action| matches!(action, Action::Look(..))));
}

#[test]
fn force_lifts_the_idle_gate_and_nothing_else() {
    let mut agent = ready();
    agent.handle(port(Err("it carries 90 % of its rate")), at(1));
    connect(&mut agent, bandwidth_plan(Urgency::Forced));
    let actions = drain(&mut agent);
    assert!(actions.contains(&Action::Start(LeaseId(2))), "a job is there, and the operator knows it");
    agent.handle(Event::Frame(ToAgent::LeaseEnd { lease: LeaseId(2) }), at(20));

    let mut long = bandwidth_plan(Urgency::Forced);
    long.expires_in = Duration::from_secs(31);
    agent.handle(lease(7, long), at(10_000));
    let mut large = bandwidth_plan(Urgency::Forced);
    large.spec = stream(rdmascope_probe::limits::live_bytes_max(RATE) + 1);
    agent.handle(lease(7, large), at(10_000));
    let actions = drain(&mut agent);
    assert!(
        outcomes(&actions)
            .iter()
            .all(|outcome| matches!(outcome, Outcome::Failed(Failure { cause: Cause::LeaseRejected, .. })))
    );
    assert_eq!(outcomes(&actions).len(), 2, "the floors hold");

    agent.handle(Event::LocalPause(PauseFlags { all: false, bandwidth: true }), at(10_001));
    drain(&mut agent);
    agent.handle(lease(7, bandwidth_plan(Urgency::Forced)), at(20_000));
    assert_eq!(outcomes(&drain(&mut agent)), [&Outcome::Excluded(Exclusion::Policy)], "the pause holds");
}

fn stream(bytes_max: u64) -> ProbeSpec {
    let ProbeSpec::Bandwidth(spec) = bandwidth_plan(Urgency::Operator).spec else { panic!("no stream") };
    ProbeSpec::Bandwidth(rdmascope_model::BandwidthSpec { bytes_max, ..spec })
}

#[test]
fn streams_beside_a_job_get_a_small_share_of_the_ports_rate_whoever_asks() {
    let full = rdmascope_probe::limits::live_bytes_max(RATE);
    assert_eq!(full, RATE / 8 / 4, "a quarter of a second");
    let mut agent = idle();
    let mut asked = |id: u64, role: Role, urgency: Urgency, ms: u64| {
        let plan = ProbePlan { lease: LeaseId(id), role, spec: stream(full), ..bandwidth_plan(urgency) };
        agent.handle(lease(7, plan), at(ms));
        agent.handle(Event::Frame(ToAgent::LeaseEnd { lease: LeaseId(id) }), at(ms));
        let actions = drain(&mut agent);
        let told = results(&actions).first().map(|(outcome, why)| ((*outcome).clone(), (*why).to_owned()));
        told.map(|(outcome, why)| {
            assert_eq!(outcome, Outcome::Excluded(Exclusion::Policy), "it says nothing about the pair");
            why
        })
    };
    assert_eq!(asked(1, Role::Source, Urgency::Operator, 0), None);
    let why = asked(2, Role::Source, Urgency::Operator, 1_000).expect("10 % of the rate is used up");
    assert!(why.contains("10 %") && why.ends_with("again in 2 s"), "{why}");
    assert!(asked(3, Role::Source, Urgency::Forced, 2_400).is_some(), "force does not lift it");
    assert_eq!(asked(4, Role::Source, Urgency::Forced, 2_500), None);
    assert_eq!(asked(5, Role::Source, Urgency::Drained, 2_500), None, "nobody is there whom it could hurt");
    // The target of an incast takes eight at once, and then rests as long as all of them need.
    for id in 10..18 {
        assert_eq!(asked(id, Role::Target, Urgency::Operator, 3_000), None);
    }
    assert!(asked(18, Role::Target, Urgency::Operator, 5_400).is_some());
    assert_eq!(asked(19, Role::Target, Urgency::Operator, 5_500), None);
}

#[test]
fn without_a_known_rate_there_is_no_share_of_it() {
    let mut agent = idle();
    let unknown = EndpointInfo { rate_bps: None, ..endpoint(None) };
    agent.handle(Event::Inventory { endpoints: vec![unknown], findings: Vec::new() }, at(1));
    agent.handle(lease(7, bandwidth_plan(Urgency::Forced)), at(2));
    let actions = drain(&mut agent);
    assert_eq!(results(&actions), [(&Outcome::Excluded(Exclusion::Busy), "the port's rate is not known")]);
}

#[test]
fn a_stream_leaves_class_0_only_where_an_operator_named_the_pair_or_nobody_works() {
    let marks =
        [Marks { traffic_class: 104, ..Marks::default() }, Marks { service_level: 3, ..Marks::default() }];
    for marks in marks {
        let marked = |urgency| {
            let manner = Manner { marks, ..Manner::default() };
            let mut agent = idle();
            agent.handle(lease(7, ProbePlan { manner, ..bandwidth_plan(urgency) }), at(1));
            drain(&mut agent)
        };
        let actions = marked(Urgency::Operator);
        let refused = results(&actions);
        assert!(
            matches!(refused[..], [(Outcome::Excluded(Exclusion::Policy), why)] if why.contains("--force"))
        );
        for urgency in [Urgency::Forced, Urgency::Drained] {
            assert!(matches!(marked(urgency)[..], [Action::Prepare(..)]), "{urgency:?}");
        }
    }
    // A path label moves a stream to another path, not to another class; a few round trips hurt nobody in any class.
    let mut agent = idle();
    let label = Manner { marks: Marks { flow_label: 9, ..Marks::default() }, ..Manner::default() };
    agent.handle(lease(7, ProbePlan { manner: label, ..bandwidth_plan(Urgency::Operator) }), at(1));
    let class = Manner { marks: marks[0], ..Manner::default() };
    agent.handle(lease(7, ProbePlan { manner: class, ..latency_plan(3, Role::Source) }), at(1));
    assert!(matches!(drain(&mut agent)[..], [Action::Prepare(..), Action::Prepare(..)]));
}

/// A book with the peer, and a grant for it.
fn granted(agent: &mut Agent, epoch: u64, seconds: u64, now: Now) {
    let peers = [Peer { name: latency_plan(1, Role::Source).peer, address: None, rail: 0 }].into();
    let (numbers, removed) = ([].into(), Vec::new());
    let book = ToAgent::Book { generation: 1, base: 0, total: 1, peers, numbers, removed };
    agent.handle(Event::Frame(book), now);
    let grant = ToAgent::Grant {
        epoch,
        generation: 1,
        expires_in: Duration::from_secs(seconds),
        pings_per_second: 10,
        pings_per_batch: 30,
        labels: 4,
        cross_rail_every: 1,
        sweep: None,
    };
    agent.handle(Event::Frame(grant), now);
    drain(agent);
}

fn background(lease: u64) -> ProbePlan {
    ProbePlan { urgency: Urgency::Background, ..latency_plan(lease, Role::Source) }
}

#[test]
fn what_runs_by_itself_is_latency_in_the_ordinary_manner_under_a_grant() {
    let mut agent = idle();
    granted(&mut agent, 7, 60, at(1));
    let read = Manner { operation: Operation::Read, ..Manner::default() };
    for plan in [
        ProbePlan { manner: read, ..background(1) },
        bandwidth_plan(Urgency::Background),
        ProbePlan {
            spec: ProbeSpec::Echo(rdmascope_model::EchoSpec {
                count: 1,
                payload_bytes: 64,
                interval: Duration::from_millis(1),
            }),
            ..background(3)
        },
    ] {
        agent.handle(lease(7, plan), at(2));
        refused_with(&drain(&mut agent), Cause::LeaseRejected);
    }
    agent.handle(lease(7, background(4)), at(2));
    assert!(matches!(drain(&mut agent)[..], [Action::Prepare(..)]));
}

#[test]
fn a_grant_ends_by_itself_and_one_of_an_older_epoch_is_none() {
    let mut agent = ready();
    granted(&mut agent, 7, 60, at(0));
    agent.handle(Event::Disconnected, at(1));
    agent.handle(Event::Connected, at(60_000));
    agent.handle(welcome(7), at(60_000));
    drain(&mut agent);
    agent.handle(lease(7, background(1)), at(60_000));
    refused_with(&drain(&mut agent), Cause::LeaseRejected);
    // The next coordinator's epoch voids what the last one granted, and nothing that still comes of it is obeyed.
    granted(&mut agent, 7, 3_600, at(60_001));
    agent.handle(Event::Disconnected, at(60_002));
    agent.handle(Event::Connected, at(60_003));
    agent.handle(welcome(8), at(60_004));
    drain(&mut agent);
    agent.handle(lease(8, background(2)), at(60_005));
    refused_with(&drain(&mut agent), Cause::LeaseRejected);
    granted(&mut agent, 7, 3_600, at(60_006));
    agent.handle(lease(8, background(3)), at(60_007));
    refused_with(&drain(&mut agent), Cause::LeaseRejected);
    for urgency in [Urgency::Forced, Urgency::Drained] {
        agent.handle(lease(7, bandwidth_plan(urgency)), at(60_008));
        assert_eq!(drain(&mut agent), [], "an order of the old epoch");
    }
    granted(&mut agent, 8, 60, at(60_009));
    agent.handle(lease(8, background(4)), at(60_010));
    assert!(matches!(drain(&mut agent)[..], [Action::Prepare(..)]));
}

#[test]
fn a_coordinator_of_an_older_epoch_that_comes_back_is_left_and_its_streams_end() {
    let mut agent = ready();
    connect(&mut agent, bandwidth_plan(Urgency::Drained));
    drain(&mut agent);
    agent.handle(Event::Disconnected, at(20));
    agent.handle(Event::Connected, at(21));
    agent.handle(welcome(8), at(22));
    assert!(drain(&mut agent).contains(&Action::Close(LeaseId(2))), "a stream of the old epoch");
    agent.handle(Event::Disconnected, at(23));
    agent.handle(Event::Connected, at(24));
    drain(&mut agent);
    agent.handle(welcome(7), at(25));
    assert!(
        matches!(&drain(&mut agent)[..], [Action::Disconnect(why)] if why.contains("second coordinator"))
    );
    agent.handle(lease(7, bandwidth_plan(Urgency::Drained)), at(26));
    assert_eq!(drain(&mut agent), []);
}

#[test]
fn a_running_stream_stops_with_the_event_that_tells_of_the_pause() {
    let flags = |all, bandwidth| PauseFlags { all, bandwidth };
    for pause in [
        Event::LocalPause(flags(false, true)),
        Event::LocalPause(flags(true, false)),
        Event::Frame(ToAgent::Pause(flags(false, true))),
        Event::Frame(ToAgent::Pause(flags(true, false))),
    ] {
        let mut agent = ready();
        connect(&mut agent, bandwidth_plan(Urgency::Forced));
        assert!(drain(&mut agent).contains(&Action::Start(LeaseId(2))), "it runs");
        agent.handle(pause, at(20));
        let actions = drain(&mut agent);
        assert!(actions.contains(&Action::Close(LeaseId(2))), "without any tick");
        assert_eq!(outcomes(&actions), [&Outcome::Excluded(Exclusion::Policy)]);
        assert!(agent.paused() != PauseFlags::default());
        assert_eq!(agent.probes(), 0);
    }
    // What waits for a look is stopped too, and a late answer does not start it.
    let mut agent = idle();
    connect(&mut agent, bandwidth_plan(Urgency::Operator));
    agent.handle(Event::LocalPause(flags(false, true)), at(20));
    agent.handle(looked(2, Ok(())), at(21));
    assert!(!drain(&mut agent).contains(&Action::Start(LeaseId(2))));
    // One word does not end the other's pause.
    agent.handle(Event::Frame(ToAgent::Pause(flags(true, false))), at(22));
    agent.handle(Event::LocalPause(flags(false, false)), at(23));
    assert_eq!(agent.paused(), flags(true, false));
}

#[test]
fn a_pause_of_all_refuses_what_a_grant_allows() {
    let mut agent = ready();
    granted(&mut agent, 7, 60, at(1));
    agent.handle(Event::LocalPause(PauseFlags { all: true, bandwidth: false }), at(2));
    drain(&mut agent);
    agent.handle(lease(7, background(1)), at(3));
    assert_eq!(outcomes(&drain(&mut agent)), [&Outcome::Excluded(Exclusion::Policy)]);
    agent.handle(Event::LocalPause(PauseFlags::default()), at(4));
    drain(&mut agent);
    agent.handle(lease(7, background(2)), at(5));
    assert!(matches!(drain(&mut agent)[..], [Action::Prepare(..)]));
}

#[test]
fn what_speaks_of_a_lease_that_was_never_given_starts_nothing() {
    let mut agent = idle();
    drain(&mut agent);
    for payload in [RelayPayload::Offer(vec![2]), RelayPayload::Ready] {
        agent.handle(peer(99, payload), at(1));
    }
    agent.handle(Event::Frame(ToAgent::LeaseEnd { lease: LeaseId(99) }), at(2));
    assert_eq!((drain(&mut agent).as_slice(), agent.probes()), (&[][..], 0));
}
