//! `rdmascope check` on real devices: fine when they are, and naming what is wrong when they are not.

use rdmascope_tests::guest::{Endpoint, SimulatedNic, wait_until};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Exit code and everything that was printed.
fn check(endpoint: Endpoint) -> (Option<i32>, String) {
    check_device(&endpoint.device())
}

fn check_device(device: &str) -> (Option<i32>, String) {
    let program = std::env::var_os("RDMASCOPE_BIN").expect("the lab says where the binary is");
    let output = Command::new(program).args(["check", "--device", device]).output().expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[track_caller]
fn becomes(endpoint: Endpoint, code: i32, words: &[&str]) {
    wait_until(&format!("check says {code} with {words:?}"), PATIENCE, || {
        let (seen, text) = check(endpoint);
        let all = words.iter().all(|word| text.contains(word));
        if seen == Some(code) && all { Ok(()) } else { Err(format!("exit code {seen:?}: {text}")) }
    });
}

#[test]
fn a_healthy_port_is_fine_and_each_fault_is_named() {
    let endpoint = Endpoint(2);
    becomes(endpoint, 0, &[]);
    let fault = endpoint.down();
    becomes(endpoint, 2, &["port-state", "rxe2"]);
    drop(fault);
    becomes(endpoint, 0, &[]);
    let fault = endpoint.without_address();
    becomes(endpoint, 2, &["gid-usable"]);
    drop(fault);
    becomes(endpoint, 0, &[]);
    let fault = endpoint.mtu(1500);
    becomes(endpoint, 2, &["mtu", "1500"]);
    drop(fault);
    becomes(endpoint, 0, &[]);
}

#[test]
fn a_device_that_is_not_there_is_a_finding() {
    let (code, text) = check(Endpoint(99));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("rxe99"), "{text}");
}

#[test]
fn a_health_reporter_in_error_is_a_finding_and_nothing_else_is() {
    let nic = SimulatedNic::make();
    let (_, before) = check_device(nic.device);
    assert!(before.contains("[device-health]") && !before.contains("in error"), "{before}");
    nic.break_health();
    let (code, after) = check_device(nic.device);
    assert_eq!(code, Some(2), "{after}");
    let bad = |text: &str| text.lines().filter(|line| line.starts_with("FAIL")).count();
    assert_eq!(bad(&after), bad(&before) + 1, "before:\n{before}\nafter:\n{after}");
    assert!(after.contains("health reporter dummy is in error [device-health]"), "{after}");
}
