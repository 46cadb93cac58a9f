//! The verdict over all pairs: who is to blame for what the matrix shows, how sure that is, and what to measure again before it is told.
//!
//! One pass over the packed rows adds up what was lost, slow or narrow by endpoint and by pair of leaves, for each age of the cells
//! ([`sums`]). Each hypothesis ([`crate::hypotheses`]) is a sum of those; [`symptom`] says how much more likely it makes what is seen, and
//! [`search`] takes the best ones one after another. Nobody is blamed for what was seen once: [`doubt`] has it measured again.

mod count;
mod doubt;
mod layout;
mod observe;
mod own;
mod retest;
mod search;
mod sums;
mod support;
mod symptom;
#[cfg(test)]
mod tests;
mod told;
mod walk;
mod wider;
#[cfg(test)]
mod world;
#[cfg(test)]
mod world_fault;
#[cfg(test)]
mod world_random;
#[cfg(test)]
mod world_scene;
mod yardstick;

use count::Windows;
pub(crate) use count::{Tally, WINDOWS};
pub(crate) use layout::Layout;
pub(crate) use observe::Scene;
pub use retest::Retest;
pub(crate) use sums::Sums;
pub use told::Told;

use crate::{
    Component, Confidence, Effect, EndpointIndex, Matrix, Places, Reason, Share, Support, Suspect, Way,
};
use doubt::Doubts;
use own::{Longer, Own};
use rdmascope_model::{Status, Wall};
use search::{Found, Search, is_doubtful, touches};
use std::collections::BTreeSet;
use std::time::Duration;
use support::{Both, Through, confidence, effect, figures, fine, share};
use symptom::{Candidate, Symptom, Usual};
use yardstick::Yardstick;

/// Pairs that one look asks for.
const RETESTS_MAX: usize = 64;

/// What a look needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The cells.
    pub matrix: &'a Matrix,
    /// Where the endpoints stand, by their numbers.
    pub places: &'a Places,
    /// Endpoints that are not judged, by their numbers: in maintenance, or paused. Those behind the end are judged.
    pub silenced: &'a [bool],
    /// What was measured before, to or from an endpoint, says nothing of it: its agent started anew, and nobody answered for a while. By
    /// their numbers; those behind the end always count.
    pub counted_from: &'a [Wall],
    /// The largest goodput between an endpoint and one like it, bits per second, by their numbers.
    pub ceilings: &'a [Option<u64>],
    /// What each endpoint is made of (firmware, driver, rate), as a number, by their numbers: with another one what was usual for it is
    /// usual no longer.
    pub made_of: &'a [u64],
    /// What nodes tell of themselves.
    pub told: &'a [Told],
    /// Now, on the coordinator's clock.
    pub now: Wall,
    /// What was measured before that says nothing any more.
    pub fresh_for: Duration,
    /// So long the receive buffers of an endpoint last for the mesh's pings while its host stands still; what is lost then may have been
    /// lost there.
    pub buffers_last: Duration,
}

/// Somebody who may be to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Who, and why.
    pub suspect: Suspect,
    /// It was measured again and is so, or its node says so itself.
    pub confirmed: bool,
}

/// What one look found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Suspects, each once.
    pub judged: Vec<Judged>,
    /// What is to be measured again, alone, the most telling first.
    pub retests: Vec<Retest>,
}

/// The judge, with what it remembers from look to look.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    doubts: Doubts,
    /// What was usual, and when.
    usual: Option<(Usual, Wall)>,
    /// What is usual for each endpoint.
    own: Own,
}

