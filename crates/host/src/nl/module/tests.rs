//! Hand-made module memories; byte numbers as in the standards.

use super::*;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// A module's memory: bytes by half page and number.
#[derive(Default)]
struct Memory(BTreeMap<Half, Bytes>);

impl Memory {
    /// Writes from byte `at` of a page on (0 to 255).
    fn with(mut self, address: u8, page: u8, at: usize, bytes: &[u8]) -> Self {
        let half = Half { address, page, upper: at >= HALF };
        let start = at % HALF;
        self.0.entry(half).or_insert([0; HALF])[start..start + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// What is decoded of it; a page that was never written is refused like one that the module lacks.
    fn module(&self) -> Reading<Module> {
        let read = |half: Half| {
            self.0.get(&half).copied().ok_or_else(|| Refusal::Errno(Errno::IO, "status 1".to_owned()))
        };
        decoded("reading the module of eth0", &read(LOWER).unwrap(), &read)
    }
}

fn optical_qsfp28() -> Memory {
    Memory::default()
        .with(0x50, 0, 0, &[0x11])
        .with(0x50, 0, 22, &[0x2a, 0x80])
        // 500 µW, 510 µW, 0 and 1 µW.
        .with(0x50, 0, 34, &[0x13, 0x88, 0x13, 0xec, 0, 0, 0, 10])
        .with(0x50, 0, 147, &[0x00])
        .with(0x50, 0, 148, b"Example Optics  ")
        .with(0x50, 0, 168, b"EX-100G-SR4     ")
        .with(0x50, 0, 196, b"EX2301VS0042    ")
        .with(0x50, 3, 128, &[0x4b, 0x00])
        .with(0x50, 3, 176, &[0x55, 0x76, 0x01, 0x14])
}

#[test]
fn an_optical_qsfp28() {
    let expected = Module {
        identifier: "QSFP28".to_owned(),
        vendor: "Example Optics EX-100G-SR4".to_owned(),
        serial: "EX2301VS0042".to_owned(),
        temperature_mc: Reading::Value(42_500),
        temperature_alarm_mc: Reading::Value(75_000),
        rx_power_nw: Reading::Value(vec![500_000, 510_000, 0, 1_000]),
        // 0x0114: 276 tenths of a microwatt.
        rx_power_alarm_nw: Reading::Value(27_600),
    };
    assert_eq!(optical_qsfp28().module(), Reading::Value(expected));
}

#[test]
fn a_copper_cable_measures_nothing() {
    let cable = Memory::default()
        .with(0x50, 0, 0, &[0x11, 0, 0b100])
        .with(0x50, 0, 147, &[0xa0])
        .with(0x50, 0, 148, b"Example         ")
        .with(0x50, 0, 168, b"MCP1600-C003\0\0\0\x1b");
    let Reading::Value(module) = cable.module() else { panic!("it is read") };
    assert_eq!(module.vendor, "Example MCP1600-C003");
    assert_eq!((&module.temperature_mc, &module.temperature_alarm_mc), (&Reading::Absent, &Reading::Absent));
    assert_eq!((&module.rx_power_nw, &module.rx_power_alarm_nw), (&Reading::Absent, &Reading::Absent));
}

#[test]
fn a_page_that_cannot_be_read_costs_its_own_values() {
    let mut memory = optical_qsfp28();
    memory.0.remove(&upper(3));
    let Reading::Value(module) = memory.module() else { panic!("it is read") };
    assert_eq!(module.temperature_mc, Reading::Value(42_500));
    assert!(matches!(module.rx_power_alarm_nw, Reading::Failed(why) if why.contains("page 0x03")));
    memory.0.remove(&upper(0));
    assert!(matches!(memory.module(), Reading::Failed(why) if why.contains("status 1")));
}

#[test]
fn an_sfp() {
    let memory = Memory::default()
        .with(0x50, 0, 0, &[0x03])
        .with(0x50, 0, 20, b"Example         ")
        .with(0x50, 0, 40, b"SFP28-SR        ")
        .with(0x50, 0, 68, b"SN28            ")
        .with(0x50, 0, 92, &[0x60])
        .with(0x51, 0, 0, &[0x4e, 0x00])
        .with(0x51, 0, 34, &[0x00, 0x64])
        .with(0x51, 0, 96, &[0xff, 0x80])
        .with(0x51, 0, 104, &[0x17, 0x70]);
    let Reading::Value(module) = memory.module() else { panic!("it is read") };
    assert_eq!((module.identifier.as_str(), module.vendor.as_str()), ("SFP", "Example SFP28-SR"));
    assert_eq!(module.serial, "SN28");
    assert_eq!(module.temperature_mc, Reading::Value(-500), "half a degree below zero");
    assert_eq!(module.temperature_alarm_mc, Reading::Value(78_000));
    assert_eq!(module.rx_power_nw, Reading::Value(vec![600_000]));
    assert_eq!(module.rx_power_alarm_nw, Reading::Value(10_000));
    let Reading::Value(external) = memory.with(0x50, 0, 92, &[0x50]).module() else { panic!("it is read") };
    assert!(matches!(external.temperature_mc, Reading::Failed(why) if why.contains("externally")));
    let plain = Memory::default().with(0x50, 0, 0, &[0x03]);
    let Reading::Value(plain) = plain.module() else { panic!("it is read") };
    assert_eq!((&plain.rx_power_nw, plain.vendor.as_str()), (&Reading::Absent, ""));
}

fn osfp() -> Memory {
    Memory::default()
        .with(0x50, 0, 0, &[0x19])
        .with(0x50, 0, 14, &[0x37, 0x00])
        .with(0x50, 0, 129, b"Example         ")
        .with(0x50, 0, 148, b"OSFP-800G-2xDR4 ")
        .with(0x50, 0, 166, b"SN800           ")
        // Lanes 5 to 8 do not exist.
        .with(0x50, 0, 210, &[0xf0])
        .with(0x50, 1, 159, &[0x01, 0x04])
        .with(0x50, 2, 128, &[0x50, 0x00])
        .with(0x50, 2, 194, &[0x02, 0x00])
        .with(0x50, 0x11, 186, &[0x20, 0, 0x21, 0, 0x22, 0, 0x23, 0, 9, 9])
}

#[test]
fn an_osfp_has_the_lanes_that_it_says() {
    let Reading::Value(module) = osfp().module() else { panic!("it is read") };
    assert_eq!((module.identifier.as_str(), module.vendor.as_str()), ("OSFP", "Example OSFP-800G-2xDR4"));
    assert_eq!(module.serial, "SN800");
    assert_eq!(module.temperature_mc, Reading::Value(55_000));
    assert_eq!(module.temperature_alarm_mc, Reading::Value(80_000));
    assert_eq!(module.rx_power_nw, Reading::Value(vec![819_200, 844_800, 870_400, 896_000]));
    assert_eq!(module.rx_power_alarm_nw, Reading::Value(51_200));
}

#[test]
fn a_cmis_cable_and_one_that_does_not_measure_the_light() {
    let Reading::Value(flat) = osfp().with(0x50, 0, 2, &[0x80]).module() else { panic!("it is read") };
    assert_eq!((&flat.temperature_mc, &flat.rx_power_nw), (&Reading::Absent, &Reading::Absent));
    let Reading::Value(dark) = osfp().with(0x50, 1, 160, &[0]).module() else { panic!("it is read") };
    assert_eq!((&dark.rx_power_nw, &dark.rx_power_alarm_nw), (&Reading::Absent, &Reading::Absent));
    assert_eq!(dark.temperature_mc, Reading::Value(55_000));
    let unknown = Memory::default().with(0x50, 0, 0, &[0x77]).module();
    assert!(matches!(unknown, Reading::Failed(why) if why.contains("0x77")));
}
