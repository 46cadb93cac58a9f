//! Two transports with their sessions, and the relay between them that a case can tamper with.

use super::{Drive, Subject};
use crate::Transport;
use rdmascope_model::{EndpointInfo, LeaseId, Manner, Mono, Outcome, ProbePlan, ProbeSpec, Role, Urgency};
use rdmascope_probe::{Input, Output, Session, TransportEvent};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Waits look at their condition at least so often.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Within this nothing may be told of a closed lease, and everything must be free.
const CLOSE_WITHIN: Duration = Duration::from_millis(100);
/// Set-up between two sides that are both there takes less, also on a slow emulated machine.
const SET_UP_WITHIN: Duration = Duration::from_secs(5);

/// One lease on one side.
pub(super) struct Probe {
    session: Session,
    /// All that the transport told of it.
    pub(super) heard: Vec<TransportEvent>,
    /// What its session reported.
    pub(super) report: Option<Outcome>,
}

struct End {
    role: Role,
    transport: Box<dyn Transport>,
    endpoint: EndpointInfo,
    probes: BTreeMap<LeaseId, Probe>,
    inbox: VecDeque<(LeaseId, Input)>,
}

/// Sees each output of a session before it is done; `None` keeps it from being done.
pub(super) type Tamper = Box<dyn FnMut(Role, Output) -> Option<Output>>;

pub(super) struct Bench<'a> {
    case: &'static str,
    /// How this case probes.
    pub(super) manner: Manner,
    drive: &'a mut dyn Drive,
    held: Option<&'a dyn Fn() -> usize>,
    held_at_first: usize,
    ends: [End; 2],
    tamper: Tamper,
    leases: u64,
}

impl<'a> Bench<'a> {
    pub(super) fn new(subject: Subject<'a>) -> Self {
        let held_at_first = subject.held.map_or(0, |held| held());
        let ends = [Role::Source, Role::Target].map(|role| {
            let (transport, endpoint) = (subject.make)(role);
            End { role, transport, endpoint, probes: BTreeMap::new(), inbox: VecDeque::new() }
        });
        let tamper: Tamper = Box::new(|_, output| Some(output));
        let (manner, drive, held) = (Manner::default(), subject.drive, subject.held);
        Self { case: "", manner, drive, held, held_at_first, ends, tamper, leases: 0 }
    }

    pub(super) fn begin(&mut self, case: &'static str, manner: Manner) {
        (self.case, self.manner) = (case, manner);
        self.tamper = Box::new(|_, output| Some(output));
    }

    /// Closes what the case left open; then nothing may be told, and nothing may be held.
    pub(super) fn end(&mut self) {
        for role in [Role::Source, Role::Target] {
            let open: Vec<LeaseId> = self.end_of(role).probes.keys().copied().collect();
            open.into_iter().for_each(|lease| self.close(role, lease));
        }
        // `pump` itself fails on an event of a lease that is closed.
        self.wait(CLOSE_WITHIN, |_| false);
        self.expect_free();
    }

    /// Everything that leases held is freed.
    pub(super) fn expect_free(&mut self) {
        let Some(held) = self.held else { return };
        let first = self.held_at_first;
        let free = self.wait(CLOSE_WITHIN + self.drive.slack(), |_| held() <= first);
        assert!(
            free,
            "{}: {} resources are held after close, {first} before the first lease",
            self.case,
            held()
        );
    }

    pub(super) fn tamper(&mut self, tamper: impl FnMut(Role, Output) -> Option<Output> + 'static) {
        self.tamper = Box::new(tamper);
    }

    pub(super) fn next_lease(&mut self) -> LeaseId {
        self.leases += 1;
        LeaseId(self.leases)
    }

    /// Prepares both sides of a new lease.
    pub(super) fn open(&mut self, spec: ProbeSpec, expires_in: Duration) -> LeaseId {
        let lease = self.next_lease();
        self.open_side(Role::Target, lease, spec, expires_in);
        self.open_side(Role::Source, lease, spec, expires_in);
        lease
    }

    /// Prepares one side.
    pub(super) fn open_side(&mut self, role: Role, lease: LeaseId, spec: ProbeSpec, expires_in: Duration) {
        let now = self.drive.now();
        let [source, target] = &self.ends;
        let (local, peer) = match role {
            Role::Source => (source.endpoint.name.clone(), target.endpoint.name.clone()),
            Role::Target => (target.endpoint.name.clone(), source.endpoint.name.clone()),
        };
        let plan = ProbePlan {
            lease,
            role,
            local,
            peer,
            spec,
            manner: self.manner,
            urgency: Urgency::Operator,
            expires_in,
        };
        let end = self.end_of(role);
        end.transport.prepare(&plan, &end.endpoint.clone(), now);
        end.probes.entry(lease).or_insert_with(|| Probe {
            session: Session::new(plan),
            heard: Vec::new(),
            report: None,
        });
    }

