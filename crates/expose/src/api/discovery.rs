//! What Prometheus is told when it asks where to scrape (HTTP service discovery).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Answer of `GET /api/v1/sd/prometheus`, in the order of the nodes' names: a bare list, as `http_sd_configs` wants it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScrapeTargets(pub Vec<ScrapeTarget>);

/// One agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScrapeTarget {
    /// The one address, `IP:PORT`; the path is `/metrics`.
    pub targets: Vec<String>,
    /// `node`, which every series gets; and what may change while the agent is the same, for relabelling only: `__meta_rdmascope_leaf`
    /// (where it has one), `__meta_rdmascope_leaves` and `__meta_rdmascope_rails` (how many its endpoints are on),
    /// `__meta_rdmascope_version`.
    pub labels: BTreeMap<String, String>,
}
