//! Data centre bridging as text.
//!
//! ```text
//! pfc: 3                              priorities, or `none`
//! pfc_max: 8
//! ets.class_of: 1 0 2 3 4 5 6 7       class of priorities 0 to 7; `ets: -` instead of the three lines: it has none
//! ets.share: 50 50 0 0 0 0 0 0        per cent of classes 0 to 7
//! ets.strict: 6,7                     classes, or `none`
//! dscp: 26:3 48:6                     DSCP and priority, or `none`
//! trust: dscp                         or `pcp`
//! firmware_controlled: off
//! buffers.buffer_of: 0 0 0 1 0 0 0 0  buffer of priorities 0 to 7; `buffers: -` likewise
//! buffers.bytes: 19872 220896 0 0 0 0 0 0
//! ```

use super::{Fields, eight, list, mask, put, show_list, show_mask, show_switch, switch};
use crate::parse;
use rdmascope_model::{Buffers, Dcb, Ets, Reading, Trust};
use std::collections::BTreeMap;

/// Reads it.
pub(crate) fn read(fields: &Fields) -> Dcb {
    Dcb {
        pfc: fields.get("pfc", mask),
        pfc_max: fields.get("pfc_max", parse::number),
        ets: whole(fields, "ets", ets),
        dscp: fields.get("dscp", dscp),
        trust: fields.get("trust", |text| match text {
            "pcp" => Ok(Trust::Pcp),
            "dscp" => Ok(Trust::Dscp),
            _ => Err(format!("'{}' is neither pcp nor dscp", text.escape_debug())),
        }),
        firmware_controlled: fields.get("firmware_controlled", switch),
        buffers: whole(fields, "buffers", buffers),
    }
}

/// Writes it.
pub(crate) fn write(dcb: &Dcb) -> String {
    let mut text = String::new();
    put(&mut text, "pfc", &dcb.pfc, show_mask);
    put(&mut text, "pfc_max", &dcb.pfc_max, u8::to_string);
    match dcb.ets.as_ref() {
        Reading::Value(ets) => {
            put(&mut text, "ets.class_of", &Reading::Value(ets.class_of), |all| show_list(all));
            put(&mut text, "ets.share", &Reading::Value(ets.share), |all| show_list(all));
            put(&mut text, "ets.strict", &Reading::Value(ets.strict), |all| show_mask(&mask_of(all)));
        }
        other => put(&mut text, "ets", &other, |_| String::new()),
    }
    put(&mut text, "dscp", &dcb.dscp, show_dscp);
    put(&mut text, "trust", &dcb.trust, |trust| {
        match trust {
            Trust::Pcp => "pcp",
            Trust::Dscp => "dscp",
        }
        .to_owned()
    });
    put(&mut text, "firmware_controlled", &dcb.firmware_controlled, show_switch);
    match dcb.buffers.as_ref() {
        Reading::Value(buffers) => {
            put(&mut text, "buffers.buffer_of", &Reading::Value(buffers.buffer_of), |all| show_list(all));
            put(&mut text, "buffers.bytes", &Reading::Value(buffers.bytes), |all| show_list(all));
        }
        other => put(&mut text, "buffers", &other, |_| String::new()),
    }
    text
}

/// Something of several lines, for which one line `key: -` may stand.
fn whole<T>(fields: &Fields, key: &str, read: fn(&Fields) -> Reading<T>) -> Reading<T> {
    match fields.get(key, |_| Ok(())) {
        Reading::Absent => Reading::Absent,
        _ => read(fields),
    }
}

fn ets(fields: &Fields) -> Reading<Ets> {
    let strict = |text: &str| mask(text).map(|mask| std::array::from_fn(|class| mask & (1 << class) != 0));
    joined(
        joined(fields.get("ets.class_of", eight), fields.get("ets.share", eight)),
        fields.get("ets.strict", strict),
    )
    .map(|((class_of, share), strict)| Ets { class_of, share, strict })
}

fn buffers(fields: &Fields) -> Reading<Buffers> {
    joined(fields.get("buffers.buffer_of", eight), fields.get("buffers.bytes", eight))
        .map(|(buffer_of, bytes)| Buffers { buffer_of, bytes })
}

fn joined<A, B>(a: Reading<A>, b: Reading<B>) -> Reading<(A, B)> {
    match (a, b) {
        (Reading::Value(a), Reading::Value(b)) => Reading::Value((a, b)),
        (Reading::Failed(why), _) | (_, Reading::Failed(why)) => Reading::Failed(why),
        (Reading::Absent, _) | (_, Reading::Absent) => Reading::Absent,
    }
}

fn mask_of(all: &[bool; 8]) -> u8 {
    all.iter().enumerate().fold(0, |mask, (bit, on)| mask | (u8::from(*on) << bit))
}

fn dscp(text: &str) -> Result<BTreeMap<u8, u8>, String> {
    if text == "none" {
        return Ok(BTreeMap::new());
    }
    let pairs: Vec<String> = list(text)?;
    let wrong = |pair: &str| format!("'{}' is not a DSCP and its priority", pair.escape_debug());
    pairs
        .iter()
        .map(|pair| {
            let (dscp, priority) = pair.split_once(':').ok_or_else(|| wrong(pair))?;
            match (dscp.parse(), priority.parse()) {
                (Ok(dscp @ 0..64), Ok(priority @ 0..8)) => Ok((dscp, priority)),
                _ => Err(wrong(pair)),
            }
        })
        .collect()
}

fn show_dscp(map: &BTreeMap<u8, u8>) -> String {
    let pairs: Vec<String> = map.iter().map(|(dscp, priority)| format!("{dscp}:{priority}")).collect();
    if pairs.is_empty() { "none".to_owned() } else { pairs.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;
    use rdmascope_fixtures::{Folder, snapshot::lossless};

    fn back(text: &str) -> Dcb {
        let folder = Folder::new();
        folder.write("dcb", text);
        let Reading::Value(fields) = Fields::read(&Tree::open(folder.path()).unwrap(), "dcb") else {
            panic!("it is read")
        };
        read(&fields)
    }

    #[test]
    fn what_is_written_is_read() {
        let mut dcb = lossless();
        assert_eq!(back(&write(&dcb)), dcb);
        dcb.ets = Reading::Absent;
        dcb.buffers = Reading::Absent;
        dcb.dscp = Reading::Value(BTreeMap::new());
        dcb.trust = Reading::Value(Trust::Pcp);
        dcb.firmware_controlled = Reading::Value(true);
        dcb.pfc_max = Reading::Absent;
        assert_eq!(back(&write(&dcb)), dcb);
    }

    #[test]
    fn a_hand_made_file_of_two_lines() {
        let seen = back("pfc: 3,5\ndscp: 26:3 48:6\n");
        assert_eq!(seen.pfc, Reading::Value(0b10_1000));
        assert_eq!(seen.dscp, Reading::Value(BTreeMap::from([(26, 3), (48, 6)])));
        assert!(matches!(seen.ets, Reading::Failed(why) if why.contains("not part of this capture")));
        assert!(matches!(seen.trust, Reading::Failed(_)));
        for bad in ["dscp: 64:3", "dscp: 26:8", "dscp: 26", "dscp: 26:3,48:6"] {
            assert!(matches!(back(bad).dscp, Reading::Failed(_)), "{bad}");
        }
    }
}
