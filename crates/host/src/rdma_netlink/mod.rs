//! What RDMA netlink tells (`drivers/infiniband/core/nldev.c`): owners of queue pairs, counters in one request, network namespaces.
//!
//! Opening a socket of this protocol makes the kernel load its RDMA core where it is not loaded. Looking must change nothing, so
//! everything here asks only where sysfs shows that the core is there. The functions block, like those of [`crate::nl`].

mod events;
mod queue_pairs;

pub use events::{RdmaEvent, RdmaEvents};
pub(crate) use events::{event, is_monitor};
pub(crate) use queue_pairs::{queue_pairs, summary, table};

use crate::nl::{Attributes, NO_SUBSYSTEM, Question, RdmaQuestion, Refusal, Socket, Writer};
use crate::parse;
use crate::rdma::CLASS;
use crate::text;
use crate::tree::Tree;
use rdmascope_model::Reading;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// Attributes of `enum rdma_nldev_attr` (`include/uapi/rdma/rdma_netlink.h`).
mod attribute {
    pub(super) const DEV_INDEX: u16 = 1;
    pub(super) const DEV_NAME: u16 = 2;
    pub(super) const PORT_INDEX: u16 = 3;
    pub(super) const RES_SUMMARY: u16 = 15;
    pub(super) const RES_SUMMARY_ENTRY: u16 = 16;
    pub(super) const RES_SUMMARY_ENTRY_NAME: u16 = 17;
    pub(super) const RES_SUMMARY_ENTRY_CURR: u16 = 18;
    pub(super) const RES_QP: u16 = 19;
    pub(super) const RES_QP_ENTRY: u16 = 20;
    pub(super) const RES_PID: u16 = 28;
    pub(super) const RES_KERN_NAME: u16 = 29;
    pub(super) const NDEV_NAME: u16 = 51;
    pub(super) const SYS_NETNS_MODE: u16 = 66;
    pub(super) const STAT_HWCOUNTERS: u16 = 80;
    pub(super) const STAT_HWCOUNTER_ENTRY: u16 = 81;
    pub(super) const STAT_HWCOUNTER_ENTRY_NAME: u16 = 82;
    pub(super) const STAT_HWCOUNTER_ENTRY_VALUE: u16 = 83;
    pub(super) const EVENT_TYPE: u16 = 102;
    pub(super) const SYS_MONITOR_MODE: u16 = 103;
}

const SYSTEM: &str = "rdmascope/rdma/system";

/// Whether all network namespaces share the RDMA devices (`rdma system`: `netns shared`, true, or `netns exclusive`).
/// In a capture `rdmascope/rdma/system` has the line `netns: shared`.
pub(crate) fn shared(tree: &Tree) -> Reading<bool> {
    if !tree.is_real() {
        return text::parsed(tree, SYSTEM, |text| match text.strip_prefix("netns:").unwrap_or(text).trim() {
            "shared" => Ok(true),
            "exclusive" => Ok(false),
            _ => Err("neither 'netns: shared' nor 'netns: exclusive'".to_owned()),
        });
    }
    let answer = match system(tree) {
        Ok(Some(answer)) => answer,
        Ok(None) => return Reading::Absent,
        // Kernels before 5.2 do not know the question (EINVAL): their devices are shared, and the mode cannot be set.
        Err(refusal) => {
            let absent = &[NO_SUBSYSTEM, &[Errno::INVAL]].concat();
            return refusal.reading("asking RDMA netlink for its settings", absent);
        }
    };
    Attributes(&answer)
        .u8(attribute::SYS_NETNS_MODE)
        .map_or(Reading::Absent, |mode| Reading::Value(mode == 1))
}

/// The file of a capture, path and text; `None` when it could not be read.
pub(crate) fn shared_file(shared: &Reading<bool>) -> Option<(String, String)> {
    let write = |shared: &bool| format!("netns: {}\n", if *shared { "shared" } else { "exclusive" });
    Some((SYSTEM.to_owned(), text::file(shared, write)?))
}

