//! Which job starts next: its endpoints must be free, and their machines must have room for it.
//!
//! RC latency spins on a processor, so a machine (a boot id) measures one such pair at a time and nothing beside it.
//! Nobody waits for a round to end: a pair that hangs costs its own two endpoints one lease, and nobody else anything.

use super::lease::{CellNews, Lease};
use super::mesh::Terms;
use super::settings::{self, REPORT_WITHIN, SETUP_WITHIN};
use super::work::{Job, Origin, Stirred};
use super::{Action, ConnectionId, Coordinator};
use rdmascope_link::{PINGS_SINCE, ToAgent};
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{
    Cause, Exclusion, Failure, LeaseId, Load, Mono, Now, ProbePlan, ProbeSpec, Role, Side, Step, Urgency,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// What runs on each machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Machines {
    busy: BTreeMap<String, Running>,
}

#[derive(Clone, Debug, Default)]
struct Running {
    spinning: u32,
    streams: u32,
}

impl Machines {
    fn has_room(&self, machine: &str, load: Load, streams_max: u32) -> bool {
        self.busy.get(machine).is_none_or(|running| match load {
            Load::Spins => running.spinning == 0 && running.streams == 0,
            Load::Streams => running.spinning == 0 && running.streams < streams_max,
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
pub(super) enum Company {
    /// What its load leaves room for.
    Alone,
    /// Only the other jobs of its stage.
    Stage,
    /// What runs there is its own run's: it was started to be beside it.
    Beside,
}

/// What becomes of a job now.
pub(super) enum Decision {
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
        self.look_at_places(now.mono);
        self.compare(now);
        let turns = self.ping_turns();
        let terms = Terms {
            epoch: self.epoch,
            pings_per_second: if self.paused.all { 0 } else { self.rate().per_second },
            pings_per_batch: turns.per_batch,
            labels: self.settings.labels,
            cross_rail_every: turns.cross_rail_every,
            sweep: self.work.pass(),
        };
        let settled = self.mesh.settled(&self.members);
        self.mesh.run(&self.members, &self.standing, terms, now.mono, &mut self.outbox);
        self.changed |= self.mesh.settled(&self.members) != settled;
        self.end_pass(now);
        self.judge(now);
        self.changed |= self.caps.rested(now.mono) | self.expire_forced(now);
        self.tell_away(now);
        self.begin_background(now);
        let rested = self.background_wakeup.is_some_and(|at| at <= now.mono);
        if rested {
            let since = self.rested_until;
            let due = |until: Mono| until > since && until <= now.mono;
            let rested = self.members.endpoints().filter(|(_, endpoint)| due(endpoint.rests_until));
            self.freed.extend(rested.map(|(index, _)| index));
            self.rested_until = now.mono;
        }
        let again = self.again_at.is_some_and(|at| at <= now.mono);
        let freed = std::mem::take(&mut self.freed);
        // Looking for pairs is the costly part; most events (relays, first results) change nothing for them, and most others free two
        // endpoints only.
        if std::mem::take(&mut self.changed) || again {
            self.dispatch(&Stirred::Everybody, now);
            self.background_wakeup = self.next_background(now.mono);
        } else if rested || !freed.is_empty() {
            self.dispatch(&Stirred::These(freed), now);
            self.background_wakeup = self.next_background(now.mono);
        }
        self.end_forced(now);
        // Last, so that whatever happened until now is in what it looks at.
        let due = self.work.next_retest.is_some_and(|at| at <= now.mono);
        if self.look_for_incidents(now) || due {
            self.dispatch_retests(now);
        }
        self.tend_trails(now);
    }

    /// Starts the next stage of every run whose endpoints and machines are free.
    pub(super) fn dispatch_runs(&mut self, now: Now) {
        for id in self.work.runs.waiting() {
            // A stage whose results are all known need not run, and the next one may.
            while let Some(stage) = self.work.runs.next_stage(id) {
                let company = if stage.is_together() { Company::Stage } else { Company::Alone };
                let jobs = stage.jobs.clone();
                let decisions: Vec<_> = jobs.iter().map(|job| self.decide(job, company, now.mono)).collect();
                let waits = |decision: &Decision| matches!(decision, Decision::Wait);
                if decisions.iter().any(waits) || self.are_capped(&jobs) {
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

    pub(super) fn carry_out(&mut self, job: Job, decision: Decision, now: Now) {
        match decision {
            Decision::Start(connections) => self.start(job, connections, now),
            Decision::Known(news) => self.settle_known(&job, &news, now),
            Decision::Wait => {}
        }
    }

    pub(super) fn decide(&self, job: &Job, company: Company, now: Mono) -> Decision {
        let (Some(source), Some(target)) =
            (self.members.endpoint(job.source), self.members.endpoint(job.target))
        else {
            return Decision::Known(Box::new(CellNews::Nothing));
        };
        if self.is_out_of_date(job) {
            return Decision::Known(Box::new(CellNews::Excluded(Exclusion::Policy)));
        }
        // First what is cheap to tell and true of most waiting jobs: hundreds are looked at for each that starts.
        let busy = self.is_busy(&source.leases, job) || self.is_busy(&target.leases, job);
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
        if self.keeps_out(job, [&source.info.name.node, &target.info.name.node]) {
            return Decision::Known(Box::new(CellNews::Nothing));
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
                machine.is_some_and(|machine| {
                    self.machines.has_room(machine, needs, self.settings.streams_per_node)
                })
            });
        if room && !self.is_capped(job, now) { Decision::Start([from, to]) } else { Decision::Wait }
    }

    /// A maintenance keeps a job out that nobody asked for by the names of its nodes.
    fn keeps_out(&self, job: &Job, nodes: [&str; 2]) -> bool {
        let named = match job.origin {
            Origin::Run(..) => true,
            Origin::Sweep => self.work.sweep().is_some_and(|sweep| sweep.named),
            Origin::Retest | Origin::Background => false,
        };
        !named && nodes.iter().any(|node| self.health.maintenance_of(node).is_some())
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
        let bytes_at_most = self.bytes_at_most(&job);
        self.work.reserve(job.origin, bytes_at_most);
        let uplinks = self.stream_begins(&job, now.mono);
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
        (lease.uplinks, lease.bytes_at_most) = (uplinks, bytes_at_most);
        let new = |index| {
            self.members.agent(&self.matrix.name(index).node).is_some_and(|a| a.protocol >= PINGS_SINCE)
        };
        lease.target_tells = matches!(job.origin, Origin::Run(..)) && new(job.target);
        self.leases.insert(id, lease);
    }

    /// Marks endpoints and machines as busy with a lease. Answers the machines.
    fn occupy(&mut self, job: &Job, lease: LeaseId, now: Mono) -> Vec<String> {
        let rate = self.rate();
        let rest = match (job.urgency, &job.spec) {
            (Urgency::Background, ProbeSpec::Latency(spec)) => rate.rest(spec),
            // What an operator has just measured, better than the continuous sweep can, is left alone for one turn of it.
            (Urgency::Operator | Urgency::Drained | Urgency::Forced, ProbeSpec::Latency(_)) => {
                rate.rest(&self.probe_turns().spec)
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
        self.stream_ends(&lease.uplinks);
        self.freed.extend([lease.job.source, lease.job.target]);
        let on_machines = lease.machines.iter().flat_map(|machine| self.members.on_machine(machine));
        self.freed.extend(on_machines);
        let on_leaves = lease.uplinks.iter().flat_map(|leaf| self.standing.on_leaf(leaf));
        self.freed.extend(on_leaves);
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
