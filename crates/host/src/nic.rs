//! What only the driver of a network device tells: link settings, statistics, module, data centre bridging, ECN.
//!
//! Each of these calls may wait for firmware or for the kernel's lock of network devices, so each device has a deadline, and one
//! that hangs costs itself. Only devices that matter are asked: those of an RDMA port and those with hardware behind them, never thousands of veths.

use crate::crew::Unfinished;
use crate::netdev::CLASS;
use crate::nl::{self, NOT_SUPPORTED, Socket};
use crate::text::{self, Fields};
use crate::{Host, ecn};
use rdmascope_model::{Dcb, Device, Ecn, Ethtool, Module, Netdev, Reading};
use rdmascope_sys::StatisticsSocket;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long one device may take. A module of five pages takes a quarter of a second at most.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long a snapshot goes on showing the same reading of a module: it is read byte by byte over a slow bus, under the lock that the
/// configuration of all network devices waits for.
const MODULE_AGE_MAX: Duration = Duration::from_secs(60);

/// Modules as they were last read, by network device.
pub(crate) type Modules = Mutex<BTreeMap<String, (Instant, Reading<Module>)>>;

/// Statistics by name, as far as the counter catalogue knows them.
type Statistics = BTreeMap<String, u64>;

/// All that is asked of one device, but for its module.
pub(crate) struct Details {
    pub(crate) ethtool: Ethtool,
    pub(crate) statistics: Reading<Statistics>,
    pub(crate) dcb: Reading<Dcb>,
    ecn: Ecn,
}

impl Host {
    /// Driver statistics (`ethtool -S`) of the named network devices, read now: those that the counter catalogue knows. `Absent` where
    /// a driver has none.
    pub async fn statistics(&self, netdevs: &[String]) -> BTreeMap<String, Reading<Statistics>> {
        self.each("statistics", netdevs, statistics, Reading::Failed).await
    }

    /// Transceivers and cables of the named network devices, read now. Slow: ask once a minute at most. `Absent` where there is none.
    pub async fn modules(&self, netdevs: &[String]) -> BTreeMap<String, Reading<Module>> {
        self.each("module", netdevs, module, Reading::Failed).await
    }

    /// Fills in what drivers tell of the network devices that matter. All others have none of it.
    pub(crate) async fn add_details(
        &self,
        devices: &Reading<Vec<Device>>,
        netdevs: &mut Reading<BTreeMap<String, Netdev>>,
    ) {
        let Reading::Value(netdevs) = netdevs else { return };
        let ports = devices.value().into_iter().flatten().flat_map(|device| &device.ports);
        let rdma: BTreeSet<&String> = ports.filter_map(|port| port.netdev.value()).collect();
        let matter =
            |name: &&String| rdma.contains(name) || has_hardware(self, name) || is_captured(self, name);
        let names: Vec<String> = netdevs.keys().filter(matter).cloned().collect();
        let mut modules = self.recent_modules(&names);
        let stale: Vec<String> = names.iter().filter(|name| !modules.contains_key(*name)).cloned().collect();
        // Apart from each other, so that a bus that hangs costs the module alone.
        let (mut found, fresh) = tokio::join!(
            self.each("settings", &names, details, |why| Details::unread(&why)),
            self.modules(&stale)
        );
        modules.extend(fresh);
        for (name, netdev) in netdevs {
            let details = found.remove(name).unwrap_or_else(Details::none);
            netdev.ethtool = details.ethtool;
            netdev.statistics = details.statistics;
            netdev.module = modules.remove(name).unwrap_or(Reading::Absent);
            netdev.dcb = details.dcb;
            netdev.ecn = details.ecn;
        }
    }

    /// Modules that were read not long ago.
    fn recent_modules(&self, netdevs: &[String]) -> BTreeMap<String, Reading<Module>> {
        let known = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = |name: &String| {
            let (read_at, module) = known.get(name)?;
            (read_at.elapsed() < MODULE_AGE_MAX).then(|| (name.clone(), module.clone()))
        };
        netdevs.iter().filter_map(recent).collect()
    }

    /// Reads each device. One whose earlier reading is still stuck is not read again.
    async fn each<T: Send + 'static>(
        &self,
        what: &str,
        names: &[String],
        read: fn(&Self, &str) -> T,
        unread: fn(String) -> T,
    ) -> BTreeMap<String, T> {
        self.tree().count(names.len() as u64);
        let title = |name: &String| format!("{what} of {name}");
        let jobs = names.iter().map(|name| (title(name), name.clone())).collect();
        let answers = self.read_all(jobs, DEADLINE, move |host, name: String| read(host, &name)).await;
        let named = names.iter().zip(answers);
        let words = |name, why: Unfinished| unread(why.words(&format!("the {}", title(name))));
        named.map(|(name, answer)| (name.clone(), answer.unwrap_or_else(|why| words(name, why)))).collect()
    }
}

