//! From what was learned to the report: every pair held against the limits, the worst of everything as the verdict.

use super::arguments::SelfcheckFlags;
use super::facts::{Facts, Pair};
use super::{exit_code, local, suspects, worse};
use crate::output::plain;
use rdmascope_expose::api::{BatchPairView, LimitView, SelfcheckReport, Severity};
use rdmascope_localise::batch::{Judged, Limit, Limits, Miss, Row, Sense, judge};
use rdmascope_model::Wall;
use std::time::Duration;

/// Judges all pairs of the batch.
pub(crate) fn pairs(facts: &Facts, limits: &Limits) -> (Vec<Judged>, Vec<Row>) {
    let looks: Vec<_> = facts.pairs.iter().map(Pair::look).collect();
    judge(&looks, limits)
}

/// Judges those that were measured alone as if they stood in the place of the same pairs of the batch.
pub(crate) fn alone(facts: &Facts, limits: &Limits) -> Vec<Judged> {
    if facts.alone.is_empty() {
        return Vec::new();
    }
    let mut looks: Vec<_> = facts.pairs.iter().map(Pair::look).collect();
    let begin = looks.len();
    looks.extend(facts.alone.iter().map(Pair::look));
    judge(&looks, limits).0.split_off(begin)
}

/// The whole report.
pub(crate) fn report(
    flags: &SelfcheckFlags,
    limits: &Limits,
    facts: &Facts,
    (began_at, took): (Wall, Duration),
) -> SelfcheckReport {
    let (judged, rows) = pairs(facts, limits);
    let again = alone(facts, limits);
    let suspects = suspects::suspects(facts, &judged, &again);
    let mut not_tested = facts.not_tested.clone();
    let limit_views = limit_views(flags, limits, facts, &rows);
    for view in limit_views.iter().filter(|view| view.unknown > 0) {
        // Incasts were told of one by one.
        if view.name.starts_with("incast") {
            continue;
        }
        not_tested.push(rdmascope_expose::api::NotTestedView {
            what: format!("{} of {} pairs or ports", view.name, view.unknown),
            reason: "nobody counts it there, or no rate is known".to_owned(),
            next_step: format!("If nobody can know it, leave it out: --limit {}=any.", view.name),
        });
    }
    let mut status = facts.stages.iter().fold(Severity::Ok, |status, stage| worse(status, stage.status));
    status = suspects.iter().fold(status, |status, suspect| worse(status, suspect.status));
    // A pair that was bad once, and fine alone, is a warning; its stage said that it failed.
    if judged.iter().any(|one| matches!(one, Judged::Bad(_))) && suspects.is_empty() {
        status = worse(status, Severity::Fail);
    }
    if !not_tested.is_empty() {
        status = worse(status, Severity::Unknown);
    }
    let mut report = SelfcheckReport {
        status,
        exit_code: exit_code(status),
        headline: String::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        began_at: began_at.to_string(),
        seconds: took.as_secs_f64(),
        preset: flags.preset.name.to_owned(),
        seed: flags.seed,
        drained: !flags.live,
        interrupted: not_tested.iter().any(|one| one.reason == super::interrupted().text()),
        not_tested,
        suspects,
        stages: stages(facts, &judged, &rows),
        nodes: facts.nodes.clone(),
        limits: limit_views,
        endpoints: facts.endpoints.iter().map(|endpoint| endpoint.name.clone()).collect(),
        pairs: facts.pairs.iter().zip(&judged).map(|(pair, judged)| pair_view(facts, pair, judged)).collect(),
        incasts: facts.incasts.clone(),
    };
    report.headline = headline(&report, facts);
    report
}

/// The stages of pairs know only now how they came out.
fn stages(facts: &Facts, judged: &[Judged], rows: &[Row]) -> Vec<rdmascope_expose::api::StageView> {
    let mut stages = facts.stages.clone();
    for stage in &mut stages {
        let of = facts.pairs.iter().zip(judged).filter(|(pair, _)| pair.metric.as_str() == stage.name);
        let bad =
            of.filter(|(_, judged)| matches!(judged, Judged::Bad(misses) if !misses.is_empty())).count();
        if bad > 0 {
            stage.status = Severity::Fail;
            stage.text = format!("{}, {bad} miss a limit", stage.text);
        }
        let unknown = rows.iter().any(|row| row.unknown > 0 && belongs(row.limit, &stage.name));
        if unknown {
            stage.status = worse(stage.status, Severity::Unknown);
        }
    }
    stages
}

fn belongs(limit: Limit, stage: &str) -> bool {
    match limit {
        Limit::Latency | Limit::LatencyOfBatch | Limit::P99 => stage == "latency",
        Limit::Goodput | Limit::GoodputOfBatch => stage == "bandwidth",
        Limit::Retransmits => stage == "latency" || stage == "bandwidth",
        _ => false,
    }
}

