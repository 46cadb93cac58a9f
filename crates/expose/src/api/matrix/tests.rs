//! What a reader of the matrix gets, in each of its forms.

use rdmascope_model::{Side, Step};

use super::*;

fn head(metric: Metric) -> MatrixHead {
    MatrixHead {
        metric,
        method: "rc_half_rtt",
        clock: "sw",
        revision: 7,
        generated_at: Wall(1_796_000_000_123),
        coverage_seconds: Some(12.5),
        stale_after_seconds: 60.0,
        median: Some(2_000),
        endpoints: ["a/m0/1", "b/m0/1", "c/m0/1"].map(str::to_owned).to_vec(),
    }
}

fn failure() -> Failure {
    Failure {
        cause: Cause::RetryExceeded,
        step: Step::FirstByte,
        side: Side::Source,
        evidence: "status 12".to_owned(),
    }
}

/// a→b fresh, a→c stale, b→a failed (with a left-over number), b→c never, c→a excluded, c→b fresh without p99.
fn cell(failure: &Failure, source: usize, target: usize) -> MatrixCell<'_> {
    let fresh = MatrixCell {
        state: CellState::Fresh,
        value: Some(2_000),
        p99_ns: Some(9_000),
        loss_ratio: Some(0.25),
        at: Some(Wall(1_796_000_000_000)),
        ..MatrixCell::NEVER
    };
    match (source, target) {
        (0, 1) => fresh,
        (0, 2) => MatrixCell { state: CellState::Stale, value: Some(3_000), ..fresh },
        (1, 0) => MatrixCell { state: CellState::Failed, failure: Some(failure), ..fresh },
        (1, 2) => MatrixCell::NEVER,
        (2, 0) => {
            MatrixCell { state: CellState::Excluded, exclusion: Some(Exclusion::Busy), ..MatrixCell::NEVER }
        }
        (2, 1) => MatrixCell { p99_ns: None, ..fresh },
        _ => panic!("asked for an endpoint with itself"),
    }
}

#[test]
fn json_reads_back_as_the_documented_type() {
    let (head, failure) = (head(Metric::Latency), failure());
    let matrix = Matrix { head: &head, cells: &|s, t| cell(&failure, s, t) };
    let text = matrix.json().unwrap();
    let view: MatrixView = serde_json::from_str(&text).unwrap();
    assert_eq!(
        serde_json::to_value(&view).unwrap(),
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    );

    assert_eq!(view.state, ["-fs", "x-n", "ef-"]);
    assert_eq!(view.legend["x"], "failed");
    let p50 = view.p50_ns.unwrap();
    assert_eq!(p50[0], [None, Some(2_000), Some(3_000)]);
    assert_eq!(p50[1], [None, None, None], "a failed pair must not show a number");
    assert_eq!(view.p99_ns.unwrap()[2], [None, None, None]);
    assert_eq!(view.average_bits_per_second, None);
    assert_eq!(view.measured_at_ms[1][0], Some(1_796_000_000_000), "when it failed is known");
    assert_eq!(view.generated_at, "2026-11-30T00:53:20.123Z");
}

#[test]
fn json_names_the_causes_and_says_them_in_words() {
    let (head, failure) = (head(Metric::Latency), failure());
    let matrix = Matrix { head: &head, cells: &|s, t| cell(&failure, s, t) };
    let view: MatrixView = serde_json::from_str(&matrix.json().unwrap()).unwrap();
    let said: Vec<_> =
        view.causes.iter().map(|c| (c.source.as_str(), c.target.as_str(), c.cause.as_str())).collect();
    assert_eq!(said, [("b/m0/1", "a/m0/1", "retry-exceeded"), ("c/m0/1", "a/m0/1", "busy")]);
    assert_eq!(view.causes[0].step.as_deref(), Some("first-byte"));
    assert_eq!(view.cause_texts["retry-exceeded"].next_step, Cause::RetryExceeded.next_step());
    assert_eq!(view.cause_texts.len(), 2);
}

#[test]
fn a_dead_cluster_does_not_make_an_endless_list_of_causes() {
    let mut head = head(Metric::Latency);
    head.endpoints = (0..150).map(|i| format!("n{i}/m0/1")).collect();
    let failure = failure();
    let dead = |_, _| MatrixCell { state: CellState::Failed, failure: Some(&failure), ..MatrixCell::NEVER };
    let view: MatrixView =
        serde_json::from_str(&Matrix { head: &head, cells: &dead }.json().unwrap()).unwrap();
    assert_eq!(view.causes.len(), CAUSES_MAX);
    assert_eq!(view.causes_left_out, 150 * 149 - CAUSES_MAX as u64);
}

