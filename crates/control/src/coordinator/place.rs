//! Where the endpoints stand that are there now, and who says so: the switches (LLDP), a file, the nodes' own configuration.

use super::continuous::Reach;
use super::rails::{RailSource, Traits, rails};
use super::settings::Settings;
use super::{Coordinator, Members};
use rdmascope_localise::{EndpointIndex, Place, PlaceIndex, Places};
use rdmascope_model::{EndpointInfo, EndpointName, Fabric, Mono};
use std::collections::BTreeMap;
use std::time::Duration;

/// Places of 4,096 endpoints take some milliseconds to work out: a thousand agents that connect at once must not cause that a thousand
/// times. Half of the time in which the address book settles.
const LOOKS_EVERY: Duration = Duration::from_millis(500);
/// So few endpoints cost half a millisecond, and are looked at with every change.
const LOOKED_AT_ONCE: usize = 256;

/// From where the leaf of an endpoint is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafSource {
    /// The switch itself says so, and the node's agent heard it.
    Lldp,
    /// The topology file.
    File,
}

impl LeafSource {
    /// The word used on the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lldp => "lldp",
            Self::File => "file",
        }
    }
}

/// Who says where an endpoint stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// On which leaf; `None`: nobody does.
    pub leaf: Option<LeafSource>,
    /// On which rail; likewise.
    pub rail: Option<RailSource>,
}

/// Where an endpoint stands, in names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceNames<'a> {
    /// Its rail.
    pub rail: Option<&'a str>,
    /// Its leaf.
    pub leaf: Option<&'a str>,
    /// Its pod.
    pub pod: Option<&'a str>,
    /// Who says so.
    pub sources: Sources,
}

/// What was worked out last.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// Of this membership and so many endpoints.
    seen: (u64, usize),
    looked_at: Option<Mono>,
    pub(super) places: Places,
    /// By the same numbers as the places.
    sources: Vec<Sources>,
    on_leaf: BTreeMap<String, Vec<EndpointIndex>>,
    fabrics: Vec<Option<Fabric>>,
    /// Peers that pings reach, of endpoints that can be probed now.
    pub(super) pinged: Reach,
    /// Peers that only connections reach.
    pub(super) probed: Reach,
}

impl Standing {
    /// It was worked out from this membership.
    pub(super) fn is_of(&self, members: &Members, endpoints: usize) -> bool {
        self.seen == (members.generation, endpoints)
    }

    /// The name of an endpoint's rail.
    pub(super) fn rail(&self, index: EndpointIndex) -> Option<&str> {
        name(&self.places.rails, self.places.place(index)?.rail)
    }

    pub(super) fn fabric(&self, index: EndpointIndex) -> Option<Fabric> {
        self.fabrics.get(index.0 as usize).copied().flatten()
    }

    /// It knows everybody who is there now.
    pub(super) fn knows(&self, members: &Members) -> bool {
        self.seen.0 == members.generation
    }

    /// Endpoints that share a leaf.
    pub(super) fn on_leaf(&self, leaf: &str) -> impl Iterator<Item = EndpointIndex> {
        self.on_leaf.get(leaf).into_iter().flatten().copied()
    }
}

/// Numbers for names, in the order in which they come.
#[derive(Default)]
struct Numbers<'a> {
    known: BTreeMap<&'a str, PlaceIndex>,
    names: Vec<String>,
}

impl<'a> Numbers<'a> {
    fn of(&mut self, name: &'a str) -> PlaceIndex {
        *self.known.entry(name).or_insert_with(|| {
            self.names.push(name.to_owned());
            PlaceIndex(u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX))
        })
    }
}

impl Coordinator {
    /// Where the endpoints stand, by their numbers in the matrix.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.standing.places
    }

    /// Where an endpoint stands, in names, and who says so.
    #[must_use]
    pub fn place_names(&self, index: EndpointIndex) -> PlaceNames<'_> {
        let Standing { places, sources, .. } = &self.standing;
        let Some(place) = places.place(index) else { return PlaceNames::default() };
        PlaceNames {
            rail: name(&places.rails, place.rail),
            leaf: name(&places.leaves, place.leaf),
            pod: name(&places.pods, place.pod),
            sources: sources.get(index.0 as usize).copied().unwrap_or_default(),
        }
    }

    /// Looks anew when somebody came, went or changed, and not too often.
    pub(super) fn look_at_places(&mut self, now: Mono) {
        if self.standing.is_of(&self.members, self.matrix.len()) {
            return;
        }
        let few = self.matrix.len() <= LOOKED_AT_ONCE;
        if few || self.standing.looked_at.is_none_or(|at| now >= at.after(LOOKS_EVERY)) {
            self.look_at_places_now(now);
        }
    }

    /// Looks anew, for somebody who must know.
    pub(super) fn look_at_places_now(&mut self, now: Mono) {
        if self.standing.is_of(&self.members, self.matrix.len()) {
            return;
        }
        self.members.refresh();
        let seen = (self.members.generation, self.matrix.len());
        let looked = standing(&self.members, &self.settings, self.matrix.len());
        self.standing = Standing { seen, looked_at: Some(now), ..looked };
        self.spreads.places_changed();
        let ready = self.seats(self.members.ready());
        let routed = self.settings.rails_routed;
        self.standing.pinged = Reach::of(&ready, routed, |a, b| a.pinged && b.pinged);
        self.standing.probed = Reach::of(&ready, routed, |a, b| !(a.pinged && b.pinged));
    }

    /// When places are looked at again, if something has changed.
    pub(super) fn next_look(&self) -> Option<Mono> {
        let fresh = self.standing.is_of(&self.members, self.matrix.len());
        self.standing.looked_at.filter(|_| !fresh).map(|at| at.after(LOOKS_EVERY))
    }
}

