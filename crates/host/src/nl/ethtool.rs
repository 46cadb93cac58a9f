//! Link settings and state by ethtool netlink (`Documentation/networking/ethtool-netlink.rst`).

use super::{Attributes, EthtoolQuestion, NOT_SUPPORTED, Question, Refusal, Socket, Writer};
use rdmascope_model::{Ethtool, Reading};

/// The header nest of every message, with `ETHTOOL_A_HEADER_DEV_NAME` and `ETHTOOL_A_HEADER_FLAGS` inside.
const HEADER: u16 = 1;
const DEVICE_NAME: u16 = 2;
const FLAGS: u16 = 3;
/// `ETHTOOL_FLAG_COMPACT_BITSETS`: link modes as bits and not as a hundred names.
const COMPACT_BITSETS: u32 = 1;

/// `ETHTOOL_A_LINKMODES_AUTONEG`, `_SPEED`.
const AUTONEGOTIATION: u16 = 2;
const SPEED: u16 = 5;
/// `ETHTOOL_A_LINKSTATE_LINK`, `_EXT_STATE`, `_EXT_SUBSTATE`.
const LINK: u16 = 2;
const EXT_STATE: u16 = 5;
const EXT_SUBSTATE: u16 = 6;
/// `ETHTOOL_A_FEC_ACTIVE`.
const FEC_ACTIVE: u16 = 4;
/// `ETHTOOL_A_PAUSE_RX`, `_TX`.
const PAUSE_RX: u16 = 3;
const PAUSE_TX: u16 = 4;

/// `ETHTOOL_LINK_EXT_STATE_NO_CABLE`.
const NO_CABLE: u8 = 4;

/// Whether the driver says that no cable is plugged in.
pub(super) fn has_no_cable(socket: &Socket, netdev: &str) -> bool {
    let state = socket.one(Question::Ethtool(EthtoolQuestion::LinkState), &about(netdev));
    state.is_ok_and(|bytes| Attributes(&bytes).u8(EXT_STATE) == Some(NO_CABLE))
}

/// The header of a question about one network device.
pub(super) fn about(netdev: &str) -> Writer {
    let header = Writer::default().text(DEVICE_NAME, netdev).u32(FLAGS, COMPACT_BITSETS);
    Writer::default().nested(HEADER, &header)
}

/// Everything about one network device. What a driver does not support is `Absent`.
pub(crate) fn read(socket: &Socket, netdev: &str) -> Ethtool {
    let ask = |question, words: &str| -> Answer {
        socket
            .one(Question::Ethtool(question), &about(netdev))
            .map_err(|refusal| (format!("asking ethtool for {words} of {netdev}"), refusal))
    };
    decoded(
        &ask(EthtoolQuestion::LinkModes, "the link modes"),
        &ask(EthtoolQuestion::LinkState, "the link state"),
        &ask(EthtoolQuestion::Fec, "the FEC"),
        &ask(EthtoolQuestion::Pause, "the pause settings"),
    )
}

/// An answer's attributes, or what was asked and why there is none.
pub(crate) type Answer = Result<Vec<u8>, (String, Refusal)>;

pub(crate) fn decoded(modes: &Answer, state: &Answer, fec: &Answer, pause: &Answer) -> Ethtool {
    Ethtool {
        speed_mbps: field(modes, speed),
        autonegotiation: field(modes, |a| a.u8(AUTONEGOTIATION).map(|on| on == 1)),
        link: field(state, |a| a.u8(LINK).map(|there| there != 0)),
        link_down_reason: field(state, |a| {
            a.u8(EXT_STATE).map(|reason| down_reason(reason, a.u8(EXT_SUBSTATE)))
        }),
        fec: field(fec, |a| a.u32(FEC_ACTIVE).map(fec_words)),
        pause_rx: field(pause, |a| a.u8(PAUSE_RX).map(|on| on != 0)),
        pause_tx: field(pause, |a| a.u8(PAUSE_TX).map(|on| on != 0)),
    }
}

