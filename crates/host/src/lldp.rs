//! What the neighbour at the other end of a cable says of itself by LLDP (IEEE 802.1AB), as far as a service keeps it in a file.
//!
//! systemd-networkd keeps the last frame of each neighbour in `/run/systemd/netif/lldp/INDEX`: for each its length, 64 bits little
//! endian, and the whole Ethernet frame. No frame is sent or waited for here, so a machine without that file has no LLDP for us.

use crate::parse;
use crate::text::{self, Fields, put};
use crate::tree::Tree;
use rdmascope_model::{Lldp, Netdev, Reading};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

const KEPT: &str = "run/systemd/netif/lldp";

/// Most that is read of such a file: some ten neighbours with frames of full length.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// Bytes of an Ethernet header, and the type that LLDP has in it.
const ETHERNET_BYTES: usize = 14;
const LLDP_TYPE: [u8; 2] = [0x88, 0xcc];

/// Where the nearest bridge is told: the switch port itself, and nobody behind it (IEEE 802.1AB 7.1).
const NEAREST_BRIDGE: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];

/// Types of TLV (IEEE 802.1AB 8.4).
const END: u8 = 0;
const CHASSIS: u8 = 1;
const PORT: u8 = 2;
const SYSTEM_NAME: u8 = 5;
const ORGANISATION: u8 = 127;

/// Organisation and subtype: IEEE 802.3 maximum frame size (802.3 79.3.4), IEEE 802.1 priority flow control (802.1Q D.2.10).
const FRAME_SIZE: [u8; 4] = [0x00, 0x12, 0x0f, 4];
const PRIORITY_FLOW_CONTROL: [u8; 4] = [0x00, 0x80, 0xc2, 0x0b];

/// Fills in the neighbour of every network device.
pub(crate) fn add(tree: &Tree, netdevs: &mut BTreeMap<String, Netdev>) {
    // One folder for thousands of devices, most of which have no neighbour.
    let kept_of = tree.list(KEPT);
    for (name, netdev) in netdevs {
        netdev.lldp = match (tree.is_real(), &kept_of, &netdev.index) {
            (false, ..) => from_file(tree, name),
            (true, Reading::Value(indices), Reading::Value(index))
                if indices.contains(&index.to_string()) =>
            {
                kept(tree, *index)
            }
            (true, Reading::Failed(why), _) => Reading::Failed(why.clone()),
            _ => Reading::Absent,
        };
    }
}

/// The neighbour of the network device with this kernel index, on the machine that we run on. `Absent` where nobody keeps it.
fn kept(tree: &Tree, index: u32) -> Reading<Lldp> {
    let path = format!("{KEPT}/{index}");
    let bytes = match tree.binary(&path, KEPT_BYTES_MAX) {
        Reading::Value(bytes) => bytes,
        Reading::Absent => return Reading::Absent,
        Reading::Failed(why) => return Reading::Failed(why),
    };
    // The file is written anew when a neighbour comes, goes or says something else.
    let age_seconds = match tree.age_seconds(&path) {
        Reading::Value(age) => age,
        Reading::Absent => return Reading::Absent,
        Reading::Failed(why) => return Reading::Failed(why),
    };
    let frames = match frames(&bytes) {
        Ok(frames) => frames,
        Err(why) => return Reading::Failed(format!("reading {path}: {why}")),
    };
    let nearest = frames.iter().find(|frame| frame.starts_with(&NEAREST_BRIDGE)).or(frames.first());
    match nearest.map(|frame| lldp(frame, age_seconds)) {
        Some(Ok(lldp)) => Reading::Value(lldp),
        Some(Err(why)) => Reading::Failed(format!("reading {path}: {why}")),
        None => Reading::Absent,
    }
}

pub(crate) fn frames(mut bytes: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or("it ends within a length")?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|e| e.to_string())?;
        let (frame, rest) = rest.split_at_checked(length).ok_or("it ends within a frame")?;
        frames.push(frame);
        bytes = rest;
    }
    Ok(frames)
}

/// One frame. What a neighbour does not say is `Absent`; a frame that breaks off is wrong as a whole.
pub(crate) fn lldp(frame: &[u8], age_seconds: u32) -> Result<Lldp, String> {
    let (header, mut rest) = frame.split_at_checked(ETHERNET_BYTES).ok_or("a frame in it is too short")?;
    if !header.ends_with(&LLDP_TYPE) {
        return Err("a frame in it is not LLDP".to_owned());
    }
    let mut seen = Lldp {
        system: Reading::Absent,
        port: Reading::Absent,
        frame_bytes_max: Reading::Absent,
        pfc: Reading::Absent,
        age_seconds,
    };
    let mut chassis = Reading::Absent;
    while let Some((&[first, second], tail)) = rest.split_first_chunk::<2>() {
        // Seven bits of type and nine of length.
        let length = usize::from(first & 1) << 8 | usize::from(second);
        let (value, tail) = tail.split_at_checked(length).ok_or("a frame in it breaks off")?;
        rest = tail;
        match first >> 1 {
            END => break,
            CHASSIS => chassis = identifier(value, [4, 5, 6, 7], "chassis"),
            PORT => seen.port = identifier(value, [3, 4, 5, 7], "port"),
            SYSTEM_NAME => seen.system = words(value, "system name"),
            ORGANISATION => organisation(value, &mut seen),
            _ => {}
        }
    }
    if seen.system == Reading::Absent {
        seen.system = chassis;
    }
    Ok(seen)
}

