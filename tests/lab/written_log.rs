//! Lines in the kernel's log, which nothing takes back: by its name this file's test is the last of all.

use rdmascope_tests::guest::{Adapters, Cluster, endpoints, run, wait_until};
use std::time::Duration;

/// Ports that were down in earlier tests are known to be quiet after the second look at their counters.
const PATIENCE: Duration = Duration::from_secs(150);

#[test]
fn a_fault_in_the_kernel_log_is_a_finding_and_an_event_and_noise_is_neither() {
    let adapters = Adapters::dress();
    let cluster = Cluster::start(endpoints());
    let api = cluster.api();
    api.wait_usable(endpoints());
    api.wait_findings("a healthy cluster", PATIENCE, &[]);
    let fault = "mlx5_core 0000:61:00.0: wait_func:1132:(pid 141181): CREATE_DCT(0x710) timeout. Will cause a leak of a command resource";
    // What healthy machines write (published lines), and a fault that a program made up.
    adapters.log("mlx5_core 0000:12:00.0: mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot (27W).");
    adapters.log("mlx5_core 0000:12:00.1: Port module event: module 1, Cable unplugged");
    let _ = run(&format!("echo '<3>{}' > /dev/kmsg", fault.replace("0000:61", "0000:62")));
    // What a broken adapter writes.
    adapters.log(fault);
    // All agents of the lab share one kernel and its log.
    let expected: Vec<String> =
        endpoints().map(|e| format!("lab-{} fail mlx5-command-timeout pci 0000:61:00.0", e.0)).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    api.wait_findings("a command that timed out", PATIENCE, &expected);
    wait_until("the event is in the history, with its line", PATIENCE, || {
        let events = api.json("/api/v1/events?node=lab-1&kind=kernel-log")?;
        let told = events["events"].as_array().into_iter().flatten();
        let ours =
            told.filter(|event| event["text"].as_str().is_some_and(|text| text.contains("CREATE_DCT")));
        let count = ours.count();
        if count == 1 { Ok(()) } else { Err(format!("{count} events: {events}")) }
    });
}
