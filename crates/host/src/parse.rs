//! Turns the texts of sysfs attributes into values; pure, and an unknown text is an error or `Other`, never a guess.

use rdmascope_model::{GidType, LinkLayer, PhysState, PortState, Reading};

/// Longest text that is kept of a name, a version or a board id.
const TEXT_CHARS_MAX: usize = 256;

/// A text that a terminal and a label can take: printable, of sensible length.
pub(crate) fn plain(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err("has control characters in it".to_owned());
    }
    if text.chars().count() > TEXT_CHARS_MAX {
        return Err(format!("longer than {TEXT_CHARS_MAX} characters"));
    }
    Ok(text.to_owned())
}

/// How a strange text is quoted in an error: short, and without anything that a terminal would act on.
fn quoted(text: &str) -> String {
    let short: String = text.chars().take(40).flat_map(char::escape_default).collect();
    format!("'{short}'")
}

/// A decimal number.
pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{} is not a number", quoted(text)))
}

/// A counter: a decimal number; nothing where the kernel says in words that the device does not count this.
pub(crate) fn counter(text: &str) -> Result<Option<u64>, String> {
    // Printed by show_pma_counter() when the device has no performance management agent (iWARP of Intel, virtual functions of old).
    if text == "N/A (no PMA)" {
        return Ok(None);
    }
    number(text).map(Some)
}

/// A text that may say that there is nothing: then the machine does not have it.
pub(crate) fn known<T>(reading: Reading<Option<T>>) -> Reading<T> {
    match reading {
        Reading::Value(Some(value)) => Reading::Value(value),
        Reading::Value(None) | Reading::Absent => Reading::Absent,
        Reading::Failed(why) => Reading::Failed(why),
    }
}

/// Hexadecimal with `0x`, such as a LID.
pub(crate) fn hex_u16(text: &str) -> Result<u16, String> {
    text.strip_prefix("0x")
        .and_then(|digits| u16::from_str_radix(digits, 16).ok())
        .ok_or_else(|| format!("{} is not a 16-bit hexadecimal number", quoted(text)))
}

/// Hexadecimal interface flags with `0x`.
pub(crate) fn hex_u32(text: &str) -> Result<u32, String> {
    text.strip_prefix("0x")
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .ok_or_else(|| format!("{} is not a hexadecimal number", quoted(text)))
}

/// Capabilities in force of a process, a bit for each: `CapEff:\t000001ffffffffff` of its `status`.
pub(crate) fn capabilities(status: &str) -> Result<u64, String> {
    let set =
        status.lines().find_map(|line| line.strip_prefix("CapEff:")).ok_or("there is no line 'CapEff:'")?;
    u64::from_str_radix(set.trim(), 16).map_err(|_| "its capabilities are no hexadecimal number".to_owned())
}

/// A GUID: four groups of four hexadecimal digits.
pub(crate) fn guid(text: &str) -> Result<String, String> {
    let groups: Vec<&str> = text.split(':').collect();
    let good = |g: &&str| g.len() == 4 && g.bytes().all(|b| b.is_ascii_hexdigit());
    if groups.len() == 4 && groups.iter().all(good) {
        return Ok(text.to_owned());
    }
    Err(format!("{} is not a GUID", quoted(text)))
}

/// The word of `4: ACTIVE`.
pub(crate) fn numbered_word(text: &str) -> Result<&str, String> {
    match text.split_once(": ") {
        Some((number, word)) if number.parse::<u8>().is_ok() && !word.is_empty() => Ok(word),
        _ => Err(format!("{} is not of the form '4: ACTIVE'", quoted(text))),
    }
}

/// `state`: words of `state_name` in `drivers/infiniband/core/sysfs.c`.
pub(crate) fn port_state(text: &str) -> Result<PortState, String> {
    Ok(match numbered_word(text)? {
        "DOWN" => PortState::Down,
        "INIT" => PortState::Init,
        "ARMED" => PortState::Armed,
        "ACTIVE" => PortState::Active,
        "ACTIVE_DEFER" => PortState::ActiveDefer,
        other => PortState::Other(plain(other)?),
    })
}

/// `phys_state`: words of `phys_state_to_str` in `drivers/infiniband/core/sysfs.c`.
pub(crate) fn phys_state(text: &str) -> Result<PhysState, String> {
    Ok(match numbered_word(text)? {
        "Sleep" => PhysState::Sleep,
        "Polling" => PhysState::Polling,
        "Disabled" => PhysState::Disabled,
        "PortConfigurationTraining" => PhysState::PortConfigurationTraining,
        "LinkUp" => PhysState::LinkUp,
        "LinkErrorRecovery" => PhysState::LinkErrorRecovery,
        "Phy Test" | "PhyTest" => PhysState::PhyTest,
        other => PhysState::Other(plain(other)?),
    })
}

/// `link_layer`.
pub(crate) fn link_layer(text: &str) -> Result<LinkLayer, String> {
    Ok(match text {
        "Ethernet" => LinkLayer::Ethernet,
        "InfiniBand" => LinkLayer::InfiniBand,
        other => LinkLayer::Other(plain(other)?),
    })
}

