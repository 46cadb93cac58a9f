//! The built-in rules against their own lines, the published ones, and those of the public cases.

use super::*;
use crate::log::{Class, Whose};
use std::collections::BTreeSet;

const PUBLISHED: &str = include_str!("../../rules/published-lines.txt");

/// Number, mark (H healthy, F fault, W warning, C consequence) and text of the published lines.
fn published() -> impl Iterator<Item = (u32, &'static str, &'static str)> {
    PUBLISHED.lines().map(|line| {
        let mut parts = line.splitn(3, ' ');
        (parts.next().unwrap().parse().unwrap(), parts.next().unwrap(), parts.next().unwrap())
    })
}

#[test]
fn every_built_in_rule_is_whole_and_knows_its_own_lines_alone() {
    let (rules, problems) = builtin_rules();
    assert_eq!(problems, Vec::<String>::new());
    let set = Rules::builtin();
    assert_eq!(set.docs().len(), rules.len());
    assert_eq!(set.wrong_samples(&rules), Vec::<String>::new());
    assert_eq!(set.unknown_references(), Vec::<String>::new());
}

#[test]
fn a_rule_of_class_f_says_why_a_node_is_drained_for_it_or_why_not() {
    for rule in Rules::builtin().docs() {
        let said = [&rule.drain, &rule.spare].into_iter().flatten().filter(|why| why.len() > 10).count();
        assert_eq!(said, usize::from(rule.class == Class::F), "{}", rule.id);
        if rule.drain.is_some() {
            // Neither cables and the other end, nor what anybody can write into a log.
            assert!(matches!(rule.whose, Whose::Host | Whose::Power), "{}", rule.id);
            assert_eq!(rule.source, Source::Kernel, "{}", rule.id);
        }
    }
    let own = OWN
        .replace("id: site-raid", "id: site-raid\n  drain: no disk is left")
        .replace("class: W", "class: F");
    let rules = Rules::with_folder(&[("site.yaml".to_owned(), own)]).unwrap();
    assert!(crate::is_hard("site-raid", &rules), "an operator's rule that says why");
    assert!(!crate::is_hard("mlx5-fatal-error", &rules), "and one that does not, whatever it replaces");
}

#[test]
fn the_order_of_the_rules_does_not_matter() {
    let (rules, _) = builtin_rules();
    let reversed = Rules::build(rules.iter().rev().map(|(rule, _)| rule.clone()).collect());
    assert_eq!(reversed.wrong_samples(&rules), Vec::<String>::new());
}

#[test]
fn every_row_of_the_table_and_every_published_fault_has_a_rule() {
    let named: BTreeSet<String> = Rules::builtin()
        .docs()
        .iter()
        .flat_map(|rule| rule.row.split(',').map(|row| row.trim().to_owned()))
        .collect();
    let rows = (1..=90).map(|row| row.to_string());
    let missing: Vec<String> = rows.filter(|row| !named.contains(row)).collect();
    assert_eq!(missing, Vec::<String>::new());
    let rules = Rules::builtin();
    for (number, mark, text) in published() {
        let record = prefix::parse(text);
        let found = rules.find(&record.text, record.origin, None);
        if mark.contains(['F', 'W', 'C']) {
            let rule = found.unwrap_or_else(|| panic!("no rule knows line {number}: {text}"));
            let own = rule.row.split(", ").any(|row| row == format!("L{number}"));
            assert!(own, "line {number} is known by {}, which does not name it", rule.id);
        }
    }
}

#[test]
fn a_line_of_a_program_is_no_line_of_the_kernel() {
    let rules = Rules::builtin();
    let fault = "mlx5_core 0000:41:00.0: Fatal error 1 detected";
    assert!(rules.find(fault, Origin::Kernel, None).is_some());
    assert!(rules.find(fault, Origin::Unknown, None).is_some());
    assert!(rules.find(fault, Origin::Program, None).is_none(), "anybody may write that into syslog");
    let carrier = "systemd-networkd[5398]: ib6: lost carrier";
    assert!(rules.find(carrier, Origin::Program, None).is_some());
    assert!(rules.find(carrier, Origin::Kernel, None).is_none());
}

const OWN: &str = "
- id: site-raid
  match: ['megaraid_sas *: FW in FAULT state']
  class: W
  meaning: The RAID controller broke.
  causes: [hardware]
  next_steps: ['`storcli show`']
  whose: host
  matches: ['megaraid_sas 0000:01:00.0: FW in FAULT state']
  not_matches: ['megaraid_sas 0000:01:00.0: FW now in Ready state']
- id: mlx5-fatal-error
  match: ['Fatal error {n} detected']
  class: W
  meaning: Ours is milder.
  causes: [hardware]
  next_steps: ['look']
  whose: host
  matches: ['mlx5_core 0000:41:00.0: Fatal error 1 detected']
  not_matches: ['nothing at all']
";

#[test]
fn operators_add_rules_and_replace_built_in_ones() {
    let rules = Rules::with_folder(&[("site.yaml".to_owned(), OWN.to_owned())]).unwrap();
    assert_eq!(rules.docs().len(), Rules::builtin().docs().len() + 1);
    let found = rules.find("mlx5_core 0000:41:00.0: Fatal error 1 detected", Origin::Kernel, None).unwrap();
    assert_eq!((found.meaning.as_str(), found.own), ("Ours is milder.", true));
    assert_ne!(rules, Rules::builtin());
}

#[test]
fn all_that_is_wrong_with_a_folder_is_said_at_once() {
    let bad = OWN
        .replace("match: ['megaraid_sas *: FW in FAULT state']", "match: ['a*b', 'x{y}zzzz']")
        .replace("'nothing at all'", "'Fatal error 7 detected'")
        .replace("id: site-raid", "id: Site Raid");
    let files = [
        ("bad.yaml".to_owned(), bad),
        ("broken.yaml".to_owned(), "id: [".to_owned()),
        ("twice.yaml".to_owned(), OWN.to_owned()),
        ("drains.yaml".to_owned(), OWN.replace("class: W", "class: E\n  drain: a\n  spare: b")),
        ("odd.yaml".to_owned(), "- id: odd\n  klass: F\n".to_owned()),
    ];
    let problems = Rules::with_folder(&files).unwrap_err();
    for part in [
        "bad.yaml: Site Raid: 'a*b' has no literal",
        "bad.yaml: Site Raid: '{y}' is not one of",
        "bad.yaml: Site Raid: the id must be",
        "broken.yaml: not a list of rules",
        "twice.yaml: mlx5-fatal-error: the id is taken in bad.yaml",
        "mlx5-fatal-error: the line 'Fatal error 7 detected' is matched and must not be",
        "drains.yaml: site-raid: drain and spare are for class F",
        "drains.yaml: site-raid: drain or spare, not both",
        "odd.yaml: odd: unknown field `klass`",
    ] {
        assert!(
            problems.iter().any(|problem| problem.contains(part)),
            "'{part}' is missing in {problems:#?}"
        );
    }
}
