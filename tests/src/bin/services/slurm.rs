//! A node of a real Slurm whose port loses its cable: who drains it, who does not, and who resumes it.

use super::slurm_daemons::{NODE, PATIENCE, Shown, Slurm};
use rdmascope_fixtures::FakeHost;
use rdmascope_tests::guest::{Program, wait_until};
use rdmascope_tests::loopback::{Cluster, free_address};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const LEADER: &str = "rdmascope: port-phys-state mlx5_0/1";

/// The node with its agent and its coordinator.
struct Bench {
    host: FakeHost,
    slurm: Slurm,
    socket: PathBuf,
    _agent: Program,
    cluster: Cluster,
}

/// Runs it; panics with what was seen where something is not as it should be.
pub(super) fn run() {
    let bench = Bench::start();
    bench.a_healthy_node();
    bench.a_pulled_cable();
    bench.a_repair();
    bench.a_reason_of_somebody_else();
    bench.no_coordinator();
    eprintln!("    all as it should be");
}

impl Bench {
    fn start() -> Self {
        let cluster = Cluster::start("slurm-coordinator", "  mesh: {pings_per_second: 1}\n", &[]);
        let host = FakeHost::mlx5(2);
        let socket = host.root().join("state/agent.sock");
        fs::create_dir(host.root().join("state")).expect("the agent's state folder");
        let mut agent = Command::new(std::env::current_exe().expect("this program"));
        agent.arg("machine").arg(host.root()).args([&cluster.address, &free_address(), "node-1"]);
        let agent = Program::start("agent", &mut agent, &cluster.folder.path("agent.log"));
        wait_until("the agent is connected, and its socket there", PATIENCE, || {
            let status = cluster.api().json("/api/v1/nodes")?;
            let there = status["nodes"][0]["connected"] == true && socket.exists();
            if there { Ok(()) } else { Err(status.to_string()) }
        });
        let slurm = Slurm::start(&socket);
        Self { host, slurm, socket, _agent: agent, cluster }
    }

    fn a_healthy_node(&self) {
        step("a healthy node: nothing is done, a job runs");
        self.wait_for_verdict("no hard local fault stands");
        self.slurm.more_checks(3);
        let (ran, said) = self.slurm.job();
        assert!(ran, "{said}");
        assert_eq!(self.slurm.calls(), [""; 0]);
    }

    fn a_pulled_cable(&self) {
        let slurm = &self.slurm;
        step("its cable is pulled: it is drained once, with our reason");
        self.host.pull_cable("mlx5_0");
        slurm.wait_for("drained by us", ours);
        slurm.more_checks(3);
        let calls = slurm.calls();
        assert_eq!(calls.len(), 2, "one look and one change: {calls:?}");
        assert!(calls[0].starts_with("show node") && calls[1].contains("state=drain"), "{calls:?}");

        step(
            "a person resumes it although the fault stands: the health check leaves it, the prolog keeps jobs off",
        );
        slurm.update(&["state=resume"]);
        slurm.more_checks(3);
        assert_eq!(slurm.calls().len(), 2, "{:?}", slurm.calls());
        let (ran, said) = slurm.job();
        assert!(!ran && said.contains("prolog failed"), "{said}");
        slurm.wait_for("drained by the prolog", ours);
    }

    fn a_repair(&self) {
        let slurm = &self.slurm;
        step("the cable is back: it stays drained until a person resumes it");
        repair(&self.host, "mlx5_0");
        self.wait_for_verdict("no hard local fault stands");
        slurm.more_checks(3);
        slurm.wait_for("still drained", ours);
        let said = slurm.rdmascope(&["slurm", "undrain", NODE]);
        assert!(said.contains("resumed"), "{said}");
        slurm.wait_for("resumed", |node| node.state == "IDLE");
    }

    fn a_reason_of_somebody_else(&self) {
        let slurm = &self.slurm;
        step("a person drains it, and the other cable is pulled: the person's reason stays");
        slurm.update(&["state=drain", "reason=Kim: firmware"]);
        self.host.pull_cable("mlx5_1");
        self.wait_for_health("the reason of somebody else (Kim: firmware)");
        slurm.more_checks(2);
        slurm.wait_for("as Kim left it", |node| node.reason.starts_with("Kim: firmware"));
        let said = slurm.rdmascope(&["slurm", "undrain", NODE]);
        assert!(said.contains("stays drained"), "{said}");
        repair(&self.host, "mlx5_1");
        self.wait_for_verdict("no hard local fault stands");
        slurm.more_checks(2);
        slurm.update(&["state=resume"]);
        slurm.wait_for("resumed", |node| node.state == "IDLE");
    }

    fn no_coordinator(&self) {
        step("the coordinator is gone, and a cable is pulled: nothing is drained, and jobs run");
        self.cluster.kill_coordinator();
        self.host.pull_cable("mlx5_0");
        self.wait_for_health("not drained: there is no connection to the coordinator");
        let (ran, said) = self.slurm.job();
        assert!(ran, "{said}");
        self.slurm.wait_for("not drained", |node| node.state == "IDLE" && node.reason.is_empty());
    }

    fn wait_for_health(&self, words: &str) {
        wait_until(&format!("the health check says: {words}"), PATIENCE, || {
            let said = self.slurm.health();
            if said.contains(words) { Ok(()) } else { Err(said) }
        });
    }

    fn wait_for_verdict(&self, words: &str) {
        let socket = self.socket.display().to_string();
        wait_until(&format!("the verdict: {words}"), PATIENCE, || {
            let said = self.slurm.rdmascope(&["slurm", "verdict", "--socket", &socket]);
            if said.contains(words) { Ok(()) } else { Err(said) }
        });
    }
}

fn ours(node: &Shown) -> bool {
    node.state.contains("DRAIN") && node.reason.starts_with(LEADER)
}

fn step(what: &str) {
    eprintln!("    {what}");
}

fn repair(host: &FakeHost, device: &str) {
    for (file, text) in [
        (host.port_file(device, "state"), "4: ACTIVE\n"),
        (host.port_file(device, "phys_state"), "5: LinkUp\n"),
        (host.netdev_file(device, "carrier"), "1\n"),
        (host.netdev_file(device, "operstate"), "up\n"),
    ] {
        host.folder().write(&file, text);
    }
}