/// The kernel leaves out what the driver does not say.
fn field<T>(answer: &Answer, read: impl FnOnce(Attributes<'_>) -> Option<T>) -> Reading<T> {
    match answer {
        Ok(bytes) => read(Attributes(bytes)).map_or(Reading::Absent, Reading::Value),
        Err((what, refusal)) => refusal.reading(what, NOT_SUPPORTED),
    }
}

/// `SPEED_UNKNOWN` is -1; some drivers say 0 while the link is down.
fn speed(answer: Attributes<'_>) -> Option<u32> {
    answer.u32(SPEED).filter(|&speed| speed != u32::MAX && speed != 0)
}

/// The link mode bit of the FEC in use (`ETHTOOL_LINK_MODE_FEC_*_BIT`), in the words of `ethtool --show-fec`.
fn fec_words(bit: u32) -> String {
    match bit {
        49 => "off".to_owned(),
        50 => "RS".to_owned(),
        51 => "BaseR".to_owned(),
        74 => "LLRS".to_owned(),
        other => format!("link mode bit {other}"),
    }
}

/// `enum ethtool_link_ext_state` and the `ethtool_link_ext_substate_*` of each, in words.
fn down_reason(state: u8, substate: Option<u8>) -> String {
    let (words, more): (&str, &[&str]) = match state {
        0 => (
            "autonegotiation failed",
            &[
                "no partner detected",
                "acknowledgement not received",
                "exchange of next pages failed",
                "no partner detected in forced mode",
                "FEC mismatch during override",
                "no common highest denominator",
            ],
        ),
        1 => (
            "link training failed",
            &[
                "frame lock not acquired",
                "link inhibit timeout",
                "the partner did not set receiver ready",
                "remote fault",
            ],
        ),
        2 => (
            "logical mismatch",
            &[
                "PCS did not acquire block lock",
                "PCS did not acquire alignment marker lock",
                "PCS did not get align status",
                "FC-FEC is not locked",
                "RS-FEC is not locked",
            ],
        ),
        3 => (
            "bad signal integrity",
            &[
                "large number of physical errors",
                "unsupported rate",
                "SerDes reference clock lost",
                "SerDes analogue loss of signal",
            ],
        ),
        NO_CABLE => ("no cable", &[]),
        5 => ("cable issue", &["unsupported cable", "cable test failure"]),
        6 => ("EEPROM issue", &[]),
        7 => ("calibration failure", &[]),
        8 => ("power budget exceeded", &[]),
        9 => ("overheat", &[]),
        10 => ("module", &["CMIS module is not in the state ready"]),
        11 => ("speed is not allowed on this device (OTP)", &[]),
        12 => ("switched off by the management controller (BMC)", &[]),
        other => return format!("reason {other}"),
    };
    match substate.and_then(|n| usize::from(n).checked_sub(1)).map(|n| more.get(n)) {
        Some(Some(more)) => format!("{words}: {more}"),
        Some(None) => format!("{words} (detail {})", substate.unwrap_or_default()),
        None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn answer(attributes: &Writer) -> Answer {
        Ok(attributes.as_bytes().to_vec())
    }

    #[test]
    fn a_port_that_runs() {
        let seen = decoded(
            &answer(&about("eth0").u8(AUTONEGOTIATION, 1).u32(SPEED, 100_000)),
            &answer(&about("eth0").u8(LINK, 1)),
            &answer(&about("eth0").u8(3, 1).u32(FEC_ACTIVE, 50)),
            &answer(&about("eth0").u8(PAUSE_RX, 0).u8(PAUSE_TX, 1)),
        );
        let expected = Ethtool {
            speed_mbps: Reading::Value(100_000),
            autonegotiation: Reading::Value(true),
            link: Reading::Value(true),
            link_down_reason: Reading::Absent,
            fec: Reading::Value("RS".to_owned()),
            pause_rx: Reading::Value(false),
            pause_tx: Reading::Value(true),
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_port_without_a_cable_and_without_fec() {
        let refused = |errno| {
            Err(("asking ethtool for the FEC of eth0".to_owned(), Refusal::Errno(errno, String::new())))
        };
        let seen = decoded(
            &answer(&about("eth0").u8(AUTONEGOTIATION, 0).u32(SPEED, u32::MAX)),
            &answer(&about("eth0").u8(LINK, 0).u8(EXT_STATE, 4)),
            &refused(Errno::OPNOTSUPP),
            &refused(Errno::IO),
        );
        assert_eq!((&seen.speed_mbps, &seen.link), (&Reading::Absent, &Reading::Value(false)));
        assert_eq!(seen.link_down_reason, Reading::Value("no cable".to_owned()));
        assert_eq!(seen.fec, Reading::Absent);
        assert!(matches!(seen.pause_rx, Reading::Failed(why) if why.contains("asking ethtool")));
    }

    #[test]
    fn reasons_in_words() {
        for (state, substate, words) in [
            (0, Some(1), "autonegotiation failed: no partner detected"),
            (2, Some(5), "logical mismatch: RS-FEC is not locked"),
            (3, None, "bad signal integrity"),
            (4, Some(9), "no cable (detail 9)"),
            (0, Some(0), "autonegotiation failed"),
            (200, Some(1), "reason 200"),
        ] {
            assert_eq!(down_reason(state, substate), words);
        }
        assert_eq!((fec_words(49), fec_words(74)), ("off".to_owned(), "LLRS".to_owned()));
    }
}
