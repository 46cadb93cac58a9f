//! Real agents over machines of files, whose ports, settings and counters can be broken without touching this machine.

use super::cluster::{Folder, free_address};
use rdmascope_config::{AgentConfig, Config};
use rdmascope_fixtures::FakeHost;
use rdmascope_host::Host;
use rdmascope_tests::guest::Program;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Counters of adapters that the made-up machine lacks; all begin at 0.
const MORE_COUNTERS: [&str; 5] = [
    "hw_counters/rp_cnp_handled",
    "hw_counters/rp_cnp_ignored",
    "hw_counters/rx_icrc_encapsulated",
    "hw_counters/req_transport_retries_exceeded",
    "counters/port_rcv_remote_physical_errors",
];
const KERNEL_LOG: &str = "rdmascope/kernel-log";

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

/// The agent itself, in a process of its own, until it is ended.
pub(super) fn watch(root: &Path, coordinator: &str, listen: &str, node: &str) -> ExitCode {
    let config = AgentConfig {
        coordinator: coordinator.parse().ok(),
        node_name: Some(node.to_owned()),
        listen: listen.parse().ok(),
        state_dir: root.join("state"),
        kernel_log: Some(root.join(KERNEL_LOG)),
        ..Config::default().agent
    };
    let host = Host::new(root.to_owned()).unwrap_or_else(|error| panic!("{error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let ran = rdmascope_agent::run_on(host, &config, Config::default().policy, std::future::pending());
    runtime.block_on(ran).unwrap_or_else(|error| panic!("{error}"));
    ExitCode::SUCCESS
}
