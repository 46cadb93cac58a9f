//! The verdict of this node's agent in words.

use super::decide::faults;
use crate::output::plain;
use rdmascope_expose::api::NodeVerdictView;

/// For a person.
pub(super) fn words(verdict: &NodeVerdictView) -> String {
    let mut text = match (&verdict.cannot_say, faults(verdict).as_slice()) {
        (Some(why), _) => format!("{}: nothing can be said: {}\n", plain(&verdict.node), plain(why)),
        (None, []) => format!("{}: no hard local fault stands\n", plain(&verdict.node)),
        (None, faults) => {
            let mut text = format!("{}: would be drained for\n", plain(&verdict.node));
            for fault in faults {
                text.push_str(&format!(
                    "  {}: {} [{}]\n    next step: {}\n",
                    plain(&fault.subject),
                    plain(&fault.summary),
                    plain(&fault.id),
                    plain(&fault.next_step)
                ));
            }
            text
        }
    };
    if !verdict.connected {
        text.push_str("  the coordinator is not connected: nothing is drained without its leave\n");
    }
    for part in &verdict.parts {
        let age = part.age_ms.map_or("not yet".to_owned(), |ms| format!("{} s ago", ms / 1_000));
        text.push_str(&format!(
            "  looked at: {} {age} (every {} s)\n",
            plain(&part.part),
            part.every_ms / 1_000
        ));
    }
    let others = verdict.findings.iter().filter(|finding| !finding.hard).count();
    if others > 0 {
        text.push_str(&format!(
            "  {others} other findings, for which nothing is drained: `rdmascope check`\n"
        ));
    }
    text
}
