//! Does PCI Express hold the adapter back while it works?

use crate::check::{Check, Look, Settles};
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::{MINUTE, Moved, by_rate, per, window};
use crate::wires::each_wire;
use rdmascope_model::Finding;
use std::time::Duration;

const ID: &str = "pci-stalls";

const FIVE_MINUTES: Duration = Duration::from_secs(300);

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Does PCI Express hold the adapter back?",
    meaning: "An adapter that cannot hand over packets in time pauses the switch or drops them: this host is then the slow receiver.",
    causes: &[
        "the link is narrower or slower than the port",
        "memory of another NUMA node, small payload sizes, a busy memory bus",
        "a link that keeps recovering",
    ],
    next_steps: &[
        "pci-link first; `lspci -vv -s ADDRESS | grep -e MaxPayload -e MaxReadReq`; NUMA node of the job's memory; `ethtool -S NETDEV | grep pci`.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[
        &limits::CONGESTION_WINDOW_SECONDS,
        &limits::PCI_STALLED_WARN_PER_5MIN,
        &limits::PCI_SIGNAL_WARN_PER_MINUTE,
    ],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let names = [
        "outbound_pci_stalled_rd_events",
        "outbound_pci_stalled_wr_events",
        "outbound_pci_buffer_overflow",
        "rx_pci_signal_integrity",
        "tx_pci_signal_integrity",
    ];
    each_wire(look, ID, "PCI Express stalls", |wire| {
        let seen = wire.seen(look, &names, window(look));
        vec![by_rate(ID, wire.subject(), "PCI Express stalls", seen, |moved| verdict(look, moved, wire.name))]
    })
}

fn verdict(look: &Look<'_>, moved: &Moved, name: &str) -> Option<Verdict> {
    let next = format!(
        "`rdmascope explain pci-link`; `ethtool -S {name} | grep pci`; MaxPayload, MaxReadReq and NUMA node of the adapter (`lspci -vv`)."
    );
    let host = "this host: PCI Express or memory is too slow for the port";
    let dropped = moved.of("outbound_pci_buffer_overflow");
    if dropped > 0 {
        return Some(Verdict::fail(
            format!("{dropped} packets were dropped because PCI Express did not take them"),
            host,
            next,
        ));
    }
    let recoveries =
        per(moved.of("rx_pci_signal_integrity") + moved.of("tx_pci_signal_integrity"), moved.over, MINUTE);
    if recoveries > look.policy.limit(&limits::PCI_SIGNAL_WARN_PER_MINUTE) {
        return Some(Verdict::warn(
            format!("the PCI Express link recovers {recoveries:.1} times a minute"),
            "this host: how the card sits in its slot, or the riser",
            next,
        ));
    }
    let stalled = moved.of("outbound_pci_stalled_rd_events").max(moved.of("outbound_pci_stalled_wr_events"));
    let seconds = per(stalled, moved.over, FIVE_MINUTES);
    (seconds > look.policy.limit(&limits::PCI_STALLED_WARN_PER_5MIN)).then(|| {
        Verdict::warn(
            format!("PCI Express held the adapter back in {seconds:.0} seconds of five minutes"),
            host,
            next,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::statistics_rose;
    use rdmascope_model::Status;

    #[test]
    fn stalls_recoveries_and_drops() {
        let seen = |name, count| statistics_rose(&CHECK, 300, &[(name, count)]).status;
        assert_eq!(seen("outbound_pci_stalled_wr_events", 30), Status::Ok);
        assert_eq!(seen("outbound_pci_stalled_wr_events", 31), Status::Warn);
        assert_eq!(seen("rx_pci_signal_integrity", 5), Status::Ok);
        assert_eq!(seen("rx_pci_signal_integrity", 6), Status::Warn);
        assert_eq!(seen("outbound_pci_buffer_overflow", 1), Status::Fail);
    }
}
