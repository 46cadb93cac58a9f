//! The matrix: what is known of each ordered pair, how old it is, and what that makes of it; and the report of one pair in depth.

mod cell;
mod matrix;
mod median;
pub mod pair;
mod ping;
mod verdict;

pub use cell::{Cell, CellState, Measured};
pub use matrix::{EndpointIndex, Matrix};
pub use median::median;
pub use ping::{PINGS_OF_A_SIZE_MAX, PingFigures, Spread};
pub use verdict::{PairEnds, Verdict, ping_failure, ping_verdicts};
