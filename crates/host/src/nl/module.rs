//! Transceivers and cables: pages of their memory by ethtool netlink, and what SFF-8636, SFF-8472 and CMIS write there.

use super::ethtool::{about, has_no_cable};
use super::{Attributes, EthtoolQuestion, NOT_SUPPORTED, Question, Refusal, Socket};
use rdmascope_model::{Module, Reading};

/// `ETHTOOL_A_MODULE_EEPROM_OFFSET`, `_LENGTH`, `_PAGE`, `_BANK`, `_I2C_ADDRESS`, `_DATA`.
const OFFSET: u16 = 2;
const LENGTH: u16 = 3;
const PAGE: u16 = 4;
const BANK: u16 = 5;
const I2C_ADDRESS: u16 = 6;
const DATA: u16 = 7;

/// Half a page: the most that the kernel reads at once.
pub(crate) const HALF: usize = 128;

/// One half of a page. Offsets in it are those of the standards, less 128 in the upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Half {
    /// 0x50; 0x51 is the second memory of an SFP.
    address: u8,
    page: u8,
    upper: bool,
}

const fn upper(page: u8) -> Half {
    Half { address: 0x50, page, upper: true }
}

const LOWER: Half = Half { address: 0x50, page: 0, upper: false };
const SFP_DIAGNOSTICS: Half = Half { address: 0x51, page: 0, upper: false };

pub(crate) type Bytes = [u8; HALF];

/// The module of a network device; `Absent` where there is none, or the driver cannot look. Slow (I2C): some ten milliseconds a page.
pub(crate) fn read(socket: &Socket, netdev: &str) -> Reading<Module> {
    let read = |half: Half| -> Result<Bytes, Refusal> {
        let question = about(netdev)
            .u32(OFFSET, if half.upper { 128 } else { 0 })
            .u32(LENGTH, 128)
            .u8(PAGE, half.page)
            .u8(BANK, 0)
            .u8(I2C_ADDRESS, half.address);
        let answer = socket.one(Question::Ethtool(EthtoolQuestion::ModuleEeprom), &question)?;
        Attributes(&answer)
            .array(DATA)
            .ok_or_else(|| Refusal::Odd("the driver gave less than half a page".to_owned()))
    };
    let what = format!("reading the module of {netdev}");
    let reading = match read(LOWER) {
        Ok(lower) => decoded(&what, &lower, &read),
        Err(refusal) => refusal.reading(&what, NOT_SUPPORTED),
    };
    match reading {
        // mlx5 answers EIO for an empty cage as for a broken bus; what it says of the link tells them apart.
        Reading::Failed(_) if has_no_cable(socket, netdev) => Reading::Absent,
        reading => reading,
    }
}

pub(crate) type Read<'a> = &'a dyn Fn(Half) -> Result<Bytes, Refusal>;

/// What a module's pages say; `read` gives one.
pub(crate) fn decoded(what: &str, lower: &Bytes, read: Read<'_>) -> Reading<Module> {
    let (identifier, decode): (&str, Decode) = match lower[0] {
        0x03 => ("SFP", sff_8472),
        0x0c => ("QSFP", sff_8636),
        0x0d => ("QSFP+", sff_8636),
        0x11 => ("QSFP28", sff_8636),
        0x18 => ("QSFP-DD", cmis),
        0x19 => ("OSFP", cmis),
        0x1b => ("DSFP", cmis),
        0x1e => ("QSFP (CMIS)", cmis),
        0x1f => ("SFP-DD (CMIS)", cmis),
        0x20 => ("SFP (CMIS)", cmis),
        other => {
            return Reading::Failed(format!("{what}: unknown identifier {other:#04x} (SFF-8024)"));
        }
    };
    match decode(what, lower, read) {
        Ok(module) => Reading::Value(Module { identifier: identifier.to_owned(), ..module }),
        Err(refusal) => refusal.reading(what, &[]),
    }
}

