//! One endpoint's open device: opened when it is first needed, let go when it is removed, found by address.

use super::Means;
use super::keeper::{Hold, Opened, Registry, Shared};
use super::trouble::Trouble;
use rdmascope_model::{Cause, Gid, Step};
use rdmascope_sys::{Context, GidKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What all verbs probes of an endpoint share.
pub struct Endpoint {
    registry: Arc<Registry>,
    hold: Arc<Hold>,
    pub(super) means: Means,
}

impl Endpoint {
    pub(crate) fn new(registry: Arc<Registry>, means: Means) -> Self {
        let hold = registry.add();
        Self { registry, hold, means }
    }

    /// The device, opened now or before.
    pub(crate) fn open(&self, name: &str) -> Result<Shared, Trouble> {
        let mut hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        if hold.as_ref().is_some_and(|opened| opened.shared.gone.load(Ordering::Acquire)) {
            // The keeper lets go of it; what is there under this name now is another one.
            *hold = None;
        }
        if let Some(opened) = &*hold {
            return Ok(opened.shared.clone());
        }
        let failed = |e| Trouble::verb(Step::Open, &e);
        let verbs = self
            .registry
            .verbs
            .as_ref()
            .map_err(|words| Trouble::new(Cause::VerbsMissing, Step::Open, words.clone()))?;
        let devices = verbs.devices().map_err(failed)?;
        let device = devices.into_iter().find(|device| device.name() == name).ok_or_else(|| {
            Trouble::new(Cause::DeviceGone, Step::Open, format!("there is no RDMA device {name}"))
        })?;
        let context = device.open().map_err(failed)?;
        let domain = context.alloc_protection_domain().map_err(failed)?;
        let shared = Shared { context, domain, gone: Arc::new(AtomicBool::new(false)) };
        let opened = hold.insert(Opened::new(shared, self.registry.nodes.join(device.uverbs_name())));
        Ok(opened.shared.clone())
    }

    /// Lets the keeper empty the slot when the device is removed.
    pub(crate) fn watch<T: Send + 'static>(&self, slot: &Arc<Mutex<Option<T>>>) {
        if let Some(opened) = &mut *self.hold.lock().unwrap_or_else(PoisonError::into_inner) {
            opened.watch(slot);
        }
    }

    /// A device that turned out to be gone is opened afresh for the next probe.
    pub(crate) fn failed(&self, trouble: Trouble) -> Trouble {
        if trouble.cause == Cause::DeviceGone
            && let Some(opened) = &*self.hold.lock().unwrap_or_else(PoisonError::into_inner)
        {
            opened.shared.gone.store(true, Ordering::Release);
        }
        trouble
    }
}

/// Finds the entry of `gid` for RoCE v2 in the port's table.
pub(crate) fn gid_index(
    context: &Context,
    name: &str,
    port: u8,
    gid: [u8; 16],
    step: Step,
) -> Result<u8, Trouble> {
    let table = context.gid_table().map_err(|e| Trouble::verb(step, &e))?.ok_or_else(|| {
        let words = "libibverbs is older than rdma-core 31 and cannot tell the kinds of GIDs";
        Trouble::new(Cause::VerbsMissing, step, words)
    })?;
    let found = table
        .iter()
        .find(|entry| entry.port == u32::from(port) && entry.gid == gid && entry.kind == GidKind::RoceV2);
    // Verbs address vectors have 8 bits for it.
    found.and_then(|entry| u8::try_from(entry.index).ok()).ok_or_else(|| {
        let there =
            table.iter().filter(|entry| entry.kind == GidKind::RoceV2 && entry.port == u32::from(port));
        let there: Vec<String> = there.map(|entry| Gid(entry.gid).to_string()).collect();
        let evidence = format!("{name} has no RoCE v2 GID {}; it has: {}", Gid(gid), there.join(", "));
        Trouble::new(Cause::NoUsableGid, step, evidence)
    })
}
