//! `rdmascope gids`: the GID tables of this machine, in the columns that `show_gids` has.

use crate::check_arguments::GidsFlags;
use crate::columns::{Cell, Columns};
use crate::failure::{Failure, code};
use crate::looking::finished;
use crate::output::{plain, print_json, show};
use crate::screen::{Screen, Tone, painted, screen};
use rdmascope_expose::api::{GidReport, GidView};
use rdmascope_host::{Host, ask_verbs};
use rdmascope_model::{Device, GidEntry, GidType, Port, Reading, Snapshot, in_one_line};
use std::net::IpAddr;
use std::path::Path;

/// Runs it.
pub(crate) fn run(flags: &GidsFlags) -> Result<u8, Failure> {
    let root = flags.root.clone().unwrap_or_else(|| Path::new("/").to_owned());
    let host = Host::new(root).map_err(|error| Failure::new(code::FAILED, in_one_line(&error)))?;
    let snapshot = finished(code::FAILED, host.only(&flags.devices).snapshot(ask_verbs()))?;
    let report = report(&snapshot);
    if flags.json {
        print_json(&report)?;
    } else {
        show(&words(&report, screen()))?;
    }
    Ok(if report.could_not_look.is_empty() { 0 } else { code::FAILED })
}

fn report(snapshot: &Snapshot) -> GidReport {
    let mut report = GidReport { gids: Vec::new(), could_not_look: Vec::new() };
    let devices = match &snapshot.devices {
        Reading::Value(devices) => devices.as_slice(),
        Reading::Absent => &[],
        Reading::Failed(why) => {
            report.could_not_look.push(format!("RDMA devices: {why}"));
            &[]
        }
    };
    for device in devices {
        for port in &device.ports {
            of_port(&mut report, device, port);
        }
    }
    report
}

fn of_port(report: &mut GidReport, device: &Device, port: &Port) {
    let name = format!("{}/{}", device.name, port.number);
    match &port.gids {
        Reading::Value(gids) => report.gids.extend(gids.iter().map(|entry| view(device, port, entry))),
        Reading::Absent => {}
        Reading::Failed(why) => report.could_not_look.push(format!("{name}: {why}")),
    }
    report.could_not_look.extend(port.gids_unread.iter().map(|why| format!("{name}: {why}")));
}

fn view(device: &Device, port: &Port, entry: &GidEntry) -> GidView {
    let version = match &entry.kind {
        Reading::Value(GidType::RoceV2) => Some("v2"),
        Reading::Value(GidType::Other(word)) => Some(word.as_str()),
        // The kernel has one word for the first version of RoCE and for InfiniBand.
        Reading::Value(GidType::IbOrRoceV1) => Some(if entry.netdev.value().is_some() { "v1" } else { "ib" }),
        Reading::Absent | Reading::Failed(_) => None,
    };
    let ipv4 = match entry.gid.ip() {
        IpAddr::V4(address) => Some(address.to_string()),
        IpAddr::V6(_) => None,
    };
    GidView {
        device: device.name.clone(),
        port: port.number,
        index: entry.index,
        gid: entry.gid.to_string(),
        ipv4,
        version: version.map(str::to_owned),
        netdev: entry.netdev.value().cloned(),
    }
}

fn words(report: &GidReport, screen: Screen) -> String {
    let mut columns = Columns::new(&["DEV", "PORT", "INDEX", "GID", "IPv4", "VER", "DEV"], &[]);
    for gid in &report.gids {
        let known = |text: &Option<String>| plain(text.as_deref().unwrap_or_default());
        columns.push([
            plain(&gid.device).into(),
            gid.port.to_string().into(),
            gid.index.to_string().into(),
            gid.gid.clone().into(),
            known(&gid.ipv4).into(),
            gid.version.clone().map_or_else(|| Cell::from("?").toned(Some(Tone::Unknown)), Cell::from),
            known(&gid.netdev).into(),
        ]);
    }
    let mut text = format!("{}gids found: {}\n", columns.text(screen), report.gids.len());
    for why in &report.could_not_look {
        text.push_str(&format!(
            "{} {}\n",
            painted("not read:", Some(Tone::Unknown), screen.colour),
            plain(why)
        ));
    }
    if report.gids.is_empty() && report.could_not_look.is_empty() {
        text.push_str("  next step: `rdmascope check` says whether there should be any\n");
    }
    text
}
