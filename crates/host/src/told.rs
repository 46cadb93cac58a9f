//! What only netlink tells of routes, RDMA devices and their functions: where it comes into the snapshot, and as files of a capture.

use crate::processes::{QUEUE_PAIRS, QueuePairs, queue_pairs_text};
use crate::rdma_netlink::{self, Asked};
use crate::tree::Tree;
use crate::{Host, devlink, interface, lldp, netdev, routing, rtnl, stacked, text};
use rdmascope_model::{Device, Netdev, PciFunction, Reading, Routing, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// First byte of the PCI class of network controllers, InfiniBand ones too (PCI Code and ID Assignment, 1.3).
const NETWORK: u32 = 0x02;

/// Lists that are asked of rtnetlink for the network devices: links and addresses.
const RTNL_LISTS: u64 = 2;

impl Host {
    /// Network devices: by rtnetlink on the machine that we run on, from the capture's files elsewhere.
    pub async fn netdevs(&self) -> Reading<BTreeMap<String, Netdev>> {
        let real = self.is_real();
        let mut found = if real { self.links().await } else { netdev::from_files(self.tree()) };
        if let Reading::Value(netdevs) = &mut found {
            if real {
                interface::complete(self.tree(), netdevs);
            }
            lldp::add(self.tree(), netdevs);
        }
        found
    }

    /// The same, as far as two lists of rtnetlink tell: whatever the number of devices, it costs no file.
    pub(crate) async fn links(&self) -> Reading<BTreeMap<String, Netdev>> {
        if !self.is_real() {
            return netdev::links_from_files(self.tree());
        }
        self.tree().count(RTNL_LISTS);
        rtnl::dump().await
    }

    /// Routes, policy rules and neighbours, likewise.
    pub(crate) async fn routing(&self) -> Routing {
        if self.is_real() { rtnl::routing().await } else { routing::from_files(self.tree()) }
    }

    /// Who holds the queue pairs of all RDMA devices; `Absent` where the kernel has no RDMA netlink. The kernel shows processes of
    /// our process id namespace and those below it; all others are one row without an owner for each device.
    pub async fn queue_pairs(&self) -> Reading<Vec<QueuePairs>> {
        self.part("queue pairs", |tree| rdma_netlink::queue_pairs(tree, None), Reading::Failed).await
    }

    /// Fills in whether RoCE is switched on for every function that can have it: those of network and InfiniBand controllers. All others
    /// are not offered it.
    pub(crate) async fn add_enable_roce(&self, pci: &mut Reading<BTreeMap<String, PciFunction>>) {
        let Reading::Value(functions) = pci else { return };
        let (network, others): (Vec<_>, Vec<_>) =
            functions.iter_mut().partition(|(_, function)| is_network(function));
        for (_, function) in others {
            function.enable_roce = Reading::Absent;
        }
        let addresses: Vec<String> = network.iter().map(|(address, _)| (*address).clone()).collect();
        let ask = move |tree: &Tree| {
            Reading::Value(
                addresses.iter().map(|address| devlink::enable_roce(tree, address)).collect::<Vec<_>>(),
            )
        };
        match self.part("RoCE switches", ask, Reading::Failed).await {
            Reading::Value(answers) => {
                for ((_, function), answer) in network.into_iter().zip(answers) {
                    function.enable_roce = answer;
                }
            }
            missing => {
                let why = missing.why_missing().unwrap_or_default();
                network.into_iter().for_each(|(_, function)| function.enable_roce = Reading::failed(why));
            }
        }
    }
}

/// A function of which it is not known may be one.
fn is_network(function: &PciFunction) -> bool {
    function.class.value().is_none_or(|class| class >> 16 == NETWORK)
}

/// RDMA netlink for the ports of a device on the machine that we run on; `None` where it is not there, and in a capture: sysfs then has
/// less, and costs more.
pub(crate) fn rdma_netlink(tree: &Tree) -> Option<Asked> {
    match tree.is_real().then(|| {
        tree.count(1);
        Asked::connect(tree)
    }) {
        Some(Reading::Value(asked)) => Some(asked),
        _ => None,
    }
}

/// What devlink tells of the function under a device. A software device has none, but its network device may stand on one of
/// another bus; a capture does not keep that.
pub(crate) fn add_devlink(tree: &Tree, device: &mut Device) {
    device.devlink = match &device.pci_address {
        Reading::Value(address) => devlink::devlink(tree, address),
        Reading::Absent => match below_netdev(tree, device) {
            Some((bus, name)) if tree.is_real() => devlink::asked(&bus, &name),
            _ => Reading::Absent,
        },
        Reading::Failed(why) => Reading::Failed(why.clone()),
    };
}

/// Bus and name of the device that a software device's network device belongs to.
fn below_netdev(tree: &Tree, device: &Device) -> Option<(String, String)> {
    let netdev = device.ports.iter().find_map(|port| port.netdev.value())?;
    let below = format!("sys/class/net/{netdev}/device");
    let bus = tree.target_name(&format!("{below}/subsystem")).value().cloned()?;
    Some((bus, tree.target_name(&below).value().cloned()?))
}

/// The files in which a capture keeps what netlink told of the machine: path below the root, and text. What could not be read is left
/// out. What netlink and ioctls tell of one network device is in [`crate::netdev_files`].
#[must_use]
pub fn told_files(snapshot: &Snapshot, queue_pairs: &Reading<Vec<QueuePairs>>) -> Vec<(String, String)> {
    let mut files = routing::to_files(&snapshot.routing);
    let table = text::file(queue_pairs, |table| queue_pairs_text(table));
    files.extend(table.map(|table| (QUEUE_PAIRS.to_owned(), table)));
    files.extend(rdma_netlink::shared_file(&snapshot.system.rdma_shared));
    for (name, netdev) in snapshot.netdevs.value().into_iter().flatten() {
        files.extend(stacked::to_file(name, netdev));
        files.extend(lldp::to_file(name, &netdev.lldp));
    }
    let devices = snapshot.devices.value().into_iter().flatten();
    let by_address: BTreeMap<&String, &Device> =
        devices.filter_map(|device| Some((device.pci_address.value()?, device))).collect();
    let functions = snapshot.pci.value();
    let network = functions.into_iter().flatten().filter(|(_, function)| is_network(function));
    let addresses: BTreeSet<&String> =
        network.map(|(address, _)| address).chain(by_address.keys().copied()).collect();
    for address in addresses {
        let unread = Reading::failed("nobody asked");
        let devlink = by_address.get(address).map_or(&unread, |device| &device.devlink);
        let function = functions.and_then(|all| all.get(address));
        let enable_roce =
            function.map_or(unread.clone().map(|_| false), |function| function.enable_roce.clone());
        files.extend(devlink::to_files(address, devlink, &enable_roce));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortMtu;
    use rdmascope_fixtures::{FakeHost, snapshot};
    use rdmascope_model::{Lldp, Neighbour};

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn what_a_capture_was_given_is_what_it_tells() {
        let mut given = snapshot::roce(2);
        let unresolved =
            Neighbour { ip: "192.0.2.9".parse().unwrap(), netdev: "eth0".into(), state: "FAILED".into() };
        given.routing.unresolved = Reading::Value(vec![unresolved]);
        let Reading::Value(netdevs) = &mut given.netdevs else { panic!("the machine has network devices") };
        let neighbour = Lldp {
            system: Reading::Value("leaf-12".into()),
            port: Reading::Value("Ethernet1/7".into()),
            frame_bytes_max: Reading::Value(9216),
            pfc: Reading::Value(8),
            age_seconds: 7,
        };
        netdevs.get_mut("eth1").unwrap().lldp = Reading::Value(neighbour);
        let row = |pid, name: &str, count| QueuePairs {
            device: "mlx5_0".into(),
            port: 1,
            pid,
            name: name.into(),
            count,
        };
        let queue_pairs = Reading::Value(vec![row(Some(0), "ib_core", 1), row(Some(4711), "python3", 300)]);
        let fake = FakeHost::mlx5(2);
        for (path, text) in told_files(&given, &queue_pairs) {
            fake.folder().write(&path, &text);
        }
        let host = Host::new(fake.root().to_owned()).unwrap();
        assert_eq!(run(host.queue_pairs()), queue_pairs);
        let seen = run(host.snapshot(|_, _| PortMtu::failed("")));
        assert_eq!(seen.routing, given.routing);
        assert_eq!(seen.system.rdma_shared, given.system.rdma_shared);
        let told = |snapshot: &Snapshot, name: &str| {
            let netdev = &snapshot.netdevs.value().unwrap()[name];
            (netdev.kind.clone(), netdev.parent.clone(), netdev.lldp.clone())
        };
        for name in ["eth0", "eth1"] {
            assert_eq!(told(&seen, name), told(&given, name), "{name}");
        }
        let devlink = |snapshot: &Snapshot| {
            let devices = snapshot.devices.value().unwrap().iter();
            devices.map(|device| device.devlink.clone()).collect::<Vec<_>>()
        };
        assert_eq!(devlink(&seen), devlink(&given));
        let mut pci = given.pci.clone();
        let Reading::Value(functions) = &mut pci else { panic!("the machine has functions") };
        functions.values_mut().for_each(|function| function.enable_roce = Reading::failed("not read"));
        run(host.add_enable_roce(&mut pci));
        assert_eq!(pci, given.pci);
    }

    #[test]
    fn a_capture_that_was_told_nothing_says_so() {
        let fake = FakeHost::mlx5(1);
        for file in ["routes", "rdma/queue_pairs"] {
            fake.folder().remove(&format!("rdmascope/{file}"));
        }
        let host = Host::new(fake.root().to_owned()).unwrap();
        let seen = run(host.snapshot(|_, _| PortMtu::failed("")));
        assert!(
            matches!(seen.routing.routes, Reading::Failed(why) if why.contains("not part of this capture"))
        );
        assert!(matches!(run(host.queue_pairs()), Reading::Failed(_)));
        host.reading.lock().unwrap().insert("queue pairs".to_owned());
        assert!(matches!(run(host.queue_pairs()), Reading::Failed(why) if why.contains("still stuck")));
    }

    #[test]
    fn this_machine_is_asked_without_an_error() {
        // Whatever it has of RDMA netlink and devlink: none of both is a legitimate state, an error is not.
        let host = Host::here().unwrap();
        let queue_pairs = run(host.queue_pairs());
        assert!(!matches!(queue_pairs, Reading::Failed(_)), "{queue_pairs:?}");
        let shared = rdma_netlink::shared(host.tree());
        assert!(!matches!(shared, Reading::Failed(_)), "{shared:?}");
    }
}
