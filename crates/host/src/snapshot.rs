//! One look at the whole machine: a device that hangs in the kernel costs only itself.

use crate::crew::Unfinished;
use crate::nic::Modules;
use crate::nodes::{self, Nodes};
use crate::rdma::{self, Means, PortMtu};
use crate::resting::Resting;
use crate::serial::{self, Serials};
use crate::tree::Tree;
use crate::{Clock, QueuePairs, parse, pci, processes, system, told};
use rdmascope_model::{Device, PciFunction, PortState, Reading, Snapshot, System, Wall, Workload};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long one device may take. A healthy one with 256 GID slots takes a few milliseconds; a firmware command that hangs is given up
/// by mlx5 after 60 s at the earliest, which is too long to keep the other devices waiting.
const DEVICE_DEADLINE: Duration = Duration::from_secs(5);

/// For the words of what came of reading a device, which stand beside its name.
pub(crate) const THIS_DEVICE: &str = "this device";

/// The machine cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The root folder cannot be opened.
    #[error("cannot open the folder {}", root.display())]
    Root {
        /// As it was given.
        root: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// Netlink cannot be spoken.
    #[error("cannot open a netlink socket (NETLINK_ROUTE)")]
    Netlink(#[source] std::io::Error),
}

/// A machine that can be read: the one we run on (root `/`), or a capture of one, in a folder or in an archive.
#[derive(Clone, Debug)]
pub struct Host {
    tree: Arc<Tree>,
    /// Devices that are looked at; empty: all.
    only: Arc<[String]>,
    /// Names of processes that should use RDMA.
    workloads: Arc<[String]>,
    /// Keys of readings (of devices, of parts of the machine) that have begun and not come back.
    pub(crate) reading: Arc<Mutex<BTreeSet<String>>>,
    pub(crate) modules: Arc<Modules>,
    serials: Arc<Serials>,
    /// Counters that the driver refused lately.
    resting: Arc<Resting>,
}

impl Host {
    /// The machine below `root`.
    ///
    /// # Errors
    /// When `root` is not a folder that can be opened.
    pub fn new(root: PathBuf) -> Result<Self, HostError> {
        let tree = Tree::open(&root).map_err(|source| HostError::Root { root, source })?;
        Ok(Self::of(tree))
    }

    pub(crate) fn of(tree: Tree) -> Self {
        Self {
            tree: Arc::new(tree),
            only: Arc::default(),
            workloads: Arc::default(),
            reading: Arc::default(),
            modules: Arc::default(),
            serials: Arc::default(),
            resting: Arc::default(),
        }
    }

    /// The machine that we run on.
    ///
    /// # Errors
    /// When `/` cannot be opened.
    pub fn here() -> Result<Self, HostError> {
        Self::new(Path::new("/").to_owned())
    }

    /// The same machine, of which only the named RDMA devices are looked at; the files of the others are not touched. No name: all.
    #[must_use]
    pub fn only(mut self, devices: &[String]) -> Self {
        self.only = devices.into();
        self
    }

    /// The same machine, on which processes with these names (`*` stands for any letters) should use RDMA.
    #[must_use]
    pub fn with_workloads(mut self, names: &[String]) -> Self {
        self.workloads = names.into();
        self
    }

    /// A port's logical state alone, for watching it: one small file.
    #[must_use]
    pub fn port_state(&self, device: &str, port: u8) -> Reading<PortState> {
        self.tree.parsed(&format!("{}/{device}/ports/{port}/state", rdma::CLASS), parse::port_state)
    }

    /// Questions to the kernel so far: files, folders and links that were opened, netlink lists, and what a driver is asked of a network
    /// device as one.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.tree.reads()
    }

    /// Counters that need not be asked again yet; of a capture everything is read.
    pub(crate) fn resting(&self) -> Option<&Resting> {
        self.is_real().then_some(&*self.resting)
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Whether this is the machine that we run on, and not a capture.
    #[must_use]
    pub fn is_real(&self) -> bool {
        self.tree.is_real()
    }

    /// Which character device under `/dev/infiniband` belongs to which RDMA device. Cheap: two small files per device and no
    /// driver code. It is the first to show that a device is being removed: an open context holds
    /// back the removal, and sysfs still says ACTIVE meanwhile (seen on rxe).
    #[must_use]
    pub fn uverbs_nodes(&self) -> Reading<BTreeMap<String, String>> {
        nodes::verbs(&self.tree).map(|(nodes, _)| nodes)
    }

    /// Names of those character devices alone (`uverbs0`), by one question: they change whenever a device comes or goes.
    #[must_use]
    pub fn uverbs_names(&self) -> Reading<Vec<String>> {
        nodes::verbs_names(&self.tree)
    }

    /// PCI functions that matter here, and the bridges above them. Each costs about fifteen small files: for every minute, not every second.
    pub async fn pci(&self) -> Reading<BTreeMap<String, PciFunction>> {
        let mut functions = self.part("PCI functions", pci::functions, Reading::Failed).await;
        self.add_enable_roce(&mut functions).await;
        functions
    }

    /// The kernel, its settings and its limits: for every minute.
    pub async fn system(&self) -> System {
        self.part("the machine's settings", system::system, |why| System::unread(&why)).await
    }

    /// Processes that hold queue pairs, by the kernel's table of them, and those that should ([`Self::with_workloads`]): for every
    /// minute at most, since the names of all processes are read for the latter.
    pub async fn workloads(&self, queue_pairs: Reading<Vec<QueuePairs>>) -> Reading<Vec<Workload>> {
        let names = Arc::clone(&self.workloads);
        let read = move |tree: &Tree| processes::workloads(tree, &queue_pairs, &names);
        self.part("processes", read, Reading::Failed).await
    }

    /// Reads one part of the machine in a thread of its own, within the deadline of a device.
    pub(crate) async fn part<T: Send + 'static>(
        &self,
        what: &'static str,
        read: impl FnOnce(&Tree) -> T + Send + 'static,
        failed: impl FnOnce(String) -> T,
    ) -> T {
        if !self.reading.lock().unwrap_or_else(PoisonError::into_inner).insert(what.to_owned()) {
            return failed(format!("an earlier reading of {what} is still stuck in the kernel"));
        }
        let host = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let value = read(&host.tree);
            host.reading.lock().unwrap_or_else(PoisonError::into_inner).remove(what);
            value
        });
        match tokio::time::timeout(DEVICE_DEADLINE, reading).await {
            Ok(Ok(value)) => value,
            Ok(Err(_)) => failed(format!("the thread that read {what} ended early")),
            Err(_) => failed(format!("reading {what} took longer than {} s", DEVICE_DEADLINE.as_secs())),
        }
    }

    /// Everything, once.
    ///
    /// `mtu_of` asks the verbs library for a port's MTU ([`crate::ask_verbs`]); it is called from other threads, and only on the machine that we run on: a
    /// capture has its answers in files. A device that takes longer than 5 s is given up and named as such; its thread stays until
    /// the kernel lets it go, and until then the device is not read again. A program that ends meanwhile must use
    /// `Runtime::shutdown_background` or `std::process::exit`.
    pub async fn snapshot(&self, mtu_of: impl Fn(&str, u8) -> PortMtu + Send + Sync + 'static) -> Snapshot {
        self.everything(&(Arc::new(mtu_of) as Arc<MtuOf>)).await
    }

    pub(crate) async fn everything(&self, mtu_of: &Arc<MtuOf>) -> Snapshot {
        let taken_at = self.taken_at();
        let devices = self.devices(mtu_of).await;
        let (netdevs, pci, system, workloads, routing) = tokio::join!(
            self.netdevs(),
            self.pci(),
            self.system(),
            async { self.workloads(self.queue_pairs().await).await },
            self.routing(),
        );
        let mut netdevs = netdevs;
        self.add_details(&devices, &mut netdevs).await;
        Snapshot { taken_at, devices, netdevs, routing, pci, system, workloads }
    }

    /// Now; of a capture, when it was made, where it says so.
    fn taken_at(&self) -> Wall {
        let now = Clock::new().now().wall;
        if self.is_real() {
            return now;
        }
        self.tree.parsed("rdmascope/taken_at", parse::number).value().map_or(now, |at| Wall(*at))
    }

    /// All RDMA devices with their ports.
    pub(crate) async fn devices(&self, mtu_of: &Arc<MtuOf>) -> Reading<Vec<Device>> {
        let nodes = Arc::new(Nodes::read(&self.tree));
        match rdma::device_names(&self.tree) {
            Reading::Value(names) => {
                let wanted = |name: &String| self.only.is_empty() || self.only.contains(name);
                let names: Vec<String> = names.into_iter().filter(wanted).collect();
                let jobs = names.iter().map(|name| (name.clone(), name.clone())).collect();
                let mtu_of = Arc::clone(mtu_of);
                let read = move |host: &Self, device: String| host.device(&device, &mtu_of, &nodes);
                let answers = self.read_all(jobs, DEVICE_DEADLINE, read).await;
                let unread = |name: &str, why: Unfinished| Device::unread(name, &why.words(THIS_DEVICE));
                let devices = names.iter().zip(answers);
                Reading::Value(
                    devices.map(|(name, read)| read.unwrap_or_else(|why| unread(name, why))).collect(),
                )
            }
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why),
        }
    }

    /// One device.
    fn device(&self, name: &str, mtu_of: &Arc<MtuOf>, nodes: &Nodes) -> Device {
        let ask = |device: &str, port: u8| {
            if self.is_real() { mtu_of(device, port) } else { captured_mtu(&self.tree, device, port) }
        };
        let asked = told::rdma_netlink(&self.tree);
        let means = Means { mtu_of: &ask, nodes, resting: self.resting(), rdma_netlink: asked.as_ref() };
        let mut read = rdma::device(&self.tree, name, &means);
        told::add_devlink(&self.tree, &mut read);
        read.serial = serial::serial(&self.tree, &self.serials, &read);
        read
    }
}

