//! The lab itself is sound: what other tests build on is there, seen with tools that are not ours.

use rdmascope_tests::guest::{Endpoint, Program, endpoints, run, wait_for_listener, wait_until};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// TCP port on which perftest's two ends find each other.
const PERFTEST_PORT: u16 = 18515;

#[test]
fn perftest_measures_a_thousand_writes_between_two_endpoints() {
    let (from, to) = (Endpoint(1), Endpoint(2));
    // -U prints every sample.
    let arguments = ["-s", "8", "-n", "1000", "-U"];
    let mut server = Command::new("ib_write_lat");
    server.args(["-d", &to.device()]).args(arguments);
    let log = Path::new("/tmp/ib_write_lat.log");
    let mut server = Program::start("ib_write_lat (server)", &mut server, log);
    wait_for_listener(PERFTEST_PORT);
    let line =
        format!("timeout 60 ib_write_lat -d {} {} {}", from.device(), arguments.join(" "), to.address());
    let output = run(&line);
    // "1, 24.51": the sample's number and half its round trip in microseconds.
    let samples: Vec<f64> = output
        .lines()
        .filter_map(|line| line.split_once(", "))
        .filter_map(|(number, value)| number.trim().parse::<u32>().ok().and(value.trim().parse().ok()))
        .collect();
    // The first of n round trips has no predecessor to be measured from.
    assert!((999..=1000).contains(&samples.len()), "{} samples in:\n{output}", samples.len());
    assert!(samples.iter().all(|microseconds| *microseconds > 0.0), "{output}");
    wait_until("the server ends by itself", PATIENCE, || server.ended().ok_or_else(|| "runs".to_owned()));
}

#[test]
fn every_endpoint_is_active_with_the_full_mtu() {
    for endpoint in endpoints() {
        assert!(endpoint.is_active(), "{endpoint:?}");
        assert_eq!(active_mtu(endpoint).as_deref(), Some("4096"), "{endpoint:?}");
    }
}

#[test]
fn a_port_that_is_taken_down_is_down_for_rdma_and_comes_back() {
    let endpoint = Endpoint(3);
    let fault = endpoint.down();
    wait_until("the port is down", PATIENCE, || {
        if endpoint.is_active() { Err(state(endpoint)) } else { Ok(()) }
    });
    assert!(Endpoint(4).is_active(), "its neighbour is not touched");
    drop(fault);
    wait_until(
        "the port is up",
        PATIENCE,
        || if endpoint.is_active() { Ok(()) } else { Err(state(endpoint)) },
    );
    // The way to others is back too, through the port itself.
    let _ = run(&format!("busybox ping -q -c 1 -W 10 -I {} {}", endpoint.port(), Endpoint(4).address()));
}

#[test]
fn a_smaller_netdev_mtu_lowers_the_active_mtu_of_that_side_alone() {
    let endpoint = Endpoint(2);
    let fault = endpoint.mtu(1500);
    // The largest RDMA MTU whose packet, with its headers, fits into 1500 bytes.
    wait_until("the MTU is lowered", PATIENCE, || is_mtu(endpoint, "1024"));
    assert_eq!(active_mtu(Endpoint(1)).as_deref(), Some("4096"));
    drop(fault);
    wait_until("the MTU is restored", PATIENCE, || is_mtu(endpoint, "4096"));
}

#[test]
fn a_removed_device_is_gone_and_comes_back_active() {
    let endpoint = Endpoint(4);
    let fault = endpoint.remove_device();
    assert_eq!(endpoint.sysfs("state"), None);
    drop(fault);
    wait_until("it is back", PATIENCE, || if endpoint.is_active() { Ok(()) } else { Err(state(endpoint)) });
}

fn state(endpoint: Endpoint) -> String {
    format!("the state of {endpoint:?} is {:?}", endpoint.sysfs("state"))
}

/// The active MTU in bytes, from the reference tool: sysfs does not have it.
fn active_mtu(endpoint: Endpoint) -> Option<String> {
    // "active_mtu:		4096 (5)"
    let output = run(&format!("ibv_devinfo -d {}", endpoint.device()));
    let line = output.lines().find(|line| line.trim().starts_with("active_mtu:"))?;
    line.split_whitespace().nth(1).map(str::to_owned)
}

fn is_mtu(endpoint: Endpoint, wanted: &str) -> Result<(), String> {
    let seen = active_mtu(endpoint);
    if seen.as_deref() == Some(wanted) { Ok(()) } else { Err(format!("the active MTU is {seen:?}")) }
}
