//! What can go wrong in a cluster, and how it is put right again.

use crate::cluster::{Cluster, Happening, NOTICED_AFTER, healthy};
use crate::wires::{Parcel, Towards};
use rdmascope_control::agent::Event;
use rdmascope_control::coordinator::{self, Coordinator};
use rdmascope_link::{EventKind, NodeEvent, PauseFlags};
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
        self.hosts[host].cut = [true; 2];
    }

    /// Nothing gets through on one way between an agent and the coordinator, to the agent or from it, and nobody is told: a half-open
    /// connection, as a firewall that forgot it leaves it.
    pub fn cut_one_way(&mut self, host: usize, to_agent: bool) {
        self.hosts[host].cut[usize::from(!to_agent)] = true;
    }

    /// Breaks an agent's connection in mid-air (RST): both ends know at once, and what is under way is lost.
    pub fn reset(&mut self, host: usize) {
        let Some(connection) = self.hosts[host].connection else { return };
        let closed = coordinator::Event::Closed(connection);
        self.wires.forget(connection);
        if self.is_rivals(connection) {
            self.as_rival(|it| {
                it.connections.remove(&connection);
                it.tell_coordinator(closed);
            });
        } else if self.connections.remove(&connection).is_some() {
            self.tell_coordinator(closed);
        }
        if self.hosts[host].stopped {
            self.hosts[host].waiting.push_back(Happening::AtAgent(host, connection, Parcel::End));
        } else {
            self.hang_up(host);
        }
    }

    /// From now on so many frames in a million break their connection instead of arriving.
    pub fn break_connections(&mut self, per_million: u32) {
        self.breaks = per_million;
    }

    pub(crate) fn breaks_now(&mut self, parcel: &Parcel) -> bool {
        matches!(parcel, Parcel::Frame(_)) && self.random.chance(self.breaks)
    }

    /// The newest protocol version that an agent speaks from its next connection on.
    pub fn set_protocol(&mut self, host: usize, newest: u32) {
        self.hosts[host].protocol = newest;
    }

    /// Something happens on a node, of which its agent tells, while it runs; [`Cluster::event_id`] says which it was.
    pub fn event_on(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        if it.process.is_none() {
            return;
        }
        it.events[0] += 1;
        let id = Self::event_id(it.runs, it.events[0]);
        let event = NodeEvent {
            number: 0,
            at: self.host_now(host).wall,
            kind: EventKind::StateChange,
            subject: "sim0/1".to_owned(),
            id,
            before: String::new(),
            after: String::new(),
            text: "the port went down".to_owned(),
            basis: None,
        };
        self.tell_agent(host, Event::Happened(vec![event]));
    }

    /// What an event is called in the history, by the run of its agent and its number.
    #[must_use]
    pub fn event_id(run: u64, number: u64) -> String {
        format!("run-{run}-event-{number}")
    }

    /// Sets the clock of the coordinator's machine ahead by so many milliseconds. Its state follows at once where that is ahead of what it
    /// was told before, and otherwise with the next start: `Now::going_on_from` holds it.
    pub fn set_coordinator_clock(&mut self, ahead_ms: i64) {
        let [told, machine] = &mut self.coordinator_clock_ms;
        *machine = ahead_ms;
        // Both coordinators, where there are two, look at the same clock.
        let runs = self.coordinator.is_some() || self.rival.is_some();
        *told = if runs { ahead_ms.max(*told) } else { ahead_ms };
    }

    /// The way between an agent and the coordinator is open again; what was under way arrives.
    pub fn heal(&mut self, host: usize) {
        self.hosts[host].cut = [false; 2];
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
        if let Some(disk) = &mut self.disk {
            let written = self.random.below(disk.under_way() as u64 + 1);
            disk.killed(usize::try_from(written).unwrap_or(0));
        }
        for (connection, host) in std::mem::take(&mut self.connections) {
            self.send(connection, Towards::Agent, host, Parcel::End);
        }
        self.obey_coordinator();
    }

    /// Starts a coordinator with a newer epoch, which knows what is on its disk, and nothing without one.
    pub fn start_coordinator(&mut self) {
        self.epoch += 1;
        self.coordinator = Some(Coordinator::new(self.settings.clone(), self.epoch));
        if self.rival.is_none() {
            self.coordinator_clock_ms[0] = self.coordinator_clock_ms[1];
        }
        self.read_disk();
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
