//! Lets go of devices that are being removed: the kernel waits for that, and drivers such as rxe tell it in
//! no other way than by removing the device's node.

use rdmascope_sys::{Context, ProtectionDomain, Verbs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Removal is to be noticed within a second, closing included.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// While a removed device is still in use: its loops stop within microseconds, and then it is to be closed at
/// once.
const CLOSE_EVERY: Duration = Duration::from_millis(10);

/// The library, and what endpoints hold open.
pub(crate) struct Registry {
    /// In words, why there is no library.
    pub(crate) verbs: Result<Verbs, String>,
    pub(crate) nodes: PathBuf,
    holds: Mutex<Vec<Weak<Hold>>>,
    /// Ends the keeper when it is dropped.
    _alive: SyncSender<()>,
}

/// One endpoint's device while it is open.
pub(crate) type Hold = Mutex<Option<Opened>>;

/// The handles that probes take; they keep the device open as long as any of them lives.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) context: Context,
    pub(crate) domain: ProtectionDomain,
    /// Set once the device is being removed: measuring loops look at it.
    pub(crate) gone: Arc<AtomicBool>,
}

/// An open device and who uses it.
pub(crate) struct Opened {
    pub(crate) shared: Shared,
    node: PathBuf,
    /// Device and inode numbers of the node: a device that is added again gets another one of the same name.
    identity: Option<(u64, u64)>,
    /// Each lets go of what one user has on the device; true while that is in use.
    users: Vec<Box<dyn Fn() -> bool + Send>>,
}

impl Opened {
    pub(crate) fn new(shared: Shared, node: PathBuf) -> Self {
        let identity = identity(&node);
        if identity.is_none() {
            tracing::warn!(node = %node.display(), "cannot see the device's node: its removal will not be noticed");
        }
        Self { shared, node, identity, users: Vec::new() }
    }

    /// `slot` is emptied when the device is removed.
    pub(crate) fn watch<T: Send + 'static>(&mut self, slot: &Arc<Mutex<Option<T>>>) {
        self.users.retain(|user| user());
        let slot = Arc::downgrade(slot);
        let gone = Arc::clone(&self.shared.gone);
        self.users.push(Box::new(move || {
            let Some(slot) = slot.upgrade() else { return false };
            if !gone.load(Ordering::Acquire) {
                return true;
            }
            // In use: a measuring loop sees `gone` within microseconds, a call into the kernel takes what it takes.
            let Ok(mut parts) = slot.try_lock() else { return true };
            *parts = None;
            false
        }));
    }

    /// Closes what can be closed of a removed device; true when nothing is left.
    fn let_go(&mut self) -> bool {
        self.shared.gone.store(true, Ordering::Release);
        self.users.retain(|user| user());
        self.users.is_empty()
    }
}

fn identity(node: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(node).ok().map(|found| (found.dev(), found.ino()))
}

impl Registry {
    pub(crate) fn new(library: Option<&Path>, nodes: &Path) -> Arc<Self> {
        let verbs = Verbs::open(library).map_err(|error| match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        });
        let (alive, ended) = sync_channel(0);
        let registry =
            Arc::new(Self { verbs, nodes: nodes.to_path_buf(), holds: Mutex::default(), _alive: alive });
        let watched = Arc::downgrade(&registry);
        let thread = std::thread::Builder::new().name("rdma keeper".to_owned());
        if let Err(error) = thread.spawn(move || keep(&watched, &ended)) {
            tracing::warn!(%error, "no thread to watch for removed devices: removing one will hang");
        }
        registry
    }

    /// A place for one endpoint's device.
    pub(crate) fn add(&self) -> Arc<Hold> {
        let hold = Arc::new(Hold::default());
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.retain(|hold| hold.strong_count() > 0);
        holds.push(Arc::downgrade(&hold));
        hold
    }

    /// True when a removed device could not be closed yet.
    fn look(&self) -> bool {
        let mut left = false;
        let holds: Vec<Weak<Hold>> = self.holds.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for hold in holds.iter().filter_map(Weak::upgrade) {
            // Locked: its endpoint is opening it; the next look is soon enough.
            let Ok(mut hold) = hold.try_lock() else { continue };
            let Some(opened) = &mut *hold else { continue };
            let removed = opened.identity.is_some() && identity(&opened.node) != opened.identity;
            let known = opened.shared.gone.load(Ordering::Acquire);
            if removed && !known {
                tracing::info!(
                    device = opened.shared.context.device(),
                    "the device is being removed: closing it"
                );
            }
            if removed || known {
                if opened.let_go() {
                    *hold = None;
                } else {
                    left = true;
                }
            }
        }
        left
    }
}

/// Looks until the registry is gone.
fn keep(registry: &Weak<Registry>, ended: &Receiver<()>) {
    let mut pause = LOOK_EVERY;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(pause) {
        let Some(registry) = registry.upgrade() else { return };
        pause = if registry.look() { CLOSE_EVERY } else { LOOK_EVERY };
    }
}
