//! Kernel logs that are pipes and files.

use super::*;
use rdmascope_fixtures::Folder;
use std::io::Write as _;
use std::time::Duration;

const FATAL: &str = "mlx5_core 0000:3b:00.0: poll_health:478:(pid 0): Fatal error 1 detected";

fn reader(folder: &Folder, device: &str, plain: &[&str]) -> KernelLogReader {
    let path = |name: &str| folder.path().join(name);
    KernelLogReader { file: None, device: path(device), plain: plain.iter().map(|name| path(name)).collect() }
}

fn machine() -> Snapshot {
    rdmascope_fixtures::snapshot::roce(1)
}

fn read(folder: &Folder, file: Option<&str>) -> Reading<KernelLog> {
    let host = Host::new(folder.path().to_owned()).unwrap();
    let reader = KernelLogReader::new(file.map(|name| folder.path().join(name)));
    reader.read_now(&host, &Rules::builtin(), &machine())
}

fn rules(log: &Reading<KernelLog>) -> Vec<&str> {
    log.value().unwrap().hits.iter().map(|hit| hit.rule.as_str()).collect()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), future).await.unwrap() })
}

/// A named pipe in place of `/dev/kmsg`, open for writing.
fn pipe(folder: &Folder) -> std::fs::File {
    let path = folder.path().join("kmsg");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_capture_gives_both_of_its_logs() {
    let folder = Folder::new();
    assert_eq!(read(&folder, None), Reading::failed("rdmascope/kernel-log is not part of this capture"));
    folder.write("rdmascope/application-log", " Did not detect devices \n");
    let part = read(&folder, None);
    assert_eq!(rules(&part), ["verbs-device-not-found"]);
    assert_eq!(part.value().unwrap().unread, ["rdmascope/kernel-log is not part of this capture"]);
    folder.write("rdmascope/kernel-log", &format!("[ 1.000000] {FATAL}\n[ 2.0] other"));
    let both = read(&folder, None);
    assert_eq!(rules(&both), ["verbs-device-not-found", "mlx5-fatal-error"]);
    assert_eq!((both.value().unwrap().lines, both.value().unwrap().unread.len()), (3, 0));
}

#[test]
fn times_and_numbers_that_cannot_be_do_no_harm() {
    let folder = Folder::new();
    folder.write(
        "rdmascope/kernel-log",
        &format!("3,18446744073709551615,5,-;{FATAL}\n3,5,18446744073709551615,-;{FATAL}\nJan  1 00:00:00 h kernel: {FATAL}\n"),
    );
    let host = Host::new(folder.path().to_owned()).unwrap();
    let mut machine = machine();
    machine.taken_at = Wall(u64::MAX);
    machine.system.booted_at = Reading::Value(Wall(u64::MAX - 1));
    let log = KernelLogReader::new(None).read_now(&host, &Rules::builtin(), &machine);
    assert_eq!((rules(&log).len(), log.value().unwrap().lines), (1, 3));
    assert_eq!(log.value().unwrap().lost, 0, "a number below the one before it is another boot's");
}

#[test]
fn a_given_file_stands_for_the_kernel_log_and_gaps_count_in_it() {
    let folder = Folder::new();
    folder.write("dmesg.txt", &format!("3,7,1000000,-;{FATAL}\n SUBSYSTEM=pci\n3,10,2000000,-;x\n"));
    let log = read(&folder, Some("dmesg.txt"));
    assert_eq!(rules(&log), ["mlx5-fatal-error"]);
    assert_eq!((log.value().unwrap().lines, log.value().unwrap().lost), (2, 2));
    assert!(read(&folder, Some("none")).why_missing().unwrap().contains("No such file"));
}

#[test]
fn times_of_another_machine_end_at_the_reading() {
    let folder = Folder::new();
    let far = 99_000_000_u64;
    folder.write("rdmascope/kernel-log", &format!("[{}.0] {FATAL}\n[{far}.0] x\n", far - 10));
    let log = read(&folder, None);
    let taken_at = machine().taken_at.0;
    assert_eq!(log.value().unwrap().hits[0].last, Reading::Value(Wall(taken_at - 10_000)));
}

#[test]
fn a_process_id_in_a_capture_is_never_our_own() {
    let folder = Folder::new();
    let line = "mlx5_cmd_out_err:838:(pid OWN): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x305684), err(-22)";
    folder.write("rdmascope/kernel-log", &line.replace("OWN", &std::process::id().to_string()));
    assert_eq!(rules(&read(&folder, None)), ["mlx5-register-refused"]);
}

#[test]
fn without_a_device_a_plain_file_serves_and_without_both_it_says_what_is_needed() {
    let folder = Folder::new();
    let tally = || Tally::new(&Rules::builtin(), None);
    let why = reader(&folder, "kmsg", &["kern.log"]).of_this_machine(tally());
    let why = why.why_missing().unwrap();
    assert!(why.contains("kmsg: No such file") && why.contains("kern.log: No such file"), "{why}");
    assert!(why.contains("CAP_SYSLOG"), "{why}");
    folder.write("kern.log", &format!("Mar  3 10:15:04 node-a kernel: {FATAL}\n"));
    assert_eq!(rules(&reader(&folder, "kmsg", &["kern.log"]).of_this_machine(tally())), ["mlx5-fatal-error"]);
    folder.write("kmsg", &format!("3,7,1000000,-;{FATAL}\n3,9,1000000,-;x\n"));
    let log = reader(&folder, "kmsg", &["kern.log"]).of_this_machine(tally());
    assert_eq!((rules(&log), log.value().unwrap().lost), (vec!["mlx5-fatal-error"], 1));
}

#[test]
fn a_pipe_is_read_to_its_end() {
    let folder = Folder::new();
    let mut writer = pipe(&folder);
    writeln!(writer, "[ 1.0] {FATAL}").unwrap();
    drop(writer);
    let path = folder.path().join("kmsg");
    let thread = std::thread::spawn(move || {
        // Opening blocks until the reader is there; the line comes after a moment.
        let mut writer = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        writeln!(writer, "[ 2.0] {FATAL}").unwrap();
        std::thread::sleep(Duration::from_millis(50));
    });
    // A pipe that nobody has opened for writing is at its end.
    let mut log = read(&folder, Some("kmsg"));
    while log.value().is_some_and(|log| log.lines == 0) {
        log = read(&folder, Some("kmsg"));
    }
    thread.join().unwrap();
    assert_eq!(rules(&log), ["mlx5-fatal-error"]);
}

#[test]
fn history_is_marked_and_what_comes_is_an_event() {
    let folder = Folder::new();
    let mut writer = pipe(&folder);
    writeln!(writer, "3,7,1,-;{FATAL}").unwrap();
    run(async {
        let mut follower = reader(&folder, "kmsg", &[]).follow(&Rules::builtin()).unwrap();
        let history = follower.next().await.unwrap();
        assert_eq!(history.events.iter().map(|e| e.historic).collect::<Vec<_>>(), [true]);
        let now = micros_since_boot();
        writeln!(writer, "3,8,{now},-;nothing\n SUBSYSTEM=pci\n3,11,{now},-;{FATAL}").unwrap();
        let batch = follower.next().await.unwrap();
        assert_eq!(batch.lost, 2);
        let event = &batch.events[0];
        assert_eq!((event.historic, event.seen.rule.as_str()), (false, "mlx5-fatal-error"));
        assert_eq!(event.seen.subject.as_deref(), Some("pci 0000:3b:00.0"));
        let wall = Clock::new().now().wall;
        assert!(wall.since(*event.seen.at.value().unwrap()) < Duration::from_secs(10));
        let log = follower.log();
        assert_eq!((log.hits.len(), log.hits[0].count, log.lines, log.lost), (1, 2, 3, 2));
    });
}

#[test]
fn a_flood_comes_in_batches_with_pauses() {
    let folder = Folder::new();
    let mut writer = pipe(&folder);
    run(async {
        let mut follower = reader(&folder, "kmsg", &[]).follow(&Rules::builtin()).unwrap();
        let flood: String = (0..1_000).map(|n| format!("3,{n},1,-;{FATAL}\n")).collect();
        let thread = std::thread::spawn(move || {
            writer.write_all(flood.as_bytes()).unwrap();
            writer
        });
        let began = std::time::Instant::now();
        let mut seen = 0;
        while seen < 1_000 {
            let batch = follower.next().await.unwrap();
            assert!(batch.events.len() < 700 && batch.lost == 0, "{}", batch.events.len());
            seen += batch.events.len();
        }
        assert!(began.elapsed() >= Duration::from_millis(100), "the second batch waits");
        drop(thread.join().unwrap());
        assert_eq!(follower.log().hits[0].count, 1_000);
    });
}

#[test]
fn a_plain_file_is_followed_over_its_rotation() {
    let folder = Folder::new();
    folder.write("kern.log", &format!("2026-11-30T00:00:00+00:00 a kernel: {FATAL}\n"));
    let path = folder.path().join("kern.log");
    run(async {
        let mut follower = reader(&folder, "kmsg", &["kern.log"]).follow(&Rules::builtin()).unwrap();
        assert!(follower.next().await.unwrap().events[0].historic);
        std::fs::rename(&path, folder.path().join("kern.log.1")).unwrap();
        folder.write(
            "kern.log",
            "2026-11-30T00:00:01+00:00 a kernel: mlx5_core 0000:3b:00.0: Got Device Reset\n",
        );
        let batch = follower.next().await.unwrap();
        assert_eq!((batch.events[0].historic, &*batch.events[0].seen.rule), (false, "mlx5-planned-reset"));
    });
}

#[test]
fn a_folder_of_rules_is_read_in_the_order_of_names() {
    let folder = Folder::new();
    folder.write("rules/b.yaml", "[]");
    folder.write("rules/a.yaml", "[]");
    folder.write("rules/note.txt", "no rule");
    let files = rule_files(&folder.path().join("rules")).unwrap();
    assert_eq!(files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a.yaml", "b.yaml"]);
    assert_eq!(Rules::with_folder(&files), Ok(Rules::builtin()));
    folder.unreadable("rules/c.yaml");
    assert_eq!(rule_files(&folder.path().join("rules")).unwrap_err().len(), 1);
    assert!(rule_files(&folder.path().join("none")).unwrap_err()[0].contains("No such file"));
}

#[test]
fn a_capture_keeps_records_as_dmesg_prints_them() {
    assert_eq!(as_dmesg("3,1234,5678901,-;mlx5_core: x\n SUBSYSTEM=pci\n"), "[    5.678901] mlx5_core: x\n");
    assert_eq!(as_dmesg("plain"), "plain\n");
}
