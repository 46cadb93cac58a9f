//! Which nodes the batch has, and waiting for them.

use super::arguments::SelfcheckFlags;
use super::facts::Facts;
use super::watch::Watch;
use super::{interrupted, some};
use crate::client::Client;
use crate::failure::{Failure, code};
use crate::output::plain;
use rdmascope_config::node_names;
use rdmascope_expose::api::{NodeList, NodeView};
use std::path::Path;
use std::time::Instant;

/// Largest file of names, bytes: 4,096 names of 253 letters.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The names in a file, or in a list.
pub(crate) fn named(file_or_list: &str) -> Result<Vec<String>, Failure> {
    let path = Path::new(file_or_list);
    let list = if path.is_file() { from_file(path)? } else { file_or_list.to_owned() };
    let mut names =
        node_names(&list).map_err(|wrong| Failure::new(code::CHECK_UNKNOWN, format!("--nodes: {wrong}")))?;
    names.sort();
    names.dedup();
    Ok(names)
}

/// Names on lines of their own or as Slurm writes them; what stands behind `#` is for people.
fn from_file(path: &Path) -> Result<String, Failure> {
    let wrong = |why: String| Failure::new(code::CHECK_UNKNOWN, format!("{}: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(wrong("this is too large for a file of node names".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let names: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    if names.is_empty() { Err(wrong("no name of a node in it".to_owned())) } else { Ok(names.join(",")) }
}

/// It can be asked: its agent is connected and has told what there is.
fn is_ready(node: &NodeView) -> bool {
    node.connected && (!node.endpoints.is_empty() || node.worst_finding.is_some())
}

/// Waits until all of them are there, or for as long as it may; who is not there then is not tested.
pub(crate) fn wait(
    client: &Client,
    flags: &SelfcheckFlags,
    named: Option<&[String]>,
    facts: &mut Facts,
    watch: &mut Watch<'_>,
) -> Result<(), Failure> {
    if let Some(wanted) = flags.expect {
        let at = client.address();
        watch.say(&format!(
            "waiting for {wanted} nodes; on each of them: rdmascope agent --once --coordinator HOST:{}",
            at.port
        ));
    }
    let deadline = Instant::now() + flags.wait;
    loop {
        let known: NodeList = client.get("/api/v1/nodes")?;
        let wanted: Vec<String> = match named {
            Some(named) => named.to_vec(),
            None => known.nodes.iter().map(|node| node.name.clone()).collect(),
        };
        let ready = |name: &&String| known.nodes.iter().any(|node| node.name == **name && is_ready(node));
        let there = wanted.iter().filter(ready).count();
        let asked = flags.expect.map_or(wanted.len(), |expect| (expect as usize).max(wanted.len()));
        let complete = asked > 0 && there >= asked;
        if complete || Instant::now() >= deadline || watch.is_interrupted() {
            facts.batch = wanted;
            missing(flags, &known, asked, facts);
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now()).as_secs();
        watch.wait(&format!("waiting for nodes: {there} of {asked} are ready, {left} s left"));
    }
}

/// Says who is not there.
fn missing(flags: &SelfcheckFlags, known: &NodeList, asked: usize, facts: &mut Facts) {
    for name in facts.batch.clone() {
        let node = known.nodes.iter().find(|node| node.name == name);
        let (reason, next) = match node {
            Some(node) if is_ready(node) => continue,
            Some(node) if node.connected => (
                "its agent is connected and has told of no RDMA port".to_owned(),
                "See what `rdmascope check` says on the node.",
            ),
            Some(node) => (
                format!(
                    "its agent is not connected; last seen {}",
                    node.last_seen.as_deref().unwrap_or("never")
                ),
                "Is the node up? See the agent's log there.",
            ),
            None => (
                "no agent of this name has come".to_owned(),
                "Start an agent there, or correct the name: it must be the one that the agent has (--node-name).",
            ),
        };
        facts.not_tested(&format!("node {}", plain(&name)), &reason, next);
    }
    let more = asked.saturating_sub(facts.batch.len());
    if flags.expect.is_some() && more > 0 {
        let came = some(&facts.batch, 8);
        let came = if came.is_empty() { "none came".to_owned() } else { format!("there are: {came}") };
        let next = "Start the agent on the others too; see that they reach this address and show the token.";
        facts.not_tested(&format!("{more} of {asked} nodes"), &format!("they did not come; {came}"), next);
    }
    if asked == 0 {
        facts.not_tested(
            "the batch",
            "the coordinator knows no node",
            "Start the agents, or name the nodes.",
        );
    }
}

/// A stage needs this.
pub(crate) fn at_least_two(names: &[String]) -> Result<(), Failure> {
    if names.len() < 2 {
        let text = format!("it needs two nodes that can be asked; there are {}", names.len());
        return Err(Failure::new(code::CHECK_UNKNOWN, text).then("See which nodes are missing, and why."));
    }
    Ok(())
}

/// Nodes of the batch that the coordinator knows: what it does not know it cannot be asked for.
pub(crate) fn known(client: &Client, facts: &Facts, watch: &Watch<'_>) -> Result<Vec<String>, Failure> {
    if watch.is_interrupted() {
        return Err(interrupted());
    }
    let list: NodeList = client.get("/api/v1/nodes")?;
    let in_batch = |node: &NodeView| facts.batch.contains(&node.name);
    Ok(list.nodes.into_iter().filter(in_batch).map(|node| node.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_a_list_or_a_file() {
        assert_eq!(named("b,a,gpu[1-2]").unwrap(), ["a", "b", "gpu1", "gpu2"]);
        let path = std::env::temp_dir().join(format!("rdmascope-nodes-{}", std::process::id()));
        std::fs::write(&path, "# batch 7\nn2\nn1 # new cable\n\ngpu[08-09]\n").unwrap();
        let read = named(path.to_str().unwrap());
        std::fs::write(&path, "# nobody\n").unwrap();
        let empty = named(path.to_str().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap(), ["gpu08", "gpu09", "n1", "n2"]);
        assert!(empty.unwrap_err().text().contains("no name"));
        assert!(named("gpu[1-").is_err());
    }
}
