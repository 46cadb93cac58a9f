//! The binary form of the matrix: 9 bytes per cell of latency where JSON needs 30.
//!
//! All numbers are little-endian.
//!
//! | offset | type | meaning |
//! | --- | --- | --- |
//! | 0 | 4 bytes | `RSM1` |
//! | 4 | u32 | length of the header: where the values begin, a multiple of 8 |
//! | 8 | u64 | revision |
//! | 16 | u64 | time of this answer, milliseconds since 1970-01-01 UTC |
//! | 24 | u32 | N, the number of endpoints |
//! | 28 | u8 | metric: 1 latency in ns, 2 bandwidth in bits per second, 3 ping in ns |
//! | 29 | u8 | planes: latency 2 (p50, p99), bandwidth 1 (average), ping 2 (p50, loss from 0 to 1) |
//! | 30 | u16 | 0 |
//! | 32 | u32 | length of the names in bytes |
//! | 36 | text | N names in UTF-8, each ended by a line feed; then zeros up to the length of the header |
//!
//! Then planes × N × N × f32, row by row (source by source), NaN where there is no figure; then N × N bytes of states,
//! the same letters as in JSON (`f` fresh, `s` stale, `n` never, `x` failed, `e` excluded, `-` self).

use rdmascope_model::{Metric, Wall};

use super::{Matrix, MatrixCell};

const MAGIC: &[u8; 4] = b"RSM1";
const FIXED_BYTES: usize = 36;
const ALIGNMENT: usize = 8;

pub(super) fn encode(matrix: &Matrix<'_>) -> Vec<u8> {
    let n = matrix.len();
    let names: String = matrix.head.endpoints.iter().flat_map(|name| [name.as_str(), "\n"]).collect();
    let header_bytes = (FIXED_BYTES + names.len()).next_multiple_of(ALIGNMENT);
    let planes = planes(matrix.head.metric);
    let mut out = Vec::with_capacity(header_bytes + n * n * (4 * planes.len() + 1));
    out.extend(MAGIC);
    // A header or a matrix beyond u32 would be larger than any memory that serves it.
    out.extend(u32::try_from(header_bytes).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(matrix.head.revision.to_le_bytes());
    out.extend(matrix.head.generated_at.0.to_le_bytes());
    out.extend(u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes());
    out.push(metric_number(matrix.head.metric));
    out.push(u8::try_from(planes.len()).unwrap_or(u8::MAX));
    out.extend([0; 2]);
    out.extend(u32::try_from(names.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(names.as_bytes());
    out.resize(header_bytes, 0);
    for plane in planes {
        for (source, target) in all(n) {
            let value = matrix.cell(source, target).and_then(|cell| plane(&cell));
            // 24 bits of mantissa: the error is below 1e-7 of the value.
            out.extend(value.map_or(f32::NAN, |v| v as f32).to_le_bytes());
        }
    }
    out.extend(all(n).map(|(source, target)| matrix.letter(source, target) as u8));
    out
}

type Plane = fn(&MatrixCell<'_>) -> Option<f64>;

fn value(cell: &MatrixCell<'_>) -> Option<f64> {
    cell.shown_value().map(|value| value as f64)
}

fn planes(metric: Metric) -> &'static [Plane] {
    match metric {
        Metric::Latency => &[value, |cell| cell.shown_p99().map(|ns| ns as f64)],
        Metric::Bandwidth => &[value],
        Metric::Ping => &[value, |cell| cell.shown_loss()],
    }
}

fn metric_number(metric: Metric) -> u8 {
    match metric {
        Metric::Latency => 1,
        Metric::Bandwidth => 2,
        Metric::Ping => 3,
    }
}

fn all(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |source| (0..n).map(move |target| (source, target)))
}

/// A matrix read back from its binary form.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedMatrix {
    /// What was measured.
    pub metric: Metric,
    /// Revision.
    pub revision: u64,
    /// When the answer was made.
    pub generated_at: Wall,
    /// Names, in the order of rows and columns.
    pub endpoints: Vec<String>,
    /// Planes of N × N values, row by row; NaN where there is no figure.
    pub planes: Vec<Vec<f32>>,
    /// N × N state letters, row by row.
    pub states: Vec<u8>,
}

/// The bytes are not a matrix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Another format, or a version that this program does not know.
    #[error("these bytes are not a matrix of version RSM1")]
    NotAMatrix,
    /// Cut short or too long.
    #[error("the matrix should have {expected} bytes and has {seen}")]
    Length {
        /// Bytes that the header asks for.
        expected: u64,
        /// Bytes that are there.
        seen: u64,
    },
    /// The header contradicts itself.
    #[error("the header of the matrix is wrong: {0}")]
    Header(&'static str),
}

/// Reads the binary form.
///
/// # Errors
/// When the bytes are of another format, cut short, or contradict themselves.
pub fn decode_bin(bytes: &[u8]) -> Result<DecodedMatrix, DecodeError> {
    if bytes.get(..4) != Some(MAGIC.as_slice()) {
        return Err(DecodeError::NotAMatrix);
    }
    let seen = bytes.len() as u64;
    if bytes.len() < FIXED_BYTES {
        return Err(DecodeError::Length { expected: FIXED_BYTES as u64, seen });
    }
    let header_bytes = u64::from(u32_at(bytes, 4));
    let n = u64::from(u32_at(bytes, 24));
    let metric = match bytes[28] {
        1 => Metric::Latency,
        2 => Metric::Bandwidth,
        3 => Metric::Ping,
        _ => return Err(DecodeError::Header("no such metric")),
    };
    let planes = planes(metric).len();
    if usize::from(bytes[29]) != planes {
        return Err(DecodeError::Header("the number of planes does not fit the metric"));
    }
    let names_bytes = u64::from(u32_at(bytes, 32));
    if header_bytes < FIXED_BYTES as u64 + names_bytes {
        return Err(DecodeError::Header("the names do not fit into it"));
    }
    let expected = (n * n).saturating_mul(4 * planes as u64 + 1).saturating_add(header_bytes);
    if expected != seen {
        return Err(DecodeError::Length { expected, seen });
    }
    // The length was checked against the bytes that are here, so nothing below can overflow or go out of range.
    let (header_bytes, cells) = (header_bytes as usize, (n * n) as usize);
    let names = std::str::from_utf8(&bytes[FIXED_BYTES..FIXED_BYTES + names_bytes as usize])
        .map_err(|_| DecodeError::Header("the names are not UTF-8"))?;
    let endpoints: Vec<String> = names.lines().map(str::to_owned).collect();
    if endpoints.len() as u64 != n {
        return Err(DecodeError::Header("the number of names is not N"));
    }
    let (values, states) = bytes[header_bytes..].split_at(cells * 4 * planes);
    let values: Vec<f32> = values.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
    Ok(DecodedMatrix {
        metric,
        revision: u64_at(bytes, 8),
        generated_at: Wall(u64_at(bytes, 16)),
        endpoints,
        planes: (0..planes).map(|plane| values[plane * cells..(plane + 1) * cells].to_vec()).collect(),
        states: states.to_vec(),
    })
}

/// The caller has checked that the fixed part of the header is there.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    (0..4).fold(0, |sum, i| sum | u32::from(bytes[at + i]) << (8 * i))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
