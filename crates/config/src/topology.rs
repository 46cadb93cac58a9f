//! Which leaf switch each node hangs on, from a CSV file or from Slurm's `topology.conf`.
//!
//! CSV: lines `NODE,LEAF`; a first line `node,leaf` is a heading. Slurm: lines `SwitchName=LEAF Nodes=NODES` of its plugin
//! topology/tree (or `BlockName=` of topology/block), with nodes as it writes them: `node[01-18,20],gpu7`
//! (<https://slurm.schedmd.com/topology.conf.html>); switches of switches are no leaves. `#` begins a comment in both.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest file that is read, bytes: 100,000 nodes with a line each.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Most nodes that one file may name: a slip such as `node[1-99999999]` must not fill the memory.
const NODES_MAX: usize = 100_000;

/// Problems that are shown at once.
const PROBLEMS_MAX: usize = 10;

/// Leaf by node.
pub type Leaves = BTreeMap<String, String>;

/// Why a topology file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The file could not be read.
    #[error("topology file {path} cannot be read: check the path and that this user may read it")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It has lines that mean nothing.
    #[error("topology file {path}: {}", told(problems))]
    Content {
        /// The file.
        path: PathBuf,
        /// Each line that is wrong.
        problems: Vec<TopologyProblem>,
    },
}

/// A line that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyProblem {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong, and what to write instead.
    pub what: String,
}

impl fmt::Display for TopologyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

fn told(problems: &[TopologyProblem]) -> String {
    let shown: Vec<_> = problems.iter().take(PROBLEMS_MAX).map(ToString::to_string).collect();
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    shown.join("; ") + &more
}

/// Reads the leaves from a file.
///
/// # Errors
/// It cannot be read, or what is wrong with it, line by line.
pub fn read_leaves(path: &Path) -> Result<Leaves, TopologyError> {
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|source| TopologyError::Read { path: path.to_owned(), source })?;
    leaves(&text).map_err(|problems| TopologyError::Content { path: path.to_owned(), problems })
}

/// The leaves in a text, or every line that is wrong.
///
/// # Errors
/// The lines.
pub fn leaves(text: &str) -> Result<Leaves, Vec<TopologyProblem>> {
    let mut found = Leaves::new();
    let mut problems = Vec::new();
    let mut heading = true;
    for (line, text) in joined(text) {
        let pairs = if text.contains('=') { slurm(&text) } else { csv(&text, heading) };
        heading = false;
        let added =
            pairs.and_then(|(leaf, nodes)| nodes.iter().try_for_each(|node| add(&mut found, node, &leaf)));
        problems.extend(added.err().map(|what| TopologyProblem { line, what }));
    }
    if problems.is_empty() && found.is_empty() {
        let what = "no node is named: write NODE,LEAF or SwitchName=LEAF Nodes=NODES".to_owned();
        problems.push(TopologyProblem { line: 1, what });
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// Lines with something on them, by the number that they begin with; a `\` at its end joins a line with the next one.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (part, next) = line.strip_suffix('\\').map_or((line, false), |part| (part.trim_end(), true));
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, before)) => {
                before.push(' ');
                before.push_str(part);
            }
            None if !part.is_empty() => lines.push((number + 1, part.to_owned())),
            None => {}
        }
        goes_on = next;
    }
    lines
}

fn csv(line: &str, heading: bool) -> Result<(String, Vec<String>), String> {
    let fields: Vec<&str> = line.split(',').map(|field| field.trim().trim_matches('"')).collect();
    match fields[..] {
        ["node", "leaf"] if heading => Ok((String::new(), Vec::new())),
        [node, leaf] if !node.is_empty() && !leaf.is_empty() => Ok((leaf.to_owned(), vec![node.to_owned()])),
        _ => Err(format!("'{}' is not NODE,LEAF", shown(line))),
    }
}

/// The leaf of a line, and its nodes; a switch of switches has none.
fn slurm(line: &str) -> Result<(String, Vec<String>), String> {
    let (mut leaf, mut nodes, mut above) = (None, None, false);
    for part in line.split_whitespace() {
        let (key, value) =
            part.split_once('=').ok_or_else(|| format!("'{}' is not KEY=VALUE", shown(part)))?;
        match key.to_ascii_lowercase().as_str() {
            "switchname" | "blockname" => leaf = Some(value.to_owned()),
            "nodes" => nodes = Some(value),
            "switches" | "blocksizes" | "blocks" => above = true,
            "linkspeed" => {}
            _ => return Err(format!("'{}' is no key of topology.conf", shown(key))),
        }
    }
    match (leaf, nodes) {
        (Some(leaf), Some(nodes)) if !leaf.is_empty() => Ok((leaf, expanded(nodes)?)),
        (leaf, None) if above => Ok((leaf.unwrap_or_default(), Vec::new())),
        (None, Some(_)) => Err("nodes without a SwitchName".to_owned()),
        _ => Err("neither Nodes nor Switches".to_owned()),
    }
}

