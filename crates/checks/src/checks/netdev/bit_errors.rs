//! How many bits does FEC have to mend?

use crate::check::{Check, Look, Settles};
use crate::limits;
use crate::verdict::Verdict;
use crate::watch::{by_rate, window};
use crate::wires::each_wire;
use rdmascope_model::{Finding, Status};

const ID: &str = "bit-errors";

const MENDED: &str = "rx_corrected_bits_phy";
const BITS: &str = "rx_bits_phy";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "How many of the received bits does FEC have to mend?",
    meaning: "FEC hides a bad cable for a while: a high raw bit error ratio is the warning before packets are lost.",
    causes: &["dirty or bent fibre, a worn connector, a transceiver that ages or is too hot"],
    next_steps: &[
        "`ethtool -m NETDEV` (power, temperature); clean and reseat; swap the cable before it loses packets.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[
        &limits::CONGESTION_WINDOW_SECONDS,
        &limits::BIT_ERROR_RATIO_WARN,
        &limits::BIT_ERROR_RATIO_FAIL,
    ],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let policy = look.policy;
    each_wire(look, ID, "mended bits", |wire| {
        let seen = wire.seen(look, &[MENDED, BITS], window(look));
        vec![by_rate(ID, wire.subject(), "bits received and mended", seen, |moved| {
            let (mended, bits) = (moved.of(MENDED), moved.of(BITS));
            let warns = policy.limit(&limits::BIT_ERROR_RATIO_WARN);
            let ratio = mended as f64 / bits.max(1) as f64;
            if mended == 0 || bits == 0 || ratio <= warns {
                return None;
            }
            let fails = ratio > policy.limit(&limits::BIT_ERROR_RATIO_FAIL);
            let verdict = Verdict::warn(
                format!("FEC mends {ratio:.1e} of the received bits"),
                "the cable or a transceiver, at this or the other end",
                format!(
                    "`ethtool -m {0}`, `ethtool -S {0} | grep lane`: one bad lane is a connector, all are the cable; clean, reseat, swap.",
                    wire.name
                ),
            );
            Some(if fails { Verdict { status: Status::Fail, ..verdict } } else { verdict })
        })]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{again, statistics};
    use rdmascope_model::Snapshot;

    #[test]
    fn the_ratio_decides() {
        let seen = |mended| {
            let set = |m: &mut Snapshot, mended, bits| statistics(m, &[(MENDED, mended), (BITS, bits)]);
            again(&CHECK, 100, |m| set(m, 0, 0), |m| set(m, mended, 10_000_000_000))[0].status
        };
        assert_eq!(seen(9_000), Status::Ok);
        assert_eq!(seen(20_000), Status::Warn);
        assert_eq!(seen(200_000), Status::Fail);
    }
}
