//! A capture judges the same as the machine that it was taken of, and tells nothing about whose it is.

use rdmascope_checks::{Look, Policy, run};
use rdmascope_fixtures::FakeHost;
use rdmascope_host::{Host, PortMtu, capture};
use rdmascope_model::{Finding, Reading, Snapshot};
use std::path::Path;
use std::time::Duration;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made")
}

fn read(host: &Host) -> Snapshot {
    runtime().block_on(host.snapshot(|_, _| PortMtu::failed("a capture must not ask the real machine")))
}

fn judged(host: &Host) -> Vec<Finding> {
    run(&Look::first(&read(host), &Policy::default()))
}

fn captured(root: &Path, pause: Duration) -> String {
    let host = Host::recording(root.to_owned()).expect("the root is there");
    runtime()
        .block_on(capture(&host, pause, |_, _| PortMtu::failed("a capture must not ask the real machine")))
}

#[track_caller]
fn judges_the_same(fake: &FakeHost) {
    let folder = Host::new(fake.root().to_owned()).expect("the root is there");
    let text = captured(fake.root(), Duration::ZERO);
    let archive = Host::from_archive(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(!archive.is_real());
    assert_eq!(judged(&archive), judged(&folder), "{text}");
}

#[test]
fn healthy_and_broken_machines_judge_the_same() {
    judges_the_same(&FakeHost::mlx5(2));
    judges_the_same(&FakeHost::rxe(3));
    let fake = FakeHost::mlx5(2);
    fake.pull_cable("mlx5_0");
    fake.set_mtu("mlx5_1", 1500, 1024);
    fake.folder().remove(&fake.netdev_file("mlx5_1", "operstate"));
    judges_the_same(&fake);
    let none = FakeHost::mlx5(1);
    none.remove_device("mlx5_0");
    judges_the_same(&none);
}

#[test]
fn errors_are_those_of_the_kernel() {
    let fake = FakeHost::mlx5(1);
    let text = captured(fake.root(), Duration::ZERO);
    let rate = fake.port_file("mlx5_0", "rate");
    // Its place in the archive is where the links of the class folder lead.
    let line = text.lines().find(|line| line.starts_with("== sys/") && line.ends_with("/ports/1/rate"));
    let place = line.unwrap_or_else(|| panic!("no {rate} in {text}")).trim_start_matches("== ");
    let rated = format!("== {place}\n{}", fake.folder().text(&rate));
    let broken = text.replace(&rated, &format!("!! {place} EINVAL\n"));
    assert_ne!(broken, text);
    let seen = read(&Host::from_archive(&broken).expect("an archive"));
    let why = seen.devices.value().unwrap()[0].ports[0].rate_bps.clone();
    assert!(matches!(&why, Reading::Failed(why) if why.contains("the driver answers EINVAL")), "{why:?}");
}

#[test]
fn two_readings_are_two_machines_with_their_times() {
    let fake = FakeHost::rxe(1);
    let now = Host::from_archive(&captured(fake.root(), Duration::ZERO)).expect("an archive");
    let before = now.earlier().expect("an earlier reading");
    assert!(before.earlier().is_none());
    let (now, before) = (read(&now), read(&before));
    assert_eq!(now.taken_at.since(before.taken_at), Duration::from_secs(60));
    let packets = |machine: &Snapshot| {
        machine.devices.value().unwrap()[0].ports[0].counters["sent_pkts"].value().copied()
    };
    assert_eq!((packets(&before), packets(&now)), (Some(10_009), Some(20_009)));
}

#[test]
fn this_machine_is_read_twice_and_its_capture_judges_the_same() {
    let text = captured(Path::new("/"), Duration::from_millis(20));
    let now = Host::from_archive(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let before = now.earlier().expect("an earlier reading");
    let (now, before) = (read(&now), read(&before));
    assert!(now.taken_at.since(before.taken_at) >= Duration::from_millis(20));
    let ids = |findings: Vec<Finding>| -> Vec<_> {
        findings.into_iter().map(|f| (f.id, f.status, f.subject)).collect()
    };
    let live = judged(&Host::here().expect("/ can be opened"));
    assert_eq!(ids(run(&Look::first(&now, &Policy::default()))), ids(live), "{text}");
}

#[test]
fn nothing_tells_whose_machine_it_is() {
    let fake = FakeHost::mlx5(1);
    fake.folder().write("proc/sys/kernel/hostname", "gpu12.corp.example\n");
    for below in ["", "rdmascope/earlier/"] {
        fake.folder().write(&format!("{below}proc/cmdline"), "root=/dev/secret iommu=pt\n");
    }
    fake.folder().write(&fake.port_file("mlx5_0", "gids/0"), "fe80:0000:0000:0000:ba3f:d2ff:fe12:3456\n");
    fake.folder().write("rdmascope/netdev/eth0/addresses", "129.132.7.9/24\nfe80::ba3f:d2ff:fe12:3456/64\n");
    let node_guid = Path::new("sys/class/infiniband/mlx5_0/node_guid").to_str().unwrap();
    fake.folder().write(node_guid, "b83f:d203:0012:3456\n");
    let text = captured(fake.root(), Duration::ZERO);
    for private in ["gpu12", "corp", "/dev/secret", "d2ff", "d203", "12:3456", "0012:3456", "129.132"] {
        assert!(!text.contains(private), "{private} in\n{text}");
    }
    assert!(text.contains("\n== sys/devices/"), "files stand where the links lead:\n{text}");
    assert!(text.contains("\n=> sys/class/infiniband/mlx5_0 -> "), "{text}");
    assert!(text.contains("28.41.1000") && text.contains("0000:3b:00.0"), "{text}");
}

#[test]
fn a_record_names_every_file_once() {
    let fake = FakeHost::rxe(1);
    let host = Host::recording(fake.root().to_owned()).expect("the root is there");
    assert!(host.opened().is_empty());
    read(&host);
    let opened = host.opened();
    assert!(opened.contains(&"sys/class/infiniband/rxe1/ports/1/state".to_owned()), "{opened:?}");
    assert!(opened.is_sorted() && opened.windows(2).all(|pair| pair[0] != pair[1]));
    let plain = Host::new(fake.root().to_owned()).expect("the root is there");
    read(&plain);
    assert!(plain.opened().is_empty());
}
