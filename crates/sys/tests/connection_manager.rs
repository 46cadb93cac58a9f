//! The connection manager's commands and events, against a fake kernel that reads them as the real one does.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "fake/cm.rs"]
mod fake_cm;

use fake_cm::{FakeManagers, QueuePairs};
use rdmascope_sys::{ConnectionEventKind as Kind, ConnectionId, ConnectionManager, ConnectionParameters};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(1);

/// What became of queue pairs.
#[derive(Clone, Default)]
struct Pairs(Arc<Mutex<Vec<String>>>);

impl QueuePairs for Pairs {
    fn join(&self, one: u32, other: u32) {
        self.0.lock().unwrap().push(format!("{one}-{other}"));
    }

    fn part(&self, one: u32) {
        self.0.lock().unwrap().push(format!("{one} ended"));
    }
}

fn parameters(queue_pair: u32, private_data: &[u8]) -> ConnectionParameters<'_> {
    ConnectionParameters { queue_pair, max_incoming_reads: 1, max_outgoing_reads: 1, private_data }
}

fn next(manager: &mut ConnectionManager) -> (Kind, ConnectionId, i32, Vec<u8>) {
    let event = manager.next_event().unwrap().expect("an event");
    (event.kind, event.id, event.status, event.private_data)
}

/// A listener at an address of which the kernel chose the port.
fn listener(manager: &mut ConnectionManager) -> (ConnectionId, SocketAddr) {
    let id = manager.create().unwrap();
    manager.bind(id, "10.7.0.2:0".parse().unwrap()).unwrap();
    manager.listen(id, 1).unwrap();
    let addresses = manager.addresses(id).unwrap();
    assert_eq!((addresses.local.ip().to_string().as_str(), addresses.peer), ("10.7.0.2", None));
    assert_ne!(addresses.local.port(), 0);
    (id, addresses.local)
}

#[test]
fn a_connection_is_made_step_by_step_and_its_end_is_told() {
    let pairs = Pairs::default();
    let managers = FakeManagers::new(pairs.clone());
    let (mut asks, mut takes) = (managers.open(), managers.open());
    let (_, there) = listener(&mut takes);
    assert_eq!(takes.next_event().unwrap(), None, "nothing yet, and the call does not wait");

    let id = asks.create().unwrap();
    asks.resolve_address(id, "10.7.0.1:0".parse().unwrap(), there, LIMIT).unwrap();
    assert_eq!(next(&mut asks), (Kind::AddressResolved, id, 0, vec![]));
    asks.resolve_route(id, LIMIT).unwrap();
    assert_eq!(next(&mut asks), (Kind::RouteResolved, id, 0, vec![]));
    asks.connect(id, &parameters(11, b"a token")).unwrap();
    let (kind, request, status, data) = next(&mut takes);
    assert_eq!((kind, status, data.as_slice()), (Kind::ConnectRequest, 0, &b"a token"[..]));
    let addresses = takes.addresses(request).unwrap();
    assert_eq!(addresses.local, there);
    assert_eq!(addresses.peer.unwrap().ip().to_string(), "10.7.0.1");
    takes.accept(request, &parameters(22, b"")).unwrap();
    assert_eq!(next(&mut takes).0, Kind::Established);
    assert_eq!(next(&mut asks), (Kind::Established, id, 0, vec![]));
    assert_eq!(*pairs.0.lock().unwrap(), ["11-22"]);

    takes.destroy(request).unwrap();
    assert_eq!(next(&mut asks), (Kind::Disconnected, id, 0, vec![]));
    drop((asks, takes));
    assert_eq!(managers.ends(), 0, "a manager ends with all that it has");
}

#[test]
fn a_refused_request_and_a_failing_command_say_why() {
    let managers = FakeManagers::new(Pairs::default());
    let (mut asks, mut takes) = (managers.open(), managers.open());
    let (_, there) = listener(&mut takes);
    let id = asks.create().unwrap();
    asks.resolve_address(id, "10.7.0.1:0".parse().unwrap(), there, LIMIT).unwrap();
    next(&mut asks);
    asks.connect(id, &parameters(11, b"")).unwrap();
    let request = next(&mut takes).1;
    takes.reject(request).unwrap();
    assert_eq!(next(&mut asks), (Kind::Rejected, id, -111, vec![]));
    managers.fail(fake_cm::RESOLVE_ADDRESS, 101);
    let error = asks.resolve_address(id, there, there, LIMIT).unwrap_err();
    assert_eq!(error.to_string(), "rdma_resolve_addr: Network is unreachable (errno 101)");
}

#[test]
fn a_host_without_the_node_is_told_by_its_errno() {
    let error = ConnectionManager::open(Path::new("/nonexistent/rdma_cm")).err().unwrap();
    assert_eq!(error.to_string(), "rdma_cm: open: No such file or directory (errno 2)");
}
