//! Lines of the kernel log as events: what is new since the last look, one event for each rule and subject.

use rdmascope_link::{EventKind, NodeEvent};
use rdmascope_model::{KernelLog, LogHit, Now, Reading, Wall};
use std::collections::BTreeMap;

/// How many lines of each rule and subject were told already.
#[derive(Debug, Default)]
pub(super) struct Lines {
    told: BTreeMap<(String, String), u64>,
    /// When the first look was: older lines are history.
    began: Option<Wall>,
}

impl Lines {
    pub(super) fn observe(&mut self, log: &Reading<KernelLog>, now: Now, events: &mut Vec<NodeEvent>) {
        let began = *self.began.get_or_insert(now.wall);
        let Reading::Value(log) = log else { return };
        // The log's own list is bounded; so is this one.
        self.told.retain(|(rule, subject), _| {
            log.hits.iter().any(|hit| hit.rule == *rule && *subject == subject_of(hit))
        });
        for hit in &log.hits {
            let subject = subject_of(hit).to_owned();
            let told = self.told.entry((hit.rule.clone(), subject.clone())).or_default();
            let history = hit.last.value().is_none_or(|last| *last < began);
            // A count that went back: the log is another one, and its lines are new.
            let new = if hit.count < *told { hit.count } else { hit.count - *told };
            *told = hit.count;
            if new > 0 && !history {
                events.push(line(hit, subject, new, now));
            }
        }
    }
}

fn subject_of(hit: &LogHit) -> &str {
    hit.subject.as_deref().unwrap_or("machine")
}

fn line(hit: &LogHit, subject: String, new: u64, now: Now) -> NodeEvent {
    NodeEvent {
        number: 0,
        at: hit.last.value().copied().unwrap_or(now.wall),
        kind: EventKind::KernelLog,
        subject,
        id: hit.rule.clone(),
        before: String::new(),
        after: if new == 1 { "1 line".to_owned() } else { format!("{new} lines") },
        text: hit.line.clone(),
        basis: None,
    }
}
