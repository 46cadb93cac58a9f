//! Two Soft-iWARP devices over a cable of their own: RDMA over TCP, which only the connection manager can connect.

use super::{Undo, run};

/// The devices, while they live: `siw1` over `s1` at 10.7.0.1, `siw2` over `s2` at 10.7.0.2.
pub struct SoftIwarp {
    _undo: Undo,
}

impl SoftIwarp {
    /// Makes them. Both addresses are of this machine, so what goes from one to the other has a routing table that is asked before the
    /// local one; else it would not leave the machine.
    ///
    /// # Panics
    /// When the module cannot be loaded or a device cannot be made.
    #[track_caller]
    #[must_use]
    pub fn make() -> Self {
        let _ = run("modprobe -a libcrc32c crc32c_generic; insmod /tmp/lab/modules/siw.ko; \
             ip link add s1 mtu 9000 type veth peer name s2 mtu 9000; \
             ip link set s1 up; ip link set s2 up; \
             for i in 1 2; do \
               ip addr add 10.7.0.$i/24 dev s$i; \
               ip route add 10.7.0.0/24 dev s$i src 10.7.0.$i table $((150 + i)) quickack 1; \
               ip rule add pref $((150 + i)) from 10.7.0.$i to 10.7.0.0/24 iif lo lookup $((150 + i)); \
               ip rule add pref $((150 + i)) oif s$i lookup $((150 + i)); \
               rdma link add siw$i type siw netdev s$i || exit 1; \
             done");
        Self {
            _undo: Undo::new(
                "for i in 1 2; do rdma link del siw$i; ip rule del pref $((150 + i)); ip rule del pref $((150 + i)); done; \
                 ip link del s1; rmmod siw",
            ),
        }
    }

    /// The RDMA device of one end, 1 or 2.
    #[must_use]
    pub fn device(&self, end: u8) -> String {
        format!("siw{end}")
    }

    /// Its network device.
    #[must_use]
    pub fn port(&self, end: u8) -> String {
        format!("s{end}")
    }

    /// Its address.
    #[must_use]
    pub fn address(&self, end: u8) -> String {
        format!("10.7.0.{end}")
    }

    /// Bytes that came in over one end's cable so far.
    ///
    /// # Panics
    /// When the kernel does not tell.
    #[track_caller]
    #[must_use]
    pub fn received(&self, end: u8) -> u64 {
        let text = run(&format!("cat /sys/class/net/{}/statistics/rx_bytes", self.port(end)));
        text.trim().parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}
