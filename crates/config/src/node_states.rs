//! Nodes that somebody else says are not to be used: a file with a line `NODE STATE [REASON]` for each, as a cron job writes it from
//! `sinfo -N -h -o '%N %T %E'` or `kubectl get nodes`.
//!
//! In maintenance are nodes that Slurm drains (`drain`, `draining`, `drained`) or maintains (`maint`, or a state with `$`, which stands for
//! a reservation for maintenance), and nodes that Kubernetes does not schedule on (`SchedulingDisabled`); all other states are none. Slurm
//! marks states with letters such as `*` (<https://slurm.schedmd.com/sinfo.html>, "NODE STATE CODES"), and both join several words.

use crate::topology::{self, NODES_MAX, TopologyProblem};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Letters of a reason that are kept.
const REASON_MAX: usize = 120;
/// What Slurm hangs onto a state.
const MARKS: &[char] = &['*', '~', '#', '!', '%', '$', '@', '^', '-'];
/// The words for a node that is not to be used.
const MAINTENANCE: [&str; 6] = ["maint", "drain", "drained", "draining", "drng", "schedulingdisabled"];

/// Why such a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NodeStatesError {
    /// It could not be read.
    #[error("{path} cannot be read: does whatever writes it run, and may this user read it?")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It has lines that mean nothing.
    #[error("{path}: {}", topology::told(problems))]
    Content {
        /// The file.
        path: PathBuf,
        /// Each line that is wrong.
        problems: Vec<TopologyProblem>,
    },
}

/// Reads the nodes that are in maintenance from a file, each with its state and reason.
///
/// # Errors
/// It cannot be read, or what is wrong with it, line by line.
pub fn read_node_states(path: &Path) -> Result<BTreeMap<String, String>, NodeStatesError> {
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|source| NodeStatesError::Read { path: path.to_owned(), source })?;
    in_maintenance(&text).map_err(|problems| NodeStatesError::Content { path: path.to_owned(), problems })
}

/// The nodes that are in maintenance, or every line that is wrong. A text that names no node at all is wrong: a command that failed leaves
/// an empty file, and that must not end every maintenance.
///
/// # Errors
/// The lines.
pub fn in_maintenance(text: &str) -> Result<BTreeMap<String, String>, Vec<TopologyProblem>> {
    let (mut found, mut problems, mut named) = (BTreeMap::new(), Vec::new(), 0_usize);
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split_whitespace();
        let Some(node) = words.next().filter(|node| !node.starts_with('#')) else { continue };
        let problem = |what: String| TopologyProblem { line: number, what };
        let Some(state) = words.next() else {
            problems.push(problem(format!("'{}' is not NODE STATE [REASON]", crate::values::shown(line))));
            continue;
        };
        if ["name", "node", "nodelist", "hostnames"].contains(&node.to_ascii_lowercase().as_str()) {
            continue; // A heading.
        }
        let nodes = match topology::expanded(node) {
            Ok(nodes) => nodes,
            Err(what) => {
                problems.push(problem(what));
                continue;
            }
        };
        named += nodes.len();
        if named > NODES_MAX {
            problems.push(problem(format!("more than {NODES_MAX} nodes")));
            break;
        }
        if is_maintenance(state) {
            let reason: Vec<&str> = words.collect();
            let note =
                if reason.is_empty() { state.to_owned() } else { format!("{state}: {}", reason.join(" ")) };
            let note: String = note.chars().take(REASON_MAX).collect();
            found.extend(nodes.into_iter().map(|node| (node, note.clone())));
        }
    }
    if named == 0 && problems.is_empty() {
        let what = "no node is named: did the command that writes it fail?".to_owned();
        problems.push(TopologyProblem { line: 1, what });
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

fn is_maintenance(state: &str) -> bool {
    let words = state.split([',', '+']);
    words.into_iter().any(|word| {
        let plain = word.trim_end_matches(MARKS).to_ascii_lowercase();
        word.ends_with('$') || MAINTENANCE.contains(&plain.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str) -> Vec<(String, String)> {
        in_maintenance(text).unwrap().into_iter().collect()
    }

    fn node(name: &str, note: &str) -> (String, String) {
        (name.to_owned(), note.to_owned())
    }

    #[test]
    fn slurms_list_names_drained_and_maintained_nodes() {
        let text = "n1 idle\nn2 drained bad DIMM, ticket 4711\nn3 draining* none\nn4 maint\nn5 down*\nn6 mixed-\nn7 idle$\n\
                    n8 allocated#\nn9 IDLE+DRAIN Kill task failed\n# a word\n\nn2 drained bad DIMM, ticket 4711\n";
        assert_eq!(
            nodes(text),
            [
                node("n2", "drained: bad DIMM, ticket 4711"),
                node("n3", "draining*: none"),
                node("n4", "maint"),
                node("n7", "idle$"),
                node("n9", "IDLE+DRAIN: Kill task failed"),
            ]
        );
        assert_eq!(nodes("NODELIST STATE\nrack[1-2]n[1-2] drng\n").len(), 4);
    }

    #[test]
    fn kubernetes_list_names_cordoned_nodes() {
        let text = "NAME     STATUS                     ROLES    AGE   VERSION\n\
                    gpu-1    Ready                      <none>   9d    v1.33.1\n\
                    gpu-2    Ready,SchedulingDisabled   <none>   9d    v1.33.1\n\
                    gpu-3    NotReady                   <none>   9d    v1.33.1\n";
        assert_eq!(nodes(text), [node("gpu-2", "Ready,SchedulingDisabled: <none> 9d v1.33.1")]);
    }

    #[test]
    fn what_means_nothing_is_named_and_an_empty_file_ends_no_maintenance() {
        let told = |text: &str| topology::told(&in_maintenance(text).unwrap_err());
        assert!(told("").contains("did the command that writes it fail"));
        assert!(told("NAME STATUS\n# nothing\n").contains("no node is named"));
        assert_eq!(
            told("n1 idle\nslurm_load_node\n"),
            "line 2: 'slurm_load_node' is not NODE STATE [REASON]"
        );
        assert!(told("n[1-99999999] drain\n").contains("more than 100000 nodes"));
        assert_eq!(nodes("n1 idle\n"), [], "nobody is in maintenance");
    }
}