fn name(names: &[String], at: Option<PlaceIndex>) -> Option<&str> {
    names.get(at?.0 as usize).map(String::as_str)
}

/// What the file says of an endpoint, by the longest name that it has there.
fn in_file<'a>(file: &'a BTreeMap<String, String>, name: &EndpointName) -> Option<&'a str> {
    if file.is_empty() {
        return None;
    }
    let names = [name.to_string(), format!("{}/{}", name.node, name.device)];
    let found = names.iter().find_map(|name| file.get(name)).or_else(|| file.get(&name.node));
    found.map(String::as_str)
}

/// A leaf, who says so, and what the file calls it.
#[derive(Clone, Copy, Default)]
struct Leaf<'a> {
    name: Option<(&'a str, LeafSource)>,
    in_file: Option<&'a str>,
}

/// The leaf of each endpoint. File and switch may call one leaf by two names: where the switches of all endpoints that the file puts on
/// a leaf say one and the same name, the others that the file puts there are on that switch, too.
fn leaves<'a>(there: &[&'a EndpointInfo], settings: &'a Settings) -> Vec<Leaf<'a>> {
    let mut also: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    let told: Vec<(Option<&str>, Option<&str>)> = there
        .iter()
        .map(|info| {
            let lldp = info.switch_port.value().map(|at| at.switch.as_str());
            (lldp, in_file(&settings.leaves, &info.name))
        })
        .collect();
    for (lldp, file) in told.iter().filter_map(|(lldp, file)| Some(((*lldp)?, (*file)?))) {
        let same = also.entry(file).or_insert(Some(lldp));
        if *same != Some(lldp) {
            *same = None;
        }
    }
    let leaf = |(lldp, in_file): (Option<&'a str>, Option<&'a str>)| {
        let by_file = || {
            let name = in_file?;
            Some((also.get(name).copied().flatten().unwrap_or(name), LeafSource::File))
        };
        Leaf { name: lldp.map(|name| (name, LeafSource::Lldp)).or_else(by_file), in_file }
    };
    told.into_iter().map(leaf).collect()
}

/// The bytes of an address by which a subnet is told from another.
fn subnet(info: &EndpointInfo) -> Option<&[u8]> {
    let gid = info.gid.as_ref()?;
    if gid.ip().is_ipv4() && info.fabric != Fabric::InfiniBand { gid.0.get(..15) } else { gid.0.get(..8) }
}

fn standing(members: &Members, settings: &Settings, endpoints: usize) -> Standing {
    let there = || members.endpoints().filter(|(_, endpoint)| endpoint.gone_since.is_none());
    let infos: Vec<&EndpointInfo> = there().map(|(_, endpoint)| &endpoint.info).collect();
    let leaves = leaves(&infos, settings);
    let gone = members.endpoints().filter(|(_, endpoint)| endpoint.gone_since.is_some());
    let gone: Vec<_> = gone.map(|(_, endpoint)| (&endpoint.info, Leaf::default())).collect();
    let mut traits = Vec::new();
    // Adapters that have gone since tell which slots there are: what is left of their nodes keeps its rail.
    for (info, leaf) in infos.iter().copied().zip(leaves.iter().copied()).chain(gone) {
        let manifest = info.rail.as_deref().map(|rail| (rail, RailSource::Manifest));
        let file = || in_file(&settings.rails, &info.name).map(|rail| (rail, RailSource::File));
        traits.push(Traits {
            node: &info.name.node,
            slot: info.pci_address.as_deref().map(|address| (address, info.name.port)),
            told: manifest.or_else(file),
            leaf: leaf.name.map(|(name, _)| name),
            subnet: subnet(info),
        });
    }
    let rails = rails(&traits);
    let (mut nodes, mut rail_numbers) = (Numbers::default(), Numbers::default());
    let (mut leaf_numbers, mut pods) = (Numbers::default(), Numbers::default());
    let mut fabrics = vec![None; endpoints];
    let mut on_leaf: BTreeMap<String, Vec<EndpointIndex>> = BTreeMap::new();
    let (mut of, mut sources) = (vec![None; endpoints], vec![Sources::default(); endpoints]);
    for (((index, endpoint), leaf), rail) in there().zip(&leaves).zip(&rails) {
        let at = index.0 as usize;
        let names = [leaf.name.map(|(name, _)| name), leaf.in_file];
        let pod = names.into_iter().flatten().find_map(|leaf| settings.pods.get(leaf));
        let place = Place {
            node: nodes.of(&endpoint.info.name.node),
            rail: rail.as_ref().map(|(rail, _)| rail_numbers.of(rail)),
            leaf: leaf.name.map(|(name, _)| leaf_numbers.of(name)),
            pod: pod.map(|pod| pods.of(pod)),
            rate_bps: endpoint.info.rate_bps,
        };
        if let Some((name, _)) = leaf.name {
            on_leaf.entry(name.to_owned()).or_default().push(index);
        }
        let source = Sources {
            leaf: leaf.name.map(|(_, source)| source),
            rail: rail.as_ref().map(|(_, source)| *source),
        };
        of.iter_mut().skip(at).take(1).for_each(|slot| *slot = Some(place));
        fabrics.iter_mut().skip(at).take(1).for_each(|slot| *slot = Some(endpoint.info.fabric));
        sources.iter_mut().skip(at).take(1).for_each(|slot| *slot = source);
    }
    let places = Places {
        of,
        nodes: nodes.names,
        rails: rail_numbers.names,
        leaves: leaf_numbers.names,
        pods: pods.names,
    };
    Standing { places, sources, on_leaf, fabrics, ..Standing::default() }
}
