//! "Is it the network?", asked for a few nodes: what the cells of their pairs say, and what that means together with incidents and
//! findings. Nothing is measured for it.

mod answer;
mod figures;

pub use answer::{Answer, Known, Seen, answer};
pub use figures::{JobPairs, PairFigures, Sight, WorstPair};
