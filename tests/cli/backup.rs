//! The page about backups of the coordinator's state does what it says: its own commands, against a real coordinator; and files of other
//! versions.

use crate::harness::{Done, Folder, PATIENCE, finish, listening, rdmascope};
use crate::incidents::{open_incidents, port_is_down};
use crate::kept::{Teller, history, keeps_in};
use rdmascope_tests::guest::{Api, Program, Signal, wait_until};
use rdmascope_tests::root;
use redb::{Database, TableDefinition};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The commands of the page below a heading: its first block of them, without the page's indentation.
fn block(heading: &str) -> String {
    let page = fs::read_to_string(root().join("deploy/backup.md")).expect("the page");
    let (_, below) = page.split_once(&format!("\n## {heading}\n")).expect("the heading");
    let below = below.split("\n## ").next().unwrap_or_default();
    let (_, commands) = below.split_once("```sh\n").expect("commands");
    let commands = commands.split("```").next().expect("their end");
    commands.lines().map(|line| format!("{}\n", line.trim_start())).collect()
}

/// A machine of a coordinator: the folders that the page names are below one folder, and what systemd does is done by hand.
struct Machine {
    folder: Folder,
    coordinator: Option<Program>,
    address: String,
    starts: u32,
}

impl Machine {
    fn new() -> Self {
        let folder = Folder::new();
        folder.file("config.yaml", &keeps_in(&folder.path("var/lib/rdmascope")));
        Self { folder, coordinator: None, address: String::new(), starts: 0 }
    }

    fn state(&self) -> PathBuf {
        self.folder.path("var/lib/rdmascope")
    }

    fn start(&mut self) {
        self.starts += 1;
        // As `StateDirectory=` of the unit does.
        fs::create_dir_all(self.state()).expect("a folder");
        let mut command = rdmascope(&["coordinator", "--listen", "127.0.0.1:0", "--config"]);
        command.arg(self.folder.path("config.yaml"));
        let (coordinator, address) =
            listening(&mut command, &self.folder.path(&format!("{}.log", self.starts)));
        (self.coordinator, self.address) = (Some(coordinator), address);
    }

    fn stop(&mut self) {
        // A new machine has none yet; systemd does not mind.
        let Some(mut coordinator) = self.coordinator.take() else { return };
        coordinator.signal(Signal::TERM);
        wait_until("it ends", PATIENCE, || coordinator.ended().ok_or("it runs".to_owned()));
    }

    /// Runs commands of the page; `copies` is the folder that it calls `/srv/backup/rdmascope`.
    fn obey(&mut self, commands: &str, copies: &Path) {
        let (mut rest, mut between) = (commands.lines(), String::new());
        loop {
            let line = rest.next();
            match line {
                Some(line) if !line.starts_with("systemctl ") => between += &format!("{line}\n"),
                _ => {
                    self.shell(&std::mem::take(&mut between), copies);
                    match line.and_then(|line| line.split_whitespace().nth(1)) {
                        Some("start") => self.start(),
                        Some("stop") => self.stop(),
                        Some(other) => panic!("systemctl {other}"),
                        None => return,
                    }
                }
            }
        }
    }

    fn shell(&self, commands: &str, copies: &Path) {
        let user = rustix::process::getuid().as_raw().to_string();
        let group = rustix::process::getgid().as_raw().to_string();
        let commands = commands
            .replace("/srv/backup/rdmascope", copies.to_str().expect("ASCII"))
            .replace("/var/lib/rdmascope", self.state().to_str().expect("ASCII"))
            .replace("-o rdmascope -g rdmascope", &format!("-o {user} -g {group}"));
        let done = Command::new("sh").args(["-ec", &commands]).output().expect("a shell");
        assert!(done.status.success(), "{commands}\n{}", String::from_utf8_lossy(&done.stderr));
    }

    fn api(&self) -> Api {
        Api::new(&self.address, None)
    }

    fn printed(&self) -> String {
        self.coordinator.as_ref().expect("it runs").printed()
    }

    fn epoch(&self) -> u64 {
        self.api().json("/api/v1/status").expect("its status")["epoch"].as_u64().expect("a number")
    }

    /// A client command against it.
    fn run(&self, arguments: &[&str]) -> Done {
        let mut command = rdmascope(arguments);
        command.env("RDMASCOPE_COORDINATOR", &self.address);
        finish(command)
    }

    /// An agent over TCP.
    fn agent(&self, name: &str) -> Program {
        let mut command = rdmascope(&["agent", "--coordinator", &self.address, "--transport", "tcp"]);
        command.args(["--node-name", name, "--state-dir"]).arg(self.folder.path(name));
        fs::create_dir_all(self.folder.path(name)).expect("a folder");
        Program::start(name, &mut command, &self.folder.path(&format!("{name}.log")))
    }
}