impl Judge {
    /// Looks at everything.
    pub fn look(&mut self, input: &Input<'_>) -> Look {
        let (matrix, now, fresh_for) = (input.matrix, input.now, input.fresh_for);
        let layout = Layout::new(input.places, input.silenced, input.counted_from);
        let windows = Windows::with(self.doubts.begun(now).into_iter(), self.doubts.oldest_open(now));
        let fresh_ms = u64::try_from(fresh_for.as_millis()).unwrap_or(u64::MAX);
        self.own.forget(&layout, input.made_of);
        let yardstick = Yardstick::new(matrix, &layout, input.ceilings, windows, now, fresh_ms);
        let buffers_ns = u64::try_from(input.buffers_last.as_nanos()).unwrap_or(u64::MAX);
        let scene =
            Scene { matrix, layout: &layout, yardstick: &yardstick, windows, now, fresh_ms, buffers_ns };
        self.own.learn(&scene);
        let sums = Sums::new(&scene);
        let bad = sums.bad.clone();
        self.doubts.begin(now);
        let before = self.usual.map(|(usual, at)| usual.at_most(now.since(at)));
        let mut search = Search::new(scene, sums, self.doubts.known(), before);
        search.refuted = self.doubts.refuted();
        self.usual = (layout.count > 0).then_some((search.usual, now));
        let mut look = Look::default();
        let mut bench = Bench { input, bad: &bad, look: &mut look, told: BTreeSet::new() };
        for found in self_told(&mut search, input.told) {
            bench.judge(&search, &mut self.doubts, found);
        }
        for best in search.hosts() {
            bench.judge(&search, &mut self.doubts, Found { best, alike: Vec::new() });
        }
        while let Some(found) = search.next() {
            bench.judge(&search, &mut self.doubts, found);
        }
        bench.told_alone();
        bench.longer(&layout, &self.own.longer(&layout));
        let away =
            self.doubts.not_seen(now).map(|suspect| Judged { suspect: suspect.clone(), confirmed: true });
        look.judged.extend(away);
        look.retests.truncate(RETESTS_MAX);
        look
    }
}

/// What nodes tell of themselves explains what it can before anything else does.
fn self_told(search: &mut Search<'_>, told: &[Told]) -> Vec<Found> {
    // A warning explains what its node is blamed for anyhow, and is not enough to blame it.
    let hard = told.iter().filter(|told| told::opens(&told.reason));
    let components: BTreeSet<Component> = hard.map(|told| told.component).collect();
    let mut found = Vec::new();
    for component in components {
        let Some(best) = search.of(component).filter(is_doubtful) else { continue };
        if !told::reasons(told, component, effect(&best, best.count)).is_empty() {
            search.explain(best.blame);
            found.push(Found { best, alike: Vec::new() });
        }
    }
    found
}

/// Where one look's suspects come together.
struct Bench<'a> {
    input: &'a Input<'a>,
    bad: &'a [(u32, u32)],
    look: &'a mut Look,
    /// Components whose own findings are part of a suspect.
    told: BTreeSet<Component>,
}

