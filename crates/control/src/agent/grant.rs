//! The mesh grant: which peers an endpoint may ping without being asked each time, and how often.
//!
//! A latency probe under the grant spends one ping for each of its samples. The allowance of each endpoint fills at the
//! grant's rate, up to what one probe may cost, so that a coordinator that asks too fast is refused, not obeyed.

use rdmascope_model::{EndpointName, Mono, Peer, ProbePlan, ProbeSpec};
use rdmascope_probe::limits::{LATENCY_SAMPLES_MAX, MESH_PINGS_PER_SECOND_MAX};
use std::collections::{BTreeMap, BTreeSet};

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// The agent's view of its grant.
#[derive(Debug, Default)]
pub(super) struct Mesh {
    book: Book,
    permission: Option<Permission>,
    /// When each endpoint's allowance was last worked out, and what it was, in pings times [`SECOND`].
    allowance: BTreeMap<EndpointName, (Mono, u64)>,
}

#[derive(Debug, Default)]
struct Book {
    generation: u64,
    total: u32,
    peers: BTreeSet<EndpointName>,
}

#[derive(Debug)]
struct Permission {
    generation: u64,
    until: Mono,
    pings_per_second: u32,
}

impl Mesh {
    /// Takes a part of the address book; a newer generation replaces what is there.
    pub(super) fn book(&mut self, generation: u64, total: u32, peers: Vec<Peer>) {
        if generation < self.book.generation {
            return;
        }
        if generation > self.book.generation {
            self.book = Book { generation, total, peers: BTreeSet::new() };
        }
        self.book.peers.extend(peers.into_iter().map(|peer| peer.name));
    }

    /// Takes a grant; a rate above the built-in limit is obeyed at the limit.
    pub(super) fn grant(&mut self, generation: u64, until: Mono, pings_per_second: u32) {
        let pings_per_second = pings_per_second.min(MESH_PINGS_PER_SECOND_MAX);
        self.permission = Some(Permission { generation, until, pings_per_second });
    }

    /// A newer coordinator begins anew, but not with a full allowance: one that restarts in a loop must not exceed the rate.
    pub(super) fn forget_grant(&mut self) {
        self.book = Book::default();
        self.permission = None;
    }

    /// Takes what a probe costs from its endpoint's allowance.
    ///
    /// # Errors
    /// Why the grant does not allow it, in words.
    pub(super) fn spend(&mut self, plan: &ProbePlan, now: Mono) -> Result<(), String> {
        let ProbeSpec::Latency(spec) = plan.spec else {
            return Err("a mesh grant is for latency only".to_owned());
        };
        let permission = self.permission.as_ref().filter(|p| p.until > now);
        let permission = permission.ok_or("no valid mesh grant")?;
        if self.book.generation != permission.generation || self.book.total as usize != self.book.peers.len()
        {
            return Err("the address book of the mesh grant has not arrived".to_owned());
        }
        if !self.book.peers.contains(&plan.peer) {
            return Err(format!("{} is not in the address book of the mesh grant", plan.peer));
        }
        let full = u64::from(LATENCY_SAMPLES_MAX) * SECOND;
        let (since, had) = self.allowance.get(&plan.local).copied().unwrap_or((now, full));
        let gained = now.0.saturating_sub(since.0).saturating_mul(permission.pings_per_second.into());
        let has = had.saturating_add(gained).min(full);
        let cost = (u64::from(spec.samples) + u64::from(spec.warmup)) * SECOND;
        let left = has.checked_sub(cost).ok_or("the mesh grant's rate is used up")?;
        self.allowance.insert(plan.local.clone(), (now, left));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_model::{LatencySpec, LeaseId, Manner, Role, Urgency};
    use std::time::Duration;

    fn plan(samples: u32) -> ProbePlan {
        ProbePlan {
            lease: LeaseId(1),
            role: Role::Source,
            local: "a/d/1".parse().unwrap(),
            peer: "b/d/1".parse().unwrap(),
            spec: ProbeSpec::Latency(LatencySpec { samples, warmup: 0, message_bytes: 8 }),
            manner: Manner::default(),
            urgency: Urgency::Background,
            expires_in: Duration::from_secs(5),
        }
    }

    fn granted(pings_per_second: u32) -> Mesh {
        let mut mesh = Mesh::default();
        mesh.book(1, 1, vec![Peer { name: "b/d/1".parse().unwrap(), address: None }]);
        mesh.grant(1, Mono(100 * SECOND), pings_per_second);
        mesh
    }

    #[test]
    fn without_a_valid_grant_nothing_runs() {
        assert!(Mesh::default().spend(&plan(10), Mono(0)).is_err());
        let mut mesh = granted(10);
        assert_eq!(mesh.spend(&plan(10), Mono(99 * SECOND)), Ok(()));
        assert!(mesh.spend(&plan(10), Mono(100 * SECOND)).is_err(), "the grant has run out");
        let mut elsewhere = plan(10);
        elsewhere.peer = "c/d/1".parse().unwrap();
        assert!(mesh.spend(&elsewhere, Mono(0)).is_err(), "the peer is not in the book");
        mesh.grant(2, Mono(200 * SECOND), 10);
        assert!(mesh.spend(&plan(10), Mono(0)).is_err(), "the book of the new grant is missing");
    }

    #[test]
    fn a_coordinator_that_asks_too_fast_is_refused_until_the_rate_allows_it() {
        let mut mesh = granted(10);
        assert_eq!(mesh.spend(&plan(LATENCY_SAMPLES_MAX), Mono(0)), Ok(()));
        assert!(mesh.spend(&plan(100), Mono(9 * SECOND)).is_err(), "9 s at 10 pings a second are 90");
        assert_eq!(mesh.spend(&plan(100), Mono(10 * SECOND)), Ok(()));
    }

    #[test]
    fn no_grant_lifts_the_built_in_rate() {
        let mut mesh = granted(1_000_000);
        assert_eq!(mesh.spend(&plan(LATENCY_SAMPLES_MAX), Mono(0)), Ok(()));
        assert!(mesh.spend(&plan(MESH_PINGS_PER_SECOND_MAX + 1), Mono(SECOND)).is_err());
        assert_eq!(mesh.spend(&plan(MESH_PINGS_PER_SECOND_MAX), Mono(SECOND)), Ok(()));
    }
}
