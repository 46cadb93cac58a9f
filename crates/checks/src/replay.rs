//! What a judgement rests on, so that it can be made again under other numbers long after the machine has changed.
//!
//! A check compares what it sees with numbers of the policy. When a finding is raised, the real check is asked again with other values of
//! each of its numbers: where its answer turns is what it saw, in that number's unit. These turning points, and its answers on every side
//! of them, are kept with the event; a changed policy is then looked up among the check's own answers. Numbers that are spans of time
//! have no such points: what would have been counted over another span is not known, and is said not to be.

use crate::limits::{BOOT_GRACE_SECONDS, LIMITS, Limit, Limits, SETTLE_POLLS, SETTLE_SECONDS};
use crate::{ALL, Check, Look, Policy, Settles};
use rdmascope_model::Status;

/// Answers that are kept for one finding at most; a check with more turning points at once is not kept.
const CELLS_MAX: usize = 64;
/// The ends between which turning points are looked for: no number of a policy lies beyond.
const SMALLEST: f64 = 1e-18;
const LARGEST: f64 = 1e24;
/// How exact a turning point is.
const EXACT: f64 = 1.000_01;
/// How often the real checks may be asked again for all findings of one look: some milliseconds, once for each finding raised.
pub const ASKED_MAX: u32 = 2_000;

/// What a finding rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    numbers: Vec<Number>,
    /// The status in every cell between the turning points, the last number's cells running fastest.
    answers: Vec<Status>,
}

#[derive(Clone, Debug, PartialEq)]
struct Number {
    limit: String,
    /// In force then.
    value: f64,
    /// Where the answer turns, in rising order: from each point on it is another one. `None` for a span of time.
    turns: Option<Vec<f64>>,
}

/// What a finding would be under other numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Again {
    /// Raised as it was.
    Same,
    /// Not raised.
    Silent,
    /// Raised with this status.
    Becomes(Status),
    /// The history does not hold enough to say; why.
    CannotSay(String),
}

/// A span of time, or a count of looks: what would have been seen over another one is not known.
fn is_span(limit: &Limit) -> bool {
    limit.name.ends_with("_seconds") || limit.name == SETTLE_POLLS.name
}

/// The numbers that a check's findings depend on: its own, and those by which a state settles.
fn numbers_of(check: &Check) -> Vec<&'static Limit> {
    const SETTLING: [&Limit; 3] = [&SETTLE_POLLS, &SETTLE_SECONDS, &BOOT_GRACE_SECONDS];
    let settling = SETTLING.into_iter().filter(|_| check.settles == Settles::AfterDebounce);
    check.limits.iter().copied().chain(settling).collect()
}

/// Asks a check again and again, as long as it may be asked.
struct Asker<'a> {
    look: &'a Look<'a>,
    check: &'a Check,
    subject: &'a str,
    left: &'a mut u32,
}

impl Asker<'_> {
    /// What the check says of its subject under a policy; what it says nothing of is fine. `None` when it was asked often enough.
    fn ask(&mut self, policy: &Policy) -> Option<Status> {
        *self.left = self.left.checked_sub(1)?;
        let findings = (self.check.judge)(&Look { policy, ..*self.look });
        let own = findings.iter().filter(|finding| finding.subject == self.subject);
        Some(own.map(|finding| finding.status).max().unwrap_or(Status::Ok))
    }

    fn with(&mut self, policy: &Policy, limit: &Limit, value: f64) -> Option<Status> {
        let mut policy = policy.clone();
        policy.limits.set(limit.name, value);
        self.ask(&policy)
    }

    /// Where the answer turns as one number rises, all others as in `policy`. `seen`: numbers that stand in the finding's evidence, at which
    /// a check that asks for one exact value turns.
    fn turns(&mut self, policy: &Policy, limit: &Limit, seen: &[f64]) -> Option<Vec<f64>> {
        let mut points = vec![0.0, policy.limit(limit), LARGEST];
        points.extend(seen.iter().flat_map(|value| [*value, value + 1.0]));
        points.sort_by(f64::total_cmp);
        points.dedup();
        let mut turns = Vec::new();
        let mut before: Option<(f64, Status)> = None;
        for point in points {
            let status = self.with(policy, limit, point)?;
            if let Some((from, was)) = before.filter(|(_, was)| *was != status) {
                turns.push(self.turn(policy, limit, (from, was), (point, status))?);
            }
            before = Some((point, status));
        }
        Some(turns)
    }

    /// The first value with the second answer, between two values with different ones.
    fn turn(
        &mut self,
        policy: &Policy,
        limit: &Limit,
        (from, was): (f64, Status),
        (to, _): (f64, Status),
    ) -> Option<f64> {
        let (mut low, mut high) = (from.max(SMALLEST), to);
        while high / low > EXACT {
            let middle = (low * high).sqrt();
            if self.with(policy, limit, middle)? == was { low = middle } else { high = middle }
        }
        // People choose whole numbers, and checks count in them.
        let whole = high.floor();
        if whole > low && self.with(policy, limit, whole)? != was {
            high = whole;
        }
        Some(high)
    }
}

