//! Who hears what, and what they do about it: frames go out as bytes, actions are carried out, timers are set anew.

use crate::cluster::{Cluster, Happening};
use crate::wires::{Parcel, Towards};
use rdmascope_control::agent::{self, Agent};
use rdmascope_control::coordinator::{self, ConnectionId, Coordinator};
use rdmascope_link::{ToAgent, ToCoordinator};
use rdmascope_model::{LeaseId, Now, Wall};
use rdmascope_probe::mesh::MeshCommand;
use rdmascope_transport::Transport;
use std::time::Duration;

/// An agent dials again after so long, and up to so much more, milliseconds.
const REDIAL_MS: (u64, u64) = (200, 2_800);

/// An agent looks for so long who holds a device: some hundred queue pairs and small files.
const LOOK_TAKES: Duration = Duration::from_millis(3);

impl Cluster {
    pub(crate) fn host_now(&self, host: usize) -> Now {
        let now = self.now();
        let ahead = self.hosts[host].clock_ms - self.coordinator_clock_ms[0];
        Now { wall: Wall(now.wall.0.saturating_add_signed(ahead)), ..now }
    }

    pub(crate) fn dial(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        if it.process.is_none() || it.connection.is_some() {
            return;
        }
        let there = self.coordinator.is_some() || self.rival.is_some();
        if it.stopped || it.cut != [false; 2] || !there {
            return self.redial(host);
        }
        self.connections_made += 1;
        let connection = ConnectionId(self.connections_made);
        it.connection = Some(connection);
        let rivals = self.rival.is_some() && (self.coordinator.is_none() || self.random.chance(500_000));
        if rivals {
            self.as_rival(|it| {
                it.connections.insert(connection, host);
            });
        } else {
            self.connections.insert(connection, host);
        }
        self.tell_agent(host, agent::Event::Connected);
    }

    fn redial(&mut self, host: usize) {
        let delay = REDIAL_MS.0 + self.random.below(REDIAL_MS.1);
        self.after(Duration::from_millis(delay), Happening::Dial(host));
    }

    pub(crate) fn look(&mut self, host: usize) {
        if self.hosts[host].stopped {
            self.hosts[host].waiting.push_back(Happening::Look(host));
            return;
        }
        let endpoints = self.hosts[host].endpoints.clone();
        let idle = endpoints.iter().map(|endpoint| (endpoint.name.clone(), Ok(()))).collect();
        let findings = self.hosts[host].findings.clone();
        self.tell_agent(host, agent::Event::Inventory { endpoints, findings });
        self.tell_agent(host, agent::Event::Idle(idle));
    }

    pub(crate) fn looked(&mut self, host: usize, lease: LeaseId) {
        let it = &mut self.hosts[host];
        if it.stopped {
            it.waiting.push_back(Happening::Looked(host, lease));
            return;
        }
        let free = it.holder.clone().map_or(Ok(()), Err);
        self.tell_agent(host, agent::Event::Looked(lease, free));
    }

    pub(crate) fn at_agent(&mut self, host: usize, connection: ConnectionId, parcel: Parcel) {
        let it = &mut self.hosts[host];
        if it.cut[0] {
            it.held_up.push_back(Happening::AtAgent(host, connection, parcel));
        } else if it.stopped {
            it.waiting.push_back(Happening::AtAgent(host, connection, parcel));
        } else if it.connection == Some(connection) {
            if self.breaks_now(&parcel) {
                return self.reset(host);
            }
            match parcel {
                Parcel::Frame(bytes) => self.frame_to_agent(host, &bytes),
                Parcel::End => self.hang_up(host),
            }
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "a frame that its own program cannot read is a fault of that program"
    )]
    fn frame_to_agent(&mut self, host: usize, bytes: &[u8]) {
        let frame =
            ToAgent::decode(bytes).expect("an agent can read what a coordinator of its version writes");
        self.audit_frame(host, &frame);
        self.tell_agent(host, agent::Event::Frame(frame));
        self.audit_epoch(host);
    }

    /// The agent's connection is over.
    pub(crate) fn hang_up(&mut self, host: usize) {
        if self.hosts[host].connection.take().is_some() {
            self.tell_agent(host, agent::Event::Disconnected);
            self.redial(host);
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "a frame that its own program cannot read is a fault of that program"
    )]
    pub(crate) fn at_coordinator(&mut self, connection: ConnectionId, parcel: Parcel) {
        if self.is_rivals(connection) {
            return self.as_rival(|it| it.at_coordinator(connection, parcel));
        }
        let Some(&host) = self.connections.get(&connection) else { return };
        if self.hosts[host].cut[1] {
            self.hosts[host].held_up.push_back(Happening::AtCoordinator(connection, parcel));
            return;
        }
        if self.breaks_now(&parcel) {
            return self.reset(host);
        }
        let event = match parcel {
            Parcel::Frame(bytes) => {
                let frame = ToCoordinator::decode(&bytes).expect("a coordinator can read what agents write");
                coordinator::Event::Frame(connection, frame)
            }
            Parcel::End => {
                self.connections.remove(&connection);
                self.wires.forget(connection);
                coordinator::Event::Closed(connection)
            }
        };
        self.tell_coordinator(event);
    }

    pub(crate) fn send(&mut self, connection: ConnectionId, towards: Towards, host: usize, parcel: Parcel) {
        let at = self.wires.arrival(connection, towards, &mut self.random, self.now);
        let happening = match towards {
            Towards::Agent => Happening::AtAgent(host, connection, parcel),
            Towards::Coordinator => Happening::AtCoordinator(connection, parcel),
        };
        self.at(at, happening);
    }

