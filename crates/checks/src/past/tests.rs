//! Tests of the memory: wraps, resets, thinning out, and what changed.

use super::*;
use rdmascope_fixtures::snapshot::{gid, infiniband, roce};
use rdmascope_model::{PortState, Wall};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn with(counters: &[(&str, u64)]) -> Snapshot {
    let mut machine = roce(1);
    let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
    devices[0].ports[0].counters =
        counters.iter().map(|(name, v)| ((*name).to_owned(), Reading::Value(*v))).collect();
    machine
}

fn port() -> Source {
    Source::Port("mlx5_0".to_owned(), 1)
}

fn at(seconds: u64) -> Mono {
    Mono(seconds * 1_000_000_000)
}

/// Two looks at one counter, ten seconds apart.
fn twice(name: &str, before: u64, now: u64) -> Rise {
    let mut past = Past::new();
    past.observe(&with(&[(name, before)]), at(0));
    past.observe(&with(&[(name, now)]), at(10));
    past.rise(&port(), name, MINUTE)
}

#[test]
fn a_counter_ends_as_the_catalogue_says() {
    let ten = Duration::from_secs(10);
    assert_eq!(twice("port_xmit_data", 5, 12), Rise::By(7, ten));
    assert_eq!(twice("link_downed", 3, 255), Rise::Saturated(255));
    assert_eq!(twice("excessive_buffer_overrun_errors", 15, 15), Rise::Saturated(15));
    assert_eq!(twice("out_of_sequence", u64::from(u32::MAX), 4), Rise::By(5, ten));
    // 131 to 0 would be four thousand million events in ten seconds: that is no wrap.
    for name in ["local_ack_timeout_err", "port_xmit_data", "link_downed"] {
        let Rise::Unknown(why) = twice(name, 131, 0) else { panic!("{name} did not go forward") };
        assert!(why.contains("reset") && why.contains(name), "{why}");
    }
}

#[test]
fn each_way_of_not_knowing_has_its_words() {
    let words = |rise: Rise| match rise {
        Rise::Unknown(why) => why,
        known => panic!("{known:?}"),
    };
    let mut past = Past::new();
    assert!(words(past.rise(&port(), "link_downed", HOUR)).contains("nothing was seen"));
    past.observe(&with(&[("link_downed", 1)]), at(1));
    assert!(words(past.rise(&port(), "link_downed", HOUR)).contains("once"));
    assert!(words(past.rise(&port(), "symbol_error", HOUR)).contains("there is no symbol_error"));
    let mut unread = with(&[]);
    let Reading::Value(devices) = &mut unread.devices else { panic!("no devices") };
    devices[0].ports[0].counters.insert("link_downed".into(), Reading::Failed("EINVAL".into()));
    devices[0].ports[0].counters.insert("hw_counters/".into(), Reading::Failed("EACCES".into()));
    past.observe(&unread, at(2));
    assert!(words(past.rise(&port(), "link_downed", HOUR)).contains("EINVAL"));
    assert!(words(past.rise(&port(), "out_of_sequence", HOUR)).contains("EACCES"));
    past.observe(&roce(0), at(3));
    assert!(words(past.rise(&port(), "link_downed", HOUR)).contains("not there now"));
}

#[test]
fn an_unread_look_in_between_loses_nothing() {
    let mut past = Past::new();
    past.observe(&with(&[("symbol_error", 10)]), at(0));
    past.observe(&with(&[]), at(10));
    past.observe(&with(&[("symbol_error", 14)]), at(20));
    assert_eq!(past.rise(&port(), "symbol_error", MINUTE), Rise::By(4, Duration::from_secs(20)));
}

#[test]
fn a_reload_of_the_driver_drops_the_step_that_crosses_it_and_no_more() {
    let mut past = Past::new();
    let look = |resent, missing| with(&[("packet_seq_err", resent), ("out_of_sequence", missing)]);
    past.observe(&look(100, 100), at(0));
    past.observe(&look(107, 100), at(60));
    // Both went back at once: neither is a wrap.
    past.observe(&look(1, 2), at(120));
    past.observe(&look(4, 2), at(180));
    assert_eq!(past.rise(&port(), "packet_seq_err", HOUR), Rise::By(7 + 3, Duration::from_secs(180)));
    assert_eq!(past.rise(&port(), "out_of_sequence", HOUR), Rise::By(0, Duration::from_secs(180)));
}

#[test]
fn a_boot_is_a_reset_even_where_no_counter_goes_back() {
    let mut past = Past::new();
    past.observe(&with(&[("symbol_error", 5)]), at(0));
    let mut later = with(&[("symbol_error", 9)]);
    later.system.booted_at = Reading::Value(Wall(1_795_000_900_000));
    past.observe(&later, at(60));
    assert_eq!(past.rise(&port(), "symbol_error", HOUR), Rise::By(0, MINUTE));
}