fn organisation(value: &[u8], seen: &mut Lldp) {
    let Some((kind, value)) = value.split_first_chunk::<4>() else { return };
    match (*kind, value) {
        (FRAME_SIZE, &[high, low, ..]) => {
            seen.frame_bytes_max = Reading::Value(u32::from(u16::from_be_bytes([high, low])));
        }
        // Willing, bypass and how many it can do at once; then which are on, bit 0 = priority 0.
        (PRIORITY_FLOW_CONTROL, &[_, on, ..]) => seen.pfc = Reading::Value(on),
        _ => {}
    }
}

fn words(value: &[u8], what: &str) -> Reading<String> {
    match std::str::from_utf8(value).map_err(|_| "not text".to_owned()).and_then(parse::plain) {
        Ok(text) if text.is_empty() => Reading::Absent,
        Ok(text) => Reading::Value(text),
        Err(why) => Reading::Failed(format!("the neighbour's {what} is odd: {why}")),
    }
}

/// An identifier of a chassis or a port. `subtypes`: those of a MAC address, a network address, and two kinds of name.
fn identifier(value: &[u8], subtypes: [u8; 4], what: &str) -> Reading<String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
    let [mac, network, name, local] = subtypes;
    match value {
        [] => Reading::Absent,
        [kind, bytes @ ..] if *kind == mac => Reading::Value(hex(bytes)),
        [kind, 1, a, b, c, d] if *kind == network => {
            Reading::Value(Ipv4Addr::new(*a, *b, *c, *d).to_string())
        }
        [kind, 2, ip @ ..] if *kind == network => match <[u8; 16]>::try_from(ip) {
            Ok(ip) => Reading::Value(Ipv6Addr::from(ip).to_string()),
            Err(_) => Reading::Value(hex(ip)),
        },
        // 1: the name of a component, or an alias of an interface.
        [kind, bytes @ ..] if *kind == name || *kind == local || *kind == 1 => words(bytes, what),
        [_, bytes @ ..] => Reading::Value(hex(bytes)),
    }
}

fn file(name: &str) -> String {
    format!("rdmascope/netdev/{name}/lldp")
}

/// Lines of this file have the names of the fields of [`Lldp`]; a line `-` alone: no neighbour, or nobody who listens to it.
fn from_file(tree: &Tree, name: &str) -> Reading<Lldp> {
    let fields = match Fields::read(tree, &file(name)) {
        Reading::Value(fields) => fields,
        Reading::Absent => return Reading::Absent,
        Reading::Failed(why) => return Reading::Failed(why),
    };
    fields.get("age_seconds", parse::number).map(|age_seconds| Lldp {
        system: fields.get("system", parse::plain),
        port: fields.get("port", parse::plain),
        frame_bytes_max: fields.get("frame_bytes_max", parse::number),
        pfc: fields.get("pfc", text::mask),
        age_seconds,
    })
}

