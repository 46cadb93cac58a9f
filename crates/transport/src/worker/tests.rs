//! The thread's rules, shown with a probe that does what the test says.

use super::*;
use crate::PortReading;
use rdmascope_model::{BandwidthSpec, Fabric, LatencySpec, Manner, ProbeSpec, Role, Urgency};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread::{current, park_timeout};

const NOW: Mono = Mono(0);
const LONG: Duration = Duration::from_secs(20);
const LATENCY: ProbeSpec = ProbeSpec::Latency(LatencySpec { samples: 1, warmup: 0, message_bytes: 1 });

/// What a stream of a test has measured when it is given up.
const SO_FAR: Option<BandwidthStats> = Some(BandwidthStats {
    bytes: 5,
    duration_ns: 4,
    average_bps: 3,
    worst_window_bps: None,
    completions: 2,
    variation_permille: None,
});

/// What the probes of a test do, and what was seen of them.
#[derive(Default)]
struct Script {
    /// `prepare` does not come back before this is opened.
    held: Mutex<bool>,
    opened: Condvar,
    preparing: AtomicUsize,
    /// Lease number of the one that measures.
    measuring: AtomicUsize,
    alive: AtomicUsize,
    runs: Mutex<BTreeMap<u64, usize>>,
    devices: AtomicUsize,
}

impl Script {
    fn hold(&self, held: bool) {
        *self.held.lock().unwrap() = held;
        self.opened.notify_all();
    }
}

struct Fake(Arc<Script>, LeaseId);

impl Probe for Fake {
    type Device = Arc<Script>;

    fn prepare(
        script: &mut Arc<Script>,
        plan: &ProbePlan,
        _: &EndpointInfo,
        _: &Watch,
    ) -> Result<(Self, Vec<u8>), Failure> {
        script.preparing.fetch_add(1, Ordering::SeqCst);
        drop(script.opened.wait_while(script.held.lock().unwrap(), |held| *held).unwrap());
        script.alive.fetch_add(1, Ordering::SeqCst);
        Ok((Self(Arc::clone(script), plan.lease), vec![1]))
    }

    fn connect(&mut self, _: &[u8], _: &Watch) -> Result<bool, Failure> {
        Ok(true)
    }

    fn run(&mut self, _: &Watch) -> Progress {
        *self.0.runs.lock().unwrap().entry(self.1.0).or_default() += 1;
        if self.0.measuring.load(Ordering::SeqCst) as u64 == self.1.0 {
            Progress::Measuring
        } else {
            Progress::Waiting
        }
    }

