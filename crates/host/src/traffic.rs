//! How many bytes a port has moved, from the counter that really sees its RDMA traffic.

use crate::rdma::CLASS;
use crate::tree::Tree;
use crate::{Host, parse};
use rdmascope_model::Reading;

/// `port_xmit_data` and `port_rcv_data` count words of four bytes (InfiniBand Architecture Specification, volume 1, 16.1.3.5).
const BYTES_PER_WORD: u64 = 4;

/// Bytes of one port since the counters began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Sent.
    pub tx_bytes: u64,
    /// Received.
    pub rx_bytes: u64,
}

impl Host {
    /// What a port has moved. The port's own data counters where the driver has them; else the bytes of its network device, but only
    /// for a software RDMA device, whose packets go through it: on an adapter, RDMA passes the network device by, and its silence
    /// would say nothing.
    #[must_use]
    pub fn traffic(&self, device: &str, port: u8, netdev: Option<&str>) -> Reading<Traffic> {
        let base = format!("{CLASS}/{device}");
        let counters = format!("{base}/ports/{port}/counters");
        let tx = words(self.tree(), &format!("{counters}/port_xmit_data"));
        let rx = words(self.tree(), &format!("{counters}/port_rcv_data"));
        match (tx, rx) {
            (Reading::Value(tx_bytes), Reading::Value(rx_bytes)) => {
                Reading::Value(Traffic { tx_bytes, rx_bytes })
            }
            (Reading::Failed(why), _) | (_, Reading::Failed(why)) => Reading::Failed(why),
            (Reading::Absent, _) | (_, Reading::Absent) => self.netdev_traffic(&base, netdev),
        }
    }

    fn netdev_traffic(&self, base: &str, netdev: Option<&str>) -> Reading<Traffic> {
        // A device without hardware has no `device` link; `parent` is a file of the software drivers (`rxe_verbs.c`).
        let software = self.tree().resolved(&format!("{base}/device")) == Reading::Absent
            || self.tree().text(&format!("{base}/parent")).value().is_some();
        let Some(netdev) = netdev.filter(|_| software) else {
            return Reading::Failed("the driver has no data counters for this port".to_owned());
        };
        let read = |file: &str| {
            let path = format!("sys/class/net/{netdev}/statistics/{file}");
            match self.tree().parsed(&path, parse::number::<u64>) {
                Reading::Absent => Err(format!("{path} is not there")),
                Reading::Failed(why) => Err(why),
                Reading::Value(bytes) => Ok(bytes),
            }
        };
        match (read("tx_bytes"), read("rx_bytes")) {
            (Ok(tx_bytes), Ok(rx_bytes)) => Reading::Value(Traffic { tx_bytes, rx_bytes }),
            (Err(why), _) | (_, Err(why)) => Reading::Failed(why),
        }
    }
}

fn words(tree: &Tree, path: &str) -> Reading<u64> {
    tree.parsed(path, |text| {
        let count = parse::counter(text)?.ok_or("the device does not count this")?;
        // Old adapters have only 32 bits here and stay at the largest value (seen on qib): such a counter never moves again.
        if count == u64::from(u32::MAX) {
            return Err("the counter stands at its largest value".to_owned());
        }
        Ok(count.saturating_mul(BYTES_PER_WORD))
    })
}
