//! The report as one page that opens anywhere, offline: nothing is loaded from elsewhere, and the maps are in it.

use super::files::{escaped, in_line};
use super::judged::number;
use super::map::map;
use super::text::badness;
use super::word;
use crate::failure::Failure;
use crate::figures::Unit;
use rdmascope_expose::api::{BatchPairView, SelfcheckReport, Severity};

/// Pairs of a metric in the list of the worst.
const WORST_MAX: usize = 50;
/// Entries of a kind: a page must stay small, and the other forms have all.
const SHOWN_MAX: usize = 200;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1a1a1a;background:#fff}\
h1{font-size:1.4rem;border-left:.6rem solid;padding-left:.6rem}h2{font-size:1.1rem;margin-top:2rem}\
.ok{border-color:#0072b2}.fail{border-color:#d55e00}.warn{border-color:#e69f00}.unknown{border-color:#56b4e9}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .5rem;border-bottom:1px solid #ddd;vertical-align:top}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}li{margin:.4rem 0}small{color:#555}\
img{image-rendering:pixelated;border:1px solid #888;max-width:100%}\
.key{display:inline-block;width:1em;height:1em;border:1px solid #888;vertical-align:middle;margin:0 .3em 0 1em}";

/// The page.
pub(crate) fn html(report: &SelfcheckReport) -> Result<String, Failure> {
    let class = match report.status {
        Severity::Ok => "ok",
        Severity::Warn => "warn",
        Severity::Unknown => "unknown",
        Severity::Fail => "fail",
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>rdmascope selfcheck: {}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1 class=\"{class}\">{}</h1>\n",
        escaped(word(report.status)),
        escaped(&report.headline)
    );
    let carry = if report.drained { "drained" } else { "live" };
    let interrupted = if report.interrupted { " It was interrupted." } else { "" };
    page.push_str(&format!(
        "<p><small>preset {}, seed {}, nodes {carry}, {:.0} s from {}, rdmascope {}.{interrupted}</small></p>\n",
        escaped(&report.preset),
        report.seed,
        report.seconds,
        escaped(&report.began_at),
        escaped(&report.version)
    ));
    list(
        &mut page,
        "Not tested",
        report.not_tested.len(),
        report.not_tested.iter().map(|one| {
            format!(
                "<b>{}</b>: {}<br>next step: {}",
                escaped(&one.what),
                escaped(&one.reason),
                escaped(&one.next_step)
            )
        }),
    );
    list(
        &mut page,
        "Suspects",
        report.suspects.len(),
        report.suspects.iter().map(|one| {
            let seen: Vec<_> =
                one.evidence.iter().map(|line| format!("<br>seen: {}", escaped(line))).collect();
            format!(
                "<b>{} {}</b>: {}{}<br>next step: {}",
                word(one.status),
                escaped(&one.names.join(", or ")),
                escaped(&one.text),
                seen.concat(),
                escaped(&one.next_step)
            )
        }),
    );
    maps(&mut page, report)?;
    tables(&mut page, report);
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

fn list(page: &mut String, title: &str, count: usize, entries: impl Iterator<Item = String>) {
    if count == 0 {
        return;
    }
    page.push_str(&format!("<h2>{title}</h2>\n<ul>\n"));
    entries.take(SHOWN_MAX).for_each(|entry| page.push_str(&format!("<li>{entry}</li>\n")));
    if count > SHOWN_MAX {
        page.push_str(&format!("<li>and {} more: the JSON form has all</li>\n", count - SHOWN_MAX));
    }
    page.push_str("</ul>\n");
}

fn maps(page: &mut String, report: &SelfcheckReport) -> Result<(), Failure> {
    one_map(page, report, ("latency", "Latency"), |ns| Unit::Microseconds.show(ns))?;
    one_map(page, report, ("bandwidth", "Goodput"), |bps| Unit::of_rates(bps).show(bps))
}

fn one_map(
    page: &mut String,
    report: &SelfcheckReport,
    (metric, title): (&str, &str),
    show: impl Fn(u64) -> String,
) -> Result<(), Failure> {
    let Some(map) = map(report, metric, show)? else { return Ok(()) };
    page.push_str(&format!(
        "<h2>{title} of every pair</h2>\n<p><small>Sources down, targets across, in the order of their names.</small></p>\n\
         <img width=\"{0}\" height=\"{0}\" alt=\"map of {metric}\" src=\"{1}\">\n<p>",
        map.side, map.url
    ));
    for (colour, words) in map.legend {
        page.push_str(&format!(
            "<span class=\"key\" style=\"background:{colour}\"></span>{}",
            escaped(&words)
        ));
    }
    page.push_str("</p>\n");
    Ok(())
}

fn table(page: &mut String, title: &str, head: &[&str], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    let heads: Vec<_> = head.iter().map(|cell| format!("<th>{cell}</th>")).collect();
    page.push_str(&format!("<h2>{title}</h2>\n<table>\n<tr>{}</tr>\n", heads.concat()));
    for row in rows.iter().take(SHOWN_MAX) {
        let cells: Vec<_> = row.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
        page.push_str(&format!("<tr>{}</tr>\n", cells.concat()));
    }
    page.push_str("</table>\n");
    if rows.len() > SHOWN_MAX {
        page.push_str(&format!("<p>and {} more: the JSON form has all</p>\n", rows.len() - SHOWN_MAX));
    }
}

fn tables(page: &mut String, report: &SelfcheckReport) {
    let stages: Vec<_> = report
        .stages
        .iter()
        .map(|s| {
            vec![s.name.clone(), word(s.status).to_owned(), s.text.clone(), format!("{:.1} s", s.seconds)]
        })
        .collect();
    table(page, "Stages", &["stage", "status", "found", "took"], &stages);
    let of = |value: Option<f64>| value.map_or("-".to_owned(), number);
    let limits: Vec<_> = report
        .limits
        .iter()
        .map(|l| {
            let asked = l.asked.map_or("any".to_owned(), |asked| format!("{} {}", l.sense, number(asked)));
            let missed =
                if l.sense.is_empty() { "-".to_owned() } else { format!("{} of {}", l.missed, l.judged) };
            let from = l.from.clone();
            vec![
                format!("{}: {}", l.name, l.text),
                l.unit.clone(),
                asked,
                of(l.worst),
                of(l.median),
                missed,
                from,
            ]
        })
        .collect();
    table(page, "Limits", &["limit", "unit", "asked", "worst", "median", "miss it", "from"], &limits);
    for (metric, title) in [("latency", "Worst pairs, latency"), ("bandwidth", "Worst pairs, goodput")] {
        let mut of: Vec<&BatchPairView> =
            report.pairs.iter().filter(|pair| pair.metric == metric && badness(pair).0 > 0).collect();
        of.sort_by_key(|pair| std::cmp::Reverse(badness(pair)));
        let rows: Vec<_> = of
            .iter()
            .take(WORST_MAX)
            .map(|pair| {
                let [source, target, figure] = in_line(report, pair);
                let why = if pair.value.is_some() { pair.why.join(", ") } else { String::new() };
                vec![word(pair.status).to_owned(), source, target, figure, why]
            })
            .collect();
        table(page, title, &["status", "source", "target", "seen", "misses"], &rows);
    }
    let incasts: Vec<_> = report
        .incasts
        .iter()
        .map(|i| vec![word(i.status).to_owned(), i.target.clone(), i.sources.join(", "), i.text.join("; ")])
        .collect();
    table(page, "Incasts", &["status", "receiver", "senders", "found"], &incasts);
    let nodes: Vec<_> = report
        .nodes
        .iter()
        .map(|node| vec![word(node.status).to_owned(), node.name.clone(), node.text.join("; ")])
        .collect();
    table(page, "Nodes", &["status", "node", "found"], &nodes);
}
