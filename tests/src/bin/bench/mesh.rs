//! What the UD mesh costs: processor time of one ping with both its answers, and a process with eight ports that pings and
//! answers at the highest rate there is, over a libibverbs without a kernel.

use super::cpu::{milliseconds, resident_mb, seconds_of};
use super::row::{Asked, Row};
use rdmascope_model::{DatagramAddress, EndpointInfo, EndpointName, Fabric, Gid, Mono, Peer};
use rdmascope_probe::mesh::{Datagram, Engine, MeshCommand, MeshEvent, MeshGrant, Output, Source, Stamp};
use rdmascope_transport::mesh::{Clock, Mesh};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread::{current, park_timeout, sleep};
use std::time::{Duration, Instant};

/// The word that runs [`alone`].
const PART: &str = "mesh-process";
const PORTS: u8 = 8;
/// The start is not measured.
const START: Duration = Duration::from_secs(3);
const WINDOW: Duration = Duration::from_secs(20);
const SECOND: u64 = 1_000_000_000;
const GRANT: MeshGrant = MeshGrant {
    until: Mono(u64::MAX),
    pings_per_second: 100,
    pings_per_batch: 60,
    labels: 1,
    cross_rail_every: 1,
    sweep: None,
};

pub(crate) fn rows() -> Vec<Row> {
    let mut wire = Wire::new();
    let one_second = milliseconds(20, || wire.run(SECOND));
    // Two engines of a hundred pings a second each.
    let per_ping = one_second * 1e3 / 200.0;
    let row = |what, seen, unit, asked| Row { what, seen, unit, asked, against: None };
    let mut rows =
        vec![row("UD ping with both answers, both ends, processor time", per_ping, "us", Asked::AtMost(5.0))];
    let (percent, megabytes, pings) = process();
    rows.push(row("mesh, 8 ports, 100 pings/s each, of one core", percent, "%", Asked::AtMost(1.0)));
    rows.push(row("mesh, 8 ports, resident memory", megabytes, "MB", Asked::AtMost(16.0)));
    rows.push(row("mesh, 8 ports, pings answered", pings, "1/s", Asked::AtLeast(760.0)));
    rows
}

/// Two engines whose datagrams arrive at once.
struct Wire {
    engines: [Engine; 2],
    now: u64,
    under_way: Vec<(usize, Datagram)>,
}

fn address(port: u8) -> DatagramAddress {
    let gid = Gid::from(IpAddr::V4(Ipv4Addr::new(10, 8, 0, port + 1)));
    DatagramAddress { gid, lid: 0, queue_pair: 100 + u32::from(port), queue_key: 7, mtu_bytes: 4096 }
}

fn name(port: u8) -> EndpointName {
    EndpointName { node: format!("n{port}"), device: format!("fake_{port}"), port: 1 }
}

impl Wire {
    fn new() -> Self {
        let book: Arc<[Peer]> =
            (0..2).map(|port| Peer { name: name(port), address: Some(address(port)), rail: 0 }).collect();
        let engines = [0, 1].map(|port| {
            let mut engine = Engine::new(name(port), address(port), 1 << 40 | u64::from(port), Mono(SECOND));
            engine.set_book(Arc::clone(&book), Mono(SECOND));
            engine.set_grant(Some(GRANT), Mono(SECOND));
            engine
        });
        Self { engines, now: SECOND, under_way: Vec::with_capacity(64) }
    }

