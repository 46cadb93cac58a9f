//! Where nodes and their adapters hang in the fabric, from a CSV file or from Slurm's `topology.conf`.
//!
//! CSV: lines `NODE,LEAF`, or `NODE,LEAF,POD` or `NODE,LEAF,POD,RAIL`; `NODE/DEVICE` (or `NODE/DEVICE/PORT`) in place of `NODE` where the
//! adapters of a node hang on different leaves. What is empty is not known. A first line that begins with `node` is a heading. Slurm:
//! lines `SwitchName=LEAF Nodes=NODES` of its plugin topology/tree (or `BlockName=` of topology/block), with nodes as it writes them:
//! `node[01-18,20],gpu7`; `SwitchName=POD Switches=LEAVES` names the switch above them, which stands for the pod
//! (<https://slurm.schedmd.com/topology.conf.html>). `#` begins a comment in both.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest file that is read, bytes: 100,000 nodes with a line each.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Most nodes that one file may name: a slip such as `node[1-99999999]` must not fill the memory.
pub(crate) const NODES_MAX: usize = 100_000;

/// Problems that are shown at once.
const PROBLEMS_MAX: usize = 10;

/// What the file tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Leaf by `NODE`, `NODE/DEVICE` or `NODE/DEVICE/PORT`.
    pub leaves: BTreeMap<String, String>,
    /// Rail likewise.
    pub rails: BTreeMap<String, String>,
    /// Pod by leaf.
    pub pods: BTreeMap<String, String>,
}

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

pub(crate) fn told(problems: &[TopologyProblem]) -> String {
    let shown: Vec<_> = problems.iter().take(PROBLEMS_MAX).map(ToString::to_string).collect();
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    shown.join("; ") + &more
}

/// Reads a topology file.
///
/// # Errors
/// It cannot be read, or what is wrong with it, line by line.
pub fn read_topology(path: &Path) -> Result<Topology, TopologyError> {
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|source| TopologyError::Read { path: path.to_owned(), source })?;
    topology(&text).map_err(|problems| TopologyError::Content { path: path.to_owned(), problems })
}

