//! What can go wrong in a cluster, and how it is put right again.

use crate::cluster::{Cluster, Happening, NOTICED_AFTER, healthy};
use crate::wires::{Parcel, Towards};
use rdmascope_control::agent::Event;
use rdmascope_control::coordinator::Coordinator;
use rdmascope_link::PauseFlags;
use rdmascope_model::{Cause, EndpointInfo};
use std::collections::VecDeque;

impl Cluster {
    /// Kills an agent's process: its connection and its probes are gone at once.
    pub fn kill_agent(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        it.process = None;
        it.stopped = false;
        it.waiting.clear();
        self.mesh_ends(host);
        let it = &mut self.hosts[host];
        if let Some(connection) = it.connection.take() {
            self.send(connection, Towards::Coordinator, host, Parcel::End);
        }
        self.fabric_changed(|_| {});
    }

    /// Stops an agent's process (SIGSTOP): its connection stays open, and it does nothing.
    pub fn stop_agent(&mut self, host: usize) {
        self.hosts[host].stopped = true;
        self.set_process_stopped(host, true);
    }

    /// Lets a stopped process go on: timers first, then what has arrived since.
    pub fn resume_agent(&mut self, host: usize) {
        self.hosts[host].stopped = false;
        self.set_process_stopped(host, false);
        self.tell_agent(host, Event::Tick);
        self.hear_transport(host);
        for happening in std::mem::take(&mut self.hosts[host].waiting) {
            self.at(self.now, happening);
        }
    }

    fn set_process_stopped(&mut self, host: usize, stopped: bool) {
        let now = self.now;
        let owner = self.hosts[host].process.as_ref().map(|(_, transport)| transport.owner());
        if let Some(owner) = owner {
            self.fabric.borrow_mut().set_stopped(owner, stopped, now);
        }
        self.set_fabric_wakeup();
    }

    /// Nothing gets through between an agent and the coordinator, and nobody is told.
    pub fn partition(&mut self, host: usize) {
        self.hosts[host].partitioned = true;
    }

    /// The way between an agent and the coordinator is open again; what was under way arrives.
    pub fn heal(&mut self, host: usize) {
        self.hosts[host].partitioned = false;
        let held_up: VecDeque<_> = std::mem::take(&mut self.hosts[host].held_up);
        for happening in held_up {
            self.at(self.now, happening);
        }
    }

    /// Somebody uses a node's ports, for good.
    pub fn make_busy(&mut self, host: usize) {
        self.tell_agent(host, Event::Idle(std::collections::BTreeMap::new()));
    }

    /// Changes what a node's agent finds its endpoint to be.
    pub fn change_endpoint(&mut self, host: usize, change: impl FnOnce(&mut EndpointInfo)) {
        if let Some(endpoint) = self.hosts[host].endpoints.first_mut() {
            change(endpoint);
        }
        self.after(NOTICED_AFTER, Happening::Look(host));
    }

    /// Cuts the cable of a node's port.
    pub fn port_down(&mut self, host: usize) {
        let name = self.endpoint(host);
        let now = self.now;
        self.fabric_changed(|fabric| fabric.set_up(&name, false, now));
        let endpoint = self.hosts[host].endpoints.iter_mut().find(|e| e.name == name);
        endpoint.into_iter().for_each(|endpoint| {
            endpoint.unusable = Some(Cause::PortDown);
            endpoint.unusable_detail = "state DOWN".to_owned();
        });
        self.after(NOTICED_AFTER, Happening::Look(host));
    }

    /// Plugs the cable in again.
    pub fn port_up(&mut self, host: usize) {
        let name = self.endpoint(host);
        let now = self.now;
        self.fabric_changed(|fabric| fabric.set_up(&name, true, now));
        self.hosts[host].endpoints = vec![healthy(name)];
        self.after(NOTICED_AFTER, Happening::Look(host));
    }

    /// Removes a node's RDMA device.
    pub fn remove_device(&mut self, host: usize) {
        let name = self.endpoint(host);
        let now = self.now;
        self.fabric_changed(|fabric| fabric.unplug(&name, now));
        self.hosts[host].endpoints.clear();
        self.after(NOTICED_AFTER, Happening::Look(host));
    }

    /// Brings a node's RDMA device back.
    pub fn add_device(&mut self, host: usize) {
        let endpoint = healthy(self.endpoint(host));
        self.fabric.borrow_mut().plug(&endpoint.name, endpoint.rate_bps.unwrap_or_default());
        self.hosts[host].endpoints = vec![endpoint];
        self.after(NOTICED_AFTER, Happening::Look(host));
    }

    /// Nothing arrives between two nodes' ports, which are both well.
    pub fn block_path(&mut self, a: usize, b: usize, blocked: bool) {
        let (a, b, now) = (self.endpoint(a), self.endpoint(b), self.now);
        self.fabric_changed(|fabric| fabric.set_blocked(&a, &b, blocked, now));
    }

    /// A job takes a node's device, or lets it go.
    pub fn hold(&mut self, host: usize, holder: Option<&str>) {
        self.hosts[host].holder = holder.map(str::to_owned);
    }

    /// Sets a node's clock ahead by so many milliseconds.
    pub fn set_clock(&mut self, host: usize, ahead_ms: i64) {
        self.hosts[host].clock_ms = ahead_ms;
    }

    /// A node's local pause file appears or goes.
    pub fn pause_locally(&mut self, host: usize, flags: PauseFlags) {
        self.tell_agent(host, Event::LocalPause(flags));
    }

    /// Kills the coordinator: every connection ends.
    pub fn kill_coordinator(&mut self) {
        self.coordinator = None;
        for (connection, host) in std::mem::take(&mut self.connections) {
            self.send(connection, Towards::Agent, host, Parcel::End);
        }
        self.obey_coordinator();
    }

    /// Starts a coordinator that knows nothing, with a newer epoch.
    pub fn start_coordinator(&mut self) {
        self.epoch += 1;
        self.coordinator = Some(Coordinator::new(self.settings.clone(), self.epoch));
    }

    /// Does something to the fabric and what follows from it.
    fn fabric_changed(&mut self, change: impl FnOnce(&mut crate::Fabric)) {
        let mut fabric = self.fabric.borrow_mut();
        change(&mut fabric);
        fabric.broken(self.now);
        drop(fabric);
        self.set_fabric_wakeup();
    }
}
