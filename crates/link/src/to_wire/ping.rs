//! The mesh's addresses and what its pings found, as messages.

use super::{name, stamp_clock};
use crate::PingReport;
use crate::wire;
use rdmascope_model::{DatagramAddress, Delays, EchoStats, Heard, MeshSweep, Peer, PingCounts, PingStats};

pub(super) fn address(a: &DatagramAddress) -> wire::DatagramAddress {
    wire::DatagramAddress {
        gid: a.gid.0.to_vec(),
        lid: a.lid.into(),
        queue_pair: a.queue_pair,
        queue_key: a.queue_key,
        mtu_bytes: a.mtu_bytes,
    }
}

pub(super) fn peer_address(peer: &Peer) -> wire::PeerAddress {
    wire::PeerAddress { address: peer.address.as_ref().map(address) }
}

pub(super) fn report(r: &PingReport) -> wire::PingReport {
    wire::PingReport {
        local: Some(name(&r.local)),
        peer: Some(name(&r.peer)),
        measured_at_ms: r.measured_at.0,
        stats: Some(stats(&r.stats)),
    }
}

pub(super) fn heard(h: &Heard) -> wire::Heard {
    wire::Heard {
        local: Some(name(&h.local)),
        peer: Some(name(&h.peer)),
        batch: h.batch,
        small: h.small,
        large: h.large,
    }
}

pub(super) fn stats(s: &PingStats) -> wire::PingStats {
    wire::PingStats {
        batch: s.batch,
        clock: stamp_clock(s.clock),
        small: Some(counts(&s.small)),
        large: Some(counts(&s.large)),
        network: s.network.as_ref().map(delays),
        network_large: s.network_large.as_ref().map(delays),
        responder: s.responder.as_ref().map(delays),
        prober: s.prober.as_ref().map(delays),
        host_delayed: s.host_delayed,
        invalid_stamps: s.invalid_stamps,
        stale: s.stale,
        labels: s
            .labels
            .iter()
            .map(|l| wire::LabelResult {
                flow_label: l.flow_label,
                sent: l.sent,
                answered: l.answered,
                p50_ns: l.p50_ns,
            })
            .collect(),
    }
}

fn counts(c: &PingCounts) -> wire::PingCounts {
    wire::PingCounts {
        payload_bytes: c.payload_bytes,
        sent: c.sent,
        answered: c.answered,
        lost_forward: c.lost_forward,
        lost_backward: c.lost_backward,
        late: c.late,
        duplicate: c.duplicate,
        reordered: c.reordered,
    }
}

fn delays(d: &Delays) -> wire::Delays {
    wire::Delays { count: d.count, min_ns: d.min_ns, p50_ns: d.p50_ns, p99_ns: d.p99_ns, max_ns: d.max_ns }
}

pub(super) fn echo(e: &EchoStats) -> wire::EchoStats {
    wire::EchoStats {
        payload_bytes: e.payload_bytes,
        sent: e.sent,
        heard: e.heard,
        answered: e.answered,
        round_trip: e.round_trip.as_ref().map(delays),
    }
}

pub(super) fn sweep(sweep: &MeshSweep) -> wire::MeshSweep {
    wire::MeshSweep {
        number: sweep.number,
        pings_per_second: sweep.pings_per_second,
        pings_per_batch: sweep.pings_per_batch,
        cross_rail: sweep.cross_rail,
    }
}
