//! The map of all pairs as a picture: a pixel or more for each ordered pair, sources down, targets across.

use crate::failure::{Failure, code};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rdmascope_expose::api::{BatchPairView, SelfcheckReport, Severity};

/// Steps of the ramp: more cannot be told apart by eye, and fewer make the picture small.
const STEPS: u8 = 16;
/// Indices behind the ramp.
const BAD: u8 = STEPS;
const NOT_TESTED: u8 = STEPS + 1;
const NO_PAIR: u8 = STEPS + 2;
/// Cividis at 16 places (Nuñez, Anderton, Renslow 2018): the same for all kinds of colour vision; dark is good.
const RAMP: [[u8; 3]; STEPS as usize] = [
    [0, 32, 77],
    [0, 42, 102],
    [11, 51, 111],
    [36, 61, 108],
    [54, 71, 107],
    [69, 80, 108],
    [83, 90, 110],
    [96, 100, 112],
    [109, 110, 115],
    [123, 120, 119],
    [138, 131, 120],
    [154, 142, 118],
    [171, 154, 114],
    [190, 167, 107],
    [211, 181, 94],
    [234, 197, 76],
];
/// Vermillion of the Okabe-Ito palette.
const BAD_COLOUR: [u8; 3] = [213, 94, 0];
/// Sky blue of the same.
const NOT_TESTED_COLOUR: [u8; 3] = [86, 180, 233];
const NO_PAIR_COLOUR: [u8; 3] = [255, 255, 255];

/// The picture's side in pixels, at least: a small batch must be seen, too.
const SIDE_MIN: usize = 256;

/// A map: the picture as a data URL, its legend as colours and words.
pub(crate) struct Map {
    pub(crate) url: String,
    pub(crate) side: usize,
    pub(crate) legend: Vec<(String, String)>,
}

/// The map of a metric; `None` where no pair of it was to be measured.
pub(crate) fn map(
    report: &SelfcheckReport,
    metric: &str,
    show: impl Fn(u64) -> String,
) -> Result<Option<Map>, Failure> {
    let n = report.endpoints.len();
    let of: Vec<&BatchPairView> = report.pairs.iter().filter(|pair| pair.metric == metric).collect();
    if n == 0 || of.is_empty() {
        return Ok(None);
    }
    let values = of.iter().filter(|pair| pair.status == Severity::Ok).filter_map(|pair| pair.value);
    let (low, high) = values.fold((u64::MAX, 0), |(low, high), value| (low.min(value), high.max(value)));
    let scale = SIDE_MIN.div_ceil(n);
    let side = n * scale;
    let mut cells = vec![NO_PAIR; n * n];
    for pair in &of {
        let at = pair.source as usize * n + pair.target as usize;
        if let Some(cell) = cells.get_mut(at) {
            *cell = colour(pair, metric, low, high);
        }
    }
    let mut pixels = Vec::with_capacity(side * side);
    for row in cells.chunks(n) {
        let line: Vec<u8> = row.iter().flat_map(|cell| std::iter::repeat_n(*cell, scale)).collect();
        (0..scale).for_each(|_| pixels.extend_from_slice(&line));
    }
    let picture = encoded(side, &pixels)?;
    Ok(Some(Map {
        url: format!("data:image/png;base64,{}", BASE64_STANDARD.encode(picture)),
        side,
        legend: legend(metric, low, high, show),
    }))
}

/// The index of a pair's colour.
fn colour(pair: &BatchPairView, metric: &str, low: u64, high: u64) -> u8 {
    match (pair.status, pair.value) {
        (Severity::Fail, _) => BAD,
        (Severity::Unknown, _) | (_, None) => NOT_TESTED,
        (_, Some(value)) => {
            let span = high.saturating_sub(low).max(1);
            let far =
                if metric == "bandwidth" { high.saturating_sub(value) } else { value.saturating_sub(low) };
            let step = u128::from(far) * u128::from(STEPS - 1) / u128::from(span);
            u8::try_from(step).unwrap_or(STEPS - 1).min(STEPS - 1)
        }
    }
}

fn encoded(side: usize, pixels: &[u8]) -> Result<Vec<u8>, Failure> {
    let wrong = |error: png::EncodingError| {
        Failure::new(code::CHECK_UNKNOWN, format!("the map cannot be drawn: {error}"))
    };
    let side = u32::try_from(side).unwrap_or(u32::MAX);
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, side, side);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    let all = RAMP.iter().chain([&BAD_COLOUR, &NOT_TESTED_COLOUR, &NO_PAIR_COLOUR]);
    encoder.set_palette(all.flatten().copied().collect::<Vec<u8>>());
    encoder.set_compression(png::Compression::High);
    // What lies above or beside says nothing about an index.
    encoder.set_filter(png::Filter::NoFilter);
    let mut writer = encoder.write_header().map_err(wrong)?;
    writer.write_image_data(pixels).map_err(wrong)?;
    writer.finish().map_err(wrong)?;
    Ok(out)
}

fn legend(metric: &str, low: u64, high: u64, show: impl Fn(u64) -> String) -> Vec<(String, String)> {
    let css = |[r, g, b]: [u8; 3]| format!("#{r:02x}{g:02x}{b:02x}");
    let (best, worst) = if metric == "bandwidth" { (high, low) } else { (low, high) };
    let mut legend = Vec::new();
    if low <= high {
        legend.push((css(RAMP[0]), format!("fine, best: {}", show(best))));
        legend.push((css(RAMP[usize::from(STEPS) - 1]), format!("fine, worst: {}", show(worst))));
    }
    legend.push((css(BAD_COLOUR), "misses a limit, or failed".to_owned()));
    legend.push((css(NOT_TESTED_COLOUR), "not tested".to_owned()));
    legend.push((css(NO_PAIR_COLOUR), "no pair (same node, or another rail)".to_owned()));
    legend
}