/// What the page says that the log has, and behind it how many events; none is `events=0`.
const HISTORY_IS_BACK: &str = "the history of earlier runs is back";

#[test]
fn a_copy_that_is_made_while_it_runs_brings_back_history_and_acknowledged_incidents_on_another_machine() {
    /// It ends also where the copy fails.
    const MOST: u64 = 2_000;
    let copies = Folder::new();
    let mut old = Machine::new();
    old.start();
    let mut agent = Teller::connect(&old.address);
    agent.tell(1..=200);
    port_is_down().into_iter().for_each(|message| agent.say(message));
    let id = open_incidents(&old.api())[0]["id"].to_string();
    let acknowledged = old.run(&["ack", "--incident", &id, "--note", "cable ordered"]).out;
    assert_eq!(acknowledged, format!("incident {id} acknowledged\n"));
    // All of it goes through one queue: when this is written, so is that.
    agent.tell(201..=201);
    assert_eq!(agent.hear(201), 201);
    // It goes on being told of events, and writes them, while the copy is made.
    let (copied, commands) = (AtomicBool::new(false), block("Back up while it runs"));
    let told = std::thread::scope(|scope| {
        let teller = scope.spawn(|| {
            let mut last = 201;
            while !copied.load(Ordering::Relaxed) && last < MOST {
                last += 1;
                agent.tell(last..=last);
                assert_eq!(agent.hear(last), last);
                std::thread::sleep(Duration::from_millis(100));
            }
            last
        });
        old.shell(&commands, &copies.path(""));
        copied.store(true, Ordering::Relaxed);
        teller.join().expect("it tells")
    });
    // What comes after the backup is lost, and that is said.
    agent.tell(told + 1..=told + 9);
    assert_eq!(agent.hear(told + 9), told + 9);
    old.stop();
    old.start();
    let seen = old.epoch();
    old.stop();

    let made: Vec<_> =
        fs::read_dir(copies.path("")).expect("the copies").map(|entry| entry.expect("one")).collect();
    let [made] = &made[..] else { panic!("one copy: {made:?}") };
    let name = made.file_name().into_string().expect("ASCII");
    let mut new = Machine::new();
    let commands = block("Restore, on the same machine or another one");
    new.obey(&commands.replace("stopped", &name), &copies.path(""));
    assert!(new.printed().contains(HISTORY_IS_BACK), "{}", new.printed());
    assert!(!new.printed().contains("events=0"), "{}", new.printed());
    assert!(!new.printed().contains("WARN") && !new.printed().contains("ERROR"), "{}", new.printed());
    assert!(new.epoch() > seen, "agents obey it: {} {seen}", new.epoch());
    let found = history(&new.api());
    for number in 1..=201 {
        assert_eq!(found.get(&format!("event-{number}")), Some(&1), "event {number}");
    }
    let incidents = new.run(&["incidents", "--all"]).out;
    assert!(
        incidents.contains(&format!("incident {id}: ")) && incidents.contains("cable ordered"),
        "{incidents}"
    );
    let mut agent = Teller::connect(&new.address);
    agent.tell(told + 10..=told + 10);
    assert_eq!(agent.hear(told + 10), told + 10);
    let rows = new.api().json("/api/v1/events?kind=events-lost").expect("the history")["events"].clone();
    let there = history(&new.api()).len() as u64;
    let gap = format!("{} events of stranger are missing: ", told + 10 - there);
    assert!(rows[0]["text"].as_str().is_some_and(|text| text.starts_with(&gap)), "{gap}: {rows}");
}

#[test]
fn a_copy_of_a_stopped_coordinator_is_restored_beside_the_folder_that_was_there() {
    let copies = Folder::new();
    let mut machine = Machine::new();
    machine.start();
    let agents = ["n1", "n2"].map(|name| machine.agent(name));
    assert_eq!(machine.run(&["sweep", "--min-endpoints", "2"]).code, Some(0));
    let events =
        |machine: &Machine| machine.api().json("/api/v1/events?kind=agent-connected").expect("the history");
    assert_eq!(events(&machine)["events"].as_array().map(Vec::len), Some(2));
    machine.obey(&block("Back up while it is stopped"), &copies.path(""));
    agents.into_iter().for_each(Program::kill);
    let seen = machine.epoch();
    fs::write(machine.state().join("of-the-old-one"), "").expect("a file");
    machine.obey(&block("Restore, on the same machine or another one"), &copies.path(""));
    for said in [HISTORY_IS_BACK, "the matrix of the last run is back"] {
        assert!(machine.printed().contains(said), "{}", machine.printed());
    }
    assert!(machine.folder.path("var/lib/rdmascope.before/of-the-old-one").exists());
    assert!(!machine.state().join("of-the-old-one").exists());
    assert_eq!(events(&machine)["events"].as_array().map(Vec::len), Some(2));
    assert!(machine.epoch() > seen, "agents obey it");

    // The clock is a day behind what agents have seen: the way that the page knows.
    let refused_for = machine.epoch() + 86_400_000;
    let commands = block("When agents say `a second coordinator runs`");
    assert!(commands.contains("1796000000000"), "{commands}");
    machine.obey(&commands.replace("1796000000000", &refused_for.to_string()), &copies.path(""));
    assert!(machine.epoch() > refused_for, "{} {refused_for}", machine.epoch());
}

