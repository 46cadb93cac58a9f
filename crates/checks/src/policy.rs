//! What is expected of a machine where nobody has said otherwise; every number with its reason.

/// Expectations that the checks judge by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Devices that are judged; each must be there. Empty: all that the kernel lists.
    pub devices: Vec<String>,
    /// MTU of a network device that carries RoCE, bytes. 9000 is what operators set for jumbo frames; clouds use other values
    /// (4220, 8896), so it is a matter of policy and not of health.
    pub netdev_mtu: u32,
    /// RDMA MTU, bytes. 4096 is the largest there is, and every current adapter does it; at 1024 the headers take 5 % of the line
    /// rate more.
    pub rdma_mtu: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self { devices: Vec::new(), netdev_mtu: 9000, rdma_mtu: 4096 }
    }
}

impl Policy {
    /// Whether a device is judged.
    pub(crate) fn judges(&self, device: &str) -> bool {
        self.devices.is_empty() || self.devices.iter().any(|name| name == device)
    }
}