/// How one standard is read; the identifier is filled in by the caller.
type Decode = fn(&str, &Bytes, Read<'_>) -> Result<Module, Refusal>;

/// SFF-8636: QSFP, QSFP+, QSFP28.
fn sff_8636(what: &str, lower: &Bytes, read: Read<'_>) -> Result<Module, Refusal> {
    let names = read(upper(0))?;
    // Byte 147, bits 7 to 4: transmitter technology; from 10 on a copper cable. Byte 2, bit 2: only page 0.
    let copper = names[19] >> 4 >= 10;
    let thresholds = if lower[2] & 0b100 == 0 { page(what, read, upper(3)) } else { Reading::Absent };
    let threshold = |offset: usize| pair_of(&thresholds, offset);
    let temperature = pair(lower, 22);
    // A cable without a sensor leaves the field at 0.
    let measured = !(copper && temperature == [0; 2]);
    Ok(Module {
        identifier: String::new(),
        vendor: vendor(&names[20..36], &names[40..56]),
        serial: words(&names[68..84]),
        temperature_mc: if measured { Reading::Value(temperature_mc(temperature)) } else { Reading::Absent },
        temperature_alarm_mc: only_if(measured, threshold(0)).map(temperature_mc),
        rx_power_nw: if copper { Reading::Absent } else { Reading::Value(lanes(&lower[34..42])) },
        rx_power_alarm_nw: only_if(!copper, threshold(50)).map(power_nw),
    })
}

/// SFF-8472: SFP, SFP+, SFP28.
fn sff_8472(what: &str, lower: &Bytes, read: Read<'_>) -> Result<Module, Refusal> {
    // Byte 92 is in the lower half, the vendor too: bit 6 diagnostics exist, bit 5 they are calibrated in the module.
    let diagnostics = if lower[92] & 0x40 == 0 {
        Reading::Absent
    } else if lower[92] & 0x20 == 0 {
        Reading::Failed(format!("{what}: it is calibrated externally, which is not converted"))
    } else {
        page(what, read, SFP_DIAGNOSTICS)
    };
    Ok(Module {
        identifier: String::new(),
        vendor: vendor(&lower[20..36], &lower[40..56]),
        serial: words(&lower[68..84]),
        temperature_mc: pair_of(&diagnostics, 96).map(temperature_mc),
        temperature_alarm_mc: pair_of(&diagnostics, 0).map(temperature_mc),
        rx_power_nw: pair_of(&diagnostics, 104).map(|power| vec![power_nw(power)]),
        rx_power_alarm_nw: pair_of(&diagnostics, 34).map(power_nw),
    })
}

/// CMIS: QSFP-DD, OSFP and later.
fn cmis(what: &str, lower: &Bytes, read: Read<'_>) -> Result<Module, Refusal> {
    let names = read(upper(0))?;
    // Byte 2, bit 7: flat memory, a cable with page 0 only. Page 1 says what is measured: byte 159 bit 0 the temperature, byte 160
    // bit 2 the received power.
    let paged = lower[2] & 0x80 == 0;
    let advertised = if paged { page(what, read, upper(1)) } else { Reading::Absent };
    let measured = |byte: usize, bit: u8| match &advertised {
        Reading::Value(page) if page[byte] & bit == 0 => Reading::Absent,
        Reading::Value(_) => Reading::Value(()),
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why.clone()),
    };
    let (temperature, power) = (measured(31, 1), measured(32, 4));
    let thresholds = if paged { page(what, read, upper(2)) } else { Reading::Absent };
    let monitors = if power.value().is_some() { page(what, read, upper(0x11)) } else { Reading::Absent };
    Ok(Module {
        identifier: String::new(),
        vendor: vendor(&names[1..17], &names[20..36]),
        serial: words(&names[38..54]),
        temperature_mc: temperature.clone().map(|()| temperature_mc(pair(lower, 14))),
        temperature_alarm_mc: after(&temperature, pair_of(&thresholds, 0)).map(temperature_mc),
        // Byte 210 of page 0: lanes that this end does not have.
        rx_power_nw: after(&power, monitors.map(|page| used(&lanes(&page[58..74]), names[82]))),
        rx_power_alarm_nw: after(&power, pair_of(&thresholds, 66)).map(power_nw),
    })
}

fn page(what: &str, read: Read<'_>, half: Half) -> Reading<Bytes> {
    match read(half) {
        Ok(bytes) => Reading::Value(bytes),
        Err(refusal) => refusal.reading(&format!("{what}, page {:#04x}", half.page), &[]),
    }
}

/// `second`, where `first` is there.
fn after<T>(first: &Reading<()>, second: Reading<T>) -> Reading<T> {
    match first {
        Reading::Value(()) => second,
        Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why.clone()),
    }
}

fn only_if<T>(condition: bool, reading: Reading<T>) -> Reading<T> {
    if condition { reading } else { Reading::Absent }
}

fn pair(bytes: &Bytes, offset: usize) -> [u8; 2] {
    [bytes[offset], bytes[offset + 1]]
}

fn pair_of(page: &Reading<Bytes>, offset: usize) -> Reading<[u8; 2]> {
    page.as_ref().map(|bytes| pair(bytes, offset))
}

/// All three standards: a signed number of 1/256 degree Celsius, high byte first.
fn temperature_mc(bytes: [u8; 2]) -> i32 {
    i32::from(i16::from_be_bytes(bytes)) * 1000 / 256
}

/// All three standards: a number of 0.1 µW, high byte first.
fn power_nw(bytes: [u8; 2]) -> u64 {
    u64::from(u16::from_be_bytes(bytes)) * 100
}

fn lanes(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(2).map(|lane| power_nw([lane[0], lane[1]])).collect()
}

fn used(lanes: &[u64], missing: u8) -> Vec<u64> {
    let there = |lane: &usize| missing & (1 << lane) == 0;
    (0..lanes.len()).filter(there).map(|lane| lanes[lane]).collect()
}

/// 16 characters, filled up with spaces. What is not printable ASCII is left out: the text goes to terminals.
fn words(bytes: &[u8]) -> String {
    let printable = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
    bytes.iter().filter(printable).map(|&byte| char::from(byte)).collect::<String>().trim().to_owned()
}

/// The vendor's name and part number, 16 characters each.
fn vendor(name: &[u8], part: &[u8]) -> String {
    format!("{} {}", words(name), words(part)).trim().to_owned()
}

#[cfg(test)]
mod tests;
