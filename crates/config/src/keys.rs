//! Every key of the config file, once: its form, its default and why, in the words of the reference.

/// Port that the shipped examples give to the agent's own `/metrics` and `/healthz`.
///
/// Outside 9100 to 9999, where the Prometheus exporters live, below 32768, where Linux takes ports for outgoing
/// connections and Kubernetes for nodes (30000), and not registered with IANA.
pub const AGENT_PORT: u16 = 19_810;

/// One key.
pub(crate) struct Key {
    /// With its sections, such as `coordinator.sweep.pause`.
    pub(crate) path: &'static str,
    /// What may stand there.
    pub(crate) form: &'static str,
    /// YAML text that applies when the key is not given.
    pub(crate) default: Option<&'static str>,
    /// YAML text that shows the key in use where there is no default.
    pub(crate) example: &'static str,
    /// What it does, and why the default is what it is. One paragraph.
    pub(crate) doc: &'static str,
}

/// The sections, with what each is for.
pub(crate) const SECTIONS: [(&str, &str); 6] = [
    ("agent", "Read by `rdmascope agent`, on every node."),
    ("coordinator", "Read by `rdmascope coordinator`, which runs once."),
    ("coordinator.mesh", "The pings that are always on."),
    ("coordinator.sweep", "The sweeps that go over all pairs, again and again."),
    ("coordinator.metrics", "What Prometheus gets."),
    ("log", "Read by both."),
];

