//! What each form of the report says, of a batch that passes, of one that fails, and of one that was not tested.

use super::*;
use crate::selfcheck::html::html;
use crate::selfcheck::text::text;
use rdmascope_expose::api::{
    BatchNodeView, BatchSuspectView, LimitView, NotTestedView, PairState, StageView,
};

fn stage(name: &str, status: Severity) -> StageView {
    StageView { name: name.to_owned(), status, text: "12 of 12 pairs".to_owned(), seconds: 1.25 }
}

/// A pair among so many endpoints; those of the last one are bad, and the first one was not tested.
fn pair(endpoints: u32, source: u32, target: u32, metric: &str) -> BatchPairView {
    let bad = source == endpoints - 1 || target == endpoints - 1;
    let untested = (source, target) == (0, 1);
    BatchPairView {
        source,
        target,
        metric: metric.to_owned(),
        state: if untested { PairState::Excluded } else { PairState::Measured },
        status: match (untested, bad) {
            (true, _) => Severity::Unknown,
            (false, true) => Severity::Fail,
            (false, false) => Severity::Ok,
        },
        // Spread like measured figures are: neither all the same nor in any order.
        value: (!untested).then_some(2_000 + u64::from(source * 7_919 + target * 104_729) % 997),
        p99_ns: None,
        retransmits: Some(0),
        ratio_to_ceiling: None,
        why: if untested { vec!["busy: a port, \"in use\"".to_owned()] } else { Vec::new() },
    }
}

/// A report of all pairs of so many endpoints.
fn report(endpoints: u32) -> SelfcheckReport {
    let pairs = ["latency", "bandwidth"].into_iter().flat_map(|metric| {
        let all = (0..endpoints).flat_map(|a| (0..endpoints).map(move |b| (a, b)));
        all.filter(|(a, b)| a != b).map(move |(a, b)| pair(endpoints, a, b, metric))
    });
    SelfcheckReport {
        status: Severity::Fail,
        exit_code: 2,
        headline: "FAIL: 4 nodes, 4 ports: suspect: n3/mlx5_0/1".to_owned(),
        version: "1.2.3".to_owned(),
        began_at: "2026-11-30T12:00:00.000Z".to_owned(),
        seconds: 12.0,
        preset: "100g".to_owned(),
        seed: 1,
        drained: true,
        interrupted: false,
        not_tested: vec![NotTestedView {
            what: "latency of 1 pairs (n0 -> n1)".to_owned(),
            reason: "a port is <busy> & held".to_owned(),
            next_step: "Wait.".to_owned(),
        }],
        suspects: vec![BatchSuspectView {
            names: vec!["n3/mlx5_0/1".to_owned()],
            status: Severity::Fail,
            text: "6 of its 6 tested pairs are bad".to_owned(),
            evidence: vec!["n3/mlx5_0/1 -> n0/mlx5_0/1: latency 12.1 µs (at most 6)".to_owned()],
            next_step: "See the cable.".to_owned(),
        }],
        stages: vec![
            stage("local", Severity::Ok),
            stage("latency", Severity::Fail),
            stage("bandwidth", Severity::Fail),
            stage("alone", Severity::Fail),
        ],
        nodes: vec![BatchNodeView { name: "n0".to_owned(), status: Severity::Ok, text: Vec::new() }],
        limits: vec![LimitView {
            name: "incast-retransmits".to_owned(),
            text: "sent again".to_owned(),
            unit: "packets".to_owned(),
            sense: "at most".to_owned(),
            asked: Some(1_000_000.0),
            from: "flag".to_owned(),
            worst: Some(123_456_789.0),
            median: Some(12.5),
            judged: 1_047_552,
            missed: 1_047_552,
            unknown: 0,
        }],
        endpoints: (0..endpoints).map(|at| format!("n{at}/mlx5_0/1")).collect(),
        pairs: pairs.collect(),
        incasts: Vec::new(),
    }
}

