//! Access Control Services in a PCI Express configuration space: whether bridges send peer-to-peer traffic up to the root (PCI Express 7.7.11).

/// What anybody may read of a configuration space; the rest takes CAP_SYS_ADMIN (`drivers/pci/pci-sysfs.c`, `pci_read_config`).
const UNPRIVILEGED_BYTES: usize = 64;

/// Where extended capabilities begin.
const EXTENDED: usize = 0x100;

/// Extended capability id of ACS.
const ACS: u32 = 0x000d;

/// The control register, where there is one.
///
/// # Errors
/// When not enough was given to know.
pub(crate) fn control(config: &[u8]) -> Result<Option<u16>, String> {
    if config.len() <= UNPRIVILEGED_BYTES {
        return Err("only its first 64 bytes may be read without CAP_SYS_ADMIN; run as root".to_owned());
    }
    let mut at = EXTENDED;
    // Capabilities take at least 4 bytes each: more steps than this is a loop.
    for _ in 0..(4096 - EXTENDED) / 4 {
        // A conventional PCI function ends before.
        let Some(header) = word(config, at) else { return Ok(None) };
        // 0: no capabilities; all ones: the device does not answer.
        if header == u32::MAX {
            return Err("the device does not answer (all ones)".to_owned());
        }
        if header & 0xffff == ACS {
            // Capability register in the low half, control register in the high one.
            let registers = word(config, at + 4).ok_or("it ends within the ACS capability")?;
            return Ok(Some((registers >> 16) as u16));
        }
        at = (header >> 20) as usize & !3;
        if at < EXTENDED {
            return Ok(None);
        }
    }
    Err("its list of capabilities does not end".to_owned())
}

fn word(config: &[u8], at: usize) -> Option<u32> {
    let bytes = config.get(at..at + 4)?;
    bytes.try_into().ok().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(words: &[(usize, u32)]) -> Vec<u8> {
        let mut config = vec![0; 4096];
        for (at, word) in words {
            config[*at..*at + 4].copy_from_slice(&word.to_le_bytes());
        }
        config
    }

    #[test]
    fn the_register_is_found_behind_other_capabilities() {
        // AER (1) at 0x100 leads to 0x148, ACS: capabilities 0x00ff, control 0x001d.
        let config = space(&[(0x100, 0x1481_0001), (0x148, 0x0001_000d), (0x14c, 0x001d_00ff)]);
        assert_eq!(control(&config), Ok(Some(0x001d)));
        assert_eq!(control(&space(&[(0x100, 0x0001_0001)])), Ok(None));
        assert_eq!(control(&config[..256]), Ok(None), "conventional PCI");
    }

    #[test]
    fn what_cannot_be_known_is_said() {
        let config = space(&[(0x100, 0x0001_000d)]);
        assert!(control(&config[..64]).unwrap_err().contains("CAP_SYS_ADMIN"));
        assert!(control(&[0xff; 4096]).unwrap_err().contains("does not answer"));
        assert!(control(&space(&[(0x100, 0x1001_0001)])).unwrap_err().contains("does not end"));
        assert!(control(&config[..0x104]).is_err());
    }
}