impl Details {
    fn unread(why: &str) -> Self {
        Self {
            ethtool: Ethtool::unread(why),
            statistics: Reading::failed(why),
            dcb: Reading::failed(why),
            ecn: Ecn::unread(why),
        }
    }

    fn none() -> Self {
        Self {
            ethtool: no_ethtool(),
            statistics: Reading::Absent,
            dcb: Reading::Absent,
            ecn: Ecn {
                notification_point: Reading::Absent,
                reaction_point: Reading::Absent,
                cnp_dscp: Reading::Absent,
            },
        }
    }
}

fn no_ethtool() -> Ethtool {
    Ethtool {
        speed_mbps: Reading::Absent,
        autonegotiation: Reading::Absent,
        link: Reading::Absent,
        link_down_reason: Reading::Absent,
        fec: Reading::Absent,
        pause_rx: Reading::Absent,
        pause_tx: Reading::Absent,
    }
}

/// Made devices (veth, VLAN, bond) have no parent in sysfs.
fn has_hardware(host: &Host, netdev: &str) -> bool {
    host.tree().resolved(&format!("{CLASS}/{netdev}/device")) != Reading::Absent
}

/// A capture may tell of a device without showing its hardware.
fn is_captured(host: &Host, netdev: &str) -> bool {
    let files = || host.tree().list(&format!("rdmascope/netdev/{netdev}"));
    !host.is_real()
        && files().value().is_some_and(|files| files.iter().any(|f| f != "addresses" && f != "lldp"))
}

pub(crate) fn details(host: &Host, netdev: &str) -> Details {
    Details {
        ethtool: ethtool(host, netdev),
        statistics: statistics(host, netdev),
        dcb: dcb(host, netdev),
        ecn: ecn::read(host.tree(), netdev),
    }
}

