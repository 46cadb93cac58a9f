//! Looking at the endpoints of the mesh: who has something, and who is to tell when something comes.

use super::{Ports, State};
use crate::mesh::watch::Watch;

impl Ports {
    /// Takes what came in at endpoints that are readable, or that something else happened to.
    pub(in crate::mesh) fn look(&mut self, readable: &dyn Fn(u64) -> bool) {
        for port in &mut self.list {
            if let State::Open(open) = &mut port.state
                && (open.fresh || readable(port.serial))
            {
                open.look();
            }
        }
    }

    /// Takes what came in since at those that have had their turn and are not to tell of it. Who has nothing is to tell again. Has anybody
    /// something?
    pub(in crate::mesh) fn look_again(&mut self, watch: &Watch) -> bool {
        let mut found = false;
        for port in &mut self.list {
            if let State::Open(open) = &mut port.state {
                found |= open.look_again(watch);
            }
        }
        found
    }

    /// Whoever is not to tell is looked at in the next turn.
    pub(in crate::mesh) fn stay_awake(&mut self) {
        for port in &mut self.list {
            if let State::Open(open) = &mut port.state {
                open.stays_awake();
            }
        }
    }
}
