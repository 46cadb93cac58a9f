//! Every decoder of bytes that the kernel, firmware, neighbours or other programs wrote, behind one door: fuzz targets come in here, and
//! the decoders themselves stay private.

mod files;

use crate::anonymise::Anonymiser;
use crate::archive::Archive;
use crate::nl::{Answers, Attributes, Refusal};
use crate::{acs, devlink, kmsg, lldp, nl, rdma_netlink, rtnl, serial};
use netlink_packet_core::{NetlinkBuffer, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use rdmascope_checks::log::{Rules, Tally, Times};
use rdmascope_model::{Reading, Wall};
use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

/// Name and decoder.
type Decoder = (&'static str, fn(&[u8]));

/// All of them. Each takes any bytes, and panics only where the decoder, or what it promises, is broken.
pub const DECODERS: [Decoder; 17] = [
    ("anonymiser", anonymiser),
    ("archive", archive),
    ("files-of-processes", files::processes),
    ("files-of-sysfs", files::sysfs),
    ("files-told", files::told),
    ("kernel-log", kernel_log),
    ("lldp", lldp_frames),
    ("module-pages", module_pages),
    ("netlink-answers", netlink_answers),
    ("netlink-dcb", netlink_dcb),
    ("netlink-devlink", netlink_devlink),
    ("netlink-ethtool", netlink_ethtool),
    ("netlink-rdma", netlink_rdma),
    ("netlink-rdma-events", netlink_rdma_events),
    ("netlink-route", netlink_route),
    ("pci-config", pci_config),
    ("vital-product-data", vital_product_data),
];

/// A first line with a path, then the bytes of the file there.
fn anonymiser(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (path, content) = (String::from_utf8_lossy(&bytes[..end]), bytes.get(end + 1..).unwrap_or_default());
    let key = BuildHasherDefault::<DefaultHasher>::default();
    let mut anonymiser = Anonymiser::new(key, &["gpu-17.example.org".to_owned(), "gpu-17".to_owned()]);
    drop(anonymiser.file(&path, content));
}

/// What can be read can be written, and what is written is read again.
fn archive(bytes: &[u8]) {
    let Ok(read) = Archive::parse(&String::from_utf8_lossy(bytes)) else { return };
    let written = read.to_string();
    match Archive::parse(&written) {
        Ok(again) => assert_eq!(again.to_string(), written, "an archive changes when it is written and read"),
        Err(error) => panic!("an archive that was written cannot be read: {error}"),
    }
    for (path, _) in read.entries() {
        drop((read.find("", path), read.link("", path), read.names(path), read.resolved(path, "../x")));
    }
}

/// When the log was read, milliseconds (8 bytes), then the log.
fn kernel_log(bytes: &[u8]) {
    let Some((read_at, log)) = bytes.split_first_chunk() else { return };
    let read_at = Wall(u64::from_le_bytes(*read_at));
    let (mut lines, mut whole) = (Vec::new(), kmsg::Lines::default());
    whole.feed(log, &mut |line| lines.push(line.to_owned()));
    whole.end(&mut |line| lines.push(line.to_owned()));
    for booted_at in [Reading::Absent, Reading::Value(Wall(read_at.0 / 2))] {
        let mut tally = Tally::new(&Rules::builtin(), Some(4711));
        kmsg::take(&mut tally, &lines, &Times { read_at, booted_at }, false);
        drop(tally.log());
    }
}

fn lldp_frames(bytes: &[u8]) {
    drop(lldp::lldp(bytes, 0));
    for frame in lldp::frames(bytes).iter().flatten() {
        drop(lldp::lldp(frame, 0));
    }
}

/// Half pages in the order in which they are asked for; the last question has no answer.
fn module_pages(bytes: &[u8]) {
    let (halves, _) = bytes.as_chunks::<{ nl::module::HALF }>();
    let Some((lower, others)) = halves.split_first() else { return };
    let others = RefCell::new(others.iter());
    let read = |_| others.borrow_mut().next().copied().ok_or(Refusal::Late);
    drop(nl::module::decoded("reading the module of eth0", lower, &read));
}

/// A datagram that answers question 1, with a header before the attributes and without.
fn netlink_answers(bytes: &[u8]) {
    for header_bytes in [0, 4] {
        let mut answers = Answers::new(1, header_bytes);
        match answers.take(bytes) {
            Ok(_) => {
                let found: usize = answers.found.iter().map(Vec::len).sum();
                assert!(found <= bytes.len(), "more was found than came");
            }
            Err(refusal) => drop(refusal.words("asking")),
        }
    }
}

fn netlink_dcb(bytes: &[u8]) {
    let answer = Attributes(bytes);
    drop(nl::dcb::settings(answer, nl::dcb::mode(answer)));
}

fn netlink_devlink(bytes: &[u8]) {
    drop((devlink::reporter(bytes), devlink::serial(bytes), devlink::switch(bytes)));
    [101, 102].into_iter().for_each(|kind| drop(devlink::versions(bytes, kind)));
    devlink::is_of(bytes, "pci", "0000:3b:00.0");
}

fn netlink_ethtool(bytes: &[u8]) {
    let answer: nl::ethtool::Answer = Ok(bytes.to_vec());
    drop(nl::ethtool::decoded(&answer, &answer, &answer, &answer));
}

fn netlink_rdma(bytes: &[u8]) {
    drop((rdma_netlink::device(bytes), rdma_netlink::statistics(bytes)));
    rdma_netlink::is_monitor(Some(bytes));
    let total = rdma_netlink::summary(bytes);
    drop(rdma_netlink::table("mlx5_0", &[bytes.to_vec()], total, &|_| "python3".to_owned()));
}

fn netlink_rdma_events(bytes: &[u8]) {
    drop(rdma_netlink::event(bytes));
}

/// Messages one after the other, as a dump has them.
fn netlink_route(bytes: &[u8]) {
    let (mut links, mut addresses, mut rules, mut rest) = (Vec::new(), Vec::new(), Vec::new(), bytes);
    while let Ok(length) = NetlinkBuffer::new_checked(rest).map(|buffer| buffer.length() as usize) {
        let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest) else { break };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        drop(rtnl::event_of(&message.payload));
        let NetlinkPayload::InnerMessage(message) = message.payload else { continue };
        let names = rtnl::names(&links);
        match message {
            RouteNetlinkMessage::NewLink(link) => links.push(link),
            RouteNetlinkMessage::NewAddress(address) => addresses.push(address),
            RouteNetlinkMessage::NewRoute(route) => drop(rtnl::routes(&route, &names)),
            RouteNetlinkMessage::NewRule(rule) => rules.push(rule),
            RouteNetlinkMessage::NewNeighbour(neighbour) => drop(rtnl::unresolved(&neighbour, &names)),
            _ => {}
        }
    }
    rtnl::own_rules(&rules);
    drop(rtnl::joined(&links, Ok(addresses)));
}

fn pci_config(bytes: &[u8]) {
    drop(acs::control(bytes));
}

fn vital_product_data(bytes: &[u8]) {
    drop(serial::field(bytes, b"SN"));
}
