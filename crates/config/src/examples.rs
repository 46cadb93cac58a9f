//! The shipped examples, written from the table of keys: a key that is renamed or goes away is missed here by a test.

use crate::expectations::FIELDS;
use crate::keys::{KEYS, SECTIONS};
use crate::reference::wrapped;
use std::fmt::Write;

/// Widest line, characters.
const WIDTH: usize = 100;

/// A key that the example sets, and why to this.
struct Set {
    path: &'static str,
    value: &'static str,
    why: &'static str,
}

const fn set(path: &'static str, value: &'static str, why: &'static str) -> Set {
    Set { path, value, why }
}

struct Example {
    file: &'static str,
    about: &'static str,
    keys: &'static [Set],
    /// Rows of the manifest: fields with their values.
    manifest: &'static [&'static [(&'static str, &'static str)]],
}

const COORDINATOR: Set =
    set("agent.coordinator", "rdmascope.example.net:8080", "a name, so that it can move; replace it.");
const AGENT_TOKEN: Set = set(
    "agent.token_file",
    "/etc/rdmascope/token",
    "made once, the same everywhere: openssl rand -hex 32 > token; chgrp rdmascope, mode 0640.",
);
const TOKEN: Set = set("coordinator.token_file", "/etc/rdmascope/token", "the same file.");
const MANAGED: Set =
    set("coordinator.listen", "10.20.0.5:8080", "its address on the management network alone; replace it.");
const STATE: Set = set("coordinator.state_dir", "/var/lib/rdmascope", "the folder that the unit gives it.");
const SCRAPED: Set = set(
    "agent.listen",
    "0.0.0.0:19810",
    "Prometheus scrapes each agent, so that a port that is down is seen without the coordinator, too.",
);
const JSON: Set = set("log.format", "json", "logs go into a collector.");

const EXAMPLES: [Example; 3] = [
    Example {
        file: "small.yaml",
        about: "A small cluster, up to about 30 nodes: the same file on every node and on the machine of the coordinator.",
        keys: &[
            COORDINATOR,
            AGENT_TOKEN,
            set(
                "agent.listen",
                "127.0.0.1:19810",
                "this machine alone; scrape the coordinator, it knows them all.",
            ),
            set("coordinator.listen", "0.0.0.0:8080", "every address; keep it on the management network."),
            TOKEN,
            STATE,
            set(
                "coordinator.sweep.coverage",
                "60s",
                "30 nodes with one port each are 870 ordered pairs: a minute is ample.",
            ),
        ],
        manifest: &[],
    },
    Example {
        file: "thousand-nodes.yaml",
        about: "A thousand nodes with one RDMA port each, Prometheus on every agent, logs into a collector.",
        keys: &[
            COORDINATOR,
            AGENT_TOKEN,
            SCRAPED,
            MANAGED,
            TOKEN,
            STATE,
            set(
                "coordinator.topology_file",
                "/etc/slurm/topology.conf",
                "pods, and the leaves of switches that do not tell their names by LLDP. Take the line out where there is no such file.",
            ),
            set(
                "coordinator.maintenance_file",
                "/run/rdmascope/nodes",
                "nodes that Slurm drains are left out and silenced; deploy/README.md has the line for cron.",
            ),
            set("coordinator.mesh.labels", "32", "a fabric of this size has more equal paths than four."),
            set(
                "coordinator.sweep.coverage",
                "10m",
                "999,000 ordered pairs: at ten pings a second an endpoint is once around its 999 peers in 100 s, so each pair is \
                 pinged six times within this.",
            ),
            set("coordinator.sweep.pause", "30s", "as much calm as the cluster can spare."),
            JSON,
        ],
        manifest: &[],
    },
    Example {
        file: "multi-rail.yaml",
        about: "128 nodes with eight RDMA ports each, one on every rail, and a storage adapter that is left out.",
        keys: &[
            COORDINATOR,
            AGENT_TOKEN,
            set(
                "agent.devices",
                "[mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7]",
                "the compute rails alone; the storage adapter is left out.",
            ),
            SCRAPED,
            MANAGED,
            TOKEN,
            STATE,
            set(
                "coordinator.rails_routed",
                "false",
                "each rail is a fabric of its own: pairs of two rails cannot meet, and that is no fault. With spines that join \
                 the rails, take the line out.",
            ),
            set("coordinator.streams_per_node", "8", "eight adapters."),
            set(
                "coordinator.sweep.coverage",
                "5m",
                "1,024 endpoints, of which each meets the 127 of its rail: 130,048 ordered pairs.",
            ),
            JSON,
        ],
        manifest: &[
            &[("device", "mlx5_0"), ("rail", "rail-1")],
            &[("device", "mlx5_1"), ("rail", "rail-2")],
            &[("device", "mlx5_2"), ("rail", "rail-3")],
            &[("device", "mlx5_3"), ("rail", "rail-4")],
            &[("device", "mlx5_4"), ("rail", "rail-5")],
            &[("device", "mlx5_5"), ("rail", "rail-6")],
            &[("device", "mlx5_6"), ("rail", "rail-7")],
            &[("device", "mlx5_7"), ("rail", "rail-8")],
            &[("device", "mlx5_*"), ("role", "compute"), ("rate_gbps", "400"), ("rdma_mtu", "4096")],
        ],
    },
];