/// The topology in a text, or every line that is wrong.
///
/// # Errors
/// The lines.
pub fn topology(text: &str) -> Result<Topology, Vec<TopologyProblem>> {
    let mut found = Topology::default();
    let mut problems = Vec::new();
    let mut heading = true;
    for (line, text) in joined(text) {
        let said = match text.contains('=') {
            true => slurm(&text),
            false if heading && is_heading(&text) => Ok(Line::default()),
            false => csv(&text),
        };
        heading = false;
        let added = said.and_then(|said| found.add(&said));
        problems.extend(added.err().map(|what| TopologyProblem { line, what }));
    }
    if problems.is_empty() && found.leaves.is_empty() && found.rails.is_empty() {
        let what = "no node is named: write NODE,LEAF or SwitchName=LEAF Nodes=NODES".to_owned();
        problems.push(TopologyProblem { line: 1, what });
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// What one line says.
#[derive(Default)]
struct Line {
    /// `NODE`, `NODE/DEVICE` or `NODE/DEVICE/PORT`.
    who: Vec<String>,
    leaf: Option<String>,
    rail: Option<String>,
    /// Leaves, and the pod that they are in.
    pod: Option<(Vec<String>, String)>,
}

impl Topology {
    fn add(&mut self, line: &Line) -> Result<(), String> {
        for who in &line.who {
            put(&mut self.leaves, who, line.leaf.as_deref(), "on")?;
            put(&mut self.rails, who, line.rail.as_deref(), "of rail")?;
        }
        if let Some((leaves, pod)) = &line.pod {
            leaves.iter().try_for_each(|leaf| put(&mut self.pods, leaf, Some(pod), "in"))?;
        }
        Ok(())
    }
}

/// Writes down what is said of something, which can be said once.
fn put(found: &mut BTreeMap<String, String>, who: &str, what: Option<&str>, is: &str) -> Result<(), String> {
    let Some(what) = what else { return Ok(()) };
    match found.get(who) {
        Some(other) if other != what => Err(format!(
            "{} is {is} {} already, and cannot be {is} {} too",
            shown(who),
            shown(other),
            shown(what)
        )),
        None if found.len() >= NODES_MAX => Err(format!("more than {NODES_MAX} nodes")),
        _ => {
            found.insert(who.to_owned(), what.to_owned());
            Ok(())
        }
    }
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

fn is_heading(line: &str) -> bool {
    let mut fields = line.split(',').map(str::trim);
    let mut is = |word: &str| fields.next().is_some_and(|field| field.eq_ignore_ascii_case(word));
    is("node") && is("leaf")
}

fn csv(line: &str) -> Result<Line, String> {
    let mut fields = line.split(',').map(|field| field.trim().trim_matches('"'));
    let mut next = || fields.next().unwrap_or_default().to_owned();
    let [who, leaf, pod, rail] = [next(), next(), next(), next()];
    let parts: Vec<&str> = who.split('/').collect();
    let named = parts.len() <= 3 && parts.iter().all(|part| !part.is_empty());
    let said = !leaf.is_empty() || (pod.is_empty() && !rail.is_empty());
    if fields.next().is_some() || !named || !said {
        return Err(format!("'{}' is not NODE,LEAF or NODE/DEVICE,LEAF,POD,RAIL", shown(line)));
    }
    let told = |text: String| (!text.is_empty()).then_some(text);
    let pod = told(pod).map(|pod| (vec![leaf.clone()], pod));
    Ok(Line { who: vec![who], leaf: told(leaf), rail: told(rail), pod })
}

/// A leaf and its nodes, or a switch and the switches below it.
fn slurm(line: &str) -> Result<Line, String> {
    let (mut name, mut nodes, mut below, mut above) = (None, None, None, false);
    for part in line.split_whitespace() {
        let (key, value) =
            part.split_once('=').ok_or_else(|| format!("'{}' is not KEY=VALUE", shown(part)))?;
        match key.to_ascii_lowercase().as_str() {
            "switchname" | "blockname" => name = Some(value).filter(|name| !name.is_empty()),
            "nodes" => nodes = Some(value),
            "switches" => below = Some(value),
            "blocksizes" | "blocks" => above = true,
            "linkspeed" => {}
            _ => return Err(format!("'{}' is no key of topology.conf", shown(key))),
        }
    }
    let leaf = name.map(str::to_owned);
    match (name, nodes, below) {
        (Some(_), Some(nodes), _) => Ok(Line { who: expanded(nodes)?, leaf, ..Line::default() }),
        (Some(name), None, Some(below)) => {
            Ok(Line { pod: Some((expanded(below)?, name.to_owned())), ..Line::default() })
        }
        (_, None, None) if above => Ok(Line::default()),
        (None, ..) => Err("nodes or switches without a SwitchName".to_owned()),
        _ => Err("neither Nodes nor Switches".to_owned()),
    }
}

/// Names of a list such as `node[01-18,20],gpu7`, as Slurm writes it.
///
/// # Errors
/// What is wrong with the list.
pub fn expanded(list: &str) -> Result<Vec<String>, String> {
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

fn shown(text: &str) -> String {
    crate::values::shown(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(text: &str) -> Vec<(String, String)> {
        topology(text).unwrap().leaves.into_iter().collect()
    }

    fn pair(a: &str, b: &str) -> (String, String) {
        (a.to_owned(), b.to_owned())
    }

    fn wrong(text: &str) -> String {
        told(&topology(text).unwrap_err())
    }

    #[test]
    fn a_csv_file_names_the_leaf_of_each_node() {
        let text = "node,leaf\n# rack 1\nn1, leaf1\n\n\"n2\",leaf2 # new\n";
        assert_eq!(leaves(text), [pair("n1", "leaf1"), pair("n2", "leaf2")]);
    }

    #[test]
    fn a_csv_file_may_name_each_adapter_its_pod_and_its_rail() {
        let text = "Node,Leaf,Pod,Rail\nn1/mlx5_0,leaf1,pod1,rail1\nn1/mlx5_1/2,leaf2,pod1\nn2/mlx5_0,,,rail1\nn3,leaf9,,\n";
        let found = topology(text).unwrap();
        assert_eq!(
            Vec::from_iter(found.leaves),
            [pair("n1/mlx5_0", "leaf1"), pair("n1/mlx5_1/2", "leaf2"), pair("n3", "leaf9")]
        );
        assert_eq!(Vec::from_iter(found.rails), [pair("n1/mlx5_0", "rail1"), pair("n2/mlx5_0", "rail1")]);
        assert_eq!(Vec::from_iter(found.pods), [pair("leaf1", "pod1"), pair("leaf2", "pod1")]);
        for bad in ["n1", "n1,", "n1,,pod1", ",leaf", "n1/,leaf", "a/b/1/2,leaf", "n1,leaf,pod,rail,more"] {
            assert!(wrong(bad).contains("is not NODE,LEAF"), "{bad}: {}", wrong(bad));
        }
        assert!(wrong("n1,leaf1,pod1\nn2,leaf1,pod2\n").contains("leaf1 is in pod1 already"));
    }

    #[test]
    fn slurms_topology_is_read_with_its_lists_of_nodes() {
        let text = "SwitchName=leaf1 Nodes=node[08-10,12],gpu7 LinkSpeed=100\n\
                    switchname=leaf2 \\\n  nodes=r[1-2]n[1-2]-ib\n\
                    SwitchName=spine Switches=leaf[1-2]\n";
        let on = |leaf: &str| -> Vec<String> {
            leaves(text).into_iter().filter(|(_, of)| of == leaf).map(|(node, _)| node).collect()
        };
        assert_eq!(on("leaf1"), ["gpu7", "node08", "node09", "node10", "node12"]);
        assert_eq!(on("leaf2"), ["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]);
        assert_eq!(leaves(text).len(), 9, "a switch of switches is no leaf");
        let pods = Vec::from_iter(topology(text).unwrap().pods);
        assert_eq!(pods, [pair("leaf1", "spine"), pair("leaf2", "spine")], "it stands for the pod");
        assert_eq!(leaves("BlockName=b1 Nodes=n[1-2]\nBlockSizes=2\n").len(), 2);
    }

    #[test]
    fn every_wrong_line_is_named_with_its_number() {
        let text = "SwitchName=a Nodes=n[1-\nSwitchName=b Nodes=n5\n\nSwitchName=c Nodes=n5\nNodes=n6\nn7\nSwitchName=d Node=n8\n";
        assert_eq!(
            wrong(text),
            "line 1: a bracket is not closed in 'n[1-'; line 4: n5 is on b already, and cannot be on c too; \
             line 5: nodes or switches without a SwitchName; line 6: 'n7' is not NODE,LEAF or NODE/DEVICE,LEAF,POD,RAIL; \
             line 7: 'Node' is no key of topology.conf"
        );
        assert!(wrong("").contains("no node is named"));
        assert!(wrong("# nothing\n").contains("no node is named"));
        assert!(wrong("SwitchName=a Nodes=n[2-1]").contains("is not a list of nodes"));
        assert!(wrong("SwitchName=a Nodes=n1]").contains("bracket is not closed"));
        assert!(wrong("SwitchName=a").contains("neither Nodes nor Switches"));
        assert!(wrong("Switches=a").contains("without a SwitchName"));
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
        let error = read_topology(Path::new("/nonexistent/topology.csv")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/topology.csv"), "{error}");
    }
}