    fn so_far(&self) -> Option<BandwidthStats> {
        SO_FAR
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

fn workers(script: &Arc<Script>) -> Workers<Fake> {
    let thread = current();
    let script = Arc::clone(script);
    let port: PortReader = Arc::new(|_| PortReading::default());
    Workers::with_device(Arc::new(move || thread.unpark()), port, move || {
        script.devices.fetch_add(1, Ordering::SeqCst);
        Arc::clone(&script)
    })
}

fn prepare(workers: &mut Workers<Fake>, lease: u64, role: Role, spec: ProbeSpec, expires_in: Duration) {
    let name: EndpointName = "a/d/1".parse().unwrap();
    let endpoint = EndpointInfo::bare(name.clone(), Fabric::Simulated);
    let (lease, peer) = (LeaseId(lease), "b/d/1".parse().unwrap());
    let plan = ProbePlan {
        lease,
        role,
        local: name,
        peer,
        spec,
        manner: Manner::default(),
        urgency: Urgency::Operator,
        expires_in,
    };
    workers.prepare(&plan, &endpoint, NOW);
}

fn until(mut there: impl FnMut() -> bool) {
    let limit = Instant::now() + LONG;
    while !there() {
        assert!(Instant::now() < limit, "it did not come to that");
        park_timeout(Duration::from_millis(1));
    }
}

fn next(workers: &mut Workers<Fake>) -> (LeaseId, TransportEvent) {
    let mut event = None;
    until(|| {
        event = workers.poll(NOW);
        event.is_some()
    });
    event.unwrap()
}

fn start(workers: &mut Workers<Fake>, lease: u64) {
    assert!(matches!(next(workers), (_, TransportEvent::Prepared { .. })));
    workers.connect(LeaseId(lease), &[1], NOW);
    assert_eq!(next(workers), (LeaseId(lease), TransportEvent::Connected));
    workers.start(LeaseId(lease), NOW);
}

fn failure(event: (LeaseId, TransportEvent), lease: u64) -> Failure {
    match event {
        (of, TransportEvent::Finished(Outcome::Failed(failure))) if of == LeaseId(lease) => failure,
        other => panic!("no failure of {lease}: {other:?}"),
    }
}

#[test]
fn a_thread_that_hangs_refuses_new_probes_and_gets_no_second_one_beside_it() {
    let script = Arc::new(Script::default());
    let mut workers = workers(&script);
    workers.stuck_after = Duration::ZERO;
    script.hold(true);
    prepare(&mut workers, 1, Role::Source, LATENCY, LONG);
    until(|| script.preparing.load(Ordering::SeqCst) == 1);
    prepare(&mut workers, 2, Role::Source, LATENCY, LONG);
    let refused = failure(next(&mut workers), 2);
    assert_eq!((refused.cause, refused.step), (Cause::NoResources, Step::Open));
    assert!(refused.evidence.starts_with("device is stuck since"), "{refused}");
    script.hold(false);
    assert!(matches!(next(&mut workers), (LeaseId(1), TransportEvent::Prepared { .. })));
    workers.stuck_after = LONG;
    prepare(&mut workers, 3, Role::Source, LATENCY, LONG);
    assert!(matches!(next(&mut workers), (LeaseId(3), TransportEvent::Prepared { .. })));
    assert_eq!(script.devices.load(Ordering::SeqCst), 1, "one thread in all");
}

#[test]
fn the_program_can_end_while_a_thread_hangs() {
    let script = Arc::new(Script::default());
    let mut workers = workers(&script);
    script.hold(true);
    prepare(&mut workers, 1, Role::Source, LATENCY, LONG);
    until(|| script.preparing.load(Ordering::SeqCst) == 1);
    drop(workers);
    assert_eq!(script.alive.load(Ordering::SeqCst), 0);
    // The thread that was left behind frees what it got as soon as the kernel lets it go.
    script.hold(false);
    until(|| Arc::strong_count(&script) == 1);
    assert_eq!(script.alive.load(Ordering::SeqCst), 0);
}

#[test]
fn only_one_probe_measures_while_others_are_prepared_and_closed() {
    let script = Arc::new(Script::default());
    let mut workers = workers(&script);
    let runs = |lease| script.runs.lock().unwrap().get(&lease).copied().unwrap_or(0);
    prepare(&mut workers, 1, Role::Source, LATENCY, LONG);
    start(&mut workers, 1);
    until(|| runs(1) > 0);
    script.measuring.store(2, Ordering::SeqCst);
    prepare(&mut workers, 2, Role::Source, LATENCY, LONG);
    start(&mut workers, 2);
    until(|| runs(2) > 0);
    let waiting_before = runs(1);
    prepare(&mut workers, 3, Role::Source, LATENCY, LONG);
    assert!(matches!(next(&mut workers), (LeaseId(3), TransportEvent::Prepared { .. })));
    workers.close(LeaseId(3), NOW);
    until(|| script.alive.load(Ordering::SeqCst) == 2);
    let seen = runs(2);
    until(|| runs(2) > seen + 10);
    assert_eq!(runs(1), waiting_before, "its turn comes when the window is over");
    script.measuring.store(0, Ordering::SeqCst);
    until(|| runs(1) > waiting_before);
}

#[test]
fn a_lease_that_runs_out_is_told_and_freed_though_nobody_closes_it() {
    let script = Arc::new(Script::default());
    let mut workers = workers(&script);
    let short = Duration::from_millis(200);
    prepare(&mut workers, 1, Role::Source, LATENCY, short);
    assert!(matches!(next(&mut workers), (_, TransportEvent::Prepared { .. })));
    assert_eq!(failure(next(&mut workers), 1).cause, Cause::PeerSilent);
    prepare(&mut workers, 2, Role::Target, LATENCY, short);
    start(&mut workers, 2);
    assert_eq!(failure(next(&mut workers), 2).cause, Cause::NoFirstByte);
    script.measuring.store(3, Ordering::SeqCst);
    prepare(&mut workers, 3, Role::Source, LATENCY, short);
    start(&mut workers, 3);
    assert_eq!(failure(next(&mut workers), 3).cause, Cause::Stalled);
    until(|| script.alive.load(Ordering::SeqCst) == 0);
}

#[test]
fn the_target_of_a_bandwidth_probe_ends_without_a_word() {
    let script = Arc::new(Script::default());
    let mut workers = workers(&script);
    let spec = ProbeSpec::Bandwidth(BandwidthSpec {
        message_bytes: 1,
        depth: 1,
        warmup: Duration::ZERO,
        duration: Duration::from_millis(1),
        completions_min: 1,
        bytes_max: 1,
    });
    prepare(&mut workers, 1, Role::Target, spec, Duration::from_millis(200));
    start(&mut workers, 1);
    until(|| script.alive.load(Ordering::SeqCst) == 0);
    assert_eq!(workers.poll(NOW), None);
}

#[test]
fn the_statistics_of_the_network_device_are_read_for_all_but_background_pings() {
    let script = Arc::new(Script::default());
    let mut workers = workers(&script);
    let seen: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let note = Arc::clone(&seen);
    workers.port = Arc::new(move |endpoint| {
        note.lock().unwrap().push(endpoint.netdev.clone());
        PortReading::default()
    });
    for (lease, urgency) in [(1, Urgency::Background), (2, Urgency::Operator)] {
        let name: EndpointName = "a/d/1".parse().unwrap();
        let netdev = Some("eth0".to_owned());
        let endpoint = EndpointInfo { netdev, ..EndpointInfo::bare(name.clone(), Fabric::Simulated) };
        let plan = ProbePlan {
            lease: LeaseId(lease),
            role: Role::Source,
            local: name,
            peer: "b/d/1".parse().unwrap(),
            spec: LATENCY,
            manner: Manner::default(),
            urgency,
            expires_in: LONG,
        };
        workers.prepare(&plan, &endpoint, NOW);
        start(&mut workers, lease);
    }
    until(|| seen.lock().unwrap().len() == 2);
    assert_eq!(*seen.lock().unwrap(), [None, Some("eth0".to_owned())]);
}

#[test]
fn a_stream_whose_port_is_paused_for_half_of_the_time_is_given_up_with_what_it_has() {
    let script = Arc::new(Script::default());
    script.measuring.store(1, Ordering::SeqCst);
    let mut workers = workers(&script);
    let began = Instant::now();
    workers.port = Arc::new(move |_| {
        let paused = u64::try_from(began.elapsed().as_nanos() / 2).unwrap();
        let pause_received_ns = Some(rdmascope_model::PerPriority([0, 0, 0, paused, 0, 0, 0, 0]));
        rdmascope_model::Effects { pause_received_ns, ..rdmascope_model::Effects::default() }.into()
    });
    let spec = ProbeSpec::Bandwidth(BandwidthSpec {
        message_bytes: 1,
        depth: 1,
        warmup: Duration::ZERO,
        duration: Duration::from_secs(5),
        completions_min: 1,
        bytes_max: 1,
    });
    prepare(&mut workers, 1, Role::Source, spec, LONG);
    start(&mut workers, 1);
    let TransportEvent::Effects(effects) = next(&mut workers).1 else { panic!("no effects first") };
    assert!(effects.pause_received_ns.is_some_and(|paused| paused.sum() > 0), "{effects:?}");
    let (_, end) = next(&mut workers);
    let TransportEvent::Finished(Outcome::Aborted(stats, _, why)) = end else {
        panic!("not given up: {end:?}")
    };
    assert_eq!((stats, why), (SO_FAR, rdmascope_model::Congestion::Pauses));
}

#[test]
fn an_endpoint_holds_no_more_leases_than_the_limit() {
    let script = Arc::new(Script::default());
    let mut workers = workers(&script);
    for lease in 1..=LEASES_PER_ENDPOINT_MAX as u64 {
        prepare(&mut workers, lease, Role::Source, LATENCY, LONG);
        assert!(matches!(next(&mut workers), (_, TransportEvent::Prepared { .. })));
    }
    let another = LEASES_PER_ENDPOINT_MAX as u64 + 1;
    prepare(&mut workers, another, Role::Source, LATENCY, LONG);
    assert_eq!(failure(next(&mut workers), another).cause, Cause::LeaseRejected);
    workers.close(LeaseId(1), NOW);
    workers.close(LeaseId(another), NOW);
    prepare(&mut workers, another, Role::Source, LATENCY, LONG);
    let (lease, event) = next(&mut workers);
    assert_eq!(lease, LeaseId(another));
    assert!(matches!(event, TransportEvent::Prepared { .. }));
}
