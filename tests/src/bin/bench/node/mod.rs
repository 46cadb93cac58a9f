//! What looking at a node costs: processor time and questions to the kernel of each tier, a whole agent, the kernel-log rules.

mod agent;
mod rules;
mod tiers;

use super::row::Row;
use rdmascope_fixtures::FakeHost;
use std::process::ExitCode;

/// Ports of the machine.
const PORTS: usize = 8;
/// Slots of a GID table of a ConnectX-7.
const GID_SLOTS: usize = 256;
/// Further names of `hw_counters` of a ConnectX-7 with kernel 6.1 (`drivers/infiniband/hw/mlx5/counters.c`), for their number.
const HW_COUNTERS: [&str; 24] = [
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "req_transport_retries_exceeded",
    "req_rnr_retries_exceeded",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_atomic_requests",
    "rx_dct_connect",
    "rx_icrc_encapsulated",
    "rx_read_requests",
    "unicast_xmit_packets",
    "unicast_rcv_packets",
    "multicast_xmit_packets",
    "multicast_rcv_packets",
];

pub(crate) fn rows(mut print: impl FnMut(Vec<Row>)) {
    let machine = machine();
    print(tiers::rows(&machine));
    print(rules::rows());
    print(agent::rows(&machine));
}

/// Runs one part alone, for the process that measures it: `node-agent FOLDER` or `node-rules`. `None`: the words are others.
pub(crate) fn alone(words: &[String]) -> Option<ExitCode> {
    match words {
        [_, part, root] if part == agent::PART => Some(agent::alone(root)),
        [_, part] if part == rules::PART => Some(rules::alone()),
        _ => None,
    }
}

/// A complete machine, with tables as long as those of real adapters.
fn machine() -> FakeHost {
    let machine = FakeHost::mlx5(PORTS);
    for i in 0..PORTS {
        let device = format!("mlx5_{i}");
        let write = |file: &str, text: &str| {
            machine.folder().write(&machine.port_file(&device, file), &format!("{text}\n"));
        };
        for slot in 16..GID_SLOTS {
            write(&format!("gids/{slot}"), "0000:0000:0000:0000:0000:0000:0000:0000");
        }
        for slot in 1..128 {
            write(&format!("pkeys/{slot}"), "0x0000");
        }
        for name in HW_COUNTERS {
            write(&format!("hw_counters/{name}"), "0");
        }
    }
    machine
}
