//! Is the network device under a RoCE port up, clean, and set up to reach its peers?

pub(super) mod bit_errors;
pub(super) mod bond;
pub(super) mod child_mtu;
pub(super) mod crc_errors;
pub(super) mod discards;
pub(super) mod fec;
pub(super) mod frame_size;
pub(super) mod link;
pub(super) mod module;
pub(super) mod multi_nic_subnet;
pub(super) mod neighbours;
pub(super) mod route;
pub(super) mod symbol_errors;
