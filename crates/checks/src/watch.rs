//! Shared parts of the checks that watch counters: whose counters, how far they rose, and one wording where they were seen once only.

use crate::check::Look;
use crate::finding::{is_not_ethernet, netdev_under, ok, port_subject, ports, unknown, why};
use crate::limits::Limit;
use crate::manifest::PortRole;
use crate::{Rise, Source, limits};
use rdmascope_model::{Device, Finding, Function, Netdev, Port, Reading, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A network device at the end of a cable, with the RDMA port that it carries.
pub(crate) struct Wire<'a> {
    pub(crate) device: &'a Device,
    pub(crate) port: &'a Port,
    pub(crate) name: &'a str,
    pub(crate) netdev: &'a Netdev,
}

impl Wire<'_> {
    pub(crate) fn subject(&self) -> String {
        format!("netdev {}", self.name)
    }

    /// Statistics of these names; `N` in a name stands for every priority.
    pub(crate) fn statistics(&self, names: &[&str]) -> Vec<(String, Reading<u64>)> {
        spread(names)
            .map(|name| {
                let value = match &self.netdev.statistics {
                    Reading::Value(all) => all.get(&name).map_or(Reading::Absent, |v| Reading::Value(*v)),
                    missing => missing.as_ref().map(|_| 0),
                };
                (name, value)
            })
            .collect()
    }

    /// How far statistics of these names rose within a window.
    pub(crate) fn seen(&self, look: &Look<'_>, names: &[&str], window: Duration) -> Seen {
        seen(look, &Source::Netdev(self.name.to_owned()), self.statistics(names), window)
    }

    /// A finding about this device.
    pub(crate) fn finding(&self, id: &'static str, verdict: Verdict, evidence: Vec<String>) -> Finding {
        verdict.finding(id, self.subject(), evidence)
    }
}

fn spread(names: &[&str]) -> impl Iterator<Item = String> {
    names.iter().flat_map(|name| match name.split_once("prioN") {
        Some((before, after)) => (0..8).map(|p| format!("{before}prio{p}{after}")).collect(),
        None => vec![(*name).to_owned()],
    })
}

/// Judged ports that carry RDMA traffic: no representors, no management functions, no spares.
pub(crate) fn traffic_ports<'a>(look: &Look<'a>) -> impl Iterator<Item = (&'a Device, &'a Port)> {
    let policy = look.policy;
    ports(look.now, policy).filter(move |(device, port)| {
        let expected = policy.manifest.of(device, Some(port));
        !matches!(device.function, Reading::Value(Function::Representor | Function::Management))
            && !matches!(expected.role, Some(PortRole::Management | PortRole::Ignore))
            && expected.down != Some(true)
    })
}

/// Those of them that are not known to be anything but Ethernet.
pub(crate) fn roce_ports<'a>(look: &Look<'a>) -> impl Iterator<Item = (&'a Device, &'a Port)> {
    traffic_ports(look).filter(|(_, port)| !is_not_ethernet(port))
}

/// Every network device that carries a RoCE port to its cable, once: the port's own, or the members of its bond. One that cannot be
/// looked at is its subject and the reason.
pub(crate) fn wires<'a>(look: &Look<'a>) -> Vec<Result<Wire<'a>, (String, String)>> {
    let (snapshot, mut done, mut found) = (look.now, BTreeSet::new(), Vec::new());
    for (device, port) in roce_ports(look) {
        let (name, netdev) = match netdev_under(snapshot, port) {
            Ok(known) => known,
            Err(why) => {
                found.push(Err((port_subject(device, port), why)));
                continue;
            }
        };
        let legs: Vec<&str> = match &netdev.bond {
            Reading::Value(bond) => bond.members.iter().map(|m| m.name.as_str()).collect(),
            Reading::Absent | Reading::Failed(_) => vec![name],
        };
        for name in legs.into_iter().filter(|name| done.insert(*name)) {
            let netdev = snapshot.netdevs.value().and_then(|all| all.get(name));
            let away = || (format!("netdev {name}"), "it is not in this network namespace".to_owned());
            found.push(netdev.map(|netdev| Wire { device, port, name, netdev }).ok_or_else(away));
        }
    }
    found
}

