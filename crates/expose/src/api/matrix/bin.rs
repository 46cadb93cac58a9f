//! The binary form of the matrix: 9 bytes per cell of latency where JSON needs 30.

use rdmascope_model::{Metric, Wall};

use super::write::{FRESH, NOTHING, STALE};
use super::{MatrixHead, MatrixRow};
use crate::api::STATE_SELF;

/// How the bytes lie, for whoever reads them without this program; part of the OpenAPI document.
pub const MATRIX_BIN: &str = "\
All numbers are little-endian. Offset 0: the four bytes RSM2. 4, u32: length of the header, which is where the rows begin, a multiple of 8. \
8, u64: revision. 16, u64: time of this answer, milliseconds since 1970-01-01 UTC. 24, u32: N, the number of endpoints. 28, u8: metric: 1 \
latency in ns, 2 bandwidth in bits per second, 3 ping in ns. 29, u8: figures of each cell: latency 2 (p50, p99), bandwidth 1 (average), ping 2 \
(p50, loss from 0 to 1). 30, u16: 0. 32, u32: length of the names in bytes. 36: N names in UTF-8, each ended by a line feed; then zeros up \
to the length of the header. Then N rows, one for each source, each a multiple of 4 bytes long: for each figure N × f32, one for each target \
in the order of the names, NaN where there is none; then N bytes of states, the same letters as in JSON (f fresh, s stale, n never, x failed, \
e excluded, - self); then zeros. A row is of one moment; of more than 65,536 pairs rows may be of different moments.";

const MAGIC: &[u8; 4] = b"RSM2";
const FIXED_BYTES: usize = 36;
const ALIGNMENT: usize = 8;
const FIGURE_BYTES: usize = 4;

pub(super) fn header(head: &MatrixHead, out: &mut Vec<u8>) {
    let n = head.endpoints.len();
    let names: String = head.endpoints.iter().flat_map(|name| [name.as_str(), "\n"]).collect();
    let header_bytes = (FIXED_BYTES + names.len()).next_multiple_of(ALIGNMENT);
    out.extend(MAGIC);
    // A header or a matrix beyond u32 would be larger than any memory that serves it.
    out.extend(u32::try_from(header_bytes).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(head.revision.to_le_bytes());
    out.extend(head.generated_at.0.to_le_bytes());
    out.extend(u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes());
    out.push(metric_number(head.metric));
    out.push(u8::try_from(figures(head.metric)).unwrap_or(u8::MAX));
    out.extend([0; 2]);
    out.extend(u32::try_from(names.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(names.as_bytes());
    out.resize(header_bytes, 0);
}

/// Bytes of one row.
fn row_bytes(n: u64, figures: usize) -> u64 {
    n.saturating_mul((FIGURE_BYTES * figures + 1) as u64).next_multiple_of(FIGURE_BYTES as u64)
}

pub(super) fn row(metric: Metric, source: usize, row: MatrixRow<'_>, out: &mut Vec<u8>) {
    let n = row.states.len();
    let start = out.len();
    let end = start + row_bytes(n as u64, figures(metric)) as usize;
    out.resize(end, 0);
    let (values, states) = out[start..].split_at_mut(FIGURE_BYTES * figures(metric) * n);
    let (values, _) = values.as_chunks_mut();
    let (first, second) = values.split_at_mut(n);
    let known = row.states.iter().map(|state| matches!(*state, FRESH | STALE));
    // 24 bits of mantissa: the error is below 1e-7 of the value.
    for ((four, &figure), known) in first.iter_mut().zip(row.figures).zip(known.clone()) {
        let value = if known && figure != NOTHING { figure as f32 } else { f32::NAN };
        *four = value.to_le_bytes();
    }
    for ((four, &beside), known) in second.iter_mut().zip(row.beside).zip(known) {
        let value = if known { beside as f32 } else { f32::NAN };
        *four = value.to_le_bytes();
    }
    for plane in [first, second] {
        plane.iter_mut().skip(source).take(1).for_each(|four| *four = f32::NAN.to_le_bytes());
    }
    states[..n].copy_from_slice(row.states);
    states[source] = STATE_SELF as u8;
}

/// Figures of one cell.
fn figures(metric: Metric) -> usize {
    match metric {
        Metric::Latency | Metric::Ping => 2,
        Metric::Bandwidth => 1,
    }
}

fn metric_number(metric: Metric) -> u8 {
    match metric {
        Metric::Latency => 1,
        Metric::Bandwidth => 2,
        Metric::Ping => 3,
    }
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
    #[error("these bytes are not a matrix of version RSM2")]
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
    let planes = figures(metric);
    if usize::from(bytes[29]) != planes {
        return Err(DecodeError::Header("the number of figures does not fit the metric"));
    }
    let names_bytes = u64::from(u32_at(bytes, 32));
    if header_bytes < FIXED_BYTES as u64 + names_bytes {
        return Err(DecodeError::Header("the names do not fit into it"));
    }
    let row_bytes = row_bytes(n, planes);
    let expected = n.saturating_mul(row_bytes).saturating_add(header_bytes);
    if expected != seen {
        return Err(DecodeError::Length { expected, seen });
    }
    // The length was checked against the bytes that are here, so nothing below can overflow or go out of range.
    let (header_bytes, row_bytes, count) = (header_bytes as usize, row_bytes as usize, n as usize);
    let names = std::str::from_utf8(&bytes[FIXED_BYTES..FIXED_BYTES + names_bytes as usize])
        .map_err(|_| DecodeError::Header("the names are not UTF-8"))?;
    let endpoints: Vec<String> = names.lines().map(str::to_owned).collect();
    if endpoints.len() as u64 != n {
        return Err(DecodeError::Header("the number of names is not N"));
    }
    let (mut decoded, mut states) = (vec![Vec::new(); planes], Vec::new());
    // Without endpoints there are no rows, and a row of no bytes is none to be divided into.
    for row in bytes[header_bytes..].chunks(row_bytes.max(1)) {
        for (plane, part) in decoded.iter_mut().zip(row.chunks(FIGURE_BYTES * count)) {
            plane.extend(part.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)));
        }
        let from = FIGURE_BYTES * count * planes;
        states.extend(&row[from..from + count]);
    }
    Ok(DecodedMatrix {
        metric,
        revision: u64_at(bytes, 8),
        generated_at: Wall(u64_at(bytes, 16)),
        endpoints,
        planes: decoded,
        states,
    })
}

/// The caller has checked that the fixed part of the header is there.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    (0..4).fold(0, |sum, i| sum | u32::from(bytes[at + i]) << (8 * i))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
