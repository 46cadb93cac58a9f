//! What is expected of a machine: which devices, the numbers, and what operators pinned.

use crate::limits::{Limit, Limits};
use crate::log::Rules;
use crate::manifest::{Manifest, PortRole};
use rdmascope_model::{Device, Port};

/// Expectations that the checks judge by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Devices that are judged; each must be there. Empty: all that the kernel lists.
    pub devices: Vec<String>,
    /// The numbers.
    pub limits: Limits,
    /// What lines of the kernel log mean: the built-in rules and the operators' own.
    pub rules: Rules,
    /// What operators expect of each port.
    pub manifest: Manifest,
    /// Names of processes that should use RDMA; `*` stands for any letters. One that holds no queue pair is a finding.
    pub workloads: Vec<String>,
    /// We judge from inside a workload's container: what only the host's namespaces show is not asked for.
    pub in_container: bool,
}

impl Policy {
    /// A number.
    #[must_use]
    pub fn limit(&self, limit: &Limit) -> f64 {
        self.limits.get(limit)
    }

    /// A number that is whole, such as a size in bytes.
    #[must_use]
    pub fn whole(&self, limit: &Limit) -> u32 {
        // Limits are zero or more; a float beyond the range becomes its end.
        self.limit(limit) as u32
    }

    /// Whether a device is judged: at least one of its ports is not to be ignored.
    pub(crate) fn judges(&self, device: &Device) -> bool {
        let named = self.devices.is_empty() || self.devices.contains(&device.name);
        let ignored = |port: Option<&Port>| self.manifest.of(device, port).role == Some(PortRole::Ignore);
        let all_ignored = match device.ports.as_slice() {
            [] => ignored(None),
            ports => ports.iter().all(|port| ignored(Some(port))),
        };
        named && !all_ignored
    }
}