#[test]
fn the_terminal_shows_the_verdict_first_and_no_line_is_wider_than_80() {
    let mut long = report(4);
    long.suspects[0].names.push(format!("node {}", "gpu-rack-".repeat(9)));
    let shown = text(&long);
    assert!(shown.starts_with("FAIL: 4 nodes, 4 ports: suspect: n3/mlx5_0/1\n"), "{shown}");
    let at = |words: &str| shown.find(words).unwrap_or_else(|| panic!("no {words:?} in\n{shown}"));
    let order = ["\nnot tested\n", "\nsuspects\n", "\nstages\n", "\nlimits\n", "\nworst pairs, latency\n"];
    assert!(order.windows(2).all(|two| at(two[0]) < at(two[1])), "{shown}");
    for line in shown.lines().filter(|line| !line.contains("gpu-rack-gpu-rack-")) {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    assert!(shown.contains("next step: See the cable."), "{shown}");
}

#[test]
fn junit_has_a_suite_for_each_stage_and_skips_what_was_not_tested() {
    let xml = junit(&report(4));
    for suite in ["local", "latency", "bandwidth", "alone", "not tested"] {
        assert!(xml.contains(&format!("<testsuite name=\"{suite}\"")), "no {suite} in\n{xml}");
    }
    assert!(xml.contains("name=\"n3\"><failure message=\"0 pairs fine, 6 bad, 0 not tested\"/>"), "{xml}");
    assert!(
        xml.contains(
            "<skipped message=\"not tested: a port is &lt;busy&gt; &amp; held; next step: Wait.\"/>"
        ),
        "{xml}"
    );
    // A node with one pair that was not tested and a bad one fails; nothing that was not tested is a plain case.
    assert!(!xml.contains("name=\"latency of 1 pairs (n0 -&gt; n1)\"></testcase>"), "{xml}");
    let count = |what: &str| xml.matches(what).count();
    assert_eq!(count("<testsuite "), count("</testsuite>"));
    assert_eq!(count("<testcase "), count("</testcase>"));
}

#[test]
fn csv_has_a_row_for_each_pair_and_metric_and_quotes_what_needs_it() {
    let report = report(4);
    let text = csv(&report);
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 1 + 24);
    assert_eq!(
        lines[1],
        "n0/mlx5_0/1,n1/mlx5_0/1,latency,excluded,not-tested,,ns,,0,,\"busy: a port, \"\"in use\"\"\""
    );
    assert!(lines[3].contains(",measured,fail,") && lines[2].contains(",measured,ok,"), "{lines:?}");
    assert_eq!(quoted("=1+1"), "'=1+1");
}

#[test]
fn json_reads_back_as_it_was_written() {
    let report = report(4);
    let text = json(&report).unwrap();
    assert_eq!(serde_json::from_str::<SelfcheckReport>(&text).unwrap(), report);
}

#[test]
fn the_page_asks_nobody_for_anything_and_a_thousand_endpoints_fit_into_2_mb() {
    let page = html(&report(1_000)).unwrap();
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside} in the page");
    }
    assert_eq!(page.matches("src=\"data:image/png;base64,").count(), 2);
    assert!(page.contains("a port is &lt;busy&gt; &amp; held"));
    assert!(page.contains("not tested</p>") || page.contains(">not tested<"), "the map has a legend");
}

#[test]
fn the_map_shows_bad_pairs_and_those_that_were_not_tested_in_colours_of_their_own() {
    let report = report(4);
    let map = crate::selfcheck::map::map(&report, "latency", |ns| format!("{ns} ns")).unwrap().unwrap();
    assert_eq!(map.side, 256);
    let bytes = base64::Engine::decode(
        &base64::prelude::BASE64_STANDARD,
        map.url.strip_prefix("data:image/png;base64,").unwrap(),
    );
    let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes.unwrap()));
    decoder.set_transformations(png::Transformations::IDENTITY);
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    let at = |source: usize, target: usize| pixels[(source * 64 + 32) * 256 + target * 64 + 32];
    assert_eq!((at(0, 1), at(1, 3), at(3, 1), at(2, 2)), (17, 16, 16, 18));
    assert!(at(1, 0) < 16 && at(1, 2) < 16);
    assert!(map.legend.iter().any(|(colour, words)| colour == "#d55e00" && words.contains("failed")));
    assert!(crate::selfcheck::map::map(&report, "ping", |_| String::new()).unwrap().is_none());
}
