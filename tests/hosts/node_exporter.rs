//! What another exporter reads from the same files, value by value: a second opinion on our own `/metrics`.

use super::{Judged, judged, metrics_text};
use rdmascope_checks::Policy;
use rdmascope_fixtures::hosts;
use rdmascope_tests::guest::{Api, Program, wait_until};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// As Debian installs it.
const PROGRAM: &str = "/usr/bin/prometheus-node-exporter";

/// Families of a port that both have, under their names and ours. Both give bytes where the kernel counts words of 4 bytes.
const PORT_FAMILIES: [(&str, &str); 14] = [
    ("node_infiniband_port_data_received_bytes_total", "rdmascope_port_data_received_bytes_total"),
    ("node_infiniband_port_data_transmitted_bytes_total", "rdmascope_port_data_transmitted_bytes_total"),
    ("node_infiniband_port_packets_received_total", "rdmascope_port_packets_received_total"),
    ("node_infiniband_port_packets_transmitted_total", "rdmascope_port_packets_transmitted_total"),
    ("node_infiniband_port_transmit_wait_total", "rdmascope_port_transmit_wait_total"),
    ("node_infiniband_port_discards_transmitted_total", "rdmascope_port_discards_transmitted_total"),
    ("node_infiniband_port_errors_received_total", "rdmascope_port_errors_received_total"),
    (
        "node_infiniband_port_receive_remote_physical_errors_total",
        "rdmascope_port_receive_remote_physical_errors_total",
    ),
    ("node_infiniband_symbol_error_total", "rdmascope_port_symbol_errors_total"),
    ("node_infiniband_link_downed_total", "rdmascope_port_link_downed_total"),
    ("node_infiniband_link_error_recovery_total", "rdmascope_port_link_error_recoveries_total"),
    ("node_infiniband_local_link_integrity_errors_total", "rdmascope_port_local_link_integrity_errors_total"),
    (
        "node_infiniband_excessive_buffer_overrun_errors_total",
        "rdmascope_port_excessive_buffer_overrun_errors_total",
    ),
    ("node_infiniband_rate_bytes_per_second", "rdmascope_port_rate_bytes_per_second"),
];

/// Their number of a state, and our family and word for it.
const STATES: [(&str, u8, &str, &str); 6] = [
    ("node_infiniband_state_id", 1, "rdmascope_port_state", "down"),
    ("node_infiniband_state_id", 2, "rdmascope_port_state", "init"),
    ("node_infiniband_state_id", 4, "rdmascope_port_state", "active"),
    ("node_infiniband_physical_state_id", 2, "rdmascope_port_physical_state", "polling"),
    ("node_infiniband_physical_state_id", 3, "rdmascope_port_physical_state", "disabled"),
    ("node_infiniband_physical_state_id", 5, "rdmascope_port_physical_state", "link_up"),
];

/// Families that they have and we do not, each with the reason.
const NOT_OURS: [(&str, &str); 8] = [
    ("node_infiniband_legacy_", "counters_ext/ of kernels before 4.5, the same again with 64 bits"),
    ("node_infiniband_multicast_packets_", "no check needs it, and it tells nothing about health"),
    ("node_infiniband_unicast_packets_", "the same as all packets, on every port without multicast"),
    (
        "node_infiniband_port_constraint_errors_",
        "judged by the check port-errors; a rare fault of partitions",
    ),
    ("node_infiniband_port_receive_switch_relay_errors_", "counted by switches; an adapter relays nothing"),
    ("node_infiniband_port_discards_received_", "a counter of one old driver"),
    ("node_infiniband_vl15_dropped_", "judged by the check port-errors; a fault of management traffic"),
    ("node_infiniband_info", "compared as labels of rdmascope_port_info"),
];

/// Machines of which version 1.5 of theirs says nothing, since one missing file costs its whole collector; we show what is there.
const THEIRS_FAILS: [(&str, &str); 8] = [
    ("bnxt_re", "no folder counters/"),
    ("efa", "no folder counters/"),
    ("irdma", "no folder counters/"),
    ("soft-roce", "no folder counters/"),
    ("mlx5-container", "no folder counters/ outside the first network namespace"),
    ("mlx5-sriov", "no folder counters/ on virtual functions"),
    ("mlx5-sriov-zero-guid", "no folder counters/ on virtual functions"),
    ("qib", "no file fw_ver"),
];