/// Settings of the whole subsystem; `None` without one.
fn system(tree: &Tree) -> Result<Option<Vec<u8>>, Refusal> {
    match Asked::open(tree)? {
        Some(asked) => asked.socket.one(Question::Rdma(RdmaQuestion::System), &Writer::default()).map(Some),
        None => Ok(None),
    }
}

/// A socket, and the devices that the kernel listed on it by name with their index and number of ports.
pub(crate) struct Asked {
    socket: Socket,
    devices: BTreeMap<String, Known>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    index: u32,
    ports: u32,
}

impl Asked {
    /// `None` where the kernel has no RDMA core, or not loaded it.
    fn open(tree: &Tree) -> Result<Option<Self>, Refusal> {
        if tree.list(CLASS) == Reading::Absent {
            return Ok(None);
        }
        let socket = match Socket::rdma() {
            Err(Refusal::Errno(Errno::PROTONOSUPPORT, _)) => return Ok(None),
            socket => socket?,
        };
        let answers = socket.all(Question::Rdma(RdmaQuestion::Devices), &Writer::default())?;
        Ok(Some(Self { socket, devices: answers.iter().filter_map(|answer| device(answer)).collect() }))
    }

    /// For what is asked of one device: the socket as a reading.
    pub(crate) fn connect(tree: &Tree) -> Reading<Self> {
        match Self::open(tree) {
            Ok(Some(asked)) => Reading::Value(asked),
            Ok(None) => Reading::Absent,
            Err(refusal) => refusal.reading("asking RDMA netlink for the devices", NO_SUBSYSTEM),
        }
    }

    /// Attributes that name a port.
    fn port(&self, device: &str, port: u8) -> Option<Writer> {
        let known = self.devices.get(device).filter(|known| u32::from(port) <= known.ports)?;
        let writer = Writer::default().u32(attribute::DEV_INDEX, known.index);
        Some(writer.u32(attribute::PORT_INDEX, u32::from(port)))
    }

    /// What `hw_counters/` of a port has, by one question to the firmware; reading its files makes mlx5 ask once for each.
    /// `Absent` where the driver has no such counters, or the device is not in our network namespace.
    pub(crate) fn statistics(&self, device: &str, port: u8) -> Reading<BTreeMap<String, u64>> {
        let Some(asked) = self.port(device, port) else { return Reading::Absent };
        match self.socket.one(Question::Rdma(RdmaQuestion::Statistics), &asked) {
            Ok(answer) => Reading::Value(statistics(&answer)),
            // The kernel says EINVAL for a driver without counters.
            Err(refusal) => refusal.reading(
                &format!("asking RDMA netlink for the counters of {device}/{port}"),
                &[Errno::INVAL, Errno::OPNOTSUPP],
            ),
        }
    }

    /// The network device that the kernel has a port for; `Absent` on InfiniBand, and where it is in another network namespace.
    pub(crate) fn netdev(&self, device: &str, port: u8) -> Reading<String> {
        let Some(asked) = self.port(device, port) else { return Reading::Absent };
        match self.socket.one(Question::Rdma(RdmaQuestion::Ports), &asked) {
            Ok(answer) => Attributes(&answer)
                .text(attribute::NDEV_NAME)
                .map_or(Reading::Absent, |name| Reading::Value(name.to_owned())),
            Err(refusal) => {
                refusal.reading(&format!("asking RDMA netlink for the port {device}/{port}"), &[])
            }
        }
    }
}

/// Of a device the kernel gives the number of its ports in the place of a port's number.
pub(crate) fn device(answer: &[u8]) -> Option<(String, Known)> {
    let attributes = Attributes(answer);
    let name = attributes.text(attribute::DEV_NAME)?.to_owned();
    let index = attributes.u32(attribute::DEV_INDEX)?;
    Some((name, Known { index, ports: attributes.u32(attribute::PORT_INDEX)? }))
}

