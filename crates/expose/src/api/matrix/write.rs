//! The three forms of a matrix written in portions, row by row: a whole one of thousands of endpoints is hundreds of megabytes as text,
//! and nobody holds them.

use super::bin;
use super::{CAUSES_MAX, MatrixCause, MatrixHead, cause_texts, legend};
use crate::api::{CellState, STATE_SELF};
use rdmascope_model::{Cause, Exclusion, Metric, Side, Step};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What stands in [`MatrixRow::figures`] and [`MatrixRow::at_ms`] where there is nothing.
pub(super) const NOTHING: u64 = u64::MAX;
pub(super) const FRESH: u8 = CellState::Fresh.letter() as u8;
pub(super) const STALE: u8 = CellState::Stale.letter() as u8;
const FAILED: u8 = CellState::Failed.letter() as u8;
const EXCLUDED: u8 = CellState::Excluded.letter() as u8;

/// One source's cells, in the order of the endpoints; what stands on the diagonal is not looked at.
#[derive(Clone, Copy, Debug)]
pub struct MatrixRow<'a> {
    /// Letters of the states, [`CellState::letter`].
    pub states: &'a [u8],
    /// Median latency or round trip in ns, or average bandwidth in bits per second; `u64::MAX` where there is none. Not looked at unless
    /// the cell is fresh or stale.
    pub figures: &'a [u64],
    /// Latency: 99th percentile in ns; pings: share that was lost. NaN where there is none. Not looked at unless as above.
    pub beside: &'a [f64],
    /// When the cell was measured, failed or was found excluded, milliseconds since 1970; `u64::MAX` where that is not known.
    pub at_ms: &'a [u64],
}

/// What of a row is looked at beside its states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// [`MatrixRow::figures`].
    pub figures: bool,
    /// A quantile or a share that is told beside the figure.
    pub beside: bool,
    /// [`MatrixRow::at_ms`].
    pub at: bool,
}

/// Why a cell has no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellReason {
    /// Its probe failed.
    Failed(Cause, Step, Side),
    /// It was not probed.
    Excluded(Exclusion),
}

/// Hands the row of a source to whoever asks; of what is not needed anything may stand in it.
pub type ReadRow<'a> = dyn Fn(usize, Needed, &mut dyn FnMut(MatrixRow<'_>)) + 'a;

/// What a matrix is read from.
#[derive(Clone, Copy)]
pub struct MatrixCells<'a> {
    /// Its rows.
    pub row: &'a ReadRow<'a>,
    /// Why the cell of (source, target) has no figure.
    pub reason: &'a dyn Fn(usize, usize) -> Option<CellReason>,
}

/// How a matrix is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixForm {
    /// A [`super::MatrixView`].
    Json,
    /// First row targets, first column sources; a number for a fresh cell, else the word of its state.
    Csv,
    /// See [`super::decode_bin`].
    Bin,
}

