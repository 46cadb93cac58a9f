//! The mesh grant: which peers an endpoint may ping without being asked each time, and how often.
//!
//! A latency probe under the grant spends one ping for each of its samples. The allowance of each endpoint fills at the
//! grant's rate, up to what one probe may cost, so that a coordinator that asks too fast is refused, not obeyed.

use rdmascope_model::{DatagramAddress, EndpointName, Mono, Peer, ProbePlan, ProbeSpec};
use rdmascope_probe::limits::{LATENCY_SAMPLES_MAX, MESH_PINGS_PER_SECOND_MAX};
use rdmascope_probe::mesh::MeshGrant;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// The agent's view of its grant.
#[derive(Clone, Debug, Default)]
pub(super) struct Mesh {
    book: Book,
    permission: Option<Permission>,
    /// When each endpoint's allowance was last worked out, and what it was, in pings times [`SECOND`].
    allowance: BTreeMap<EndpointName, (Mono, u64)>,
}

#[derive(Clone, Debug, Default)]
struct Book {
    /// 0 while nothing of it has arrived on this connection.
    generation: u64,
    /// The generation that was changed into this one; 0 when it came as a whole.
    base: u64,
    total: u32,
    peers: BTreeMap<EndpointName, Entry>,
}

/// What the book has of a peer: where its datagrams go, its rail, and the coordinator's number for it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: Option<DatagramAddress>,
    rail: u32,
    number: Option<u32>,
}

impl Book {
    fn is_complete(&self) -> bool {
        self.generation > 0 && self.total as usize == self.peers.len()
    }
}

/// A grant as it was given, but for its rate.
#[derive(Clone, Debug)]
struct Permission {
    generation: u64,
    pings: MeshGrant,
}

impl Mesh {
    /// Takes a part of the address book: of a whole one (`base` 0), which replaces what is there, or of a change of `base`. A
    /// change of another book than the one that is here is ignored; the coordinator sends a whole one on each new connection.
    /// Answers the book when it is complete.
    pub(super) fn book(
        &mut self,
        generation: u64,
        base: u64,
        total: u32,
        (peers, numbers): (&[Peer], &[u32]),
        removed: &[EndpointName],
    ) -> Option<Arc<[Peer]>> {
        let book = &mut self.book;
        if generation > book.generation && base == 0 {
            *book = Book { generation, base, total, peers: BTreeMap::new() };
        } else if generation > book.generation && base == book.generation && book.is_complete() {
            *book = Book { generation, base, total, peers: std::mem::take(&mut book.peers) };
        } else if generation != book.generation || base != book.base {
            return None;
        }
        for name in removed {
            book.peers.remove(name);
        }
        // A coordinator that gives no numbers knows no pings by numbers.
        let numbers = numbers.iter().copied().map(Some).chain(std::iter::repeat(None));
        let entry = |(peer, number): (&Peer, _)| {
            (peer.name.clone(), Entry { address: peer.address, rail: peer.rail, number })
        };
        book.peers.extend(peers.iter().zip(numbers).map(entry));
        let peer = |(name, &Entry { address, rail, .. }): (&EndpointName, &Entry)| Peer {
            name: name.clone(),
            address,
            rail,
        };
        book.is_complete().then(|| book.peers.iter().map(peer).collect())
    }

    /// The coordinator gives numbers.
    pub(super) fn has_numbers(&self) -> bool {
        self.book.peers.first_key_value().is_some_and(|(_, entry)| entry.number.is_some())
    }

    /// The coordinator's number of an endpoint.
    pub(super) fn number_of(&self, name: &EndpointName) -> Option<u32> {
        self.book.peers.get(name)?.number
    }

    /// Another connection begins: its first book is a whole one, and its numbers are its own.
    pub(super) fn connected(&mut self) {
        self.book.generation = 0;
        self.book.peers.values_mut().for_each(|entry| entry.number = None);
    }

    /// Takes a grant; a rate above the built-in limit is obeyed at the limit.
    pub(super) fn grant(&mut self, generation: u64, pings: MeshGrant) {
        let pings_per_second = pings.pings_per_second.min(MESH_PINGS_PER_SECOND_MAX);
        self.permission = Some(Permission { generation, pings: MeshGrant { pings_per_second, ..pings } });
    }

