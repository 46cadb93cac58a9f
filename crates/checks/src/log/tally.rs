//! Counts the lines that rules know, in bounded memory.

use super::names;
use super::prefix::{self, Origin};
use super::rule::{COUNT_MAX, Class, Rule};
use super::rules::{LINE_MAX, Rules};
use super::stamp::Times;
use rdmascope_model::{KernelLog, LogHit, Reading, Wall};
use std::collections::BTreeMap;

/// Most entries: rules times subjects of a machine stay far below; a flood of made-up names must not grow it.
const HITS_MAX: usize = 1_000;

/// Longest line that is kept, characters.
const SHOWN_MAX: usize = 240;

/// The counts so far.
#[derive(Clone, Debug)]
pub struct Tally {
    rules: Rules,
    own_pid: Option<u32>,
    hits: BTreeMap<(String, Option<String>), Entry>,
    /// Planned resets that are not over: by subject, until when and by which rule.
    windows: BTreeMap<String, (Wall, String)>,
    lines: u64,
    lost: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    hit: LogHit,
    /// It gives a finding; context goes first when room is short.
    matters: bool,
    /// Number of the last line.
    at: u64,
}

/// A line that a rule knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Id of the rule; within a planned reset that of the rule that began it.
    pub rule: String,
    /// What it is about, as in [`LogHit::subject`].
    pub subject: Option<String>,
    /// When it was written.
    pub at: Reading<Wall>,
    /// The line, cut and without control characters.
    pub line: String,
}

impl Tally {
    /// Nothing was seen yet. Lines with `own_pid` are our own echo.
    #[must_use]
    pub fn new(rules: &Rules, own_pid: Option<u32>) -> Self {
        Self {
            rules: rules.clone(),
            own_pid,
            hits: BTreeMap::new(),
            windows: BTreeMap::new(),
            lines: 0,
            lost: 0,
        }
    }

    /// Takes in one line with its prefix; `None` when no rule knows it.
    pub fn line(&mut self, line: &str, times: &Times) -> Option<Seen> {
        self.line_from(line, None, times)
    }

    /// The same for a log that programs alone write to.
    pub fn program_line(&mut self, line: &str, times: &Times) -> Option<Seen> {
        self.line_from(line, Some(Origin::Program), times)
    }

    fn line_from(&mut self, line: &str, origin: Option<Origin>, times: &Times) -> Option<Seen> {
        self.lines += 1;
        let record = prefix::parse(line);
        let rules = self.rules.clone();
        let rule = rules.find(&record.text, origin.unwrap_or(record.origin), self.own_pid)?;
        let text = cut(&record.text);
        let (subject, at) = (names::subject(text), times.wall(record.stamp));
        let under = self.window(rule, subject.as_deref(), &at);
        let (id, matters) = match under {
            Some(opener) => (opener, false),
            None => (rule.id.clone(), rule.class != Class::C),
        };
        let visible = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String = text.chars().take(SHOWN_MAX).map(visible).collect();
        let seen = Seen { rule: id, subject, at, line: shown };
        self.count(&seen, matters);
        Some(seen)
    }

    /// Records that were dropped before they could be read.
    pub fn lost(&mut self, records: u64) {
        self.lost = self.lost.saturating_add(records);
    }

