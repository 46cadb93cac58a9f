//! Real agents over machines of files, whose ports, settings and counters can be broken without touching this machine.

use rdmascope_fixtures::FakeHost;
use rdmascope_tests::guest::Program;
use rdmascope_tests::loopback::{Folder, free_address};
use rdmascope_tests::machine::KERNEL_LOG;
use std::process::Command;

/// Counters of adapters that the made-up machine lacks; all begin at 0.
const MORE_COUNTERS: [&str; 5] = [
    "hw_counters/rp_cnp_handled",
    "hw_counters/rp_cnp_ignored",
    "hw_counters/rx_icrc_encapsulated",
    "hw_counters/req_transport_retries_exceeded",
    "counters/port_rcv_remote_physical_errors",
];

/// A machine of two ports with its agent.
pub(super) struct Machine {
    _agent: Program,
    host: FakeHost,
    /// Where the agent's metrics are.
    pub(super) address: String,
}

impl Machine {
    pub(super) fn start(node: &str, coordinator: &str, folder: &Folder) -> Self {
        let (host, address) = (FakeHost::mlx5(2), free_address());
        for device in ["mlx5_0", "mlx5_1"] {
            for counter in MORE_COUNTERS {
                host.folder().write(&host.port_file(device, counter), "0\n");
            }
        }
        let own =
            std::env::current_exe().unwrap_or_else(|error| panic!("this program cannot be found: {error}"));
        let mut command = Command::new(own);
        command.arg("machine").arg(host.root()).args([coordinator, &address, node]);
        let agent = Program::start(node, &mut command, &folder.path(&format!("{node}.log")));
        Self { _agent: agent, host, address }
    }

    /// So many packets have come by now.
    pub(super) fn receive(&self, packets: u64) {
        let file = self.host.port_file("mlx5_0", "counters/port_rcv_packets");
        self.host.folder().write(&file, &format!("{}\n", 317_548_853_677 + packets));
    }

    /// One port loses its cable, the other one is congested, drops and has a bad cable; the kernel tells of a fault.
    pub(super) fn break_it(&self) {
        self.host.pull_cable("mlx5_1");
        for (counter, value) in [
            ("counters/symbol_error", "4000"),
            ("counters/port_xmit_discards", "70000"),
            ("hw_counters/rp_cnp_ignored", "9000"),
            ("hw_counters/packet_seq_err", "90000"),
        ] {
            self.host.folder().write(&self.host.port_file("mlx5_0", counter), &format!("{value}\n"));
        }
        let log = self.host.root().join(KERNEL_LOG);
        let before = std::fs::read_to_string(&log).unwrap_or_default();
        let line = "[  900.000001] mlx5_core 0000:3b:00.0: mlx5_health_check_fatal_sensors:423:(pid 0): Fatal error 1 detected";
        self.host.folder().write(KERNEL_LOG, &format!("{before}{line}\n"));
    }
}
