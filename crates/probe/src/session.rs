//! One side of one probe as a state machine: what the peer and the transport say goes in, what to do comes out.
//!
//! Both sides prepare at once and send their offer (an opaque blob of addresses) through the coordinator; each connects
//! to the other's offer and says that it is ready; the target starts before it says so, so that the source's first
//! message finds it waiting. Nothing is closed before the coordinator ends the lease or it expires: a queue pair that is
//! destroyed early cannot acknowledge the peer's last message.

use rdmascope_model::{Cause, Effects, Failure, Outcome, ProbePlan, Role, Step};

/// What a transport tells about a probe that it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportEvent {
    /// Resources exist; the peer needs this blob to connect.
    Prepared {
        /// Opaque to everything but the same transport on the other side; at most 256 bytes.
        offer: Vec<u8>,
    },
    /// Connected to the peer's offer: what the peer sends from here on is received.
    Connected,
    /// What the probe moved at this end; told right before the end, where it was looked at.
    Effects(Box<Effects>),
    /// The measured part is over, or any step failed; nothing else follows.
    Finished(Outcome),
}

/// What can happen to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// From the own transport.
    Transport(TransportEvent),
    /// The peer's offer, relayed.
    PeerOffer(Vec<u8>),
    /// The peer is connected, relayed.
    PeerReady,
    /// The time for set-up is over (`false`), or that of the whole lease (`true`).
    Expired {
        /// The lease as a whole.
        lease: bool,
    },
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send the own offer to the peer.
    SendOffer(Vec<u8>),
    /// Connect the transport to the peer's offer.
    Connect(Vec<u8>),
    /// Tell the peer that this side is connected.
    SendReady,
    /// Start measuring (source) or answering (target).
    Start,
    /// Report how it ended; once per session.
    Report(Outcome),
}

/// One side of one probe.
#[derive(Clone, Debug)]
pub struct Session {
    plan: ProbePlan,
    prepared: bool,
    peer_offer: Option<Vec<u8>>,
    connecting: bool,
    connected: bool,
    peer_ready: bool,
    started: bool,
    reported: bool,
    effects: Option<Box<Effects>>,
}

impl Session {
    /// A session whose transport was told to prepare.
    #[must_use]
    pub fn new(plan: ProbePlan) -> Self {
        Self {
            plan,
            prepared: false,
            peer_offer: None,
            connecting: false,
            connected: false,
            peer_ready: false,
            started: false,
            reported: false,
            effects: None,
        }
    }

    /// What it was asked to do.
    #[must_use]
    pub fn plan(&self) -> &ProbePlan {
        &self.plan
    }

    /// Measuring or answering has begun.
    #[must_use]
    pub fn started(&self) -> bool {
        self.started
    }

    /// What the transport told of its effects, once.
    pub fn take_effects(&mut self) -> Option<Box<Effects>> {
        self.effects.take()
    }

    /// Its end was reported.
    #[must_use]
    pub fn reported(&self) -> bool {
        self.reported
    }

    /// Takes one input; what comes too late or twice changes nothing.
    pub fn handle(&mut self, input: Input) -> Vec<Output> {
        if self.reported {
            return Vec::new();
        }
        let mut outputs = Vec::new();
        match input {
            Input::Transport(TransportEvent::Prepared { offer }) => {
                self.prepared = true;
                outputs.push(Output::SendOffer(offer));
            }
            Input::Transport(TransportEvent::Connected) => {
                self.connected = true;
                if self.plan.role == Role::Target {
                    self.start(&mut outputs);
                }
                outputs.push(Output::SendReady);
            }
            Input::Transport(TransportEvent::Effects(effects)) => self.effects = Some(effects),
            Input::Transport(TransportEvent::Finished(outcome)) => self.report(outcome, &mut outputs),
            Input::PeerOffer(offer) => self.peer_offer = Some(offer),
            Input::PeerReady => self.peer_ready = true,
            Input::Expired { lease } => self.expired(lease, &mut outputs),
        }
        self.go_on(&mut outputs);
        outputs
    }

    fn go_on(&mut self, outputs: &mut Vec<Output>) {
        if self.reported {
            return;
        }
        if self.prepared
            && !self.connecting
            && let Some(offer) = self.peer_offer.take()
        {
            self.connecting = true;
            outputs.push(Output::Connect(offer));
        }
        if self.connected && self.peer_ready && self.plan.role == Role::Source {
            self.start(outputs);
        }
    }

    fn start(&mut self, outputs: &mut Vec<Output>) {
        if !self.started {
            self.started = true;
            outputs.push(Output::Start);
        }
    }

    fn report(&mut self, outcome: Outcome, outputs: &mut Vec<Output>) {
        self.reported = true;
        outputs.push(Output::Report(outcome));
    }

