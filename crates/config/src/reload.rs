//! Which keys a daemon cannot take over while it runs: it names them instead of ignoring a change.

use crate::settings::{AgentConfig, CoordinatorConfig};

// Without `..` below: whoever adds a key decides here what a reload does with it.

impl AgentConfig {
    /// The keys that differ in `new` and apply only after a restart. What the files of `token_file` and `log_rules` say is read again,
    /// and so may be their names.
    #[must_use]
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        let Self {
            coordinator,
            token_file: _,
            tls_dir,
            node_name,
            devices,
            transport,
            listen,
            state_dir,
            // It only says whether `listen` may be what it is.
            insecure: _,
            workloads,
            kernel_log,
            log_rules: _,
        } = self;
        differing(&[
            ("agent.coordinator", *coordinator == new.coordinator),
            ("agent.tls_dir", *tls_dir == new.tls_dir),
            ("agent.node_name", *node_name == new.node_name),
            ("agent.devices", *devices == new.devices),
            ("agent.transport", *transport == new.transport),
            ("agent.listen", *listen == new.listen),
            ("agent.state_dir", *state_dir == new.state_dir),
            ("agent.workloads", *workloads == new.workloads),
            ("agent.kernel_log", *kernel_log == new.kernel_log),
        ])
    }
}

impl CoordinatorConfig {
    /// The keys that differ in `new` and apply only after a restart. What the files of `token_file` and `read_token_file` say is
    /// read again, and so may be their names.
    #[must_use]
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        let Self {
            listen,
            token_file: _,
            read_token_file: _,
            tls_dir,
            insecure: _,
            state_dir,
            services,
            topology_file,
            rails_routed,
            maintenance_file,
            streams_per_leaf,
            streams_per_node,
            mesh,
            sweep,
            metrics,
        } = self;
        differing(&[
            ("coordinator.listen", *listen == new.listen),
            ("coordinator.tls_dir", *tls_dir == new.tls_dir),
            ("coordinator.state_dir", *state_dir == new.state_dir),
            ("coordinator.services", *services == new.services),
            ("coordinator.topology_file", *topology_file == new.topology_file),
            ("coordinator.rails_routed", *rails_routed == new.rails_routed),
            ("coordinator.maintenance_file", *maintenance_file == new.maintenance_file),
            ("coordinator.streams_per_leaf", *streams_per_leaf == new.streams_per_leaf),
            ("coordinator.streams_per_node", *streams_per_node == new.streams_per_node),
            ("coordinator.mesh", *mesh == new.mesh),
            ("coordinator.sweep", *sweep == new.sweep),
            ("coordinator.metrics", *metrics == new.metrics),
        ])
    }
}

fn differing(keys: &[(&'static str, bool)]) -> Vec<&'static str> {
    keys.iter().filter(|(_, same)| !same).map(|(key, _)| *key).collect()
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::keys::{KEYS, SECTIONS};

    #[test]
    fn what_changed_is_named_unless_it_can_be_taken_over() {
        let old = Config::default();
        let mut new = old.clone();
        new.agent.token_file = Some("/etc/rdmascope/other".into());
        new.agent.log_rules = Some("/etc/rdmascope/rules.d".into());
        new.coordinator.token_file = Some("/etc/rdmascope/other".into());
        assert_eq!(old.agent.needs_restart(&new.agent), [""; 0]);
        assert_eq!(old.coordinator.needs_restart(&new.coordinator), [""; 0]);
        new.agent.devices = vec!["mlx5_0".to_owned()];
        new.agent.listen = "127.0.0.1:1".parse().ok();
        new.coordinator.sweep.pairs_at_once += 1;
        let named = old.agent.needs_restart(&new.agent);
        assert_eq!(named, ["agent.devices", "agent.listen"]);
        assert_eq!(old.coordinator.needs_restart(&new.coordinator), ["coordinator.sweep"]);
        let known = |name: &&str| {
            KEYS.iter().any(|key| key.path == *name) || SECTIONS.iter().any(|(path, _)| path == name)
        };
        assert!(named.iter().chain(&["coordinator.sweep"]).all(known));
    }
}
