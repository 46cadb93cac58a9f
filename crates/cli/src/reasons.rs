//! Why pairs have no figure: one block for each cause, with what was seen and what to do next.

use crate::output::plain;
use rdmascope_expose::api::{CellState, MatrixCause, MatrixView, PairVerdict};
use std::collections::BTreeMap;

/// Pairs named in a block at most.
const PAIRS_SHOWN_MAX: usize = 8;
/// Blocks at most: a cluster with more kinds of faults shows the most frequent.
const BLOCKS_MAX: usize = 20;

/// Everything that failed or is excluded, the most frequent cause first. `evidence` asks what was seen of one pair.
pub(crate) fn words(view: &MatrixView, evidence: impl Fn(&MatrixCause) -> Option<String>) -> String {
    let mut text = String::new();
    for state in [CellState::Failed, CellState::Excluded] {
        let mut groups: BTreeMap<_, Vec<&MatrixCause>> = BTreeMap::new();
        for row in view.causes.iter().filter(|row| row.state == state) {
            groups.entry((&row.cause, &row.step, &row.side)).or_default().push(row);
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by_key(|rows| std::cmp::Reverse(rows.len()));
        let left_out = groups.len().saturating_sub(BLOCKS_MAX);
        for rows in groups.iter().take(BLOCKS_MAX) {
            text.push_str(&block(view, rows, &evidence));
        }
        if left_out > 0 {
            text.push_str(&format!("\nand {left_out} more kinds of reasons\n"));
        }
    }
    if view.causes_left_out > 0 {
        text.push_str(&format!("\n{} more pairs are not listed\n", view.causes_left_out));
    }
    text
}

/// What pings say of a pair that answers.
pub(crate) fn verdict(verdict: &PairVerdict) -> String {
    let mut text = format!("  {}\n", plain(&verdict.id));
    line(&mut text, "cause", &verdict.text);
    line(&mut text, "seen", &verdict.evidence);
    line(&mut text, "next step", &verdict.next_step);
    text
}

fn block(
    view: &MatrixView,
    rows: &[&MatrixCause],
    evidence: &impl Fn(&MatrixCause) -> Option<String>,
) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let words = view.cause_texts.get(&first.cause);
    let plural = if rows.len() == 1 { "pair" } else { "pairs" };
    let mut text = format!("\n{}: {} {plural}, {}\n", first.state.as_str(), rows.len(), plain(&first.cause));
    if let Some(words) = words {
        line(&mut text, "cause", &words.text);
    }
    let seen = evidence(first).filter(|seen| !seen.is_empty());
    if let (Some(step), Some(side)) = (&first.step, &first.side) {
        let at = format!("at step {step}, by the {side}");
        line(&mut text, "seen", &seen.map_or(at.clone(), |seen| format!("{seen} ({at})")));
    }
    if let Some(words) = words {
        line(&mut text, "next step", &words.next_step);
    }
    let pair = |row: &&MatrixCause| format!("{} -> {}", row.source, row.target);
    let mut pairs = rows.iter().take(PAIRS_SHOWN_MAX).map(pair).collect::<Vec<_>>().join(", ");
    if rows.len() > PAIRS_SHOWN_MAX {
        pairs.push_str(&format!(" and {} more", rows.len() - PAIRS_SHOWN_MAX));
    }
    line(&mut text, plural, &pairs);
    text
}

/// `  name:      words`.
pub(crate) fn line(text: &mut String, name: &str, words: &str) {
    text.push_str(&format!("  {:<11}{}\n", format!("{name}:"), plain(words)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn cause(source: &str, target: &str, state: CellState, cause: &str) -> MatrixCause {
        let failed = state == CellState::Failed;
        MatrixCause {
            source: source.to_owned(),
            target: target.to_owned(),
            state,
            cause: cause.to_owned(),
            step: failed.then(|| "admit".to_owned()),
            side: failed.then(|| "source".to_owned()),
        }
    }

    fn view(causes: Vec<MatrixCause>) -> MatrixView {
        let texts = json!({"port-down": {"text": "The port is down.", "next_step": "See the cable."}});
        let view = json!({
            "metric": "latency", "unit": "ns", "method": "", "clock": "", "revision": 0, "generated_at": "",
            "coverage_seconds": null, "stale_after_seconds": 390.0, "median": null, "endpoints": [],
            "legend": {}, "state": [], "measured_at_ms": [], "causes": causes, "causes_left_out": 0,
            "cause_texts": texts,
        });
        from_value(view).unwrap()
    }

    #[test]
    fn pairs_with_one_cause_share_a_block_with_evidence_and_next_step() {
        let failed = CellState::Failed;
        let view = view(vec![
            cause("c/x/1", "a/x/1", CellState::Excluded, "busy"),
            cause("a/x/1", "b/x/1", failed, "port-down"),
            cause("b/x/1", "a/x/1", failed, "port-down"),
        ]);
        assert_eq!(
            words(&view, |row| Some(format!("state DOWN of {}", row.source))),
            "\nfailed: 2 pairs, port-down\n  \
               cause:     The port is down.\n  \
               seen:      state DOWN of a/x/1 (at step admit, by the source)\n  \
               next step: See the cable.\n  \
               pairs:     a/x/1 -> b/x/1, b/x/1 -> a/x/1\n\
             \nexcluded: 1 pair, busy\n  \
               pair:      c/x/1 -> a/x/1\n"
        );
    }

    #[test]
    fn long_lists_end() {
        let many = (0..100).map(|n| cause("a/x/1", &format!("n{n}/x/1"), CellState::Failed, "port-down"));
        let text = words(&view(many.collect()), |_| None);
        assert!(text.contains("n7/x/1 and 92 more\n") && !text.contains("n8/x/1"), "{text}");
    }
}
