//! The mesh of pings of each simulated agent: it remembers what it is told, and says what a test lets it say.

use crate::Cluster;
use rdmascope_control::agent;
use rdmascope_model::{EndpointInfo, Peer};
use rdmascope_probe::mesh::{MeshCommand, MeshEvent, MeshGrant};
use std::sync::Arc;

/// What an agent told its mesh last.
#[derive(Clone, Debug, Default)]
pub struct MeshTold {
    /// The endpoints that take part.
    pub endpoints: Vec<EndpointInfo>,
    /// The address book.
    pub book: Arc<[Peer]>,
    /// What may be sent.
    pub grant: Option<MeshGrant>,
}

impl MeshTold {
    pub(crate) fn command(&mut self, command: MeshCommand) {
        match command {
            MeshCommand::Endpoints(endpoints) => self.endpoints = endpoints,
            MeshCommand::Book(book) => self.book = book,
            MeshCommand::Grant(grant) => self.grant = grant,
        }
    }
}

impl Cluster {
    /// What the agent of a node told its mesh.
    #[must_use]
    pub fn mesh_told(&self, host: usize) -> &MeshTold {
        &self.hosts[host].mesh
    }

    /// The mesh of a node tells its agent something.
    pub fn mesh_says(&mut self, host: usize, event: MeshEvent) {
        self.tell_agent(host, agent::Event::Mesh(event));
    }
}
