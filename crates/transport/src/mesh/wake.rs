//! Wakes the poller, which sleeps in epoll.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// An eventfd. Cloning shares it.
#[derive(Clone)]
pub(super) struct Wake(Arc<OwnedFd>);

impl Wake {
    pub(super) fn new() -> rustix::io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    pub(super) fn wake(&self) {
        // Full means that it is awake already.
        let _written = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Takes all wake-ups so far.
    pub(super) fn clear(&self) {
        let _read = rustix::io::read(&*self.0, &mut [0; 8]);
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