/// Judges each of [`wires`]. `what` is what cannot be read where a device cannot be looked at.
pub(crate) fn each_wire(
    look: &Look<'_>,
    id: &'static str,
    what: &str,
    one: impl Fn(&Wire<'_>) -> Vec<Finding>,
) -> Vec<Finding> {
    wires(look)
        .into_iter()
        .flat_map(|wire| match wire {
            Ok(wire) => one(&wire),
            Err((subject, why)) => vec![unknown(id, subject, what, &why)],
        })
        .collect()
}

/// The network devices of the RoCE ports themselves, once each: a bond, not its members. Those that cannot be looked at are `unknown`.
pub(crate) fn each_netdev(
    look: &Look<'_>,
    id: &'static str,
    what: &str,
    one: impl Fn(&str, &Netdev) -> Option<Finding>,
) -> Vec<Finding> {
    let mut done = BTreeSet::new();
    roce_ports(look)
        .filter_map(|(device, port)| match netdev_under(look.now, port) {
            Ok((name, netdev)) => done.insert(name).then(|| one(name, netdev)).flatten(),
            Err(why) => Some(unknown(id, port_subject(device, port), what, &why)),
        })
        .collect()
}

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

/// A judgement without its subject.
pub(crate) struct Verdict {
    pub(crate) status: Status,
    pub(crate) summary: String,
    pub(crate) cause: String,
    pub(crate) next_step: String,
}

impl Verdict {
    pub(crate) fn warn(summary: String, cause: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self { status: Status::Warn, summary, cause: cause.into(), next_step: next_step.into() }
    }

    pub(crate) fn fail(summary: String, cause: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self { status: Status::Fail, ..Self::warn(summary, cause, next_step) }
    }

    pub(crate) fn finding(self, id: &'static str, subject: String, evidence: Vec<String>) -> Finding {
        let Self { status, summary, cause, next_step } = self;
        Finding { id: id.into(), status, subject, summary, cause, next_step, evidence }
    }
}

/// What a check says of a machine that has nothing of the kind: one line that it was looked for.
pub(crate) fn or_none(findings: Vec<Finding>, id: &'static str, none: &str) -> Vec<Finding> {
    if findings.is_empty() { vec![ok(id, "machine".to_owned(), none.to_owned())] } else { findings }
}

/// `name = value`, or why there is no value.
pub(crate) fn shown<T: std::fmt::Display>(name: &str, reading: &Reading<T>) -> String {
    match reading {
        Reading::Value(v) => format!("{name} = {v}"),
        missing => format!("{name}: {}", why(missing)),
    }
}

/// The priorities of a mask, such as `3, 5`.
pub(crate) fn priorities(mask: u8) -> String {
    let list: Vec<String> = (0..8_u8).filter(|p| mask & (1 << p) != 0).map(|p| p.to_string()).collect();
    if list.is_empty() { "none".to_owned() } else { list.join(", ") }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Machines that are looked at once or twice.

    use super::*;
    use crate::{Check, Past, Policy};
    use rdmascope_fixtures::snapshot::roce;
    use rdmascope_model::{Mono, Snapshot};

    /// What a check says of a machine with one RoCE port.
    pub(crate) fn first(check: &Check, edit: impl Fn(&mut Snapshot)) -> Vec<Finding> {
        with(check, &Policy::default(), edit)
    }

    /// The same with a policy.
    pub(crate) fn with(check: &Check, policy: &Policy, edit: impl Fn(&mut Snapshot)) -> Vec<Finding> {
        let mut machine = roce(1);
        edit(&mut machine);
        (check.judge)(&Look::first(&machine, policy))
    }

    /// What it says at a second look, `seconds` later.
    pub(crate) fn again(
        check: &Check,
        seconds: u64,
        before: impl Fn(&mut Snapshot),
        after: impl Fn(&mut Snapshot),
    ) -> Vec<Finding> {
        let (mut earlier, mut now, mut past) = (roce(1), roce(1), Past::new());
        before(&mut earlier);
        after(&mut now);
        past.observe(&earlier, Mono::default());
        past.observe(&now, Mono::default().after(Duration::from_secs(seconds)));
        (check.judge)(&Look { past: &past, ..Look::first(&now, &Policy::default()) })
    }

    /// Statistics that stood at 0, `seconds` ago.
    pub(crate) fn statistics_rose(check: &Check, seconds: u64, to: &[(&str, u64)]) -> Finding {
        let zeros: Vec<_> = to.iter().map(|(name, _)| (*name, 0)).collect();
        again(check, seconds, |m| statistics(m, &zeros), |m| statistics(m, to)).remove(0)
    }

    /// Port counters that stood at 0, `seconds` ago.
    pub(crate) fn counters_rose(check: &Check, seconds: u64, to: &[(&str, u64)]) -> Finding {
        let zeros: Vec<_> = to.iter().map(|(name, _)| (*name, 0)).collect();
        again(check, seconds, |m| counters(m, &zeros), |m| counters(m, to)).remove(0)
    }

    pub(crate) fn statistics(machine: &mut Snapshot, values: &[(&str, u64)]) {
        let Reading::Value(all) = &mut eth0(machine).statistics else { panic!("no statistics") };
        all.extend(values.iter().map(|(name, v)| ((*name).to_owned(), *v)));
    }

    pub(crate) fn counters(machine: &mut Snapshot, values: &[(&str, u64)]) {
        let all = values.iter().map(|(name, v)| ((*name).to_owned(), Reading::Value(*v)));
        device(machine).ports[0].counters.extend(all);
    }

    pub(crate) fn device(machine: &mut Snapshot) -> &mut Device {
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        &mut devices[0]
    }

    pub(crate) fn eth0(machine: &mut Snapshot) -> &mut Netdev {
        netdev(machine, "eth0")
    }

    pub(crate) fn netdev<'a>(machine: &'a mut Snapshot, name: &str) -> &'a mut Netdev {
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut(name).expect("the machine has it")
    }

    pub(crate) fn dcb(machine: &mut Snapshot) -> &mut rdmascope_model::Dcb {
        let Reading::Value(dcb) = &mut eth0(machine).dcb else { panic!("no DCB") };
        dcb
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_looks_are_not_extrapolated() {
        assert!((per(1, Duration::from_secs(10), MINUTE) - 1.0).abs() < 1e-9);
        assert!((per(30, Duration::from_secs(300), MINUTE) - 6.0).abs() < 1e-9);
    }

    #[test]
    fn priorities_are_listed() {
        assert_eq!((priorities(0b10_1000).as_str(), priorities(0).as_str()), ("3, 5", "none"));
    }
}
