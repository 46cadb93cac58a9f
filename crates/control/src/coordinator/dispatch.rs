//! Which job starts next: its endpoints must be free, and their machines must have room for it.
//!
//! RC latency spins on a processor, so a machine (a boot id) measures one such pair at a time and nothing beside it.
//! Nobody waits for a round to end: a pair that hangs costs its own two endpoints one lease, and nobody else anything.

use super::lease::{CellNews, Lease};
use super::mesh::Terms;
use super::settings::{self, LOOK_AHEAD, MACHINE_BANDWIDTH_MAX, REPORT_WITHIN, SETUP_WITHIN};
use super::work::{Job, Origin};
use super::{Action, ConnectionId, Coordinator};
use rdmascope_link::{PINGS_SINCE, ToAgent};
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{
    Cause, Exclusion, Failure, LeaseId, Load, Mono, Now, ProbePlan, ProbeSpec, Role, Side, Step, Urgency,
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

/// What may run on the machines of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Company {
    /// What its load leaves room for.
    Alone,
    /// Only the other jobs of its stage.
    Stage,
    /// What runs there is its own run's: it was started to be beside it.
    Beside,
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
        self.look_at_places();
        self.expire(now);
        self.compare(now);
        let pace = self.pace();
        let terms = Terms {
            epoch: self.epoch,
            pings_per_second: if self.paused.all { 0 } else { pace.pings_per_second },
            pings_per_batch: pace.pings_per_batch(self.members.pinged()),
            labels: pace.labels,
        };
        let settled = self.mesh.settled(&self.members);
        self.mesh.run(&self.members, terms, now.mono, &mut self.outbox);
        self.changed |= self.mesh.settled(&self.members) != settled;
        self.judge(now);
        self.changed |= self.caps.rested(now.mono) | self.expire_forced(now);
        self.tell_away(now);
        self.begin_background(now);
        let rested = self.background_wakeup.is_some_and(|at| at <= now.mono);
        // Looking through the queues is the costly part; most events (relays, first results) change nothing for them.
        if std::mem::take(&mut self.changed) || rested {
            self.dispatch(now);
            self.background_wakeup = self.next_background(now.mono);
        }
        self.end_forced(now);
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
        let pairs = self.background_wanted() && self.members.needs_connections();
        if pairs && self.work.background_is_due(now.mono) {
            let ready = self.members.ready();
            let spec = self.pace().background(ready.len());
            let wanted = |a, b| !self.members.pings_cover(a, b);
            self.work.start_background(ready, spec, wanted, now);
            self.changed = true;
        }
    }

    /// Starts whatever can start. A settled job may free the way for a sweep's next metric, hence the loop.
    fn dispatch(&mut self, now: Now) {
        if self.paused.all {
            return;
        }
        self.dispatch_runs(now);
        let background = self.background_wanted();
        for queue in self.work.queues(background) {
            let mut at = 0;
            while let Some(&job) = self.work.pending(queue).and_then(|pending| pending.get(at)) {
                if at >= LOOK_AHEAD {
                    break;
                }
                let decision = self.decide(&job, Company::Alone, now.mono);
                if matches!(decision, Decision::Wait) {
                    at += 1;
                    continue;
                }
                self.work.pending(queue).and_then(|pending| pending.remove(at));
                self.work.taken(job.origin);
                self.carry_out(job, decision, now);
                // A sweep that went on to its next metric has a new queue.
                at = at.min(self.work.pending(queue).map_or(0, |pending| pending.len()));
            }
        }
    }

    /// Starts the next stage of every run whose endpoints and machines are free.
    fn dispatch_runs(&mut self, now: Now) {
        for id in self.work.runs.waiting() {
            // A stage whose results are all known need not run, and the next one may.
            while let Some(stage) = self.work.runs.next_stage(id) {
                let company = if stage.is_together() { Company::Stage } else { Company::Alone };
                let jobs = stage.jobs.clone();
                let decisions: Vec<_> = jobs.iter().map(|job| self.decide(job, company, now.mono)).collect();
                if decisions.iter().any(|decision| matches!(decision, Decision::Wait)) {
                    break;
                }
                self.work.runs.take_stage(id);
                for (job, decision) in jobs.into_iter().zip(decisions) {
                    self.carry_out(job, decision, now);
                }
            }
        }
    }

    /// Starts what is to be measured beside a job that runs now.
    pub(super) fn start_beside(&mut self, origin: Origin, now: Now) {
        for job in self.work.runs.take_beside(origin) {
            match self.decide(&job, Company::Beside, now.mono) {
                Decision::Wait => self.settle_known(&job, &CellNews::Nothing, now),
                decision => self.carry_out(job, decision, now),
            }
        }
    }

    fn carry_out(&mut self, job: Job, decision: Decision, now: Now) {
        match decision {
            Decision::Start(connections) => self.start(job, connections, now),
            Decision::Known(news) => self.settle_known(&job, &news, now),
            Decision::Wait => {}
        }
    }

    fn decide(&self, job: &Job, company: Company, now: Mono) -> Decision {
        let (Some(source), Some(target)) =
            (self.members.endpoint(job.source), self.members.endpoint(job.target))
        else {
            return Decision::Known(Box::new(CellNews::Nothing));
        };
        if self.is_out_of_date(job) {
            return Decision::Known(Box::new(CellNews::Excluded(Exclusion::Policy)));
        }
        // First what is cheap to tell and true of most waiting jobs: hundreds are looked at for each that starts.
        let busy = !source.leases.is_empty() || !target.leases.is_empty();
        if busy && company != Company::Beside {
            return Decision::Wait;
        }
        let background = job.urgency == Urgency::Background;
        if background && self.members.pings_cover(job.source, job.target) {
            return Decision::Known(Box::new(CellNews::Nothing)); // Since the sweep began.
        }
        if background && (source.rests_until > now || target.rests_until > now) {
            return Decision::Wait;
        }
        if source.info.fabric != target.info.fabric || source.info.name.node == target.info.name.node {
            return Decision::Known(Box::new(CellNews::Excluded(Exclusion::Policy)));
        }
        if let Some(failure) = self.known_failure(job.source, job.target) {
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
        if let Some(failure) = self.too_old(job) {
            return Decision::Known(Box::new(CellNews::Failed(failure)));
        }
        let needs = if company == Company::Stage { Load::Spins } else { load };
        let room = company == Company::Beside
            || [source, target].iter().all(|e| {
                let machine = self.members.agent(&e.info.name.node).map(|m| m.machine.as_str());
                machine.is_some_and(|machine| self.machines.has_room(machine, needs))
            });
        if room && !self.is_capped(job, now) { Decision::Start([from, to]) } else { Decision::Wait }
    }

    /// What is known to be broken before any packet is sent, seen from the source.
    pub(super) fn known_failure(&self, source: EndpointIndex, target: EndpointIndex) -> Option<Failure> {
        let ends = [(source, Side::Source), (target, Side::Target)];
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

    /// An agent that does not know the manner would measure another one and not say so.
    fn too_old(&self, job: &Job) -> Option<Failure> {
        if job.is_ordinary() {
            return None;
        }
        [(job.source, Side::Source), (job.target, Side::Target)].into_iter().find_map(|(index, side)| {
            let node = &self.matrix.name(index).node;
            let agent = self.members.agent(node).filter(|agent| agent.protocol < PINGS_SINCE)?;
            let evidence = format!(
                "the agent of {node} (version {}) speaks protocol {}; this needs {PINGS_SINCE}: update it",
                agent.version, agent.protocol
            );
            Some(Failure { cause: Cause::NotAvailable, step: Step::Admit, side, evidence })
        })
    }

    fn start(&mut self, job: Job, connections: [ConnectionId; 2], now: Now) {
        self.leases_given += 1;
        let id = LeaseId(self.leases_given);
        let expires_in = settings::lease_time(&job.spec);
        let judge_at = now.mono.after(expires_in + REPORT_WITHIN);
        let machines = self.occupy(&job, id, now.mono);
        let spec = self.asked(&job);
        self.stream_begins(&job, now.mono);
        let names = [job.source, job.target].map(|index| self.matrix.name(index).clone());
        for (role, connection) in [Role::Source, Role::Target].into_iter().zip(connections) {
            let [source, target] = names.clone();
            let (local, peer) = if role == Role::Source { (source, target) } else { (target, source) };
            let plan = ProbePlan {
                lease: id,
                role,
                local,
                peer,
                spec,
                manner: job.manner,
                urgency: job.urgency,
                expires_in,
            };
            let frame = ToAgent::Lease { epoch: self.epoch, plan, setup_within: SETUP_WITHIN };
            self.outbox.push_back(Action::Send(connection, frame));
        }
        let text = format!("{id} for {} given to both agents", job.spec.as_str());
        self.work.runs.step(job.origin, Side::Coordinator, Step::Admit, text, now.mono);
        self.work.runs.begun(job.origin);
        let mut lease = Lease::new(job, now, judge_at, connections, machines);
        let new = |index| {
            self.members.agent(&self.matrix.name(index).node).is_some_and(|a| a.protocol >= PINGS_SINCE)
        };
        lease.target_tells = matches!(job.origin, Origin::Run(..)) && new(job.target);
        self.leases.insert(id, lease);
    }

    /// Marks endpoints and machines as busy with a lease. Answers the machines.
    fn occupy(&mut self, job: &Job, lease: LeaseId, now: Mono) -> Vec<String> {
        let pace = self.pace();
        let background = pace.background(self.members.ready().len());
        let rest = match (job.urgency, &job.spec) {
            (Urgency::Background, ProbeSpec::Latency(spec)) => pace.rest(spec),
            // What an operator has just measured, better than the continuous sweep can, is left alone for one turn of it.
            (Urgency::Operator | Urgency::Drained | Urgency::Forced, ProbeSpec::Latency(_)) => {
                pace.rest(&background)
            }
            (_, ProbeSpec::Bandwidth(_) | ProbeSpec::Pings(_) | ProbeSpec::Echo(_)) => Duration::ZERO,
        };
        let mut machines = Vec::new();
        for index in [job.source, job.target] {
            let Some(endpoint) = self.members.endpoint_mut(index) else { continue };
            endpoint.leases.push(lease);
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
    pub(super) fn release(&mut self, id: LeaseId, lease: &Lease) {
        self.stream_ends(&lease.job);
        for index in [lease.job.source, lease.job.target] {
            if let Some(endpoint) = self.members.endpoint_mut(index) {
                endpoint.leases.retain(|held| *held != id);
            }
        }
        for machine in &lease.machines {
            self.machines.change(machine, lease.job.spec.load(), -1);
        }
    }
}
