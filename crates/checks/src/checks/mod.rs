//! The list of checks: one file each, one line here.

mod device;
mod firmware;
mod gid;
mod infiniband;
mod log;
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
    gid::workload_index::CHECK,
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
    log::events::CHECK,
    log::lost::CHECK,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Look, Policy};
    use rdmascope_fixtures::snapshot::{infiniband, roce};
    use rdmascope_model::{Reading, Status};

    #[test]
    fn every_check_tells_a_new_operator_what_to_do() {
        for check in ALL {
            assert!(check.question.ends_with('?'), "{}", check.id);
            assert!(check.meaning.ends_with('.') && !check.causes.is_empty(), "{}", check.id);
            assert!(check.next_steps.iter().any(|step| step.len() > 20), "{}", check.id);
        }
    }

    #[test]
    fn healthy_machines_are_ok_throughout() {
        for machine in [roce(2), infiniband(2)] {
            let findings = crate::run(&Look::first(&machine, &Policy::default()));
            let bad: Vec<_> = findings.iter().filter(|f| f.status != Status::Ok).collect();
            assert!(bad.is_empty(), "{bad:#?}");
        }
    }

    #[test]
    fn nothing_above_ok_lacks_its_cause_and_next_step() {
        let mut machine = roce(2);
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        for netdev in netdevs.values_mut() {
            *netdev = rdmascope_model::Netdev::unread("EIO");
        }
        machine.system = rdmascope_model::System::unread("EIO");
        machine.routing = rdmascope_model::Routing::unread("EIO");
        machine.pci = Reading::failed("EIO");
        machine.workloads = Reading::failed("EIO");
        let findings = crate::run(&Look::first(&machine, &Policy::default()));
        let keys: std::collections::BTreeSet<_> = findings.iter().map(|f| (&f.id, &f.subject)).collect();
        assert_eq!(keys.len(), findings.len(), "one check says one thing of one subject");
        for finding in findings.iter().filter(|f| f.status != Status::Ok) {
            assert_eq!(finding.status, Status::Unknown, "{finding:#?}");
            assert!(finding.summary.contains("EIO"), "{finding:#?}");
            assert!(!finding.cause.is_empty() && !finding.next_step.is_empty(), "{finding:#?}");
        }
    }
}
