//! The list of queries that may have no data, each with the reason: whoever sees an empty panel can look it up there.

use super::Query;
use serde::Deserialize;
use std::path::Path;

/// When a query may have no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// While nothing is wrong; a fault fills it.
    Healthy,
    /// On a machine without RDMA, whatever happens; the lab fills it.
    Here,
    /// In the lab, whatever happens; it is filled on a machine without RDMA.
    Lab,
}

/// One entry of the list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {
    /// The dashboard's uid; all when none is given.
    pub dashboard: Option<String>,
    /// The panel's title, as [`Query::panel`] has it.
    pub panel: String,
    /// The query's letter; all of the panel when none is given.
    pub query: Option<String>,
    /// When it has no data.
    pub when: Vec<When>,
    /// Why.
    pub why: String,
}

impl Empty {
    /// Whether it speaks of this query.
    #[must_use]
    pub fn is_about(&self, query: &Query) -> bool {
        let same = |own: &Option<String>, other: &str| own.as_ref().is_none_or(|own| own == other);
        same(&self.dashboard, &query.dashboard)
            && self.panel == query.panel
            && same(&self.query, &query.letter)
    }
}

/// Reads the list.
///
/// # Errors
/// It cannot be read or understood.
pub fn empty(path: &Path) -> Result<Vec<Empty>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_yaml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}