pub(crate) fn statistics(answer: &[u8]) -> BTreeMap<String, u64> {
    let entries = Attributes(answer).nested(attribute::STAT_HWCOUNTERS);
    let counter = |(kind, entry): (u16, _)| {
        let entry = Attributes(entry);
        let name = entry.text(attribute::STAT_HWCOUNTER_ENTRY_NAME).filter(|name| parse::plain(name).is_ok());
        let value = entry.u64(attribute::STAT_HWCOUNTER_ENTRY_VALUE);
        name.zip(value).filter(|_| kind == attribute::STAT_HWCOUNTER_ENTRY).map(|(n, v)| (n.to_owned(), v))
    };
    entries.iter().filter_map(counter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::{FakeHost, Folder};

    #[test]
    fn a_device_is_known_by_name_index_and_ports() {
        // RDMA_NLDEV_CMD_GET of a ConnectX: index 3, name, 2 ports; a 64-bit value (CAP_FLAGS, 4) between them.
        let answer = [
            &[8, 0, 1, 0, 3, 0, 0, 0][..],
            &[11, 0, 2, 0, b'm', b'l', b'x', b'5', b'_', b'0', 0, 0],
            &[8, 0, 3, 0, 2, 0, 0, 0],
            &[12, 0, 4, 0, 0x36, 0x1c, 0x10, 0x21, 0x17, 0x10, 0, 0],
        ]
        .concat();
        assert_eq!(device(&answer), Some(("mlx5_0".to_owned(), Known { index: 3, ports: 2 })));
        assert_eq!(device(&answer[..20]), None, "without the number of ports it is not known");
    }

    #[test]
    fn counters_are_read_with_their_padding() {
        let entry = |name: &str, value: u64| {
            Writer::default()
                .text(attribute::STAT_HWCOUNTER_ENTRY_NAME, name)
                // What the kernel puts before a 64-bit value on machines that need it aligned.
                .bytes(0, &[])
                .bytes(attribute::STAT_HWCOUNTER_ENTRY_VALUE, &value.to_ne_bytes())
        };
        let table = Writer::default()
            .nested(attribute::STAT_HWCOUNTER_ENTRY, &entry("out_of_sequence", 7))
            .nested(attribute::STAT_HWCOUNTER_ENTRY, &entry("rx_write_requests", u64::MAX))
            .nested(attribute::STAT_HWCOUNTER_ENTRY, &Writer::default().text(82, "without a value"));
        let answer = Writer::default()
            .u32(attribute::DEV_INDEX, 0)
            .text(attribute::DEV_NAME, "mlx5_0")
            .u32(attribute::PORT_INDEX, 1)
            .nested(attribute::STAT_HWCOUNTERS, &table);
        let expected =
            BTreeMap::from([("out_of_sequence".to_owned(), 7), ("rx_write_requests".to_owned(), u64::MAX)]);
        assert_eq!(statistics(answer.as_bytes()), expected);
        for length in 0..answer.as_bytes().len() {
            let _ = statistics(&answer.as_bytes()[..length]);
        }
    }

    #[test]
    fn the_mode_of_a_capture_is_written_and_read() {
        let folder = Folder::new();
        let tree = Tree::open(folder.path()).unwrap();
        assert_eq!(
            shared(&tree),
            Reading::failed("rdmascope/rdma/system is not part of this capture, or empty")
        );
        for mode in [Reading::Value(true), Reading::Value(false), Reading::Absent] {
            let (path, text) = shared_file(&mode).unwrap();
            folder.write(&path, &text);
            assert_eq!(shared(&tree), mode);
        }
        folder.write(SYSTEM, "netns: other\n");
        assert!(matches!(shared(&tree), Reading::Failed(_)));
    }

    #[test]
    fn a_kernel_without_the_protocol_has_no_rdma_netlink() {
        // No RDMA core in sysfs: the socket, which would make the kernel load one, is not even tried.
        let folder = Folder::new();
        assert!(matches!(Asked::connect(&Tree::open(folder.path()).unwrap()), Reading::Absent));
        // A core in sysfs: what comes now depends on the kernel that this test runs on, and is never an error where it has none.
        let fake = FakeHost::rxe(1);
        let asked = Asked::connect(&Tree::open(fake.root()).unwrap());
        if matches!(Socket::rdma(), Err(Refusal::Errno(Errno::PROTONOSUPPORT, _))) {
            assert!(matches!(asked, Reading::Absent));
        } else {
            assert!(matches!(asked, Reading::Value(_)));
        }
    }
}
