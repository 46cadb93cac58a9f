//! Takes over what was read again: the tokens apply at once, everything else is named.

use crate::Loaded;
use crate::hub::Hub;
use rdmascope_config::CoordinatorConfig;
use rdmascope_host::service_manager;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Takes over what comes, says so in the log, and tells the service manager that it is done; `running` is what it started with.
pub(crate) async fn take_all(hub: Arc<Hub>, running: Loaded, mut reloads: mpsc::Receiver<Loaded>) {
    while let Some(new) = reloads.recv().await {
        // It still listens where and as it did: a token is not taken from an open port because the file now names a closed one.
        let CoordinatorConfig { listen, tls_dir, .. } = running.config.clone();
        let as_it_runs = CoordinatorConfig { listen, tls_dir, ..new.config.clone() };
        if let Err(exposed) = as_it_runs.exposure() {
            service_manager::refused(&exposed.to_string());
            continue;
        }
        // Agents that are connected were admitted by the old one, and stay.
        let changed = if hub.change_tokens(&new.access) { "tokens" } else { "nothing" };
        service_manager::reloaded(changed, &running.config.needs_restart(&new.config));
    }
}