    /// Opens a window where the rule says so; names the rule of the window that a line falls into.
    fn window(&mut self, rule: &Rule, subject: Option<&str>, at: &Reading<Wall>) -> Option<String> {
        let (subject, at) = (subject?, *at.value()?);
        if let Some(length) = rule.opens_window {
            let until = Wall(at.0.saturating_add(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)));
            if self.windows.len() >= HITS_MAX {
                self.windows.clear();
            }
            self.windows.insert(subject.to_owned(), (until, rule.id.clone()));
            return None;
        }
        let (until, opener) = self.windows.get(subject)?;
        (at <= *until && !rule.despite_window).then(|| opener.clone())
    }

    fn count(&mut self, seen: &Seen, matters: bool) {
        let key = (seen.rule.clone(), seen.subject.clone());
        if !self.hits.contains_key(&key) && self.hits.len() >= HITS_MAX {
            self.make_room();
        }
        let entry = self.hits.entry(key).or_insert_with(|| Entry {
            hit: LogHit {
                rule: seen.rule.clone(),
                subject: seen.subject.clone(),
                count: 0,
                first: seen.at.clone(),
                last: seen.at.clone(),
                recent: Vec::new(),
                line: String::new(),
            },
            matters,
            at: 0,
        });
        entry.at = self.lines;
        entry.hit.count += 1;
        entry.hit.last = seen.at.clone();
        entry.hit.line.clone_from(&seen.line);
        if let Reading::Value(at) = seen.at {
            if entry.hit.recent.len() == COUNT_MAX {
                entry.hit.recent.remove(0);
            }
            entry.hit.recent.push(at);
        }
    }

    /// Forgets the entry that matters least: context first, then the one not seen for longest.
    fn make_room(&mut self) {
        let oldest = self.hits.iter().min_by_key(|(_, entry)| (entry.matters, entry.at));
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.hits.remove(&key);
        }
    }

    /// What was seen so far.
    #[must_use]
    pub fn log(&self) -> KernelLog {
        let mut entries: Vec<&Entry> = self.hits.values().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.at));
        KernelLog {
            hits: entries.into_iter().map(|entry| entry.hit.clone()).collect(),
            lines: self.lines,
            lost: self.lost,
            unread: Vec::new(),
        }
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(LINE_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> Times {
        Times { read_at: Wall(1_000_000_000), booted_at: Reading::Value(Wall(0)) }
    }

    fn tally(lines: &[&str]) -> KernelLog {
        let mut tally = Tally::new(&Rules::builtin(), Some(77));
        for line in lines {
            tally.line(line, &times());
        }
        tally.log()
    }

    #[test]
    fn lines_of_one_rule_and_function_are_one_entry() {
        let log = tally(&[
            "[    1.000000] mlx5_core 0000:5e:00.0: device's health compromised - reached miss count",
            "[    2.000000] nothing",
            "[    3.000000] mlx5_core 0000:5e:00.1: device's health compromised - reached miss count",
            "[    4.000000] mlx5_core 0000:5e:00.0: device's health compromised - reached miss count\x1b",
        ]);
        assert_eq!((log.lines, log.hits.len()), (4, 2));
        let hit = &log.hits[0];
        assert_eq!((hit.count, hit.subject.as_deref()), (2, Some("pci 0000:5e:00.0")));
        assert_eq!((&hit.first, &hit.last), (&Reading::Value(Wall(1_000)), &Reading::Value(Wall(4_000))));
        assert_eq!(hit.recent, [Wall(1_000), Wall(4_000)]);
        assert!(!hit.line.contains('\x1b') && hit.line.starts_with("mlx5_core"));
    }

    #[test]
    fn a_planned_reset_makes_what_follows_context_for_two_minutes_and_one_function() {
        let reset = "[  100.000000] mlx5_core 0000:5e:00.0: Got Device Reset";
        let stuck = |at: &str, function: &str| {
            format!(
                "[{at}.000000] mlx5_core 0000:5e:00.{function}: device's health compromised - reached miss count"
            )
        };
        let rules =
            |lines: &[&str]| -> Vec<String> { tally(lines).hits.into_iter().map(|h| h.rule).collect() };
        assert_eq!(rules(&[reset, &stuck("219", "0")]), ["mlx5-planned-reset"]);
        assert_eq!(rules(&[reset, &stuck("221", "0")])[0], "mlx5-health-counter-stuck");
        assert_eq!(rules(&[reset, &stuck("219", "1")])[0], "mlx5-health-counter-stuck");
        let failed = "[  130.000000] mlx5_core 0000:5e:00.0: health recovery failed";
        assert_eq!(rules(&[reset, failed])[0], "mlx5-recovery-failed", "a reset that failed is no plan");
    }

    #[test]
    fn our_own_echo_is_told_from_that_of_others() {
        let line = |pid: u32| {
            format!(
                "mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid {pid}): ACCESS_REG(0x805) op_mod(0x1) failed, status bad resource(0x5), syndrome (0x305684), err(-22)"
            )
        };
        assert_eq!(tally(&[&line(77)]).hits[0].rule, "mlx5-register-own-echo");
        assert_eq!(tally(&[&line(78)]).hits[0].rule, "mlx5-register-refused");
    }

    #[test]
    fn a_flood_of_names_pushes_out_context_and_no_fault() {
        let mut tally = Tally::new(&Rules::builtin(), None);
        tally.line("mlx5_core 0000:5e:00.0: Fatal error 1 detected", &times());
        for i in 0..HITS_MAX * 2 {
            tally.line(&format!("mlx5_core 0000:5e:00.0 eth{i}: Link up, pci {:04x}:00:00.0", i), &times());
            tally.line(&format!("systemd-networkd[1]: eth{i}: Gained carrier"), &times());
        }
        let log = tally.log();
        assert_eq!(log.hits.len(), HITS_MAX);
        assert!(log.hits.iter().any(|hit| hit.rule == "mlx5-fatal-error"));
    }

    #[test]
    fn only_the_latest_times_are_kept() {
        let mut tally = Tally::new(&Rules::builtin(), None);
        for second in 0..100 {
            tally.line(&format!("[{second}.0] mlx5_core 0000:5e:00.0 eth0: Link down"), &times());
        }
        let hit = tally.log().hits.remove(0);
        assert_eq!((hit.count, hit.recent.len()), (100, COUNT_MAX));
        assert_eq!(hit.recent.last(), Some(&Wall(99_000)));
    }
}
