//! What the coordinator writes down: there after kill -9 at any moment, set aside when it is damaged, and waiting while the disk is full.

use crate::bad_input::{connect, hello};
use crate::harness::{Cluster, Folder, PATIENCE, binary, listening, rdmascope};
use rdmascope_link::{
    EVENTS_PER_FRAME_MAX, EventKind, NodeEvent, PROTOCOL_MAX, PROTOCOL_MIN, ToAgent, ToCoordinator,
};
use rdmascope_model::Wall;
use rdmascope_tests::guest::{Api, Program, Signal, wait_until};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocket;

/// An agent of the node `stranger` that tells of one event after the other.
pub(crate) struct Teller {
    socket: WebSocket<TcpStream>,
}

impl Teller {
    pub(crate) fn connect(address: &str) -> Self {
        let mut socket = connect(address);
        socket.send(hello(PROTOCOL_MIN, PROTOCOL_MAX)).expect("it is let in");
        Self { socket }
    }

    /// Tells of the events with these numbers, each in a frame of its own; the coordinator may be gone already.
    pub(crate) fn tell(&mut self, numbers: impl Iterator<Item = u64>) {
        for number in numbers {
            self.tell_together(number..=number);
        }
    }

    /// The same, as many in a frame as it holds.
    fn tell_together(&mut self, numbers: impl Iterator<Item = u64>) {
        let event = |number| NodeEvent {
            number,
            at: Wall(1_790_000_000_000),
            kind: EventKind::StateChange,
            subject: "mlx5_0/1".to_owned(),
            id: format!("event-{number}"),
            before: "ACTIVE".to_owned(),
            after: "DOWN".to_owned(),
            text: "so that it takes room on the disk: ".repeat(9),
            basis: None,
        };
        let events: Vec<NodeEvent> = numbers.map(event).collect();
        for part in events.chunks(EVENTS_PER_FRAME_MAX) {
            let frame = ToCoordinator::events(part).encode();
            if self.socket.send(Message::Binary(frame.into())).is_err() {
                return;
            }
        }
    }

    /// Says something else.
    pub(crate) fn say(&mut self, message: Message) {
        self.socket.send(message).expect("it is sent");
    }

    /// Reads until everything up to this number is acknowledged; answers up to where it was.
    pub(crate) fn hear(&mut self, wanted: u64) -> u64 {
        let mut safe = 0;
        while safe < wanted {
            match self.socket.read() {
                Ok(Message::Binary(bytes)) => {
                    if let Ok(ToAgent::EventsSeen { number }) = ToAgent::decode(&bytes) {
                        safe = number;
                    }
                }
                Ok(_) => {}
                Err(_) => return safe,
            }
        }
        safe
    }
}

/// How often each event of the node is in the history, by its id.
pub(crate) fn history(api: &Api) -> BTreeMap<String, usize> {
    let answer = api.json("/api/v1/events?node=stranger&kind=state-change&limit=5000").expect("the history");
    let mut found = BTreeMap::new();
    for event in answer["events"].as_array().expect("a list") {
        *found.entry(event["id"].as_str().expect("an id").to_owned()).or_default() += 1;
    }
    found
}

pub(crate) fn keeps_in(folder: &Path) -> String {
    format!("coordinator:\n  state_dir: {}\n", folder.display())
}

#[test]
fn a_coordinator_that_is_killed_while_it_writes_has_what_it_acknowledged_and_has_it_once() {
    const BURST: u64 = 40;
    let state = Folder::new();
    let mut cluster = Cluster::configured(&keeps_in(&state.path("")), None, &[]);
    let mut safe = 0;
    for round in 0..12_u64 {
        let mut agent = Teller::connect(&cluster.address);
        // As an agent does: again what was not acknowledged, then what is new. All of it waits for the disk when the kill comes.
        agent.tell(safe + 1..=safe + BURST);
        safe = agent.hear(safe + round * 7 % BURST).max(safe);
        cluster.restart_coordinator();
        let found = history(&cluster.api());
        for number in 1..=safe {
            assert_eq!(
                found.get(&format!("event-{number}")),
                Some(&1),
                "round {round}: event {number} of {safe}"
            );
        }
        let twice: Vec<_> = found.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "round {round}: {twice:?}");
    }
    assert!(safe > BURST, "something was acknowledged: {safe}");
    let printed = cluster.coordinator.printed();
    assert!(!printed.contains("ERROR") && !printed.contains("panicked"), "{printed}");
    assert!(!printed.contains("damaged"), "{printed}");
}

