//! How far several counters rose together, as a sum, a rate or a share, and one wording where they were seen once only: then nothing can be
//! said. One counter whose total alone is evidence is in [`crate::motion`].

use crate::check::Look;
use crate::finding::{ok, unknown};
use crate::limits::Limit;
use crate::verdict::Verdict;
use crate::{Rise, Source, limits};
use rdmascope_model::{Device, Finding, Port, Reading};
use std::collections::BTreeMap;
use std::time::Duration;

/// Port counters of these names.
pub(crate) fn port_counters(port: &Port, names: &[&str]) -> Vec<(String, Reading<u64>)> {
    let folder = port.counters.get("hw_counters/").filter(|folder| matches!(folder, Reading::Failed(_)));
    let value = |name: &&str| {
        let value = folder.or_else(|| port.counters.get(*name)).cloned().unwrap_or(Reading::Absent);
        ((*name).to_owned(), value)
    };
    names.iter().map(value).collect()
}

/// How far counters of a port rose within a window.
pub(crate) fn seen_at_port(
    look: &Look<'_>,
    (device, port): (&Device, &Port),
    names: &[&str],
    window: Duration,
) -> Seen {
    seen(look, &Source::Port(device.name.clone(), port.number), port_counters(port, names), window)
}

/// Packets of a port within a window, from the first counter that tells: RDMA alone where the driver has that.
pub(crate) fn packets(
    look: &Look<'_>,
    (device, port): (&Device, &Port),
    direction: Direction,
    window: Duration,
) -> Option<(&'static str, u64)> {
    let (of_netdev, of_port): (&'static str, [&'static str; 3]) = match direction {
        Direction::Sent => {
            ("tx_vport_rdma_unicast_packets", ["rdma_tx_packets", "sent_pkts", "port_xmit_packets"])
        }
        Direction::Received => {
            ("rx_vport_rdma_unicast_packets", ["rdma_rx_packets", "rcvd_pkts", "port_rcv_packets"])
        }
    };
    let rise = |source: &Source, name: &'static str| match look.past.rise(source, name, window) {
        Rise::By(count, _) => Some((name, count)),
        Rise::Saturated(_) | Rise::Unknown(_) => None,
    };
    let netdev = port.netdev.value().map(|name| Source::Netdev(name.clone()));
    let at_port = Source::Port(device.name.clone(), port.number);
    let of_vport = netdev.and_then(|source| rise(&source, of_netdev));
    of_vport.or_else(|| of_port.into_iter().find_map(|name| rise(&at_port, name)))
}

/// Which way packets went.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    Sent,
    Received,
}

/// What came of watching some counters.
pub(crate) enum Seen {
    /// The driver has none of them.
    NotCounted,
    /// One of them could not be read.
    Failed(String),
    /// Their totals; how fast they rise is not known.
    Once(BTreeMap<String, u64>),
    /// They were seen at least twice.
    Moved(Moved),
}

/// How far counters rose.
pub(crate) struct Moved {
    pub(crate) rises: BTreeMap<String, u64>,
    pub(crate) over: Duration,
}

impl Moved {
    pub(crate) fn of(&self, name: &str) -> u64 {
        self.rises.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self) -> u64 {
        self.rises.values().sum()
    }

    /// Rise of all per `unit`. What was watched for less than a unit is not extrapolated: one event in ten seconds is one a minute.
    pub(crate) fn per(&self, unit: Duration) -> f64 {
        per(self.total(), self.over, unit)
    }

    /// Share of the time, for counters in microseconds.
    pub(crate) fn share_of_time(&self, name: &str) -> f64 {
        self.of(name) as f64 / self.over.as_micros().max(1) as f64
    }

    /// Those that rose, as evidence.
    pub(crate) fn evidence(&self) -> Vec<String> {
        let over = self.over.as_secs();
        self.rises.iter().filter(|(_, v)| **v > 0).map(|(k, v)| format!("{k} = +{v} in {over} s")).collect()
    }
}

/// Rate per `unit`, not extrapolated beyond what was watched.
pub(crate) fn per(count: u64, over: Duration, unit: Duration) -> f64 {
    count as f64 * unit.as_secs_f64() / over.max(unit).as_secs_f64()
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// The window of congestion and rates.
pub(crate) fn window(look: &Look<'_>) -> Duration {
    span(look, &limits::CONGESTION_WINDOW_SECONDS)
}

/// A limit in seconds as a time.
pub(crate) fn span(look: &Look<'_>, limit: &Limit) -> Duration {
    Duration::from_secs(u64::from(look.policy.whole(limit)))
}

/// Watches counters of one source.
pub(crate) fn seen(
    look: &Look<'_>,
    source: &Source,
    counters: Vec<(String, Reading<u64>)>,
    window: Duration,
) -> Seen {
    let (mut totals, mut rises, mut over) = (BTreeMap::new(), BTreeMap::new(), Duration::ZERO);
    for (name, reading) in counters {
        match reading {
            Reading::Absent => {}
            Reading::Failed(why) => return Seen::Failed(format!("{name}: {why}")),
            Reading::Value(total) => {
                if let Rise::By(count, within) = look.past.rise(source, &name, window) {
                    rises.insert(name.clone(), count);
                    over = over.max(within);
                }
                totals.insert(name, total);
            }
        }
    }
    match (totals.is_empty(), rises.is_empty()) {
        (true, _) => Seen::NotCounted,
        (false, true) => Seen::Once(totals),
        (false, false) => Seen::Moved(Moved { rises, over }),
    }
}

/// Judges what came of watching: one wording for what was seen once only, for all checks.
pub(crate) fn by_rate(
    id: &'static str,
    subject: String,
    what: &str,
    seen: Seen,
    verdict: impl FnOnce(&Moved) -> Option<Verdict>,
) -> Finding {
    match seen {
        Seen::NotCounted => ok(id, subject, format!("{what}: this driver does not count them")),
        Seen::Failed(why) => unknown(id, subject, &format!("counters of {what}"), &why),
        Seen::Once(totals) => once(id, subject, what, &totals),
        Seen::Moved(moved) => match verdict(&moved) {
            Some(verdict) => verdict.finding(id, subject, moved.evidence()),
            None => {
                let summary = format!("{what}: {} in {} s", moved.total(), moved.over.as_secs());
                Finding { evidence: moved.evidence(), ..ok(id, subject, summary) }
            }
        },
    }
}

/// Counters that were seen once only: fine as far as one can tell.
pub(crate) fn once(id: &'static str, subject: String, what: &str, totals: &BTreeMap<String, u64>) -> Finding {
    let summary = format!("{what}: counters read; how fast they rise is not known after one look");
    let evidence = totals.iter().filter(|(_, v)| **v > 0).map(|(k, v)| format!("{k} = {v}")).collect();
    Finding { evidence, ..ok(id, subject, summary) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_looks_are_not_extrapolated() {
        assert!((per(1, Duration::from_secs(10), MINUTE) - 1.0).abs() < 1e-9);
        assert!((per(30, Duration::from_secs(300), MINUTE) - 6.0).abs() < 1e-9);
    }
}
