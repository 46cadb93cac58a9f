//! Which endpoint begins what next: operators' runs, then an operator's sweep, then the continuous one, then suspects.

use super::Coordinator;
use super::dispatch::{Company, Decision};
use super::lease::CellNews;
use super::plan::{Prepared, SweepPlan};
use super::seats::Wanted;
use super::settings::{KNOWN_AGAIN, KNOWN_AT_ONCE};
use super::turns::Scheme;
use super::work::{Origin, Stirred};
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{Mono, Now, ProbeSpec, Urgency};

impl Coordinator {
    /// Continuous sweeps are on, and there is something to sweep.
    fn background_wanted(&self) -> bool {
        let on = self.settings.pings_per_second > 0 && !self.paused.all;
        on && self.mesh.settled(&self.members) && self.members.ready().len() >= 2
    }

    /// When the next continuous sweep begins, or the next endpoint has rested. What waits for anything else than time
    /// is woken by the event that it waits for.
    pub(super) fn next_background(&self, now: Mono) -> Option<Mono> {
        if !self.background_wanted() {
            return None;
        }
        let resting = self.members.endpoints().map(|(_, e)| e.rests_until);
        self.work.background_rests_until().into_iter().chain(resting).filter(|&at| at > now).min()
    }

    pub(super) fn begin_background(&mut self, now: Now) {
        let pairs = self.background_wanted() && self.members.needs_connections();
        if pairs && self.work.background_is_due(now.mono) {
            let ready = self.members.ready();
            let spec = self.probe_turns().spec;
            let wanted = Wanted { cross_rail: self.cross_rail_part(), unless_pinged: true, quick: None };
            let order = Prepared {
                seats: self.seats(ready),
                scheme: Scheme { wanted, passes: 1, seed: self.work.turn },
                specs: vec![ProbeSpec::Latency(spec)],
                class: None,
                urgency: Urgency::Background,
                origin: Origin::Background,
                named: false,
                keeps: false,
                pass: None,
                plan: SweepPlan::default(),
            };
            self.work.start_background(order, now);
            self.changed = true;
        }
    }

    /// Starts whatever can start.
    pub(super) fn dispatch(&mut self, stirred: &Stirred, now: Now) {
        self.again_at = None;
        if self.paused.all {
            return;
        }
        self.dispatch_runs(now);
        let mut known = 0;
        self.dispatch_sweep(Origin::Sweep, stirred.clone(), &mut known, now);
        // The continuous sweep rests while an operator waits; then nobody has been asked for it meanwhile.
        let rested = std::mem::replace(&mut self.background_rests, true);
        if self.background_wanted() && !self.work.operator_waits() {
            self.background_rests = false;
            let stirred = if rested { Stirred::Everybody } else { stirred.clone() };
            self.dispatch_sweep(Origin::Background, stirred, &mut known, now);
        }
        // Last: the time in which everything is covered is a promise.
        self.dispatch_retests(now);
    }

    /// Starts whatever can start of the suspects' pairs that are measured again. They rest while an operator waits; what that
    /// operator's work frees dispatches again.
    pub(super) fn dispatch_retests(&mut self, now: Now) {
        let mut at = 0;
        self.work.next_retest = None;
        if self.work.operator_waits() {
            return;
        }
        while let Some((not_before, job)) = self.work.waiting_retest(at) {
            if not_before > now.mono {
                let next = self.work.next_retest.map_or(not_before, |next| next.min(not_before));
                self.work.next_retest = Some(next);
                at += 1;
                continue;
            }
            match self.decide(&job, Company::Alone, now.mono) {
                Decision::Wait => at += 1,
                decision => {
                    self.work.take_retest(at);
                    self.carry_out(job, decision, now);
                }
            }
        }
    }

    /// Starts whatever can start of a sweep, and goes on with it where nothing can any more.
    fn dispatch_sweep(&mut self, queue: Origin, mut stirred: Stirred, known: &mut usize, now: Now) {
        loop {
            for index in self.work.in_order(queue, &stirred) {
                self.begin_with(queue, index, known, now);
                if *known >= KNOWN_AT_ONCE {
                    self.again_at = Some(now.mono.after(KNOWN_AGAIN));
                    return;
                }
            }
            if self.work.running(queue) > 0 {
                return;
            }
            // Nothing runs: before that means anything, everybody must have been asked.
            let asked = matches!(stirred, Stirred::Everybody);
            if asked && !self.work.step(queue, self.settings.pause, now) {
                return;
            }
            stirred = Stirred::Everybody;
        }
    }

    /// Begins the next probe of a sweep that an endpoint can take part in now.
    fn begin_with(&mut self, queue: Origin, index: EndpointIndex, known: &mut usize, now: Now) {
        let free = |it: &Self| it.members.endpoint(index).is_none_or(|endpoint| endpoint.leases.is_empty());
        let mut goes_on = true;
        while std::mem::take(&mut goes_on) && *known < KNOWN_AT_ONCE && free(self) {
            for (turn, mut job) in self.work.look(queue, index) {
                if self.work.running(queue) >= self.settings.pairs_at_once as usize {
                    return;
                }
                let mut decision = self.decide(&job, Company::Alone, now.mono);
                if matches!(decision, Decision::Start(_)) {
                    let (usual, most) = (self.usual_bytes(&job), self.bytes_at_most(&job));
                    match (self.work.may_send(queue, usual, most), &mut job.spec) {
                        (Some(0), _) => decision = Decision::Known(Box::new(CellNews::Nothing)),
                        (Some(bytes), ProbeSpec::Bandwidth(stream)) => {
                            stream.bytes_max = stream.bytes_max.min(bytes);
                        }
                        (Some(_), _) => {}
                        (None, _) => decision = Decision::Wait,
                    }
                }
                let started = matches!(decision, Decision::Start(_));
                if matches!(decision, Decision::Wait) {
                    continue;
                }
                self.work.taken(queue, turn);
                self.carry_out(job, decision, now);
                if started {
                    return;
                }
                *known += 1;
                goes_on = true;
                if *known >= KNOWN_AT_ONCE {
                    return;
                }
            }
        }
    }
}
