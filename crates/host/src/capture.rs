//! Takes a machine along: everything that the readers read of it, as they read it, made anonymous, in one text.

use crate::anonymise::Anonymiser;
use crate::archive::{Archive, Entry};
use crate::netdev;
use crate::rdma::PortMtu;
use crate::snapshot::{EARLIER, Host};
use rdmascope_model::{Reading, Snapshot};
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

/// Reads a machine ([`Host::recording`]) twice, `pause` apart, or once when there is no pause, and gives the text of a capture.
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
    if !pause.is_zero() {
        all.add(&format!("{EARLIER}/"), look(host, &mtu_of).await);
        tokio::time::sleep(pause).await;
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
    let mut archive = host.recorded();
    if host.is_real() {
        for (path, text) in netlink_answers(&snapshot) {
            archive.put(&path, Entry::File(text.into_bytes()));
        }
    }
    archive.put("rdmascope/taken_at", Entry::File(format!("{}\n", snapshot.taken_at.0).into_bytes()));
    archive
}

/// What no file of the kernel tells, as files of a capture: paths below the root, and texts.
fn netlink_answers(snapshot: &Snapshot) -> Vec<(String, String)> {
    let mut answers = Vec::new();
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
            Entry::File(bytes) => Entry::File(anonymiser.file(path, bytes)),
            other => other.clone(),
        };
        new.put(path, entry);
    }
    new
}