    pub(super) fn close(&mut self, role: Role, lease: LeaseId) {
        let now = self.drive.now();
        let end = self.end_of(role);
        end.probes.remove(&lease);
        end.transport.close(lease, now);
    }

    /// The transport of one side itself, and the time to give it.
    pub(super) fn transport(&mut self, role: Role) -> (&mut dyn Transport, Mono) {
        let now = self.drive.now();
        (&mut *self.end_of(role).transport, now)
    }

    pub(super) fn probe(&self, role: Role, lease: LeaseId) -> &Probe {
        let end = &self.ends[usize::from(role == Role::Target)];
        match end.probes.get(&lease) {
            Some(probe) => probe,
            None => panic!("{}: no {lease} on the {role:?}", self.case),
        }
    }

    /// Hands an input to one side's session and does what it says.
    pub(super) fn feed(&mut self, role: Role, lease: LeaseId, input: Input) {
        let end = self.end_of(role);
        let Some(probe) = end.probes.get_mut(&lease) else { return };
        for output in probe.session.handle(input) {
            if let Some(output) = (self.tamper)(role, output) {
                self.obey(role, lease, output);
            }
        }
    }

    /// Pumps until `there` says so; `false` when that took longer than `limit`.
    pub(super) fn wait(&mut self, limit: Duration, mut there: impl FnMut(&Self) -> bool) -> bool {
        let until = self.drive.now().after(limit);
        loop {
            let moved = self.pump();
            if there(self) {
                return true;
            }
            let now = self.drive.now();
            if now >= until {
                return false;
            }
            if !moved {
                self.drive.idle(until.since(now).min(LOOK_EVERY));
            }
        }
    }

    /// Waits for what one side reports.
    pub(super) fn report(&mut self, role: Role, lease: LeaseId, within: Duration) -> Outcome {
        self.wait(within + self.drive.slack(), |bench| bench.probe(role, lease).report.is_some());
        let probe = self.probe(role, lease);
        match &probe.report {
            Some(outcome) => outcome.clone(),
            None => {
                panic!(
                    "{}: the {role:?} reported nothing within {within:?}; heard {:?}",
                    self.case, probe.heard
                )
            }
        }
    }

    /// Waits until the source was told to measure and went on for `further`.
    pub(super) fn wait_measuring(&mut self, lease: LeaseId, further: Duration) {
        let started = self.wait(SET_UP_WITHIN, |bench| bench.probe(Role::Source, lease).session.started());
        assert!(started, "{}: the source did not start", self.case);
        self.wait(further, |_| false);
    }

    fn end_of(&mut self, role: Role) -> &mut End {
        &mut self.ends[usize::from(role == Role::Target)]
    }

    /// Moves what there is to move; `false` when nothing was.
    fn pump(&mut self) -> bool {
        let mut moved = false;
        for role in [Role::Source, Role::Target] {
            let now = self.drive.now();
            while let Some((lease, event)) = self.end_of(role).transport.poll(now) {
                moved = true;
                let Some(probe) = self.end_of(role).probes.get_mut(&lease) else {
                    panic!("{}: the {role:?} told {event:?} of {lease}, which is closed", self.case);
                };
                probe.heard.push(event.clone());
                self.feed(role, lease, Input::Transport(event));
            }
            while let Some((lease, input)) = self.end_of(role).inbox.pop_front() {
                moved = true;
                self.feed(role, lease, input);
            }
        }
        moved
    }

    fn obey(&mut self, role: Role, lease: LeaseId, output: Output) {
        let now = self.drive.now();
        let [source, target] = &mut self.ends;
        let (own, peer) = if role == Role::Source { (source, target) } else { (target, source) };
        debug_assert_eq!(own.role, role);
        match output {
            Output::SendOffer(offer) => {
                assert!(offer.len() <= 256, "{}: an offer of {} bytes", self.case, offer.len());
                peer.inbox.push_back((lease, Input::PeerOffer(offer)));
            }
            Output::SendReady => peer.inbox.push_back((lease, Input::PeerReady)),
            Output::Connect(offer) => own.transport.connect(lease, &offer, now),
            Output::Start => own.transport.start(lease, now),
            Output::Report(outcome) => {
                if let Some(probe) = own.probes.get_mut(&lease) {
                    probe.report = Some(outcome);
                }
            }
        }
    }
}

impl Drop for Bench<'_> {
    /// Names the case in which an assertion failed.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the transport broke this rule: {} ({:?})", self.case, self.manner);
        }
    }
}
