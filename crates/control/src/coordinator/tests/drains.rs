//! Who may be drained: the count over the cluster, and what is never a reason.

use super::*;
use rdmascope_link::{DrainAnswer, DrainFault};

const ID: &str = "port-phys-state";
const SUBJECT: &str = "mlx5_0/1";

fn finding() -> FindingBrief {
    FindingBrief {
        id: ID.to_owned(),
        status: rdmascope_model::Status::Fail,
        subject: SUBJECT.to_owned(),
        summary: "the physical link is not up: Disabled".to_owned(),
        cause: String::new(),
        next_step: String::new(),
        evidence: Vec::new(),
        settling: false,
        since: Wall(1),
        latched: false,
    }
}

impl Bench {
    fn tells(&mut self, node: u64, findings: Vec<FindingBrief>) {
        self.frame(node, ToCoordinator::inventory(vec![endpoint(&format!("n{node}/d/1"))], findings));
    }

    /// What the coordinator answers a node that asks for its fault.
    fn ask(&mut self, node: u64) -> DrainAnswer {
        self.take();
        let drain_for = vec![DrainFault { id: ID.to_owned(), subject: SUBJECT.to_owned() }];
        self.frame(node, ToCoordinator::Heartbeat { pause: PauseFlags::default(), drain_for });
        let answer = self.take().into_iter().find_map(|action| match action {
            Action::Send(to, ToAgent::HeartbeatReply { drain, .. }) if to == ConnectionId(node) => drain,
            _ => None,
        });
        answer.expect("an answer to the node that asked")
    }

    fn leave(&mut self, node: u64) -> bool {
        self.ask(node).leave
    }

    /// Heartbeats of all, so that nobody counts as dead.
    fn pass_alive(&mut self, nodes: u64, minutes: u64) {
        for _ in 0..minutes * 6 {
            self.pass(Duration::from_secs(10));
            (0..nodes).for_each(|node| self.frame(node, ToCoordinator::heartbeat(PauseFlags::default())));
        }
        self.take();
    }

    fn leaves_in_history(&self) -> Vec<(String, String)> {
        let rows = self.c.health().events().filter(|row| row.kind == RowKind::DrainLeave);
        let mut rows: Vec<_> = rows.map(|row| (row.node.clone(), row.after.clone())).collect();
        rows.reverse();
        rows
    }
}

/// Nodes that all have the fault.
fn broken(nodes: u64) -> Bench {
    let bench = Bench::new(quiet());
    let now = bench.now;
    broken_at(nodes, now)
}

fn broken_at(nodes: u64, now: Now) -> Bench {
    let mut bench = Bench { now, ..Bench::new(quiet()) };
    (0..nodes).for_each(|node| bench.hello(node, &format!("n{node}"), &format!("m{node}")));
    (0..nodes).for_each(|node| bench.tells(node, vec![finding()]));
    bench
}

#[test]
fn two_nodes_an_hour_in_a_small_cluster_each_counted_once() {
    let mut bench = broken(5);
    assert!(bench.leave(0) && bench.leave(0), "asking again takes no more of the hour");
    assert!(bench.leave(1));
    let refused = bench.ask(2);
    assert!(!refused.leave && refused.why.contains("2 nodes had leave"), "{}", refused.why);
    assert!(!bench.leave(2) && !bench.leave(3) && bench.leave(1), "who has leave keeps it");
    let told = |node: &str, what: &str| (node.to_owned(), what.to_owned());
    let all = [told("n0", "given"), told("n1", "given"), told("n2", "refused"), told("n3", "refused")];
    assert_eq!(bench.leaves_in_history(), all, "each once");
}

#[test]
fn the_hour_slides_with_each_leave() {
    let mut bench = broken(4);
    assert!(bench.leave(0));
    bench.pass_alive(4, 30);
    assert!(bench.leave(1) && !bench.leave(2));
    bench.pass_alive(4, 29);
    assert!(!bench.leave(2), "59 minutes after the first");
    bench.pass_alive(4, 1);
    assert!(bench.leave(2), "the first one's hour is over");
    assert!(!bench.leave(0), "and it would be counted again: the second one's is not");
}

#[test]
fn two_in_a_hundred_of_a_large_cluster() {
    for (nodes, most) in [(99, 2), (149, 2), (150, 3), (200, 4)] {
        let mut bench = broken(nodes);
        let given = (0..nodes).filter(|node| bench.leave(*node)).count();
        assert_eq!(given, most, "of {nodes} nodes");
    }
}

#[test]
fn what_the_coordinator_does_not_know_as_failed_is_no_reason() {
    use rdmascope_model::Status;
    let not = [
        FindingBrief { status: Status::Unknown, ..finding() },
        FindingBrief { status: Status::Warn, ..finding() },
        FindingBrief { settling: true, ..finding() },
        FindingBrief { latched: true, ..finding() },
        FindingBrief { subject: "mlx5_1/1".to_owned(), ..finding() },
    ];
    let mut bench = Bench::apart(quiet(), 2);
    assert!(!bench.leave(0), "nothing was told");
    for other in not {
        bench.tells(0, vec![other.clone()]);
        let answer = bench.ask(0);
        assert!(!answer.leave && answer.why.contains("knows of no such fault"), "{other:?}: {}", answer.why);
    }
    bench.tells(0, vec![finding()]);
    assert!(bench.leave(0));
    assert!(!bench.leave(1), "another node's fault is no reason");
}

#[test]
fn what_somebody_knows_of_is_no_reason() {
    let mut bench = broken(2);
    let now = bench.now;
    bench.c.acknowledge("n0", ID, None, Some("spare port".to_owned()), now).unwrap();
    assert!(bench.ask(0).why.contains("acknowledged"));
    bench.c.acknowledge("n0", ID, None, None, now).unwrap();
    bench.c.maintain("n0", Some(Duration::from_secs(600)), "new cable".to_owned(), now).unwrap();
    assert!(bench.ask(0).why.contains("maintenance: new cable"));
    bench.c.maintain("n0", None, String::new(), now).unwrap();
    assert!(bench.leave(0));
    assert!(bench.leave(1), "refusals for other reasons than the count take nothing of it");
}

#[test]
fn an_ordinary_heartbeat_has_no_answer_about_draining() {
    let mut bench = broken(1);
    bench.take();
    bench.frame(0, ToCoordinator::heartbeat(PauseFlags::default()));
    assert_eq!(
        bench.take(),
        [Action::Send(ConnectionId(0), ToAgent::HeartbeatReply { pairs: Vec::new(), drain: None })]
    );
}

#[test]
fn a_restart_with_a_history_forgets_no_leave() {
    let mut before = broken(4);
    assert!(before.leave(0));
    before.pass_alive(4, 40);
    assert!(before.leave(1) && !before.leave(2));
    let mut history: Vec<_> = before.c.health().events().cloned().collect();
    history.reverse();

    let mut after = broken_at(4, before.now);
    let last = history.last().unwrap().number;
    after.c.restore_health(history, last, Vec::new(), Vec::new());
    assert!(!after.leave(2), "two were drained within the hour, by whichever run");
    assert!(after.leave(1), "who had leave has it");
    after.pass_alive(4, 20);
    assert!(after.leave(2), "the first one's hour is over");
}
