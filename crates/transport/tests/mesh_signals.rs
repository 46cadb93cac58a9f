//! A process that is stopped and goes on, as a debugger or a batch system does it: epoll returns EINTR then, and the mesh goes
//! on. In a program of its own, since it stops all of it.

#[path = "../../sys/tests/fake/mod.rs"]
mod fake;
mod support;

use fake::Fake;
use rdmascope_model::{EndpointInfo, Fabric, Mono, Peer};
use rdmascope_probe::mesh::{MeshCommand, MeshEvent, MeshGrant};
use rdmascope_transport::mesh::{Clock, Mesh};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::{Duration, Instant};
use support::{endpoint, waker};

#[test]
fn a_stopped_process_goes_on_pinging_when_it_is_continued() {
    let fake = Fake::new();
    fake.set("devices", 2);
    let began = Instant::now();
    let clock: Clock = Arc::new(move || Mono(1 + began.elapsed().as_nanos() as u64));
    let mut mesh = Mesh::new(clock, waker(), Some(fake.path()), Path::new("/nonexistent")).expect("a thread");
    let info = |device: usize| EndpointInfo {
        fabric: Fabric::Roce,
        gid: Some(format!("::ffff:10.8.0.{}", device + 1).parse().expect("a GID")),
        ..endpoint(["a/fake_0/1", "b/fake_1/1"][device])
    };
    mesh.command(MeshCommand::Endpoints(vec![info(0), info(1)]));
    let mut book = Vec::new();
    let mut batches_after = |mesh: &mut Mesh, wanted: usize, after: Duration| {
        let mut batches = 0;
        while batches < wanted {
            assert!(began.elapsed() < Duration::from_secs(40), "{batches} of {wanted} batches");
            match mesh.next_event() {
                Some(MeshEvent::Opened(name, address)) => {
                    book.push(Peer { name, address: Some(address), rail: 0 });
                    if book.len() == 2 {
                        mesh.command(MeshCommand::Book(book.clone().into()));
                        let until = Mono(60_000_000_000);
                        let grant = MeshGrant {
                            until,
                            pings_per_second: 100,
                            pings_per_batch: 12,
                            labels: 1,
                            cross_rail_every: 1,
                            sweep: None,
                        };
                        mesh.command(MeshCommand::Grant(Some(grant)));
                    }
                }
                Some(MeshEvent::Pings(_, _, stats)) if began.elapsed() > after => {
                    batches += usize::from(stats.small.answered > 0);
                }
                Some(_) => {}
                None => park_timeout(Duration::from_millis(1)),
            }
        }
    };
    batches_after(&mut mesh, 1, Duration::ZERO);
    let line = format!(
        "for i in 1 2 3 4 5; do kill -STOP {pid}; sleep 0.05; kill -CONT {pid}; sleep 0.05; done",
        pid = std::process::id()
    );
    let stopped = Command::new("sh").args(["-c", &line]).status().expect("a shell");
    assert!(stopped.success());
    let now = began.elapsed();
    batches_after(&mut mesh, 6, now);
}
