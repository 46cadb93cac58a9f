//! Puts made-up names in the place of whatever tells whose machine it is, so that a capture can be shown to anybody and still judges
//! the same; pure.
//!
//! The same address always becomes the same address within one capture, and addresses keep what a judge looks at: two in one subnet
//! stay in one subnet, link-local stays link-local, a GID made from a MAC address is still made from that one. What is already made
//! up for documents (RFC 5737, RFC 3849) stays.

mod files;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// First MAC address that is given: the range for documents of RFC 7042 (00-00-5E-00-53), then on into what IANA holds.
const FIRST_MAC: u64 = 0x0000_5e00_5300;

/// Blocks of IPv4 addresses whose meaning must stay: address, bits of the block. Within them, all further bits are changed.
const BLOCKS_V4: [([u8; 4], u8); 5] = [
    ([10, 0, 0, 0], 8),
    ([172, 16, 0, 0], 12),
    ([192, 168, 0, 0], 16),
    ([100, 64, 0, 0], 10),
    ([169, 254, 0, 0], 16),
];

/// Where all other IPv4 addresses go: the block for benchmarks (RFC 2544).
const PUBLIC_V4: ([u8; 4], u8) = ([198, 18, 0, 0], 15);

/// Blocks that say nothing of anybody: this network, loopback, documents, multicast and beyond.
const OPEN_V4: [([u8; 4], u8); 7] = [
    ([0, 0, 0, 0], 8),
    ([127, 0, 0, 0], 8),
    ([192, 0, 2, 0], 24),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// Interface identifiers of IPv6 addresses up to this one were given by hand (`::1`) and say nothing.
const SMALL_IDENTIFIER: u64 = 0xffff;

/// The memory of one capture: what became what.
pub(crate) struct Anonymiser<S> {
    /// Decides which bits of an address change; its key must be a new one for every capture.
    key: S,
    macs: BTreeMap<[u8; 6], u64>,
    guids: BTreeMap<u64, u64>,
    /// Serial numbers, names and the like, by kind.
    words: BTreeMap<(&'static str, String), usize>,
    /// Names of this machine, the longest first.
    names: Vec<String>,
}

impl<S: BuildHasher> Anonymiser<S> {
    /// Nothing has been seen yet. `names`: the machine's own names, which may stand in any text.
    pub(crate) fn new(key: S, names: &[String]) -> Self {
        // A machine that is called like half the words of a log must not take them along.
        let mut names: Vec<String> =
            names.iter().filter(|name| name.len() > 2 && *name != "localhost").cloned().collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        Self { key, macs: BTreeMap::new(), guids: BTreeMap::new(), words: BTreeMap::new(), names }
    }

    /// A text of any kind: addresses, GUIDs, UUIDs and the machine's own names in it are changed.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let lines = text.split('\n').map(|line| {
            let low = line.to_ascii_lowercase();
            // "fw 227.1.111.0" is no IPv4 address.
            self.line(line, low.contains("version") || low.contains("firmware") || low.contains("fw"))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn line(&mut self, line: &str, versions: bool) -> String {
        let line = self.without_names(line);
        let (mut out, mut rest) = (String::with_capacity(line.len()), line.as_str());
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '-' | '_');
        while !rest.is_empty() {
            let gap = rest.find(is_word).unwrap_or(rest.len());
            out.push_str(&rest[..gap]);
            rest = &rest[gap..];
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            out.push_str(&self.word(word, prefix_length(after), versions));
            rest = after;
        }
        out
    }

    /// One run of letters, digits and `:.-_`; `prefix`: the length that follows it, as in `192.0.2.0/24`.
    fn word(&mut self, word: &str, prefix: Option<u8>, versions: bool) -> String {
        let bare = word.trim_start_matches(['.', '-']).trim_end_matches(['.', '-', '_']);
        let bare = if bare.ends_with("::") { bare } else { bare.trim_end_matches(':') };
        let Some((before, after)) = word.split_once(bare).filter(|_| bare.len() > 1) else {
            return word.to_owned();
        };
        let new = self.hardware(bare).or_else(|| self.address(bare, prefix, versions));
        let new = new.or_else(|| {
            // "192.0.2.1:4791", "192.0.2.1-192.0.2.9"
            let at = bare.find('-').or_else(|| bare.rfind(':').filter(|_| bare.contains('.')))?;
            let (left, right) = (&bare[..at], &bare[at + 1..]);
            Some(format!(
                "{}{}{}",
                self.word(left, None, versions),
                &bare[at..=at],
                self.word(right, prefix, versions)
            ))
        });
        format!("{before}{}{after}", new.as_deref().unwrap_or(bare))
    }

    /// MAC addresses, GUIDs and UUIDs in their forms.
    fn hardware(&mut self, word: &str) -> Option<String> {
        let separator = word.chars().find(|c| matches!(c, ':' | '-'));
        let Some(separator) = separator else {
            // An IPv6 address or a GID as the kernel prints it in `proc/net/if_inet6`.
            let all = (word.len() == 32).then(|| u128::from_str_radix(word, 16).ok()).flatten()?;
            return Some(format!("{:032x}", u128::from(self.v6(Ipv6Addr::from(all)))));
        };
        let groups: Vec<&str> = word.split(separator).collect();
        if groups.iter().any(|group| group.is_empty() || !group.bytes().all(|b| b.is_ascii_hexdigit())) {
            return None;
        }
        let widths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        let bytes: Vec<u8> = bytes_of(&groups.concat())?;
        match (separator, widths.as_slice()) {
            ('-', [8, 4, 4, 4, 12]) => {
                let number = self.number("uuid", word);
                Some(format!("00000000-0000-0000-0000-{number:012x}"))
            }
            (_, [2, 2, 2, 2, 2, 2]) => Some(grouped(&self.mac(bytes.try_into().ok()?), 1, separator)),
            (_, [2, 2, 2, 2, 2, 2, 2, 2]) => Some(grouped(&self.guid(bytes.try_into().ok()?), 1, separator)),
            (':', [4, 4, 4, 4]) => Some(grouped(&self.guid(bytes.try_into().ok()?), 2, separator)),
            // The address of an IPoIB device: queue pair, then the port's GID (RFC 4391, 9.1.1).
            (':', widths) if widths.len() == 20 && widths.iter().all(|width| *width == 2) => {
                let (queue_pair, gid) = bytes.split_at(4);
                let gid: [u8; 16] = gid.try_into().ok()?;
                let gid = self.v6(Ipv6Addr::from(gid)).octets();
                Some(grouped(&[queue_pair, &gid].concat(), 1, separator))
            }
            _ => None,
        }
    }

    /// IP addresses and GIDs in their forms.
    fn address(&mut self, word: &str, prefix: Option<u8>, versions: bool) -> Option<String> {
        match word.parse().ok()? {
            IpAddr::V4(_) if versions => None,
            IpAddr::V4(v4) => Some(network(IpAddr::V4(v4), IpAddr::V4(self.v4(v4)), prefix).to_string()),
            IpAddr::V6(v6) => {
                let new = self.v6(v6);
                // A GID as sysfs prints it.
                let full = word.len() == 39 && !word.contains('.');
                let IpAddr::V6(new) = network(IpAddr::V6(v6), IpAddr::V6(new), prefix) else { return None };
                Some(if full { grouped(&new.octets(), 2, ':') } else { new.to_string() })
            }
        }
    }

    fn v4(&self, v4: Ipv4Addr) -> Ipv4Addr {
        let value = u32::from(v4);
        let inside =
            |(block, bits): &&([u8; 4], u8)| (value ^ u32::from_be_bytes(*block)) >> (32 - bits) == 0;
        if OPEN_V4.iter().any(|block| inside(&block)) {
            return v4;
        }
        let (block, bits) = BLOCKS_V4.iter().find(inside).copied().unwrap_or(PUBLIC_V4);
        let changed = self.changed(u128::from(value), 32, bits) as u32;
        let own = u32::MAX >> bits;
        Ipv4Addr::from(u32::from_be_bytes(block) | (changed & own))
    }

    fn v6(&mut self, v6: Ipv6Addr) -> Ipv6Addr {
        if let Some(v4) = v6.to_ipv4_mapped() {
            return self.v4(v4).to_ipv6_mapped();
        }
        let value = u128::from(v6);
        let first = v6.segments()[0];
        let documents = value >> 96 == 0x2001_0db8;
        if value >> 16 == 0 || first >> 8 == 0xff || documents {
            return v6;
        }
        let network = match first >> 8 {
            // Link-local, site-local, and the subnet prefixes of InfiniBand fabrics.
            0xfe => value >> 64,
            // Unique local (RFC 4193).
            0xfc | 0xfd => self.changed(value, 128, 8) >> 64,
            // All others: the prefix for documents, the lower half of the network kept apart.
            _ => 0x2001_0db8 << 32 | (self.changed(value, 128, 32) >> 64) & 0xffff_ffff,
        };
        let identifier = value as u64;
        let identifier = if identifier <= SMALL_IDENTIFIER {
            identifier
        } else {
            u64::from_be_bytes(self.guid(identifier.to_be_bytes()))
        };
        Ipv6Addr::from(network << 64 | u128::from(identifier))
    }

    /// Changes all bits after the first `kept`, each depending on those before it: what shared a prefix shares one again, of the same
    /// length (the idea of Crypto-PAn).
    fn changed(&self, value: u128, width: u8, kept: u8) -> u128 {
        (kept..width).fold(value, |changed, bit| {
            let before = value >> (width - bit);
            let flip = u128::from(self.key.hash_one((before, bit, width)) & 1);
            changed ^ flip << (width - 1 - bit)
        })
    }

    /// A MAC address; group addresses and zero stay. The bit "locally administered" stays too: it is turned in identifiers.
    fn mac(&mut self, mac: [u8; 6]) -> [u8; 6] {
        if mac[0] & 1 == 1 || mac == [0; 6] {
            return mac;
        }
        let mut known = mac;
        known[0] &= !2;
        let next = FIRST_MAC + self.macs.len() as u64;
        let number = *self.macs.entry(known).or_insert(next);
        let mut new = [0; 6];
        new.copy_from_slice(&number.to_be_bytes()[2..]);
        new[0] |= mac[0] & 2;
        new
    }

    /// A GUID or an interface identifier; one that is made from a MAC address stays so.
    fn guid(&mut self, guid: [u8; 8]) -> [u8; 8] {
        let [a, b, c, middle @ .., d, e, f] = guid;
        // EUI-64 (fffe), and how mlx5 makes GUIDs (0300).
        if [[0xff, 0xfe], [0x03, 0x00]].contains(&middle) && a & 1 == 0 {
            let [a, b, c, d, e, f] = self.mac([a, b, c, d, e, f]);
            return [a, b, c, middle[0], middle[1], d, e, f];
        }
        let value = u64::from_be_bytes(guid);
        if value == 0 {
            return guid;
        }
        let next = 0x0000_5e10_0000_0001 + self.guids.len() as u64;
        self.guids.entry(value).or_insert(next).to_be_bytes()
    }

    /// The number of a word among those of its kind, from 1.
    fn number(&mut self, kind: &'static str, word: &str) -> usize {
        let next = self.words.len() + 1;
        *self.words.entry((kind, word.to_owned())).or_insert(next)
    }

    /// The machine's names, each with the domain behind it, become `host`.
    fn without_names(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for name in &self.names {
            let (mut out, mut rest) = (String::new(), line.as_str());
            while let Some(at) = rest.find(name.as_str()) {
                let (before, after) = (&rest[..at], &rest[at + name.len()..]);
                let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
                out.push_str(before);
                let edge = out.chars().next_back().is_some_and(|c| inside(c) || c == '.');
                if edge || after.chars().next().is_some_and(inside) {
                    out.push_str(name);
                    rest = after;
                } else {
                    out.push_str("host");
                    rest = after_domain(after);
                }
            }
            line = out + rest;
        }
        line
    }
}

/// What follows the labels of a domain: `.example.org: up` gives `: up`.
fn after_domain(text: &str) -> &str {
    let mut rest = text;
    while let Some(label) = rest.strip_prefix('.') {
        let end = label.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(label.len());
        if end == 0 {
            break;
        }
        rest = &label[end..];
    }
    rest
}

/// The length of a prefix that follows an address: `/24 dev eth0` gives 24.
fn prefix_length(after: &str) -> Option<u8> {
    let digits = after.strip_prefix('/')?;
    digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())].parse().ok()
}

/// A network (no bits after its prefix) must stay one.
fn network(old: IpAddr, new: IpAddr, prefix: Option<u8>) -> IpAddr {
    match (old, new, prefix) {
        (IpAddr::V4(old), IpAddr::V4(new), Some(prefix @ 0..32)) => {
            let host = u32::MAX >> prefix;
            IpAddr::V4(if u32::from(old) & host == 0 { Ipv4Addr::from(u32::from(new) & !host) } else { new })
        }
        (IpAddr::V6(old), IpAddr::V6(new), Some(prefix @ 0..128)) => {
            let host = u128::MAX >> prefix;
            IpAddr::V6(if u128::from(old) & host == 0 {
                Ipv6Addr::from(u128::from(new) & !host)
            } else {
                new
            })
        }
        _ => new,
    }
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Hexadecimal digits, so many bytes in a group.
fn grouped(bytes: &[u8], size: usize, separator: char) -> String {
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        if index > 0 && index % size == 0 {
            text.push(separator);
        }
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests;