/// What one of the lists of the JSON form has of each cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    State,
    Figure(&'static str),
    Quantile(&'static str),
    Share(&'static str),
    At,
}

/// Where the writing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Head,
    /// List and row; the other forms have one list.
    Rows(usize, usize),
    Done,
}

/// A matrix that is being written.
#[derive(Debug)]
pub struct MatrixWriter {
    head: MatrixHead,
    form: MatrixForm,
    stage: Stage,
    /// Cells without figures that were seen among the states, and how many more.
    odd: Vec<(usize, usize)>,
    odd_left_out: u64,
}

impl MatrixWriter {
    /// Begins to write.
    #[must_use]
    pub fn new(head: MatrixHead, form: MatrixForm) -> Self {
        Self { head, form, stage: Stage::Head, odd: Vec::new(), odd_left_out: 0 }
    }

    /// The next portion, of so many cells or a row more; `None` when all is written.
    pub fn next(&mut self, cells_max: usize, cells: MatrixCells<'_>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut left = cells_max.max(1);
        while left > 0 {
            match self.stage {
                Stage::Head => {
                    self.begin(&mut out);
                    self.stage = Stage::Rows(0, 0);
                }
                Stage::Rows(list, row) if row < self.len() => {
                    (cells.row)(row, self.needed(list), &mut |read| self.row(list, row, read, &mut out));
                    self.stage = Stage::Rows(list, row + 1);
                    left = left.saturating_sub(self.len());
                }
                Stage::Rows(list, _) => {
                    let last = self.form != MatrixForm::Json || list + 1 == self.fields().len();
                    if self.form == MatrixForm::Json {
                        out.push(b']');
                    }
                    self.stage = if last { Stage::Done } else { Stage::Rows(list + 1, 0) };
                    if !last {
                        self.begin_list(list + 1, &mut out);
                    } else if self.form == MatrixForm::Json {
                        self.end(cells, &mut out);
                    }
                }
                Stage::Done => break,
            }
        }
        (!out.is_empty()).then_some(out)
    }

    fn len(&self) -> usize {
        self.head.endpoints.len()
    }

    fn fields(&self) -> &'static [Field] {
        const AT: Field = Field::At;
        match self.head.metric {
            Metric::Latency => &[Field::State, Field::Figure("p50_ns"), Field::Quantile("p99_ns"), AT],
            Metric::Ping => &[Field::State, Field::Figure("p50_ns"), Field::Share("loss_ratio"), AT],
            Metric::Bandwidth => &[Field::State, Field::Figure("average_bits_per_second"), AT],
        }
    }

    fn needed(&self, list: usize) -> Needed {
        let none = Needed::default();
        match (self.form, self.fields().get(list)) {
            (MatrixForm::Bin, _) => Needed { figures: true, beside: true, ..none },
            (MatrixForm::Csv, _) | (_, Some(Field::Figure(_))) => Needed { figures: true, ..none },
            (_, Some(Field::Quantile(_) | Field::Share(_))) => Needed { beside: true, ..none },
            (_, Some(Field::At)) => Needed { at: true, ..none },
            (_, Some(Field::State) | None) => none,
        }
    }

    fn begin(&self, out: &mut Vec<u8>) {
        match self.form {
            MatrixForm::Bin => bin::header(&self.head, out),
            MatrixForm::Csv => {
                let what = match self.head.metric {
                    Metric::Latency | Metric::Ping => "p50_ns",
                    Metric::Bandwidth => "average_bits_per_second",
                };
                out.extend(format!("{what} source\\target").as_bytes());
                for name in &self.head.endpoints {
                    out.push(b',');
                    out.extend(name.as_bytes());
                }
                out.push(b'\n');
            }
            MatrixForm::Json => {
                json(out, &JsonHead::of(&self.head));
                // What follows belongs to the same object.
                out.pop();
                self.begin_list(0, out);
            }
        }
    }

    fn begin_list(&self, list: usize, out: &mut Vec<u8>) {
        let name = match self.fields()[list] {
            Field::State => "state",
            Field::Figure(name) | Field::Quantile(name) | Field::Share(name) => name,
            Field::At => "measured_at_ms",
        };
        out.push(b',');
        json(out, name);
        out.extend(b":[");
    }

    fn row(&mut self, list: usize, source: usize, row: MatrixRow<'_>, out: &mut Vec<u8>) {
        match self.form {
            MatrixForm::Bin => bin::row(self.head.metric, source, row, out),
            MatrixForm::Csv => self.csv_row(source, row, out),
            MatrixForm::Json => {
                if source > 0 {
                    out.push(b',');
                }
                match self.fields()[list] {
                    Field::State => self.states(source, row, out),
                    Field::Figure(_) => {
                        list_of(out, self.len(), |target| row.figure(source, target), |out, v| json(out, &v));
                    }
                    Field::Quantile(_) => {
                        list_of(
                            out,
                            self.len(),
                            |target| row.beside(source, target),
                            |out, v| json(out, &(v as u64)),
                        );
                    }
                    Field::Share(_) => {
                        list_of(out, self.len(), |target| row.beside(source, target), share);
                    }
                    Field::At => {
                        let at = |target: usize| (target != source).then(|| row.at_ms[target]);
                        let at = |target| at(target).filter(|at| *at != NOTHING);
                        list_of(out, self.len(), at, |out, v| json(out, &v));
                    }
                }
            }
        }
    }

    fn states(&mut self, source: usize, row: MatrixRow<'_>, out: &mut Vec<u8>) {
        out.push(b'"');
        let start = out.len();
        out.extend(row.states);
        out[start + source] = STATE_SELF as u8;
        out.push(b'"');
        let odd = |letter: &u8| matches!(*letter, FAILED | EXCLUDED);
        for (target, _) in row.states.iter().enumerate().filter(|(_, letter)| odd(letter)) {
            if target == source {
                continue;
            }
            if self.odd.len() < CAUSES_MAX {
                self.odd.push((source, target));
            } else {
                self.odd_left_out += 1;
            }
        }
    }

    fn csv_row(&self, source: usize, row: MatrixRow<'_>, out: &mut Vec<u8>) {
        out.extend(self.head.endpoints[source].as_bytes());
        for (target, &letter) in row.states.iter().enumerate() {
            out.push(b',');
            if target == source {
                continue;
            }
            match row.figure(source, target).filter(|_| letter == FRESH) {
                Some(figure) => json(out, &figure),
                None => {
                    let state = CellState::from_letter(letter.into());
                    out.extend(state.map_or("", CellState::as_str).as_bytes());
                }
            }
        }
        out.push(b'\n');
    }

    /// Why cells have no figure; those that have one by now need no reason.
    fn end(&mut self, cells: MatrixCells<'_>, out: &mut Vec<u8>) {
        let name = |at: usize| self.head.endpoints[at].clone();
        let causes = self.odd.iter().filter_map(|&(source, target)| {
            let (state, cause, step, side) = match (cells.reason)(source, target)? {
                CellReason::Failed(cause, step, side) => {
                    (CellState::Failed, cause.id(), Some(step.as_str()), Some(side.as_str()))
                }
                CellReason::Excluded(why) => (CellState::Excluded, why.as_str(), None, None),
            };
            Some(MatrixCause {
                source: name(source),
                target: name(target),
                state,
                cause: cause.to_owned(),
                step: step.map(str::to_owned),
                side: side.map(str::to_owned),
            })
        });
        let causes: Vec<_> = causes.collect();
        let ids: BTreeSet<&str> = causes.iter().map(|row| row.cause.as_str()).collect();
        out.extend(b",\"causes\":");
        json(out, &causes);
        out.extend(b",\"causes_left_out\":");
        json(out, &self.odd_left_out);
        out.extend(b",\"cause_texts\":");
        json(out, &cause_texts(&ids));
        out.push(b'}');
    }
}

