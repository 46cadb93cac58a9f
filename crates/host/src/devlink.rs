//! Health, versions and the RoCE switch of a PCI function by devlink (`Documentation/networking/devlink`).
//!
//! Only counts are asked for: asking a reporter for a dump or a diagnosis makes firmware work, and a stored dump blocks newer ones.
//! The functions block, like those of [`crate::nl`]: a driver that is being reloaded holds its devlink instance locked.

mod text;

pub(crate) use text::to_files;

use crate::nl::{Attributes, DevlinkQuestion, NO_SUBSYSTEM, Question, Refusal, Socket, Writer};
use crate::parse;
use crate::tree::Tree;
use rdmascope_model::{Devlink, HealthReporter, Reading};
use rustix::io::Errno;
use std::collections::BTreeMap;

/// Attributes of `enum devlink_attr` (`include/uapi/linux/devlink.h`).
mod attribute {
    pub(super) const BUS_NAME: u16 = 1;
    pub(super) const DEV_NAME: u16 = 2;
    pub(super) const PORT_INDEX: u16 = 3;
    pub(super) const PARAM: u16 = 80;
    pub(super) const PARAM_NAME: u16 = 81;
    pub(super) const PARAM_VALUES_LIST: u16 = 84;
    pub(super) const PARAM_VALUE: u16 = 85;
    pub(super) const PARAM_VALUE_DATA: u16 = 86;
    pub(super) const PARAM_VALUE_CMODE: u16 = 87;
    pub(super) const INFO_SERIAL_NUMBER: u16 = 99;
    pub(super) const INFO_VERSION_RUNNING: u16 = 101;
    pub(super) const INFO_VERSION_STORED: u16 = 102;
    pub(super) const INFO_VERSION_NAME: u16 = 103;
    pub(super) const INFO_VERSION_VALUE: u16 = 104;
    pub(super) const HEALTH_REPORTER: u16 = 114;
    pub(super) const HEALTH_REPORTER_NAME: u16 = 115;
    pub(super) const HEALTH_REPORTER_STATE: u16 = 116;
    pub(super) const HEALTH_REPORTER_ERR_COUNT: u16 = 117;
    pub(super) const HEALTH_REPORTER_RECOVER_COUNT: u16 = 118;
    pub(super) const INFO_BOARD_SERIAL_NUMBER: u16 = 146;
}

/// `DEVLINK_HEALTH_REPORTER_STATE_ERROR`.
const STATE_ERROR: u8 = 1;

/// `DEVLINK_PARAM_CMODE_RUNTIME` and `DEVLINK_PARAM_CMODE_DRIVERINIT`: the values that hold now, the better one first.
const MODES_NOW: [u8; 2] = [0, 1];

/// The driver knows no such device, question or parameter.
const NOT_THERE: &[Errno] = &[Errno::NODEV, Errno::OPNOTSUPP, Errno::INVAL];

/// devlink's name of the bus that adapters are on.
const PCI: &str = "pci";

const ENABLE_ROCE: &str = "enable_roce";

/// Health reporters and versions of the function at a PCI address; in a capture from `rdmascope/devlink/ADDRESS/health` and `info`.
/// `Absent` where the kernel has no devlink, or the driver does not take part.
pub(crate) fn devlink(tree: &Tree, address: &str) -> Reading<Devlink> {
    if !tree.is_real() {
        return text::from_files(tree, address);
    }
    asked(PCI, address)
}

/// The same of a device on another bus, such as `netdevsim`; only on the machine that we run on.
pub(crate) fn asked(bus: &str, name: &str) -> Reading<Devlink> {
    let what = format!("asking devlink for {bus}/{name}");
    match ask(bus, name) {
        Ok(devlink) => Reading::Value(devlink),
        Err(refusal) => refusal.reading(&what, &[NO_SUBSYSTEM, &[Errno::NODEV]].concat()),
    }
}

