//! Settings and versions that differ between parts of one kind: who is in the minority, and against how many.

use rdmascope_link::Fact;
use std::collections::BTreeMap;

/// What is compared between nodes. Values that differ by nature (addresses, GUIDs, NUMA nodes) are not in this list.
pub const COMPARED: [&str; 12] = [
    "netdev_mtu",
    "rdma_mtu",
    "pfc",
    "dscp",
    "ets",
    "ecn",
    "trust",
    "firmware",
    "driver",
    "kernel",
    "gid_index",
    "rate",
];

/// Fewer parts than that have no majority worth the name.
const PARTS_MIN: usize = 3;

/// One part that is not like the others of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Drift {
    /// Its node; empty where the whole kind is split and nobody can be called the minority.
    pub node: String,
    /// The part, such as `mlx5_0/1`; the kind where it is split.
    pub subject: String,
    /// What differs, such as `pfc`.
    pub key: String,
    /// Its value; all values with their counts where the kind is split.
    pub value: String,
    /// What most others have; empty where the kind is split.
    pub majority: String,
    /// How many have that.
    pub same: usize,
    /// How many parts were compared.
    pub of: usize,
}

impl Drift {
    /// The same part with the same setting, whatever its value is.
    pub(super) fn same_part(&self, other: &Self) -> bool {
        (&self.node, &self.subject, &self.key) == (&other.node, &other.subject, &other.key)
    }

    /// Nothing new about it: only how many others were compared may have changed, as nodes come and go.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        let split = self.majority.is_empty() && other.majority.is_empty();
        self.same_part(other) && self.majority == other.majority && (split || self.value == other.value)
    }
}

/// Everything that differs. Parts are compared within their kind: ports and devices of the same card type (fact `card`) and link
/// layer, and machines; device names play no part, since they differ between nodes.
#[must_use]
pub(super) fn find<'a>(facts: impl Iterator<Item = (&'a str, &'a [Fact])>) -> Vec<Drift> {
    let mut kinds: BTreeMap<(String, &str), Vec<Part<'a>>> = BTreeMap::new();
    for (node, facts) in facts {
        let named: Vec<&Fact> = facts.iter().filter(|f| f.key == "card" || f.key == "link_layer").collect();
        for fact in facts.iter().filter(|fact| COMPARED.contains(&fact.key.as_str())) {
            let part = Part { node, subject: &fact.subject, value: &fact.value };
            kinds.entry((kind_of(&fact.subject, &named), &fact.key)).or_default().push(part);
        }
    }
    let mut found: Vec<Drift> =
        kinds.iter().flat_map(|((kind, key), parts)| within(kind, key, parts)).collect();
    found.sort();
    found
}

struct Part<'a> {
    node: &'a str,
    subject: &'a str,
    value: &'a str,
}

