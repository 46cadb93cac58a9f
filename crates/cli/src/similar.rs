//! Names that do not exist: which existing one was probably meant.

use crate::client::Client;
use crate::failure::{Failure, code};
use crate::output::plain;
use rdmascope_config::distance;
use rdmascope_expose::api::EndpointList;
use std::collections::BTreeSet;

/// Names that are offered for one that does not exist.
const OFFERED: usize = 3;

/// The names that are most alike, the most alike first; none that shares hardly a letter.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    let mut known: Vec<&str> = known.into_iter().filter(|name| seen.insert(*name)).collect();
    // Of those that are equally alike the first one stays the first.
    known.sort_by_key(|known| distance(name, known));
    // Half of the letters may be wrong: beyond that a guess is no help.
    known.retain(|known| 2 * distance(name, known) <= name.chars().count().max(known.chars().count()));
    known.truncate(OFFERED);
    known
}

/// A question with the names that are most alike; nothing where none is.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near = nearest(name, known);
    (!near.is_empty())
        .then(|| format!("did you mean {}?", near.into_iter().map(plain).collect::<Vec<_>>().join(", ")))
}

/// No node of that name, among these.
pub(crate) fn unknown_node<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Failure {
    let near = did_you_mean(name, known).map(|near| near + " ").unwrap_or_default();
    Failure::new(code::FAILED, format!("no node '{}' is known to the coordinator", plain(name)))
        .then(format!("{near}`rdmascope nodes` lists them all"))
}

/// The failure of a call that named these nodes or endpoints; where one of them is not known, with what was probably meant.
pub(crate) fn named(client: &Client, failure: Failure, names: &[&str]) -> Failure {
    if !failure.is_unknown_name() {
        return failure;
    }
    // The coordinator may be gone by now: its own words are worth showing all the same.
    let Ok(list) = client.get::<EndpointList>("/api/v1/endpoints") else { return failure };
    let known: Vec<String> = list
        .endpoints
        .iter()
        .flat_map(|e| [e.node.clone(), format!("{}/{}", e.node, e.device), e.name.clone()])
        .collect();
    let unknown = names.iter().find(|name| !known.iter().any(|known| known == *name));
    // A node for a node, an endpoint for an endpoint.
    let depth = |name: &str| name.matches('/').count();
    let near = |name: &str| {
        let alike = known.iter().map(String::as_str).filter(|known| depth(known) == depth(name));
        did_you_mean(name, alike)
    };
    match unknown.and_then(|name| near(name)) {
        Some(near) => failure.then(format!("{near} `rdmascope nodes` lists them all")),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_alike_is_offered() {
        let known = ["gpu-a-01", "gpu-a-02", "gpu-b-01", "login", "login"];
        assert_eq!(nearest("gpu-a01", known), ["gpu-a-01", "gpu-a-02", "gpu-b-01"]);
        assert_eq!(nearest("logon", known), ["login"]);
        assert!(nearest("storage-17", known).is_empty());
        assert_eq!(did_you_mean("logon", known).as_deref(), Some("did you mean login?"));
    }
}
