//! A machine of files that changes between two looks.

use super::*;
use crate::PortMtu;
use rdmascope_fixtures::FakeHost;
use rdmascope_model::{Port, Reading};

struct Bench {
    fake: FakeHost,
    host: Host,
    mtu_of: Arc<MtuOf>,
    snapshot: Snapshot,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    fn new(ports: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let fake = FakeHost::mlx5(ports);
        let host = Host::new(fake.root().to_owned()).unwrap();
        let mtu_of: Arc<MtuOf> = Arc::new(|_, _| PortMtu::failed("a capture has it in files"));
        let snapshot = runtime.block_on(host.everything(&mtu_of));
        Self { fake, host, mtu_of, snapshot, runtime }
    }

    fn refresh(&mut self, tier: Tier) -> bool {
        let fresh = self.runtime.block_on(self.host.refresh(&self.snapshot, tier, &self.mtu_of));
        fresh.apply(&mut self.snapshot)
    }

    fn port(&self, device: usize) -> &Port {
        &self.snapshot.devices.value().unwrap()[device].ports[0]
    }
}

#[test]
fn nothing_has_changed_on_a_machine_at_rest() {
    let mut bench = Bench::new(2);
    let before = Snapshot { taken_at: Wall(0), ..bench.snapshot.clone() };
    for tier in Tier::ALL {
        assert!(!bench.refresh(tier), "{tier:?}");
    }
    assert_eq!(Snapshot { taken_at: Wall(0), ..bench.snapshot }, before);
}

#[test]
fn a_pulled_cable_is_seen_by_the_cheapest_look() {
    let mut bench = Bench::new(8);
    bench.fake.pull_cable("mlx5_3");
    let reads = bench.host.reads();
    assert!(bench.refresh(Tier::State));
    // State, bytes sent, bytes received.
    assert_eq!(bench.host.reads() - reads, 8 * 3);
    assert_eq!(bench.port(3).state, Reading::Value(PortState::Down));
    assert_eq!(bench.port(2).state, Reading::Value(PortState::Active));
    assert!(!bench.refresh(Tier::State), "seen once");
}

#[test]
fn counters_and_links_are_taken_over_and_slow_readings_stay() {
    let mut bench = Bench::new(2);
    let statistics = Reading::Value(BTreeMap::from([("rx_prio3_pause".to_owned(), 7)]));
    let Reading::Value(netdevs) = &mut bench.snapshot.netdevs else { panic!("no netdevs") };
    let name = netdevs.keys().next().unwrap().clone();
    netdevs.get_mut(&name).unwrap().statistics = statistics.clone();
    let file = bench.fake.port_file("mlx5_1", "hw_counters/packet_seq_err");
    bench.fake.folder().write(&file, "41\n");
    bench.fake.folder().write(&bench.fake.netdev_file("mlx5_0", "carrier_changes"), "9\n");
    assert!(bench.refresh(Tier::Counters));
    assert_eq!(bench.port(1).counters["packet_seq_err"], Reading::Value(41));
    let of_first = bench.port(0).netdev.value().unwrap();
    let netdevs = bench.snapshot.netdevs.value().unwrap();
    assert_eq!(netdevs[of_first].carrier_changes, Reading::Value(9));
    assert_eq!(netdevs[&name].statistics, statistics);
}

#[test]
fn a_device_that_goes_is_seen_by_the_look_after_an_event() {
    let mut bench = Bench::new(2);
    bench.fake.remove_device("mlx5_0");
    assert!(bench.refresh(Tier::Event));
    let names: Vec<_> = bench.snapshot.devices.value().unwrap().iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["mlx5_1"]);
}

#[test]
fn a_device_whose_last_reading_is_stuck_is_unknown_and_the_others_are_seen() {
    let mut bench = Bench::new(2);
    let key = STATE_ALONE.to_owned() + "mlx5_0";
    bench.host.reading.lock().unwrap().insert(key.clone());
    bench.fake.pull_cable("mlx5_1");
    assert!(bench.refresh(Tier::State));
    assert!(matches!(&bench.port(0).state, Reading::Failed(why) if why.contains("still stuck")));
    assert_eq!(bench.port(1).state, Reading::Value(PortState::Down));
    bench.refresh(Tier::Counters);
    assert!(
        bench.port(0).counters["packet_seq_err"].value().is_some(),
        "the other tiers have a key of their own"
    );
    bench.host.reading.lock().unwrap().remove(&key);
    assert!(bench.refresh(Tier::State));
    assert_eq!(bench.port(0).state, Reading::Value(PortState::Active));
}

#[test]
fn a_device_that_is_late_once_is_left_as_it_was() {
    let mut bench = Bench::new(1);
    let fresh = Fresh { at: Wall(1), part: Part::States(BTreeMap::new()) };
    assert!(!fresh.apply(&mut bench.snapshot));
    assert_eq!(bench.port(0).state, Reading::Value(PortState::Active));
}
