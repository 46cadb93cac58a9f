//! Where in a probe something happened, and who saw it.

/// Which step of a probe was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The lease was checked against limits, pause and the endpoint's state.
    Admit,
    /// The device was opened and memory registered.
    Open,
    /// The queue pair was made and moved to INIT.
    Init,
    /// The two sides exchanged addresses through the coordinator.
    Exchange,
    /// The queue pair was moved to RTR: the peer's address is resolved here.
    Rtr,
    /// The queue pair was moved to RTS.
    Rts,
    /// The first message travelled.
    FirstByte,
    /// The measured part ran.
    Measure,
    /// The peer's address and the route to it were looked up (rdma_cm, address handles).
    Resolve,
}

impl Step {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::Admit,
        Self::Open,
        Self::Init,
        Self::Exchange,
        Self::Resolve,
        Self::Rtr,
        Self::Rts,
        Self::FirstByte,
        Self::Measure,
    ];

    /// The word used on the API and by `rdmascope probe`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Open => "open",
            Self::Init => "init",
            Self::Exchange => "exchange",
            Self::Rtr => "rtr",
            Self::Rts => "rts",
            Self::FirstByte => "first-byte",
            Self::Measure => "measure",
            Self::Resolve => "resolve",
        }
    }
}

/// Who saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The agent of the source endpoint.
    Source,
    /// The agent of the target endpoint.
    Target,
    /// The coordinator, when an agent said nothing.
    Coordinator,
}

impl Side {
    /// The word used on the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Target => "target",
            Self::Coordinator => "coordinator",
        }
    }
}
