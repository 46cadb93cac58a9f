//! The statistics of a network device (`ethtool -S`): their values exist only behind an ioctl.

use rustix::fd::OwnedFd;
use rustix::io::{Errno, Result};
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::ffi::c_void;

/// `SIOCETHTOOL` (`include/uapi/linux/sockios.h`).
const SIOCETHTOOL: Opcode = 0x8946;
/// `ETHTOOL_GSSET_INFO`, `ETHTOOL_GSTRINGS`, `ETHTOOL_GSTATS`, `ETH_SS_STATS` (`include/uapi/linux/ethtool.h`). All three only read.
const GSSET_INFO: u32 = 0x37;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const SS_STATS: u32 = 1;

/// `IFNAMSIZ`: longest name of a network device with its 0 byte.
const NAME_BYTES: usize = 16;
/// `ETH_GSTRING_LEN`.
const STRING_BYTES: usize = 32;

/// Most statistics that a device may announce; a card with 128 queues has about 5,000.
const ANNOUNCED_MAX: u32 = 1 << 14;
/// Statistics that the buffers have room for. The kernel writes as many as the device has at that moment, whatever was announced
/// before; the pages of the buffer that stay untouched cost nothing.
const ROOM: usize = 1 << 16;

/// `struct ifreq` with the pointer in its union (`include/uapi/linux/if.h`).
#[repr(C)]
struct Request<'a> {
    name: [u8; NAME_BYTES],
    data: *mut c_void,
    rest: [u64; 2],
    /// What `data` points at.
    buffer: std::marker::PhantomData<&'a mut [u64]>,
}

// SAFETY: `SIOCETHTOOL` takes a `struct ifreq`, which `as_ptr` gives, and writes only to the buffer in it. `Request` is made by `run`
// alone, with a buffer that is as long as that says and stays borrowed until the call is over.
unsafe impl Ioctl for Request<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        SIOCETHTOOL
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<()> {
        Ok(())
    }
}

/// A socket that statistics are asked through; any process may.
#[derive(Debug)]
pub struct StatisticsSocket(OwnedFd);

