//! A transceiver or cable as text; the keys are the fields of [`Module`].

use super::{Fields, list, put, show_list};
use crate::parse;
use rdmascope_model::{Module, Reading};

/// Reads it; a file without `identifier` or `vendor` says nothing of a module.
pub(crate) fn read(fields: &Fields) -> Reading<Module> {
    let (identifier, vendor) =
        match (fields.get("identifier", parse::plain), fields.get("vendor", parse::plain)) {
            (Reading::Value(identifier), Reading::Value(vendor)) => (identifier, vendor),
            (Reading::Failed(why), _) | (_, Reading::Failed(why)) => return Reading::Failed(why),
            (Reading::Absent, _) | (_, Reading::Absent) => return Reading::Absent,
        };
    Reading::Value(Module {
        identifier,
        vendor,
        serial: String::new(),
        temperature_mc: fields.get("temperature_mc", parse::number),
        temperature_alarm_mc: fields.get("temperature_alarm_mc", parse::number),
        rx_power_nw: fields.get("rx_power_nw", list),
        rx_power_alarm_nw: fields.get("rx_power_alarm_nw", parse::number),
    })
}

/// Writes it, without its serial number: a capture may be shown to anybody.
pub(crate) fn write(module: &Module) -> String {
    let mut text = String::new();
    put(&mut text, "identifier", &Reading::Value(()), |()| module.identifier.clone());
    put(&mut text, "vendor", &Reading::Value(()), |()| module.vendor.clone());
    put(&mut text, "temperature_mc", &module.temperature_mc, i32::to_string);
    put(&mut text, "temperature_alarm_mc", &module.temperature_alarm_mc, i32::to_string);
    put(&mut text, "rx_power_nw", &module.rx_power_nw, |lanes| show_list(lanes));
    put(&mut text, "rx_power_alarm_nw", &module.rx_power_alarm_nw, u64::to_string);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;
    use rdmascope_fixtures::Folder;

    fn back(text: &str) -> Reading<Module> {
        let folder = Folder::new();
        folder.write("module", text);
        match Fields::read(&Tree::open(folder.path()).unwrap(), "module") {
            Reading::Value(fields) => read(&fields),
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let module = Module {
            identifier: "QSFP-DD".to_owned(),
            vendor: String::new(),
            serial: String::new(),
            temperature_mc: Reading::Value(-500),
            temperature_alarm_mc: Reading::Absent,
            rx_power_nw: Reading::Value(vec![500_000, 0]),
            rx_power_alarm_nw: Reading::Value(27_600),
        };
        assert_eq!(back(&write(&module)), Reading::Value(module));
        assert_eq!(back("-"), Reading::Absent);
        assert!(matches!(back("vendor: x\n"), Reading::Failed(why) if why.contains("'identifier'")));
    }
}