/// `gid_attrs/types/N`.
pub(crate) fn gid_type(text: &str) -> Result<GidType, String> {
    Ok(match text {
        "IB/RoCE v1" => GidType::IbOrRoceV1,
        "RoCE v2" => GidType::RoceV2,
        other => GidType::Other(plain(other)?),
    })
}

/// `rate`, such as `100 Gb/sec (4X EDR)` or `2.5 Gb/sec (1X SDR)`, in bits per second. What is in brackets is a name of the
/// lane rate, not of the port's, and says nothing on Ethernet.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("{} is not a rate in Gb/sec", quoted(text));
    let (amount, _) = text.split_once("Gb/sec").ok_or_else(wrong)?;
    let (whole, fraction) = amount.trim().split_once('.').unwrap_or((amount.trim(), ""));
    // Nine digits after the point are single bits per second.
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let fraction: u64 = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
    whole.checked_mul(1_000_000_000).and_then(|bits| bits.checked_add(fraction)).ok_or_else(wrong)
}

/// `DDDD:BB:DD.F`, the address of a PCI function.
pub(crate) fn is_pci_address(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '.']).collect();
    let [domain, bus, device, function] = parts[..] else { return false };
    let hex = |s: &str, from: usize, to: usize| {
        (from..=to).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_hexdigit())
    };
    // Domains above 0xffff exist behind VMD controllers.
    hex(domain, 4, 8) && hex(bus, 2, 2) && hex(device, 2, 2) && hex(function, 1, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_to_the_bit_in_every_published_form() {
        for (text, bits) in [
            ("100 Gb/sec (4X EDR)", 100_000_000_000),
            ("2.5 Gb/sec (1X SDR)", 2_500_000_000),
            ("10 Gb/sec (4X)", 10_000_000_000),
            ("25.78125 Gb/sec (1X EDR)", 25_781_250_000),
            ("100Gb/sec", 100_000_000_000),
            ("200 Gb/sec (2X NDR)", 200_000_000_000),
            ("800 Gb/sec (4X XDR)", 800_000_000_000),
        ] {
            assert_eq!(rate(text), Ok(bits), "{text}");
        }
        for bad in ["", "fast", "-1 Gb/sec", "1.2.3 Gb/sec", "1e3 Gb/sec", "99999999999999 Gb/sec", "Gb/sec"]
        {
            assert!(rate(bad).is_err(), "{bad:?} was read");
        }
    }

    #[test]
    fn states_are_known_by_their_word_and_unknown_words_are_kept() {
        assert_eq!(port_state("4: ACTIVE"), Ok(PortState::Active));
        assert_eq!(port_state("5: ACTIVE_DEFER"), Ok(PortState::ActiveDefer));
        assert_eq!(port_state("9: FROZEN"), Ok(PortState::Other("FROZEN".into())));
        assert_eq!(phys_state("5: LinkUp"), Ok(PhysState::LinkUp));
        assert_eq!(phys_state("7: Phy Test"), Ok(PhysState::PhyTest));
        // Published from a real ConnectX tree: not a physical state at all.
        assert_eq!(phys_state("4: ACTIVE"), Ok(PhysState::Other("ACTIVE".into())));
        for bad in ["ACTIVE", "4:", "x: ACTIVE", "", "4: \u{1b}[2J"] {
            assert!(port_state(bad).is_err(), "{bad:?} was read");
        }
    }

    #[test]
    fn other_attributes() {
        assert_eq!(hex_u16("0x12a"), Ok(0x12a));
        assert_eq!(hex_u16("0xffff"), Ok(0xffff));
        assert!(hex_u16("0x10000").is_err());
        assert!(hex_u16("12").is_err());
        assert_eq!(gid_type("RoCE v2"), Ok(GidType::RoceV2));
        assert_eq!(counter("N/A (no PMA)"), Ok(None));
        assert_eq!(counter("18446744073709551615"), Ok(Some(u64::MAX)));
        assert!(counter("-1").is_err());
        assert!(guid("0200:00ff:fe00:0020").is_ok());
        assert!(guid("0200:00ff:fe00").is_err());
        assert!(is_pci_address("0000:3b:00.0") && is_pci_address("10001:3b:00.1"));
        assert!(!is_pci_address("pci0000:3b") && !is_pci_address("ice.roce.0"));
    }

    #[test]
    fn arbitrary_text_is_refused_and_never_panics() {
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            let text: String = (0..seed % 24)
                .map(|i| {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let pick = (seed >> 33).wrapping_add(i);
                    char::from_u32(u32::try_from(pick % 300).unwrap()).unwrap_or('.')
                })
                .collect();
            seed = seed.wrapping_add(1);
            let _ = (rate(&text), port_state(&text), phys_state(&text), hex_u16(&text), guid(&text));
            let _ = (counter(&text), is_pci_address(&text), gid_type(&text), link_layer(&text));
        }
    }
}
