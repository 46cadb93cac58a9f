//! What every transport must do; each one's test calls [`check`].
//!
//! The suite drives two sessions with a relay between them, as two agents and a coordinator do, on a clock that the
//! caller provides: [`RealTime`] for transports that move real bytes, a jump to the next event for simulated ones.

mod bench;
mod cases;
mod manners;

use crate::{Transport, Waker};
use bench::Bench;
use rdmascope_model::{EndpointInfo, Manner, Mono, Role};
use std::sync::Arc;
use std::thread::{Thread, current, park_timeout};
use std::time::{Duration, Instant};

/// The clock that the transports under test run on.
pub trait Drive {
    /// The time that commands and polls are given.
    fn now(&self) -> Mono;

    /// Nothing is to be done: comes back when a transport may have something to tell, and at the latest after `at_most`.
    /// A virtual clock jumps to its next event, or by `at_most` where there is none before.
    fn idle(&mut self, at_most: Duration);

    /// How late threads may run through no fault of theirs; zero on a virtual clock.
    fn slack(&self) -> Duration;
}

/// The machine's clock. Its waker goes to the transports under test.
#[derive(Debug)]
pub struct RealTime {
    began: Instant,
    thread: Thread,
}

impl RealTime {
    /// For the calling thread, which is the one that may call [`check`].
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "it belongs to the calling thread: a default would hide that"
    )]
    pub fn new() -> Self {
        Self { began: Instant::now(), thread: current() }
    }

    /// Ends [`Drive::idle`] early.
    #[must_use]
    pub fn waker(&self) -> Waker {
        let thread = self.thread.clone();
        Arc::new(move || thread.unpark())
    }
}

impl Drive for RealTime {
    fn now(&self) -> Mono {
        Mono::default().after(self.began.elapsed())
    }

    fn idle(&mut self, at_most: Duration) {
        park_timeout(at_most);
    }

    /// A test machine may be busy with other things for so long.
    fn slack(&self) -> Duration {
        Duration::from_secs(2)
    }
}

/// What is checked.
pub struct Subject<'a> {
    /// Makes the transport of one side and the endpoint that it probes from; called once per role.
    pub make: &'a mut dyn FnMut(Role) -> (Box<dyn Transport>, EndpointInfo),
    /// The clock.
    pub drive: &'a mut dyn Drive,
    /// How many resources of leases exist now, as seen from outside (sockets, queue pairs), where that can be counted.
    pub held: Option<&'a dyn Fn() -> usize>,
    /// Ways of probing besides the ordinary one that the transport can do.
    pub manners: &'a [Manner],
}

/// Runs every case on the same two transports, one after the other.
///
/// # Panics
/// At the first rule that is broken, with the case's name.
pub fn check(subject: Subject<'_>) {
    let manners = subject.manners;
    let mut bench = Bench::new(subject);
    for (name, case) in cases::ALL {
        bench.begin(name, Manner::default());
        case(&mut bench);
        bench.end();
    }
    for manner in manners {
        for (name, case) in manners::ALL {
            bench.begin(name, *manner);
            case(&mut bench);
            bench.end();
        }
    }
}