impl Bench<'_> {
    fn judge(&mut self, search: &Search<'_>, doubts: &mut Doubts, found: Found) {
        let Found { best, alike } = found;
        if best.over {
            return;
        }
        let scene = &search.scene;
        let (same, other): (Vec<Candidate>, Vec<Candidate>) =
            alike.into_iter().partition(|other| retest::inseparable(search, &best.blame, &other.blame));
        let mut components = vec![best.blame.component];
        // The cluster is no part that could be looked for: where a part does explain it all, that is named.
        let part = |component: &Component| *component != Component::Cluster;
        components.extend(same.iter().map(|other| other.blame.component).filter(part));
        if components.len() > 1 {
            components.retain(part);
        }
        let related = |a, b| touches(scene.layout, a, b) || touches(scene.layout, b, a);
        let doubt = doubts.of(&components, best.blame.symptom, scene.now, related);
        let (since, given_up) = (doubt.since, doubt.is_given_up(scene.now));
        let alone = |again: &Through| {
            if best.blame.symptom == Symptom::Host
                && !again.is_seen_by_nodes(scene, &search.other_slow_hosts(&best.blame))
            {
                return false;
            }
            let share = if again.count.trials > 0 { again.count.share() } else { best.share };
            search.is_alone(&best.blame, self.bad) && (given_up || wider::is_all(search, &best, share, since))
        };
        let again = doubt.look(scene, &best, &search.usual, other.is_empty(), alone);
        if again.ask {
            let asked = retest::choose(search, &best, &other, self.bad, doubt.rounds);
            doubt.ask(asked.clone(), scene.now);
            self.look.retests.extend(asked);
        }
        let told_apart = other.is_empty();
        if !told_apart && doubt.is_given_up(scene.now) {
            components.extend(other.iter().map(|other| other.blame.component).filter(part));
        }
        let confirmed = doubt.confirmed;
        let Both { all: whole, again: since, .. } = &again.through;
        let seen = effect(&best, since.count);
        let reasons = self.reasons(&mut components, seen);
        components.sort_unstable();
        components.dedup();
        let mut confidence = confidence(scene, best.blame.component, &whole.support, told_apart);
        if !reasons.is_empty() {
            confidence = Confidence::High;
        }
        let setting = reasons.first().is_some_and(|reason| told::effect(reason) == Effect::Setting);
        let count = if since.count.trials > 0 { since.count } else { best.count };
        let counted = if since.support.pairs > 0 { &since.support } else { &whole.support };
        let support = Support {
            figures: figures(&best, counted, count),
            fine: fine(scene, &best.blame),
            worst: whole.support.worst,
            ..counted.clone()
        };
        let suspect = Suspect {
            components,
            effect: if setting { Effect::Setting } else { seen },
            way: best.blame.way,
            share: share(whole.one_path),
            status: if matches!(seen, Effect::Slow | Effect::HostSlow) { Status::Warn } else { Status::Fail },
            confidence,
            support,
            reasons,
        };
        doubt.kept = Some((best.blame, suspect.clone()));
        let opens = suspect.reasons.iter().any(told::opens);
        self.look.judged.push(Judged { suspect, confirmed: confirmed || opens });
    }

    /// What nodes tell that explains it; who tells is to blame, and not one of those that look the same.
    fn reasons(&mut self, components: &mut Vec<Component>, seen: Effect) -> Vec<Reason> {
        for at in 0..components.len() {
            let reasons = told::reasons(self.input.told, components[at], seen);
            if !reasons.is_empty() {
                let component = components[at];
                *components = vec![component];
                self.told.insert(component);
                return reasons;
            }
        }
        Vec::new()
    }

    /// Nodes that say by themselves that something is broken, whatever the matrix shows.
    fn told_alone(&mut self) {
        let opening = self.input.told.iter().filter(|told| told::opens(&told.reason));
        let components: BTreeSet<Component> = opening.map(|told| told.component).collect();
        for component in components.difference(&self.told).copied().collect::<Vec<_>>() {
            if self.is_silenced(component) {
                continue;
            }
            let of = self
                .input
                .told
                .iter()
                .filter(|told| told.component == component && told::opens(&told.reason));
            let mut reasons: Vec<Reason> = of.map(|told| told.reason.clone()).collect();
            reasons.sort_by(|a, b| (a.since_ms, &a.id).cmp(&(b.since_ms, &b.id)));
            let Some(effect) = reasons.iter().map(told::effect).min() else { continue };
            let suspect = Suspect {
                components: vec![component],
                effect,
                way: Way::Both,
                share: Share::All,
                status: Status::Fail,
                confidence: Confidence::High,
                support: Support::default(),
                reasons,
            };
            self.look.judged.push(Judged { suspect, confirmed: true });
        }
    }

    /// Those who take longer than they did, unless somebody is blamed for it already.
    fn longer(&mut self, layout: &Layout, longer: &[Longer]) {
        for &Longer { component, by } in longer {
            let wide = |other: &&Component| !matches!(other, Component::Pair(..));
            let mut blamed =
                self.look.judged.iter().flat_map(|judged| &judged.suspect.components).filter(wide);
            if blamed.any(|&other| touches(layout, other, component) || touches(layout, component, other)) {
                continue;
            }
            let figures = vec![
                format!(
                    "round trips take {:.0} % longer than in its first day, for an hour at least",
                    by * 100.0
                ),
                "others below its leaf take no longer than they did".to_owned(),
                "a job that its node has had only since then may be the reason, too".to_owned(),
                "a change of its firmware, driver or rate, or maintenance, begins a new first day".to_owned(),
            ];
            let suspect = Suspect {
                components: vec![component],
                effect: Effect::Slow,
                way: Way::Both,
                share: Share::All,
                status: Status::Warn,
                confidence: Confidence::Medium,
                support: Support { figures, ..Support::default() },
                reasons: Vec::new(),
            };
            self.look.judged.push(Judged { suspect, confirmed: true });
        }
    }

    fn is_silenced(&self, component: Component) -> bool {
        let silenced = |at: usize| self.input.silenced.get(at).copied().unwrap_or(false);
        match component {
            Component::Endpoint(EndpointIndex(at)) => silenced(at as usize),
            Component::Node(node) => {
                let of = self.input.places.of.iter().enumerate();
                let own = |(at, place): (usize, &Option<crate::Place>)| {
                    place.is_some_and(|place| place.node == node) && silenced(at)
                };
                of.into_iter().any(own)
            }
            _ => false,
        }
    }
}
