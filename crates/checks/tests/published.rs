//! Published machines through all checks at once: what must be said of them, and that nothing else is.

use rdmascope_checks::{Look, Policy, run};
use rdmascope_fixtures::snapshot::{infiniband, roce};
use rdmascope_model::{PhysState, Port, PortState, Reading, Snapshot, Status};

/// Findings above ok, `id status subject`.
fn complaints(machine: &Snapshot) -> Vec<String> {
    let policy = Policy::default();
    run(&Look::first(machine, &policy))
        .into_iter()
        .filter(|f| f.status != Status::Ok)
        .map(|f| format!("{} {} {}", f.id, f.status.as_str(), f.subject))
        .collect()
}

fn port(machine: &mut Snapshot, device: usize) -> &mut Port {
    let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
    &mut devices[device].ports[0]
}

/// C124: an H100 node; small counters stand at their end on both ports, and one of them is the count of lost links.
#[test]
fn c124_saturated_counters_of_a_node_that_works() {
    let mut machine = infiniband(2);
    // A port of 400 Gb/s needs sixteen lanes of the fifth generation.
    let Reading::Value(functions) = &mut machine.pci else { panic!("no PCI functions") };
    for function in functions.values_mut() {
        function.link.speed_mts = Reading::Value(32_000);
        function.link.speed_max_mts = Reading::Value(32_000);
    }
    for (device, lost) in [(0, 0), (1, 255)] {
        let port = port(&mut machine, device);
        port.rate_bps = Reading::Value(400_000_000_000);
        for (name, value) in [
            ("excessive_buffer_overrun_errors", 15),
            ("link_downed", lost),
            ("port_rcv_errors", 14),
            ("port_rcv_switch_relay_errors", 1),
            ("port_xmit_wait", 2_489_603_687),
        ] {
            port.counters.insert(name.to_owned(), Reading::Value(value));
        }
    }
    assert_eq!(
        complaints(&machine),
        ["link-flaps warn mlx5_1/1", "counter-saturated warn mlx5_0/1", "counter-saturated warn mlx5_1/1"]
    );
}

/// C061: one port without a link, its neighbour in INIT.
#[test]
fn c061_one_port_down_and_one_without_subnet_manager() {
    let mut machine = infiniband(2);
    let down = port(&mut machine, 0);
    down.state = Reading::Value(PortState::Down);
    down.phys_state = Reading::Value(PhysState::Polling);
    down.rate_bps = Reading::Value(10_000_000_000);
    (down.lid, down.sm_lid) = (Reading::Value(u16::MAX), Reading::Value(0));
    let init = port(&mut machine, 1);
    init.state = Reading::Value(PortState::Init);
    (init.lid, init.sm_lid) = (Reading::Value(u16::MAX), Reading::Value(0));
    assert_eq!(
        complaints(&machine),
        [
            "port-state fail mlx5_0/1",
            "port-state fail mlx5_1/1",
            "port-phys-state fail mlx5_0/1",
            "subnet-manager fail mlx5_1/1",
        ]
    );
}

/// C092 and C128: RoCE ports with LID 0, SM LID 0 and an InfiniBand rate text are healthy.
#[test]
fn c092_c128_roce_ports_look_like_sick_infiniband_ports_and_are_not() {
    assert_eq!(complaints(&roce(2)), Vec::<String>::new());
}

/// C077: a port that polls shows 10 Gb/s and an old LID; only the lost link is told.
#[test]
fn c077_a_lost_port_is_one_cause() {
    let mut machine = infiniband(3);
    let lost = port(&mut machine, 2);
    lost.state = Reading::Value(PortState::Down);
    lost.phys_state = Reading::Value(PhysState::Polling);
    lost.rate_bps = Reading::Value(10_000_000_000);
    lost.lid = Reading::Value(868);
    assert_eq!(complaints(&machine), ["port-state fail mlx5_2/1", "port-phys-state fail mlx5_2/1"]);
}

/// Issue 1 of NVSentinel's list: the second port of a card, not cabled by design, is no alarm.
#[test]
fn a_spare_port_is_quiet_without_a_manifest() {
    let mut machine = infiniband(2);
    let spare = port(&mut machine, 1);
    spare.state = Reading::Value(PortState::Down);
    spare.phys_state = Reading::Value(PhysState::Polling);
    (spare.lid, spare.sm_lid) = (Reading::Value(u16::MAX), Reading::Value(0));
    assert_eq!(complaints(&machine), Vec::<String>::new());
}
