//! The sections `policy` and `manifest`: the numbers that checks judge by, and what each port is expected to be.

use crate::problem::{Found, Wrong};
use crate::tree::{Node, Value};
use crate::values::{not_a, shown};
use rdmascope_checks::Policy;
use rdmascope_checks::limits::LIMITS;
use rdmascope_checks::manifest::{Expectation, PortRole};
use rdmascope_model::LinkLayer;

/// Section of the numbers; its keys are the names of the limits.
pub(crate) const POLICY: &str = "policy";
/// Section of the rows.
pub(crate) const MANIFEST: &str = "manifest";

/// Fields of a row of the manifest: name, form, what it says.
pub(crate) const FIELDS: [(&str, &str, &str); 13] = [
    (
        "device",
        "device name, PCI address or node GUID; * stands for any letters",
        "which devices the row is for",
    ),
    ("port", "1 to 255", "which port; left out: every port"),
    (
        "role",
        "compute | storage | management | ignore",
        "what it is for; management: only its link is judged",
    ),
    ("rail", "name", "which plane of the fabric it belongs to"),
    ("link_layer", "ethernet | infiniband", "what the port speaks"),
    ("rate_gbps", "whole number", "signalling rate of the port, Gb/s"),
    ("mtu", "bytes", "MTU of the network device"),
    ("rdma_mtu", "256 | 512 | 1024 | 2048 | 4096", "RDMA MTU in use"),
    ("pfc", "list of priorities, 0 to 7", "priorities with priority flow control; [] for none"),
    ("dscp", "0 to 63", "DSCP of RDMA traffic"),
    ("firmware", "version", "firmware version"),
    ("pci_width", "lanes", "PCI Express lanes in use"),
    ("down", "true | false", "meant to be down: a spare that is not cabled"),
];

/// Reads both sections into a policy; what is wrong goes to `found`.
pub(crate) fn read(root: &Node, found: &mut Vec<Found>) -> Policy {
    let mut policy = Policy::default();
    if let Value::Map(sections) = &root.value {
        for (key, value) in sections {
            match &key.value {
                Value::Text(name) if name == POLICY => limits(value, &mut policy, found),
                Value::Text(name) if name == MANIFEST => policy.manifest.rows = rows(value, found),
                _ => {}
            }
        }
    }
    policy
}

fn limits(section: &Node, policy: &mut Policy, found: &mut Vec<Found>) {
    let mut complain = |id, key: String, wrong| found.push(Found { id, key, wrong });
    let entries = match &section.value {
        Value::Map(entries) => entries,
        Value::Null => return,
        _ => {
            return complain(
                section.id,
                POLICY.to_owned(),
                Wrong::new("must be a section", "write NAME: NUMBER lines below it"),
            );
        }
    };
    for (index, (key, value)) in entries.iter().enumerate() {
        let Value::Text(name) = &key.value else {
            complain(
                key.id,
                POLICY.to_owned(),
                Wrong::new("a key must be a word", "config/policy.yaml lists all"),
            );
            continue;
        };
        let path = format!("{POLICY}.{}", shown(name));
        let number = match value.value {
            // No limit comes near 2^53, where a float would round.
            Value::Whole(whole) => Some(whole as f64),
            Value::Real(real) => Some(real),
            _ => None,
        };
        if !LIMITS.iter().any(|limit| limit.name == name) {
            complain(
                key.id,
                path,
                Wrong::new("unknown key", nearest(name, LIMITS.iter().map(|limit| limit.name))),
            );
        } else if twice(entries, index, name) {
            complain(key.id, path, Wrong::new("is there twice", "keep one of the two"));
        } else if !number.is_some_and(|number| policy.limits.set(name, number)) {
            complain(value.id, path, not_a("a number", &value.value, "write a number that is 0 or more"));
        }
    }
}

fn rows(section: &Node, found: &mut Vec<Found>) -> Vec<Expectation> {
    let items = match &section.value {
        Value::List(items) => items,
        Value::Null => return Vec::new(),
        _ => {
            let wrong = Wrong::new("must be a list", "begin each row with `- device: mlx5_*`");
            found.push(Found { id: section.id, key: MANIFEST.to_owned(), wrong });
            return Vec::new();
        }
    };
    items.iter().enumerate().map(|(index, item)| row(item, index, found)).collect()
}

fn row(item: &Node, index: usize, found: &mut Vec<Found>) -> Expectation {
    let path = format!("{MANIFEST}[{index}]");
    let mut row = Expectation::default();
    let Value::Map(entries) = &item.value else {
        let wrong = Wrong::new("must be a row of fields", "begin it with `- device: mlx5_*`");
        found.push(Found { id: item.id, key: path, wrong });
        return row;
    };
    for (at, (key, value)) in entries.iter().enumerate() {
        let name = match &key.value {
            Value::Text(name) => name.as_str(),
            _ => "",
        };
        let wrong = if !FIELDS.iter().any(|(known, ..)| *known == name) {
            Some(Wrong::new("unknown field", nearest(name, FIELDS.iter().map(|(known, ..)| *known))))
        } else if twice(entries, at, name) {
            Some(Wrong::new("is there twice", "keep one of the two"))
        } else {
            field(&mut row, name, &value.value).err()
        };
        found.extend(wrong.map(|wrong| Found { id: key.id, key: format!("{path}.{}", shown(name)), wrong }));
    }
    if row.device.is_empty() {
        let wrong = Wrong::new("names no device", "write `device: mlx5_0`, or `device: \"*\"` for all");
        found.push(Found { id: item.id, key: path, wrong });
    }
    row
}

