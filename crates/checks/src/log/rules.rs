//! The set of rules: loading with all errors at once, and finding the one rule of a line in one pass.

use super::prefix::{self, Origin};
use super::rule::{self, Condition, Rule, Samples, Source};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The built-in files, by area.
const BUILTIN: &[(&str, &str)] = &[
    ("firmware.yaml", include_str!("../../rules/firmware.yaml")),
    ("link-and-module.yaml", include_str!("../../rules/link-and-module.yaml")),
    ("ethernet.yaml", include_str!("../../rules/ethernet.yaml")),
    ("rdma.yaml", include_str!("../../rules/rdma.yaml")),
    ("pci.yaml", include_str!("../../rules/pci.yaml")),
    ("other.yaml", include_str!("../../rules/other.yaml")),
    ("application.yaml", include_str!("../../rules/application.yaml")),
];

/// Longest part of a line that is looked at, bytes; the kernel's own limit for one record is 1 KiB (`LOG_LINE_MAX`).
pub(crate) const LINE_MAX: usize = 1024;

/// All rules that are in force. A copy is cheap: it shares the set.
#[derive(Clone, Debug)]
pub struct Rules(Arc<Set>);

#[derive(Debug)]
struct Set {
    rules: Vec<Rule>,
    /// For each pattern: its rule, and its place there.
    patterns: Vec<(u16, u16)>,
    /// Finds the longest literal of each pattern; `None` without rules.
    literals: Option<AhoCorasick>,
}

impl Default for Rules {
    /// The built-in rules.
    fn default() -> Self {
        Self::builtin()
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.rules == other.0.rules
    }
}

impl Rules {
    /// The rules that come with rdmascope. They are read once.
    #[must_use]
    pub fn builtin() -> Self {
        static SET: OnceLock<Rules> = OnceLock::new();
        // The built-in files are tested: nothing is wrong with them.
        SET.get_or_init(|| Self::build(builtin_rules().0.into_iter().map(|(rule, _)| rule).collect())).clone()
    }

    /// The built-in rules and an operator's own, given as (file name, text). An own rule with the id of a built-in one replaces it,
    /// and where an own rule and a built-in one both match a line, the own one counts.
    ///
    /// # Errors
    /// Everything that is wrong with the files, each in one line that names file and rule; also sample lines that a rule does not
    /// match, or must not match and does.
    pub fn with_folder(texts: &[(String, String)]) -> Result<Self, Vec<String>> {
        let (own, mut problems) = read_all(texts.iter().map(|(name, text)| (&**name, &**text)), true);
        let replaced = |rule: &Rule| own.iter().any(|(mine, _)| mine.id == rule.id);
        let mut rules: Vec<Rule> =
            builtin_rules().0.into_iter().map(|(rule, _)| rule).filter(|rule| !replaced(rule)).collect();
        rules.extend(own.iter().map(|(rule, _)| rule.clone()));
        let rules = Self::build(rules);
        problems.extend(rules.wrong_samples(&own));
        problems.extend(rules.unknown_references());
        if problems.is_empty() { Ok(rules) } else { Err(problems) }
    }

    fn build(rules: Vec<Rule>) -> Self {
        let place = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let patterns: Vec<(u16, u16)> = rules
            .iter()
            .enumerate()
            .flat_map(|(i, rule)| (0..rule.patterns.len()).map(move |k| (place(i), place(k))))
            .collect();
        let anchors = rules.iter().flat_map(|rule| &rule.patterns).map(|pattern| pattern.anchor());
        let literals = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .prefilter(false)
            .build(anchors)
            .ok();
        Self(Arc::new(Set { rules, patterns, literals }))
    }

    /// The rule of a line, whatever the order of the rules: of all that match, the one whose pattern tells most of the line.
    #[must_use]
    pub fn find(&self, line: &str, origin: Origin, own_pid: Option<u32>) -> Option<&Rule> {
        let line = &line.as_bytes()[..line.len().min(LINE_MAX)];
        let mut best: Option<(u64, &Rule)> = None;
        for found in self.0.literals.as_ref()?.find_overlapping_iter(line) {
            let (rule, pattern) = self.0.patterns[found.pattern().as_usize()];
            let rule = &self.0.rules[usize::from(rule)];
            let pattern = &rule.patterns[usize::from(pattern)];
            let weight = rank(rule, pattern.weight());
            let better = best.is_none_or(|(most, other)| (most, &other.id) < (weight, &rule.id));
            if better && counts(rule, origin) && pattern.matches(line) && holds(rule, line, own_pid) {
                best = Some((weight, rule));
            }
        }
        best.map(|(_, rule)| rule)
    }

