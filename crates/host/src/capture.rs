//! Takes a machine along: everything that the readers read of it, as they read it, made anonymous, in one text.

use crate::anonymise::Anonymiser;
use crate::archive::{Archive, ArchiveError, Entry};
use crate::kmsg::captured_lines;
use crate::netdev;
use crate::nic::netdev_files;
use crate::nodes::device_nodes_text;
use crate::rdma::PortMtu;
use crate::recorder::Recorder;
use crate::snapshot::{Host, HostError};
use crate::tree::Tree;
use rdmascope_model::{Reading, Snapshot};
use std::hash::RandomState;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where a capture holds the same machine some seconds earlier: a root of its own.
const EARLIER: &str = "rdmascope/earlier";

impl Host {
    /// A captured machine: the text of an archive, as [`capture`] gives it.
    ///
    /// # Errors
    /// When the text is not an archive; everything that is wrong is in the error.
    pub fn from_archive(text: &str) -> Result<Self, ArchiveError> {
        Ok(Self::of(Tree::in_memory(Archive::parse(text)?)))
    }

    /// What a capture holds of the same machine some seconds earlier; `None` where it holds nothing. All its devices are looked at.
    #[must_use]
    pub fn earlier(&self) -> Option<Self> {
        if self.is_real() { None } else { self.tree().root_below(EARLIER).map(Self::of) }
    }

    /// The machine below `root`, with a record of everything that is read of it, for [`capture`] and [`Self::opened`].
    ///
    /// # Errors
    /// When `root` is not a folder that can be opened.
    pub fn recording(root: PathBuf) -> Result<Self, HostError> {
        let opened = Tree::open(&root).and_then(|tree| Ok(tree.recorded(Arc::new(Recorder::new(&root)?))));
        opened.map(Self::of).map_err(|source| HostError::Root { root, source })
    }

    /// Every file and folder that was opened, below the root, in order; nothing where no record is kept.
    #[must_use]
    pub fn opened(&self) -> Vec<String> {
        self.tree().recorder().map(Recorder::opened).unwrap_or_default()
    }

    /// What was read since the last call.
    fn recorded(&self) -> Archive {
        self.tree().recorder().map(Recorder::take).unwrap_or_default()
    }
}

/// Reads a machine ([`Host::recording`]) twice, `pause` apart, or once when there is no pause, and gives the text of a capture. A
/// capture in a folder is read as it is, with its own earlier reading.
///
/// `mtu_of` asks the verbs library, as for [`Host::snapshot`]. Names, addresses and serial numbers are made up; device names,
/// counters and settings are not.
pub async fn capture(
    host: &Host,
    pause: Duration,
    mtu_of: impl Fn(&str, u8) -> PortMtu + Send + Sync + 'static,
) -> String {
    let mtu_of = Arc::new(mtu_of);
    let mut all = Archive::default();
    let before = match host.earlier() {
        Some(earlier) => Some(look(&earlier, &mtu_of).await),
        // Files of a capture do not change.
        None if pause.is_zero() || !host.is_real() => None,
        None => {
            let before = look(host, &mtu_of).await;
            tokio::time::sleep(pause).await;
            Some(before)
        }
    };
    if let Some(before) = before {
        all.add(&format!("{EARLIER}/"), before);
    }
    all.add("", look(host, &mtu_of).await);
    anonymous(&all, &own_names(host)).to_string()
}

/// One reading of everything.
async fn look(host: &Host, mtu_of: &Arc<impl Fn(&str, u8) -> PortMtu + Send + Sync + 'static>) -> Archive {
    let mtu_of = Arc::clone(mtu_of);
    let snapshot = host.snapshot(move |device, port| mtu_of(device, port)).await;
    // For `check --what-i-can-see`; their record is all that matters here.
    drop((host.capabilities(), host.tree().text("proc/sys/kernel/hostname")));
    if host.is_real() {
        // A capture's network devices are read from their files, which netlink makes needless here.
        netdev::from_files(host.tree());
    }
    let log = captured_lines(host);
    let mut archive = host.recorded();
    if host.is_real() {
        let queue_pairs = host.queue_pairs().await;
        let told = crate::told_files(&snapshot, &queue_pairs);
        for (path, text) in netlink_answers(&snapshot).into_iter().chain(told).chain(log) {
            archive.put(&path, Entry::File(text.into_bytes()));
        }
    }
    archive.put("rdmascope/taken_at", Entry::File(format!("{}\n", snapshot.taken_at.0).into_bytes()));
    archive
}

/// What no file of the kernel tells, as files of a capture: paths below the root, and texts.
fn netlink_answers(snapshot: &Snapshot) -> Vec<(String, String)> {
    let mut answers = Vec::new();
    if let Reading::Value(devices) = &snapshot.devices {
        answers.push(("rdmascope/device_nodes".to_owned(), device_nodes_text(devices)));
    }
    match snapshot.system.libibverbs {
        Reading::Value(()) => answers.push(("rdmascope/libibverbs".to_owned(), "ok\n".to_owned())),
        Reading::Absent => answers.push(("rdmascope/libibverbs".to_owned(), "cannot be loaded\n".to_owned())),
        Reading::Failed(_) => {}
    }
    for device in snapshot.devices.value().into_iter().flatten() {
        for port in &device.ports {
            for (file, mtu) in [("active_mtu", &port.active_mtu), ("max_mtu", &port.max_mtu)] {
                if let Reading::Value(mtu) = mtu {
                    let path = format!("rdmascope/verbs/{}/{}/{file}", device.name, port.number);
                    answers.push((path, format!("{mtu}\n")));
                }
            }
        }
    }
    for (name, netdev) in snapshot.netdevs.value().into_iter().flatten() {
        if let Reading::Value(addresses) = &netdev.addresses {
            let lines = addresses.iter().map(|address| format!("{address}\n")).collect();
            answers.push((format!("rdmascope/netdev/{name}/addresses"), lines));
        }
        answers.extend(netdev_files(name, netdev));
    }
    answers
}

/// The machine's names, which may stand in any text: as it calls itself, and without its domain.
fn own_names(host: &Host) -> Vec<String> {
    let Reading::Value(full) = host.tree().text("proc/sys/kernel/hostname") else { return Vec::new() };
    let short = full.split('.').next().unwrap_or_default().to_owned();
    vec![full, short]
}

fn anonymous(archive: &Archive, names: &[String]) -> Archive {
    // A new key for every capture, which is written nowhere.
    let mut anonymiser = Anonymiser::new(RandomState::new(), names);
    let mut new = Archive::default();
    for (path, entry) in archive.entries() {
        let entry = match entry {
            Entry::File(bytes) => {
                // What a file is does not depend on when it was read.
                let place = path.strip_prefix(&format!("{EARLIER}/")).unwrap_or(path);
                Entry::File(anonymiser.file(place, bytes))
            }
            other => other.clone(),
        };
        new.put(path, entry);
    }
    new
}