impl StatisticsSocket {
    /// Opens it, for the network namespace that the thread is in.
    ///
    /// # Errors
    /// What `socket(2)` says.
    pub fn open() -> Result<Self> {
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).map(Self)
    }

    /// Name and value of every statistic in the driver's order; empty when the device has none. Names come and go while the driver
    /// runs (priorities, queues), so both are read together each time. It waits for the kernel's lock of network devices, and for
    /// the driver.
    ///
    /// # Errors
    /// `ENODEV` when there is no such device, `EAGAIN` when the number of statistics changed meanwhile, `EOVERFLOW` when it cannot
    /// be, and what the driver says.
    pub fn read(&self, netdev: &str) -> Result<Vec<(String, u64)>> {
        let count = match self.count(netdev)? {
            0 => return Ok(Vec::new()),
            count if count > ANNOUNCED_MAX => return Err(Errno::OVERFLOW),
            count => count,
        };
        let names = self.names(netdev, count)?;
        let values = self.values(netdev, count)?;
        Ok(names.into_iter().zip(values).collect())
    }

    /// How many statistics the device has; 0 too when its driver knows no such set.
    fn count(&self, netdev: &str) -> Result<u32> {
        // struct ethtool_sset_info: command, reserved, mask in 64 bits, then the length of each set that is in the mask.
        let mut buffer = [words(GSSET_INFO, 0), 1 << SS_STATS, 0];
        self.run(netdev, &mut buffer)?;
        let length = halves(buffer[2])[0];
        Ok(if buffer[1] & (1 << SS_STATS) == 0 { 0 } else { length })
    }

    /// The values alone, in the order of `known`, which is brought up to date. For readers that look again and again: when the names
    /// are the same as last time, nothing is made of them.
    ///
    /// # Errors
    /// As [`StatisticsSocket::read`].
    pub fn read_values(&self, netdev: &str, known: &mut StatisticNames) -> Result<Vec<u64>> {
        let count = match self.count(netdev)? {
            count if count > ANNOUNCED_MAX => return Err(Errno::OVERFLOW),
            count => count,
        };
        let raw = if count == 0 { Vec::new() } else { self.raw_names(netdev, count)? };
        if known.raw != raw {
            known.names = texts(&raw, count);
            known.raw = raw;
            known.version += 1;
        }
        if count == 0 { Ok(Vec::new()) } else { self.values(netdev, count) }
    }

    fn names(&self, netdev: &str, count: u32) -> Result<Vec<String>> {
        self.raw_names(netdev, count).map(|raw| texts(&raw, count))
    }

    /// The words that hold them, from the number on.
    fn raw_names(&self, netdev: &str, count: u32) -> Result<Vec<u64>> {
        // struct ethtool_gstrings: command, set, number, then 32 bytes for each; the texts begin in the middle of a word.
        let mut buffer = vec![0; 2 + ROOM * STRING_BYTES / 8];
        (buffer[0], buffer[1]) = (words(GSTRINGS, SS_STATS), words(count, 0));
        self.run(netdev, &mut buffer)?;
        if halves(buffer[1])[0] != count {
            return Err(Errno::AGAIN);
        }
        buffer.truncate(2 + count as usize * STRING_BYTES / 8);
        buffer.remove(0);
        Ok(buffer)
    }

    fn values(&self, netdev: &str, count: u32) -> Result<Vec<u64>> {
        // struct ethtool_stats: command, number, then the values.
        let mut buffer = vec![0; 1 + ROOM];
        buffer[0] = words(GSTATS, count);
        self.run(netdev, &mut buffer)?;
        if halves(buffer[0])[1] != count {
            return Err(Errno::AGAIN);
        }
        buffer.truncate(1 + count as usize);
        buffer.remove(0);
        Ok(buffer)
    }

    /// One call. The command in the buffer decides how much the kernel writes to it: the callers above give each its room.
    fn run(&self, netdev: &str, buffer: &mut [u64]) -> Result<()> {
        let mut name = [0; NAME_BYTES];
        let room = name.get_mut(..netdev.len()).filter(|room| room.len() < NAME_BYTES).ok_or(Errno::NODEV)?;
        room.copy_from_slice(netdev.as_bytes());
        let data = buffer.as_mut_ptr().cast();
        let request = Request { name, data, rest: [0; 2], buffer: std::marker::PhantomData };
        // SAFETY: the request is a whole `struct ifreq`, its buffer is alive and borrowed for as long as the call runs, and has room
        // for four times the most that a device may announce, as the kernel does not ask how long it is.
        unsafe { ioctl::ioctl(&self.0, request) }
    }
}

/// The names of one device's statistics, as they were when they were read last.
#[derive(Debug, Default)]
pub struct StatisticNames {
    raw: Vec<u64>,
    names: Vec<String>,
    version: u64,
}

impl StatisticNames {
    /// In the driver's order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Grows whenever they change, from 0 for none.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// What stands behind the number of names.
pub(crate) fn texts(raw: &[u64], count: u32) -> Vec<String> {
    let bytes: Vec<u8> = raw.iter().flat_map(|word| word.to_ne_bytes()).skip(4).collect();
    bytes.chunks_exact(STRING_BYTES).take(count as usize).map(text).collect()
}

/// Two numbers of 32 bits as they stand in memory.
fn words(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

/// A name up to its 0 byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_halves_are_each_others_reverse() {
        assert_eq!(halves(words(7, 9)), [7, 9]);
        assert_eq!(text(b"rx_prio3_pause\0\0\0"), "rx_prio3_pause");
        assert_eq!(text(&[b'x'; 32]).len(), 32);
        assert_eq!(size_of::<Request<'_>>(), 40, "struct ifreq");
    }

    #[test]
    fn devices_without_statistics_and_without_existence() {
        let socket = StatisticsSocket::open().expect("a socket can be made");
        // The loopback device has no driver with statistics of its own.
        assert_eq!(socket.read("lo").map_or_else(Err, |all| Ok(all.len())), Ok(0));
        assert_eq!(socket.read("no-such"), Err(Errno::NODEV));
        assert_eq!(socket.read("a-name-that-is-too-long"), Err(Errno::NODEV));
        assert_eq!(socket.read("exactly-16-bytes"), Err(Errno::NODEV));
        let mut known = StatisticNames::default();
        assert_eq!(socket.read_values("lo", &mut known), Ok(Vec::new()));
        assert_eq!((known.version(), known.names().len()), (0, 0));
        assert_eq!(socket.read_values("no-such", &mut known), Err(Errno::NODEV));
    }
}
