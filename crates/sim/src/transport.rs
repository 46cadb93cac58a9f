//! The transport of one simulated process.

use crate::fabric::{OwnerId, Shared};
use rdmascope_model::{EndpointInfo, LeaseId, Mono, ProbePlan};
use rdmascope_probe::TransportEvent;
use rdmascope_transport::Transport;
use std::rc::Rc;

/// One process on a simulated fabric; when it is dropped, its probes are gone like those of a killed process.
#[derive(Debug)]
pub struct SimTransport {
    fabric: Shared,
    owner: OwnerId,
}

impl SimTransport {
    /// A new process on this fabric.
    #[must_use]
    pub fn new(fabric: &Shared) -> Self {
        let owner = fabric.borrow_mut().new_owner();
        Self { fabric: Rc::clone(fabric), owner }
    }

    /// The same process on a copy of its fabric.
    pub(crate) fn on(&self, fabric: &Shared) -> Self {
        Self { fabric: Rc::clone(fabric), owner: self.owner }
    }

    /// Who it is on the fabric.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.owner
    }
}

impl Transport for SimTransport {
    fn prepare(&mut self, plan: &ProbePlan, _endpoint: &EndpointInfo, now: Mono) {
        self.fabric.borrow_mut().prepare(self.owner, plan, now);
    }

    fn connect(&mut self, lease: LeaseId, offer: &[u8], now: Mono) {
        self.fabric.borrow_mut().connect(self.owner, lease, offer, now);
    }

    fn start(&mut self, lease: LeaseId, now: Mono) {
        self.fabric.borrow_mut().start(self.owner, lease, now);
    }

    fn close(&mut self, lease: LeaseId, now: Mono) {
        self.fabric.borrow_mut().close(self.owner, lease, now);
    }

    fn poll(&mut self, now: Mono) -> Option<(LeaseId, TransportEvent)> {
        self.fabric.borrow_mut().poll(self.owner, now)
    }
}

impl Drop for SimTransport {
    fn drop(&mut self) {
        self.fabric.borrow_mut().vanish(self.owner);
    }
}