fn field(row: &mut Expectation, name: &str, value: &Value) -> Result<(), Wrong> {
    let form = FIELDS.iter().find(|(known, ..)| *known == name).map_or("", |(_, form, _)| form);
    let wrong = || Wrong::new("has a value that does not fit", format!("write {form}"));
    let text = || match value {
        Value::Text(text) if !text.is_empty() => Ok(text.clone()),
        _ => Err(wrong()),
    };
    let whole = |max: u32| match value {
        Value::Whole(number) => u32::try_from(*number).ok().filter(|number| *number <= max).ok_or_else(wrong),
        _ => Err(wrong()),
    };
    let small = |max: u8| whole(u32::from(max)).and_then(|number| u8::try_from(number).map_err(|_| wrong()));
    match name {
        "device" => row.device = text()?,
        "port" => {
            row.port = Some(small(255)?)
                .filter(|port| *port > 0)
                .map_or_else(|| Err(wrong()), |port| Ok(Some(port)))?
        }
        "role" => row.role = Some(role(&text()?).ok_or_else(wrong)?),
        "rail" => row.rail = Some(text()?),
        "link_layer" => {
            row.link_layer = Some(match text()?.as_str() {
                "ethernet" => LinkLayer::Ethernet,
                "infiniband" => LinkLayer::InfiniBand,
                _ => return Err(wrong()),
            });
        }
        "rate_gbps" => row.rate_bps = Some(u64::from(whole(100_000)?) * 1_000_000_000),
        "mtu" => row.netdev_mtu = Some(whole(65_535)?),
        "rdma_mtu" => row.rdma_mtu = Some(whole(4096)?),
        "pfc" => row.pfc = Some(priorities(value).ok_or_else(wrong)?),
        "dscp" => row.dscp = Some(small(63)?),
        "firmware" => row.firmware = Some(text()?),
        "pci_width" => row.pci_width = Some(small(32)?),
        _ => match value {
            Value::Bool(down) => row.down = Some(*down),
            _ => return Err(wrong()),
        },
    }
    Ok(())
}

fn role(word: &str) -> Option<PortRole> {
    match word {
        "compute" => Some(PortRole::Compute),
        "storage" => Some(PortRole::Storage),
        "management" => Some(PortRole::Management),
        "ignore" => Some(PortRole::Ignore),
        _ => None,
    }
}

fn priorities(value: &Value) -> Option<u8> {
    let Value::List(items) = value else { return None };
    items.iter().try_fold(0_u8, |mask, item| match item.value {
        Value::Whole(priority @ 0..=7) => Some(mask | 1 << priority),
        _ => None,
    })
}

fn twice(entries: &[(Node, Node)], index: usize, name: &str) -> bool {
    entries.iter().take(index).any(|(key, _)| matches!(&key.value, Value::Text(earlier) if earlier == name))
}

fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> String {
    match known.map(|candidate| (crate::names::distance(name, candidate), candidate)).min() {
        Some((steps, candidate)) if steps <= 3 && steps < name.len() => {
            format!("did you mean `{candidate}`?")
        }
        _ => "config/policy.yaml lists all".to_owned(),
    }
}

/// The text of `config/policy.yaml`: every number with its reason, and the fields of the manifest.
#[must_use]
pub fn policy_reference() -> String {
    let mut text = String::from(
        "# What the checks judge by: every number with its default and the reason for it, and the fields of the manifest.\n\
         #\n\
         # These are sections of the config file (see rdmascope.yaml); agents, `rdmascope check --config` and the coordinator read\n\
         # them. A commented key has the value shown. This file is written by the program: do not edit it, copy from it.\n\n\
         policy:\n",
    );
    let mut group = "";
    for limit in LIMITS {
        if limit.group != group {
            group = limit.group;
            text.push_str(&format!("\n  # {group}\n\n"));
        }
        for line in crate::reference::wrapped(limit.reason, 96) {
            text.push_str(&format!("  # {line}\n"));
        }
        text.push_str(&format!("  #{}: {}  # {}\n", limit.name, limit.default, limit.unit));
    }
    text.push_str(
        "\n# What is expected of each port. A port takes each field from the first row that matches it and gives the field; without a\n\
         # row only what is wrong on any machine is judged. `rdmascope config manifest` writes one from a healthy node.\n\
         manifest:\n",
    );
    for (index, (name, form, what)) in FIELDS.iter().enumerate() {
        let dash = if index == 0 { "#- " } else { "#  " };
        let example = EXAMPLES.get(index).copied().unwrap_or_default();
        text.push_str(&format!("  # {what} ({form})\n  {dash}{name}: {example}\n"));
    }
    text
}

/// One value for each of [`FIELDS`].
const EXAMPLES: [&str; 13] = [
    "mlx5_*",
    "1",
    "compute",
    "rail-1",
    "ethernet",
    "400",
    "9000",
    "4096",
    "[3]",
    "26",
    "28.41.1000",
    "16",
    "false",
];
