//! When hosts run: what they take for a datagram, and the times at which they are kept from looking at any.

use super::parameters::{Hosts, Stall};
use super::table::Table;
use crate::random::{Random, mix};

const MILLI: u64 = 1_000_000;
/// A starved host is stopped once in each of these, as a quota of processor time does it, milliseconds.
const QUOTA_MS: u64 = 100;

/// How long a datagram waited on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) ns: u64,
    /// The program was kept from running, and knows it.
    pub(crate) vague: bool,
}

/// All hosts.
#[derive(Clone, Debug)]
pub(crate) struct HostTimes {
    hosts: Hosts,
    spread: Table,
    seed: u64,
    /// By node: since when it gets too little processor time, and how it is kept from running.
    starved: Vec<Option<(u64, Vec<Stall>)>>,
}

impl HostTimes {
    pub(crate) fn new(hosts: &Hosts, nodes: usize, seed: u64) -> Self {
        Self { spread: Table::spread(hosts.spread), hosts: hosts.clone(), seed, starved: vec![None; nodes] }
    }

    pub(crate) fn starve(&mut self, node: usize, since: u64, stolen: f32) {
        let usual = stolen * QUOTA_MS as f32;
        let stop =
            Stall { slot_ms: QUOTA_MS, share: 1.0, ms: [0.7 * usual, (1.4 * usual).min(QUOTA_MS as f32)] };
        let stalls = [stop].into_iter().chain(self.hosts.starved.iter().cloned()).collect();
        self.starved[node] = Some((since, stalls));
    }

    /// When the agent of a node, asked for at this time, runs: now, or at the end of what keeps it.
    pub(crate) fn runs_at(&self, node: usize, at: u64) -> u64 {
        let healthy = ready(&self.hosts.stalls, mix(self.seed ^ node as u64), at);
        match &self.starved[node] {
            Some((since, stalls)) if at >= *since => ready(stalls, mix(!self.seed ^ node as u64), healthy),
            _ => healthy,
        }
    }

    /// How long a datagram waits that came in at this time.
    pub(crate) fn held(&self, node: usize, at: u64, random: &mut Random) -> Held {
        let stalled = self.runs_at(node, at) - at;
        let draw = random.draw();
        let mut usual = self.hosts.usual_ns * self.spread.at(draw);
        if (draw >> 32) as f32 * (1.0 / (1_u64 << 32) as f32) < self.hosts.tail_share {
            usual += random.wait(self.hosts.tail_ns);
        }
        Held { ns: stalled + usual as u64, vague: stalled > self.hosts.vague_ns }
    }

    /// How much later the program's stamp is than the wire, nanoseconds.
    pub(crate) fn stamp_lag(&self, random: &mut Random) -> u64 {
        random.wait(self.hosts.stamp_ns) as u64
    }
}

/// The end of the stops that this time falls into.
fn ready(stalls: &[Stall], seed: u64, at: u64) -> u64 {
    let mut ready = at;
    for (layer, stall) in stalls.iter().enumerate() {
        let slot_ns = stall.slot_ms * MILLI;
        let slot = ready / slot_ns;
        // A stop is no longer than a slot, so that it began in this slot or in the one before.
        for slot in slot.saturating_sub(1)..=slot {
            let mut random = Random::new(mix(seed ^ mix(slot << 8 | layer as u64)));
            if random.unit() as f32 >= stall.share {
                continue;
            }
            let begins = slot * slot_ns + (random.unit() * slot_ns as f64) as u64;
            let [least, most] = stall.ms;
            let lasts = least * (most / least).powf(random.unit() as f32) * MILLI as f32;
            let ends = begins + lasts as u64;
            if (begins..ends).contains(&ready) {
                ready = ends;
            }
        }
    }
    ready
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALLS: [Stall; 1] = [Stall { slot_ms: 100, share: 0.5, ms: [10.0, 40.0] }];

    #[test]
    fn hosts_stop_as_often_and_as_long_as_asked() {
        let times: Vec<u64> = (0..200_000).map(|i| i * MILLI / 2).collect();
        let stopped: Vec<u64> = times.iter().map(|&at| ready(&STALLS, 7, at) - at).collect();
        let share = stopped.iter().filter(|wait| **wait > 0).count() as f64 / times.len() as f64;
        // Log-uniform between 10 and 40 ms: 30 / ln 4 = 21.6 ms in every other slot of 100 ms.
        assert!((0.10..0.12).contains(&share), "{share}");
        assert!(stopped.iter().all(|wait| *wait <= 80 * MILLI));
    }

    #[test]
    fn who_runs_again_stays_running_for_a_moment() {
        for at in (0..10_000).map(|i| i * MILLI) {
            let ready_at = ready(&STALLS, 3, at);
            assert!(ready(&STALLS, 3, ready_at) <= ready_at + 40 * MILLI);
        }
    }
}
