//! Where the endpoints stand that are there now: what agents and the topology file tell.

use super::Coordinator;
use rdmascope_localise::{Place, PlaceIndex, Places};
use std::collections::BTreeMap;

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
        &self.places.1
    }

    /// Looks anew when somebody came, went or changed.
    pub(super) fn look_at_places(&mut self) {
        let seen = (self.members.generation, self.matrix.len());
        if self.places.0 == seen {
            return;
        }
        let (mut nodes, mut leaves) = (Numbers::default(), Numbers::default());
        let mut of = vec![None; self.matrix.len()];
        for (index, endpoint) in self.members.endpoints().filter(|(_, e)| e.gone_since.is_none()) {
            let node = &endpoint.info.name.node;
            let place = Place {
                node: nodes.of(node),
                rail: None,
                leaf: self.settings.leaves.get(node).map(|leaf| leaves.of(leaf)),
                pod: None,
                rate_bps: endpoint.info.rate_bps,
            };
            of.iter_mut().skip(index.0 as usize).take(1).for_each(|slot| *slot = Some(place));
        }
        let (nodes, leaves) = (nodes.names, leaves.names);
        self.places = (seen, Places { of, nodes, leaves, ..Places::default() });
    }
}
