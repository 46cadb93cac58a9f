//! What a kernel-log rule says, and how it is written in YAML.

use super::pattern::Pattern;
use rdmascope_model::Status;
use serde::Deserialize;
use std::time::Duration;

/// Most lines that a rule can count: as many times are kept of a subject.
pub(crate) const COUNT_MAX: usize = 16;

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Stable id, kebab-case; that of its findings.
    pub id: String,
    /// Who writes the line.
    pub source: Source,
    /// How bad the line is.
    pub class: Class,
    /// Why it makes the node unfit, so that a scheduler may take it out for this line alone: a hard fault of the node itself that does not
    /// pass. Only of class `F`; with `None` the line is told and no node is drained for it.
    pub drain: Option<String>,
    /// Of class `F` without the former: why it is not so.
    pub spare: Option<String>,
    /// So many lines within so long are worse (or better) than one, whatever `only_when` says.
    pub escalate: Option<(Count, Status)>,
    /// Fewer lines than that are no finding.
    pub at_least: Option<Count>,
    /// The line is a finding only then.
    pub only_when: Option<Condition>,
    /// Rules whose lines explain this one: with one of them within ten minutes before or after it, it is no fault of its own.
    pub explained_by: Vec<String>,
    /// A planned reset begins: for so long, lines of the same PCI function belong to it.
    pub opens_window: Option<Duration>,
    /// A fault also within such a window.
    pub despite_window: bool,
    /// What the line means, in one or two sentences.
    pub meaning: String,
    /// Probable causes, the most frequent first.
    pub causes: Vec<String>,
    /// What to do, in order, with the commands to type.
    pub next_steps: Vec<String>,
    /// Whose fault it probably is.
    pub whose: Whose,
    /// Where the message is described: a row of the table of kernel messages, or `L` and a published line.
    pub row: String,
    /// It comes from the operator's folder.
    pub own: bool,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) exempt: Vec<Pattern>,
}

/// Who writes a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The kernel: a line that is known to come from elsewhere does not count.
    #[default]
    Kernel,
    /// A program: a line that is known to come from the kernel does not count.
    Application,
}

/// How bad a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Class {
    /// Somebody must look at once; whether the node is unfit is [`Rule::drain`].
    F,
    /// Error.
    E,
    /// Warning.
    W,
    /// No fault, but worth a word: an ok finding.
    I,
    /// Context: no finding.
    C,
}

impl Class {
    /// The word used in metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::F => "out-of-service",
            Self::E => "error",
            Self::W => "warn",
            Self::I => "info",
            Self::C => "context",
        }
    }

    /// Status of its finding; `None` without one.
    #[must_use]
    pub fn status(self) -> Option<Status> {
        match self {
            Self::F | Self::E => Some(Status::Fail),
            Self::W => Some(Status::Warn),
            Self::I => Some(Status::Ok),
            Self::C => None,
        }
    }
}

/// So many lines within so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Lines.
    pub count: usize,
    /// Within.
    pub within: Duration,
}

/// What must hold for a line to be a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// The port that the line names was in use, is not meant to be down, and is down now.
    PortDown,
    /// A member of a bond is down now.
    BondDegraded,
    /// The bandwidth in the line is less than the port's rate; where the rate is not known, the line is a warning.
    PciBelowPortRate,
    /// The line carries our own process id.
    OwnProcess,
}

/// Whose fault it probably is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Whose {
    /// This host.
    Host,
    /// The peer.
    Peer,
    /// Cables and switches.
    Fabric,
    /// The application.
    Application,
    /// A setting.
    Setting,
    /// Power of slot, module or rack.
    Power,
}

impl Whose {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Host => "this host",
            Self::Peer => "the peer",
            Self::Fabric => "the fabric (cable, optic or switch)",
            Self::Application => "the application",
            Self::Setting => "a setting",
            Self::Power => "power",
        }
    }
}

