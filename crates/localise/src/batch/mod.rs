//! A batch of nodes before hand-over: which pairs keep to the limits, and what is to blame for those that do not.
//!
//! One measurement of each pair decides, at once and without any history; [`crate::Judge`] is for a cluster that is watched for long.

mod cover;
mod judge;
mod limits;
mod presets;

pub use cover::{Blamed, Part, Standing, Trial, cover};
pub use judge::{Judged, Looked, Miss, PairLook, Row, judge};
pub use limits::{Limit, Limits, Sense};
pub use presets::{PRESETS, Preset};
