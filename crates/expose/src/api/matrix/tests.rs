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

/// A cell, with figures even where nobody may see them.
#[derive(Clone, Copy)]
struct Given {
    state: CellState,
    figure: Option<u64>,
    p99_ns: Option<u64>,
    loss_ratio: f64,
    at_ms: Option<u64>,
    reason: Option<CellReason>,
}

const NEVER: Given = Given {
    state: CellState::Never,
    figure: None,
    p99_ns: None,
    loss_ratio: f64::NAN,
    at_ms: None,
    reason: None,
};

fn failed() -> CellReason {
    CellReason::Failed(Cause::RetryExceeded, Step::FirstByte, Side::Source)
}

/// a→b fresh, a→c stale, b→a failed (with a left-over number), b→c never, c→a excluded, c→b fresh without p99.
fn cell(source: usize, target: usize) -> Given {
    let fresh = Given {
        state: CellState::Fresh,
        figure: Some(2_000),
        p99_ns: Some(9_000),
        loss_ratio: 0.25,
        at_ms: Some(1_796_000_000_000),
        reason: None,
    };
    match (source, target) {
        (0, 1) => fresh,
        (0, 2) => Given { state: CellState::Stale, figure: Some(3_000), ..fresh },
        (1, 0) => Given { state: CellState::Failed, reason: Some(failed()), ..fresh },
        (2, 0) => {
            Given { state: CellState::Excluded, reason: Some(CellReason::Excluded(Exclusion::Busy)), ..NEVER }
        }
        (2, 1) => Given { p99_ns: None, ..fresh },
        _ => NEVER,
    }
}

fn portions(
    head: &MatrixHead,
    form: MatrixForm,
    portion: usize,
    given: &dyn Fn(usize, usize) -> Given,
) -> Vec<u8> {
    let count = head.endpoints.len();
    let row = |source: usize, needed: Needed, read: &mut dyn FnMut(MatrixRow<'_>)| {
        let cells: Vec<_> = (0..count).map(|target| given(source, target)).collect();
        let states: Vec<_> = cells.iter().map(|cell| cell.state.letter() as u8).collect();
        let figures: Vec<_> = cells.iter().map(|cell| cell.figure.unwrap_or(u64::MAX)).collect();
        let p99 = |cell: &Given| cell.p99_ns.map_or(f64::NAN, |ns| ns as f64);
        let beside =
            |cell| if head.metric == Metric::Ping { Given::clone(cell).loss_ratio } else { p99(cell) };
        let beside: Vec<_> = cells.iter().map(beside).collect();
        let at_ms: Vec<_> = cells.iter().map(|cell| cell.at_ms.unwrap_or(u64::MAX)).collect();
        // What is not needed is not there.
        let figures = if needed.figures { &figures[..] } else { &[] };
        let beside = if needed.beside { &beside[..] } else { &[] };
        let at_ms = if needed.at { &at_ms[..] } else { &[] };
        read(MatrixRow { states: &states, figures, beside, at_ms });
    };
    let cells = MatrixCells { row: &row, reason: &|source, target| given(source, target).reason };
    let mut writer = MatrixWriter::new(head.clone(), form);
    std::iter::from_fn(|| writer.next(portion, cells)).flatten().collect()
}

fn written(head: &MatrixHead, form: MatrixForm, given: &dyn Fn(usize, usize) -> Given) -> Vec<u8> {
    let whole = portions(head, form, usize::MAX, given);
    for portion in [1, 4, 7] {
        assert!(
            portions(head, form, portion, given) == whole,
            "portions of {portion} cells say something else"
        );
    }
    whole
}

fn json(head: &MatrixHead) -> MatrixView {
    serde_json::from_slice(&written(head, MatrixForm::Json, &cell)).unwrap()
}

#[test]
fn json_reads_back_as_the_documented_type() {
    let head = head(Metric::Latency);
    let text = written(&head, MatrixForm::Json, &cell);
    let view: MatrixView = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        serde_json::to_value(&view).unwrap(),
        serde_json::from_slice::<serde_json::Value>(&text).unwrap()
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
    let view = json(&head(Metric::Latency));
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
    let dead = |_, _| Given { state: CellState::Failed, reason: Some(failed()), ..NEVER };
    let view: MatrixView = serde_json::from_slice(&portions(&head, MatrixForm::Json, 999, &dead)).unwrap();
    assert_eq!(view.causes.len(), CAUSES_MAX);
    assert_eq!(view.causes_left_out, 150 * 149 - CAUSES_MAX as u64);
}

#[test]
fn csv_opens_in_a_spreadsheet_with_words_where_there_is_no_fresh_number() {
    let csv = String::from_utf8(written(&head(Metric::Latency), MatrixForm::Csv, &cell)).unwrap();
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
    let head = head(Metric::Bandwidth);
    let view = json(&head);
    assert_eq!(view.unit, "bits_per_second");
    assert_eq!(view.average_bits_per_second.unwrap()[0][1], Some(2_000));
    assert_eq!((view.p50_ns, view.p99_ns), (None, None));
    assert!(written(&head, MatrixForm::Csv, &cell).starts_with(b"average_bits_per_second source"));
    assert_eq!(view.loss_ratio, None);
}

#[test]
fn pings_show_their_round_trip_and_their_loss_and_a_failed_pair_neither() {
    let view = json(&head(Metric::Ping));
    assert_eq!((view.metric.as_str(), view.unit.as_str()), ("ping", "ns"));
    assert_eq!(view.p50_ns.unwrap()[0], [None, Some(2_000), Some(3_000)]);
    let loss = view.loss_ratio.unwrap();
    assert_eq!((&loss[0], &loss[1]), (&vec![None, Some(0.25), Some(0.25)], &vec![None; 3]));
    assert_eq!((view.p99_ns, view.average_bits_per_second), (None, None));
}

#[test]
fn the_binary_form_says_the_same_as_json() {
    for metric in Metric::ALL {
        let head = head(metric);
        let view = json(&head);
        let decoded = decode_bin(&written(&head, MatrixForm::Bin, &cell)).unwrap();
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
    let good = written(&head(Metric::Latency), MatrixForm::Bin, &cell);
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
