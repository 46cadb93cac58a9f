//! All counters of one port that a probe can move, read alone, so that they can stand before and after it.

use crate::parse;
use crate::rdma::CLASS;
use crate::text::statistics;
use crate::tree::Tree;
use crate::{Host, nic};
use rdmascope_checks::counters::{CATALOGUE, Meaning, add_up};
use rdmascope_model::{Effects, EndpointInfo, PerPriority, Reading};
use rdmascope_sys::{StatisticNames, StatisticsSocket};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// mlx5 counts pauses in microseconds (NVIDIA's counter description).
const NANOSECONDS_PER_UNIT: u64 = 1_000;

/// Priorities of a port.
const PRIORITIES: usize = 8;

/// Statistics of each priority, as the catalogue names them.
const PER_PRIORITY: [&str; 5] =
    ["rx_prioN_pause", "rx_prioN_pause_duration", "tx_prioN_pause", "tx_prioN_packets", "rx_prioN_packets"];

/// Packets that the port threw away for want of buffers: what came in, and what was to go out.
const DISCARDS: [&str; 2] = ["rx_discards_phy", "tx_discards_phy"];

/// Reads the counters of ports again and again.
pub struct PortCounters {
    host: Host,
    /// By network device. Taken out while it is used, so that a driver that hangs holds up nobody else.
    known: Mutex<BTreeMap<String, Known>>,
}

/// Where a device's statistics stand in its list.
#[derive(Default)]
struct Known {
    names: StatisticNames,
    version: u64,
    places: Places<usize>,
}

/// A place or a value for each statistic that is wanted; `None` where the driver has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places<T> {
    per_priority: [[Option<T>; PRIORITIES]; PER_PRIORITY.len()],
    discards: [Option<T>; DISCARDS.len()],
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self {
            per_priority: std::array::from_fn(|_| std::array::from_fn(|_| None)),
            discards: [const { None }; 2],
        }
    }
}

impl PortCounters {
    /// Of this machine.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self { host, known: Mutex::default() }
    }

    /// What the port of an endpoint has counted since its driver was loaded. `None`: the driver does not count it, or it could not be
    /// read now. Of pauses, a driver names only priorities that have flow control: the others count as 0 beside them.
    #[must_use]
    pub fn read(&self, endpoint: &EndpointInfo) -> Effects {
        let (device, port) = (&endpoint.name.device, endpoint.name.port);
        let folder = |name| self.host.tree().folder(&format!("{CLASS}/{device}/ports/{port}/{name}"));
        let (hardware, counters) = (folder("hw_counters"), folder("counters"));
        let one = |folder: &Reading<Tree>, name| known(folder, name).value().copied();
        let netdev = endpoint.netdev.as_deref().map(|netdev| self.statistics(netdev)).unwrap_or_default();
        let [paused, paused_for, pauses, sent, received] = netdev.per_priority.map(priorities);
        let discards = netdev.discards.into_iter().chain([one(&counters, "port_xmit_discards")]).flatten();
        Effects {
            retransmits: self.host.read_retransmits(device, port).value().copied(),
            congestion_notifications_sent: one(&hardware, "np_cnp_sent"),
            congestion_notifications_handled: one(&hardware, "rp_cnp_handled"),
            congestion_marked: one(&hardware, "np_ecn_marked_roce_packets"),
            discards: discards.reduce(u64::wrapping_add),
            pause_received: paused,
            pause_received_ns: paused_for
                .map(|all| PerPriority(all.0.map(|t| t.wrapping_mul(NANOSECONDS_PER_UNIT)))),
            pause_sent: pauses,
            packets_sent: sent,
            packets_received: received,
            processor_ns: None,
        }
    }

    /// The driver's statistics of a network device; nothing where they cannot be read.
    fn statistics(&self, netdev: &str) -> Places<u64> {
        if !self.host.is_real() {
            let captured = nic::captured(&self.host, netdev, "statistics", statistics::read);
            return captured
                .value()
                .map_or_else(Places::default, |all| Places::of(|name| all.get(name).copied()));
        }
        let taken = || self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(netdev);
        let mut known = taken().unwrap_or_default();
        let values = StatisticsSocket::open().and_then(|socket| socket.read_values(netdev, &mut known.names));
        if known.version != known.names.version() {
            known.version = known.names.version();
            let places: BTreeMap<&str, usize> =
                known.names.names().iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
            known.places = Places::of(|name| places.get(name).copied());
        }
        let read = values.map_or_else(|_| Places::default(), |values| known.places.values(&values));
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(netdev.to_owned(), known);
        read
    }
}

impl<T: Copy> Places<T> {
    /// Looks up each statistic by its name.
    fn of(look: impl Fn(&str) -> Option<T>) -> Self {
        let numbered = |name: &str, priority: usize| look(&name.replace('N', &priority.to_string()));
        Self {
            per_priority: PER_PRIORITY.map(|name| std::array::from_fn(|priority| numbered(name, priority))),
            discards: DISCARDS.map(&look),
        }
    }
}

impl Places<usize> {
    fn values(&self, values: &[u64]) -> Places<u64> {
        let value = |place: Option<usize>| values.get(place?).copied();
        Places {
            per_priority: self.per_priority.map(|all| all.map(value)),
            discards: self.discards.map(value),
        }
    }
}

/// Known when at least one of them is.
fn priorities(values: [Option<u64>; PRIORITIES]) -> Option<PerPriority> {
    values.iter().any(Option::is_some).then(|| PerPriority(values.map(Option::unwrap_or_default)))
}

/// One counter of a folder.
fn known(folder: &Reading<Tree>, name: &str) -> Reading<u64> {
    match folder {
        Reading::Value(folder) => parse::known(folder.parsed(name, parse::counter)),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why.clone()),
    }
}

impl Host {
    /// How often a port began to send again, read now from its own few files alone.
    #[must_use]
    pub fn read_retransmits(&self, device: &str, port: u8) -> Reading<u64> {
        let base = format!("{CLASS}/{device}/ports/{port}/hw_counters");
        match self.tree().folder(&base) {
            Reading::Value(folder) => {
                let rows = CATALOGUE.iter().filter(|r| r.meaning == Meaning::Resent);
                add_up(rows.map(|r| parse::known(folder.parsed(r.name, parse::counter))))
            }
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_checks::counters::{Place, find};

    #[test]
    fn every_name_that_is_read_is_in_the_catalogue() {
        let per_priority = PER_PRIORITY.iter().map(|name| name.replace('N', "3"));
        for name in per_priority.chain(DISCARDS.map(str::to_owned)) {
            assert!(find(Place::Netdev, &name).is_some(), "{name}");
        }
        for name in ["np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets"] {
            assert!(find(Place::Hardware, name).is_some(), "{name}");
        }
        assert!(find(Place::Port, "port_xmit_discards").is_some());
    }

    #[test]
    fn what_the_driver_does_not_name_is_unknown_and_what_it_names_is_found_by_its_place() {
        let names = ["rx_prio3_pause", "tx_discards_phy", "tx_prio0_packets"];
        let places = Places::of(|name| names.iter().position(|known| *known == name));
        let values = places.values(&[7, 5, 9]);
        let [paused, paused_for, _, sent, received] = values.per_priority.map(priorities);
        assert_eq!(paused, Some(PerPriority([0, 0, 0, 7, 0, 0, 0, 0])));
        assert_eq!((paused_for, received), (None, None));
        assert_eq!(sent.map(|all| all.0[0]), Some(9));
        assert_eq!(values.discards, [None, Some(5)]);
        assert_eq!(places.values(&[]), Places::default(), "a list that became shorter tells nothing");
    }
}
