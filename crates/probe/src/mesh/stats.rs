//! The figures of a batch: loss with its direction, delays of network and hosts, path labels.

use super::batch::{Batch, Ping, Shares, State};
use super::packet::HEADER_BYTES;
use crate::latency::{P99_SAMPLES_MIN, quantile};
use rdmascope_model::{Delays, LabelResult, PingCounts, PingStats, StampClock};
use std::time::Duration;

/// A host that takes longer than this, and than [`USUAL_TIMES`] its median, was busy with something else. Software stamps
/// are worse than that by themselves.
const HOST_DELAY_HARDWARE: Duration = Duration::from_micros(50);
const HOST_DELAY_SOFTWARE: Duration = Duration::from_millis(1);
const USUAL_TIMES: u64 = 5;

/// What a batch found.
pub(super) fn stats(batch: &Batch) -> PingStats {
    let shares = |large: bool| -> Vec<Shares> {
        let answered = answered(batch).filter(|ping| ping.large == large);
        answered.filter_map(|ping| ping.shares(batch.clock).flatten()).collect()
    };
    let (small, large) = (shares(false), shares(true));
    let both = || small.iter().chain(&large);
    let responder = delays(both().map(|share| share.responder).collect());
    let prober = delays(both().map(|share| share.prober).collect());
    let limit = |usual: Option<Delays>| {
        let least = match batch.clock {
            StampClock::Hardware => HOST_DELAY_HARDWARE,
            StampClock::Software => HOST_DELAY_SOFTWARE,
        };
        let least = u64::try_from(least.as_nanos()).unwrap_or(u64::MAX);
        usual.map_or(u64::MAX, |usual| least.max(usual.p50_ns.saturating_mul(USUAL_TIMES)))
    };
    let (responder_limit, prober_limit) = (limit(responder), limit(prober));
    let slow = |share: &Shares| share.responder > responder_limit || share.prober > prober_limit;
    let delayed = both().filter(|share| share.network.is_none() || slow(share));
    let stale_pings = batch.pings.iter().filter(|ping| ping.state == State::Stale);
    PingStats {
        batch: batch.number,
        clock: batch.clock,
        small: counts(batch, false),
        large: counts(batch, true),
        network: delays(small.iter().filter_map(|share| share.network).collect()),
        network_large: delays(large.iter().filter_map(|share| share.network).collect()),
        responder,
        prober,
        host_delayed: number(delayed.count()),
        invalid_stamps: number(answered(batch).filter(|ping| ping.shares(batch.clock) == Some(None)).count()),
        stale: number(stale_pings.count()).saturating_add(batch.stale_answers),
        labels: labels(batch),
    }
}

fn answered(batch: &Batch) -> impl Iterator<Item = &Ping> {
    batch.pings.iter().filter(|ping| ping.state == State::Answered)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn counts(batch: &Batch, large: bool) -> PingCounts {
    let count = |states: &[State]| {
        let these = batch.pings.iter().filter(|ping| ping.large == large && states.contains(&ping.state));
        number(these.count())
    };
    let sent = count(&[State::Waiting, State::Answered, State::Lost, State::Late]);
    let (answered, late) = (count(&[State::Answered]), count(&[State::Late]));
    let told = usize::try_from(batch.told).unwrap_or(usize::MAX);
    let untold = |ping: &Ping| ping.large == large && matches!(ping.state, State::Lost | State::Waiting);
    let known = batch.told > 0 && !batch.pings.iter().skip(told).any(untold);
    let lost = sent.saturating_sub(answered).saturating_sub(late);
    // A device may carry a datagram twice and lose the second: never more than what is missing.
    let forward = sent.saturating_sub(batch.heard.of(large)).min(lost);
    let backward = batch.acked.of(large).saturating_sub(answered).saturating_sub(late).min(lost);
    let payload_bytes = if large { batch.plan.large_bytes } else { HEADER_BYTES as u32 };
    PingCounts {
        payload_bytes: if sent > 0 { payload_bytes } else { 0 },
        sent,
        answered,
        lost_forward: known.then_some(forward),
        lost_backward: known.then_some(backward),
        late,
        duplicate: batch.duplicate.of(large),
        reordered: batch.reordered.of(large),
    }
}

fn delays(mut samples: Vec<u64>) -> Option<Delays> {
    samples.sort_unstable();
    let (&min_ns, &max_ns) = (samples.first()?, samples.last()?);
    Some(Delays {
        count: number(samples.len()),
        min_ns,
        p50_ns: quantile(&samples, 500),
        p99_ns: (samples.len() >= P99_SAMPLES_MIN).then(|| quantile(&samples, 990)),
        max_ns,
    })
}

fn labels(batch: &Batch) -> Vec<LabelResult> {
    if batch.plan.labels.len() < 2 {
        return Vec::new();
    }
    let mut order: Vec<u16> = Vec::new();
    for ping in &batch.pings {
        if !order.contains(&ping.label) {
            order.push(ping.label);
        }
    }
    let result = |index: u16| {
        let of_label = || batch.pings.iter().filter(move |ping| ping.label == index);
        let counted = |ping: &&Ping| !matches!(ping.state, State::Unsent | State::Stale);
        let answered = || of_label().filter(|ping| ping.state == State::Answered);
        let small = answered()
            .filter(|ping| !ping.large)
            .filter_map(|ping| ping.shares(batch.clock).flatten())
            .filter_map(|share| share.network);
        LabelResult {
            flow_label: batch.plan.labels.get(usize::from(index)).copied().unwrap_or(0),
            sent: number(of_label().filter(counted).count()),
            answered: number(answered().count()),
            p50_ns: delays(small.collect()).map(|delays| delays.p50_ns),
        }
    };
    order.into_iter().map(result).filter(|label| label.sent > 0).collect()
}
