//! Two transports in this process and a relay between them: one probe between two endpoints, without agents and a coordinator.

use super::Endpoint;
use rdmascope_model::{
    Effects, EndpointInfo, Fabric, LeaseId, Manner, Mono, Outcome, ProbePlan, ProbeSpec, Role, Urgency,
};
use rdmascope_probe::{Input, Output, Session};
use rdmascope_transport::{PortReader, Transport, Waker};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{current, park_timeout};
use std::time::{Duration, Instant};

/// No probe of the lab takes longer.
const EXPIRES_IN: Duration = Duration::from_secs(25);

/// How one end's probe ended, and what it moved there.
#[derive(Debug)]
pub struct Ended {
    /// What it told.
    pub outcome: Outcome,
    /// Where it looked.
    pub effects: Option<Effects>,
}

/// One end.
struct End {
    transport: Box<dyn Transport>,
    endpoint: EndpointInfo,
    inbox: VecDeque<Input>,
}

/// Source and target of probes.
pub struct Pair {
    ends: [End; 2],
    leases: u64,
    began: Instant,
}

impl Endpoint {
    /// What an agent would know of it.
    ///
    /// # Panics
    /// When its name or address is none.
    #[must_use]
    pub fn info(self) -> EndpointInfo {
        let port = self.port();
        let mtu = std::fs::read_to_string(format!("/sys/class/net/{port}/mtu")).ok();
        EndpointInfo {
            gid: Some(format!("::ffff:{}", self.address()).parse().expect("a GID")),
            netdev: Some(port),
            netdev_mtu: mtu.and_then(|text| text.trim().parse().ok()),
            ..EndpointInfo::bare(self.name().parse().expect("an endpoint name"), Fabric::Roce)
        }
    }
}

impl Pair {
    /// `make` is called for each end; its waker is that of the calling thread.
    pub fn new(
        from: Endpoint,
        to: Endpoint,
        effects: &PortReader,
        make: fn(PortReader, Waker) -> Box<dyn Transport>,
    ) -> Self {
        let ends = [from, to].map(|endpoint| {
            let thread = current();
            let waker: Waker = Arc::new(move || thread.unpark());
            End {
                transport: make(Arc::clone(effects), waker),
                endpoint: endpoint.info(),
                inbox: VecDeque::new(),
            }
        });
        Self { ends, leases: 0, began: Instant::now() }
    }

    /// One probe from its preparation to its end at both ends; source first. A target that tells nothing has `None`.
    ///
    /// # Panics
    /// When the source has told nothing long after the lease is over.
    pub fn run(&mut self, spec: ProbeSpec, manner: Manner) -> [Option<Ended>; 2] {
        self.leases += 1;
        let lease = LeaseId(self.leases);
        let roles = [Role::Source, Role::Target];
        let mut sessions = roles.map(|role| Session::new(self.prepare(lease, role, spec, manner)));
        let mut reports: [Option<Outcome>; 2] = [None, None];
        let until = Instant::now() + EXPIRES_IN + Duration::from_secs(5);
        // The target's end follows the source's within milliseconds, or never.
        let mut rest = None;
        while reports.iter().any(Option::is_none) && rest.is_none_or(|at| Instant::now() < at) {
            assert!(Instant::now() < until, "the source told nothing: {spec:?}, {manner:?}");
            if !self.step(lease, &mut sessions, &mut reports) {
                // Its wakers end this early; on two processors, looking around more often would disturb what is measured.
                park_timeout(Duration::from_millis(20));
            }
            if reports[0].is_some() && rest.is_none() {
                rest = Some(Instant::now() + Duration::from_secs(1));
            }
        }
        let now = self.now();
        for end in &mut self.ends {
            end.transport.close(lease, now);
            end.inbox.clear();
        }
        let mut effects =
            sessions.map(|mut session| session.take_effects().map(|effects| *effects)).into_iter();
        reports.map(|outcome| {
            let effects = effects.next().flatten();
            outcome.map(|outcome| Ended { outcome, effects })
        })
    }

    fn now(&self) -> Mono {
        Mono::default().after(self.began.elapsed())
    }

    fn prepare(&mut self, lease: LeaseId, role: Role, spec: ProbeSpec, manner: Manner) -> ProbePlan {
        let names = self.ends.each_ref().map(|end| end.endpoint.name.clone());
        let [source, target] = names;
        let (local, peer) = if role == Role::Source { (source, target) } else { (target, source) };
        let plan = ProbePlan {
            lease,
            role,
            local,
            peer,
            spec,
            manner,
            urgency: Urgency::Drained,
            expires_in: EXPIRES_IN,
        };
        let now = self.now();
        let end = &mut self.ends[usize::from(role == Role::Target)];
        end.transport.prepare(&plan, &end.endpoint, now);
        plan
    }

    /// Moves what there is to move.
    fn step(
        &mut self,
        lease: LeaseId,
        sessions: &mut [Session; 2],
        reports: &mut [Option<Outcome>; 2],
    ) -> bool {
        let now = self.now();
        let mut moved = false;
        for at in 0..2 {
            while let Some((_, event)) = self.ends[at].transport.poll(now) {
                self.ends[at].inbox.push_back(Input::Transport(event));
            }
            while let Some(input) = self.ends[at].inbox.pop_front() {
                moved = true;
                for output in sessions[at].handle(input) {
                    match output {
                        Output::SendOffer(offer) => {
                            self.ends[1 - at].inbox.push_back(Input::PeerOffer(offer))
                        }
                        Output::SendReady => self.ends[1 - at].inbox.push_back(Input::PeerReady),
                        Output::Connect(offer) => self.ends[at].transport.connect(lease, &offer, now),
                        Output::Start => self.ends[at].transport.start(lease, now),
                        Output::Report(outcome) => reports[at] = Some(outcome),
                    }
                }
            }
        }
        moved
    }
}
