//! The result of all cases, for people and for programs.

use crate::case::Case;
use crate::outcome::Outcome;
use serde_json::json;
use std::collections::BTreeMap;

/// Per cent of the cases that one machine can be judged by which must be right.
const RIGHT_MIN: f64 = 95.0;

/// Per cent of the parser traps that must be right.
const TRAPS_MIN: f64 = 100.0;

/// The kind of the cases in which a file has an odd form.
const TRAP: &str = "parser_trap";

/// How many cases of one kind went which way.
#[derive(Clone, Copy, Default)]
struct Counts {
    right: u32,
    wrong: u32,
    not_here: u32,
}

impl Counts {
    fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Self {
        let mut counts = Self::default();
        for outcome in outcomes {
            match outcome {
                Outcome::Right => counts.right += 1,
                Outcome::Wrong(_) => counts.wrong += 1,
                Outcome::NotHere(_) => counts.not_here += 1,
            }
        }
        counts
    }

    fn applicable(self) -> u32 {
        self.right + self.wrong
    }

    /// Per cent of the applicable ones; all of none.
    fn share(self) -> f64 {
        if self.applicable() == 0 {
            100.0
        } else {
            100.0 * f64::from(self.right) / f64::from(self.applicable())
        }
    }
}

/// One thing that is asked of all cases together.
struct Asked {
    what: &'static str,
    counts: Counts,
    least: f64,
}

impl Asked {
    fn holds(&self) -> bool {
        self.counts.share() >= self.least
    }
}

fn asked(outcomes: &[(Case, Outcome)]) -> [Asked; 2] {
    let traps = outcomes.iter().filter(|(case, _)| case.kind == TRAP);
    let counts = [Counts::of(outcomes.iter().map(|(_, o)| o)), Counts::of(traps.map(|(_, o)| o))];
    [
        Asked { what: "cases that are right", counts: counts[0], least: RIGHT_MIN },
        Asked { what: "parser traps that are right", counts: counts[1], least: TRAPS_MIN },
    ]
}

/// Whether all that is asked was seen.
pub(crate) fn holds(outcomes: &[(Case, Outcome)]) -> bool {
    let asked = asked(outcomes);
    asked[0].counts.applicable() > 0 && asked.iter().all(Asked::holds)
}

fn by_kind(outcomes: &[(Case, Outcome)]) -> BTreeMap<&str, Counts> {
    let mut kinds: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
    for (case, outcome) in outcomes {
        kinds.entry(&case.kind).or_default().push(outcome);
    }
    kinds.into_iter().map(|(kind, all)| (kind, Counts::of(all.into_iter()))).collect()
}

/// A table of kinds, every case that is wrong, those that one machine says nothing of, and the totals.
pub(crate) fn for_people(outcomes: &[(Case, Outcome)]) -> Vec<String> {
    let mut lines = vec![format!("{:20} {:>6} {:>6} {:>15}", "kind", "right", "wrong", "not applicable")];
    for (kind, counts) in by_kind(outcomes) {
        let Counts { right, wrong, not_here } = counts;
        lines.push(format!("{kind:20} {right:>6} {wrong:>6} {not_here:>15}"));
    }
    for (case, outcome) in outcomes {
        if let Outcome::NotHere(why) = outcome {
            lines.push(format!("not applicable: {} ({}): {why}", case.id, case.kind));
        }
    }
    for (case, outcome) in outcomes {
        if let Outcome::Wrong(whys) = outcome {
            lines.push(format!("WRONG: {} ({}), {}", case.id, case.kind, case.folder.display()));
            lines.extend(whys.iter().map(|why| format!("  {why}")));
        }
    }
    for asked in asked(outcomes) {
        let (right, of, share) = (asked.counts.right, asked.counts.applicable(), asked.counts.share());
        let verdict = if asked.holds() { "holds" } else { "FALLS SHORT" };
        let Asked { what, least, .. } = asked;
        lines.push(format!("{what}: {right} of {of} ({share:.1} %, asked >= {least} %) {verdict}"));
    }
    lines
}

/// One object for each thing that is asked, and one for each case.
pub(crate) fn as_json(outcomes: &[(Case, Outcome)]) -> Vec<String> {
    let asked = asked(outcomes);
    let totals = asked.iter().map(|asked| {
        json!({
            "what": asked.what, "seen": asked.counts.share(), "unit": "%", "asked": format!(">= {}", asked.least),
            "holds": asked.holds(), "against": "applicable cases", "seen_against": asked.counts.applicable(),
        })
    });
    // Nothing is asked of one case alone: they explain the totals.
    let each = outcomes.iter().map(|(case, outcome)| {
        let (seen, unit, why) = match outcome {
            Outcome::Right => (Some(1), "right", None),
            Outcome::NotHere(why) => (None, "not applicable", Some(why.clone())),
            Outcome::Wrong(whys) => (Some(0), "right", Some(whys.join(" | "))),
        };
        json!({
            "what": format!("{} ({})", case.id, case.kind), "seen": seen, "unit": unit, "asked": "",
            "holds": true, "against": why, "seen_against": null,
        })
    });
    totals.chain(each).map(|row| row.to_string()).collect()
}