#[test]
fn files_that_are_damaged_are_moved_aside_with_a_word_and_the_coordinator_begins_without_them() {
    let state = Folder::new();
    let mut cluster = Cluster::configured(&keeps_in(&state.path("")), None, &["n1", "n2"]);
    assert_eq!(cluster.run(&["sweep", "--min-endpoints", "2"]).code, Some(0));
    cluster.end_coordinator(Signal::TERM);
    let names = ["history.redb", "matrix.snapshot", "pairs.snapshot"];
    let whole = names.map(|name| fs::read(state.path(name)).expect("it was written at the end"));
    // The one that `end_coordinator` has started holds the files.
    cluster.coordinator.signal(Signal::KILL);
    wait_until("it is dead", PATIENCE, || cluster.coordinator.ended().ok_or("it lives".to_owned()));
    for (round, damage) in
        [cut as fn(&mut Vec<u8>), |bytes| garble(bytes), empty_but_for_a_few].into_iter().enumerate()
    {
        let mut bad = whole.clone();
        bad.iter_mut().for_each(damage);
        for (name, bytes) in names.iter().zip(&bad) {
            fs::write(state.path(name), bytes).expect("a file");
            // What a kill in mid-write leaves beside it.
            fs::write(state.path(&format!("{name}.new")), &bytes[..bytes.len() / 3]).expect("a file");
        }
        let mut command = rdmascope(&["coordinator", "--listen", "127.0.0.1:0", "--config"]);
        command.arg(cluster.folder.path("config.yaml"));
        let log = cluster.folder.path(&format!("damaged-{round}.log"));
        let (program, address) = listening(&mut command, &log);
        let api = Api::new(&address, None);
        assert_eq!(api.get("/healthz").expect("it serves").status, 200);
        let printed = program.printed();
        // The last third of a young database is room that it does not use yet; without it everything is still there.
        let is_whole = printed.contains("the history of earlier runs is back events=2");
        assert!(!is_whole || round == 0, "{printed}");
        for (name, bytes) in names.iter().zip(&bad).skip(usize::from(is_whole)) {
            let aside = fs::read(state.path(&format!("{name}.damaged"))).expect("it is moved aside");
            assert!(aside == *bytes, "{name} is as it was found");
        }
        assert!(printed.contains("the damaged file is moved aside"), "{printed}");
        assert_ne!(printed.contains("the kept history is damaged; it is moved aside"), is_whole, "{printed}");
        assert_eq!(
            printed.matches("cannot be read; agents bring back what they know").count(),
            2,
            "{printed}"
        );
        // It keeps what comes from now on.
        let mut agent = Teller::connect(&address);
        agent.tell(1..=1);
        assert_eq!(agent.hear(1), 1);
        program.kill();
    }
}

fn cut(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len() * 2 / 3);
}

fn garble(bytes: &mut [u8]) {
    let length = bytes.len();
    bytes[..length.min(64)].fill(0x5a);
    bytes[length / 2..].iter_mut().for_each(|byte| *byte ^= 0xff);
}

fn empty_but_for_a_few(bytes: &mut Vec<u8>) {
    bytes.truncate(5);
}

/// The largest file that a program may write, bytes: a disk that is full, for whoever has no disk of his own to fill.
fn limit_files(program: &Program, bytes: Option<u64>) {
    let pid = Pid::from_raw(program.pid().cast_signed()).expect("a process id");
    prlimit(Some(pid), Resource::Fsize, Rlimit { current: bytes, maximum: None }).expect("its own user may");
}

/// A coordinator whose files can be kept from growing.
struct OnADisk {
    state: Folder,
    program: Program,
    api: Api,
    address: String,
}

impl OnADisk {
    fn new() -> Self {
        let state = Folder::new();
        state.file("config.yaml", &keeps_in(&state.path("")));
        let (program, address) = Self::start(&state, "first.log");
        let api = Api::new(&address, None);
        Self { state, program, api, address }
    }

    fn start(state: &Folder, log: &str) -> (Program, String) {
        // Writing beyond the limit is an error, and not the end of the program.
        let mut command = Command::new("bash");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(binary());
        command.args(["coordinator", "--listen", "127.0.0.1:0", "--config"]).arg(state.path("config.yaml"));
        listening(&mut command, &state.path(log))
    }

    /// Bytes of the history.
    fn size(&self) -> u64 {
        fs::metadata(self.state.path("history.redb")).expect("the history").len()
    }