    fn run(&mut self, for_ns: u64) {
        let until = self.now + for_ns;
        while self.now < until {
            let at = Mono(self.now);
            self.engines.iter_mut().for_each(|engine| engine.tick(at));
            loop {
                for (from, engine) in self.engines.iter_mut().enumerate() {
                    while let Some(output) = engine.pop() {
                        match output {
                            Output::Send(datagram) => {
                                engine.sent(datagram.id, Stamp::software(at));
                                engine.completed(datagram.id);
                                self.under_way.push((from, datagram));
                            }
                            Output::Resolve { batch, .. } => engine.resolved(batch, Ok(()), at),
                            _ => {}
                        }
                    }
                }
                if self.under_way.is_empty() {
                    break;
                }
                for (from, datagram) in self.under_way.drain(..) {
                    let own = self.engines[from].address();
                    let source = Source { gid: Some(own.gid), lid: 0, queue_pair: own.queue_pair };
                    let (header, bytes) = (datagram.header, datagram.payload_bytes);
                    self.engines[1 - from].received(Some(source), &header, bytes, Stamp::software(at), at);
                }
            }
            let due = self.engines.iter().filter_map(|engine| engine.due(at)).min();
            self.now = due.map_or(until, |due| due.0.max(self.now));
        }
    }
}

/// Percent of one core, MB resident, and answered pings a second of a process of its own.
fn process() -> (f64, f64, f64) {
    eprintln!("bench: a mesh of {PORTS} ports for {} s", WINDOW.as_secs());
    let library = build_library();
    let own = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(own);
    command.arg(PART).arg(&library).env("FAKE_IBVERBS", format!("devices={PORTS}")).stdout(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|error| panic!("{error}"));
    sleep(START);
    let before = (seconds_of(child.id()), Instant::now());
    sleep(WINDOW);
    let percent = (seconds_of(child.id()) - before.0) / before.1.elapsed().as_secs_f64() * 100.0;
    let megabytes = resident_mb(child.id());
    let ended = child.wait_with_output().unwrap_or_else(|error| panic!("{error}"));
    // A file left behind in the temporary folder harms nobody.
    drop(std::fs::remove_file(&library));
    let pings = String::from_utf8_lossy(&ended.stdout).trim().parse().unwrap_or(f64::NAN);
    (percent, megabytes, pings)
}

/// The libibverbs without a kernel that tests use.
fn build_library() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/sys/tests/fake");
    let library = std::env::temp_dir().join(format!("rdmascope-bench-{}.so", std::process::id()));
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-pthread", "-o"])
        .arg(&library)
        .args([sources.join("ibverbs.c"), sources.join("queues.c")])
        .status();
    assert!(built.is_ok_and(|status| status.success()), "cc builds {}", sources.display());
    library
}

/// The process that is measured: prints how many pings were answered each second.
pub(crate) fn alone(words: &[String]) -> Option<ExitCode> {
    let at = words.iter().position(|word| word == PART)?;
    let library = Path::new(words.get(at + 1)?);
    let began = Instant::now();
    let clock: Clock = Arc::new(move || Mono(1 + began.elapsed().as_nanos() as u64));
    let main = current();
    let mesh = Mesh::new(clock, Arc::new(move || main.unpark()), Some(library), Path::new("/dev/infiniband"));
    let mut mesh = mesh.unwrap_or_else(|error| panic!("{error}"));
    let info =
        |port| EndpointInfo { gid: Some(address(port).gid), ..EndpointInfo::bare(name(port), Fabric::Roce) };
    mesh.command(MeshCommand::Endpoints((0..PORTS).map(info).collect()));
    let (mut book, mut answered) = (Vec::new(), 0.0);
    while began.elapsed() < START + WINDOW + Duration::from_secs(1) {
        match mesh.next_event() {
            Some(MeshEvent::Opened(name, address)) => {
                book.push(Peer { name, address: Some(address), rail: 0 });
                if book.len() == usize::from(PORTS) {
                    mesh.command(MeshCommand::Book(book.clone().into()));
                    mesh.command(MeshCommand::Grant(Some(GRANT)));
                }
            }
            Some(MeshEvent::Pings(_, _, stats)) if began.elapsed() > START => {
                answered += f64::from(stats.small.answered + stats.large.answered);
            }
            Some(_) => {}
            None => park_timeout(Duration::from_secs(1)),
        }
    }
    println!("{}", answered / (began.elapsed() - START).as_secs_f64());
    Some(ExitCode::SUCCESS)
}