/// The files of `config/` that show settings in use: name and text.
#[must_use]
pub fn examples() -> Vec<(&'static str, String)> {
    EXAMPLES.iter().map(|example| (example.file, example.text())).collect()
}

impl Example {
    fn text(&self) -> String {
        let mut text = String::new();
        let about = format!(
            "{} rdmascope.yaml beside this file has every key. This file is written by the program: do not edit it, copy it.",
            self.about
        );
        comment(&mut text, "", &about);
        for (section, about) in SECTIONS {
            let inside = |set: &&Set| set.path.rsplit_once('.').is_some_and(|(parent, _)| parent == section);
            let below = |set: &Set| set.path.starts_with(&format!("{section}."));
            if !self.keys.iter().any(below) {
                continue;
            }
            let indent = "  ".repeat(section.matches('.').count());
            text.push('\n');
            comment(&mut text, &indent, about);
            let _ = writeln!(text, "{indent}{}:", last(section));
            for key in &KEYS {
                let Some(set) = self.keys.iter().filter(inside).find(|set| set.path == key.path) else {
                    continue;
                };
                comment(&mut text, &format!("{indent}  "), &format!("{} ({})", key.doc, key.form));
                comment(&mut text, &format!("{indent}  "), &format!("Here: {}", set.why));
                let _ = writeln!(text, "{indent}  {}: {}", last(key.path), set.value);
            }
        }
        if !self.manifest.is_empty() {
            self.write_manifest(&mut text);
        }
        text
    }

    fn write_manifest(&self, text: &mut String) {
        text.push_str("\n# What each port is expected to be; policy.yaml lists the fields.\nmanifest:\n");
        let mut told = Vec::new();
        for (field, value, first) in self.manifest.iter().flat_map(|row| {
            row.iter().enumerate().map(|(index, (field, value))| (*field, *value, index == 0))
        }) {
            let known = FIELDS.iter().find(|(name, ..)| *name == field);
            if let Some((_, form, what)) = known.filter(|_| !told.contains(&field)) {
                comment(text, "  ", &format!("{field}: {what} ({form})"));
                told.push(field);
            }
            let _ = writeln!(text, "  {} {field}: {value}", if first { "-" } else { " " });
        }
    }
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn comment(text: &mut String, indent: &str, words: &str) {
    for line in wrapped(words, WIDTH - indent.len() - 2) {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{indent}# {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_set_keys_that_exist_each_once_and_to_something_else_than_the_default() {
        for example in &EXAMPLES {
            for (index, set) in example.keys.iter().enumerate() {
                let key = KEYS.iter().find(|key| key.path == set.path);
                let key = key.unwrap_or_else(|| panic!("{}: there is no key {}", example.file, set.path));
                assert_ne!(key.default, Some(set.value), "{}: {} is the default", example.file, set.path);
                assert!(example.keys[..index].iter().all(|other| other.path != set.path), "{}", set.path);
            }
            for (field, _) in example.manifest.iter().flat_map(|row| row.iter()) {
                assert!(FIELDS.iter().any(|(name, ..)| name == field), "{}: no field {field}", example.file);
            }
        }
    }

    /// What the comments work out.
    #[test]
    fn the_arithmetic_of_the_examples_is_right() {
        assert_eq!((30 * 29, 1_000 * 999, 8 * 128, 8 * 128 * 127), (870, 999_000, 1_024, 130_048));
        assert_eq!((999_f64 / 10.0).round() as u32, 100);
    }
}