    pub(crate) fn tell_agent(&mut self, host: usize, event: agent::Event) {
        let now = self.host_now(host);
        if let Some((agent, _)) = &mut self.hosts[host].process {
            agent.handle(event, now);
        }
        self.obey_agent(host);
    }

    /// Does what an agent says, and remembers when it wants to be woken.
    fn obey_agent(&mut self, host: usize) {
        let now = self.now;
        while let Some((agent, transport)) = &mut self.hosts[host].process
            && let Some(action) = agent.poll_action()
        {
            match action {
                agent::Action::Send(mut frame) => {
                    if let ToCoordinator::Hello(hello) = &mut frame {
                        hello.protocol_max = hello.protocol_max.min(self.hosts[host].protocol);
                    }
                    if let Some(connection) = self.hosts[host].connection {
                        self.send(connection, Towards::Coordinator, host, Parcel::Frame(frame.encode()));
                    }
                }
                agent::Action::Disconnect(_) => {
                    if let Some(connection) = self.hosts[host].connection {
                        self.send(connection, Towards::Coordinator, host, Parcel::End);
                    }
                    self.hang_up(host);
                }
                agent::Action::Prepare(plan, endpoint) => {
                    transport.prepare(&plan, &endpoint, now);
                    self.audit_probe(host, plan.lease, "prepares");
                }
                agent::Action::Connect(lease, offer) => transport.connect(lease, &offer, now),
                agent::Action::Look(lease, _) => self.after(LOOK_TAKES, Happening::Looked(host, lease)),
                agent::Action::Start(lease) => {
                    transport.start(lease, now);
                    self.audit_probe(host, lease, "starts");
                }
                agent::Action::Close(lease) => transport.close(lease, now),
                agent::Action::Mesh(command) => {
                    if let MeshCommand::Grant(grant) = &command {
                        self.audit_grant(host, *grant);
                    }
                    self.mesh_command(host, command);
                }
                // No scheduler runs on a simulated node.
                agent::Action::Drain(_) => {}
            }
        }
        let wanted = self.agent(host).and_then(Agent::next_wakeup);
        let before = self.hosts[host].wakeup;
        if before.map(|key| key.0) != wanted {
            before.and_then(|key| self.queue.remove(&key));
            self.hosts[host].wakeup = wanted.map(|at| self.at(at, Happening::WakeAgent(host)));
        }
        self.set_fabric_wakeup();
    }

    pub(crate) fn tell_coordinator(&mut self, event: coordinator::Event) {
        let now = self.now();
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.handle(event, now);
        }
        self.obey_coordinator();
    }

    pub(crate) fn wake_coordinator(&mut self) {
        self.coordinator_wakeup = None;
        self.tell_coordinator(coordinator::Event::Tick);
    }

    /// Does what the coordinator says, and remembers when it wants to be woken.
    pub(crate) fn obey_coordinator(&mut self) {
        while let Some(action) = self.coordinator.as_mut().and_then(Coordinator::poll_action) {
            match action {
                coordinator::Action::Send(connection, frame) => {
                    if let Some(&host) = self.connections.get(&connection) {
                        self.send(connection, Towards::Agent, host, Parcel::Frame(frame.encode()));
                    }
                }
                coordinator::Action::Close(connection, _) => {
                    if let Some(host) = self.connections.remove(&connection) {
                        self.send(connection, Towards::Agent, host, Parcel::End);
                        self.wires.forget(connection);
                        let (now, closed) = (self.now(), coordinator::Event::Closed(connection));
                        self.coordinator.iter_mut().for_each(|c| c.handle(closed.clone(), now));
                    }
                }
                coordinator::Action::Keep(rows, then) => self.keep((rows, then)),
                coordinator::Action::Probed(_)
                | coordinator::Action::Refused(_)
                | coordinator::Action::KeepNotes => {}
            }
        }
        let wanted = self.coordinator.as_ref().and_then(Coordinator::next_wakeup);
        assert!(
            wanted.is_none_or(|at| at > self.now),
            "the coordinator asks to be woken at once, again and again"
        );
        if self.coordinator_wakeup.map(|key| key.0) != wanted {
            self.coordinator_wakeup.and_then(|key| self.queue.remove(&key));
            let wake = if self.rivals_turn { Happening::WakeRival } else { Happening::WakeCoordinator };
            self.coordinator_wakeup = wanted.map(|at| self.at(at, wake.clone()));
        }
    }

    /// Agents hear what became of their probes.
    pub(crate) fn hear_fabric(&mut self) {
        let owners = self.fabric.borrow_mut().advance(self.now);
        let due: Vec<usize> = (0..self.hosts.len())
            .filter(|&host| {
                let owner = self.hosts[host].process.as_ref().map(|(_, transport)| transport.owner());
                owner.is_some_and(|owner| owners.contains(&owner)) && !self.hosts[host].stopped
            })
            .collect();
        due.into_iter().for_each(|host| self.hear_transport(host));
    }

    pub(crate) fn hear_transport(&mut self, host: usize) {
        while let Some((_, transport)) = &mut self.hosts[host].process
            && let Some((lease, event)) = transport.poll(self.now)
        {
            self.tell_agent(host, agent::Event::Transport(lease, event));
        }
    }

    pub(crate) fn set_fabric_wakeup(&mut self) {
        let due = self.fabric.borrow().next_due();
        if self.fabric_wakeup.map(|key| key.0) != due {
            self.fabric_wakeup.and_then(|key| self.queue.remove(&key));
            self.fabric_wakeup = due.map(|at| self.at(at, Happening::Fabric));
        }
    }
}
