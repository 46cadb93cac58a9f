//! The machines of public bug reports: each is judged as its report asks, and a judgement that is wrong is told.

use crate::harness::{Done, Folder, binary, finish};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cases")
}

fn cases(arguments: &[&str]) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cases"));
    command.args(arguments).env("RDMASCOPE_BIN", binary());
    finish(command)
}

#[test]
fn every_public_case_is_judged_as_its_report_asks() {
    let folder = folder();
    let done = cases(&["--json", folder.to_str().expect("a path of ASCII")]);
    let rows: Vec<Value> =
        done.out.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect();
    let wrong: Vec<&Value> = rows.iter().filter(|row| row["holds"] != true || row["seen"] == 0).collect();
    assert!(wrong.is_empty() && done.code == Some(0), "{wrong:#?}\n{}", done.err);
    let of = |unit: &str| rows.iter().filter(|row| row["unit"] == unit).count();
    assert_eq!(of("right") + of("not applicable"), 87, "every case is there");
    assert!(of("right") >= 77, "only {} are judged", of("right"));
}

/// A folder with one case of one port that is down, and what is expected of it.
fn down(expected: &str) -> (Folder, Done) {
    let folder = Folder::new();
    let case = folder.path("X001-port-down");
    fs::create_dir(&case).expect("a folder");
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    let machine =
        format!("rdmascope capture 1\n== {port}/state\n1: DOWN\n== {port}/link_layer\nInfiniBand\n");
    fs::write(case.join("machine.capture"), machine).expect("a file");
    let head = "case: X001\nkind: port_down\nsource: made up\n";
    fs::write(case.join("expect.yaml"), format!("{head}{expected}")).expect("a file");
    let done = cases(&[folder.path("").to_str().expect("a path of ASCII")]);
    (folder, done)
}

#[test]
fn what_is_missed_and_what_is_too_much_is_wrong() {
    let fail = "{id: port-state, status: fail, subject: mlx5_0/1, text: DOWN}";
    let (_folder, right) = down(&format!("applicable: true\nmust:\n  - {fail}\n"));
    assert!(right.code == Some(0) && right.out.contains("1 of 1 (100.0 %"), "{right:?}");
    let missed = "{id: port-state, status: fail, subject: mlx5_0/2}";
    let (_folder, missed) = down(&format!("applicable: true\nmust:\n  - {missed}\n"));
    assert_eq!(missed.code, Some(1), "{missed:?}");
    assert!(missed.out.contains("expected port-state fail of mlx5_0/2; seen port-state fail of mlx5_0/1"));
    let (_folder, excess) =
        down("applicable: true\nmust_not:\n  - {id: '*', status: fail, subject: mlx5_*}\n");
    assert_eq!(excess.code, Some(1), "{excess:?}");
    assert!(excess.out.contains("expected no * fail of mlx5_*; seen port-state fail"), "{excess:?}");
    let (_folder, word) =
        down("applicable: true\nmust:\n  - {id: port-state, status: fail, subject: '*', text: INIT}\n");
    assert_eq!(word.code, Some(1), "{word:?}");
}

#[test]
fn a_case_that_tests_nothing_is_no_case() {
    for (form, why) in [
        ("applicable: true\n", "`must` or `must_not`"),
        ("applicable: false\n", "`why`"),
        ("applicable: true\nmust:\n  - {id: port-state, status: fail}\n", "subject"),
        ("applicable: true\nmusst: []\n", "musst"),
    ] {
        let (_folder, done) = down(form);
        assert!(done.code == Some(1) && done.err.contains(why), "{done:?}");
    }
    // Nothing that could be judged is not everything right.
    let (_folder, none) = down("applicable: false\nwhy: needs a pair\n");
    assert_eq!(none.code, Some(1), "{none:?}");
}