#[test]
fn windows_are_told_apart_over_a_day_and_the_memory_stays_small() {
    let mut past = Past::new();
    // One event each minute; 8 ports with 60 counters each.
    let mut machine = roce(8);
    let names: Vec<String> = crate::counters::CATALOGUE
        .iter()
        .filter(|r| r.place != Place::Netdev)
        .map(|r| r.name.into())
        .collect();
    // Seldom at first: what is so old is thinned out anyway.
    let minutes = (0..24 * 60).step_by(5).chain(24 * 60..26 * 60);
    for minute in minutes {
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        for device in devices {
            device.ports[0].counters =
                names.iter().take(60).map(|name| (name.clone(), Reading::Value(minute))).collect();
        }
        past.observe(&machine, at(minute * 60));
    }
    let rise = |window| match past.rise(&port(), "port_rcv_packets", window) {
        Rise::By(count, within) => (count, within.as_secs() / 60),
        other => panic!("{other:?}"),
    };
    assert_eq!(rise(MINUTE), (1, 1));
    assert_eq!(rise(5 * MINUTE), (5, 5));
    assert!((60..=65).contains(&rise(HOUR).0), "{:?}", rise(HOUR));
    assert!((24 * 60..=25 * 60).contains(&rise(DAY).0), "{:?}", rise(DAY));
    assert_eq!(rise(DAY).0, rise(DAY).1);
    let median = past.median_rise(&port(), "port_rcv_packets").unwrap();
    assert!((median - 1.0 / 60.0).abs() < 1e-9, "{median}");
    let ports = past.tracks.iter().filter(|(source, _)| matches!(source, Source::Port(..)));
    let bytes: usize = ports.map(|(_, track)| track.bytes()).sum();
    assert!(bytes < 300_000, "{bytes}");
}

#[test]
fn two_snapshots_make_a_past() {
    let mut earlier = with(&[("symbol_error", 1)]);
    let now = with(&[("symbol_error", 31)]);
    earlier.taken_at = Wall(now.taken_at.0 - 10_000);
    let past = Past::from_two(&earlier, &now);
    assert_eq!(past.rise(&port(), "symbol_error", MINUTE), Rise::By(30, Duration::from_secs(10)));
    assert_eq!(
        past.rise(&Source::Netdev("eth0".into()), "carrier_changes", MINUTE),
        Rise::By(0, Duration::from_secs(10))
    );
    assert!(matches!(Past::from_two(&now, &earlier).rise(&port(), "symbol_error", HOUR), Rise::Unknown(_)));
}

#[test]
fn a_pci_error_that_was_not_listed_stood_at_0() {
    let mut machine = roce(1);
    let source = Source::Pci("0000:3b:00.0".into());
    let mut past = Past::new();
    past.observe(&machine, at(5));
    assert!(matches!(past.rise(&source, "correctable/BadTLP", HOUR), Rise::Unknown(_)));
    past.observe(&machine, at(10));
    assert_eq!(past.rise(&source, "correctable/BadTLP", HOUR), Rise::By(0, Duration::from_secs(5)));
    let Reading::Value(pci) = &mut machine.pci else { panic!("no PCI") };
    pci.get_mut("0000:3b:00.0").unwrap().errors =
        Reading::Value(BTreeMap::from([("correctable/BadTLP".to_owned(), 4)]));
    past.observe(&machine, at(15));
    assert_eq!(past.rise(&source, "correctable/BadTLP", HOUR), Rise::By(4, Duration::from_secs(10)));
}

#[test]
fn moves_of_gids_managers_and_firmware_are_remembered() {
    let mut past = Past::new();
    let mut machine = roce(1);
    past.observe(&machine, at(0));
    assert!(past.gid_moves("mlx5_0", 1).is_empty() && past.was_active("mlx5_0", 1));
    let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
    devices[0].firmware = Reading::Value("28.42.1000".into());
    devices[0].ports[0].state = Reading::Value(PortState::Down);
    devices[0].ports[0].gids = Reading::Value(vec![]);
    past.observe(&machine, at(1));
    let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
    devices[0].ports[0].gids = Reading::Value(vec![gid(5, "::ffff:192.0.2.1", "RoCE v2", "eth0")]);
    past.observe(&machine, at(2));
    past.observe(&machine, at(9));
    let moves = past.gid_moves("mlx5_0", 1);
    assert_eq!(moves.len(), 1);
    assert_eq!(moves[0].slots, Change { from: 3, to: 5, age: Duration::from_secs(7) });
    assert_eq!(
        past.firmware_change("mlx5_0").map(|c| (c.from, c.to)),
        Some(("28.41.1000".into(), "28.42.1000".into()))
    );
    assert!(past.was_active("mlx5_0", 1) && !past.was_active("mlx5_1", 1));

    let mut fabric = infiniband(1);
    let mut past = Past::new();
    for (seconds, lid) in [(0, 1), (1, 0), (2, 7)] {
        let Reading::Value(devices) = &mut fabric.devices else { panic!("no devices") };
        devices[0].ports[0].sm_lid = Reading::Value(lid);
        past.observe(&fabric, at(seconds));
    }
    assert_eq!(past.manager_change("mlx5_0", 1).map(|c| (c.from, c.to)), Some((1, 7)));
}
