//! One measured thing beside what was asked of it, for people and for programs.

use serde_json::json;

/// What is asked of a figure.
#[derive(Clone, Copy)]
pub(crate) enum Asked {
    AtLeast(f64),
    AtMost(f64),
    Between(f64, f64),
    /// Nothing: it explains another row.
    Nothing,
}

/// One measured thing.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) seen: f64,
    pub(crate) unit: &'static str,
    pub(crate) asked: Asked,
    /// What it is compared with, and what was seen of that; nothing when it stands alone.
    pub(crate) against: Option<(&'static str, f64)>,
}

impl Row {
    /// Whether what was asked was seen.
    pub(crate) fn holds(&self) -> bool {
        match self.asked {
            Asked::AtLeast(least) => self.seen >= least,
            Asked::AtMost(most) => self.seen <= most,
            Asked::Between(least, most) => (least..=most).contains(&self.seen),
            Asked::Nothing => true,
        }
    }

    /// A line of a table, or a JSON object.
    pub(crate) fn print(&self, as_json: bool) {
        let (against, seen_against) = self.against.unzip();
        let asked = match self.asked {
            Asked::AtLeast(least) => format!(">= {least}"),
            Asked::AtMost(most) => format!("<= {most}"),
            Asked::Between(least, most) => format!("{least} to {most}"),
            Asked::Nothing => String::new(),
        };
        if as_json {
            println!(
                "{}",
                json!({
                    "what": self.what, "seen": self.seen, "unit": self.unit, "asked": asked,
                    "holds": self.holds(), "against": against, "seen_against": seen_against,
                })
            );
            return;
        }
        let verdict = match (self.asked, self.holds()) {
            (Asked::Nothing, _) => "",
            (_, true) => "holds",
            (_, false) => "FALLS SHORT",
        };
        let beside = against.zip(seen_against).map(|(what, seen)| format!("({what}: {seen:.2})"));
        let beside = beside.unwrap_or_default();
        println!("{:52} {:>10.3} {:6} {asked:12} {verdict:11} {beside}", self.what, self.seen, self.unit);
    }
}
