//! What a ticket needs beside the incident: the hardware with its serial numbers, the switch ports, and what changed in the hour before.

use super::incident;
use crate::findings;
use crate::hub::Hub;
use rdmascope_control::coordinator::{Coordinator, EventRow, RowKind};
use rdmascope_expose::api::{EventView, IncidentDetail, IncidentView, PartView};
use rdmascope_link::{EventKind, Fact};
use rdmascope_localise::{EndpointIndex, Incident};
use rdmascope_model::Wall;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Parts that are listed: a leaf's ports fill a ticket without more.
const PARTS_MAX: usize = 16;
/// Changes that are listed.
const CHANGES_MAX: usize = 50;
/// How far back changes are told.
const BEFORE_MS: u64 = 3_600_000;

/// A ticket, as far as the state tells.
pub(super) struct Ticket {
    incident: IncidentView,
    parts: Vec<PartView>,
    parts_left_out: usize,
    changes: Vec<EventView>,
    wanted: Changes,
    /// Number and time of the oldest event in memory.
    oldest: Option<(u64, Wall)>,
}

/// Which events are changes that can have to do with it.
#[derive(Clone)]
struct Changes {
    /// None: all nodes.
    nodes: Option<BTreeSet<String>>,
    from: Wall,
    until: Wall,
}

impl Changes {
    fn fits(&self, kind: &str, node: &str, at: Wall) -> bool {
        const KINDS: [RowKind; 3] =
            [RowKind::Node(EventKind::SettingChange), RowKind::DriftRaised, RowKind::DriftCleared];
        KINDS.iter().any(|known| known.as_str() == kind)
            && (self.from..=self.until).contains(&at)
            && self.nodes.as_ref().is_none_or(|nodes| nodes.contains(node))
    }
}

impl Ticket {
    pub(super) fn new(state: &Coordinator, found: &Incident) -> Self {
        let touched = state.touched(found);
        let wanted = Changes {
            nodes: (!touched.everywhere).then(|| touched.nodes.clone()),
            from: Wall(found.since.0.saturating_sub(BEFORE_MS)),
            until: found.opened_at.unwrap_or(found.seen_at),
        };
        let events = state.health().events();
        let change = |row: &&EventRow| wanted.fits(row.kind.as_str(), &row.node, row.at);
        Self {
            incident: incident(state, found),
            parts: touched.endpoints.iter().take(PARTS_MAX).map(|endpoint| part(state, *endpoint)).collect(),
            parts_left_out: touched.endpoints.len().saturating_sub(PARTS_MAX),
            changes: events.filter(change).map(findings::event).collect(),
            oldest: state.health().events().last().map(|row| (row.number, row.at)),
            wanted,
        }
    }

    /// The same with what is on disk.
    pub(super) async fn complete(mut self, hub: &Arc<Hub>) -> Result<IncidentDetail, String> {
        let (oldest_number, oldest_at) = self.oldest.unwrap_or((u64::MAX, Wall(u64::MAX)));
        let reaches_back = oldest_at <= self.wanted.from;
        if !reaches_back && hub.store.get().is_some() {
            let wanted = self.wanted.clone();
            let fits = move |event: &EventView| wanted.fits(&event.kind, &event.node, Wall(event.at_ms));
            self.changes.extend(findings::from_disk(hub, oldest_number, CHANGES_MAX, fits).await?);
        }
        let all = self.changes.len();
        self.changes.truncate(CHANGES_MAX);
        Ok(IncidentDetail {
            incident: self.incident,
            parts: self.parts,
            parts_left_out: self.parts_left_out as u64,
            changes_left_out: (all - self.changes.len()) as u64,
            changes: self.changes,
            changes_incomplete: !reaches_back && hub.store.get().is_none(),
        })
    }
}

/// An endpoint with all that its node tells of it.
fn part(state: &Coordinator, endpoint: EndpointIndex) -> PartView {
    let name = state.matrix().name(endpoint);
    let facts = state.health().facts(&name.node);
    let port = format!("{}/{}", name.device, name.port);
    let of_port = |key: &str| fact(facts, &port, key);
    let of_device = |key: &str| fact(facts, &name.device, key);
    let info = state.members().endpoint(endpoint).map(|endpoint| &endpoint.info);
    let places = state.places();
    let leaf = places.place(endpoint).and_then(|place| place.leaf);
    let driver = of_device("driver").map(|driver| match of_device("driver_version") {
        Some(version) => format!("{driver} {version}"),
        None => driver,
    });
    PartView {
        endpoint: name.to_string(),
        netdev: info.and_then(|info| info.netdev.clone()),
        rate: of_port("rate"),
        switch: of_port("switch"),
        switch_port: of_port("switch_port"),
        leaf: leaf.and_then(|leaf| places.leaves.get(leaf.0 as usize)).cloned(),
        adapter: of_device("card"),
        adapter_serial: of_device("serial"),
        psid: of_device("board"),
        firmware: of_device("firmware"),
        driver,
        kernel: fact(facts, "machine", "kernel"),
        module: of_port("module"),
        module_serial: of_port("module_serial"),
    }
}

fn fact(facts: &[Fact], subject: &str, key: &str) -> Option<String> {
    facts.iter().find(|fact| fact.subject == subject && fact.key == key).map(|fact| fact.value.clone())
}
