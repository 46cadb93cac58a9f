//! One endpoint of the lab, what its files say, and faults injected into it for real.

use super::{run, try_run};
use std::path::PathBuf;

/// MTU of every port of a healthy lab, in bytes.
const LAB_MTU: u32 = 9000;

/// An endpoint of the lab, by its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint(pub u8);

/// All endpoints of this lab; 4 when the lab does not say how many it has.
pub fn endpoints() -> impl Iterator<Item = Endpoint> {
    let count = std::env::var("LAB_ENDPOINTS").ok().and_then(|count| count.parse().ok()).unwrap_or(4);
    (1..=count).map(Endpoint)
}

/// A line of bash that runs on drop and takes a fault back.
#[derive(Debug)]
#[must_use = "dropped at once, the fault is over at once"]
pub struct Undo(String);

impl Undo {
    /// The line that takes a fault back.
    pub fn new(line: &str) -> Self {
        Self(line.to_owned())
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Err(why) = try_run(&self.0) {
            // No second panic while one is under way: that would end the whole test program.
            eprintln!("a fault could not be taken back, later tests may fail from it: {why}");
        }
    }
}

impl Endpoint {
    /// The RDMA device: `rxe1`.
    #[must_use]
    pub fn device(self) -> String {
        format!("rxe{}", self.0)
    }

    /// The network port with the address, below the RDMA device: `w1`.
    #[must_use]
    pub fn port(self) -> String {
        format!("w{}", self.0)
    }

    /// The other end of that port's cable, on the bridge: `b1`. What arrives at the endpoint leaves here.
    #[must_use]
    pub fn bridge_port(self) -> String {
        format!("b{}", self.0)
    }

    /// IPv4 address: `10.8.0.1`.
    #[must_use]
    pub fn address(self) -> String {
        format!("10.8.0.{}", self.0)
    }

    /// A file of the RDMA port below `/sys/class/infiniband`, trimmed; nothing when it cannot be read.
    #[must_use]
    pub fn sysfs(self, file: &str) -> Option<String> {
        let path: PathBuf = ["/sys/class/infiniband", &self.device(), "ports/1", file].iter().collect();
        std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    }

    /// Whether sysfs says that the RDMA port is up.
    #[must_use]
    pub fn is_active(self) -> bool {
        self.sysfs("state").is_some_and(|state| state == "4: ACTIVE")
    }

    /// Spoils what is on its way *to* this endpoint, as `tc` says it: `loss 1%`, `delay 1ms`.
    pub fn netem(self, fault: &str) -> Undo {
        let port = self.bridge_port();
        run_quietly(&format!("tc qdisc replace dev {port} root netem {fault}"));
        Undo(format!("tc qdisc del dev {port} root"))
    }

    /// Takes the port down.
    pub fn down(self) -> Undo {
        let port = self.port();
        run_quietly(&format!("ip link set {port} down"));
        // Down empties the port's own routing table, which then has to be filled again.
        let number = self.0;
        Undo(format!(
            "ip link set {port} up && \
             ip route replace 10.8.0.0/24 dev {port} src {address} table $((100 + {number}))",
            address = self.address()
        ))
    }

    /// Loses every packet on its way *to* this endpoint that carries 4096 bytes of payload, and nothing else: a switch port
    /// whose MTU was set wrong. (The length of an IPv4 packet stands in its third and fourth byte.)
    pub fn hole_for_large_packets(self) -> Undo {
        let port = self.bridge_port();
        run_quietly(&format!(
            "tc qdisc replace dev {port} root handle 1: prio bands 3 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 && \
             tc qdisc add dev {port} parent 1:3 netem loss 100% && \
             tc filter add dev {port} parent 1: protocol ip u32 match u16 0x1000 0xf000 at 2 flowid 1:3"
        ));
        Undo(format!("tc qdisc del dev {port} root"))
    }

    /// Sets the port's MTU, in bytes, on the endpoint's side alone.
    pub fn mtu(self, bytes: u32) -> Undo {
        let port = self.port();
        run_quietly(&format!("ip link set {port} mtu {bytes}"));
        Undo(format!("ip link set {port} mtu {LAB_MTU}"))
    }

    /// Takes the port's addresses away, so that its RDMA device has no GID that a peer could reach.
    pub fn without_address(self) -> Undo {
        let (port, address, number) = (self.port(), self.address(), self.0);
        run_quietly(&format!("ip addr flush dev {port}"));
        Undo(format!(
            "ip addr add {address}/24 dev {port} && \
             ip route replace 10.8.0.0/24 dev {port} src {address} table $((100 + {number}))"
        ))
    }

    /// Removes the RDMA device. The command hangs for as long as somebody keeps the device open.
    pub fn remove_device(self) -> Undo {
        let (device, port) = (self.device(), self.port());
        run_quietly(&format!("rdma link del {device}"));
        Undo(format!("rdma link add {device} type rxe netdev {port}"))
    }
}

#[track_caller]
fn run_quietly(line: &str) {
    let _ = run(line);
}
