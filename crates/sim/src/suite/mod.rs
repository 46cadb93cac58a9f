//! The fault suite: many runs of many kinds of faults on simulated clusters of many sizes, and how often the right one was named.
//!
//! Reading order: `file` (what is simulated), `kind` (one row of the list of faults), `inject` (where a fault is), `expected` (who is to be
//! named for it), `run` (one run), `score` (what was told), `clusterkit` (what another tool's rule would say), `tally` (the figures).

mod clusterkit;
mod expected;
mod file;
mod inject;
mod kind;
mod quiet;
mod run;
mod score;
mod tally;
mod wilson;
mod work;

pub use expected::Named;
pub use file::{Quiet, Size, Suite};
pub use inject::Expected;
pub use kind::{About, At, Change, ComesAndGoes, Direction, FindingRow, FindingStatus, Kind, Watch};
pub use quiet::{QuietOutcome, QuietPart};
pub use run::PACKETS_MAX;
pub use score::{FaultOutcome, Kit, Outcome, Told};
pub use tally::{Figures, Row, Tally, Times, quiet_rows};
pub use wilson::Share;
pub use work::{Part, Plan};
