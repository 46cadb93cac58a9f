//! One machine, looked at: captures that judge the same, what callers get, and what a finding means.

use crate::harness::{Folder, run};
use rdmascope_fixtures::FakeHost;
use serde_json::Value;
use std::fs;

fn root(machine: &FakeHost) -> &str {
    machine.root().to_str().expect("a path of ASCII")
}

/// Two devices, one of them without a cable.
fn broken() -> FakeHost {
    let machine = FakeHost::mlx5(2);
    machine.pull_cable("mlx5_1");
    machine
}

#[test]
fn a_capture_judges_like_the_machine_and_hides_whose_it_is() {
    let (machine, folder) = (broken(), Folder::new());
    machine.folder().write("proc/sys/kernel/hostname", "gpu12\n");
    machine.folder().write("sys/class/infiniband/mlx5_0/node_guid", "b83f:d203:0012:3456\n");
    let file = folder.path("a.capture").to_str().expect("a path of ASCII").to_owned();
    let taken = run(&["capture", "--root", root(&machine), "--seconds", "1", "--output", &file]);
    assert_eq!((taken.code, taken.out.as_str(), taken.err.as_str()), (Some(0), "", ""));
    let text = fs::read_to_string(&file).expect("a capture");
    assert!(text.starts_with("rdmascope capture 1\n"), "{text}");
    assert!(text.contains("\n== rdmascope/earlier/rdmascope/taken_at\n"), "{text}");
    assert!(!text.contains("gpu12") && !text.contains("0012:3456"), "{text}");
    for flags in [["--all"].as_slice(), &["--json"], &["--exit-style", "slurm"], &["--device", "mlx5_1"]] {
        let there = run(&[["check", "--root", root(&machine)].as_slice(), flags].concat());
        let here = run(&[["check", "--capture", &file].as_slice(), flags].concat());
        // When it was taken is all that may differ.
        let said =
            |text: &str| text.lines().filter(|l| !l.contains("\"taken_at\"")).map(str::to_owned).collect();
        let (there_said, here_said): (Vec<String>, Vec<String>) = (said(&there.out), said(&here.out));
        assert_eq!(here_said, there_said, "{flags:?}");
        assert_eq!(here.code, there.code, "{flags:?}");
        assert_ne!(there.code, Some(0), "{flags:?}");
    }
    // What is there is not written over.
    let again = run(&["capture", "--root", root(&machine), "--seconds", "0", "--output", &file]);
    assert!(again.code == Some(1) && again.err.contains(&file), "{again:?}");
    assert_eq!(fs::read_to_string(&file).expect("a capture"), text);
}

#[test]
fn a_bad_capture_is_told_line_by_line_and_is_no_failed_node() {
    let folder = Folder::new();
    let file = folder.file("bad.capture", "rdmascope capture 1\n=> a\n== /b\n");
    let done = run(&["check", "--capture", &file]);
    assert_eq!(done.code, Some(3), "{done:?}");
    assert!(done.err.contains("line 2: ") && done.err.contains("line 3: "), "{}", done.err);
    assert_eq!(run(&["check", "--capture", &file, "--root", "/"]).code, Some(3));
    assert_eq!(run(&["check", "--capture", "/no/such.capture"]).code, Some(3));
    assert_eq!(run(&["check", "--config", "/no/such.yaml", "--root", "/"]).code, Some(3));
    // Callers with codes of their own get theirs, and the reason where they read it.
    let npd = run(&["check", "--capture", &file, "--exit-style", "npd"]);
    assert_eq!((npd.code, npd.err.as_str()), (Some(2), ""), "{npd:?}");
    assert!(npd.out.contains("bad.capture") || npd.out.len() == 81, "{npd:?}");
    assert_eq!(run(&["check", "--capture", &file, "--exit-style", "slurm"]).code, Some(1));
}

#[test]
fn schedulers_get_their_codes_and_no_more_than_they_can_keep() {
    let (machine, fine) = (broken(), FakeHost::mlx5(1));
    let style =
        |machine: &FakeHost, style: &str| run(&["check", "--root", root(machine), "--exit-style", style]);
    let npd = style(&machine, "npd");
    assert_eq!(npd.code, Some(1), "{npd:?}");
    assert!(npd.out.lines().count() == 1 && npd.out.trim_end().len() <= 80, "{npd:?}");
    assert!(npd.out.contains("mlx5_1"), "{npd:?}");
    let slurm = style(&machine, "slurm");
    assert_eq!((slurm.code, slurm.out.lines().count()), (Some(1), 3), "{slurm:?}");
    assert!(slurm.out.lines().all(|line| line.starts_with("rdmascope: FAIL ")), "{slurm:?}");
    assert_eq!(style(&fine, "npd").code, Some(0));
    assert_eq!((style(&fine, "slurm").code, style(&fine, "slurm").out.as_str()), (Some(0), ""));
    let unread = FakeHost::mlx5(1);
    unread.folder().unreadable(&unread.port_file("mlx5_0", "rate"));
    assert_eq!((style(&unread, "npd").code, style(&unread, "slurm").code), (Some(2), Some(1)));
}

