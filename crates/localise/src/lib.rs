//! The matrix: what is known of each ordered pair, how old it is, what that makes of it, and whom it blames; and the report of one pair in
//! depth.

mod cell;
mod hypotheses;
mod incident;
pub mod job;
mod judge;
mod matrix;
mod median;
pub mod pair;
mod ping;
mod place;
mod suspect;
mod verdict;

pub use cell::{Cell, CellState, Measured};
pub use incident::{Change, Incident, IncidentState, Incidents, Names};
pub use judge::{Input, Judge, Judged, Look, Retest, Told};
pub use matrix::{EndpointIndex, Matrix};
pub use median::median;
pub use ping::{PINGS_OF_A_SIZE_MAX, PingFigures, Spread};
pub use place::{Distance, Place, PlaceIndex, Places, Tier};
pub use suspect::{Component, Confidence, Effect, Reason, Share, Support, Suspect, Way};
pub use verdict::{PairEnds, Verdict, ping_failure, ping_verdicts};
