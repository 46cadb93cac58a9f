//! Where endpoints stand: who is believed when several tell, and that nobody is made up.

use super::*;
use rdmascope_model::{Reading, SwitchPort};

fn on(name: &str, switch: &str) -> EndpointInfo {
    let port = SwitchPort { switch: switch.to_owned(), port: Some("swp1".to_owned()) };
    EndpointInfo { switch_port: Reading::Value(port), ..endpoint(name) }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

fn node(bench: &mut Bench, connection: u64, node: &str, endpoints: Vec<EndpointInfo>) {
    bench.hello(connection, node, node);
    told(bench, connection, endpoints);
}

/// An inventory, and the time after which places are looked at again.
fn told(bench: &mut Bench, connection: u64, endpoints: Vec<EndpointInfo>) {
    bench.inventory(connection, endpoints);
    bench.pass(Duration::from_millis(500));
    bench.handle(Event::Tick);
}

/// Leaf and who says so, rail and who says so, pod.
fn place(bench: &Bench, name: &str) -> [String; 5] {
    let place = bench.c.place_names(bench.c.find_endpoint(name).unwrap());
    let text = |text: Option<&str>| text.unwrap_or("-").to_owned();
    [
        text(place.leaf),
        text(place.sources.leaf.map(LeafSource::as_str)),
        text(place.rail),
        text(place.sources.rail.map(RailSource::as_str)),
        text(place.pod),
    ]
}

#[test]
fn what_the_switch_says_goes_before_the_file_and_an_adapter_before_its_node() {
    let leaves = map(&[("a", "rack1"), ("a/d1", "rack9"), ("c/d0/1", "rack2"), ("c", "rack3")]);
    let pods = map(&[("leaf-7", "pod1"), ("rack9", "pod2")]);
    let mut bench = Bench::new(Settings { leaves, pods, ..quiet() });
    node(&mut bench, 0, "a", vec![on("a/d0/1", "leaf-7"), endpoint("a/d1/1")]);
    node(&mut bench, 1, "b", vec![endpoint("b/d0/1")]);
    node(&mut bench, 2, "c", vec![endpoint("c/d0/1"), endpoint("c/d0/2")]);
    assert_eq!(place(&bench, "a/d0"), ["leaf-7", "lldp", "-", "-", "pod1"]);
    assert_eq!(place(&bench, "a/d1"), ["rack9", "file", "-", "-", "pod2"]);
    assert_eq!(place(&bench, "b"), ["-"; 5], "nobody says anything of it");
    assert_eq!(place(&bench, "c/d0/1")[..2], ["rack2", "file"]);
    assert_eq!(place(&bench, "c/d0/2")[..2], ["rack3", "file"]);
}

#[test]
fn a_leaf_that_switch_and_file_call_by_two_names_is_one_leaf() {
    let leaves = map(&[("a", "rack1"), ("b", "rack1"), ("c", "rack2"), ("d", "rack2"), ("e", "rack2")]);
    let pods = map(&[("rack1", "pod1")]);
    let mut bench = Bench::new(Settings { leaves, pods, ..quiet() });
    node(&mut bench, 0, "a", vec![on("a/d/1", "tor-1.example.net")]);
    node(&mut bench, 1, "b", vec![endpoint("b/d/1")]);
    node(&mut bench, 2, "c", vec![on("c/d/1", "tor-2")]);
    node(&mut bench, 3, "d", vec![on("d/d/1", "tor-3")]);
    node(&mut bench, 4, "e", vec![endpoint("e/d/1")]);
    assert_eq!(place(&bench, "a"), ["tor-1.example.net", "lldp", "-", "-", "pod1"]);
    assert_eq!(place(&bench, "b"), ["tor-1.example.net", "file", "-", "-", "pod1"]);
    assert_eq!(place(&bench, "e")[0], "rack2", "two switches: the file's leaf is none of them for certain");
    let places = bench.c.places();
    assert_eq!(places.of[0].unwrap().leaf, places.of[1].unwrap().leaf);
}

#[test]
fn rails_are_the_manifests_then_the_files_then_those_of_the_pci_slots() {
    let at =
        |name: &str, address: &str| EndpointInfo { pci_address: Some(address.to_owned()), ..endpoint(name) };
    let both = |node: &str| {
        vec![at(&format!("{node}/d0/1"), "0000:3c:00.0"), at(&format!("{node}/d1/1"), "0000:1a:00.0")]
    };
    let mut bench = Bench::new(quiet());
    for (connection, name) in [(0, "a"), (1, "b"), (2, "c")] {
        node(&mut bench, connection, name, both(name));
    }
    assert_eq!(place(&bench, "a/d0")[2..4], ["2", "pci-address"]);
    assert_eq!(place(&bench, "a/d1")[2..4], ["1", "pci-address"]);
    // An adapter dies; what its node has left keeps its rail.
    told(&mut bench, 1, both("b").into_iter().take(1).collect());
    assert_eq!(place(&bench, "b/d0")[2], "2");
    let pair = [bench.c.find_endpoint("a/d1").unwrap(), bench.c.find_endpoint("c/d0").unwrap()];
    assert!(!bench.c.places().tier(pair[0], pair[1]).unwrap().same_rail);

    let mut bench = Bench::new(Settings { rails: map(&[("a/d0", "red"), ("a/d1", "blue")]), ..quiet() });
    let named = EndpointInfo { rail: Some("east".to_owned()), ..at("a/d0/1", "0000:3c:00.0") };
    node(&mut bench, 0, "a", vec![named, at("a/d1/1", "0000:1a:00.0")]);
    node(&mut bench, 1, "b", both("b"));
    assert_eq!(place(&bench, "a/d0")[2..4], ["east", "manifest"]);
    assert_eq!(place(&bench, "a/d1")[2..4], ["blue", "file"]);
    assert_eq!(place(&bench, "b/d0")[2..4], ["-", "-"], "what others are called is no order to count in");
}

#[test]
fn a_cable_that_is_moved_to_another_switch_is_seen() {
    let mut bench = Bench::new(quiet());
    node(&mut bench, 0, "a", vec![on("a/d/1", "leaf-1")]);
    assert_eq!(place(&bench, "a")[0], "leaf-1");
    told(&mut bench, 0, vec![on("a/d/1", "leaf-2")]);
    assert_eq!(place(&bench, "a")[0], "leaf-2");
}

#[test]
fn a_thousand_agents_that_come_at_once_are_not_looked_at_a_thousand_times() {
    let mut bench = Bench::new(Settings::default());
    let come = |bench: &mut Bench, connection: u64| {
        bench.hello(connection, &format!("n{connection}"), "m");
        let ports = (0..8).map(|port| on(&format!("n{connection}/d{port}/1"), "leaf-1"));
        bench.inventory(connection, ports.collect());
    };
    let placed = |bench: &Bench| bench.c.places().of.iter().flatten().count();
    (0..32).for_each(|connection| come(&mut bench, connection));
    assert_eq!(placed(&bench), 256, "few are looked at as they come");
    (32..60).for_each(|connection| come(&mut bench, connection));
    assert_eq!(placed(&bench), 256, "many wait for each other");
    let wakeup = bench.c.next_wakeup().unwrap();
    assert!(wakeup > bench.now.mono && wakeup.since(bench.now.mono) <= Duration::from_millis(500));
    bench.pass(wakeup.since(bench.now.mono));
    bench.handle(Event::Tick);
    assert_eq!(placed(&bench), 480);
    // Whoever wants to sweep does not wait for that.
    come(&mut bench, 60);
    bench.sweep(&[Metric::Latency]).unwrap();
    assert_eq!(bench.c.sweep().unwrap().endpoints, 488);
}

#[test]
fn the_worst_of_two_leaves_is_told_of_a_small_matrix_too() {
    let mut bench = Bench::new(quiet());
    node(&mut bench, 0, "a", vec![on("a/d/1", "leaf-1")]);
    node(&mut bench, 1, "b", vec![on("b/d/1", "leaf-2")]);
    bench.sweep(&[Metric::Latency]).unwrap();
    let leases = bench.take_leases();
    assert!(!leases.is_empty());
    for (connection, plan) in &leases {
        bench.report(*connection, plan, latency(1_500));
    }
    let counted = bench.c.counted(Metric::Latency, bench.now);
    for (place, names) in [&counted.nodes, &counted.leaves].into_iter().enumerate() {
        let worst: Vec<_> = counted.tally.worst[place].figures().collect();
        assert_eq!((names.len(), worst), (2, vec![(0, 1, 1_500), (1, 0, 1_500)]), "{names:?}");
    }
}
