//! Link settings and state as text; the keys are the fields of [`Ethtool`].

use super::{Fields, put, show_switch, switch};
use crate::parse;
use rdmascope_model::Ethtool;

/// Reads it.
pub(crate) fn read(fields: &Fields) -> Ethtool {
    Ethtool {
        speed_mbps: fields.get("speed_mbps", parse::number),
        autonegotiation: fields.get("autonegotiation", switch),
        link: fields.get("link", switch),
        link_down_reason: fields.get("link_down_reason", parse::plain),
        fec: fields.get("fec", parse::plain),
        pause_rx: fields.get("pause_rx", switch),
        pause_tx: fields.get("pause_tx", switch),
    }
}

/// Writes it.
pub(crate) fn write(ethtool: &Ethtool) -> String {
    let mut text = String::new();
    put(&mut text, "speed_mbps", &ethtool.speed_mbps, u32::to_string);
    put(&mut text, "autonegotiation", &ethtool.autonegotiation, show_switch);
    put(&mut text, "link", &ethtool.link, show_switch);
    put(&mut text, "link_down_reason", &ethtool.link_down_reason, String::clone);
    put(&mut text, "fec", &ethtool.fec, String::clone);
    put(&mut text, "pause_rx", &ethtool.pause_rx, show_switch);
    put(&mut text, "pause_tx", &ethtool.pause_tx, show_switch);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;
    use rdmascope_fixtures::{Folder, snapshot};
    use rdmascope_model::Reading;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let mut ethtool = snapshot::netdev(2, &[]).ethtool;
        ethtool.link_down_reason = Reading::Value("autonegotiation failed: no partner detected".to_owned());
        ethtool.speed_mbps = Reading::Absent;
        ethtool.fec = Reading::failed("EIO");
        let folder = Folder::new();
        folder.write("ethtool", &write(&ethtool));
        let Reading::Value(fields) = Fields::read(&Tree::open(folder.path()).unwrap(), "ethtool") else {
            panic!("it is read")
        };
        ethtool.fec = Reading::failed("'fec' in ethtool is not part of this capture");
        assert_eq!(read(&fields), ethtool);
    }
}
