//! Every number that a judgement depends on, once: name, default, unit and the reason for it.
//!
//! `config/policy.yaml` is made from this list; a config may give other values under the same names. Checks and, through the checks'
//! own metric, the alerts use no other numbers.

mod link;
mod load;

pub use link::*;
pub use load::*;

use std::collections::BTreeMap;

/// One number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Its name in the config.
    pub name: &'static str,
    /// Value where nobody has said otherwise.
    pub default: f64,
    /// Unit, for people.
    pub unit: &'static str,
    /// Why this value.
    pub reason: &'static str,
    /// Heading under which it stands in `config/policy.yaml`.
    pub group: &'static str,
}

impl Limit {
    const fn new(
        group: &'static str,
        name: &'static str,
        default: f64,
        unit: &'static str,
        reason: &'static str,
    ) -> Self {
        Self { name, default, unit, reason, group }
    }
}

/// All of them, in the order of the policy file.
pub const LIMITS: &[Limit] = &[
    NETDEV_MTU,
    RDMA_MTU,
    SETTLE_POLLS,
    SETTLE_SECONDS,
    BOOT_GRACE_SECONDS,
    FLAPS_WARN_PER_HOUR,
    FLAPS_FAIL_PER_HOUR,
    FLAPS_FAIL_PER_DAY,
    LOG_WINDOW_SECONDS,
    RECENT_CHANGE_SECONDS,
    SYMBOL_ERRORS_WARN_PER_SECOND,
    SYMBOL_ERRORS_FAIL_PER_HOUR,
    LINK_RECOVERIES_WARN_PER_MINUTE,
    RECEIVE_ERRORS_WARN_PER_SECOND,
    TRANSMIT_DISCARDS_WARN_PER_SECOND,
    MANAGEMENT_DROPS_WARN_PER_HOUR,
    REMOTE_ERRORS_WARN_PER_HOUR,
    TRANSMIT_WAIT_WARN_SHARE,
    RETRANSMIT_MINIMUM_PACKETS,
    RETRANSMITS_WARN_RATIO,
    RETRANSMITS_FAIL_RATIO,
    RETRANSMITS_BASELINE_FACTOR,
    ACK_TIMEOUTS_WARN_PER_MINUTE,
    OUT_OF_SEQUENCE_WARN_RATIO,
    RNR_NAKS_WARN_PER_SECOND,
    ADAPTIVE_RETRANSMITS_WARN_PER_SECOND,
    SLOW_RESTARTS_WARN_PER_SECOND,
    OUT_OF_BUFFER_WARN_PER_SECOND,
    DIED_CONNECTIONS_WINDOW_SECONDS,
    PAUSE_RECEIVED_WARN_SHARE,
    PAUSE_RECEIVED_FAIL_SHARE,
    PAUSE_SENT_WARN_SHARE,
    PAUSE_SENT_FAIL_SHARE,
    PAUSE_STORM_TRANSITIONS_PER_SECOND,
    ECN_MARKED_WARN_SHARE,
    CONGESTION_WINDOW_SECONDS,
    ECN_MARKED_WARN_TOTAL,
    SYMBOL_ERRORS_AFTER_FEC_WARN_PER_HOUR,
    SYMBOL_ERRORS_AFTER_FEC_FAIL_PER_MINUTE,
    CRC_ERRORS_WARN_PER_MINUTE,
    BIT_ERROR_RATIO_WARN,
    BIT_ERROR_RATIO_FAIL,
    DISCARDS_WARN_PER_SECOND,
    DISCARDS_FAIL_TOTAL,
    MODULE_TEMPERATURE_MARGIN_MC,
    MODULE_POWER_MARGIN_RATIO,
    FEC_WARN_FROM_MBPS,
    PCI_REPLAYS_WARN_PER_MINUTE,
    PCI_STALLED_WARN_PER_5MIN,
    PCI_SIGNAL_WARN_PER_MINUTE,
    MEMLOCK_BYTES,
    IDLE_EXIT_WARN_US,
    MEMORY_WARN_BYTES,
    ISSM_NODES_EXPECTED,
];

/// The values that are in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    given: BTreeMap<&'static str, f64>,
}

impl Limits {
    /// The value in force.
    #[must_use]
    pub fn get(&self, limit: &Limit) -> f64 {
        self.given.get(limit.name).copied().unwrap_or(limit.default)
    }

    /// Sets a value; false when there is no limit of that name, or the value is no number that is zero or more.
    pub fn set(&mut self, name: &str, value: f64) -> bool {
        let known =
            LIMITS.iter().find(|limit| limit.name == name).filter(|_| value.is_finite() && value >= 0.0);
        if let Some(limit) = known {
            self.given.insert(limit.name, value);
        }
        known.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_values_can_be_given() {
        let names: std::collections::BTreeSet<_> = LIMITS.iter().map(|limit| limit.name).collect();
        assert_eq!(names.len(), LIMITS.len());
        let mut limits = Limits::default();
        assert!((limits.get(&NETDEV_MTU) - 9000.0).abs() < f64::EPSILON);
        assert!(limits.set("netdev_mtu", 4220.0));
        assert!((limits.get(&NETDEV_MTU) - 4220.0).abs() < f64::EPSILON);
        assert!(
            !limits.set("netdev_mtus", 1.0)
                && !limits.set("rdma_mtu", -1.0)
                && !limits.set("rdma_mtu", f64::NAN)
        );
    }
}
