//! What can be asked of a batch: one row for each limit, with its name on the command line, its unit and its meaning.

use std::fmt;

/// In which direction a limit binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// What is seen must be this much, or more.
    AtLeast,
    /// What is seen must be this much, or less.
    AtMost,
    /// It says what is measured, and judges nothing.
    Says,
}

/// One thing that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Rate of each port.
    Rate,
    /// Active RDMA MTU of each port.
    Mtu,
    /// Message of the latency stage.
    LatencyBytes,
    /// Median latency.
    Latency,
    /// Median latency over that of the batch's better quarter.
    LatencyOfBatch,
    /// 99th percentile of latency.
    P99,
    /// Message of the goodput stage.
    GoodputBytes,
    /// Goodput over its ceiling.
    Goodput,
    /// Goodput over that of the batch's better quarter.
    GoodputOfBatch,
    /// Packets that one pair sends again.
    Retransmits,
    /// Goodput of all senders of an incast together over the ceiling.
    Incast,
    /// Packets that all senders of an incast send again.
    IncastRetransmits,
}

impl Limit {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 12] = [
        Self::Rate,
        Self::Mtu,
        Self::LatencyBytes,
        Self::Latency,
        Self::LatencyOfBatch,
        Self::P99,
        Self::GoodputBytes,
        Self::Goodput,
        Self::GoodputOfBatch,
        Self::Retransmits,
        Self::Incast,
        Self::IncastRetransmits,
    ];

    /// Name on the command line and in reports, unit, sense, and meaning.
    fn row(self) -> (&'static str, &'static str, Sense, &'static str) {
        use Sense::{AtLeast, AtMost, Says};
        match self {
            Self::Rate => ("rate", "Gbit/s", AtLeast, "rate of each port"),
            Self::Mtu => ("mtu", "bytes", AtLeast, "active RDMA MTU of each port"),
            Self::LatencyBytes => ("latency-bytes", "bytes", Says, "message of the latency stage"),
            Self::Latency => ("latency", "µs", AtMost, "median half round trip"),
            Self::LatencyOfBatch => (
                "latency-of-batch",
                "times",
                AtMost,
                "median half round trip over that of the better quarter",
            ),
            Self::P99 => ("p99", "µs", AtMost, "99th percentile of half round trips"),
            Self::GoodputBytes => ("goodput-bytes", "bytes", Says, "message of the goodput stage"),
            Self::Goodput => ("goodput", "%", AtLeast, "goodput over its ceiling at the expected MTU"),
            Self::GoodputOfBatch => {
                ("goodput-of-batch", "%", AtLeast, "goodput over that of the better quarter")
            }
            Self::Retransmits => ("retransmits", "packets", AtMost, "sent again by one pair in one stage"),
            Self::Incast => ("incast", "%", AtLeast, "goodput of an incast over the receiver's ceiling"),
            Self::IncastRetransmits => {
                ("incast-retransmits", "packets", AtMost, "sent again by all senders of an incast")
            }
        }
    }

    /// Its name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The unit of its number.
    #[must_use]
    pub fn unit(self) -> &'static str {
        self.row().1
    }

    /// In which direction it binds.
    #[must_use]
    pub fn sense(self) -> Sense {
        self.row().2
    }

    /// What it is about.
    #[must_use]
    pub fn text(self) -> &'static str {
        self.row().3
    }

    /// The limit of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// Whether something keeps to a number of this limit.
    #[must_use]
    pub fn holds(self, asked: f64, seen: f64) -> bool {
        match self.sense() {
            Sense::AtLeast => seen >= asked,
            Sense::AtMost => seen <= asked,
            Sense::Says => true,
        }
    }

    /// Where it is missed, by how much: 1 is hardly, 2 is twice as bad.
    #[must_use]
    pub fn excess(self, asked: f64, seen: f64) -> f64 {
        match self.sense() {
            Sense::AtLeast => asked / seen.max(1e-9),
            Sense::AtMost | Sense::Says => seen / asked.max(1.0),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A number for each limit; `None`: anything will do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits([Option<f64>; Limit::ALL.len()]);

impl Limits {
    /// Nothing is asked.
    pub const NONE: Self = Self([None; Limit::ALL.len()]);

    /// The same with another number for a limit.
    #[must_use]
    pub const fn with(mut self, limit: Limit, number: Option<f64>) -> Self {
        self.0[limit as usize] = number;
        self
    }

    /// The number of a limit, in its unit.
    #[must_use]
    pub fn get(&self, limit: Limit) -> Option<f64> {
        self.0[limit as usize]
    }

    /// Bytes of one message of a stage, `usual` where nothing is said.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
    pub fn bytes(&self, limit: Limit, usual: u32) -> u32 {
        self.get(limit).map_or(usual, |bytes| bytes.clamp(1.0, f64::from(u32::MAX)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_stands_at_its_place_and_has_a_name_of_its_own() {
        for (at, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, at, "{limit}");
            assert_eq!(Limit::from_name(limit.name()), Some(limit));
        }
        assert_eq!(Limit::from_name("speed"), None);
    }

    #[test]
    fn a_limit_binds_in_its_direction() {
        assert!(Limit::Latency.holds(5.0, 5.0) && !Limit::Latency.holds(5.0, 5.1));
        assert!(Limit::Goodput.holds(97.0, 97.0) && !Limit::Goodput.holds(97.0, 96.9));
        assert!((Limit::Latency.excess(5.0, 10.0) - 2.0).abs() < 1e-9);
        assert!((Limit::Goodput.excess(97.0, 48.5) - 2.0).abs() < 1e-9);
    }
}
