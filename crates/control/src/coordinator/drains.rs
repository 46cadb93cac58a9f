//! Who may be taken out of the scheduler for a hard local fault: few nodes an hour over the whole cluster, whatever all of them believe.
//!
//! A switch that dies, or a mistake in a policy, is a fault of every node at once; a scheduler without nodes is worse than some broken ones.

use super::rows::{EventRow, RowKind};
use super::{Coordinator, finding_key};
use rdmascope_link::{DrainAnswer, DrainFault, FindingBrief};
use rdmascope_model::{Mono, Now, Status, Wall};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time over which nodes are counted.
const WINDOW: Duration = Duration::from_secs(3_600);
/// In a small cluster so many nodes may be drained within it,
const NODES_MIN: usize = 2;
/// and in a large one 2 % of the nodes that are known: one in so many.
const NODES_PER_DRAIN: usize = 50;

/// What the history says of a leave that was given, and of one that was not.
const GIVEN: &str = "given";
const REFUSED: &str = "refused";

/// When a leave was given or refused.
#[derive(Clone, Copy, Debug)]
struct At {
    wall: Wall,
    /// `None` for what an earlier run did.
    mono: Option<Mono>,
}

impl At {
    /// Within the last hour; of an earlier run's by the clock of the machine, on which what lies in the future counts, too.
    fn counts(self, now: Now) -> bool {
        let age = self.mono.map_or_else(|| now.wall.since(self.wall), |mono| now.mono.since(mono));
        age < WINDOW
    }
}

/// Leaves of the last hour, by node.
#[derive(Clone, Debug, Default)]
pub(super) struct Drains {
    given: BTreeMap<String, At>,
    /// Whose refusal is in the history already.
    refused: BTreeMap<String, At>,
}

impl Drains {
    /// What an earlier run gave counts on, as far as its history is known.
    pub(super) fn restore(&mut self, events: &[EventRow]) {
        for row in events.iter().filter(|row| row.kind == RowKind::DrainLeave && row.after == GIVEN) {
            self.given.insert(row.node.clone(), At { wall: row.at, mono: None });
        }
    }

    fn forget_old(&mut self, now: Now) {
        self.given.retain(|_, at| at.counts(now));
        self.refused.retain(|_, at| at.counts(now));
    }
}

/// Nodes that may be drained within an hour, of so many.
fn nodes_max(known: usize) -> usize {
    NODES_MIN.max(known / NODES_PER_DRAIN)
}

impl Coordinator {
    /// Whether a node may be drained for these faults. A node that has leave has it for an hour, and counts once.
    pub(super) fn may_be_drained(&mut self, node: &str, faults: &[DrainFault], now: Now) -> DrainAnswer {
        self.drains.forget_old(now);
        let fault = match self.hard_fault(node, faults) {
            Ok(fault) => fault.clone(),
            Err(why) => return DrainAnswer { leave: false, why },
        };
        let (known, given) = (self.members.agents().count(), self.drains.given.len());
        let most = nodes_max(known);
        let at = At { wall: now.wall, mono: Some(now.mono) };
        if self.drains.given.contains_key(node) {
            let why = format!("given within the last hour; {given} of at most {most} nodes have leave");
            return DrainAnswer { leave: true, why };
        }
        if given >= most {
            let why = format!(
                "{given} nodes had leave within the last hour, and of {known} nodes {most} may have it"
            );
            if self.drains.refused.insert(node.to_owned(), at).is_none() {
                self.drain_note(node, &fault, (REFUSED, &format!("{node} may not be drained: {why}")), now);
            }
            return DrainAnswer { leave: false, why };
        }
        self.drains.given.insert(node.to_owned(), at);
        let why = format!("{} of at most {most} nodes within an hour", given + 1);
        let text = format!("{node} may be drained for {} of {} ({why})", fault.id, fault.subject);
        self.drain_note(node, &fault, (GIVEN, &text), now);
        DrainAnswer { leave: true, why }
    }

    /// The first of the faults that the coordinator knows of, too, and that nobody has acknowledged.
    fn hard_fault(&self, node: &str, faults: &[DrainFault]) -> Result<&FindingBrief, String> {
        if let Some(work) = self.health.maintenance_of(node) {
            return Err(format!("{node} is in maintenance: {}", work.note));
        }
        let known = self.members.agent(node).map_or(&[][..], |member| member.findings.as_slice());
        let fails = |f: &&FindingBrief| {
            let asked = faults.iter().any(|fault| fault.id == f.id && fault.subject == f.subject);
            asked && f.status == Status::Fail && !f.settling && !f.latched
        };
        let mut fails = known.iter().filter(fails).peekable();
        if fails.peek().is_none() {
            return Err("the coordinator knows of no such fault yet".to_owned());
        }
        let open = fails.find(|f| self.health.acknowledged(&finding_key(node, f)).is_none());
        open.ok_or_else(|| "somebody has acknowledged the fault".to_owned())
    }

    fn drain_note(&mut self, node: &str, fault: &FindingBrief, (after, text): (&str, &str), now: Now) {
        let row = EventRow {
            number: 0,
            at: now.wall,
            node: node.to_owned(),
            kind: RowKind::DrainLeave,
            subject: fault.subject.clone(),
            id: fault.id.clone(),
            before: String::new(),
            after: after.to_owned(),
            text: text.to_owned(),
            basis: None,
        };
        self.keep_row(row);
    }
}
