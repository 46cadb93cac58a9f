//! The simulated transport keeps the rules that every transport keeps.

use rdmascope_model::{EndpointInfo, Fabric as Kind, Mono, Role};
use rdmascope_sim::{Fabric, Shared, SimTransport};
use rdmascope_transport::Transport;
use rdmascope_transport::conformance::{Drive, Subject, check};
use std::time::Duration;

struct Virtual {
    now: Mono,
    fabric: Shared,
}

impl Drive for Virtual {
    fn now(&self) -> Mono {
        self.now
    }

    fn slack(&self) -> Duration {
        Duration::ZERO
    }

    fn idle(&mut self, at_most: Duration) {
        let end = self.now.after(at_most);
        let next = self.fabric.borrow().next_due().unwrap_or(end);
        self.now = next.clamp(self.now, end);
    }
}

#[test]
fn the_simulated_transport_does_what_every_transport_must_do() {
    let fabric = Fabric::new(3);
    let mut make = |role| -> (Box<dyn Transport>, EndpointInfo) {
        let name = if role == Role::Source { "a/sim0/1" } else { "b/sim0/1" }.parse().unwrap();
        let endpoint = EndpointInfo::bare(name, Kind::Simulated);
        fabric.borrow_mut().plug(&endpoint.name, 100_000_000_000);
        (Box::new(SimTransport::new(&fabric)), endpoint)
    };
    let held = || fabric.borrow().held();
    let mut drive = Virtual { now: Mono(1), fabric: fabric.clone() };
    check(Subject { make: &mut make, drive: &mut drive, held: Some(&held), manners: &[] });
}