/// A rule as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    id: String,
    #[serde(default)]
    source: Source,
    #[serde(rename = "match")]
    patterns: Vec<String>,
    #[serde(default, rename = "not")]
    exempt: Vec<String>,
    class: Class,
    drain: Option<String>,
    spare: Option<String>,
    escalate: Option<EscalateForm>,
    at_least: Option<CountForm>,
    only_when: Option<Condition>,
    #[serde(default)]
    explained_by: Vec<String>,
    opens_window: Option<String>,
    #[serde(default)]
    despite_window: bool,
    meaning: String,
    causes: Vec<String>,
    next_steps: Vec<String>,
    whose: Whose,
    #[serde(default)]
    row: String,
    matches: Vec<String>,
    not_matches: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CountForm {
    count: usize,
    within: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EscalateForm {
    count: usize,
    within: String,
    to: StatusForm,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StatusForm {
    Fail,
    Warn,
}

/// Lines that a rule names as its own tests.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    /// It must be the one rule of these.
    pub(crate) matches: Vec<String>,
    /// ... and not of these.
    pub(crate) not_matches: Vec<String>,
}

/// One entry of a file; `Err` names everything that is wrong with it.
pub(crate) fn read(value: serde_yaml::Value, own: bool) -> Result<(Rule, Samples), Vec<String>> {
    let name = value.get("id").and_then(|id| id.as_str()).unwrap_or("a rule without id").to_owned();
    let form: Form = serde_yaml::from_value(value).map_err(|e| vec![format!("{name}: {e}")])?;
    let mut problems = Vec::new();
    let compile = |texts: &[String], problems: &mut Vec<String>| -> Vec<Pattern> {
        let read = texts.iter().map(|text| Pattern::parse(text));
        read.filter_map(|pattern| pattern.map_err(|why| problems.push(why)).ok()).collect()
    };
    let patterns = compile(&form.patterns, &mut problems);
    let exempt = compile(&form.exempt, &mut problems);
    let mut count = |count: usize, within: &str| {
        if count == 0 || count > COUNT_MAX {
            problems.push(format!("count is {count}; it must be 1 to {COUNT_MAX}"));
        }
        Count { count, within: span(within, &mut problems) }
    };
    let at_least = form.at_least.map(|c| count(c.count, &c.within));
    let escalate = form.escalate.map(|e| {
        let to = match e.to {
            StatusForm::Fail => Status::Fail,
            StatusForm::Warn => Status::Warn,
        };
        (count(e.count, &e.within), to)
    });
    let opens_window = form.opens_window.map(|text| span(&text, &mut problems));
    let kebab = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if form.id.is_empty() || !form.id.bytes().all(kebab) {
        problems.push("the id must be lower-case words joined by '-'".to_owned());
    }
    let needed = [
        ("match", form.patterns.len()),
        ("causes", form.causes.len()),
        ("next_steps", form.next_steps.len()),
        ("matches", form.matches.len()),
        ("not_matches", form.not_matches.len()),
        ("meaning", form.meaning.len()),
    ];
    if form.class != Class::F && (form.drain.is_some() || form.spare.is_some()) {
        problems.push("drain and spare are for class F".to_owned());
    }
    if form.drain.is_some() && form.spare.is_some() {
        problems.push("drain or spare, not both".to_owned());
    }
    problems.extend(needed.iter().filter(|(_, n)| *n == 0).map(|(what, _)| format!("{what} is empty")));
    if !problems.is_empty() {
        return Err(problems.into_iter().map(|why| format!("{name}: {why}")).collect());
    }
    let rule = Rule {
        id: form.id,
        source: form.source,
        class: form.class,
        drain: form.drain,
        spare: form.spare,
        escalate,
        at_least,
        only_when: form.only_when,
        explained_by: form.explained_by,
        opens_window,
        despite_window: form.despite_window,
        meaning: form.meaning,
        causes: form.causes,
        next_steps: form.next_steps,
        whose: form.whose,
        row: form.row,
        own,
        patterns,
        exempt,
    };
    Ok((rule, Samples { matches: form.matches, not_matches: form.not_matches }))
}

/// `30s`, `10m`, `24h`.
fn span(text: &str, problems: &mut Vec<String>) -> Duration {
    let unit = [('s', 1), ('m', 60), ('h', 3600)].into_iter().find(|(letter, _)| text.ends_with(*letter));
    let seconds = unit.and_then(|(letter, seconds)| {
        text.trim_end_matches(letter).parse::<u32>().ok().map(|n| u64::from(n) * seconds)
    });
    let seconds = seconds.filter(|seconds| *seconds > 0).unwrap_or_else(|| {
        problems.push(format!("'{text}' is not a span of time such as 30s, 10m or 24h"));
        0
    });
    Duration::from_secs(seconds)
}