/// One sample: family, and labels by name.
type Sample = (String, BTreeMap<String, String>);
type Samples = BTreeMap<Sample, f64>;

fn samples(text: &str) -> Samples {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| sample(line).unwrap_or_else(|| panic!("no sample: {line}"))).collect()
}

/// A line of the text format; no label here has a quote or a comma with a quote in it.
fn sample(line: &str) -> Option<(Sample, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (family, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.strip_suffix('}')?.trim_end_matches(',');
    let parts = labels.split("\",").filter(|part| !part.is_empty());
    let pair =
        |part: &str| part.split_once("=\"").map(|(k, v)| (k.to_owned(), v.trim_end_matches('"').to_owned()));
    Some(((family.to_owned(), parts.map(pair).collect::<Option<_>>()?), value.parse().ok()?))
}

/// All that node_exporter says of the machine in a folder.
fn theirs(root: &Path) -> Samples {
    assert!(
        Path::new(PROGRAM).is_file(),
        "{PROGRAM} is not there: install Debian's package prometheus-node-exporter (`cargo xtask install`, or `apt-get install \
         --no-install-recommends prometheus-node-exporter`)"
    );
    let mut command = Command::new(PROGRAM);
    command.arg("--web.listen-address=127.0.0.1:0").args(["--collector.disable-defaults"]);
    // Its collector netdev asks the kernel that it runs on, whatever folder it is given; netclass reads the folder.
    command.args(["--collector.infiniband", "--collector.netclass"]);
    for (flag, folder) in [("--path.sysfs", "sys"), ("--path.procfs", "proc")] {
        command.arg(format!("{flag}={}", root.join(folder).display()));
    }
    let program = Program::start("node_exporter", &mut command, &root.join("node_exporter.log"));
    let patience = Duration::from_secs(60);
    let address = wait_until("node_exporter listens", patience, || {
        let printed = program.printed();
        let line = printed.lines().find(|line| line.contains("\"Listening on\""));
        let address =
            line.and_then(|line| line.rsplit_once("address=")).map(|(_, address)| address.to_owned());
        address.ok_or(printed)
    });
    let answer = wait_until("node_exporter answers", patience, || Api::new(&address, None).get("/metrics"));
    samples(&answer.text)
}

fn port(labels: &BTreeMap<String, String>) -> String {
    format!("{}/{}", labels["device"], labels["port"])
}

/// Values of both sides under one name, such as `mlx5_0/1 rdmascope_port_link_downed_total`.
fn common(theirs: &Samples, ours: &Samples) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut left, mut right) = (BTreeMap::new(), BTreeMap::new());
    for ((family, labels), value) in theirs {
        if let Some((_, our)) = PORT_FAMILIES.iter().find(|(their, _)| their == family) {
            left.insert(format!("{} {our}", port(labels)), value.to_string());
        } else if let Some((.., our, word)) =
            STATES.iter().find(|(their, id, ..)| their == family && f64::from(*id) == *value)
        {
            left.insert(format!("{} {our}", port(labels)), (*word).to_owned());
        } else if family == "node_infiniband_info" {
            left.insert(format!("{} firmware", labels["device"]), labels["firmware_version"].clone());
            left.insert(format!("{} board", labels["device"]), labels["board_id"].clone());
        }
    }
    for ((family, labels), value) in ours {
        if PORT_FAMILIES.iter().any(|(_, our)| our == family) {
            right.insert(format!("{} {family}", port(labels)), value.to_string());
        } else if STATES.iter().any(|(.., our, _)| our == family) && *value == 1.0 {
            right.insert(format!("{} {family}", port(labels)), labels["state"].clone());
        } else if family == "rdmascope_port_info" {
            let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
            right.insert(format!("{} firmware", labels["device"]), label("firmware"));
            right.insert(format!("{} board", labels["device"]), label("board"));
        }
    }
    (left, right)
}