fn ask(bus: &str, name: &str) -> Result<Devlink, Refusal> {
    let socket = Socket::devlink()?;
    let this = handle(bus, name);
    socket.one(Question::Devlink(DevlinkQuestion::Devices), &this)?;
    let answers = socket.all(Question::Devlink(DevlinkQuestion::HealthReporters), &this)?;
    // Kernels before 6.6 give the reporters of all devices, whatever was asked.
    let reporters =
        answers.iter().filter(|answer| is_of(answer, bus, name)).filter_map(|answer| reporter(answer));
    let info = match socket.one(Question::Devlink(DevlinkQuestion::Info), &this) {
        Err(Refusal::Errno(Errno::OPNOTSUPP, _)) => Vec::new(),
        info => info?,
    };
    Ok(Devlink {
        reporters: reporters.collect(),
        running: versions(&info, attribute::INFO_VERSION_RUNNING),
        stored: versions(&info, attribute::INFO_VERSION_STORED),
        serial: serial(&info),
    })
}

/// devlink's `enable_roce` of the function at a PCI address, as it is now; in a capture from `rdmascope/devlink/ADDRESS/params`.
/// `Absent` where it is not offered.
pub(crate) fn enable_roce(tree: &Tree, address: &str) -> Reading<bool> {
    if !tree.is_real() {
        return text::enable_roce(tree, address);
    }
    let question = || {
        let this = handle(PCI, address).text(attribute::PARAM_NAME, ENABLE_ROCE);
        Socket::devlink()?.one(Question::Devlink(DevlinkQuestion::Parameters), &this)
    };
    match question() {
        Ok(answer) => switch(&answer).map_or(Reading::Absent, Reading::Value),
        Err(refusal) => {
            let absent = [NO_SUBSYSTEM, NOT_THERE].concat();
            refusal.reading(&format!("asking devlink for {ENABLE_ROCE} of pci/{address}"), &absent)
        }
    }
}

fn handle(bus: &str, name: &str) -> Writer {
    Writer::default().text(attribute::BUS_NAME, bus).text(attribute::DEV_NAME, name)
}

pub(crate) fn is_of(answer: &[u8], bus: &str, name: &str) -> bool {
    let attributes = Attributes(answer);
    attributes.text(attribute::BUS_NAME) == Some(bus) && attributes.text(attribute::DEV_NAME) == Some(name)
}

pub(crate) fn reporter(answer: &[u8]) -> Option<HealthReporter> {
    let attributes = Attributes(answer);
    let reporter = attributes.nested(attribute::HEALTH_REPORTER);
    Some(HealthReporter {
        name: parse::plain(reporter.text(attribute::HEALTH_REPORTER_NAME)?).ok()?,
        port: attributes.u32(attribute::PORT_INDEX),
        in_error: reporter.u8(attribute::HEALTH_REPORTER_STATE)? == STATE_ERROR,
        errors: reporter.u64(attribute::HEALTH_REPORTER_ERR_COUNT)?,
        recoveries: reporter.u64(attribute::HEALTH_REPORTER_RECOVER_COUNT)?,
    })
}

/// What stands on the board's label, else what the device calls itself.
pub(crate) fn serial(info: &[u8]) -> Option<String> {
    let told = |kind| Attributes(info).text(kind).and_then(|text| parse::plain(text).ok());
    let serial = told(attribute::INFO_BOARD_SERIAL_NUMBER).or_else(|| told(attribute::INFO_SERIAL_NUMBER));
    serial.filter(|serial| !serial.is_empty())
}

pub(crate) fn versions(info: &[u8], kind: u16) -> BTreeMap<String, String> {
    let version = |entry| {
        let entry = Attributes(entry);
        let plain = |kind: u16| entry.text(kind).and_then(|text| parse::plain(text).ok());
        plain(attribute::INFO_VERSION_NAME).zip(plain(attribute::INFO_VERSION_VALUE))
    };
    let entries = Attributes(info).iter().filter(|(found, _)| *found == kind);
    entries.filter_map(|(_, entry)| version(entry)).collect()
}

