//! What Prometheus' own tool says of the metrics, the alert rules and their tests.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::{dashboards, samples};

fn promtool(arguments: &[&str], input: &str) {
    let mut child = Command::new("promtool")
        .args(arguments)
        .current_dir(dashboards())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("promtool cannot be run ({error}): install the package prometheus"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?}: {}\n{said}", output.status);
}

#[test]
fn metrics_of_both_roles_pass_the_linter() {
    for text in [samples::agent_text(), samples::coordinator_text(), samples::pairs_text()] {
        promtool(&["check", "metrics"], &text);
    }
}

#[test]
fn alert_rules_are_valid() {
    promtool(&["check", "rules", "alerts/rdmascope.yaml"], "");
}

#[test]
fn alerts_fire_and_stay_silent_as_their_tests_say() {
    let files = std::fs::read_dir(dashboards().join("alerts/tests")).unwrap();
    let files: Vec<String> = files
        .map(|file| file.unwrap().path().to_string_lossy().into_owned())
        .filter(|path| path.ends_with(".yaml"))
        .collect();
    assert!(files.len() > 4, "{files:?}");
    let arguments: Vec<&str> =
        ["test", "rules"].into_iter().chain(files.iter().map(String::as_str)).collect();
    promtool(&arguments, "");
}
