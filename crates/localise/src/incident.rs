//! What people are told: one incident for one cause, from the first doubt to its end.

mod places;
mod words;

pub use words::Names;

use crate::{Component, Effect, Judged, Places, Suspect};
use rdmascope_model::Wall;
use std::time::Duration;

/// An open incident that was missed in so many looks, and not seen for so long, is over. Hysteresis of the field (2 to open, 3 to close),
/// and a time besides, since looks may follow each other quickly and a fault may flap.
const MISSED_MAX: u32 = 3;
const CLOSED_AFTER: Duration = Duration::from_secs(20);
/// What comes back sooner than this is the same incident.
const SAME_WITHIN: Duration = Duration::from_secs(600);
/// Incidents that are over and held in memory; more are in the history.
const CLOSED_MAX: usize = 256;

/// How far an incident has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IncidentState {
    /// Seen, and being measured again: nobody is told.
    Suspected,
    /// Measured again, and still so.
    Open,
    /// Not seen any more.
    Closed,
}

impl IncidentState {
    /// The word used everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suspected => "suspected",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// One incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Counts up over restarts.
    pub id: u64,
    /// How far it has come.
    pub state: IncidentState,
    /// What is blamed, as it was judged last.
    pub suspect: Suspect,
    /// Names of what is blamed, such as `node7/mlx5_0/1` or `leaf rack3-a`; more than one when they cannot be told apart.
    pub subjects: Vec<String>,
    /// In one sentence: what is wrong with whom.
    pub title: String,
    /// What was seen, one sentence each, the most telling first.
    pub evidence: Vec<String>,
    /// What to do.
    pub next_step: String,
    /// When it was first seen.
    pub since: Wall,
    /// When it was told.
    pub opened_at: Option<Wall>,
    /// When it was last seen.
    pub seen_at: Wall,
    /// When it was over.
    pub closed_at: Option<Wall>,
}

/// What became of an incident in a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// People are to be told of it.
    Opened,
    /// It is over.
    Closed,
}

/// All incidents: suspected, open, and the last of those that are over.
#[derive(Clone, Debug, Default)]
pub struct Incidents {
    /// In the order of their numbers.
    list: Vec<Incident>,
    /// Looks in which each was missed, in the same order.
    missed: Vec<u32>,
    last_id: u64,
}

impl Incidents {
    /// All of them, in the order of their numbers.
    #[must_use]
    pub fn all(&self) -> &[Incident] {
        &self.list
    }

    /// Brings back what was kept; numbers go on behind it. Open ones are seen again, or closed.
    pub fn restore(&mut self, kept: Vec<Incident>) {
        self.last_id = kept.iter().map(|incident| incident.id).max().unwrap_or(0).max(self.last_id);
        self.missed = vec![0; kept.len()];
        self.list = kept;
        self.list.sort_by_key(|incident| incident.id);
    }

    /// Takes what a look found; answers the numbers of incidents that were opened or closed by it.
    pub fn look(&mut self, judged: &[Judged], names: &Names<'_>, now: Wall) -> Vec<(u64, Change)> {
        let mut changes = Vec::new();
        self.missed.iter_mut().for_each(|missed| *missed += 1);
        let mut taken = vec![false; self.list.len()];
        // A host that is short of processor time is another cause than what its adapter suffers from, and keeps no incident of that open.
        let alike = |incident: &Incident, new: &Judged| {
            (incident.suspect.effect == Effect::HostSlow) == (new.suspect.effect == Effect::HostSlow)
        };
        let exact = |incident: &Incident, new: &Judged| {
            let same = |component| new.suspect.components.contains(component);
            alike(incident, new) && incident.suspect.components.iter().any(same)
        };
        let mut matched: Vec<Option<usize>> =
            judged.iter().map(|new| self.find(&mut taken, now, |incident| exact(incident, new))).collect();
        for (at, new) in matched.iter_mut().zip(judged) {
            let wider = |incident: &Incident| {
                incident.state != IncidentState::Closed
                    && alike(incident, new)
                    && same_cause(names.places, &incident.suspect.components, &new.suspect.components)
            };
            if at.is_none() {
                *at = self.find(&mut taken, now, wider);
            }
        }
        for (at, new) in matched.into_iter().zip(judged) {
            let at = at.unwrap_or_else(|| self.begin(new, now));
            changes.extend(self.see(at, new, names, now));
        }
        changes.extend(self.end(now));
        changes
    }

    /// An incident that nobody else was matched with; one that is over only if it has not been for long.
    fn find(&self, taken: &mut [bool], now: Wall, fits: impl Fn(&Incident) -> bool) -> Option<usize> {
        let recent = |incident: &Incident| {
            incident.closed_at.is_none_or(|closed_at| now.since(closed_at) <= SAME_WITHIN)
        };
        let open = |at: &usize| self.list[*at].state != IncidentState::Closed;
        let fits = |at: &usize| !taken[*at] && recent(&self.list[*at]) && fits(&self.list[*at]);
        let all: Vec<usize> = (0..self.list.len()).filter(fits).collect();
        let at = all.iter().copied().find(open).or_else(|| all.last().copied())?;
        taken[at] = true;
        Some(at)
    }

