//! A small part of the fault suite, as it is shipped: what `cargo xtask faults` runs by the thousand works, packet by packet and by window.

use rdmascope_sim::suite::{Figures, Outcome, Plan, Suite};

fn suite() -> Suite {
    Suite::parse(include_str!("../../../tests/faults.yaml")).expect("the file that is shipped is right")
}

/// All runs of a kind on the smallest clusters.
fn runs(kind: &str, runs: usize) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let plan = Plan { runs, endpoints: Some(8), kind: Some(kind.to_owned()), seed: 3, only: None };
    plan.parts(&suite()).iter().for_each(|part| part.run(&suite(), |outcome| outcomes.push(outcome)));
    outcomes
}

#[test]
fn a_dead_endpoint_is_named_and_a_healthy_cluster_is_left_alone() {
    let dead = runs("endpoint dead", 2);
    let named = |outcome: &Outcome| outcome.faults.len() == 1 && outcome.faults[0].told_s.is_some();
    assert!(dead.len() == 2 && dead.iter().all(named), "{dead:?}");
    let healthy = runs("quiet fabric", 2);
    assert!(
        healthy.iter().all(|outcome| outcome.told.is_empty() && outcome.faults.is_empty()),
        "{healthy:?}"
    );
}

#[test]
fn runs_add_up_to_rows_for_people_and_for_programs() {
    let suite = suite();
    let mut figures = Figures::default();
    runs("endpoint dead", 2).iter().for_each(|outcome| figures.count(outcome, &suite));
    let rows = figures.rows();
    let row = rows.iter().map(rdmascope_sim::suite::Row::json).find(|row| row["what"] == "N = 8: recall");
    let row = row.expect("there is a row for recall");
    let keys = ["what", "seen", "unit", "asked", "holds", "against", "seen_against"];
    assert!(keys.iter().all(|key| row.get(key).is_some()), "{row}");
    assert_eq!(figures.table(&suite).len(), 2, "a head and one kind");
}
