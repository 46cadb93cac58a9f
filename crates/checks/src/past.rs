//! What is remembered of a machine: how its counters moved within the last minutes, hours and the last day, and which slot a GID had.

use rdmascope_model::{Mono, Reading, Snapshot};
use std::collections::BTreeMap;
use std::time::Duration;

/// Whose counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A port of an RDMA device: `counters/` and `hw_counters/`.
    Port(String, u8),
    /// A network device: `ethtool -S`, and `carrier_changes`, `carrier_down_count`, `tx_bytes`, `rx_bytes`.
    Netdev(String),
    /// A PCI function: its AER counters, such as `correctable/BadTLP`.
    Pci(String),
}

/// How far a counter rose within a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rise {
    /// So many, within so long: the window, or as much of it as is remembered.
    By(u64, Duration),
    /// It stands at its largest value and cannot rise any more: what happens is not counted.
    Saturated(u64),
    /// Not known: seen once only, not there, not readable, or reset in between; the text says which.
    Unknown(String),
}

/// The memory. It holds the counters of the catalogue alone, thinned out with their age.
#[derive(Clone, Debug, Default)]
pub struct Past {
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    at: Mono,
    values: BTreeMap<Source, BTreeMap<String, u64>>,
}

impl Past {
    /// Nothing is remembered yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { samples: Vec::new() }
    }

    /// Remembers the counters of a snapshot.
    pub fn observe(&mut self, snapshot: &Snapshot, at: Mono) {
        let mut values: BTreeMap<Source, BTreeMap<String, u64>> = BTreeMap::new();
        for device in snapshot.devices.value().into_iter().flatten() {
            for port in &device.ports {
                let known = port.counters.iter().filter_map(|(name, v)| Some((name.clone(), *v.value()?)));
                values.insert(Source::Port(device.name.clone(), port.number), known.collect());
            }
        }
        for (name, netdev) in snapshot.netdevs.value().into_iter().flatten() {
            let mut known = netdev.statistics.value().cloned().unwrap_or_default();
            let mut put = |name: &str, value: Option<u64>| {
                if let Some(value) = value {
                    known.insert(name.to_owned(), value);
                }
            };
            put("carrier_changes", netdev.carrier_changes.value().map(|v| u64::from(*v)));
            put("carrier_down_count", netdev.carrier_down_count.value().map(|v| u64::from(*v)));
            put("tx_bytes", netdev.tx_bytes.value().copied());
            put("rx_bytes", netdev.rx_bytes.value().copied());
            values.insert(Source::Netdev(name.clone()), known);
        }
        for (address, function) in snapshot.pci.value().into_iter().flatten() {
            if let Reading::Value(errors) = &function.errors {
                values.insert(Source::Pci(address.clone()), errors.clone());
            }
        }
        self.samples.push(Sample { at, values });
    }

    /// How far a counter rose within the last `window`.
    #[must_use]
    pub fn rise(&self, source: &Source, counter: &str, window: Duration) -> Rise {
        let Some(last) = self.samples.last() else { return Rise::Unknown("nothing was seen yet".to_owned()) };
        let value = |sample: &Sample| sample.values.get(source).and_then(|v| v.get(counter)).copied();
        let Some(now) = value(last) else { return Rise::Unknown(format!("there is no {counter}")) };
        let first = self.samples.iter().find(|s| last.at.since(s.at) <= window && s.at != last.at);
        let Some((at, before)) = first.and_then(|s| Some((s.at, value(s)?))) else {
            return Rise::Unknown("seen once only: how fast it rises is not known yet".to_owned());
        };
        match now.checked_sub(before) {
            Some(count) => Rise::By(count, last.at.since(at)),
            None => Rise::Unknown(format!("{counter} went back: it was reset")),
        }
    }
}