/// Network devices under RDMA ports: MTU and carrier changes, theirs and ours under the port's name.
fn of_netdevs(theirs: &Samples, ours: &Samples) -> Vec<(String, Option<f64>, Option<f64>)> {
    let mut found = Vec::new();
    for (_, labels) in ours.keys().filter(|(family, _)| family == "rdmascope_port_info") {
        let Some(netdev) = labels.get("netdev").filter(|name| !name.is_empty()) else { continue };
        for (their, our, kind) in [
            ("node_network_mtu_bytes", "rdmascope_port_mtu_bytes", Some("netdev")),
            ("node_network_carrier_changes_total", "rdmascope_port_carrier_changes_total", None),
        ] {
            let with = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
                pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
            };
            let mut our_labels = with(&[("device", &labels["device"]), ("port", &labels["port"])]);
            our_labels.extend(kind.map(|kind| ("kind".to_owned(), kind.to_owned())));
            let left = theirs.get(&(their.to_owned(), with(&[("device", netdev)]))).copied();
            let right = ours.get(&(our.to_owned(), our_labels)).copied();
            found.push((format!("{} {our}", port(labels)), left, right));
        }
    }
    found
}

/// Everything that differs, in words, and how many values were the same.
fn compare(name: &str, theirs: &Samples, ours: &Samples) -> (Vec<String>, usize) {
    let (mut wrong, mut same) = (Vec::new(), 0);
    let known = |family: &str| {
        PORT_FAMILIES.iter().any(|(their, _)| *their == family)
            || STATES.iter().any(|(their, ..)| *their == family)
            || NOT_OURS.iter().any(|(start, _)| family.starts_with(start))
    };
    let families = theirs.keys().map(|(family, _)| family).filter(|f| f.starts_with("node_infiniband_"));
    for family in families.filter(|family| !known(family)) {
        wrong.push(format!("{name}: {family} stands in no table here"));
    }
    let (left, right) = common(theirs, ours);
    let fails = THEIRS_FAILS.iter().any(|(host, _)| *host == name);
    // A later version of theirs may see more.
    if left.is_empty() && !fails {
        wrong.push(format!("{name}: they have no value of RDMA, and THEIRS_FAILS does not say so"));
    }
    for (key, value) in &left {
        match right.get(key) {
            Some(our) if our == value => same += 1,
            our => wrong.push(format!("{name}: {key}: they say {value}, we say {our:?}")),
        }
    }
    for (key, value) in right.iter().filter(|(key, _)| !fails && !left.contains_key(*key)) {
        wrong.push(format!("{name}: {key}: they say nothing, we say {value}"));
    }
    for (key, their, our) in of_netdevs(theirs, ours) {
        if their.is_some() && their == our {
            same += 1;
        } else {
            wrong.push(format!("{name}: {key}: they say {their:?}, we say {our:?}"));
        }
    }
    (wrong, same)
}

#[test]
fn every_value_that_node_exporter_has_too_is_the_same() {
    let (mut wrong, mut same) = (Vec::new(), 0);
    for (name, machine) in hosts::all() {
        let folder = machine.folder();
        let theirs = theirs(folder.path());
        let judged: Judged = judged(&machine.capture(), &Policy::default());
        let found = compare(name, &theirs, &samples(&metrics_text(&judged)));
        wrong.extend(found.0);
        same += found.1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Eight ports of 400 Gb/s alone have 16 values each.
    assert!(same > 500, "only {same} values were compared");
}

#[test]
fn a_value_that_differs_is_seen() {
    let machine = hosts::all().into_iter().find(|(name, _)| *name == "mlx5-roce").expect("it is there").1;
    let ours = samples(&metrics_text(&judged(&machine.capture(), &Policy::default())));
    let folder = machine.folder();
    let base = "sys/class/infiniband/mlx5_3/ports/1";
    folder.write(&format!("{base}/counters/port_rcv_errors"), "15\n");
    folder.write(&format!("{base}/state"), "1: DOWN\n");
    folder.write("sys/class/net/eth7/mtu", "1500\n");
    let (wrong, _) = compare("mlx5-roce", &theirs(folder.path()), &ours);
    assert_eq!(
        wrong,
        [
            "mlx5-roce: mlx5_3/1 rdmascope_port_errors_received_total: they say 15, we say Some(\"14\")",
            "mlx5-roce: mlx5_3/1 rdmascope_port_state: they say down, we say Some(\"active\")",
            "mlx5-roce: mlx5_7/1 rdmascope_port_mtu_bytes: they say Some(1500.0), we say Some(9000.0)",
        ]
    );
}
