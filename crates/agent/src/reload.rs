//! Takes over what was read again: policy, manifest, kernel-log rules and token apply at once, everything else is named.

use crate::{Loaded, http};
use rdmascope_checks::Policy;
use rdmascope_config::{AgentConfig, Token};
use rdmascope_host::service_manager;
use std::sync::Arc;
use tokio::sync::watch;
use tracing::{error, info, warn};

/// Those who are told of a change.
pub(crate) struct Reload {
    /// As it applies now.
    loaded: Loaded,
    policy: watch::Sender<Policy>,
    token: watch::Sender<Option<Token>>,
    shown: Arc<http::Shown>,
}

impl Reload {
    /// The receivers are for who judges the machine, and for who dials.
    pub(crate) fn new(
        loaded: Loaded,
        shown: Arc<http::Shown>,
    ) -> (Self, watch::Receiver<Policy>, watch::Receiver<Option<Token>>) {
        let (policy, judges) = watch::channel(loaded.policy.clone());
        let (token, dials) = watch::channel(loaded.token.clone());
        (Self { loaded, policy, token, shown }, judges, dials)
    }

    /// Takes it over, says so in the log, and tells the service manager that it is done.
    pub(crate) fn take(&mut self, new: Loaded) {
        // It still listens where it did.
        let as_it_runs = AgentConfig { listen: self.loaded.config.listen, ..new.config.clone() };
        if let Err(exposed) = as_it_runs.exposure() {
            error!(%exposed, "the new configuration is refused; the old one stays");
            service_manager::reloaded("the new configuration is refused, see the log; the old one stays");
            return;
        }
        let restart = self.loaded.config.needs_restart(&new.config);
        let old = &self.loaded.policy;
        // These two belong to keys that need a restart: the readers of the machine go by them, too.
        let policy = Policy { devices: old.devices.clone(), workloads: old.workloads.clone(), ..new.policy };
        let all = [
            ("policy", old.limits != policy.limits),
            ("manifest", old.manifest != policy.manifest),
            ("kernel-log rules", old.rules != policy.rules),
            ("token", self.loaded.token != new.token),
        ];
        let changed: Vec<&str> = all.iter().filter(|(_, changed)| *changed).map(|(name, _)| *name).collect();
        if *old != policy {
            self.shown.rules(policy.rules.clone());
            // Nobody listens where machines are not judged (TCP).
            let _ = self.policy.send(policy.clone());
            self.loaded.policy = policy;
        }
        if self.loaded.token != new.token {
            // The connection that is there was admitted by the old one, and stays.
            let _ = self.token.send(new.token.clone());
            self.loaded.token = new.token;
        }
        let changed = if changed.is_empty() { "nothing".to_owned() } else { changed.join(", ") };
        info!(changed, "the configuration is read again");
        if !restart.is_empty() {
            warn!(keys = restart.join(", "), "what these keys say now applies only after a restart");
        }
        service_manager::reloaded("the configuration is read again");
    }
}
