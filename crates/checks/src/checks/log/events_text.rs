//! The words of a finding that a log rule makes.

use super::events::Event;
use rdmascope_model::{Finding, Status};

/// A finding of one event; `cause` is the event that began the chain.
pub(super) fn finding(event: &Event<'_>, status: Status, cause: Option<&Event<'_>>) -> Finding {
    let rule = event.rule;
    let times = if event.count == 1 { "once".to_owned() } else { format!("{} times", event.count) };
    let last = event.last().map(|at| format!(", last at {at}")).unwrap_or_default();
    let mut summary = format!("logged {times}{last}: {}", event.line);
    if let Some(first) = cause {
        let at = first.times.first().map(|at| format!(" at {at}")).unwrap_or_default();
        summary = format!("{summary}; it began with {}{at}: {}", first.rule.id, first.line);
    }
    if let Some(explained) = &event.explained {
        summary = format!("{summary}; explained by {explained}");
    }
    let mut evidence = vec![format!("count = {}", event.count)];
    evidence.extend(event.times.first().map(|at| format!("first = {at}")));
    evidence.extend(event.last().map(|at| format!("last = {at}")));
    evidence.extend(event.place.pci.as_ref().map(|pci| format!("pci = {pci}")));
    evidence.push(format!("line = {}", event.line));
    let causes = rule.causes.join(", or ");
    Finding {
        id: rule.id.clone().into(),
        status,
        subject: event.place.subject.clone(),
        summary,
        cause: format!("{} Probably {}: {causes}.", rule.meaning, rule.whose.words()),
        next_step: with_names(&rule.next_steps.join("; "), event),
        evidence,
    }
}

/// The steps with the names of what they are about, where these are known.
fn with_names(steps: &str, event: &Event<'_>) -> String {
    let mut steps = steps.to_owned();
    let place = &event.place;
    let names = [
        ("ADDRESS", place.pci.as_deref()),
        ("NETDEV", place.netdev.map(|(name, _)| name)),
        ("DEVICE", place.device.map(|device| device.name.as_str())),
    ];
    for (word, name) in names {
        if let Some(name) = name {
            steps = steps.replace(word, name);
        }
    }
    steps
}