/// Names of a list such as `node[01-18,20],gpu7`.
fn expanded(list: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    let (mut depth, mut begin) = (0_i32, 0);
    for (at, letter) in list.char_indices().chain([(list.len(), ',')]) {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                all.extend(names(&list[begin..at])?);
                begin = at + 1;
            }
            _ => {}
        }
        if all.len() > NODES_MAX {
            return Err(format!("more than {NODES_MAX} nodes"));
        }
    }
    if depth == 0 { Ok(all) } else { Err(format!("a bracket is not closed in '{}'", shown(list))) }
}

/// Names of one part of a list, which may have brackets in several places.
fn names(part: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("'{}' is not a list of nodes such as node[01-18,20]", shown(part));
    let Some((head, rest)) = part.split_once('[') else {
        return if part.is_empty() || part.contains(']') { Err(wrong()) } else { Ok(vec![part.to_owned()]) };
    };
    let (ranges, tail) = rest.split_once(']').ok_or_else(wrong)?;
    let tails = if tail.is_empty() { vec![String::new()] } else { names(tail)? };
    let mut all = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number =
            |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
        let (from, to) = number(first).zip(number(last)).filter(|(from, to)| from <= to).ok_or_else(wrong)?;
        if (to - from) as usize >= NODES_MAX || all.len() > NODES_MAX {
            return Err(format!("'{}' is more than {NODES_MAX} nodes", shown(part)));
        }
        // Leading zeros are part of the names.
        let width = first.len();
        for number in from..=to {
            all.extend(tails.iter().map(|tail| format!("{head}{number:0width$}{tail}")));
        }
    }
    Ok(all)
}

fn add(found: &mut Leaves, node: &str, leaf: &str) -> Result<(), String> {
    match found.get(node) {
        Some(other) if other != leaf => Err(format!(
            "node {} is on {} already, and cannot be on {} too",
            shown(node),
            shown(other),
            shown(leaf)
        )),
        _ if found.len() >= NODES_MAX => Err(format!("more than {NODES_MAX} nodes")),
        _ => {
            found.insert(node.to_owned(), leaf.to_owned());
            Ok(())
        }
    }
}

fn shown(text: &str) -> String {
    crate::values::shown(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        leaves(text).unwrap().into_iter().collect()
    }

    fn wrong(text: &str) -> String {
        told(&leaves(text).unwrap_err())
    }

    #[test]
    fn a_csv_file_names_the_leaf_of_each_node() {
        let text = "node,leaf\n# rack 1\nn1, leaf1\n\n\"n2\",leaf2 # new\n";
        assert_eq!(pairs(text), [("n1".into(), "leaf1".into()), ("n2".into(), "leaf2".into())]);
    }

    #[test]
    fn slurms_topology_is_read_with_its_lists_of_nodes() {
        let text = "SwitchName=leaf1 Nodes=node[08-10,12],gpu7 LinkSpeed=100\n\
                    switchname=leaf2 \\\n  nodes=r[1-2]n[1-2]-ib\n\
                    SwitchName=spine Switches=leaf[1-2]\n";
        let on = |leaf: &str| -> Vec<String> {
            pairs(text).into_iter().filter(|(_, of)| of == leaf).map(|(node, _)| node).collect()
        };
        assert_eq!(on("leaf1"), ["gpu7", "node08", "node09", "node10", "node12"]);
        assert_eq!(on("leaf2"), ["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]);
        assert_eq!(pairs(text).len(), 9, "a switch of switches is no leaf");
        assert_eq!(pairs("BlockName=b1 Nodes=n[1-2]\nBlockSizes=2\n").len(), 2);
    }

    #[test]
    fn every_wrong_line_is_named_with_its_number() {
        let text = "SwitchName=a Nodes=n[1-\nSwitchName=b Nodes=n5\n\nSwitchName=c Nodes=n5\nNodes=n6\nn7\nSwitchName=d Node=n8\n";
        assert_eq!(
            wrong(text),
            "line 1: a bracket is not closed in 'n[1-'; line 4: node n5 is on b already, and cannot be on c too; \
             line 5: nodes without a SwitchName; line 6: 'n7' is not NODE,LEAF; line 7: 'Node' is no key of topology.conf"
        );
        assert!(wrong("").contains("no node is named"));
        assert!(wrong("# nothing\n").contains("no node is named"));
        assert!(wrong("SwitchName=a Nodes=n[2-1]").contains("is not a list of nodes"));
        assert!(wrong("SwitchName=a Nodes=n1]").contains("bracket is not closed"));
        assert!(wrong("SwitchName=a").contains("neither Nodes nor Switches"));
        let many: String = (0..30).map(|_| "x\n").collect();
        assert!(wrong(&many).ends_with("; and 20 more"));
    }

    #[test]
    fn a_slip_does_not_fill_the_memory() {
        assert!(wrong("SwitchName=a Nodes=n[1-99999999]").contains("more than 100000 nodes"));
        assert!(wrong("SwitchName=a Nodes=n[1-900][1-900]").contains("more than 100000 nodes"));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read_leaves(Path::new("/nonexistent/topology.csv")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/topology.csv"), "{error}");
    }
}
