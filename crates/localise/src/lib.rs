//! The matrix: what is known of each ordered pair, how old it is, what that makes of it, and whom it blames; and the report of one pair in
//! depth.

pub mod batch;
mod brief;
mod cell;
mod columns;
mod group;
mod hypotheses;
mod incident;
pub mod job;
mod judge;
mod keep;
mod light;
mod matrix;
mod median;
mod names;
pub mod pair;
mod ping;
mod place;
mod row;
mod suspect;
mod tally;
mod texts;
mod tiles;
mod trail;
mod trails;
mod verdict;

pub use brief::Brief;
pub use cell::{Cell, CellState, Measured};
pub use columns::{Columns, NOTHING, Wanted};
pub use group::{Group, PairRail, RAILS_NAMED_MAX};
pub use incident::{Change, Incident, IncidentState, Incidents, Names};
pub use judge::{Input, Judge, Judged, Look, Retest, Told};
pub use keep::{CLOCK_AHEAD_MAX, KeptError};
pub use light::Light;
pub use matrix::{EndpointIndex, Matrix};
pub use median::median;
pub use place::{Distance, Place, PlaceIndex, Places, Tier};
pub use rdmascope_model::{PINGS_OF_A_SIZE_MAX, PingFigures, Spread};
pub use suspect::{Component, Confidence, Effect, Reason, Share, Support, Suspect, Way};
pub use tally::{EndTally, Tally, WORST_PAIRS, Worst};
pub use trail::{Moment, Was};
pub use trails::{Because, FEW_ENDPOINTS, KeptPair, PAIRS_MAX, Trails};
pub use verdict::{PairEnds, Verdict, ping_failure, ping_verdicts};
