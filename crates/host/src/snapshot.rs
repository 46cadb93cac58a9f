//! One look at the whole machine: every device in a thread of its own, so that one that hangs in the kernel costs only itself.

use crate::nic::Modules;
use crate::rdma::{self, PortMtu};
use crate::tree::Tree;
use crate::{Clock, netdev, parse, rtnl};
use rdmascope_model::{Device, Netdev, PortState, Reading, Routing, Snapshot, System, Wall};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long one device may take. A healthy one with 256 GID slots takes a few milliseconds; a firmware command that hangs is given up
/// by mlx5 after 60 s at the earliest, which is too long to keep the other devices waiting.
const DEVICE_DEADLINE: Duration = Duration::from_secs(5);

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
    /// Devices whose reading has begun and not come back.
    pub(crate) reading: Arc<Mutex<BTreeSet<String>>>,
    pub(crate) modules: Arc<Modules>,
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
        Self { tree: Arc::new(tree), only: Arc::default(), reading: Arc::default(), modules: Arc::default() }
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

    /// A port's logical state alone, for watching it: one small file.
    #[must_use]
    pub fn port_state(&self, device: &str, port: u8) -> Reading<PortState> {
        self.tree.parsed(&format!("{}/{device}/ports/{port}/state", rdma::CLASS), parse::port_state)
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
    /// driver code, so it may be asked every second. It is the first to show that a device is being removed: an open context holds
    /// back the removal, and sysfs still says ACTIVE meanwhile (seen on rxe).
    #[must_use]
    pub fn uverbs_nodes(&self) -> Reading<BTreeMap<String, String>> {
        rdma::uverbs_nodes(&self.tree).map(|(nodes, _)| nodes)
    }

    /// Network devices: by rtnetlink on the machine that we run on, from the capture's files elsewhere.
    pub async fn netdevs(&self) -> Reading<BTreeMap<String, Netdev>> {
        if self.is_real() { rtnl::dump().await } else { netdev::from_files(&self.tree) }
    }

    /// Everything, once.
    ///
    /// `mtu_of` asks the verbs library for a port's MTU ([`crate::ask_verbs`]); it is called from other threads, and only on the machine that we run on: a
    /// capture has its answers in files. A device that takes longer than 5 s is given up and named as such; its thread stays until
    /// the kernel lets it go, and until then the device is not read again. A program that ends meanwhile must use
    /// `Runtime::shutdown_background` or `std::process::exit`.
    pub async fn snapshot(&self, mtu_of: impl Fn(&str, u8) -> PortMtu + Send + Sync + 'static) -> Snapshot {
        let taken_at = self.taken_at();
        let mtu_of: Arc<MtuOf> = Arc::new(mtu_of);
        let devices = match rdma::device_names(&self.tree) {
            Reading::Value(names) => {
                let wanted = |name: &String| self.only.is_empty() || self.only.contains(name);
                let reads: Vec<_> = names
                    .into_iter()
                    .filter(wanted)
                    .map(|name| self.begin_device(name, Arc::clone(&mtu_of)))
                    .collect();
                let mut devices = Vec::with_capacity(reads.len());
                let deadline = tokio::time::Instant::now() + DEVICE_DEADLINE;
                for (name, read) in reads {
                    devices.push(finish_device(&name, read, deadline).await);
                }
                Reading::Value(devices)
            }
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why),
        };
        let mut netdevs = self.netdevs().await;
        self.add_details(&devices, &mut netdevs).await;
        Snapshot {
            taken_at,
            devices,
            netdevs,
            routing: Routing::unread(rdma::NOT_YET),
            pci: Reading::failed(rdma::NOT_YET),
            system: System::unread(rdma::NOT_YET),
            workloads: Reading::failed(rdma::NOT_YET),
        }
    }

    /// Now; of a capture, when it was made, where it says so.
    fn taken_at(&self) -> Wall {
        let now = Clock::new().now().wall;
        if self.is_real() {
            return now;
        }
        self.tree.parsed("rdmascope/taken_at", parse::number).value().map_or(now, |at| Wall(*at))
    }

    /// Starts the reading of one device, unless an earlier one is still stuck.
    fn begin_device(&self, name: String, mtu_of: Arc<MtuOf>) -> (String, Option<DeviceRead>) {
        if !self.reading.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone()) {
            return (name, None);
        }
        let (host, device) = (self.clone(), name.clone());
        let read = tokio::task::spawn_blocking(move || {
            let ask = |device: &str, port: u8| {
                if host.is_real() { mtu_of(device, port) } else { captured_mtu(&host.tree, device, port) }
            };
            let read = rdma::device(&host.tree, &device, &ask);
            host.reading.lock().unwrap_or_else(PoisonError::into_inner).remove(&device);
            read
        });
        (name, Some(read))
    }
}

type MtuOf = dyn Fn(&str, u8) -> PortMtu + Send + Sync;
type DeviceRead = tokio::task::JoinHandle<Device>;

async fn finish_device(name: &str, read: Option<DeviceRead>, deadline: tokio::time::Instant) -> Device {
    let Some(read) = read else {
        return Device::unread(name, "an earlier reading of this device is still stuck in the kernel");
    };
    match tokio::time::timeout_at(deadline, read).await {
        Ok(Ok(device)) => device,
        Ok(Err(_)) => Device::unread(name, "the thread that read this device ended early"),
        Err(_) => {
            let seconds = DEVICE_DEADLINE.as_secs();
            Device::unread(name, &format!("reading this device took longer than {seconds} s"))
        }
    }
}

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
            let hanging = tokio::spawn(std::future::pending::<Device>());
            let seen = finish_device("mlx5_0", Some(hanging), tokio::time::Instant::now()).await;
            assert_eq!(
                seen.ports[0].state,
                Reading::Failed("reading this device took longer than 5 s".to_owned())
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
