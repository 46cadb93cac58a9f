//! Data centre bridging by rtnetlink (`net/dcb/dcbnl.c`, `include/uapi/linux/dcbnl.h`).

use super::{Attributes, DcbQuestion, NOT_SUPPORTED, Question, Socket, Writer};
use rdmascope_model::{Buffers, Dcb, Ets, Reading, Trust};
use std::collections::BTreeMap;

/// `DCB_ATTR_IFNAME`.
const IFNAME: u16 = 1;
/// `DCB_ATTR_IEEE`, with these inside: `DCB_ATTR_IEEE_ETS`, `_PFC`, `_APP_TABLE`, `DCB_ATTR_DCB_BUFFER`, `DCB_ATTR_DCB_APP_TRUST_TABLE`.
const IEEE: u16 = 13;
const ETS: u16 = 1;
const PFC: u16 = 2;
const APP_TABLE: u16 = 3;
const BUFFER: u16 = 10;
const APP_TRUST: u16 = 11;
/// `DCB_ATTR_DCBX`.
const DCBX: u16 = 14;

/// `IEEE_8021QAZ_APP_SEL_DSCP`.
const SELECTOR_DSCP: u8 = 5;
/// `IEEE_8021QAZ_TSA_STRICT`.
const STRICT: u8 = 0;
/// `DCB_CAP_DCBX_HOST`: the host negotiates, or its administrator sets.
const DCBX_HOST: u8 = 0x01;

/// Settings of one network device; `Absent` where its driver has none.
pub(crate) fn read(socket: &Socket, netdev: &str) -> Reading<Dcb> {
    let name = Writer::default().text(IFNAME, netdev);
    let what = format!("asking the kernel for data centre bridging of {netdev}");
    match socket.one(Question::Dcb(DcbQuestion::Ieee), &name) {
        Ok(answer) => {
            let mode = match socket.one(Question::Dcb(DcbQuestion::Dcbx), &name) {
                Ok(answer) => mode(Attributes(&answer)),
                Err(refusal) => refusal.reading(&what, NOT_SUPPORTED),
            };
            Reading::Value(settings(Attributes(&answer), mode))
        }
        Err(refusal) => refusal.reading(&what, NOT_SUPPORTED),
    }
}

/// The DCBX mode bits.
pub(crate) fn mode(answer: Attributes<'_>) -> Reading<u8> {
    answer.u8(DCBX).map_or(Reading::Absent, Reading::Value)
}

pub(crate) fn settings(answer: Attributes<'_>, mode: Reading<u8>) -> Dcb {
    let ieee = answer.nested(IEEE);
    let pfc = ieee.array::<2>(PFC);
    let found = |bytes: Option<u8>| bytes.map_or(Reading::Absent, Reading::Value);
    let dscp = dscp(ieee.nested(APP_TABLE));
    Dcb {
        // struct ieee_pfc: how many priorities can have it, then those that do.
        pfc_max: found(pfc.map(|[most, _]| most)),
        pfc: found(pfc.map(|[_, on]| on)),
        ets: ieee.array(ETS).map_or(Reading::Absent, |bytes| Reading::Value(ets(bytes))),
        trust: Reading::Value(trust(ieee, &dscp)),
        dscp: Reading::Value(dscp),
        firmware_controlled: match mode {
            // mlx5 shows firmware control by a missing host bit alone (`mlx5e_dcbnl_initialize`), others by LLD_MANAGED beside it.
            // No bit at all: no DCBX, so nobody but the host can change anything.
            Reading::Value(bits) => Reading::Value(bits != 0 && bits & DCBX_HOST == 0),
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why),
        },
        buffers: ieee.array(BUFFER).map_or(Reading::Absent, |bytes| Reading::Value(buffers(bytes))),
    }
}

/// struct ieee_ets: willing, classes, shaper; then eight bytes each of sending and receiving shares, algorithm per class, class per
/// priority.
fn ets(bytes: [u8; 35]) -> Ets {
    let eight = |from: usize| std::array::from_fn(|i| bytes[from + i]);
    let algorithm: [u8; 8] = eight(19);
    Ets { share: eight(3), strict: algorithm.map(|a| a == STRICT), class_of: eight(27) }
}

/// struct dcbnl_buffer: the buffer of each priority, then the size of each.
fn buffers(bytes: [u8; 40]) -> Buffers {
    let size = |i: usize| std::array::from_fn(|byte| bytes[8 + 4 * i + byte]);
    Buffers {
        buffer_of: std::array::from_fn(|priority| bytes[priority]),
        bytes: std::array::from_fn(|buffer| u32::from_ne_bytes(size(buffer))),
    }
}

/// struct dcb_app: selector, priority, and the DSCP in 16 bits.
fn dscp(table: Attributes<'_>) -> BTreeMap<u8, u8> {
    table
        .iter()
        .filter_map(|(_, entry)| match *entry.get(..4)? {
            [SELECTOR_DSCP, priority, low, high] => {
                Some((u8::try_from(u16::from_ne_bytes([low, high])).ok()?, priority))
            }
            _ => None,
        })
        .collect()
}

