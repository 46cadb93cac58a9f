//! What is broken about the way between two ports, beyond what is broken at a port: one label, one direction, large packets, classes.

use crate::fabric::Fabric;
use rdmascope_model::EndpointName;
use std::collections::{BTreeMap, BTreeSet};

type Direction = (EndpointName, EndpointName);

/// What one path label adds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LabelFault {
    /// To a half round trip, nanoseconds.
    pub(crate) delay_ns: u64,
    /// Packets lost in a million.
    pub(crate) loss: u32,
}

/// All such faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathFaults {
    labels: BTreeMap<(Direction, u32), LabelFault>,
    loss: BTreeMap<Direction, u32>,
    no_large: BTreeSet<Direction>,
    class_ignored: BTreeSet<EndpointName>,
}

impl PathFaults {
    pub(crate) fn label(&self, a: &EndpointName, b: &EndpointName, label: u32) -> LabelFault {
        let fault =
            |a: &EndpointName, b: &EndpointName| self.labels.get(&((a.clone(), b.clone()), label)).copied();
        fault(a, b).or_else(|| fault(b, a)).unwrap_or_default()
    }

    /// Packets lost in a million from one port to another.
    pub(crate) fn loss(&self, from: &EndpointName, to: &EndpointName) -> u32 {
        self.loss.get(&(from.clone(), to.clone())).copied().unwrap_or(0)
    }

    pub(crate) fn large_arrive(&self, from: &EndpointName, to: &EndpointName) -> bool {
        !self.no_large.contains(&(from.clone(), to.clone()))
    }

    pub(crate) fn honours_class(&self, port: &EndpointName) -> bool {
        !self.class_ignored.contains(port)
    }
}

impl Fabric {
    /// Delays, and loses, what takes the path of one label between two ports; either way.
    pub fn set_label_fault(
        &mut self,
        a: &EndpointName,
        b: &EndpointName,
        label: u32,
        delay_ns: u64,
        loss: u32,
    ) {
        self.paths.labels.insert(((a.clone(), b.clone()), label), LabelFault { delay_ns, loss });
    }

    /// Loses so many packets in a million from one port to another, and none on the way back.
    pub fn set_direction_loss(&mut self, from: &EndpointName, to: &EndpointName, per_million: u32) {
        self.paths.loss.insert((from.clone(), to.clone()), per_million);
    }

    /// Lets no packet of the full MTU through from one port to another.
    pub fn lose_large(&mut self, from: &EndpointName, to: &EndpointName) {
        self.paths.no_large.insert((from.clone(), to.clone()));
    }

    /// Sends everything from a port in class 0, whatever was asked for.
    pub fn ignore_class(&mut self, port: &EndpointName) {
        self.paths.class_ignored.insert(port.clone());
    }
}
