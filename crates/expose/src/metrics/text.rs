//! The Prometheus text format 0.0.4: one block per family, labels by the names of the catalogue, values escaped.

use std::fmt::{Display, Write as _};

use super::Family;

/// Content type of every answer with metrics; Prometheus 3 refuses an answer without one.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics being written.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// One family with all its samples. Without a sample nothing is written.
    pub(super) fn family(&mut self, family: &Family, fill: impl FnOnce(&mut Samples<'_>)) {
        let start = self.0.len();
        header(&mut self.0, family);
        let body = self.0.len();
        fill(&mut Samples { out: &mut self.0, family });
        if self.0.len() == body {
            self.0.truncate(start);
        }
    }

    /// A family with one sample that has no labels.
    pub(super) fn single(&mut self, family: &Family, value: impl Display) {
        self.family(family, |samples| samples.add(&[], value));
    }

    pub(super) fn done(self) -> String {
        self.0
    }
}

/// What was seen of one kind, in buckets.
#[derive(Clone, Copy, Debug)]
pub struct SpreadInput<'a> {
    /// Label values.
    pub labels: [&'a str; 3],
    /// Upper ends of the buckets.
    pub bounds: &'a [f64],
    /// Observations in each bucket, not added up; the last is behind the last end.
    pub counts: &'a [u64],
    /// Sum of all observations.
    pub sum: f64,
}

impl Text {
    /// A classic histogram of several label sets.
    pub(super) fn histogram(&mut self, family: &Family, rows: &[SpreadInput<'_>]) {
        if rows.is_empty() {
            return;
        }
        header(&mut self.0, family);
        let names: Vec<&str> = family.labels.iter().copied().chain(["le"]).collect();
        for row in rows {
            let [a, b, c] = row.labels;
            let ends = row.bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
            let mut so_far = 0;
            for (end, count) in ends.zip(row.counts) {
                so_far += count;
                line_of(&mut self.0, &(family.name.to_owned() + "_bucket"), &names, &[a, b, c, &end], so_far);
            }
            line_of(&mut self.0, &(family.name.to_owned() + "_sum"), family.labels, &row.labels, row.sum);
            line_of(&mut self.0, &(family.name.to_owned() + "_count"), family.labels, &row.labels, so_far);
        }
    }
}

/// The samples of one family.
pub(super) struct Samples<'a> {
    out: &'a mut String,
    family: &'a Family,
}

impl Samples<'_> {
    /// One sample; label values stand in the order of the family's label names.
    pub(super) fn add(&mut self, labels: &[&str], value: impl Display) {
        sample(self.out, self.family, labels, value);
    }
}

/// The two lines above a family.
pub(super) fn header(out: &mut String, family: &Family) {
    let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
    line(out, format_args!("# HELP {} {help}\n# TYPE {} {}", family.name, family.name, family.kind.as_str()));
}

/// One sample line. An empty label value means the same as no label and is left out.
pub(super) fn sample(out: &mut String, family: &Family, labels: &[&str], value: impl Display) {
    debug_assert_eq!(labels.len(), family.labels.len(), "labels of {}", family.name);
    line_of(out, family.name, family.labels, labels, value);
}

fn line_of(out: &mut String, name: &str, names: &[&str], labels: &[&str], value: impl Display) {
    out.push_str(name);
    let mut open = '{';
    for (name, value) in names.iter().zip(labels).filter(|(_, value)| !value.is_empty()) {
        out.push(open);
        out.push_str(name);
        out.push_str("=\"");
        for c in value.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
        out.push('"');
        open = ',';
    }
    if open == ',' {
        out.push('}');
    }
    line(out, format_args!(" {value}"));
}

fn line(out: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to memory cannot fail.
    let _ = writeln!(out, "{words}");
}
