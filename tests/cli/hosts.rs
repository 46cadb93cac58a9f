//! What `rdmascope check --capture` prints of two captured machines, word by word, as people have read it.

use crate::harness::run;
use std::fs;
use std::path::Path;

/// Compares the command's text with the machine's `check.txt`; `UPDATE_GOLDEN=1` writes it.
#[track_caller]
fn prints_as_read(name: &str, flags: &[&str], code: i32) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts").join(name);
    let path = |file: &str| folder.join(file).to_str().expect("a path of ASCII").to_owned();
    let flags: Vec<String> = flags
        .iter()
        .map(|flag| if flag.starts_with("--") { (*flag).to_owned() } else { path(flag) })
        .collect();
    let capture = path("machine.capture");
    let flags = flags.iter().map(String::as_str);
    let done = run(&["check", "--capture", &capture].into_iter().chain(flags).collect::<Vec<_>>());
    assert_eq!((done.code, done.err.as_str()), (Some(code), ""), "{done:?}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path("check.txt"), &done.out).expect("the file can be written");
    }
    let golden = fs::read_to_string(path("check.txt")).expect("a golden file");
    for (line, (read, now)) in golden.lines().zip(done.out.lines()).enumerate() {
        assert_eq!(now, read, "{name}/check.txt, line {}: read it, then UPDATE_GOLDEN=1", line + 1);
    }
    assert_eq!(done.out.lines().count(), golden.lines().count(), "{}", done.out);
}

#[test]
fn a_healthy_machine_in_words() {
    prints_as_read("mlx5-roce", &[], 0);
}

#[test]
fn a_broken_machine_in_words() {
    prints_as_read("mlx5-roce-broken", &["--config", "config.yaml"], 2);
}