fn headline(report: &SelfcheckReport, facts: &Facts) -> String {
    let tcp = !facts.endpoints.is_empty() && facts.endpoints.iter().all(|e| e.fabric == "tcp");
    let what = if tcp { " over TCP, which says nothing about RDMA" } else { "" };
    let (nodes, ports) = (facts.batch.len(), report.endpoints.len());
    let words = match report.status {
        Severity::Ok => format!("every pair keeps to the limits of {}{what}", report.preset),
        Severity::Warn => "nothing is broken, and something is to be looked at".to_owned(),
        Severity::Unknown => {
            let first = report.not_tested.first().map(|one| format!("{}: {}", one.what, one.reason));
            format!("not everything was tested ({})", first.unwrap_or_else(|| "see below".to_owned()))
        }
        Severity::Fail => {
            let who = suspects::in_short(&report.suspects);
            if who.is_empty() { "see the stages below".to_owned() } else { format!("suspect: {who}") }
        }
    };
    format!("{}: {nodes} nodes, {ports} ports: {words}", super::verdict(report))
}

/// A miss in words: `latency 12.1 µs (at most 5)`.
pub(crate) fn miss(miss: &Miss) -> String {
    let sense = sense(miss.limit);
    format!("{} {} {} ({sense} {})", miss.limit, number(miss.seen), miss.limit.unit(), number(miss.asked))
}

fn sense(limit: Limit) -> &'static str {
    match limit.sense() {
        Sense::AtLeast => "at least",
        Sense::AtMost => "at most",
        Sense::Says => "",
    }
}

/// Three digits that count, and whole numbers whole.
pub(crate) fn number(value: f64) -> String {
    match value {
        _ if (value - value.round()).abs() < 1e-9 => format!("{value:.0}"),
        _ if value.abs() >= 100.0 => format!("{value:.0}"),
        _ if value.abs() >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn pair_view(facts: &Facts, pair: &Pair, judged: &Judged) -> BatchPairView {
    let (status, why) = match judged {
        Judged::Fine => (Severity::Ok, Vec::new()),
        Judged::Bad(misses) if !misses.is_empty() => (Severity::Fail, misses.iter().map(miss).collect()),
        Judged::Bad(_) => (Severity::Fail, reason(facts, pair)),
        Judged::NotTested => (Severity::Unknown, reason(facts, pair)),
    };
    let ceiling = pair.ceiling_bps.filter(|ceiling| *ceiling > 0);
    let ratio = pair.value.zip(ceiling).map(|(value, ceiling)| value as f64 / ceiling as f64);
    BatchPairView {
        source: pair.source,
        target: pair.target,
        metric: pair.metric.to_string(),
        state: pair.state,
        status,
        value: pair.value,
        p99_ns: pair.p99_ns,
        retransmits: pair.retransmits,
        ratio_to_ceiling: ratio.map(|ratio| (ratio * 1e4).round() / 1e4),
        why,
    }
}

fn reason(facts: &Facts, pair: &Pair) -> Vec<String> {
    let Some(id) = &pair.reason else { return vec!["no reason was told".to_owned()] };
    let words = facts.reasons.get(id).map(|words| format!("{id}: {}", plain(&words.text)));
    vec![words.unwrap_or_else(|| plain(id))]
}

/// Every limit with what was seen beside it, those of ports and incasts too.
fn limit_views(flags: &SelfcheckFlags, limits: &Limits, facts: &Facts, rows: &[Row]) -> Vec<LimitView> {
    let view = |limit: Limit| {
        let given = flags.limits.iter().any(|(own, _)| *own == limit);
        let asked = limits.get(limit);
        if asked.is_none() && !given {
            return None;
        }
        let row = match limit {
            Limit::Rate => of_values(limit, asked?, facts.endpoints.iter().map(local::rate)),
            Limit::Mtu => {
                let rdma = facts
                    .endpoints
                    .iter()
                    .filter(|endpoint| endpoint.fabric != "tcp" && endpoint.fabric != "iwarp");
                of_values(limit, asked?, rdma.map(local::mtu))
            }
            Limit::Incast => of_values(limit, asked?, facts.incast_figures.iter().map(|(share, _)| *share)),
            Limit::IncastRetransmits => {
                let counts = facts.incast_figures.iter().map(|(_, count)| count.map(|count| count as f64));
                of_values(limit, asked?, counts)
            }
            _ => rows.iter().find(|row| row.limit == limit).copied().unwrap_or(Row {
                limit,
                asked: asked.unwrap_or_default(),
                worst: None,
                median: None,
                judged: 0,
                missed: 0,
                unknown: 0,
            }),
        };
        Some(LimitView {
            name: limit.name().to_owned(),
            text: limit.text().to_owned(),
            unit: limit.unit().to_owned(),
            sense: sense(limit).to_owned(),
            asked,
            from: if given { "flag" } else { "preset" }.to_owned(),
            worst: row.worst,
            median: row.median,
            judged: row.judged as u64,
            missed: row.missed as u64,
            unknown: row.unknown as u64,
        })
    };
    Limit::ALL.into_iter().filter_map(view).collect()
}

fn of_values(limit: Limit, asked: f64, values: impl Iterator<Item = Option<f64>>) -> Row {
    let all: Vec<Option<f64>> = values.collect();
    let mut known: Vec<f64> = all.iter().flatten().copied().collect();
    known.sort_by(f64::total_cmp);
    let worst = if limit.sense() == Sense::AtLeast { known.first() } else { known.last() };
    Row {
        limit,
        asked,
        worst: worst.copied(),
        median: known.get(known.len() / 2).copied(),
        judged: known.len(),
        missed: known.iter().filter(|seen| !limit.holds(asked, **seen)).count(),
        unknown: all.len() - known.len(),
    }
}

#[cfg(test)]
#[path = "simulated_tests.rs"]
mod tests;
