//! Driver statistics as text, in the form that `ethtool -S` prints them; only what the counter catalogue knows is kept.

use super::Fields;
use crate::parse;
use rdmascope_checks::counters::{Place, find};
use rdmascope_model::Reading;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What `ethtool -S` prints above the list.
const TITLE: &str = "NIC statistics";

/// Whether the catalogue knows a statistic.
pub(crate) fn is_known(name: &str) -> bool {
    find(Place::Netdev, name).is_some()
}

/// Reads them. One known statistic that is no number costs all: a missing counter must not look like one that the driver lacks.
pub(crate) fn read(fields: &Fields) -> Reading<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for name in fields.lines().keys().filter(|name| *name != TITLE && is_known(name)) {
        match fields.get(name, parse::number::<u64>) {
            Reading::Value(value) => {
                all.insert(name.clone(), value);
            }
            Reading::Absent => {}
            Reading::Failed(why) => return Reading::Failed(why),
        }
    }
    Reading::Value(all)
}

/// Writes them.
pub(crate) fn write(statistics: &BTreeMap<String, u64>) -> String {
    let mut text = format!("{TITLE}:\n");
    for (name, value) in statistics {
        writeln!(text, "     {name}: {value}").expect("a text can always grow");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;
    use rdmascope_fixtures::Folder;

    fn back(text: &str) -> Reading<BTreeMap<String, u64>> {
        let folder = Folder::new();
        folder.write("statistics", text);
        let Reading::Value(fields) = Fields::read(&Tree::open(folder.path()).unwrap(), "statistics") else {
            panic!("it is read")
        };
        read(&fields)
    }

    #[test]
    fn the_output_of_ethtool_is_read_as_it_is() {
        let seen = back(
            "NIC statistics:\n     rx_prio3_pause: 7\n     rx9_xsk_xdp_drop: 1\n     rx_discards_phy: 18446744073709551615\n",
        );
        let expected =
            BTreeMap::from([("rx_prio3_pause".to_owned(), 7), ("rx_discards_phy".to_owned(), u64::MAX)]);
        assert_eq!(seen, Reading::Value(expected));
        assert!(
            matches!(back("rx_prio3_pause: many\n"), Reading::Failed(why) if why.contains("rx_prio3_pause"))
        );
    }

    #[test]
    fn what_is_written_is_read_also_when_there_is_nothing() {
        for statistics in [BTreeMap::new(), BTreeMap::from([("rx_bits_phy".to_owned(), 8)])] {
            assert_eq!(back(&write(&statistics)), Reading::Value(statistics));
        }
    }

    #[test]
    fn a_file_longer_than_a_sysfs_attribute() {
        let long: String = (0..1000).map(|i| format!("     rx{i}_packets: {i}\n")).collect();
        assert!(long.len() > 16_384);
        assert_eq!(back(&format!("{long}rx_bits_phy: 5\n")).value().unwrap()["rx_bits_phy"], 5);
    }
}
