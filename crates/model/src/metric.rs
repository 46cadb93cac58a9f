//! What a cell of the matrix can hold.

use std::fmt;
use std::str::FromStr;

/// A quantity that is measured per pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Half round trip of an RC RDMA write, nanoseconds.
    Latency,
    /// RC RDMA write goodput, bits per second.
    Bandwidth,
    /// UD pings: network round trip in nanoseconds, and loss in each direction.
    Ping,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Latency, Self::Bandwidth, Self::Ping];

    /// The word used on the command line and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Ping => "ping",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// There is no such metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMetric(String);

impl fmt::Display for UnknownMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no metric '{}'; there are: latency, bandwidth, ping", self.0)
    }
}

impl std::error::Error for UnknownMetric {}

impl FromStr for Metric {
    type Err = UnknownMetric;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|m| m.as_str() == text)
            .ok_or_else(|| UnknownMetric(text.chars().take(40).collect()))
    }
}