/// `MT4129 Ethernet port`, or what of it is known.
fn kind_of(subject: &str, named: &[&Fact]) -> String {
    let device = subject.split('/').next().unwrap_or(subject);
    let of = |subject: &str, key: &str| {
        named.iter().find(|fact| fact.subject == subject && fact.key == key).map(|fact| fact.value.as_str())
    };
    let card = of(subject, "card").or_else(|| of(device, "card"));
    let words = [card, of(subject, "link_layer")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let what = if subject == "machine" {
        "machine"
    } else if subject.contains('/') {
        "port"
    } else {
        "device"
    };
    if words.is_empty() { what.to_owned() } else { format!("{words} {what}") }
}

fn within(kind: &str, key: &str, parts: &[Part<'_>]) -> Vec<Drift> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for part in parts {
        *counts.entry(part.value).or_default() += 1;
    }
    let of = parts.len();
    if of < PARTS_MIN || counts.len() < 2 {
        return Vec::new();
    }
    let most = counts.iter().max_by_key(|(_, count)| **count);
    let Some((&majority, &same)) = most.filter(|(_, count)| **count * 2 > of) else {
        let listed: Vec<String> =
            counts.iter().map(|(value, count)| format!("{count} have {value}")).collect();
        return vec![Drift {
            node: String::new(),
            subject: kind.to_owned(),
            key: key.to_owned(),
            value: listed.join(", "),
            majority: String::new(),
            same: 0,
            of,
        }];
    };
    let differs = parts.iter().filter(|part| part.value != majority);
    let one = |part: &Part<'_>| Drift {
        node: part.node.to_owned(),
        subject: part.subject.to_owned(),
        key: key.to_owned(),
        value: part.value.to_owned(),
        majority: majority.to_owned(),
        same,
        of,
    };
    differs.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(subject: &str, key: &str, value: &str) -> Fact {
        Fact { subject: subject.to_owned(), key: key.to_owned(), value: value.to_owned() }
    }

    fn node(device: &str, pfc: &str) -> Vec<Fact> {
        let port = format!("{device}/1");
        vec![fact(device, "card", "MT4129"), fact(&port, "link_layer", "Ethernet"), fact(&port, "pfc", pfc)]
    }

    fn found(nodes: &[(&str, Vec<Fact>)]) -> Vec<Drift> {
        find(nodes.iter().map(|(name, facts)| (*name, &facts[..])))
    }

    #[test]
    fn the_one_that_differs_is_named_with_the_count_of_the_others() {
        let nodes = [("a", node("mlx5_0", "3")), ("b", node("mlx5_4", "3")), ("c", node("mlx5_0", "none"))];
        let [only] = &found(&nodes)[..] else { panic!("one") };
        assert_eq!((only.node.as_str(), only.subject.as_str(), only.key.as_str()), ("c", "mlx5_0/1", "pfc"));
        assert_eq!((only.value.as_str(), only.majority.as_str(), only.same, only.of), ("none", "3", 2, 3));
    }

    /// Pitfall 2: one node's right GID stands in another slot than all others'.
    #[test]
    fn the_node_whose_gid_stands_in_another_slot_is_named() {
        let node = |index: &str| {
            vec![
                fact("mlx5_0", "card", "MT4129"),
                fact("mlx5_0/1", "link_layer", "Ethernet"),
                fact("mlx5_0/1", "gid_index", index),
            ]
        };
        let names: Vec<String> = (0..38).map(|n| format!("node{n}")).collect();
        let nodes: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), node(if name == "node12" { "5" } else { "3" })))
            .collect();
        let [only] = &found(&nodes)[..] else { panic!("one") };
        assert_eq!(
            (only.node.as_str(), only.subject.as_str(), only.key.as_str()),
            ("node12", "mlx5_0/1", "gid_index")
        );
        assert_eq!((only.value.as_str(), only.majority.as_str(), only.same, only.of), ("5", "3", 37, 38));
    }

    #[test]
    fn other_cards_are_another_kind_and_two_parts_have_no_majority() {
        let mut other = node("mlx5_0", "none");
        other[0].value = "MT4123".to_owned();
        assert_eq!(found(&[("a", node("mlx5_0", "3")), ("b", node("mlx5_0", "3")), ("c", other)]), []);
        assert_eq!(found(&[("a", node("mlx5_0", "3")), ("b", node("mlx5_0", "none"))]), []);
    }

    #[test]
    fn a_kind_that_is_split_blames_nobody() {
        let nodes = [
            ("a", node("m", "3")),
            ("b", node("m", "3")),
            ("c", node("m", "none")),
            ("d", node("m", "none")),
        ];
        let [only] = &found(&nodes)[..] else { panic!("one") };
        assert_eq!((only.node.as_str(), only.subject.as_str()), ("", "MT4129 Ethernet port"));
        assert_eq!(only.value, "2 have 3, 2 have none");
    }

    #[test]
    fn what_differs_by_nature_is_not_compared() {
        let nodes: Vec<_> = ["a", "b", "c"]
            .map(|n| (n, vec![fact("m/1", "gid", n), fact("machine", "kernel", "6.1")]))
            .into();
        assert_eq!(found(&nodes), []);
    }
}
