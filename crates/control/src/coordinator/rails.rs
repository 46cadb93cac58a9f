//! Which rail each endpoint belongs to: as the configuration says, else by what the nodes have in common.
//!
//! Never by an endpoint's position in a list: an adapter that is dead leaves its rail empty on its node, and renumbers nobody. The rule:
//!
//! 1. The manifest of the node, else the topology file.
//! 2. Where neither names any rail: PCI addresses. Nodes that share addresses of adapters are of one build; the addresses that most nodes
//!    of a build have, in their order, are the rails `1`, `2`, … All builds with as many addresses as most nodes have are taken to be
//!    cabled in that order; others have no rail, and are probed with everybody.
//! 3. Whoever still has none has that of the others at its PCI address, else on its leaf, else in its subnet, where two or more of them
//!    have one and all have the same. A leaf on which several rails meet says nothing.

use std::collections::{BTreeMap, BTreeSet};

/// From where the rail of an endpoint is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RailSource {
    /// The manifest in the configuration of its node.
    Manifest,
    /// The topology file.
    File,
    /// Its PCI address, among nodes of the same build.
    PciAddress,
    /// The other endpoints on its leaf.
    Leaf,
    /// The other endpoints in its subnet.
    Subnet,
}

impl RailSource {
    /// The word used on the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::File => "file",
            Self::PciAddress => "pci-address",
            Self::Leaf => "leaf",
            Self::Subnet => "subnet",
        }
    }
}

/// What is known of one endpoint that may tell its rail.
#[derive(Clone, Debug, Default)]
pub(super) struct Traits<'a> {
    pub(super) node: &'a str,
    /// PCI address and port number.
    pub(super) slot: Option<(&'a str, u8)>,
    /// What manifest or file say.
    pub(super) told: Option<(&'a str, RailSource)>,
    pub(super) leaf: Option<&'a str>,
    /// The first 24 bits of an IPv4 address, the first 64 of any other.
    pub(super) subnet: Option<&'a [u8]>,
}

/// The rail of each endpoint, where one is known.
pub(super) fn rails(all: &[Traits<'_>]) -> Vec<Option<(String, RailSource)>> {
    let told = |traits: &Traits<'_>| traits.told.map(|(rail, source)| (rail.to_owned(), source));
    let mut known: Vec<_> = all.iter().map(told).collect();
    if known.iter().all(Option::is_none) {
        let slots = by_build(all);
        for (rail, traits) in known.iter_mut().zip(all) {
            let number = traits.slot.and_then(|slot| slots.get(&slot));
            *rail = number.map(|number| (number.to_string(), RailSource::PciAddress));
        }
    } else {
        agree(all, &mut known, RailSource::PciAddress, |traits| traits.slot);
    }
    agree(all, &mut known, RailSource::Leaf, |traits| traits.leaf);
    agree(all, &mut known, RailSource::Subnet, |traits| traits.subnet);
    known
}

/// Gives those without a rail that of the others with the same key, where these agree.
fn agree<'a, K: Ord>(
    all: &[Traits<'a>],
    known: &mut [Option<(String, RailSource)>],
    source: RailSource,
    key: impl Fn(&Traits<'a>) -> Option<K>,
) {
    let mut said: BTreeMap<K, (Option<String>, u32)> = BTreeMap::new();
    for (traits, rail) in all.iter().zip(known.iter()) {
        let (Some(key), Some((rail, _))) = (key(traits), rail) else { continue };
        let (agreed, count) = said.entry(key).or_insert_with(|| (Some(rail.clone()), 0));
        *count += 1;
        if agreed.as_ref() != Some(rail) {
            *agreed = None;
        }
    }
    for (traits, rail) in all.iter().zip(known.iter_mut()).filter(|(_, rail)| rail.is_none()) {
        let found = key(traits).and_then(|key| said.get(&key)).filter(|(_, count)| *count >= 2);
        *rail = found.and_then(|(agreed, _)| agreed.clone()).map(|rail| (rail, source));
    }
}

type Slot<'a> = (&'a str, u8);

/// Nodes of one build.
#[derive(Default)]
struct Build<'a> {
    slots: BTreeSet<Slot<'a>>,
    /// Which of them each node has, and how many nodes have just these.
    layouts: BTreeMap<BTreeSet<Slot<'a>>, usize>,
}

impl<'a> Build<'a> {
    /// The slots that most of its nodes have; `None` where there is no such thing.
    fn layout(&self) -> Option<&BTreeSet<Slot<'a>>> {
        let nodes: usize = self.layouts.values().sum();
        let (layout, count) = self.layouts.iter().max_by_key(|(slots, count)| (**count, slots.len()))?;
        (2 * count > nodes).then_some(layout)
    }
}

