//! How much a component's evidence speaks for a fault of it: for each symptom, each way, and since each possible beginning.

use super::count::{Channel, Count, Tally};
use crate::hypotheses::{Evidence, WAYS};
use crate::{Component, Way};
use std::time::Duration;

/// What can be wrong as the matrix shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Symptom {
    /// Packets of all sizes are lost.
    Loss,
    /// Only large ones are.
    LargeLoss,
    /// Round trips take longer.
    Slow,
    /// Streams are slower.
    Narrow,
    /// Hosts take long.
    Host,
}

/// Nats that a fault must explain before anything else is asked: that there is one at all (e⁻⁵: one look in 150 would see one, which
/// is far more often than there are any), which of three ways, and since when of eight windows. Which of the components it is, all of
/// which are as likely to break, and the usual half a logarithm of the trials for the share that is fitted, come on top (Schwarz 1978;
/// matrix.md 4.4 has ½ ln n + 5).
const FAULT_COST: f64 = 5.0 + 1.1 + 2.1;
/// Least share of what a fault makes go wrong: loss below 1 ‰ is the field's limit of good (Pingmesh), and of figures that are late or small
/// many must be, since a few always are: of what is slow by just as much as the noise of a few pings, a fifth is seen to be.
const LOSS_MIN: f64 = 1e-3;
const FIGURES_MIN: f64 = 0.2;
/// A host that stands still for a part of the time spoils a few batches only.
const HOST_MIN: f64 = 0.08;
/// So many nats against it in what is newest, and the fault is over.
const OVER: f64 = 5.0;
/// No fault is believed to spoil everything, or one packet that arrives would be proof against it.
pub(crate) const SHARE_MAX: f64 = 0.98;
/// A part that is slow makes all figures slow that go through it, or, where one of its paths is, some of them; the second is the less usual.
const FIGURES_ALL: f64 = 0.95;
const FIGURES_SOME_COST: f64 = 5.0;
/// Both ways are named unless one is more likely by so much.
const ONE_WAY: f64 = 1.0;

/// The share of slow figures that is usual follows the load of the day, by a factor of 2.7 in this time at most.
const USUAL_RISES_WITHIN: Duration = Duration::from_secs(900);

/// What goes wrong without any fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual {
    pub(crate) loss: f64,
    pub(crate) slow: f64,
    pub(crate) narrow: f64,
    pub(crate) host: f64,
}

impl Usual {
    /// What it may have become since: a spine that is slow slows a part of what everybody sends, and is no new usual before people had the
    /// time to be told of it.
    pub(crate) fn at_most(self, since: Duration) -> Self {
        let risen = (since.as_secs_f64() / USUAL_RISES_WITHIN.as_secs_f64()).exp();
        Self { slow: self.slow * risen, ..self }
    }
}

/// It shows in how long something takes, and not in what is lost.
pub(crate) fn is_of_figures(symptom: Symptom) -> bool {
    matches!(symptom, Symptom::Slow | Symptom::Narrow)
}

impl Symptom {
    pub(crate) fn count(self, tally: &Tally) -> Count {
        match self {
            Self::Loss => tally.of(Channel::Small).and(tally.of(Channel::Large)),
            Self::LargeLoss => tally.of(Channel::Large),
            Self::Slow => tally.of(Channel::Slow),
            Self::Narrow => tally.of(Channel::Narrow),
            Self::Host => Count::default(),
        }
    }

    pub(crate) fn usual(self, usual: &Usual) -> f64 {
        match self {
            Self::Loss | Self::LargeLoss => usual.loss,
            Self::Slow => usual.slow,
            Self::Narrow => usual.narrow,
            Self::Host => usual.host,
        }
    }

    /// The least share of a fault.
    fn least(self, usual: &Usual) -> f64 {
        match self {
            Self::Loss | Self::LargeLoss => LOSS_MIN.max(3.0 * usual.loss),
            Self::Slow | Self::Narrow => FIGURES_MIN.max(3.0 * self.usual(usual)).min(0.9),
            Self::Host => HOST_MIN.max(3.0 * self.usual(usual)).min(0.9),
        }
    }