#[test]
fn csv_opens_in_a_spreadsheet_with_words_where_there_is_no_fresh_number() {
    let (head, failure) = (head(Metric::Latency), failure());
    let csv = Matrix { head: &head, cells: &|s, t| cell(&failure, s, t) }.csv();
    assert_eq!(
        csv,
        "p50_ns source\\target,a/m0/1,b/m0/1,c/m0/1\n\
         a/m0/1,,2000,stale\n\
         b/m0/1,failed,,never\n\
         c/m0/1,excluded,2000,\n"
    );
}

#[test]
fn bandwidth_has_its_own_rows_and_unit() {
    let (head, failure) = (head(Metric::Bandwidth), failure());
    let matrix = Matrix { head: &head, cells: &|s, t| cell(&failure, s, t) };
    let view: MatrixView = serde_json::from_str(&matrix.json().unwrap()).unwrap();
    assert_eq!(view.unit, "bits_per_second");
    assert_eq!(view.average_bits_per_second.unwrap()[0][1], Some(2_000));
    assert_eq!((view.p50_ns, view.p99_ns), (None, None));
    assert!(matrix.csv().starts_with("average_bits_per_second source"));
    assert_eq!(view.loss_ratio, None);
}

#[test]
fn pings_show_their_round_trip_and_their_loss_and_a_failed_pair_neither() {
    let (head, failure) = (head(Metric::Ping), failure());
    let matrix = Matrix { head: &head, cells: &|s, t| cell(&failure, s, t) };
    let view: MatrixView = serde_json::from_str(&matrix.json().unwrap()).unwrap();
    assert_eq!((view.metric.as_str(), view.unit.as_str()), ("ping", "ns"));
    assert_eq!(view.p50_ns.unwrap()[0], [None, Some(2_000), Some(3_000)]);
    let loss = view.loss_ratio.unwrap();
    assert_eq!((&loss[0], &loss[1]), (&vec![None, Some(0.25), Some(0.25)], &vec![None; 3]));
    assert_eq!((view.p99_ns, view.average_bits_per_second), (None, None));
}

#[test]
fn the_binary_form_says_the_same_as_json() {
    for metric in Metric::ALL {
        let (head, failure) = (head(metric), failure());
        let matrix = Matrix { head: &head, cells: &|s, t| cell(&failure, s, t) };
        let view: MatrixView = serde_json::from_str(&matrix.json().unwrap()).unwrap();
        let decoded = decode_bin(&matrix.bin()).unwrap();
        assert_eq!((decoded.metric, decoded.revision), (metric, 7));
        assert_eq!((decoded.generated_at, &decoded.endpoints), (head.generated_at, &head.endpoints));
        let states: Vec<String> =
            decoded.states.chunks(3).map(|row| String::from_utf8(row.to_vec()).unwrap()).collect();
        assert_eq!(states, view.state);
        let whole = |rows: Vec<Vec<Option<u64>>>| -> Vec<Vec<Option<f64>>> {
            rows.into_iter().map(|row| row.into_iter().map(|v| v.map(|v| v as f64)).collect()).collect()
        };
        let numbers = [view.p50_ns, view.p99_ns, view.average_bits_per_second].map(|rows| rows.map(whole));
        let planes: Vec<_> = numbers.into_iter().chain([view.loss_ratio]).flatten().collect();
        assert_eq!(decoded.planes.len(), planes.len());
        for (plane, rows) in decoded.planes.iter().zip(&planes) {
            let back: Vec<Option<f64>> = plane.iter().map(|v| (!v.is_nan()).then_some((*v).into())).collect();
            assert_eq!(back, rows.concat());
        }
    }
}

#[test]
fn damaged_bytes_give_an_error_and_never_a_matrix() {
    let (head, failure) = (head(Metric::Latency), failure());
    let good = Matrix { head: &head, cells: &|s, t| cell(&failure, s, t) }.bin();
    for cut in 0..good.len() {
        assert!(decode_bin(&good[..cut]).is_err(), "cut to {cut} bytes was accepted");
    }
    assert_eq!(decode_bin(b"{\"metric\":1}"), Err(DecodeError::NotAMatrix));
    let mut many = good.clone();
    many[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(decode_bin(&many), Err(DecodeError::Length { .. })));
    let mut names = good;
    names[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(decode_bin(&names), Err(DecodeError::Header("the names do not fit into it")));
}