/// The value that holds now. A true one is an attribute without a value, a false one is none.
pub(crate) fn switch(answer: &[u8]) -> Option<bool> {
    let list = Attributes(answer).nested(attribute::PARAM).nested(attribute::PARAM_VALUES_LIST);
    let value = |mode: u8| {
        let values = list.iter().filter(|(kind, _)| *kind == attribute::PARAM_VALUE);
        let mut values = values.map(|(_, value)| Attributes(value));
        let found = values.find(|value| value.u8(attribute::PARAM_VALUE_CMODE) == Some(mode))?;
        Some(found.bytes(attribute::PARAM_VALUE_DATA).is_some())
    };
    MODES_NOW.into_iter().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reporters_of_the_device_and_of_its_ports() {
        let inner = Writer::default()
            .text(attribute::HEALTH_REPORTER_NAME, "fw_fatal")
            .u8(attribute::HEALTH_REPORTER_STATE, 1)
            .bytes(attribute::HEALTH_REPORTER_ERR_COUNT, &3_u64.to_ne_bytes())
            .bytes(attribute::HEALTH_REPORTER_RECOVER_COUNT, &2_u64.to_ne_bytes());
        let whole = handle(PCI, "0000:3b:00.0").nested(attribute::HEALTH_REPORTER, &inner);
        let mut expected = HealthReporter {
            name: "fw_fatal".to_owned(),
            port: None,
            in_error: true,
            errors: 3,
            recoveries: 2,
        };
        assert_eq!(reporter(whole.as_bytes()), Some(expected.clone()));
        assert!(
            is_of(whole.as_bytes(), PCI, "0000:3b:00.0") && !is_of(whole.as_bytes(), PCI, "0000:3b:00.1")
        );
        // The nested attribute comes without the flag of nested ones: devlink is older than it.
        let port = handle(PCI, "0000:3b:00.0")
            .u32(attribute::PORT_INDEX, 65_535)
            .bytes(attribute::HEALTH_REPORTER, inner.as_bytes());
        expected.port = Some(65_535);
        assert_eq!(reporter(port.as_bytes()), Some(expected));
        for length in 0..whole.as_bytes().len() {
            assert_eq!(reporter(&whole.as_bytes()[..length]), None, "{length}");
        }
    }

    #[test]
    fn versions_that_run_and_that_will_run() {
        let version = |name: &str, value: &str| {
            Writer::default()
                .text(attribute::INFO_VERSION_NAME, name)
                .text(attribute::INFO_VERSION_VALUE, value)
        };
        let info = handle(PCI, "0000:3b:00.0")
            .nested(100, &version("fw.psid", "MT_0000000838"))
            .nested(attribute::INFO_VERSION_RUNNING, &version("fw.version", "28.41.1000"))
            .nested(attribute::INFO_VERSION_RUNNING, &version("fw", "28.41.1000"))
            .nested(attribute::INFO_VERSION_STORED, &version("fw.version", "28.43.2566"));
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            versions(info.as_bytes(), attribute::INFO_VERSION_RUNNING),
            BTreeMap::from([text("fw", "28.41.1000"), text("fw.version", "28.41.1000")])
        );
        assert_eq!(
            versions(info.as_bytes(), attribute::INFO_VERSION_STORED),
            BTreeMap::from([text("fw.version", "28.43.2566")])
        );
    }

    #[test]
    fn a_switch_is_on_by_the_presence_of_its_value() {
        let value = |mode: u8, on: bool| {
            let value = Writer::default();
            let value = if on { value.bytes(attribute::PARAM_VALUE_DATA, &[]) } else { value };
            value.u8(attribute::PARAM_VALUE_CMODE, mode)
        };
        let answer = |values: &[Writer]| {
            let nest = |list: Writer, value| list.nested(attribute::PARAM_VALUE, value);
            let list = values.iter().fold(Writer::default(), nest);
            let parameter = Writer::default()
                .text(attribute::PARAM_NAME, ENABLE_ROCE)
                .nested(attribute::PARAM_VALUES_LIST, &list);
            handle(PCI, "0000:3b:00.0").nested(attribute::PARAM, &parameter)
        };
        assert_eq!(switch(answer(&[value(1, true)]).as_bytes()), Some(true));
        assert_eq!(switch(answer(&[value(1, false)]).as_bytes()), Some(false));
        // What is stored for the next boot (2, permanent) does not hold now; what holds at run time does.
        assert_eq!(switch(answer(&[value(2, true)]).as_bytes()), None);
        assert_eq!(switch(answer(&[value(1, true), value(0, false)]).as_bytes()), Some(false));
    }

    #[test]
    fn a_function_that_is_not_there_has_no_devlink() {
        let here = Tree::open(std::path::Path::new("/")).unwrap();
        assert_eq!(devlink(&here, "ffff:ff:1f.7"), Reading::Absent);
        assert_eq!(enable_roce(&here, "ffff:ff:1f.7"), Reading::Absent);
    }
}