    /// How often it could not be written.
    fn failed(&self) -> u64 {
        let metrics = self.api.get("/metrics").expect("metrics").text;
        let name = "rdmascope_state_writes_failed_total{file=\"history\"} ";
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("it is always there");
        value.parse().expect("a number")
    }

    fn wait_for_word(&self, word: &str) {
        wait_until(word, PATIENCE, || {
            let printed = self.program.printed();
            if printed.contains(word) { Ok(()) } else { Err(printed) }
        });
    }

    /// How many events of the agent are on the disk, seen after a kill and by the next coordinator.
    fn on_disk(self) -> u64 {
        self.program.kill();
        let (_again, address) = Self::start(&self.state, "second.log");
        let api = Api::new(&address, None);
        let (mut found, mut before) = (BTreeMap::new(), u64::MAX);
        loop {
            let path = format!("/api/v1/events?node=stranger&kind=state-change&limit=1000&before={before}");
            let page = api.json(&path).expect("the history");
            for event in page["events"].as_array().expect("a list") {
                *found.entry(event["id"].to_string()).or_insert(0) += 1;
            }
            match page["older_before"].as_u64() {
                Some(older) => before = older,
                None => break,
            }
        }
        let twice: Vec<_> = found.iter().filter(|(_, times)| **times != 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        found.len() as u64
    }
}

#[test]
fn a_full_disk_is_said_and_counted_and_nothing_that_was_acknowledged_is_lost() {
    const ROOM: u64 = 400;
    let disk = OnADisk::new();
    let mut agent = Teller::connect(&disk.address);
    agent.tell(1..=1);
    assert_eq!((agent.hear(1), disk.failed()), (1, 0));
    let size = disk.size();
    limit_files(&disk.program, Some(size));
    // More than the file has room for, and less than waits in memory.
    let mut told = 1;
    wait_until("the disk is full", PATIENCE, || {
        if disk.failed() > 0 {
            return Ok(());
        }
        agent.tell(told + 1..=told + ROOM);
        told += ROOM;
        Err(format!("{told} events fit into {size} bytes"))
    });
    assert!(told <= 8_000, "{told} events are more than the coordinator is asked to keep in memory");
    assert_eq!(disk.api.get("/healthz").expect("it serves").status, 200);
    disk.wait_for_word("the history cannot be written: is the disk full?");
    let path = "/api/v1/events?node=stranger&kind=state-change&limit=100";
    let newest = disk.api.json(path).expect("the history");
    let shown = newest["events"].as_array().map_or(0, Vec::len);
    assert_eq!(shown, 100, "what is not written yet is shown all the same");
    // Somebody makes room; the coordinator finds out by itself.
    limit_files(&disk.program, None);
    assert_eq!(agent.hear(told), told, "all of it is acknowledged now");
    disk.wait_for_word("the history is written again, and nothing of it was lost");
    let printed = disk.program.printed();
    assert_eq!(printed.matches("is the disk full?").count(), 1, "said once: {printed}");
    assert_eq!(disk.on_disk(), told, "every event is there after a kill, once");
}

#[test]
fn what_does_not_fit_into_memory_while_the_disk_is_full_stays_with_the_agent_and_is_told_again() {
    const TOLD: u64 = 14_000;
    let disk = OnADisk::new();
    let mut agent = Teller::connect(&disk.address);
    agent.tell(1..=1);
    assert_eq!(agent.hear(1), 1);
    limit_files(&disk.program, Some(disk.size()));
    // Those of the beginning may still find room in the file.
    agent.tell_together(2..=TOLD);
    disk.wait_for_word("10,000 events wait to be written: agents keep theirs");
    assert!(disk.failed() > 0);
    limit_files(&disk.program, None);
    let safe = agent.hear(TOLD);
    assert!((9_900..TOLD).contains(&safe), "what waited is acknowledged, what did not is not: {safe}");
    disk.wait_for_word("the history is written again, and nothing of it was lost");
    // As an agent does after every reconnect.
    let mut agent = Teller::connect(&disk.address);
    agent.tell_together(safe + 1..=TOLD);
    assert_eq!(agent.hear(TOLD), TOLD);
    let lost = disk.api.json("/api/v1/events?kind=events-lost").expect("the history");
    assert_eq!(lost["events"].as_array().map(Vec::len), Some(0), "{lost}");
    assert_eq!(disk.on_disk(), TOLD, "every event is there after a kill, once");
}