    /// Every rule, for `explain` and the runbooks.
    #[must_use]
    pub fn docs(&self) -> &[Rule] {
        &self.0.rules
    }

    /// One rule.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Rule> {
        self.0.rules.iter().find(|rule| rule.id == id)
    }

    fn wrong_samples(&self, samples: &[(Rule, Samples)]) -> Vec<String> {
        let mut wrong = Vec::new();
        for (rule, samples) in samples {
            for line in &samples.matches {
                let found = self.sample(line);
                if found != Some(&rule.id) {
                    let found = found.map_or("no rule".to_owned(), |id| format!("the rule {id}"));
                    wrong.push(format!("{}: the line '{line}' is matched by {found}", rule.id));
                }
            }
            for line in samples.not_matches.iter().filter(|line| self.sample(line) == Some(&rule.id)) {
                wrong.push(format!("{}: the line '{line}' is matched and must not be", rule.id));
            }
        }
        wrong
    }

    /// The rule of a sample line, in which `(pid OWN)` stands for our own process.
    fn sample(&self, line: &str) -> Option<&String> {
        let line = line.replace("(pid OWN)", "(pid 4294967295)");
        let record = prefix::parse(&line);
        self.find(&record.text, record.origin, Some(u32::MAX)).map(|rule| &rule.id)
    }

    fn unknown_references(&self) -> Vec<String> {
        let refers = self.0.rules.iter().flat_map(|rule| rule.explained_by.iter().map(move |id| (rule, id)));
        refers
            .filter(|(_, id)| self.get(id).is_none())
            .map(|(rule, id)| format!("{}: explained_by names '{id}', which is no rule", rule.id))
            .collect()
    }
}

/// Own rules before built-in ones; then literal text; a condition on the line itself tells a little more.
fn rank(rule: &Rule, weight: usize) -> u64 {
    let condition = u64::from(rule.only_when == Some(Condition::OwnProcess));
    (u64::from(rule.own) << 32) + (weight as u64) * 2 + condition
}

fn counts(rule: &Rule, origin: Origin) -> bool {
    !matches!(
        (rule.source, origin),
        (Source::Kernel, Origin::Program) | (Source::Application, Origin::Kernel)
    )
}

fn holds(rule: &Rule, line: &[u8], own_pid: Option<u32>) -> bool {
    let ours = || {
        let line = String::from_utf8_lossy(line);
        own_pid.is_some() && super::names::pid(&line) == own_pid
    };
    (rule.only_when != Some(Condition::OwnProcess) || ours())
        && !rule.exempt.iter().any(|pattern| pattern.matches(line))
}

fn builtin_rules() -> (Vec<(Rule, Samples)>, Vec<String>) {
    read_all(BUILTIN.iter().copied(), false)
}

fn read_all<'a>(
    files: impl Iterator<Item = (&'a str, &'a str)>,
    own: bool,
) -> (Vec<(Rule, Samples)>, Vec<String>) {
    let (mut rules, mut problems): (Vec<(Rule, Samples)>, Vec<String>) = (Vec::new(), Vec::new());
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (name, text) in files {
        let entries: Vec<serde_yaml::Value> = match serde_yaml::from_str(text) {
            Ok(entries) => entries,
            Err(e) => {
                problems.push(format!("{name}: not a list of rules: {e}"));
                continue;
            }
        };
        for entry in entries {
            match rule::read(entry, own) {
                Ok((rule, samples)) => {
                    if let Some(earlier) = seen.insert(rule.id.clone(), name.to_owned()) {
                        problems.push(format!("{name}: {}: the id is taken in {earlier}", rule.id));
                    }
                    rules.push((rule, samples));
                }
                Err(whys) => problems.extend(whys.into_iter().map(|why| format!("{name}: {why}"))),
            }
        }
    }
    (rules, problems)
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