#[test]
fn what_is_fine_is_folded_unless_all_is_wanted() {
    let machine = FakeHost::mlx5(2);
    let folded = run(&["check", "--root", root(&machine)]);
    assert!(folded.out.contains("OK      mlx5_0/1, mlx5_1/1 [port-state]\n"), "{}", folded.out);
    let all = run(&["check", "--root", root(&machine), "--all"]);
    assert!(all.out.contains("OK      mlx5_1/1: ") && all.out.lines().count() > folded.out.lines().count());
    let counts = |text: &str| text.lines().last().map(str::to_owned);
    assert_eq!(counts(&folded.out), counts(&all.out));
}

#[test]
fn what_cannot_be_seen_is_said_with_what_it_takes() {
    let machine = FakeHost::mlx5(1);
    let seen = run(&["check", "--root", root(&machine), "--what-i-can-see"]);
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let row =
        |what: &str| seen.out.lines().find(|line| line.starts_with(what)).unwrap_or_default().to_owned();
    assert!(row("verbs devices").contains("  seen "), "{}", seen.out);
    for (what, needs) in [("ACS control registers", "CAP_SYS_ADMIN"), ("owners of queue pairs", "hostPID")] {
        assert!(row(what).contains(needs), "{}", seen.out);
    }
    let json = run(&["check", "--root", root(&machine), "--json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    let blind = json["could_not_look"].as_array().expect("a list");
    assert_eq!(blind.len(), seen.out.matches("  not seen ").count(), "{json}");
    assert!(blind.iter().all(|spot| spot["why"] != "" && spot["needs"] != ""), "{json}");
}

#[test]
fn every_file_that_is_opened_can_be_listed() {
    let machine = FakeHost::rxe(1);
    let audit = run(&["check", "--root", root(&machine), "--self-audit"]);
    assert_eq!(audit.code, Some(0), "{audit:?}");
    assert!(audit.out.contains("\n/sys/class/infiniband/rxe1/ports/1/state\n"), "{}", audit.out);
    let listed = audit.out.lines().filter(|line| line.starts_with('/')).count();
    assert!(audit.out.contains(&format!("\n{listed} files and folders.")), "{}", audit.out);
}

#[test]
fn each_finding_can_be_explained_by_its_id() {
    let machine = broken();
    let json = run(&["check", "--root", root(&machine), "--json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    for finding in json["findings"].as_array().expect("a list") {
        let id = finding["id"].as_str().expect("an id");
        let page = run(&["explain", id]);
        assert_eq!(page.code, Some(0), "{page:?}");
        assert!(
            page.out.starts_with(&format!("# {id}\n")) && page.out.contains("\n## What to do\n"),
            "{page:?}"
        );
    }
    let wrong = run(&["explain", "port-sate"]);
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(64), ""), "{wrong:?}");
    assert!(wrong.err.contains("did you mean port-state"), "{wrong:?}");
}

#[test]
fn a_textfile_for_node_exporter_is_whole_or_not_there() {
    let (machine, folder) = (broken(), Folder::new());
    let into = folder.path("textfiles");
    fs::create_dir(&into).expect("a folder");
    let into = into.to_str().expect("a path of ASCII");
    let done = run(&["check", "--root", root(&machine), "--textfile", into]);
    assert_eq!(
        (done.code, done.out.as_str(), done.err.as_str()),
        (Some(0), "", ""),
        "what it found is in the file"
    );
    let files: Vec<_> =
        fs::read_dir(into).expect("a folder").map(|file| file.expect("a file").file_name()).collect();
    assert_eq!(files, ["rdmascope.prom"], "nothing is left beside it");
    let text = fs::read_to_string(folder.path("textfiles/rdmascope.prom")).expect("a text");
    for line in [
        r#"rdmascope_port_up{device="mlx5_0",port="1"} 1"#,
        r#"rdmascope_port_up{device="mlx5_1",port="1"} 0"#,
        r#"rdmascope_check_status{check="port-state",status="fail"} 1"#,
        r#"rdmascope_finding{check="port-state",subject="mlx5_1/1",status="fail"} 1"#,
    ] {
        assert!(text.lines().any(|there| there == line), "no {line} in {text}");
    }
    assert!(text.contains(r#"role="check"} 1"#) && !text.contains("rdmascope_uplink_connected"), "{text}");
    let missing = run(&["check", "--root", root(&machine), "--textfile", "/no/such/folder"]);
    assert!(missing.code == Some(3) && missing.err.contains("/no/such/folder"), "{missing:?}");
}
