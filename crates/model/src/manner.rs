//! By which means a pair is measured: verb, queue pairs, marks of the packets, transport, and whose memory.

/// The verb whose messages are measured. The numbers travel between versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// RDMA write: the source writes the target's memory.
    #[default]
    Write = 1,
    /// RDMA read: the source fetches from the target's memory, so the bytes travel from target to source.
    Read = 2,
    /// Send: the target offers a receive buffer for each message.
    Send = 3,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Write, Self::Read, Self::Send];

    /// The word used on the API and in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Send => "send",
        }
    }
}

/// What switches sort and spread packets by. All zero is what a program gets that asks for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Marks {
    /// IP traffic class: DSCP in the upper six bits. RoCE and TCP.
    pub traffic_class: u8,
    /// InfiniBand service level, or the priority of a VLAN tag; at most 15.
    pub service_level: u8,
    /// Path label: 20 bits from which the device makes the UDP source port, so that it moves a pair to another equal-cost path;
    /// 0 leaves that to the device.
    pub flow_label: u32,
}

/// What carries the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carrier {
    /// The endpoint's own: RDMA, or what stands for it in a cluster without.
    #[default]
    Native,
    /// TCP over the network device underneath: the baseline.
    Tcp,
}

/// Where an end's buffer lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Memory {
    /// The host's memory.
    #[default]
    Host,
    /// Memory of the GPU with this index, registered as a dma-buf.
    Gpu(u8),
}

/// By which means a pair is measured. The default is that of the matrix: RDMA writes on one queue pair, one way, unmarked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// The verb.
    pub operation: Operation,
    /// Queue pairs of a stream, at least 1.
    pub queue_pairs: u32,
    /// Both ends stream at the same time; each reports what it sent.
    pub both_ways: bool,
    /// How the packets are marked.
    pub marks: Marks,
    /// What carries them.
    pub carrier: Carrier,
    /// Where the source's buffer lies.
    pub source_memory: Memory,
    /// Where the target's buffer lies.
    pub target_memory: Memory,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            operation: Operation::Write,
            queue_pairs: 1,
            both_ways: false,
            marks: Marks::default(),
            carrier: Carrier::Native,
            source_memory: Memory::Host,
            target_memory: Memory::Host,
        }
    }
}