    fn expired(&mut self, lease: bool, outputs: &mut Vec<Output>) {
        if self.started && !lease {
            return;
        }
        if self.started && self.plan.only_answers() {
            return; // It only answers; the source tells how it went.
        }
        let (cause, step, evidence) = if self.started {
            (Cause::Stalled, Step::Measure, "the lease ran out while measuring")
        } else if !self.prepared {
            (Cause::NoResources, Step::Init, "the device did not finish making a queue pair in time")
        } else if !self.connecting {
            (Cause::PeerSilent, Step::Exchange, "the peer sent no address in time")
        } else if !self.connected {
            (Cause::NoRoute, Step::Rtr, "the device did not finish connecting in time")
        } else {
            (Cause::PeerSilent, Step::Rts, "the peer did not become ready in time")
        };
        let failure = Failure { cause, step, side: self.plan.role.side(), evidence: evidence.to_owned() };
        self.report(Outcome::Failed(failure), outputs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_model::{BandwidthSpec, LatencySpec, LeaseId, Manner, Metric, ProbeSpec, Side, Urgency};
    use std::time::Duration;

    fn session(role: Role, metric: Metric) -> Session {
        let spec = match metric {
            Metric::Latency => ProbeSpec::Latency(LatencySpec { samples: 10, warmup: 0, message_bytes: 8 }),
            Metric::Bandwidth => ProbeSpec::Bandwidth(BandwidthSpec {
                message_bytes: 65_536,
                depth: 8,
                warmup: Duration::ZERO,
                duration: Duration::from_millis(200),
                completions_min: 100,
                bytes_max: 1 << 30,
            }),
            Metric::Ping => panic!("pings have no session of their own here"),
        };
        Session::new(ProbePlan {
            lease: LeaseId(7),
            role,
            local: "a/d/1".parse().unwrap(),
            peer: "b/d/1".parse().unwrap(),
            spec,
            manner: Manner::default(),
            urgency: Urgency::Operator,
            expires_in: Duration::from_secs(5),
        })
    }

    fn prepared() -> Input {
        Input::Transport(TransportEvent::Prepared { offer: vec![1] })
    }

    fn cause_of(outputs: &[Output]) -> (Cause, Step) {
        match outputs {
            [Output::Report(Outcome::Failed(failure))] => (failure.cause, failure.step),
            other => panic!("no failure in {other:?}"),
        }
    }

    #[test]
    fn the_source_starts_only_when_both_sides_are_connected() {
        let mut s = session(Role::Source, Metric::Latency);
        assert_eq!(s.handle(Input::PeerOffer(vec![2])), [], "nothing to connect yet");
        assert_eq!(s.handle(prepared()), [Output::SendOffer(vec![1]), Output::Connect(vec![2])]);
        assert_eq!(s.handle(Input::PeerReady), []);
        assert_eq!(s.handle(Input::Transport(TransportEvent::Connected)), [Output::SendReady, Output::Start]);
    }

    #[test]
    fn the_target_answers_before_it_says_that_it_is_ready() {
        let mut s = session(Role::Target, Metric::Latency);
        s.handle(prepared());
        assert_eq!(s.handle(Input::PeerOffer(vec![2])), [Output::Connect(vec![2])]);
        assert_eq!(s.handle(Input::Transport(TransportEvent::Connected)), [Output::Start, Output::SendReady]);
        assert_eq!(s.handle(Input::PeerReady), [], "a second start would be a second measurement");
    }

    #[test]
    fn running_out_of_time_names_who_was_waited_for() {
        let expire = |inputs: &[Input], lease| {
            let mut s = session(Role::Source, Metric::Latency);
            for input in inputs {
                s.handle(input.clone());
            }
            s.handle(Input::Expired { lease })
        };
        let connected = Input::Transport(TransportEvent::Connected);
        let offer = Input::PeerOffer(vec![2]);
        assert_eq!(cause_of(&expire(&[], false)), (Cause::NoResources, Step::Init));
        assert_eq!(cause_of(&expire(&[prepared()], false)), (Cause::PeerSilent, Step::Exchange));
        assert_eq!(cause_of(&expire(&[prepared(), offer.clone()], false)), (Cause::NoRoute, Step::Rtr));
        let waiting = [prepared(), offer, connected];
        assert_eq!(cause_of(&expire(&waiting, false)), (Cause::PeerSilent, Step::Rts));
        let mut running = waiting.to_vec();
        running.push(Input::PeerReady);
        assert_eq!(expire(&running, false), [], "the time for set-up does not end a measurement");
        assert_eq!(cause_of(&expire(&running, true)), (Cause::Stalled, Step::Measure));
    }

    #[test]
    fn the_target_of_a_bandwidth_probe_has_nothing_to_report_when_its_lease_runs_out() {
        let mut s = session(Role::Target, Metric::Bandwidth);
        for input in [prepared(), Input::PeerOffer(vec![2]), Input::Transport(TransportEvent::Connected)] {
            s.handle(input);
        }
        assert_eq!(s.handle(Input::Expired { lease: true }), []);
    }

    #[test]
    fn the_end_is_reported_once() {
        let mut s = session(Role::Source, Metric::Latency);
        let failure =
            Failure { cause: Cause::PortDown, step: Step::Open, side: Side::Source, evidence: String::new() };
        let finished = Input::Transport(TransportEvent::Finished(Outcome::Failed(failure)));
        assert_eq!(s.handle(finished.clone()).len(), 1);
        assert_eq!(s.handle(finished), []);
        assert_eq!(s.handle(Input::Expired { lease: true }), []);
    }
}