const EVENTS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("events");
const NOTES: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("notes");
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");

/// What the first version wrote: fewer tables, rows without what was added since, and a row of a kind that this one does not know.
fn of_the_first_version(path: &Path) {
    let database = Database::create(path).expect("a file");
    let write = database.begin_write().expect("a transaction");
    write.open_table(META).expect("a table").insert("form", 1).expect("the form");
    for (number, kind) in [(7, "state-change"), (8, "of-another-time"), (9, "state-change")] {
        let event = serde_json::json!({
            "number": number, "at": "2026-11-30T00:53:20.123Z", "at_ms": 1_796_000_000_123_u64, "node": "n1",
            "kind": kind, "subject": "mlx5_0/1", "id": format!("event-{number}"), "before": "ACTIVE",
            "after": "DOWN", "text": "the port went down",
        });
        let bytes = serde_json::to_vec(&event).expect("JSON");
        write.open_table(EVENTS).expect("a table").insert(number, bytes.as_slice()).expect("a row");
    }
    let notes = serde_json::json!({
        "acknowledged": [[["n1", "port-state", "mlx5_0/1"], 1_796_000_000_123_u64, "known"]],
        "maintenance": [["n1*", 1_796_000_000_123_u64, 4_102_444_800_000_u64, "new cable"]],
    });
    let bytes = serde_json::to_vec(&notes).expect("JSON");
    write.open_table(NOTES).expect("a table").insert("all", bytes.as_slice()).expect("a row");
    write.commit().expect("it is written");
}

#[test]
fn a_file_of_the_first_version_is_opened_with_its_rows_and_goes_on() {
    let mut machine = Machine::new();
    fs::create_dir_all(machine.state()).expect("a folder");
    of_the_first_version(&machine.state().join("history.redb"));
    for _ in 0..2 {
        machine.start();
        let printed = machine.printed();
        assert!(printed.contains(HISTORY_IS_BACK), "{printed}");
        assert!(printed.contains("of another version") && printed.contains("rows=1"), "{printed}");
        let events = machine.api().json("/api/v1/events?node=n1").expect("the history")["events"].clone();
        let ids: Vec<_> =
            events.as_array().expect("a list").iter().map(|event| event["id"].clone()).collect();
        assert_eq!(ids, ["event-9", "event-7"]);
        let maintenance = machine.run(&["maintenance"]).out;
        assert!(maintenance.contains("n1*") && maintenance.contains("new cable"), "{maintenance}");
        machine.stop();
    }
    machine.start();
    let mut agent = Teller::connect(&machine.address);
    agent.tell(1..=1);
    assert_eq!(agent.hear(1), 1);
    let newest = machine.api().json("/api/v1/events?node=stranger&kind=state-change").expect("the history");
    assert!(newest["events"][0]["number"].as_u64().is_some_and(|number| number > 9), "{newest}");
}

#[test]
fn a_file_of_another_form_is_refused_with_words_and_left_as_it_is() {
    let mut machine = Machine::new();
    fs::create_dir_all(machine.state()).expect("a folder");
    let path = machine.state().join("history.redb");
    of_the_first_version(&path);
    let database = Database::open(&path).expect("it opens");
    let write = database.begin_write().expect("a transaction");
    write.open_table(META).expect("a table").insert("form", 2).expect("the form");
    write.commit().expect("it is written");
    drop(database);
    machine.start();
    let printed = machine.printed();
    assert!(
        printed.contains("the history was written by another version") && printed.contains("form=2"),
        "{printed}"
    );
    assert!(printed.contains(&format!("{HISTORY_IS_BACK} events=0")), "{printed}");
    let events = machine.api().json("/api/v1/events?node=n1").expect("the history");
    assert_eq!(events["events"].as_array().map(Vec::len), Some(0), "{events}");
    machine.stop();
    // The page's way back: whoever knows that form finds everything there.
    let aside = Database::open(machine.state().join("history.redb.form-2")).expect("it is moved aside");
    let write = aside.begin_write().expect("a transaction");
    write.open_table(META).expect("a table").insert("form", 1).expect("the form");
    write.commit().expect("it is written");
    drop(aside);
    fs::rename(machine.state().join("history.redb.form-2"), &path).expect("it is moved back");
    machine.start();
    let events = machine.api().json("/api/v1/events?node=n1").expect("the history");
    assert_eq!(events["events"].as_array().map(Vec::len), Some(2), "{events}");
}
