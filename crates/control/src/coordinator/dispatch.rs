//! Which job starts next: its endpoints must be free, and their machines must have room for it.
//!
//! RC latency spins on a processor, so a machine (a boot id) measures one such pair at a time and nothing beside it.
//! Nobody waits for a round to end: a pair that hangs costs its own two endpoints one lease, and nobody else anything.

use super::lease::{CellNews, Lease, counters};
use super::settings::{self, LOOK_AHEAD, MACHINE_BANDWIDTH_MAX, REPORT_WITHIN, SETUP_WITHIN};
use super::work::{Ending, Job};
use super::{Action, ConnectionId, Coordinator, Probed};
use rdmascope_link::{ProbeResult, ToAgent};
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{
    Cause, Exclusion, Failure, LeaseId, Load, Mono, Now, Outcome, ProbePlan, ProbeSpec, Role, Side, Step,
    Urgency,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// What runs on each machine.
#[derive(Debug, Default)]
pub(super) struct Machines {
    busy: BTreeMap<String, Running>,
}

#[derive(Debug, Default)]
struct Running {
    spinning: u32,
    streams: u32,
}

impl Machines {
    fn has_room(&self, machine: &str, load: Load) -> bool {
        self.busy.get(machine).is_none_or(|running| match load {
            Load::Spins => running.spinning == 0 && running.streams == 0,
            Load::Streams => running.spinning == 0 && running.streams < MACHINE_BANDWIDTH_MAX,
            Load::Light => true,
        })
    }

    fn change(&mut self, machine: &str, load: Load, by: i32) {
        let running = self.busy.entry(machine.to_owned()).or_default();
        let count = match load {
            Load::Spins => &mut running.spinning,
            Load::Streams => &mut running.streams,
            Load::Light => return,
        };
        *count = count.saturating_add_signed(by);
        if running.spinning == 0 && running.streams == 0 {
            self.busy.remove(machine);
        }
    }
}

/// What becomes of a job now.
enum Decision {
    Start([ConnectionId; 2]),
    Wait,
    /// It need not run: this is known.
    Known(Box<CellNews>),
}

impl Coordinator {
    /// Does everything that the time and the events before allow.
    pub(super) fn run(&mut self, now: Now) {
        for connection in self.members.take_silent(now.mono) {
            self.outbox.push_back(Action::Close(connection, "silent for three heartbeats".to_owned()));
            self.closed(connection, now);
        }
        self.expire(now);
        self.compare(now);
        let rate = if self.paused.all { 0 } else { self.settings.pings_per_second };
        let settled = self.mesh.settled(&self.members);
        self.mesh.run(&self.members, &self.matrix, rate, self.epoch, now.mono, &mut self.outbox);
        self.changed |= self.mesh.settled(&self.members) != settled;
        self.judge(now);
        self.begin_background(now);
        let rested = self.background_wakeup.is_some_and(|at| at <= now.mono);
        // Looking through the queues is the costly part; most events (relays, first results) change nothing for them.
        if std::mem::take(&mut self.changed) || rested {
            self.dispatch(now);
            self.background_wakeup = self.next_background(now.mono);
        }
    }

    /// Continuous sweeps are on, and there is something to sweep.
    fn background_wanted(&self) -> bool {
        let on = self.settings.pings_per_second > 0 && !self.paused.all;
        on && self.mesh.settled(&self.members) && self.members.ready().len() >= 2
    }

    /// When the next continuous sweep begins, or the next endpoint has rested. What waits for anything else than time
    /// is woken by the event that it waits for.
    fn next_background(&self, now: Mono) -> Option<Mono> {
        if !self.background_wanted() {
            return None;
        }
        let resting = self.members.endpoints().map(|(_, e)| e.rests_until);
        self.work.background_rests_until().into_iter().chain(resting).filter(|&at| at > now).min()
    }

    fn begin_background(&mut self, now: Now) {
        if self.background_wanted() && self.work.background_is_due(now.mono) {
            let ready = self.members.ready();
            self.work.start_background(ready, self.settings.background(ready.len()), now);
            self.changed = true;
        }
    }

    /// Starts whatever can start. A settled job may free the way for a sweep's next metric, hence the loop.
    fn dispatch(&mut self, now: Now) {
        if self.paused.all {
            return;
        }
        let background = self.background_wanted();
        for queue in self.work.queues(background) {
            let mut at = 0;
            while let Some(&job) = self.work.pending(queue).and_then(|pending| pending.get(at)) {
                if at >= LOOK_AHEAD {
                    break;
                }
                let decision = self.decide(&job, now.mono);
                if matches!(decision, Decision::Wait) {
                    at += 1;
                    continue;
                }
                self.work.pending(queue).and_then(|pending| pending.remove(at));
                self.work.taken(job.origin);
                match decision {
                    Decision::Start(connections) => self.start(job, connections, now),
                    Decision::Known(news) => self.settle_known(&job, &news, now),
                    Decision::Wait => {}
                }
                // A sweep that went on to its next metric has a new queue.
                at = at.min(self.work.pending(queue).map_or(0, |pending| pending.len()));
            }
        }
    }

    fn decide(&self, job: &Job, now: Mono) -> Decision {
        let (Some(source), Some(target)) =
            (self.members.endpoint(job.source), self.members.endpoint(job.target))
        else {
            return Decision::Known(Box::new(CellNews::Nothing));
        };
        // First what is cheap to tell and true of most waiting jobs: hundreds are looked at for each that starts.
        if source.lease.is_some() || target.lease.is_some() {
            return Decision::Wait;
        }
        let background = job.urgency == Urgency::Background;
        if background && (source.rests_until > now || target.rests_until > now) {
            return Decision::Wait;
        }
        if source.info.fabric != target.info.fabric || source.info.name.node == target.info.name.node {
            return Decision::Known(Box::new(CellNews::Excluded(Exclusion::Policy)));
        }
        if let Some(failure) = self.known_failure(job) {
            return Decision::Known(Box::new(CellNews::Failed(failure)));
        }
        let load = job.spec.load();
        let paused = [source, target].iter().any(|e| {
            let flags = self.pause_of(&e.info.name.node);
            flags.all || (load == Load::Streams && flags.bandwidth)
        });
        if paused {
            return Decision::Known(Box::new(CellNews::Excluded(Exclusion::Policy)));
        }
        let connections = [source, target].map(|e| self.members.connection(&e.info.name.node));
        let [Some(from), Some(to)] = connections else { return Decision::Wait };
        let room = [source, target].iter().all(|e| {
            let machine = self.members.agent(&e.info.name.node).map(|m| m.machine.as_str());
            machine.is_some_and(|machine| self.machines.has_room(machine, load))
        });
        if room { Decision::Start([from, to]) } else { Decision::Wait }
    }

    /// What is known to be broken before any packet is sent, seen from the source.
    fn known_failure(&self, job: &Job) -> Option<Failure> {
        let ends = [(job.source, Side::Source), (job.target, Side::Target)];
        for (index, side) in ends {
            let endpoint = self.members.endpoint(index)?;
            let name = &endpoint.info.name;
            let failure = |cause, evidence| Failure { cause, step: Step::Admit, side, evidence };
            if endpoint.gone_since.is_some() {
                return Some(failure(Cause::DeviceGone, format!("{name} is not on its node any more")));
            }
            if self.members.connection(&name.node).is_none() {
                let cause = if side == Side::Source { Cause::AgentGone } else { Cause::PeerGone };
                let evidence = format!("the agent of {} is not connected", name.node);
                return Some(Failure { side: Side::Coordinator, ..failure(cause, evidence) });
            }
            if let Some(cause) = endpoint.info.unusable {
                return Some(failure(cause, format!("{name}: {}", endpoint.info.unusable_detail)));
            }
        }
        None
    }

    fn start(&mut self, job: Job, connections: [ConnectionId; 2], now: Now) {
        self.leases_given += 1;
        let id = LeaseId(self.leases_given);
        let expires_in = settings::lease_time(&job.spec);
        let judge_at = now.mono.after(expires_in + REPORT_WITHIN);
        let machines = self.occupy(&job, id, now.mono);
        let names = [job.source, job.target].map(|index| self.matrix.name(index).clone());
        for (role, connection) in [Role::Source, Role::Target].into_iter().zip(connections) {
            let [source, target] = names.clone();
            let (local, peer) = if role == Role::Source { (source, target) } else { (target, source) };
            let plan = ProbePlan {
                lease: id,
                role,
                local,
                peer,
                spec: job.spec,
                manner: job.manner,
                urgency: job.urgency,
                expires_in,
            };
            let frame = ToAgent::Lease { epoch: self.epoch, plan, setup_within: SETUP_WITHIN };
            self.outbox.push_back(Action::Send(connection, frame));
        }
        let text = format!("{id} for {} given to both agents", job.spec.as_str());
        self.work.step(job.origin, Side::Coordinator, Step::Admit, text, now.mono);
        self.leases.insert(id, Lease::new(job, now, judge_at, connections, machines));
    }

    /// Marks endpoints and machines as busy with a lease. Answers the machines.
    fn occupy(&mut self, job: &Job, lease: LeaseId, now: Mono) -> Vec<String> {
        let background = self.settings.background(self.members.ready().len());
        let rest = match (job.urgency, &job.spec) {
            (Urgency::Background, ProbeSpec::Latency(spec)) => self.settings.rest(spec),
            // What an operator has just measured, better than the continuous sweep can, is left alone for one turn of it.
            (Urgency::Operator | Urgency::Drained, ProbeSpec::Latency(_)) => self.settings.rest(&background),
            (_, ProbeSpec::Bandwidth(_) | ProbeSpec::Pings(_) | ProbeSpec::Echo(_)) => Duration::ZERO,
        };
        let mut machines = Vec::new();
        for index in [job.source, job.target] {
            let Some(endpoint) = self.members.endpoint_mut(index) else { continue };
            endpoint.lease = Some(lease);
            endpoint.rests_until = endpoint.rests_until.max(now.after(rest));
            let node = endpoint.info.name.node.clone();
            machines.extend(self.members.agent(&node).map(|m| m.machine.clone()));
        }
        // Two endpoints of one machine are one load on it.
        machines.dedup();
        for machine in &machines {
            self.machines.change(machine, job.spec.load(), 1);
        }
        machines
    }

    /// Marks what a lease held as free.
    fn release(&mut self, lease: &Lease) {
        for index in [lease.job.source, lease.job.target] {
            if let Some(endpoint) = self.members.endpoint_mut(index) {
                endpoint.lease = None;
            }
        }
        for machine in &lease.machines {
            self.machines.change(machine, lease.job.spec.load(), -1);
        }
    }

    /// Ends the leases that are decided.
    fn judge(&mut self, now: Now) {
        let decided: Vec<_> =
            self.leases.iter().filter(|(_, l)| l.is_decided(now.mono)).map(|(&id, _)| id).collect();
        for id in decided {
            let Some(lease) = self.leases.remove(&id) else { continue };
            self.changed = true;
            for index in [lease.job.source, lease.job.target] {
                // An agent that has connected again holds the lease still.
                if let Some(connection) = self.members.connection(&self.matrix.name(index).node) {
                    self.outbox.push_back(Action::Send(connection, ToAgent::LeaseEnd { lease: id }));
                }
            }
            self.release(&lease);
            let [forward, backward] = lease.verdict(self.known_failure(&lease.job));
            let ending = self.settle(lease.job.source, lease.job.target, &lease.job, &forward, now);
            self.settle(lease.job.target, lease.job.source, &lease.job, &backward, now);
            self.work.step(
                lease.job.origin,
                Side::Coordinator,
                Step::Measure,
                summary(&lease, &forward, now),
                now.mono,
            );
            self.work.ended(lease.job.origin, ending, self.settings.pause, now);
        }
    }

    /// A job whose result is known without running it.
    fn settle_known(&mut self, job: &Job, news: &CellNews, now: Now) {
        let ending = self.settle(job.source, job.target, job, news, now);
        if job.spec.load() == Load::Spins {
            self.settle(job.target, job.source, job, &super::lease::mirrored_news(news), now);
        }
        let text = match news {
            CellNews::Failed(failure) => format!("failed: {} ({})", failure.cause.text(), failure.evidence),
            CellNews::Excluded(why) => format!("not run: {}", why.as_str()),
            CellNews::Measured(_) | CellNews::Nothing => String::new(),
        };
        self.work.step(job.origin, Side::Coordinator, Step::Admit, text, now.mono);
        self.work.ended(job.origin, ending, self.settings.pause, now);
    }

    fn settle(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        job: &Job,
        news: &CellNews,
        now: Now,
    ) -> Ending {
        let Some(metric) = job.cell() else { return Ending::of(news) };
        let (ending, probed) = match news {
            CellNews::Measured(result) => {
                self.write(source, target, result);
                (Ending::Measured, self.probed(source, target, result))
            }
            CellNews::Failed(failure) => {
                self.matrix.fail(metric, source, target, now.wall, failure.clone());
                (Ending::Failed, Some(Probed::Failed(metric, failure.cause)))
            }
            CellNews::Excluded(why) => {
                self.matrix.exclude(metric, source, target, now.wall, *why);
                (Ending::Excluded, Some(Probed::Excluded(metric)))
            }
            CellNews::Nothing => (Ending::Excluded, None),
        };
        self.outbox.extend(probed.map(Action::Probed));
        ending
    }

    fn probed(&self, source: EndpointIndex, target: EndpointIndex, result: &ProbeResult) -> Option<Probed> {
        match &result.outcome {
            Outcome::Latency(stats, _) => Some(Probed::Latency(stats.p50_ns)),
            Outcome::Bandwidth(stats, _) => {
                let rates = [source, target].map(|index| self.members.endpoint(index)?.info.rate_bps);
                let slower = rates[0].zip(rates[1]).map(|(a, b)| a.min(b));
                Some(Probed::Bandwidth(stats.average_bps, slower))
            }
            _ => None,
        }
    }
}

impl Ending {
    fn of(news: &CellNews) -> Self {
        match news {
            CellNews::Measured(_) => Self::Measured,
            CellNews::Failed(_) => Self::Failed,
            CellNews::Excluded(_) | CellNews::Nothing => Self::Excluded,
        }
    }
}

/// A lease's end in words.
fn summary(lease: &Lease, news: &CellNews, now: Now) -> String {
    let took = now.mono.since(lease.began.mono).as_millis();
    match news {
        CellNews::Measured(result) => {
            let retransmits = counters(&result.outcome).and_then(|delta| delta.retransmits);
            let counted = retransmits.map_or("not counted".to_owned(), |n| n.to_string());
            format!("done in {took} ms, retransmits at the source: {counted}")
        }
        CellNews::Failed(failure) => {
            format!("failed after {took} ms: {} Next: {}", failure.cause.text(), failure.cause.next_step())
        }
        CellNews::Excluded(why) => format!("not run: {}", why.as_str()),
        CellNews::Nothing => format!("nothing learned after {took} ms"),
    }
}