/// The lines of `rdmascope/netdev/NAME/FILE` through their reader.
pub(crate) fn captured<T>(
    host: &Host,
    netdev: &str,
    file: &str,
    read: fn(&Fields) -> Reading<T>,
) -> Reading<T> {
    match Fields::read(host.tree(), &format!("rdmascope/netdev/{netdev}/{file}")) {
        Reading::Value(fields) => read(&fields),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

fn ethtool(host: &Host, netdev: &str) -> Ethtool {
    let opened = || Socket::ethtool().map_err(|refusal| refusal.words("opening ethtool netlink"));
    if !host.is_real() {
        let read = |fields: &Fields| Reading::Value(text::ethtool::read(fields));
        return match captured(host, netdev, "ethtool", read) {
            Reading::Value(ethtool) => ethtool,
            Reading::Absent => no_ethtool(),
            Reading::Failed(why) => Ethtool::unread(&why),
        };
    }
    opened().map_or_else(|why| Ethtool::unread(&why), |socket| nl::ethtool::read(&socket, netdev))
}

fn dcb(host: &Host, netdev: &str) -> Reading<Dcb> {
    if !host.is_real() {
        return captured(host, netdev, "dcb", |fields| Reading::Value(text::dcb::read(fields)));
    }
    match Socket::dcb() {
        Ok(socket) => nl::dcb::read(&socket, netdev),
        Err(refusal) => Reading::Failed(refusal.words("opening rtnetlink")),
    }
}

fn statistics(host: &Host, netdev: &str) -> Reading<Statistics> {
    if !host.is_real() {
        return captured(host, netdev, "statistics", text::statistics::read);
    }
    let read = || StatisticsSocket::open()?.read(netdev);
    // The set changed between the names and the values: once more.
    let read = match read() {
        Err(Errno::AGAIN) => read(),
        read => read,
    };
    match read {
        Ok(all) if all.is_empty() => Reading::Absent,
        Ok(all) => {
            Reading::Value(all.into_iter().filter(|(name, _)| text::statistics::is_known(name)).collect())
        }
        Err(errno) if NOT_SUPPORTED.contains(&errno) => Reading::Absent,
        Err(errno) => {
            Reading::Failed(format!("reading the statistics of {netdev}: {}", std::io::Error::from(errno)))
        }
    }
}

pub(crate) fn module(host: &Host, netdev: &str) -> Reading<Module> {
    if !host.is_real() {
        return captured(host, netdev, "module", text::module::read);
    }
    // A virtual function has no cage of its own.
    let is_virtual = host.tree().resolved(&format!("{CLASS}/{netdev}/device/physfn")) != Reading::Absent;
    let asked = || match Socket::ethtool() {
        Ok(socket) => nl::module::read(&socket, netdev),
        Err(refusal) => Reading::Failed(refusal.words("opening ethtool netlink")),
    };
    let read = match (is_virtual, has_hardware(host, netdev)) {
        (true, _) => Reading::Absent,
        (false, true) => asked(),
        // Without hardware there is no cage, whatever the refusal; a driver that answers all the same is believed.
        (false, false) => asked().value().cloned().map_or(Reading::Absent, Reading::Value),
    };
    let mut modules = host.modules.lock().unwrap_or_else(PoisonError::into_inner);
    modules.insert(netdev.to_owned(), (Instant::now(), read.clone()));
    read
}

/// The files in which a capture keeps what netlink and ioctls told of one network device: path below the root, and text. What could
/// not be read is left out, and so is a device that nobody asked: the kernel says of every other whether it has a link.
#[must_use]
pub fn netdev_files(name: &str, netdev: &Netdev) -> Vec<(String, String)> {
    if netdev.ethtool.link == Reading::Absent {
        return Vec::new();
    }
    let ethtool = Reading::Value(&netdev.ethtool);
    [
        ("ethtool", text::file(&ethtool, |ethtool| text::ethtool::write(ethtool))),
        ("statistics", text::file(&netdev.statistics, text::statistics::write)),
        ("module", text::file(&netdev.module, text::module::write)),
        ("dcb", text::file(&netdev.dcb, text::dcb::write)),
    ]
    .into_iter()
    .filter_map(|(file, text)| Some((format!("rdmascope/netdev/{name}/{file}"), text?)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::{FakeHost, snapshot};

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn what_a_capture_was_given_is_what_it_tells() {
        let fake = FakeHost::mlx5(1);
        let given = snapshot::netdev(2, &[]);
        let Reading::Value(module) = given.module.clone() else { panic!("it has a module") };
        for (path, text) in netdev_files("eth0", &given) {
            assert!(!text.contains(&module.serial), "{path} tells whose machine it is");
            fake.folder().write(&path, &text);
        }
        let told = Reading::Value(Module { serial: String::new(), ..module });
        let host = Host::new(fake.root().to_owned()).unwrap();
        let seen = run(host.snapshot(|_, _| crate::PortMtu::failed("")));
        let seen = &seen.netdevs.value().unwrap()["eth0"];
        assert_eq!(seen.ethtool, given.ethtool);
        assert_eq!(seen.statistics, given.statistics);
        assert_eq!(seen.module, told);
        assert_eq!(seen.dcb, given.dcb);
        assert_eq!(seen.ecn.cnp_dscp, Reading::Value(48), "from the machine's own files");
        let names = ["eth0".to_owned(), "eth9".to_owned()];
        let statistics = run(host.statistics(&names));
        assert_eq!(statistics["eth0"], given.statistics);
        assert!(
            matches!(&statistics["eth9"], Reading::Failed(why) if why.contains("not part of this capture"))
        );
        assert_eq!(run(host.modules(&names))["eth0"], told);
    }

    #[test]
    fn a_made_device_has_none_of_it_and_one_of_an_rdma_port_was_not_captured() {
        let fake = FakeHost::rxe(1);
        fake.folder().remove("rdmascope/netdev/w1/dcb");
        fake.folder().write("sys/class/net/veth7/mtu", "1500");
        fake.folder().write("sys/class/net/bond9/mtu", "1500");
        fake.folder().write("rdmascope/netdev/bond9/dcb", "pfc: 3\n");
        let host = Host::new(fake.root().to_owned()).unwrap();
        let seen = run(host.snapshot(|_, _| crate::PortMtu::failed("")));
        let netdevs = seen.netdevs.value().unwrap();
        assert_eq!(
            (&netdevs["veth7"].dcb, &netdevs["veth7"].ethtool.link),
            (&Reading::Absent, &Reading::Absent)
        );
        assert!(
            matches!(&netdevs["w1"].dcb, Reading::Failed(why) if why.contains("not part of this capture"))
        );
        assert_eq!(netdevs["bond9"].dcb.value().unwrap().pfc, Reading::Value(8));
        assert_eq!(netdev_files("veth7", &netdevs["veth7"]), []);
        assert_eq!(netdev_files("bond9", &netdevs["bond9"])[0].0, "rdmascope/netdev/bond9/dcb");
    }

    #[test]
    fn a_device_that_hangs_costs_itself_and_is_not_asked_twice() {
        let host = Host::new(FakeHost::rxe(1).root().to_owned()).unwrap();
        host.reading.lock().unwrap().insert("statistics of w1".to_owned());
        let seen = run(host.statistics(&["w1".to_owned(), "w2".to_owned()]));
        assert!(matches!(&seen["w1"], Reading::Failed(why) if why.contains("still stuck")));
        assert!(matches!(&seen["w2"], Reading::Failed(why) if why.contains("not part")));
        assert_eq!(host.reading.lock().unwrap().len(), 1, "what has been read is free again");
    }
}
