//! Reads parts of the machine again, each as often as it deserves, into the snapshot that is there.
//!
//! Reading and taking over are two steps: the first may wait for the kernel, the second is short, so that a snapshot that others
//! look at is never held while a driver does not answer.

use crate::crew::Unfinished;
use crate::snapshot::{Host, MtuOf, THIS_DEVICE};
use crate::{Clock, Traffic, rdma, told};
use rdmascope_model::{Device, Netdev, PortState, Reading, Snapshot, Wall};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::mem::replace;
use std::sync::Arc;
use std::time::Duration;

/// What is read together. How often is the caller's to say; the design's times stand beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The logical state and the traffic of every known port: 1 s.
    State,
    /// Counters of every known port; network devices by netlink with their carrier changes and bytes: 10 s.
    Counters,
    /// `ethtool -S` of every network device under a port: 30 s.
    Statistics,
    /// What an event may have changed: all devices with their GID tables, network devices, addresses.
    Event,
    /// Everything, also modules: 60 s.
    Slow,
}

impl Tier {
    /// All of them, the most frequent first.
    pub const ALL: [Self; 5] = [Self::State, Self::Counters, Self::Statistics, Self::Event, Self::Slow];

    /// The word used in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Counters => "counters",
            Self::Statistics => "statistics",
            Self::Event => "event",
            Self::Slow => "slow",
        }
    }

    /// How long one device may take. State is looked at every second: one device must not keep the others from being seen.
    fn deadline(self) -> Duration {
        match self {
            Self::State => Duration::from_millis(500),
            Self::Counters | Self::Statistics | Self::Event | Self::Slow => Duration::from_secs(5),
        }
    }
}

/// Marks the reading of a device's state, which goes on beside a longer reading of the same device.
const STATE_ALONE: &str = "state of ";

/// What a tier gave, before it is taken over.
#[derive(Debug)]
pub struct Fresh {
    at: Wall,
    part: Part,
}

#[derive(Debug)]
enum Part {
    States(BTreeMap<(String, u8), (Reading<PortState>, Reading<Traffic>)>),
    Counters(BTreeMap<(String, u8), BTreeMap<String, Reading<u64>>>, Netdevs),
    Statistics(BTreeMap<String, Reading<BTreeMap<String, u64>>>),
    Event(Reading<Vec<Device>>, Netdevs),
    Everything(Box<Snapshot>),
}

type Netdevs = Reading<BTreeMap<String, Netdev>>;

/// A port that is known: device, number, network device.
type Known = (u8, Option<String>);

impl Host {
    /// Reads one tier of the machine as it was seen before; of `snapshot` only names are taken, before the future begins.
    pub fn refresh(
        &self,
        snapshot: &Snapshot,
        tier: Tier,
        mtu_of: &Arc<MtuOf>,
    ) -> impl Future<Output = Fresh> + Send + use<> {
        let known = match tier {
            Tier::State | Tier::Counters | Tier::Statistics => known(snapshot),
            Tier::Event | Tier::Slow => Vec::new(),
        };
        let (host, mtu_of) = (self.clone(), Arc::clone(mtu_of));
        async move {
            let at = Clock::new().now().wall;
            let part = match tier {
                Tier::State => Part::States(host.states(known).await),
                Tier::Counters => Part::Counters(host.counters(known).await, host.links().await),
                Tier::Statistics => Part::Statistics(host.statistics(&netdevs_of(known)).await),
                Tier::Event => Part::Event(host.devices(&mtu_of).await, host.links().await),
                Tier::Slow => Part::Everything(Box::new(host.everything(&mtu_of).await)),
            };
            Fresh { at, part }
        }
    }

    async fn states(
        &self,
        known: Vec<(String, Vec<Known>)>,
    ) -> BTreeMap<(String, u8), (Reading<PortState>, Reading<Traffic>)> {
        let read = |host: &Self, device: &str, ports: &[Known]| {
            let state = |(port, netdev): &Known| {
                (host.port_state(device, *port), host.traffic(device, *port, netdev.as_deref()))
            };
            ports.iter().map(state).collect()
        };
        // Half a second may pass on a machine that is busy; the next look, a second later, finds it stuck or done.
        let words = |why: Unfinished| why.words(THIS_DEVICE);
        let failed = |why: Unfinished| {
            let late = matches!(why, Unfinished::Late(_));
            (!late).then(|| (Reading::Failed(words(why)), Reading::Failed(words(why))))
        };
        self.each_port(known, Tier::State, read, failed).await
    }