/// What a finding of this look rests on; `None` when the check was asked often enough (`left` is what may still be asked), or turns too
/// often to be kept. A rule of the kernel log rests on its line alone: an empty basis.
#[must_use]
pub fn basis(look: &Look<'_>, id: &str, subject: &str, evidence: &[String], left: &mut u32) -> Option<Basis> {
    let check = ALL.iter().find(|check| check.id == id).filter(|check| !numbers_of(check).is_empty());
    let Some(check) = check else {
        return Some(Basis { numbers: Vec::new(), answers: Vec::new() });
    };
    let seen = numbers_in(evidence);
    let mut asker = Asker { look, check, subject, left };
    let limits = numbers_of(check);
    let mut numbers = Vec::new();
    for limit in &limits {
        let turns = if is_span(limit) { None } else { Some(turns_of(&mut asker, limit, &limits, &seen)?) };
        numbers.push(Number { limit: limit.name.to_owned(), value: look.policy.limit(limit), turns });
    }
    let cells: usize = numbers.iter().map(Number::cells).product();
    if cells > CELLS_MAX {
        return None;
    }
    let mut answers = Vec::new();
    for cell in 0..cells {
        let mut policy = look.policy.clone();
        let mut rest = cell;
        for number in numbers.iter().rev() {
            if let Some(value) = number.in_cell(rest % number.cells()) {
                policy.limits.set(&number.limit, value);
            }
            rest /= number.cells();
        }
        answers.push(asker.ask(&policy)?);
    }
    Some(Basis { numbers, answers })
}

/// Where one number turns the answer. Where the others hide it (a ratio that is looked at only beyond another number), they are taken out
/// of its way.
fn turns_of(asker: &mut Asker<'_>, limit: &Limit, all: &[&'static Limit], seen: &[f64]) -> Option<Vec<f64>> {
    for others in [None, Some(0.0), Some(LARGEST)] {
        let mut policy = asker.look.policy.clone();
        if let Some(value) = others {
            for other in all.iter().filter(|other| other.name != limit.name && !is_span(other)) {
                policy.limits.set(other.name, value);
            }
        }
        let turns = asker.turns(&policy, limit, seen)?;
        if !turns.is_empty() {
            return Some(turns);
        }
    }
    Some(Vec::new())
}

/// The numbers that stand in lines of evidence.
fn numbers_in(evidence: &[String]) -> Vec<f64> {
    let words = evidence.iter().flat_map(|line| line.split(|c: char| !(c.is_ascii_digit() || c == '.')));
    let numbers = words.filter_map(|word| word.parse::<f64>().ok()).filter(|number| *number < LARGEST);
    numbers.take(8).collect()
}

impl Number {
    fn cells(&self) -> usize {
        self.turns.as_ref().map_or(1, |turns| turns.len() + 1)
    }

    /// A value of this number in one of its cells; `None` where it makes no difference.
    fn in_cell(&self, cell: usize) -> Option<f64> {
        let turns = self.turns.as_deref().filter(|turns| !turns.is_empty())?;
        match cell.checked_sub(1) {
            None => turns.first().map(|turn| if *turn > 2.0 * SMALLEST { turn / 2.0 } else { 0.0 }),
            Some(at) => turns.get(at).copied(),
        }
    }

    /// The cell of a value.
    fn cell_of(&self, value: f64) -> usize {
        self.turns.iter().flatten().filter(|turn| value >= **turn).count()
    }
}

/// Letters of the statuses, as they are kept.
const LETTERS: [(Status, char); 4] =
    [(Status::Ok, 'o'), (Status::Warn, 'w'), (Status::Unknown, 'u'), (Status::Fail, 'f')];