    /// The share of what goes wrong that explains counts best, and the nats for it.
    fn fit(self, count: Count, usual: &Usual) -> (f64, f64) {
        let share = count.share();
        let nats = self.nats(count, share, usual);
        if matches!(self, Self::Loss | Self::LargeLoss | Self::Host) {
            return (share, nats);
        }
        let all = self.nats(count, FIGURES_ALL, usual);
        if all >= nats - FIGURES_SOME_COST { (FIGURES_ALL, all) } else { (share, nats - FIGURES_SOME_COST) }
    }

    /// Nats by which counts are more likely with a fault of this share.
    pub(crate) fn nats(self, count: Count, share: f64, usual: &Usual) -> f64 {
        count.log_likelihood_ratio(share, self.usual(usual))
    }
}

/// A component, how it suffers, and which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blame {
    pub(crate) component: Component,
    pub(crate) symptom: Symptom,
    pub(crate) way: Way,
}

/// A blame with what speaks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) blame: Blame,
    /// The oldest window since which it has been so.
    pub(crate) window: usize,
    /// Trials since then.
    pub(crate) count: Count,
    pub(crate) share: f64,
    /// Nats for it.
    pub(crate) nats: f64,
    /// The same, less what it costs to say so.
    pub(crate) gain: f64,
    /// What is newest speaks against it: it was so.
    pub(crate) over: bool,
}

/// The symptom, way and beginning of a component that explain most of what is seen; `None` where nothing is out of the ordinary.
/// `of` is how many components it is one of.
pub(crate) fn explain(
    component: Component,
    evidence: &Evidence,
    usual: &Usual,
    of: usize,
) -> Option<Candidate> {
    let symptoms = [Symptom::Loss, Symptom::LargeLoss, Symptom::Slow, Symptom::Narrow];
    let mut best: Option<Candidate> = None;
    for symptom in symptoms {
        let Some(found) = of_symptom(component, symptom, evidence, usual, of) else { continue };
        if best.is_none_or(|best| found.nats > best.nats + 1e-9) {
            best = Some(found);
        }
    }
    best
}

fn of_symptom(
    component: Component,
    symptom: Symptom,
    evidence: &Evidence,
    usual: &Usual,
    of: usize,
) -> Option<Candidate> {
    let mut best: Option<Candidate> = None;
    for (way, windows) in WAYS.into_iter().zip(&evidence.ways) {
        let counts = windows.each_ref().map(|tally| symptom.count(tally));
        let blame = Blame { component, symptom, way };
        let Some(found) = since_when(blame, &counts, usual, of) else { continue };
        let ahead = if best.is_some_and(|best| best.blame.way == Way::Both) { ONE_WAY } else { 0.0 };
        if best.is_none_or(|best| found.nats > best.nats + ahead) {
            best = Some(found);
        }
    }
    best
}

/// The beginning since which a fault explains the counts best; the newest window first.
pub(crate) fn since_when(blame: Blame, counts: &[Count], usual: &Usual, of: usize) -> Option<Candidate> {
    let symptom = blame.symptom;
    let mut best: Option<Candidate> = None;
    let mut sum = Count::default();
    for (window, count) in counts.iter().enumerate() {
        sum.add(*count);
        if count.bad == 0 || sum.share() < symptom.least(usual) {
            continue;
        }
        let (share, nats) = symptom.fit(sum, usual);
        if best.is_none_or(|best| nats > best.nats) {
            let gain = nats - cost(of, sum.trials);
            best = Some(Candidate { blame, window, count: sum, share, nats, gain, over: false });
        }
    }
    let mut best = best?;
    let share = best.share.min(SHARE_MAX);
    let mut newest = Count::default();
    for count in counts.iter().take(best.window) {
        newest.add(*count);
        best.over |= symptom.nats(newest, share, usual) < -OVER;
    }
    Some(best)
}

fn cost(of: usize, trials: u32) -> f64 {
    let of = u32::try_from(of.max(1)).unwrap_or(u32::MAX);
    FAULT_COST + f64::from(of).ln() + 0.5 * f64::from(trials.max(1)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usual_rises_slowly() {
        let usual = Usual { loss: 1e-4, slow: 0.02, narrow: 0.01, host: 0.01 };
        let after = |seconds| usual.at_most(Duration::from_secs(seconds)).slow;
        assert!(after(2) < 0.0201 && after(120) < 0.03, "within the time in which a fault is named");
        assert!(after(3_600) > 0.25, "within an hour it may be anything");
    }
}
