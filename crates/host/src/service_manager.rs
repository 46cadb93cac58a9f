//! Tells the service manager (systemd) how a daemon does, over the socket that it names in `NOTIFY_SOCKET`; without one nobody is told.

use rdmascope_model::Mono;
use sd_notify::NotifyState;
use std::time::Duration;
use tracing::{error, info, warn};

/// What `systemctl status` shows is at most so old.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// The sign of life of a main loop. It must be given by the loop itself: from a thread of its own it would go on while the loop hangs.
///
/// The first one says that the daemon does its work (`READY=1`).
#[derive(Debug)]
pub struct Heartbeat {
    /// `None`: nobody listens.
    every: Option<Duration>,
    due: Mono,
    /// What was told last.
    status: Option<String>,
}

impl Heartbeat {
    /// As often as the environment asks for it: a third of `WATCHDOG_USEC`, five seconds at most.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a default that reads the environment would hide that it does"
    )]
    pub fn new() -> Self {
        let listens = std::env::var_os("NOTIFY_SOCKET").is_some();
        let wanted = sd_notify::watchdog_enabled().map_or(STATUS_EVERY, |limit| limit / 3);
        Self { every: listens.then(|| wanted.min(STATUS_EVERY)), due: Mono(0), status: None }
    }

    /// When the loop must wake for the next one; `None` when nobody listens.
    #[must_use]
    pub fn due(&self) -> Option<Mono> {
        self.every.map(|_| self.due)
    }

    /// Gives a sign if it is time; `status` is one line for a person.
    pub fn beat(&mut self, now: Mono, status: impl FnOnce() -> String) {
        let Some(every) = self.every.filter(|_| self.due <= now) else { return };
        self.due = now.after(every);
        let status = status();
        let mut states = vec![NotifyState::Watchdog];
        if self.status.is_none() {
            states.push(NotifyState::Ready);
        }
        if self.status.as_ref() != Some(&status) {
            states.push(NotifyState::Status(&status));
        }
        tell(&states);
        self.status = Some(status);
    }
}

/// The configuration is being read again; [`reloaded`] or [`refused`] must follow.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => warn!(%error, "the service manager is not told of the reload"),
    }
}

/// It is read, which the log says, too: what has changed, and which keys say now what applies only after a restart.
pub fn reloaded(changed: &str, restart: &[&str]) {
    info!(changed, "the configuration is read again");
    if !restart.is_empty() {
        warn!(keys = restart.join(", "), "what these keys say now applies only after a restart");
    }
    tell(&[NotifyState::Ready, NotifyState::Status("the configuration is read again")]);
}

/// It is not taken over, which the log says, too.
pub fn refused(why: &str) {
    error!(why, "the new configuration is refused; the old one stays");
    let status = "the new configuration is refused, see the log; the old one stays";
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The end has begun.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stops")]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "the service manager cannot be told how this daemon does; it may restart it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_as_often_as_somebody_waits_for_it_and_the_line_is_made_only_then() {
        let mut heart = Heartbeat { every: Some(Duration::from_secs(1)), due: Mono(0), status: None };
        let mut lines = Vec::new();
        for at in [0, 300_000_000, 999_999_999, 1_000_000_000, 2_500_000_000] {
            heart.beat(Mono(at), || {
                lines.push(at);
                "fine".to_owned()
            });
        }
        assert_eq!(lines, [0, 1_000_000_000, 2_500_000_000]);
        assert_eq!(heart.due(), Some(Mono(3_500_000_000)));

        let mut unheard = Heartbeat { every: None, due: Mono(0), status: None };
        unheard.beat(Mono(9), || unreachable!("nobody listens"));
        assert_eq!(unheard.due(), None);
    }
}