    /// What UD pings may be sent now.
    pub(super) fn for_pings(&self, now: Mono) -> Option<MeshGrant> {
        let pings = self.permission.as_ref()?.pings;
        (pings.until > now && pings.pings_per_batch > 0).then_some(pings)
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
        let permission = self.permission.as_ref().filter(|p| p.pings.until > now);
        let permission = permission.ok_or("no valid mesh grant")?;
        if self.book.generation != permission.generation || !self.book.is_complete() {
            return Err("the address book of the mesh grant has not arrived".to_owned());
        }
        if !self.book.peers.contains_key(&plan.peer) {
            return Err(format!("{} is not in the address book of the mesh grant", plan.peer));
        }
        let full = u64::from(LATENCY_SAMPLES_MAX) * SECOND;
        let (since, had) = self.allowance.get(&plan.local).copied().unwrap_or((now, full));
        let gained = now.0.saturating_sub(since.0).saturating_mul(permission.pings.pings_per_second.into());
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
        mesh.book(1, 0, 1, (&[peer("b/d/1", None)], &[]), &[]);
        mesh.grant(1, until(100, pings_per_second));
        mesh
    }

    fn until(seconds: u64, pings_per_second: u32) -> MeshGrant {
        MeshGrant {
            until: Mono(seconds * SECOND),
            pings_per_second,
            pings_per_batch: 9,
            labels: 16,
            cross_rail_every: 1,
            sweep: None,
        }
    }

    fn peer(name: &str, queue_pair: Option<u32>) -> Peer {
        let address = queue_pair.map(|queue_pair| DatagramAddress {
            gid: "::ffff:10.0.0.1".parse().unwrap(),
            lid: 0,
            queue_pair,
            queue_key: 1,
            mtu_bytes: 4_096,
        });
        Peer { name: name.parse().unwrap(), address, rail: 2 }
    }

    #[test]
    fn a_book_comes_in_parts_and_is_told_when_it_is_whole() {
        let mut mesh = Mesh::default();
        let (a, b, c) = (peer("a/d/1", Some(1)), peer("b/d/1", None), peer("c/d/1", Some(3)));
        assert_eq!(mesh.book(4, 0, 3, (&[a.clone(), b.clone()], &[]), &[]), None);
        assert_eq!(mesh.book(4, 0, 3, (std::slice::from_ref(&c), &[]), &[]).as_deref(), Some(&[a, b, c][..]));
    }

    #[test]
    fn a_change_gives_new_addresses_and_takes_away_who_has_gone() {
        let mut mesh = Mesh::default();
        let (a, b) = (peer("a/d/1", Some(1)), peer("b/d/1", Some(2)));
        mesh.book(4, 0, 2, (&[a.clone(), b.clone()], &[]), &[]);
        let (restarted, new) = (peer("a/d/1", Some(7)), peer("c/d/1", Some(3)));
        let changed =
            mesh.book(6, 4, 2, (std::slice::from_ref(&restarted), &[]), std::slice::from_ref(&b.name));
        assert_eq!(changed, None, "the second part is not here yet");
        let changed = mesh.book(6, 4, 2, (std::slice::from_ref(&new), &[]), &[]);
        assert_eq!(changed.as_deref(), Some(&[restarted, new][..]));
        assert_eq!(mesh.book(4, 0, 2, (&[a], &[]), &[]), None, "an older book is over");
    }

    #[test]
    fn a_change_of_a_book_that_is_not_here_waits_for_a_whole_one() {
        let mut mesh = Mesh::default();
        let (a, b) = (peer("a/d/1", Some(1)), peer("b/d/1", Some(2)));
        assert_eq!(mesh.book(6, 4, 1, (std::slice::from_ref(&a), &[]), &[]), None, "there is no book at all");
        mesh.book(4, 0, 1, (std::slice::from_ref(&a), &[]), &[]);
        assert_eq!(mesh.book(8, 6, 2, (std::slice::from_ref(&b), &[]), &[]), None, "6 was missed");
        assert_eq!(mesh.book(9, 8, 2, (std::slice::from_ref(&b), &[]), &[]), None, "and so was 8");
        assert!(mesh.book(9, 0, 2, (&[a.clone(), b.clone()], &[]), &[]).is_some());
        // On a new connection the same generation comes as a whole, whatever is left of the one before.
        mesh.book(10, 9, 1, (&[], &[]), &[]);
        mesh.connected();
        assert_eq!(mesh.book(11, 10, 1, (&[], &[]), std::slice::from_ref(&b.name)), None);
        let whole = mesh.book(10, 0, 1, (std::slice::from_ref(&a), &[]), &[]);
        assert_eq!(whole.as_deref(), Some(&[a][..]), "who was in the older one is not in it");
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
        mesh.grant(2, until(200, 10));
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
