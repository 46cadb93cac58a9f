//! The matrix: what is known of each ordered pair, how old it is, and what that makes of it.

mod cell;
mod matrix;
mod median;

pub use cell::{Cell, CellState, Measured};
pub use matrix::{EndpointIndex, Matrix};
pub use median::median;
