//! Endpoints that are away: nobody pings who is not in the address book, so their pairs would look fresh until they are stale.

use super::Coordinator;
use rdmascope_localise::{Brief, EndpointIndex};
use rdmascope_model::{Metric, Mono, Now};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// An agent that restarts is back within seconds: only who is away for longer is told of.
const AWAY_FOR: Duration = Duration::from_secs(15);

/// Who is away.
#[derive(Clone, Debug, Default)]
pub(super) struct Away {
    /// The membership that this was made from.
    seen: u64,
    /// Since when; those that were told are not here any more.
    waiting: BTreeMap<EndpointIndex, Mono>,
    told: BTreeSet<EndpointIndex>,
}

impl Away {
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.waiting.values().min().map(|since| since.after(AWAY_FOR))
    }
}

impl Coordinator {
    /// What was pinged between an endpoint that stays away and any other has failed now, for the reason for which it is away.
    pub(super) fn tell_away(&mut self, now: Now) {
        let away = &mut self.away;
        // A thousand agents that connect must not cause a look at everybody a thousand times: places are looked at seldom enough.
        if away.seen != self.members.generation && self.standing.knows(&self.members) {
            away.seen = self.members.generation;
            let ready = self.members.ready();
            let is_ready = |index: &EndpointIndex| ready.binary_search(index).is_ok();
            away.told.retain(|index| !is_ready(index));
            away.waiting.retain(|index, _| !is_ready(index));
            for (index, _) in self.members.endpoints() {
                if !is_ready(&index) && !away.told.contains(&index) {
                    away.waiting.entry(index).or_insert(now.mono);
                }
            }
        }
        let due = |since: &Mono| now.mono >= since.after(AWAY_FOR);
        let gone: Vec<_> = away.waiting.iter().filter(|(_, since)| due(since)).map(|(&i, _)| i).collect();
        for index in gone {
            self.away.waiting.remove(&index);
            self.away.told.insert(index);
            let others: Vec<_> = self.matrix.endpoints().map(|(_, other)| other).collect();
            for other in others.into_iter().filter(|&other| other != index) {
                self.fail_pings(index, other, now);
                self.fail_pings(other, index, now);
            }
        }
    }

    fn fail_pings(&mut self, source: EndpointIndex, target: EndpointIndex, now: Now) {
        let measured = matches!(self.matrix.brief(Metric::Ping, source, target), Brief::Known { .. });
        if measured && let Some(failure) = self.known_failure(source, target) {
            self.matrix.fail(Metric::Ping, source, target, now.wall, &failure);
        }
    }
}