/// Drivers with an application trust table say it; the others (mlx5 among them) look at the DSCP as soon as there is one entry for it.
fn trust(ieee: Attributes<'_>, dscp: &BTreeMap<u8, u8>) -> Trust {
    let trusts_dscp = match ieee.bytes(APP_TRUST) {
        Some(table) => Attributes(table).iter().any(|(_, selector)| selector == [SELECTOR_DSCP]),
        None => !dscp.is_empty(),
    };
    if trusts_dscp { Trust::Dscp } else { Trust::Pcp }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a port with PFC for priority 3, DSCP 26 on it and one strict class answers.
    fn answer(table: &Writer) -> Writer {
        let mut pfc = [0; 136];
        pfc[..2].copy_from_slice(&[8, 1 << 3]);
        let mut ets = [0; 59];
        ets[3..11].copy_from_slice(&[50, 50, 0, 0, 0, 0, 0, 0]);
        ets[19..27].copy_from_slice(&[2, 2, 2, 2, 2, 2, 0, 2]);
        ets[27..35].copy_from_slice(&[1, 0, 2, 3, 4, 5, 6, 7]);
        let mut buffer = vec![0, 0, 0, 1, 0, 0, 0, 0];
        for size in [19_872_u32, 220_896, 0, 0, 0, 0, 0, 0, 240_768] {
            buffer.extend_from_slice(&size.to_ne_bytes());
        }
        let ieee = Writer::default()
            .bytes(ETS, &ets)
            .bytes(PFC, &pfc)
            .nested(APP_TABLE, table)
            .bytes(BUFFER, &buffer);
        Writer::default().text(IFNAME, "eth0").nested(IEEE, &ieee)
    }

    fn app(selector: u8, priority: u8, protocol: u16) -> Vec<u8> {
        let [low, high] = protocol.to_ne_bytes();
        vec![selector, priority, low, high]
    }

    #[test]
    fn a_lossless_port() {
        // RoCE v1 by its EtherType has an entry too, which is no DSCP.
        let table =
            Writer::default().bytes(1, &app(1, 3, 0x8915)).bytes(1, &app(5, 3, 26)).bytes(1, &app(5, 6, 48));
        let seen = settings(Attributes(answer(&table).as_bytes()), Reading::Value(0x0d));
        assert_eq!((&seen.pfc, &seen.pfc_max), (&Reading::Value(0b1000), &Reading::Value(8)));
        assert_eq!(seen.dscp, Reading::Value(BTreeMap::from([(26, 3), (48, 6)])));
        assert_eq!(seen.trust, Reading::Value(Trust::Dscp));
        assert_eq!(seen.firmware_controlled, Reading::Value(false));
        let ets = seen.ets.value().unwrap();
        assert_eq!(ets.class_of, [1, 0, 2, 3, 4, 5, 6, 7]);
        assert_eq!((ets.share[1], ets.strict), (50, [false, false, false, false, false, false, true, false]));
        let buffers = seen.buffers.value().unwrap();
        assert_eq!((buffers.buffer_of[3], buffers.bytes[1]), (1, 220_896));
    }

    #[test]
    fn trust_and_control() {
        let none = answer(&Writer::default());
        let trusting = |trusted: &[u8]| {
            let table = trusted.iter().fold(Writer::default(), |table, selector| table.u8(1, *selector));
            let ieee = Writer::default().nested(APP_TRUST, &table);
            settings(Attributes(Writer::default().nested(IEEE, &ieee).as_bytes()), Reading::Absent)
        };
        assert_eq!(settings(Attributes(none.as_bytes()), Reading::Absent).trust, Reading::Value(Trust::Pcp));
        assert_eq!(trusting(&[255, 5]).trust, Reading::Value(Trust::Dscp));
        assert_eq!(trusting(&[255]).trust, Reading::Value(Trust::Pcp));
        for (bits, firmware) in [(0x0c, true), (0x0e, true), (0x0d, false), (0, false)] {
            let seen = settings(Attributes(none.as_bytes()), Reading::Value(bits));
            assert_eq!(seen.firmware_controlled, Reading::Value(firmware), "{bits:#x}");
        }
    }

    #[test]
    fn what_a_driver_does_not_say_is_absent_and_cut_answers_never_panic() {
        let seen = settings(Attributes(&[]), Reading::Absent);
        assert_eq!((&seen.pfc, &seen.ets), (&Reading::Absent, &Reading::Absent));
        assert_eq!((&seen.buffers, &seen.firmware_controlled), (&Reading::Absent, &Reading::Absent));
        let whole = answer(&Writer::default().bytes(1, &app(5, 3, 26)));
        for length in 0..whole.as_bytes().len() {
            let _ = settings(Attributes(&whole.as_bytes()[..length]), Reading::Absent);
        }
    }
}