    fn begin(&mut self, new: &Judged, now: Wall) -> usize {
        self.last_id += 1;
        self.list.push(Incident {
            id: self.last_id,
            state: IncidentState::Suspected,
            suspect: new.suspect.clone(),
            subjects: Vec::new(),
            title: String::new(),
            evidence: Vec::new(),
            next_step: String::new(),
            since: now,
            opened_at: None,
            seen_at: now,
            closed_at: None,
        });
        self.missed.push(0);
        self.list.len() - 1
    }

    fn see(&mut self, at: usize, new: &Judged, names: &Names<'_>, now: Wall) -> Option<(u64, Change)> {
        self.missed[at] = 0;
        let incident = &mut self.list[at];
        incident.seen_at = now;
        let opens = new.confirmed && incident.state != IncidentState::Open;
        // What is over stays over until it is confirmed anew, and what is open says what was confirmed last.
        let says = match incident.state {
            IncidentState::Suspected => true,
            IncidentState::Open | IncidentState::Closed => new.confirmed,
        };
        if says {
            incident.suspect = new.suspect.clone();
            incident.since = told_since(new).map_or(incident.since, |since| since.min(incident.since));
            names.write(incident);
        }
        if opens {
            incident.state = IncidentState::Open;
            incident.opened_at.get_or_insert(now);
            incident.closed_at = None;
        }
        opens.then_some((incident.id, Change::Opened))
    }

    /// Closes what was not seen for long enough, and forgets what nobody needs to know.
    fn end(&mut self, now: Wall) -> Vec<(u64, Change)> {
        let mut changes = Vec::new();
        for (incident, missed) in self.list.iter_mut().zip(&self.missed) {
            let missed = *missed >= MISSED_MAX && now.since(incident.seen_at) >= CLOSED_AFTER;
            if missed && incident.state == IncidentState::Open {
                incident.state = IncidentState::Closed;
                incident.closed_at = Some(now);
                changes.push((incident.id, Change::Closed));
            }
        }
        let closed = self.list.iter().filter(|incident| incident.state == IncidentState::Closed).count();
        let mut too_many = closed.saturating_sub(CLOSED_MAX);
        let mut keep = Vec::with_capacity(self.list.len());
        for (incident, missed) in self.list.iter().zip(&self.missed) {
            let forget = match incident.state {
                IncidentState::Suspected => *missed >= MISSED_MAX,
                IncidentState::Open => false,
                IncidentState::Closed => too_many > 0,
            };
            too_many -= usize::from(forget && incident.state == IncidentState::Closed);
            keep.push(!forget);
        }
        let mut kept = keep.iter();
        self.list.retain(|_| kept.next().copied().unwrap_or(true));
        let mut kept = keep.iter();
        self.missed.retain(|_| kept.next().copied().unwrap_or(true));
        changes
    }
}

/// Since when the node itself says so.
fn told_since(new: &Judged) -> Option<Wall> {
    let known = new.suspect.reasons.iter().map(|reason| reason.since_ms).filter(|since| *since > 0);
    known.min().map(Wall)
}

/// One may be the other, seen with more or fewer cells: one is a part of the other.
fn same_cause(places: &Places, one: &[Component], other: &[Component]) -> bool {
    one.iter().any(|&a| other.iter().any(|&b| is_part(places, a, b) || is_part(places, b, a)))
}

fn is_part(places: &Places, part: Component, whole: Component) -> bool {
    let leaf = |endpoint| places.place(endpoint).and_then(|place| place.leaf);
    let node = |endpoint| places.place(endpoint).map(|place| place.node);
    match (part, whole) {
        (Component::Pair(a, b), Component::Endpoint(e)) => a == e || b == e,
        (Component::Pair(a, b), Component::Node(n)) => node(a) == Some(n) || node(b) == Some(n),
        (Component::Pair(a, b), Component::Leaf(l) | Component::Uplinks(l)) => {
            leaf(a) == Some(l) || leaf(b) == Some(l)
        }
        (Component::Pair(a, b), Component::LeafPair(x, y)) => {
            let ends = (leaf(a), leaf(b));
            ends == (Some(x), Some(y)) || ends == (Some(y), Some(x))
        }
        (Component::Endpoint(e), Component::Node(n)) => node(e) == Some(n),
        (Component::Endpoint(e), Component::Leaf(l) | Component::Uplinks(l)) => leaf(e) == Some(l),
        (Component::LeafPair(a, b), Component::Uplinks(l) | Component::Leaf(l)) => a == l || b == l,
        (Component::Uplinks(a), Component::Leaf(b)) => a == b,
        (Component::LeafPair(..) | Component::Uplinks(_), Component::Spines) => true,
        _ => false,
    }
}