impl Basis {
    /// As it is kept: a line `NAME VALUE TURNS` for each number (`-`: it makes no difference, `?`: a span of time), and the answers.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let of_number = |number: &Number| {
            let turns = match number.turns.as_deref() {
                None => "?".to_owned(),
                Some([]) => "-".to_owned(),
                Some(turns) => turns.iter().map(|turn| format!("{turn:e}")).collect::<Vec<_>>().join(","),
            };
            format!("{} {:e} {turns}", number.limit, number.value)
        };
        let letter =
            |status: &Status| LETTERS.iter().find(|(of, _)| of == status).map_or('u', |(_, letter)| *letter);
        let mut lines: Vec<String> = self.numbers.iter().map(of_number).collect();
        if !lines.is_empty() {
            lines.push(format!("= {}", self.answers.iter().map(letter).collect::<String>()));
        }
        lines
    }

    /// The other way; `None` for what is none.
    #[must_use]
    pub fn from_lines(lines: &[String]) -> Option<Self> {
        let Some((last, numbers)) = lines.split_last() else {
            return Some(Self { numbers: Vec::new(), answers: Vec::new() });
        };
        let number = |line: &String| {
            let mut words = line.split(' ');
            let (limit, value, turns) = (words.next()?, words.next()?.parse::<f64>().ok()?, words.next()?);
            let turns = match turns {
                "?" => None,
                "-" => Some(Vec::new()),
                list => Some(list.split(',').map(|turn| turn.parse().ok()).collect::<Option<Vec<f64>>>()?),
            };
            Some(Number { limit: limit.to_owned(), value, turns })
        };
        let status = |letter: char| LETTERS.iter().find(|(_, of)| *of == letter).map(|(status, _)| *status);
        let basis = Self {
            numbers: numbers.iter().map(number).collect::<Option<_>>()?,
            answers: last.strip_prefix("= ")?.chars().map(status).collect::<Option<_>>()?,
        };
        let cells: usize = basis.numbers.iter().map(Number::cells).product();
        (cells == basis.answers.len()).then_some(basis)
    }

    /// The numbers of a policy that are not those that were in force: name, then, now.
    #[must_use]
    pub fn changed(&self, limits: &Limits) -> Vec<(&str, f64, f64)> {
        let known = self.numbers.iter().filter_map(|number| {
            let limit = LIMITS.iter().find(|limit| limit.name == number.limit)?;
            Some((number, limits.get(limit)))
        });
        let changed = known.filter(|(number, now)| (number.value - now).abs() > f64::EPSILON * now.abs());
        changed.map(|(number, now)| (number.limit.as_str(), number.value, now)).collect()
    }

    /// The check's answer under other numbers; the error is why it is not known.
    fn answer(&self, limits: &Limits) -> Result<Status, String> {
        let changed = self.changed(limits);
        let mut cell = 0;
        for number in &self.numbers {
            let now = changed.iter().find(|(name, ..)| *name == number.limit).map(|(.., now)| *now);
            if now.is_some() && number.turns.is_none() {
                let name = &number.limit;
                return Err(format!(
                    "{name} is a span of time: what would have been seen over another one is not kept"
                ));
            }
            cell = cell * number.cells() + number.cell_of(now.unwrap_or(number.value));
        }
        self.answers.get(cell).copied().ok_or_else(|| "what is kept of it does not fit together".to_owned())
    }
}

/// What a finding that was raised would be under other numbers. `basis`: what was kept with it, if anything was.
#[must_use]
pub fn again(id: &str, was: Status, basis: Option<&[String]>, limits: &Limits) -> Again {
    // A rule of the kernel log, and a check without numbers, say the same under any policy.
    let check = ALL.iter().find(|check| check.id == id);
    if check.is_none_or(|check| numbers_of(check).is_empty()) {
        return Again::Same;
    }
    let Some(lines) = basis else {
        return Again::CannotSay("what it was judged by was not kept with it".to_owned());
    };
    let Some(basis) = Basis::from_lines(lines).filter(|basis| !basis.numbers.is_empty()) else {
        return Again::CannotSay("what is kept of it was written by another version".to_owned());
    };
    if basis.changed(limits).is_empty() {
        return Again::Same;
    }
    match basis.answer(limits) {
        Ok(Status::Ok) => Again::Silent,
        Ok(status) if status == was => Again::Same,
        Ok(status) => Again::Becomes(status),
        Err(why) => Again::CannotSay(why),
    }
}

#[cfg(test)]
mod tests;