/// The keys, in the order of the reference; keys of one section stand together, after those of its parent.
pub(crate) const KEYS: [Key; 33] = [
    Key {
        path: "agent.coordinator",
        form: "HOST:PORT",
        default: None,
        example: "rdmascope.example.net:8080",
        doc: "Where the coordinator listens. No default: give it here or with --coordinator.",
    },
    Key {
        path: "agent.token_file",
        form: "absolute path",
        default: None,
        example: "/etc/rdmascope/token",
        doc: "File with the token that the coordinator asks for, the same on all nodes; mode 0640 or tighter. \
              No default: without one, only a coordinator without a token lets the agent in.",
    },
    Key {
        path: "agent.tls_dir",
        form: "absolute path",
        default: None,
        example: "/etc/rdmascope/tls",
        doc: "Folder of this node's certificate (ca.crt, tls.crt, tls.key), as `rdmascope tls init` makes one for each node: the \
              coordinator is called by TLS and must have a certificate of this CA, and so must whoever reads the port of `listen`, unless \
              the token is shown. New files are read within a minute. No default: plain text, where the coordinator speaks it.",
    },
    Key {
        path: "agent.node_name",
        form: "name",
        default: None,
        example: "node-17",
        doc: "What this node is called in the matrix. Default: the host name, which people know it by. Set it where \
              several agents share a machine.",
    },
    Key {
        path: "agent.devices",
        form: "list of RDMA device names",
        default: None,
        example: "[mlx5_0, mlx5_1]",
        doc: "The devices to watch and probe. Default: all, so that a new card is not overlooked. Name them to leave \
              out a storage or management card.",
    },
    Key {
        path: "agent.transport",
        form: "verbs | tcp",
        default: Some("verbs"),
        example: "",
        doc: "What carries the probes. Default: verbs, for RDMA is what is to be judged. tcp is for trying things \
              out on machines without RDMA; its numbers say nothing about RDMA.",
    },
    Key {
        path: "agent.listen",
        form: "ADDRESS:PORT",
        default: None,
        example: "127.0.0.1:19810",
        doc: "The agent's own /metrics and /healthz, which work when the coordinator does not. No default, because \
              several agents may share a machine; the example configurations and the Kubernetes manifest set it. Port 19810 lies outside the \
              exporters' crowded 9100 to 9999 and below the ports that Linux hands out.",
    },
    Key {
        path: "agent.state_dir",
        form: "absolute path",
        default: Some("/run/rdmascope"),
        example: "",
        doc: "Folder of the pause file: while a file named `pause` is in it, this agent starts no probe, with or \
              without a coordinator; and of its local socket, `agent.sock`, by which schedulers ask (`rdmascope slurm`). Default: below /run, for a reboot is a fresh start.",
    },
    Key {
        path: "agent.insecure",
        form: "true | false",
        default: Some("false"),
        example: "",
        doc: "Lets `listen` be an address that other machines can reach although there is neither token_file nor tls_dir. Default: \
              false, so that nobody opens a port by accident.",
    },
    Key {
        path: "agent.workloads",
        form: "list of process names; * stands for any letters",
        default: None,
        example: "[python3, \"nccl*\"]",
        doc: "Processes that should use RDMA: one that holds no queue pair has fallen back to TCP and is a finding. \
              Default: none; processes that hold queue pairs are looked at all the same.",
    },
    Key {
        path: "agent.kernel_log",
        form: "absolute path",
        default: None,
        example: "/var/log/kern.log",
        doc: "File with the kernel's messages, followed where /dev/kmsg is not given to the agent. Default: \
              /dev/kmsg, which loses nothing to rate limits and cannot be forged by other programs.",
    },
    Key {
        path: "agent.log_rules",
        form: "absolute path",
        default: None,
        example: "/etc/rdmascope/rules.d",
        doc: "Folder with kernel-log rules of your own (*.yaml, in the form of crates/checks/rules). Default: only \
              the rules that come with the program.",
    },
    Key {
        path: "coordinator.listen",
        form: "ADDRESS:PORT",
        default: Some("127.0.0.1:8080"),
        example: "",
        doc: "Agents, web page, API and /metrics, all on this port. Default: this machine only, until there is a \
              token_file or a tls_dir.",
    },
    Key {
        path: "coordinator.token_file",
        form: "absolute path",
        default: None,
        example: "/etc/rdmascope/token",
        doc: "File with the token that agents and writing API calls must show; mode 0640 or tighter. Reading needs \
              none, unless read_token_file is set. No default: a token that everybody knows is worse than none.",
    },
    Key {
        path: "coordinator.read_token_file",
        form: "absolute path",
        default: None,
        example: "/etc/rdmascope/read-token",
        doc: "File with a second token, which lets whoever shows it look and nothing else. With it, everything but /healthz and /readyz \
              wants one of the two tokens or an operator's or reader's certificate; browsers ask for it as a password. Default: whoever \
              reaches the port may look.",
    },
    Key {
        path: "coordinator.tls_dir",
        form: "absolute path",
        default: None,
        example: "/etc/rdmascope/tls",
        doc: "Folder of the coordinator's certificate (ca.crt, tls.crt, tls.key; made by `rdmascope tls init`): the port speaks TLS and \
              nothing else. A certificate of ca.crt counts in place of the token: a node's for the agent of that node, an operator's for \
              calls that write. New files are read within a minute. No default: plain text.",
    },
    Key {
        path: "coordinator.insecure",
        form: "true | false",
        default: Some("false"),
        example: "",
        doc: "Lets `listen` be an address that other machines can reach although there is neither token_file nor tls_dir: anybody \
              who reaches it can then start probes. Default: false.",
    },
    Key {
        path: "coordinator.state_dir",
        form: "absolute path",
        default: None,
        example: "/var/lib/rdmascope",
        doc: "Folder that keeps the matrix, the history of pairs (a day), the events (30 days, 100,000 at most), acknowledgements \
              and maintenances over a restart. Default: none is kept; after a restart the agents send what they remember, and the next sweep does the rest.",
    },
    Key {
        path: "coordinator.services",
        form: "services by their names, each with device, class and peers",
        default: None,
        example: "{embed: {device: mlx5_0, class: 26, peers: [node1, node2]}}",
        doc: "Services that `rdmascope probe NODE --service NAME` probes as they use the network: over this device (default: \
              the only one of each node), in this class (a DSCP or its name such as af31; a service level on InfiniBand; \
              default: 0), to these nodes. Default: none.",
    },
    Key {
        path: "coordinator.topology_file",
        form: "absolute path",
        default: None,
        example: "/etc/slurm/topology.conf",
        doc: "File that says where nodes hang: lines NODE,LEAF or NODE,LEAF,POD,RAIL, with NODE/DEVICE in place of NODE where the \
              adapters of a node hang on different leaves; or Slurm's topology.conf, whose upper switches stand for pods. What a \
              switch itself says by LLDP goes before it. Default: none; leaves are then known where switches tell them, and pods are not.",
    },
    Key {
        path: "coordinator.rails_routed",
        form: "true | false",
        default: Some("true"),
        example: "",
        doc: "Whether packets get from one rail to another. With false, pairs of two rails are never probed and count as excluded. \
              Default: true; such pairs are probed more seldom than those of one rail.",
    },
    Key {
        path: "coordinator.maintenance_file",
        form: "absolute path",
        default: None,
        example: "/run/rdmascope/nodes",
        doc: "File with a line NODE STATE [REASON] for each node, as a cron job of yours writes it from \
              sinfo -N -h -o '%N %T %E' or kubectl get nodes: nodes that Slurm drains or maintains, or Kubernetes has cordoned, are \
              left out of sweeps and silenced. It is read again when it changes. Default: none; `rdmascope maintenance` does the same \
              by hand.",
    },
    Key {
        path: "coordinator.streams_per_leaf",
        form: "1 to 64",
        default: Some("4"),
        example: "",
        doc: "Bandwidth probes that may cross the uplinks of one leaf at the same time, on drained nodes too: the jobs of \
              other nodes share them. Default: four, half of the uplinks of a small leaf.",
    },
    Key {
        path: "coordinator.streams_per_node",
        form: "1 to 16",
        default: Some("2"),
        example: "",
        doc: "Bandwidth probes that one node may carry at the same time. Default: two, which were seen not to slow each other on two \
              cores; a node with eight adapters of 400 Gb/s carries eight.",
    },
    Key {
        path: "coordinator.mesh.pings_per_second",
        form: "1 to 10",
        default: Some("10"),
        example: "",
        doc: "Pings per second and endpoint. Default and upper limit: 10, which no job notices; the limit is in the \
              code and no config lifts it.",
    },
    Key {
        path: "coordinator.mesh.labels",
        form: "1 to 256",
        default: Some("16"),
        example: "",
        doc: "Path labels that the pings of each pair rotate through, so that each of several equal paths carries some of them. \
              Default: 16, which meet each of 4 paths with a probability of 0.96; 8 paths want 32 (0.89) or 64 (0.998). \
              With 1 all pings of a pair take one path.",
    },
    Key {
        path: "coordinator.sweep.coverage",
        form: "duration, 1s to 24h",
        default: Some("120s"),
        example: "",
        doc: "Time in which pings and sweeps are to cover all pairs, as far as the rate allows. A cell counts as stale after three times this time \
              (60 s at least). Default: two minutes, so that a fault shows before most jobs time out on it.",
    },
    Key {
        path: "coordinator.sweep.pause",
        form: "duration, 0s to 1h",
        default: Some("10s"),
        example: "",
        doc: "Rest between two sweeps. Default: ten seconds, so that a small cluster is not probed without end.",
    },
    Key {
        path: "coordinator.sweep.pairs_at_once",
        form: "1 to 2048",
        default: Some("1024"),
        example: "",
        doc: "Pairs that a sweep probes at the same time, at most. Default: 1024, every endpoint of 2,048.",
    },
    Key {
        path: "coordinator.sweep.gigabytes_max",
        form: "1 to 1000000000",
        default: Some("2000000"),
        example: "",
        doc: "Gigabytes that one sweep may send. One that would send more is refused, and one that has sent them ends there. Default: \
              two petabytes, with which all pairs of one rail of 1,024 endpoints at 400 Gb/s are measured once.",
    },
    Key {
        path: "coordinator.metrics.pairs_max",
        form: "0 to 100000",
        default: Some("10000"),
        example: "",
        doc: "Up to so many ordered pairs, /metrics/pairs has series for each; above, for the bad ones and for \
              groups. Default: 10000 (100 endpoints), which costs Prometheus about 74 MB; 1,000,000 took it 3.3 GB.",
    },
    Key {
        path: "log.level",
        form: "error | warn | info | debug | trace",
        default: Some("info"),
        example: "",
        doc: "Default: info, which is silent while nothing changes.",
    },
    Key {
        path: "log.format",
        form: "text | json",
        default: Some("text"),
        example: "",
        doc: "Default: text, for people; json for log collectors.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_lives_in_a_named_section_and_says_enough() {
        for key in &KEYS {
            let (section, _) = key.path.rsplit_once('.').expect("a section");
            assert!(SECTIONS.iter().any(|(path, _)| *path == section), "{}: no section {section}", key.path);
            assert_eq!(
                key.default.is_some(),
                key.example.is_empty(),
                "{}: a default or an example",
                key.path
            );
            assert!(key.doc.contains("efault"), "{}: does not speak of its default", key.path);
        }
    }

    #[test]
    fn the_example_port_of_the_agent_is_the_documented_one() {
        let key = KEYS.iter().find(|key| key.path == "agent.listen").expect("agent.listen");
        assert!(
            key.example.ends_with(&format!(":{AGENT_PORT}")) && key.doc.contains(&AGENT_PORT.to_string())
        );
    }
}