    async fn counters(
        &self,
        known: Vec<(String, Vec<Known>)>,
    ) -> BTreeMap<(String, u8), BTreeMap<String, Reading<u64>>> {
        let read = |host: &Self, device: &str, ports: &[Known]| {
            let asked = told::rdma_netlink(host.tree());
            let counters = |(port, _): &Known| {
                rdma::counters(host.tree(), device, *port, host.resting(), asked.as_ref())
            };
            ports.iter().map(counters).collect()
        };
        let failed = |why: Unfinished| {
            Some(BTreeMap::from([("hw_counters/".to_owned(), Reading::Failed(why.words(THIS_DEVICE)))]))
        };
        self.each_port(known, Tier::Counters, read, failed).await
    }

    /// Asks something of all ports of each device. Where a device does not answer, `failed` says what stands for its ports: nothing leaves them as
    /// they are.
    async fn each_port<T: Send + 'static>(
        &self,
        known: Vec<(String, Vec<Known>)>,
        tier: Tier,
        read: impl Fn(&Self, &str, &[Known]) -> Vec<T> + Send + Sync + 'static,
        failed: impl Fn(Unfinished) -> Option<T>,
    ) -> BTreeMap<(String, u8), T> {
        let beside = if tier == Tier::State { STATE_ALONE } else { "" };
        let name = |(device, ports): &(String, Vec<Known>)| {
            (device.clone(), ports.iter().map(|(number, _)| *number).collect::<Vec<u8>>())
        };
        let names: Vec<_> = known.iter().map(name).collect();
        let jobs = known.into_iter().map(|job| (beside.to_owned() + &job.0, job)).collect();
        let of_device = move |host: &Self, (device, ports): (String, Vec<Known>)| read(host, &device, &ports);
        let answers = self.read_all(jobs, tier.deadline(), of_device).await;
        let mut all = BTreeMap::new();
        for ((device, numbers), answer) in names.into_iter().zip(answers) {
            let values = match answer {
                Ok(values) => values,
                Err(why) => numbers.iter().filter_map(|_| failed(why)).collect(),
            };
            all.extend(numbers.into_iter().map(|number| (device.clone(), number)).zip(values));
        }
        all
    }
}

fn known(snapshot: &Snapshot) -> Vec<(String, Vec<Known>)> {
    let devices = snapshot.devices.value().into_iter().flatten();
    let ports = |device: &Device| {
        device.ports.iter().map(|port| (port.number, port.netdev.value().cloned())).collect()
    };
    devices.map(|device| (device.name.clone(), ports(device))).collect()
}

fn netdevs_of(known: Vec<(String, Vec<Known>)>) -> Vec<String> {
    let all: BTreeSet<String> =
        known.into_iter().flat_map(|(_, ports)| ports).filter_map(|(_, netdev)| netdev).collect();
    all.into_iter().collect()
}

impl Fresh {
    /// What the ports have moved; known after [`Tier::State`] alone.
    #[must_use]
    pub fn traffic(&self, device: &str, port: u8) -> Option<&Reading<Traffic>> {
        match &self.part {
            Part::States(states) => states.get(&(device.to_owned(), port)).map(|(_, traffic)| traffic),
            _ => None,
        }
    }

    /// The states of the ports are older than those of `snapshot`: those stay.
    pub fn keep_states(&mut self, snapshot: &Snapshot) {
        let devices = match &mut self.part {
            Part::Event(devices, _) => devices,
            Part::Everything(new) => &mut new.devices,
            Part::States(_) | Part::Counters(..) | Part::Statistics(_) => return,
        };
        let (Reading::Value(new), Some(old)) = (devices, snapshot.devices.value()) else { return };
        for device in new {
            let Some(seen) = old.iter().find(|seen| seen.name == device.name) else { continue };
            for port in &mut device.ports {
                if let Some(seen) = seen.ports.iter().find(|seen| seen.number == port.number) {
                    port.state.clone_from(&seen.state);
                }
            }
        }
    }