/// The file of a capture, path and text; `None` when it could not be read.
pub(crate) fn to_file(name: &str, lldp: &Reading<Lldp>) -> Option<(String, String)> {
    let write = |lldp: &Lldp| {
        let mut text = format!("age_seconds: {}\n", lldp.age_seconds);
        put(&mut text, "system", &lldp.system, String::clone);
        put(&mut text, "port", &lldp.port, String::clone);
        put(&mut text, "frame_bytes_max", &lldp.frame_bytes_max, u32::to_string);
        put(&mut text, "pfc", &lldp.pfc, text::show_mask);
        text
    };
    Some((file(name), text::file(lldp, write)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;

    fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len()).unwrap();
        let head = u16::from(kind) << 9 | length;
        [&head.to_be_bytes()[..], value].concat()
    }

    fn frame(to: [u8; 6], tlvs: &[Vec<u8>]) -> Vec<u8> {
        let ethernet = [&to[..], &[0x02, 0, 0, 0, 0, 0x01], &LLDP_TYPE].concat();
        [ethernet, tlvs.concat(), vec![0, 0]].concat()
    }

    /// A leaf switch: chassis by MAC address, port and name in words, frames of 9216 bytes, PFC on priorities 3 and 5.
    fn leaf() -> Vec<u8> {
        frame(
            NEAREST_BRIDGE,
            &[
                tlv(1, &[4, 0x02, 0, 0, 0, 0, 0x01]),
                tlv(2, b"\x05Ethernet1/7"),
                tlv(3, &[0, 120]),
                tlv(5, b"leaf-12"),
                tlv(127, &[0x00, 0x12, 0x0f, 4, 0x24, 0x00]),
                tlv(127, &[0x00, 0x80, 0xc2, 0x0b, 0x08, 0b0010_1000]),
                // The older DCBX of Intel, Cisco and NVIDIA is not looked into.
                tlv(127, &[0x00, 0x1b, 0x21, 2, 1, 2, 3]),
            ],
        )
    }

    fn value(text: &str) -> Reading<String> {
        Reading::Value(text.to_owned())
    }

    #[test]
    fn a_switch_is_understood() {
        let expected = Lldp {
            system: value("leaf-12"),
            port: value("Ethernet1/7"),
            frame_bytes_max: Reading::Value(9216),
            pfc: Reading::Value(0b0010_1000),
            age_seconds: 7,
        };
        assert_eq!(lldp(&leaf(), 7), Ok(expected));
    }

    #[test]
    fn what_is_not_said_is_absent_and_identifiers_of_all_kinds_are_shown() {
        let seen = |chassis: &[u8], port: &[u8]| {
            let seen = lldp(&frame(NEAREST_BRIDGE, &[tlv(1, chassis), tlv(2, port)]), 0).unwrap();
            assert_eq!((seen.frame_bytes_max, seen.pfc), (Reading::Absent, Reading::Absent));
            (seen.system, seen.port)
        };
        // Without a system name the chassis stands for it.
        assert_eq!(
            seen(&[4, 2, 0, 0, 0, 0, 1], &[3, 2, 0, 0, 0, 0, 9]),
            (value("02:00:00:00:00:01"), value("02:00:00:00:00:09"))
        );
        assert_eq!(seen(&[5, 1, 192, 0, 2, 1], b"\x07swp7"), (value("192.0.2.1"), value("swp7")));
        assert_eq!(seen(b"\x01chassis 4", &[6, 0xab, 0xcd]), (value("chassis 4"), value("ab:cd")));
        let (_, odd) = seen(b"\x07x", b"\x05swp\x1b[2J");
        assert!(matches!(odd, Reading::Failed(why) if why.contains("control characters")));
    }

    #[test]
    fn frames_that_break_off_are_said_to_do_so() {
        let whole = leaf();
        let broken = (0..whole.len()).filter(|length| lldp(&whole[..*length], 0).is_err()).count();
        // Not an error: cut at one of the eight places before, between and behind the TLVs, or one byte later.
        assert_eq!(broken, whole.len() - (8 * 2));
        let mut other = leaf();
        other[12] = 0x08;
        assert!(lldp(&other, 0).is_err_and(|why| why.contains("not LLDP")));
    }

    #[test]
    fn the_file_of_networkd_is_a_row_of_frames() {
        let kept_in = |frames: &[Vec<u8>]| {
            let with_length = |frame: &Vec<u8>| [&(frame.len() as u64).to_le_bytes()[..], frame].concat();
            frames.iter().flat_map(with_length).collect::<Vec<u8>>()
        };
        // Somebody behind the switch, told to customer bridges, comes first in the file.
        let behind = frame([0x01, 0x80, 0xc2, 0, 0, 0], &[tlv(5, b"far away")]);
        let bytes = kept_in(&[behind.clone(), leaf()]);
        assert_eq!(frames(&bytes).unwrap(), [&behind[..], &leaf()]);
        for length in [1, 7, 9, bytes.len() - 1] {
            assert!(frames(&bytes[..length]).is_err(), "{length}");
        }
        let folder = Folder::new();
        let tree = Tree::open(folder.path()).unwrap();
        assert_eq!(kept(&tree, 4), Reading::Absent);
        folder.write(&format!("{KEPT}/3"), "");
        assert_eq!(kept(&tree, 3), Reading::Absent, "no neighbour yet");
        std::fs::write(folder.path().join(format!("{KEPT}/4")), bytes).unwrap();
        let seen = kept(&tree, 4);
        let seen = seen.value().unwrap();
        assert_eq!(seen.system, value("leaf-12"));
        assert!(seen.age_seconds < 60, "it was written just now");
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = Folder::new();
        let tree = Tree::open(folder.path()).unwrap();
        assert_eq!(to_file("eth0", &Reading::failed("EACCES")), None);
        assert!(
            matches!(from_file(&tree, "eth0"), Reading::Failed(why) if why.contains("not part of this capture"))
        );
        let silent = frame(NEAREST_BRIDGE, &[tlv(127, &[0x00, 0x80, 0xc2, 0x0b, 0x08, 0])]);
        for reading in [
            Reading::Value(lldp(&leaf(), 7).unwrap()),
            Reading::Value(lldp(&silent, 0).unwrap()),
            Reading::Absent,
        ] {
            let (path, text) = to_file("eth0", &reading).unwrap();
            folder.write(&path, &text);
            assert_eq!(from_file(&tree, "eth0"), reading);
        }
    }
}
