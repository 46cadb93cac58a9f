//! Takes over what was read again: policy, manifest, kernel-log rules and token apply at once, everything else is named.

use crate::{Credentials, Loaded, http};
use rdmascope_checks::Policy;
use rdmascope_config::AgentConfig;
use rdmascope_host::service_manager;
use std::sync::Arc;
use tokio::sync::watch;

/// Those who are told of a change.
pub(crate) struct Reload {
    /// As it applies now.
    loaded: Loaded,
    policy: watch::Sender<Policy>,
    credentials: watch::Sender<Credentials>,
    shown: Arc<http::Shown>,
}

impl Reload {
    /// The receivers are for who judges the machine, and for who dials.
    pub(crate) fn new(
        loaded: Loaded,
        shown: Arc<http::Shown>,
    ) -> (Self, watch::Receiver<Policy>, watch::Receiver<Credentials>) {
        let (policy, judges) = watch::channel(loaded.policy.clone());
        let (credentials, dials) = watch::channel(loaded.credentials.clone());
        (Self { loaded, policy, credentials, shown }, judges, dials)
    }

    /// Takes it over, says so in the log, and tells the service manager that it is done.
    pub(crate) fn take(&mut self, new: Loaded) {
        // It still listens where it did, and as it did.
        let AgentConfig { listen, tls_dir, .. } = self.loaded.config.clone();
        let as_it_runs = AgentConfig { listen, tls_dir, ..new.config.clone() };
        if let Err(exposed) = as_it_runs.exposure() {
            return service_manager::refused(&exposed.to_string());
        }
        let restart = self.loaded.config.needs_restart(&new.config);
        let old = &self.loaded.policy;
        // These two belong to keys that need a restart: the readers of the machine go by them, too.
        let policy = Policy { devices: old.devices.clone(), workloads: old.workloads.clone(), ..new.policy };
        let all = [
            ("policy", old.limits != policy.limits),
            ("manifest", old.manifest != policy.manifest),
            ("kernel-log rules", old.rules != policy.rules),
            ("token", self.loaded.credentials.token != new.credentials.token),
        ];
        let changed: Vec<&str> = all.iter().filter(|(_, changed)| *changed).map(|(name, _)| *name).collect();
        if *old != policy {
            self.shown.policy(policy.clone());
            // Nobody listens where machines are not judged (TCP).
            let _ = self.policy.send(policy.clone());
            self.loaded.policy = policy;
        }
        let token = new.credentials.token;
        if self.loaded.credentials.token != token {
            // The connection that is there was admitted by the old one, and stays. Certificates are read again by themselves.
            self.credentials.send_modify(|shown| shown.token.clone_from(&token));
            self.loaded.credentials.token = token;
        }
        let changed = if changed.is_empty() { "nothing".to_owned() } else { changed.join(", ") };
        service_manager::reloaded(&changed, &restart);
    }
}
