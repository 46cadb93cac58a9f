//! Keeps a measuring thread on one processor for the length of its window: moving costs a cold cache, which
//! shows in the figures.

use rdmascope_model::Role;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The thread stays where it was put until this is dropped.
pub(super) struct Pinned {
    before: Option<CpuSet>,
}

impl Pinned {
    /// Pins the calling thread inside the set it may run on: a source to the last processor, a target to the
    /// one before, so that two ends on one machine do not share one. (The first ones serve the interrupts
    /// of most devices.)
    pub(super) fn new(role: Role) -> Self {
        let Ok(before) = sched_getaffinity(None) else { return Self { before: None } };
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| before.is_set(cpu)).collect();
        let Some(cpu) = choose(&allowed, role) else { return Self { before: None } };
        let mut one = CpuSet::new();
        one.set(cpu);
        let pinned = sched_setaffinity(None, &one).is_ok();
        Self { before: pinned.then_some(before) }
    }
}

fn choose(allowed: &[usize], role: Role) -> Option<usize> {
    match (allowed, role) {
        (_, Role::Source) | ([_], Role::Target) => allowed.last().copied(),
        ([.., before, _], Role::Target) => Some(*before),
        ([], Role::Target) => None,
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && let Err(error) = sched_setaffinity(None, before)
        {
            tracing::warn!(%error, "a probe's thread stays on one processor");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ends_on_one_machine_get_processors_of_their_own() {
        assert_eq!(choose(&[0, 2, 5], Role::Source), Some(5));
        assert_eq!(choose(&[0, 2, 5], Role::Target), Some(2));
        assert_eq!(choose(&[3], Role::Source), Some(3));
        assert_eq!(choose(&[3], Role::Target), Some(3));
        assert_eq!(choose(&[], Role::Target), None);
    }

    #[test]
    fn the_thread_may_run_where_it_could_before() {
        let before = sched_getaffinity(None).unwrap();
        let pinned = Pinned::new(Role::Source);
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        drop(pinned);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