impl MatrixRow<'_> {
    /// Never a number that stands for a failure.
    fn has_figures(&self, source: usize, target: usize) -> bool {
        target != source && matches!(self.states[target], FRESH | STALE)
    }

    pub(super) fn figure(&self, source: usize, target: usize) -> Option<u64> {
        let figure = self.figures[target];
        (figure != NOTHING && self.has_figures(source, target)).then_some(figure)
    }

    pub(super) fn beside(&self, source: usize, target: usize) -> Option<f64> {
        let beside = self.beside[target];
        (!beside.is_nan() && self.has_figures(source, target)).then_some(beside)
    }
}

/// The first part of a [`super::MatrixView`].
#[derive(Serialize)]
struct JsonHead<'a> {
    metric: &'a str,
    unit: &'a str,
    method: &'a str,
    clock: &'a str,
    revision: u64,
    generated_at: String,
    coverage_seconds: Option<f64>,
    stale_after_seconds: f64,
    median: Option<u64>,
    endpoints: &'a [String],
    legend: BTreeMap<String, String>,
}

impl<'a> JsonHead<'a> {
    fn of(head: &'a MatrixHead) -> Self {
        Self {
            metric: head.metric.as_str(),
            unit: match head.metric {
                Metric::Latency | Metric::Ping => "ns",
                Metric::Bandwidth => "bits_per_second",
            },
            method: head.method,
            clock: head.clock,
            revision: head.revision,
            generated_at: head.generated_at.to_string(),
            coverage_seconds: head.coverage_seconds,
            stale_after_seconds: head.stale_after_seconds,
            median: head.median,
            endpoints: &head.endpoints,
            legend: legend(),
        }
    }
}

fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Writing numbers and texts to memory cannot fail.
    let _ = serde_json::to_writer(out, value);
}

fn share(out: &mut Vec<u8>, share: f64) {
    // Nearly all of them, and quicker than a number that may be anything.
    if share == 0.0 { out.extend(b"0.0") } else { json(out, &share) }
}

/// One row of a list: what each cell has, or `null`.
fn list_of<T>(
    out: &mut Vec<u8>,
    len: usize,
    value: impl Fn(usize) -> Option<T>,
    write: impl Fn(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for target in 0..len {
        if target > 0 {
            out.push(b',');
        }
        match value(target) {
            Some(value) => write(out, value),
            None => out.extend(b"null"),
        }
    }
    out.push(b']');
}
