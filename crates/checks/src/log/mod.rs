//! Kernel-log rules: what lines mean, found in one pass, counted in bounded memory.
//!
//! Lines go into a [`Tally`]; what it has counted goes to the check `kernel-log`, which judges it beside the machine as it is.

mod names;
mod pattern;
mod prefix;
mod rule;
mod rules;
mod stamp;
mod tally;

pub use prefix::{Origin, Record, parse};
pub use rule::{Class, Condition, Count, Rule, Source, Whose};
pub use rules::Rules;
pub use stamp::{Stamp, Times};
pub use tally::{Seen, Tally};