    /// A network device that carries RDMA has come, of which more must be read than this tier does: everything is to be read.
    #[must_use]
    pub fn needs_more(&self, snapshot: &Snapshot) -> bool {
        let Part::Event(Reading::Value(devices), Reading::Value(links)) = &self.part else { return false };
        let known = snapshot.netdevs.value();
        let carries = devices.iter().flat_map(|device| &device.ports).filter_map(|port| port.netdev.value());
        let is_new = |name: &String| !known.is_some_and(|known| known.contains_key(name));
        carries.into_iter().any(|name| links.contains_key(name) && is_new(name))
    }

    /// Leaves out devices that are being removed.
    pub fn without(&mut self, leaving: &BTreeSet<String>) {
        let devices = match &mut self.part {
            Part::Event(devices, _) => devices,
            Part::Everything(new) => &mut new.devices,
            Part::States(_) | Part::Counters(..) | Part::Statistics(_) => return,
        };
        if let Reading::Value(devices) = devices {
            devices.retain(|device| !leaving.contains(&device.name));
        }
    }

    /// Takes it over; true when something is not what it was.
    pub fn apply(self, snapshot: &mut Snapshot) -> bool {
        snapshot.taken_at = self.at;
        match self.part {
            Part::States(mut states) => of_each_port(snapshot, |device, port| {
                let Some((state, _)) = states.remove(&(device.to_owned(), port.number)) else { return false };
                replace(&mut port.state, state.clone()) != state
            }),
            Part::Counters(mut counters, netdevs) => {
                let counted = of_each_port(snapshot, |device, port| {
                    let Some(new) = counters.remove(&(device.to_owned(), port.number)) else { return false };
                    let changed = port.counters != new;
                    port.counters = new;
                    changed
                });
                take_links(&mut snapshot.netdevs, netdevs) | counted
            }
            Part::Statistics(statistics) => {
                let Reading::Value(netdevs) = &mut snapshot.netdevs else { return false };
                let mut changed = false;
                for (name, new) in statistics {
                    if let Some(netdev) = netdevs.get_mut(&name) {
                        changed |= netdev.statistics != new;
                        netdev.statistics = new;
                    }
                }
                changed
            }
            Part::Event(devices, netdevs) => {
                let changed = snapshot.devices != devices;
                snapshot.devices = devices;
                take_links(&mut snapshot.netdevs, netdevs) | changed
            }
            Part::Everything(new) => {
                let new = Snapshot { taken_at: self.at, ..*new };
                let changed = *snapshot != new;
                *snapshot = new;
                changed
            }
        }
    }
}

fn of_each_port(
    snapshot: &mut Snapshot,
    mut take: impl FnMut(&str, &mut rdmascope_model::Port) -> bool,
) -> bool {
    let Reading::Value(devices) = &mut snapshot.devices else { return false };
    let mut changed = false;
    for device in devices {
        for port in &mut device.ports {
            changed |= take(&device.name, port);
        }
    }
    changed
}

/// Takes over what rtnetlink tells of links; what slower readers found out of a device stays.
fn take_links(old: &mut Netdevs, new: Netdevs) -> bool {
    let (Reading::Value(known), Reading::Value(new)) = (&mut *old, new.as_ref()) else {
        let changed = *old != new;
        *old = new;
        return changed;
    };
    let before = known.len();
    known.retain(|name, _| new.contains_key(name));
    let mut changed = known.len() != before;
    for (name, link) in new {
        // One that has just come waits until everything is read: half of it would look like a machine that cannot be read.
        if let Some(netdev) = known.get_mut(name) {
            changed |= take_link(netdev, link);
        }
    }
    changed
}

fn take_link(netdev: &mut Netdev, link: &Netdev) -> bool {
    fn take<T: Clone + PartialEq>(old: &mut T, new: &T) -> bool {
        let changed = old != new;
        if changed {
            old.clone_from(new);
        }
        changed
    }
    take(&mut netdev.index, &link.index)
        | take(&mut netdev.mtu, &link.mtu)
        | take(&mut netdev.oper_state, &link.oper_state)
        | take(&mut netdev.admin_up, &link.admin_up)
        | take(&mut netdev.carrier, &link.carrier)
        | take(&mut netdev.carrier_changes, &link.carrier_changes)
        | take(&mut netdev.carrier_down_count, &link.carrier_down_count)
        | take(&mut netdev.tx_bytes, &link.tx_bytes)
        | take(&mut netdev.rx_bytes, &link.rx_bytes)
        | take(&mut netdev.addresses, &link.addresses)
        | take(&mut netdev.master, &link.master)
}

#[cfg(test)]
mod tests;