/// The number of each slot's rail, from 1.
fn by_build<'a>(all: &[Traits<'a>]) -> BTreeMap<Slot<'a>, usize> {
    let mut nodes: BTreeMap<&str, BTreeSet<Slot<'a>>> = BTreeMap::new();
    for traits in all {
        nodes.entry(traits.node).or_default().extend(traits.slot);
    }
    let mut builds: Vec<Build<'a>> = Vec::new();
    for slots in nodes.into_values().filter(|slots| !slots.is_empty()) {
        let mut build = Build::default();
        // Builds that this node has slots of are one.
        let (same, others) =
            builds.into_iter().partition(|other: &Build<'_>| !other.slots.is_disjoint(&slots));
        builds = others;
        for other in same {
            build.slots.extend(other.slots);
            for (layout, count) in other.layouts {
                *build.layouts.entry(layout).or_default() += count;
            }
        }
        build.slots.extend(&slots);
        *build.layouts.entry(slots).or_default() += 1;
        builds.push(build);
    }
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for build in &builds {
        let Some(layout) = build.layout() else { continue };
        *sizes.entry(layout.len()).or_default() += build.layouts.values().sum::<usize>();
    }
    let usual = sizes.into_iter().max_by_key(|(_, nodes)| *nodes).map_or(0, |(size, _)| size);
    let layouts = builds.iter().filter_map(Build::layout).filter(|layout| layout.len() == usual && usual > 1);
    layouts.flat_map(|layout| layout.iter().copied().zip(1..)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot<'a>(node: &'a str, address: &'a str) -> Traits<'a> {
        Traits { node, slot: Some((address, 1)), ..Traits::default() }
    }

    fn names(all: &[Traits<'_>]) -> Vec<String> {
        let name = |rail: Option<(String, RailSource)>| rail.map_or("-".to_owned(), |(rail, _)| rail);
        rails(all).into_iter().map(name).collect()
    }

    #[test]
    fn a_dead_adapter_leaves_a_hole_and_renumbers_nobody() {
        let mut all = Vec::new();
        for node in ["a", "b", "c"] {
            // The kernel lists them in any order.
            all.extend(["3c", "1a", "9c", "5d"].map(|address| slot(node, address)));
        }
        assert_eq!(names(&all)[..4], ["2", "1", "4", "3"], "in the order of the addresses");
        all.retain(|traits| (traits.node, traits.slot) != ("b", Some(("1a", 1))));
        assert_eq!(names(&all)[4..7], ["2", "4", "3"], "b has lost its first");
    }

    #[test]
    fn builds_with_other_addresses_are_cabled_in_the_same_order_and_odd_ones_have_no_rail() {
        let mut all = Vec::new();
        for node in ["a1", "a2", "a3"] {
            all.extend(["1a", "3c"].map(|address| slot(node, address)));
        }
        for node in ["b1", "b2"] {
            all.extend(["81", "c1"].map(|address| slot(node, address)));
        }
        all.push(slot("storage", "41"));
        assert_eq!(names(&all), ["1", "2", "1", "2", "1", "2", "1", "2", "1", "2", "-"]);
        let lone = [slot("a", "1a"), slot("b", "1a")];
        assert_eq!(names(&lone), ["-", "-"], "one adapter for each node is no rail");
        // Virtual functions: every node has others, so no order says anything.
        let any =
            [slot("a", "1"), slot("a", "2"), slot("b", "2"), slot("b", "3"), slot("c", "3"), slot("c", "1")];
        assert_eq!(names(&any), ["-"; 6]);
    }

    #[test]
    fn what_is_configured_wins_and_fills_in_for_the_others() {
        let told =
            |node, address, rail| Traits { told: Some((rail, RailSource::Manifest)), ..slot(node, address) };
        let all = [
            told("a", "1a", "red"),
            told("a", "3c", "blue"),
            told("b", "1a", "red"),
            slot("c", "1a"),
            slot("c", "3c"),
            slot("d", "77"),
        ];
        assert_eq!(names(&all), ["red", "blue", "red", "red", "-", "-"], "one other alone says nothing");
        assert_eq!(rails(&all)[3].as_ref().unwrap().1, RailSource::PciAddress);
    }

    #[test]
    fn a_leaf_or_a_subnet_of_one_rail_tells_it_and_a_mixed_one_does_not() {
        let told = |leaf, subnet: &'static [u8], rail| Traits {
            told: Some((rail, RailSource::File)),
            leaf: Some(leaf),
            subnet: Some(subnet),
            ..Traits::default()
        };
        let on = |leaf: Option<&'static str>, subnet: &'static [u8]| Traits {
            leaf,
            subnet: Some(subnet),
            ..Traits::default()
        };
        let all = [
            told("leaf1", &[10, 0, 1], "r1"),
            told("leaf1", &[10, 0, 1], "r1"),
            told("leaf9", &[10, 0, 9], "r1"),
            told("leaf9", &[10, 0, 9], "r2"),
            on(Some("leaf1"), &[10, 0, 9]),
            on(None, &[10, 0, 1]),
            on(Some("leaf9"), &[10, 0, 9]),
        ];
        assert_eq!(names(&all)[4..], ["r1", "r1", "-"]);
        let sources: Vec<_> = rails(&all).into_iter().map(|rail| rail.map(|(_, source)| source)).collect();
        assert_eq!(sources[4..], [Some(RailSource::Leaf), Some(RailSource::Subnet), None]);
    }
}
