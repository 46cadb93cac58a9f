//! The parameter file: the fabric, the clusters, and every kind of fault.

use super::kind::{At, Kind};
use crate::net::{Layout, Parameters};
use serde::Deserialize;

/// All of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// What fabrics are like.
    pub fabric: Parameters,
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// Runs of each size.
    pub runs: usize,
    /// Sizes of clusters.
    pub sizes: Vec<Size>,
    /// The week without a fault.
    pub quiet: Quiet,
    /// Kinds of faults; runs take them in turns.
    pub kinds: Vec<Kind>,
}

/// Clusters of one size.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Endpoints of each.
    pub endpoints: usize,
    /// What they are made of; runs take them in turns.
    pub shapes: Vec<Layout>,
}

/// A time in which nothing is broken.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quiet {
    /// The cluster.
    pub shape: Layout,
    /// For so long.
    pub hours: u64,
    /// In it each agent restarts so often.
    pub restarts_per_node: u64,
}

impl Suite {
    /// Reads the file's text.
    ///
    /// # Errors
    /// It is no YAML, a key is unknown or missing, or sizes do not fit: with the line, where there is one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let suite: Self = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
        for size in &suite.sizes {
            size.shapes.iter().try_for_each(|shape| fits(shape, Some(size.endpoints)))?;
            if size.shapes.is_empty() {
                return Err(format!("size {}: no shape", size.endpoints));
            }
        }
        fits(&suite.quiet.shape, None)?;
        let broken = |kind: &&Kind| kind.at == At::Several && kind.faults < 2;
        if let Some(kind) = suite.kinds.iter().find(broken) {
            return Err(format!("kind '{}': several faults are two at least", kind.name));
        }
        Ok(suite)
    }
}

fn fits(shape: &Layout, endpoints: Option<usize>) -> Result<(), String> {
    let own = shape.nodes * shape.rails;
    if endpoints.is_some_and(|wanted| wanted != own) {
        return Err(format!("a shape of {} nodes × {} rails has {own} endpoints", shape.nodes, shape.rails));
    }
    let leaves = 2..=shape.nodes;
    if !leaves.contains(&shape.leaves) || shape.spines == 0 || !(1..=shape.leaves).contains(&shape.pods) {
        return Err(format!("{own} endpoints: a shape has 2 leaves at least, a node on each, and a spine"));
    }
    if shape.rates_gbps.is_empty() || shape.rates_gbps.contains(&0) {
        return Err(format!("{own} endpoints: ports have a rate"));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn text() -> &'static str {
        include_str!("../../../../tests/faults.yaml")
    }

    #[test]
    fn the_file_that_is_shipped_has_all_sizes_and_more_than_25_kinds() {
        let suite = Suite::parse(text()).unwrap();
        let sizes: Vec<_> = suite.sizes.iter().map(|size| size.endpoints).collect();
        assert_eq!(sizes, [8, 32, 64, 256, 1_024]);
        assert!(suite.kinds.iter().filter(|kind| kind.is_fault()).count() >= 25);
        assert!(suite.runs >= 500 && suite.quiet.shape.nodes * suite.quiet.shape.rails == 256);
        let mut names: Vec<_> = suite.kinds.iter().map(|kind| &kind.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), suite.kinds.len(), "two kinds have one name");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        let broken = |from: &str, to: &str| Suite::parse(&text().replace(from, to)).unwrap_err();
        assert!(broken("jitter:", "jiter:").contains("jiter"));
        assert!(broken("endpoints: 64", "endpoints: 65").contains("64 endpoints"));
        assert!(broken("leaves: 3, spines: 2,", "leaves: 1, spines: 2,").contains("2 leaves"));
        assert!(broken("faults: 2,", "faults: 1,").contains("two faults"));
        assert!(broken("at: power-off", "at: power-of").contains("power-of"));
    }
}
