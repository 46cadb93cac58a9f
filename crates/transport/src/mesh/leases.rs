//! The pings of leases: which endpoint runs them, and what is told of them.

use super::helper::Purpose;
use super::offer::Offer;
use super::open::News;
use super::poller::Teller;
use super::ports::Ports;
use rdmascope_model::{Cause, Failure, LeaseId, Mono, Outcome, PingSpec, ProbePlan, ProbeSpec, Role, Step};
use rdmascope_probe::TransportEvent;
use rdmascope_probe::mesh::{Destination, LeasedPings};
use std::time::Duration;

/// An end must reach the coordinator before the lease is over.
const MARGIN: Duration = Duration::from_millis(100);

struct Lease {
    ticket: u64,
    plan: Box<ProbePlan>,
    spec: PingSpec,
    /// The opening of the endpoint that runs it.
    serial: u64,
    /// What its pings are numbered with.
    batch: u32,
    until: Mono,
    /// Known once it is connected.
    pings: Option<LeasedPings>,
    finished: bool,
}

impl Lease {
    /// Tells how it ended, once.
    fn finish(&mut self, outcome: Outcome, teller: &mut Teller) {
        if !std::mem::replace(&mut self.finished, true) {
            teller.tell_lease(self.ticket, TransportEvent::Finished(outcome));
        }
    }

    fn fail(&mut self, failure: Failure, teller: &mut Teller) {
        let side = self.plan.role.side();
        self.finish(Outcome::Failed(Failure { side, ..failure }), teller);
    }
}

/// The leases of all endpoints; engines know each by its ticket.
#[derive(Default)]
pub(super) struct Leases {
    list: Vec<Lease>,
}

impl Leases {
    fn get(&mut self, ticket: u64) -> Option<&mut Lease> {
        self.list.iter_mut().find(|lease| lease.ticket == ticket && !lease.finished)
    }

    pub(super) fn prepare(
        &mut self,
        ticket: u64,
        plan: Box<ProbePlan>,
        ports: &mut Ports,
        teller: &mut Teller,
        now: Mono,
    ) {
        let failed = |failure: Failure| {
            let failure = Failure { side: plan.role.side(), ..failure };
            TransportEvent::Finished(Outcome::Failed(failure))
        };
        let ProbeSpec::Pings(spec) = plan.spec else {
            let evidence = format!("the mesh sends pings, not {}", plan.spec.as_str());
            let side = plan.role.side();
            let failure = Failure { cause: Cause::NotAvailable, step: Step::Open, side, evidence };
            return teller.tell_lease(ticket, failed(failure));
        };
        let (serial, open) = match ports.by_name(&plan.local) {
            Ok(found) => found,
            Err(failure) => return teller.tell_lease(ticket, failed(failure)),
        };
        let batch = open.engine.reserve_batch();
        let offer = Offer { role: plan.role, address: open.engine.address(), batch };
        let until = Mono(now.after(plan.expires_in).0.saturating_sub(MARGIN.as_nanos() as u64));
        self.list.push(Lease { ticket, plan, spec, serial, batch, until, pings: None, finished: false });
        teller.tell_lease(ticket, TransportEvent::Prepared { offer: offer.to_bytes() });
    }

