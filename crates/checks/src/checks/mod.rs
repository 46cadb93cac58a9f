//! The list of checks: one file each, one line here.

mod device;
mod firmware;
mod gid;
mod infiniband;
mod loss;
mod lossless;
mod mtu;
mod netdev;
mod pci;
mod port;
mod workload;

use crate::check::Check;

/// All checks, in the order of judgement: the link first, then addresses and sizes, then performance, then the application.
pub const ALL: &[Check] = &[
    device::present::CHECK,
    device::mapping::CHECK,
    port::state::CHECK,
    port::phys_state::CHECK,
    device::virtual_function::CHECK,
    port::link_layer::CHECK,
    port::rate::CHECK,
    netdev::link::CHECK,
    port::flaps::CHECK,
    port::saturated::CHECK,
    port::errors::CHECK,
    infiniband::subnet_manager::CHECK,
    infiniband::partition_keys::CHECK,
    gid::usable::CHECK,
    gid::versions::CHECK,
    gid::moved::CHECK,
    gid::duplicate::CHECK,
    gid::family::CHECK,
    mtu::netdev::CHECK,
    mtu::rdma::CHECK,
    infiniband::transmit_wait::CHECK,
    lossless::pfc_priority::CHECK,
    lossless::dscp_map::CHECK,
    lossless::global_pause::CHECK,
    lossless::ecn::CHECK,
    lossless::congestion::CHECK,
    lossless::pause_share::CHECK,
    lossless::pause_storm::CHECK,
    lossless::lossless_discards::CHECK,
    lossless::pause_priority::CHECK,
    lossless::receive_buffers::CHECK,
    loss::retransmits::CHECK,
    loss::retry_exceeded::CHECK,
    loss::slow_receiver::CHECK,
    loss::out_of_sequence::CHECK,
    loss::ack_timeouts::CHECK,
    loss::rate_restarts::CHECK,
    loss::icrc_errors::CHECK,
    loss::application_errors::CHECK,
    netdev::symbol_errors::CHECK,
    netdev::bit_errors::CHECK,
    netdev::crc_errors::CHECK,
    netdev::discards::CHECK,
    netdev::frame_size::CHECK,
    netdev::module::CHECK,
    netdev::fec::CHECK,
    netdev::bond::CHECK,
    netdev::multi_nic_subnet::CHECK,
    netdev::neighbours::CHECK,
    netdev::route::CHECK,
    netdev::child_mtu::CHECK,
    pci::missing_rdma_device::CHECK,
    pci::pci_link::CHECK,
    pci::pci_errors::CHECK,
    pci::pci_stalls::CHECK,
    pci::pci_access_control::CHECK,
    firmware::firmware_version::CHECK,
    firmware::device_health::CHECK,
    workload::device_nodes::CHECK,
    workload::memlock::CHECK,
    workload::memory::CHECK,
    workload::verbs_library::CHECK,
    workload::tcp_fallback::CHECK,
    workload::gpudirect::CHECK,
    workload::namespace_mode::CHECK,
    workload::idle_states::CHECK,
    gid::workload_index::CHECK,
];
