//! A sweep of pings over a large cluster: no leases, but one pass of the mesh at a rate of its own. A lease for each of four million
//! pairs would be forty million frames; this way each agent goes through its book once, and its reports say how far it is.

use super::Coordinator;
use super::continuous::{BYTES_PER_PING, PINGS_PER_BATCH, Reach};
use super::order::SweepOrder;
use super::plan::SweepPlan;
use super::seats::{CrossRail, Seat, Wanted};
use super::sweep::Pass;
use rdmascope_link::PINGS_SINCE;
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{MeshSweep, Metric, Mono, Now};
use std::time::Duration;

/// Endpoints up to which each pair gets a lease and 200 pings: 63 rounds there and back are less than a minute.
const LEASED_MAX: usize = 64;
/// Pings per second of each endpoint. Half of what agents allow: with two answers to each, 32 receive buffers last for 20 ms.
pub(super) const PINGS_PER_SECOND: u32 = 500;
/// So long a pass is to take at least, with more pings for each pair where there are few: of one rail, and of all.
const TAKES: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(40)];
/// After the last ping is answered: a quarter of a second until the agent tells, and the way.
const TOLD_WITHIN: Duration = Duration::from_millis(400);
/// A pass that takes twice as long and so much more has lost somebody: peers that do not answer are waited for a second.
const LOST_AFTER: Duration = Duration::from_secs(10);

impl Coordinator {
    /// The pass that would carry such a sweep out, with its plan; `None` where leases do.
    pub(super) fn pass_for(&self, order: &SweepOrder, seats: &[Seat]) -> Option<(Pass, SweepPlan)> {
        let narrowed = order.nodes.is_some() || !order.devices.is_empty() || order.quick.is_some();
        let marked = order.class.unwrap_or(0) != 0 || order.passes > 1;
        let new = |seat: &Seat| {
            let agent = self.members.agent(&self.matrix.name(seat.index).node);
            seat.pinged && agent.is_some_and(|agent| agent.protocol >= PINGS_SINCE)
        };
        let all_ping = seats.len() > LEASED_MAX && seats.iter().all(new);
        if order.metrics != [Metric::Ping] || !order.drained || narrowed || marked || !all_ping {
            return None;
        }
        let rate = u64::from(PINGS_PER_SECOND);
        let _ = self.rate().per_second.checked_sub(1)?;
        let reach = Reach::of(seats, order.cross_rail, |a, b| a.pinged && b.pinged);
        let peers = (reach.same + reach.cross).max(1);
        let takes = if reach.cross > 0 { TAKES[1] } else { TAKES[0] };
        let batch = (rate * takes.as_secs() / peers).clamp(PINGS_PER_BATCH.0, PINGS_PER_BATCH.1) / 3 * 3;
        let pairs = reach.same_pairs + reach.cross_pairs;
        let cross_rail = if order.cross_rail { CrossRail::All } else { CrossRail::Never };
        // Who is told of is looked up by number.
        let mut by_number = seats.to_vec();
        by_number.sort_by_key(|seat| seat.index);
        let pass = Pass {
            sweep: MeshSweep {
                number: 0,
                pings_per_second: PINGS_PER_SECOND,
                pings_per_batch: u32::try_from(batch).unwrap_or(u32::MAX),
                cross_rail: order.cross_rail,
            },
            wanted: Wanted { cross_rail, unless_pinged: false, quick: None },
            ends_by: Mono(0),
            seats: by_number,
            told: vec![0; (seats.len() * seats.len()).div_ceil(64)],
        };
        let plan = SweepPlan {
            pairs,
            probes: pairs,
            rounds: peers,
            bytes: pairs * batch * BYTES_PER_PING,
            time: Duration::from_millis(peers * batch * 1_000 / rate) + TOLD_WITHIN,
            passes: 1,
            ..SweepPlan::default()
        };
        Some((pass, plan))
    }

    /// Gives a pass its number and its end.
    pub(super) fn begin_pass(pass: &mut Pass, plan: &SweepPlan, now: Now) {
        // Unlike those of any coordinator before.
        pass.sweep.number = now.wall.0.max(1);
        pass.ends_by = now.mono.after(plan.time * 2 + LOST_AFTER);
    }

    /// Pings between two endpoints were told of, or could not be sent.
    pub(super) fn pinged_in_pass(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        failed: bool,
        now: Now,
    ) {
        if self.work.told_of(source, target, failed, now) {
            self.changed = true;
        }
    }

    /// Ends a pass from which nothing more is to be expected.
    pub(super) fn end_pass(&mut self, now: Now) {
        self.changed |= self.work.end_pass(now);
    }
}
