//! The serial number of an adapter, for the ticket: from devlink where the driver tells it, else from the function's vital product data
//! (PCI Local Bus Specification 3.0, appendix I), which only root may read.

use crate::tree::Tree;
use rdmascope_model::{Device, Function, Reading};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Most that is read of vital product data; adapters have some hundred bytes.
const BYTES_MAX: usize = 4 * 1024;

/// Tag of a large resource, and of the read-only fields among them.
const LARGE: u8 = 0x80;
const READ_ONLY: u8 = 0x90;

/// Serial numbers by PCI address and GUID: each is read once, since the adapter's firmware hands it out a few bytes at a time.
pub(crate) type Serials = Mutex<BTreeMap<(String, Option<String>), Reading<String>>>;

/// The serial number of the adapter behind a device; `Absent` where it has none, and on virtual functions without devlink.
pub(crate) fn serial(tree: &Tree, known: &Serials, device: &Device) -> Reading<String> {
    if let Some(told) = device.devlink.value().and_then(|devlink| devlink.serial.clone()) {
        return Reading::Value(told);
    }
    let address = match (&device.pci_address, device.function.value()) {
        (_, Some(Function::Virtual { .. })) => return Reading::Absent,
        (Reading::Value(address), _) => address,
        (Reading::Absent, _) => return Reading::Absent,
        (Reading::Failed(why), _) => return Reading::Failed(why.clone()),
    };
    let key = (address.clone(), device.node_guid.value().cloned());
    let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(serial) = lock().get(&key) {
        return serial.clone();
    }
    let bytes = tree.binary(&format!("sys/bus/pci/devices/{address}/vpd"), BYTES_MAX);
    let serial = match bytes {
        Reading::Value(bytes) => field(&bytes, b"SN").map_or(Reading::Absent, Reading::Value),
        Reading::Absent => Reading::Absent,
        // Tried again: the right to read may come.
        Reading::Failed(why) => return Reading::Failed(why),
    };
    lock().insert(key, serial.clone());
    serial
}

/// A read-only field; what is not printable is left out.
pub(crate) fn field(bytes: &[u8], key: &[u8; 2]) -> Option<String> {
    let mut rest = bytes;
    while let [tag, low, high, tail @ ..] = rest {
        if tag & LARGE == 0 {
            return None;
        }
        let length = usize::from(*low) | usize::from(*high) << 8;
        let (resource, tail) = tail.split_at(length.min(tail.len()));
        if *tag == READ_ONLY {
            return field_of(resource, key);
        }
        rest = tail;
    }
    None
}

fn field_of(mut fields: &[u8], key: &[u8; 2]) -> Option<String> {
    while let [first, second, length, tail @ ..] = fields {
        let (value, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        if [*first, *second] == *key {
            let printable = value.iter().filter(|byte| byte.is_ascii_graphic() || **byte == b' ');
            let text: String = printable.map(|byte| char::from(*byte)).collect();
            return Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        }
        fields = tail;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;
    use rdmascope_model::Devlink;

    /// An identifier, then read-only fields, then the end.
    fn vital(fields: &[(&str, &str)]) -> Vec<u8> {
        let name = b"ConnectX-7";
        let mut bytes = vec![0x82, u8::try_from(name.len()).unwrap(), 0];
        bytes.extend_from_slice(name);
        let mut inner = Vec::new();
        for (key, value) in fields {
            inner.extend_from_slice(key.as_bytes());
            inner.push(u8::try_from(value.len()).unwrap());
            inner.extend_from_slice(value.as_bytes());
        }
        bytes.extend_from_slice(&[READ_ONLY, u8::try_from(inner.len()).unwrap(), 0]);
        bytes.extend_from_slice(&inner);
        bytes.push(0x78);
        bytes
    }

    #[test]
    fn the_serial_number_stands_among_the_read_only_fields() {
        let whole = vital(&[
            ("PN", "MCX755106AS-HEAT"),
            ("EC", "A2"),
            ("SN", "MT2245X01234 \0"),
            ("V0", "PCIeGen5 x16"),
        ]);
        assert_eq!(field(&whole, b"SN").as_deref(), Some("MT2245X01234"));
        assert_eq!(field(&whole, b"ZZ"), None);
        assert_eq!(field(&vital(&[("SN", "   ")]), b"SN"), None);
        for end in 0..whole.len() {
            // Cut anywhere, it is a shorter number, or none, and nothing worse.
            let cut = field(&whole[..end], b"SN").unwrap_or_default();
            assert!("MT2245X01234".starts_with(&cut), "{cut}");
        }
        assert_eq!(field(&[0xff; 64], b"SN"), None);
    }

    fn device(folder: &Folder, change: impl FnOnce(&mut Device)) -> (Reading<String>, Serials) {
        let tree = Tree::open(folder.path()).unwrap();
        let mut device = Device {
            pci_address: Reading::Value("0000:3b:00.0".to_owned()),
            devlink: Reading::Absent,
            ..Device::unread("mlx5_0", "not part of this test")
        };
        change(&mut device);
        let known = Serials::default();
        (serial(&tree, &known, &device), known)
    }

    #[test]
    fn devlink_comes_first_and_what_was_read_is_not_read_again() {
        let folder = Folder::new();
        folder.write_bytes("sys/bus/pci/devices/0000:3b:00.0/vpd", &vital(&[("SN", "MT1")]));
        let (read, known) = device(&folder, |_| ());
        assert_eq!(read, Reading::Value("MT1".to_owned()));
        assert_eq!(known.lock().unwrap().len(), 1);
        let told = |serial: &str| {
            Reading::Value(Devlink {
                reporters: Vec::new(),
                running: BTreeMap::new(),
                stored: BTreeMap::new(),
                serial: Some(serial.to_owned()),
            })
        };
        assert_eq!(device(&folder, |d| d.devlink = told("MT2")).0, Reading::Value("MT2".to_owned()));
        let of = Reading::Absent;
        assert_eq!(
            device(&folder, |d| d.function = Reading::Value(Function::Virtual { of })).0,
            Reading::Absent
        );
        assert_eq!(device(&Folder::new(), |_| ()).0, Reading::Absent);
    }
}
