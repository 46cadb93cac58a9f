//! What an agent tells of its machine: the inventory with the findings, the settings, and what happened.

use super::{Agent, Uplink};
use rdmascope_link::{EVENTS_SINCE, Fact, FindingBrief, ToCoordinator};
use rdmascope_model::{Cause, EndpointInfo, EndpointName, Now, Status};
use std::collections::BTreeMap;
use std::time::Duration;

/// Findings whose words alone have changed (a rate, an error count) are sent again after so long: a cluster of thousands of nodes must
/// not send whole inventories because a number moves.
const WORDS_AGAIN: Duration = Duration::from_secs(60);

impl Agent {
    pub(super) fn inventory(&mut self, endpoints: Vec<EndpointInfo>, findings: Vec<FindingBrief>, now: Now) {
        let endpoints: BTreeMap<_, _> = endpoints.into_iter().map(|e| (e.name.clone(), e)).collect();
        let first = !std::mem::replace(&mut self.looked, true);
        let moved = first || endpoints != self.endpoints || !same_findings(&findings, &self.findings);
        let reworded = findings != self.findings || self.words_unsent;
        self.endpoints = endpoints;
        self.mesh_endpoints();
        self.findings = findings;
        if !moved && !reworded {
            return;
        }
        // First the news, so that the coordinator knows why probes end.
        let due = moved || now.mono.since(self.inventory_sent) >= WORDS_AGAIN;
        self.words_unsent = !due;
        if due && self.is_connected() {
            self.send_inventory(now);
        }
        if !moved {
            return;
        }
        let endpoints = &self.endpoints;
        let trouble = |name: &EndpointName| match endpoints.get(name) {
            None => Some((Cause::DeviceGone, "the device was removed during the probe".to_owned())),
            Some(info) => info.unusable.map(|cause| (cause, info.unusable_detail.clone())),
        };
        self.sessions.stop_broken(trouble, now, &mut self.outbox);
    }

    /// Nothing before the first look: an agent that has just started must not tell that there is nothing.
    pub(super) fn send_inventory(&mut self, now: Now) {
        if !self.looked {
            return;
        }
        self.inventory_sent = now.mono;
        let endpoints = self.endpoints.values().map(|info| self.pinging.with_address(info)).collect();
        let findings = self.findings.clone();
        self.send(ToCoordinator::inventory(endpoints, findings));
    }

    pub(super) fn facts(&mut self, facts: Vec<Fact>) {
        if facts != self.facts {
            self.facts = facts;
            self.send_facts();
        }
    }

    pub(super) fn send_facts(&mut self) {
        if self.takes_events() && !self.facts.is_empty() {
            self.send(ToCoordinator::facts(self.facts.clone()));
        }
    }

    pub(super) fn send_events(&mut self) {
        while self.takes_events()
            && let Some(frame) = self.journal.next_frame()
        {
            self.send(frame);
        }
    }

    /// The coordinator is there and knows what facts and events are.
    pub(super) fn takes_events(&self) -> bool {
        matches!(self.uplink, Uplink::Up { protocol, .. } if protocol >= EVENTS_SINCE)
    }
}

/// The same judgements, whatever their words are.
fn same_findings(one: &[FindingBrief], other: &[FindingBrief]) -> bool {
    fn what(f: &FindingBrief) -> (&str, &str, Status, bool, bool) {
        (&f.id, &f.subject, f.status, f.settling, f.latched)
    }
    one.iter().map(what).eq(other.iter().map(what))
}