    pub(super) fn connect(&mut self, ticket: u64, offer: &[u8], ports: &mut Ports, teller: &mut Teller) {
        let Some(lease) = self.get(ticket) else { return };
        let side = lease.plan.role.side();
        let offer = match Offer::from_bytes(offer, lease.plan.role) {
            Ok(offer) => offer,
            Err(words) => {
                let evidence =
                    format!("the peer's offer of {} bytes is no datagram offer: {words}", offer.len());
                let failure = Failure { cause: Cause::BadPeerData, step: Step::Exchange, side, evidence };
                return lease.fail(failure, teller);
            }
        };
        let source = lease.plan.role == Role::Source;
        let pings = LeasedPings {
            lease: LeaseId(ticket),
            peer: lease.plan.peer.clone(),
            address: offer.address,
            batch: if source { lease.batch } else { offer.batch },
            spec: lease.spec,
            marks: lease.plan.manner.marks,
            until: lease.until,
        };
        lease.pings = Some(pings.clone());
        if !source && let Some(open) = ports.by_serial(lease.serial) {
            open.engine.serve_lease(pings.clone());
        }
        // Both ways are resolved before anything is sent: the first answers must not wait for that.
        let to = Destination { address: offer.address, marks: pings.marks };
        if let Err(failure) = ports.resolve(lease.serial, &to, Purpose::Lease(LeaseId(ticket))) {
            lease.fail(failure, teller);
        }
    }

    /// The way to the peer is there, or why it is not.
    pub(super) fn resolved(&mut self, ticket: u64, made: &Result<(), Failure>, teller: &mut Teller) {
        let Some(lease) = self.get(ticket) else { return };
        match made {
            Ok(()) => teller.tell_lease(ticket, TransportEvent::Connected),
            Err(failure) => lease.fail(failure.clone(), teller),
        }
    }

    pub(super) fn start(&mut self, ticket: u64, ports: &mut Ports, now: Mono) {
        let Some(lease) = self.get(ticket) else { return };
        if lease.plan.role == Role::Source
            && let Some(pings) = lease.pings.clone()
            && let Some(open) = ports.by_serial(lease.serial)
        {
            open.engine.start_lease(pings, now);
            open.fresh = true;
        }
    }

    pub(super) fn close(&mut self, ticket: u64, ports: &mut Ports) {
        let Some(at) = self.list.iter().position(|lease| lease.ticket == ticket) else { return };
        let lease = self.list.swap_remove(at);
        if let Some(open) = ports.by_serial(lease.serial) {
            open.engine.end_lease(LeaseId(ticket));
            open.fresh = true;
        }
    }

    /// Tells what endpoints say of leases.
    pub(super) fn take(&mut self, ports: &mut Ports, teller: &mut Teller) {
        for news in std::mem::take(&mut ports.news) {
            match news {
                News::Leased(LeaseId(ticket), Ok(stats)) => {
                    if let Some(lease) = self.get(ticket) {
                        lease.finish(Outcome::Pings(stats), teller);
                    }
                }
                News::Leased(LeaseId(ticket), Err(failure)) => {
                    if let Some(lease) = self.get(ticket) {
                        lease.fail(failure, teller);
                    }
                }
                News::Heard(heard) => {
                    let of = |lease: &&mut Lease| {
                        let pings = lease.pings.as_ref().is_some_and(|pings| pings.batch == heard.batch);
                        pings && lease.plan.role == Role::Target && lease.plan.peer == heard.peer
                    };
                    if let Some(lease) = self.list.iter_mut().find(of) {
                        lease.finish(Outcome::Served, teller);
                    }
                }
                News::Closed(serial, failure) => {
                    for lease in self.list.iter_mut().filter(|lease| lease.serial == serial) {
                        lease.fail(failure.clone(), teller);
                    }
                }
            }
        }
    }

    /// Ends what has had its time: a target was there for all of it.
    pub(super) fn expire(&mut self, ports: &mut Ports, teller: &mut Teller, now: Mono) {
        let over = |lease: &Lease| now >= lease.until;
        while let Some(at) = self.list.iter().position(over) {
            let mut lease = self.list.swap_remove(at);
            if lease.plan.role == Role::Target && lease.pings.is_some() {
                lease.finish(Outcome::Served, teller);
            }
            if let Some(open) = ports.by_serial(lease.serial) {
                open.engine.end_lease(LeaseId(lease.ticket));
            }
        }
    }

    pub(super) fn due(&self) -> Option<Mono> {
        self.list.iter().map(|lease| lease.until).min()
    }
}
