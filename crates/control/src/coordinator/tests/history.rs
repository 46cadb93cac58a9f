//! Events of agents: taken and kept, or left to them where there is no room; never acknowledged without being kept.

use super::*;
use rdmascope_link::{EventKind, NodeEvent};

fn events(numbers: std::ops::RangeInclusive<u64>) -> ToCoordinator {
    let event = |number| NodeEvent {
        number,
        at: Wall(5_000),
        kind: EventKind::StateChange,
        subject: "mlx5_0/1".to_owned(),
        id: "state".to_owned(),
        before: "ACTIVE".to_owned(),
        after: "DOWN".to_owned(),
        text: "the port went down".to_owned(),
        basis: None,
    };
    ToCoordinator::events(&numbers.map(event).collect::<Vec<_>>())
}

/// Rows that are to be kept of what an agent told, and up to where it has told then.
fn kept(actions: &[Action]) -> Vec<(usize, u64)> {
    let told = |action: &Action| match action {
        Action::Keep(rows, Some((_, taken))) => Some((rows.len(), taken.number)),
        _ => None,
    };
    actions.iter().filter_map(told).collect()
}

#[test]
fn events_that_found_no_room_are_told_again_and_nothing_after_them_is_taken_before() {
    let mut bench = Bench::apart(quiet(), 2);
    bench.frame(0, events(1..=3));
    assert_eq!(kept(&bench.take()), [(3, 3)]);
    // The shell has no room for 4 to 6.
    assert!(bench.c.leave_events(ConnectionId(0)));
    assert!(!bench.c.leave_events(ConnectionId(0)), "it is news once");
    assert!(!bench.c.leave_events(ConnectionId(9)), "nobody");
    bench.frame(0, events(7..=9));
    let actions = bench.take();
    assert_eq!(
        (kept(&actions), closes(&actions)),
        (Vec::new(), Vec::new()),
        "by 9 it would take 4 to 6 for safe"
    );
    bench.frame(1, events(1..=1));
    assert_eq!(kept(&bench.take()), [(1, 1)], "others are not concerned");
    bench.c.ask_for_events();
    bench.drain();
    assert_eq!(closes(&bench.take()), [0]);
    bench.frame(0, events(10..=10));
    assert_eq!(kept(&bench.take()), [], "the old connection is on its way out");
    bench.handle(Event::Closed(ConnectionId(0)));
    bench.take();
    bench.c.ask_for_events();
    bench.hello(7, "n0", "m0");
    bench.take();
    bench.frame(7, events(4..=10));
    assert_eq!(kept(&bench.take()), [(7, 10)], "all of them, and none is missing");
    bench.c.ask_for_events();
    bench.drain();
    assert_eq!(closes(&bench.take()), [0_u64; 0]);
}