/// Asks for a port's MTU by device and port number; see [`Host::snapshot`].
pub type MtuOf = dyn Fn(&str, u8) -> PortMtu + Send + Sync;

/// What a capture keeps of a verbs port query: `rdmascope/verbs/DEVICE/PORT/{active_mtu,max_mtu}`.
fn captured_mtu(tree: &Tree, device: &str, port: u8) -> PortMtu {
    let read = |file: &str| {
        let path = format!("rdmascope/verbs/{device}/{port}/{file}");
        match tree.parsed(&path, parse::number) {
            Reading::Absent => Reading::Failed(format!("{path} is not part of this capture")),
            reading => reading,
        }
    };
    PortMtu { active: read("active_mtu"), max: read("max_mtu") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_hangs_is_named_as_such_and_not_read_twice_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            assert_eq!(
                Unfinished::Late(DEVICE_DEADLINE).words(THIS_DEVICE),
                "reading this device took longer than 5 s"
            );
            let fake = rdmascope_fixtures::FakeHost::rxe(2);
            let host = Host::new(fake.root().to_owned()).unwrap();
            host.reading.lock().unwrap().insert("rxe1".to_owned());
            let seen = host.snapshot(|_, _| PortMtu::failed("")).await;
            let states: Vec<_> = seen.devices.value().unwrap().iter().map(|d| &d.ports[0].state).collect();
            assert!(matches!(states[0], Reading::Failed(why) if why.contains("still stuck")));
            assert_eq!(states[1], &Reading::Value(PortState::Active));
            assert_eq!(host.reading.lock().unwrap().len(), 1, "what has been read is free again");
        });
    }
}
