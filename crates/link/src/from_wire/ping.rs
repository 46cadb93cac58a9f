//! The mesh's addresses and what its pings found, out of messages.

use super::{bad, gid, list, name, one_of};
use crate::wire;
use crate::{FrameError, LABELS_MAX, PEERS_PER_FRAME_MAX, PingReport, ToAgent, to_wire};
use rdmascope_model::{
    DatagramAddress, Delays, EchoStats, Heard, LabelResult, Peer, PingCounts, PingStats, StampClock, Wall,
};

/// Queue pair numbers have 24 bits.
const QUEUE_PAIR_MAX: u32 = 0x00FF_FFFF;

pub(super) fn address(a: wire::DatagramAddress) -> Result<DatagramAddress, FrameError> {
    if a.queue_pair > QUEUE_PAIR_MAX {
        return Err(bad("queue pair", "out of range"));
    }
    Ok(DatagramAddress {
        gid: gid(a.gid)?,
        lid: u16::try_from(a.lid).map_err(|_| bad("LID", "out of range"))?,
        queue_pair: a.queue_pair,
        queue_key: a.queue_key,
        mtu_bytes: a.mtu_bytes,
    })
}

pub(super) fn book(book: wire::Book) -> Result<ToAgent, FrameError> {
    let named = list("peers", book.peers, PEERS_PER_FRAME_MAX, |n| name("peer", Some(n)))?;
    let addresses =
        list("addresses", book.addresses, PEERS_PER_FRAME_MAX, |a| a.address.map(address).transpose())?;
    if !addresses.is_empty() && addresses.len() != named.len() {
        return Err(bad("addresses", "not one for each peer"));
    }
    if !book.rails.is_empty() && book.rails.len() != named.len() {
        return Err(bad("rails", "not one for each peer"));
    }
    if !book.numbers.is_empty() && book.numbers.len() != named.len() {
        return Err(bad("numbers", "not one for each peer"));
    }
    let addresses = addresses.into_iter().chain(std::iter::repeat(None));
    let rails = book.rails.into_iter().chain(std::iter::repeat(0));
    Ok(ToAgent::Book {
        generation: book.generation,
        base: book.base,
        total: book.total,
        peers: named
            .into_iter()
            .zip(addresses)
            .zip(rails)
            .map(|((name, address), rail)| Peer { name, address, rail })
            .collect(),
        numbers: book.numbers.into(),
        removed: list("removed peers", book.removed, PEERS_PER_FRAME_MAX, |n| name("peer", Some(n)))?,
    })
}

pub(super) fn report(r: wire::PingReport) -> Result<PingReport, FrameError> {
    Ok(PingReport {
        local: name("local endpoint", r.local)?,
        peer: name("peer endpoint", r.peer)?,
        measured_at: Wall(r.measured_at_ms),
        stats: stats(r.stats.ok_or_else(|| bad("ping statistics", "missing"))?)?,
    })
}

pub(super) fn heard(h: wire::Heard) -> Result<Heard, FrameError> {
    Ok(Heard {
        local: name("local endpoint", h.local)?,
        peer: name("peer endpoint", h.peer)?,
        batch: h.batch,
        small: h.small,
        large: h.large,
    })
}

pub(super) fn stats(s: wire::PingStats) -> Result<PingStats, FrameError> {
    let clocks = [StampClock::Software, StampClock::Hardware];
    Ok(PingStats {
        batch: s.batch,
        clock: one_of("clock", s.clock, clocks, to_wire::stamp_clock)?,
        small: counts(s.small)?,
        large: counts(s.large)?,
        network: s.network.map(|d| delays(&d)).transpose()?,
        network_large: s.network_large.map(|d| delays(&d)).transpose()?,
        responder: s.responder.map(|d| delays(&d)).transpose()?,
        prober: s.prober.map(|d| delays(&d)).transpose()?,
        host_delayed: s.host_delayed,
        invalid_stamps: s.invalid_stamps,
        stale: s.stale,
        labels: list("labels", s.labels, LABELS_MAX, label)?,
    })
}

/// Counts that contradict themselves would make a loss out of nothing, or hide one.
fn counts(c: Option<wire::PingCounts>) -> Result<PingCounts, FrameError> {
    let c = c.unwrap_or_default();
    let lost = c.lost_forward.unwrap_or(0).saturating_add(c.lost_backward.unwrap_or(0));
    if c.answered.saturating_add(lost) > c.sent {
        return Err(bad("ping counts", "more answered and lost than sent"));
    }
    Ok(PingCounts {
        payload_bytes: c.payload_bytes,
        sent: c.sent,
        answered: c.answered,
        lost_forward: c.lost_forward,
        lost_backward: c.lost_backward,
        late: c.late,
        duplicate: c.duplicate,
        reordered: c.reordered,
    })
}

fn delays(d: &wire::Delays) -> Result<Delays, FrameError> {
    if d.count == 0 || d.min_ns > d.p50_ns || d.p50_ns > d.max_ns {
        return Err(bad("delays", "not a set of rising figures with a count"));
    }
    Ok(Delays { count: d.count, min_ns: d.min_ns, p50_ns: d.p50_ns, p99_ns: d.p99_ns, max_ns: d.max_ns })
}

fn label(l: wire::LabelResult) -> Result<LabelResult, FrameError> {
    if l.answered > l.sent {
        return Err(bad("label", "more answered than sent"));
    }
    Ok(LabelResult { flow_label: l.flow_label, sent: l.sent, answered: l.answered, p50_ns: l.p50_ns })
}

pub(super) fn echo(e: &wire::EchoStats) -> Result<EchoStats, FrameError> {
    if e.answered > e.sent || e.heard.is_some_and(|heard| heard > e.sent) {
        return Err(bad("echo", "more came back than was sent"));
    }
    Ok(EchoStats {
        payload_bytes: e.payload_bytes,
        sent: e.sent,
        heard: e.heard,
        answered: e.answered,
        round_trip: e.round_trip.as_ref().map(delays).transpose()?,
    })
}
