//! Has each lossless priority a receive buffer?

use super::{pfc, setting};
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::verdict::Verdict;
use crate::wires::each_wire;
use rdmascope_model::{Finding, Reading, priorities};

const ID: &str = "receive-buffers";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Has each lossless priority a receive buffer of its own size?",
    meaning: "Without a buffer for what is still on its way after a pause frame, PFC comes too late and packets are dropped.",
    causes: &["buffers were set by hand for another priority, and PFC was moved later"],
    next_steps: &[
        "`dcb buffer show dev NETDEV` (vendor tool: `mlnx_qos -i NETDEV`): buffer of the priority and size of that buffer.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    each_wire(look, ID, "the receive buffers", |wire| {
        let (mask, buffers) = match (pfc(wire), setting(wire, |dcb| &dcb.buffers)) {
            (Reading::Absent, _) | (_, Reading::Absent) => return Vec::new(),
            (Reading::Value(mask), Reading::Value(buffers)) => (mask, buffers),
            (Reading::Value(_), failed) => {
                return vec![unknown(ID, wire.subject(), "the receive buffers", why(&failed))];
            }
            (failed, _) => return vec![unknown(ID, wire.subject(), "priority flow control", why(&failed))],
        };
        let buffer = |p: usize| usize::from(buffers.buffer_of[p]);
        let size = |p: usize| buffers.bytes.get(buffer(p)).copied().unwrap_or(0);
        let lossless = (0..8_usize).filter(|p| mask & (1 << p) != 0);
        let evidence: Vec<String> = lossless
            .clone()
            .map(|p| format!("priority {p} = buffer {} of {} bytes", buffer(p), size(p)))
            .collect();
        let without = lossless.filter(|p| size(*p) == 0).fold(0_u8, |mask, p| mask | 1 << p);
        if without == 0 {
            let summary = format!("lossless priorities ({}) have receive buffers", priorities(mask));
            return vec![Finding { evidence, ..ok(ID, wire.subject(), summary) }];
        }
        let verdict = Verdict::fail(
            format!("lossless priority {} has a receive buffer of 0 bytes", priorities(without)),
            "a setting of this host: buffers and PFC were set for different priorities",
            format!(
                "`dcb buffer show dev {0}`; `dcb buffer set dev {0} prio-buffer PRIORITY:1`, or the vendor's default: `mlnx_qos -i {0} --pfc ...`.",
                wire.name
            ),
        );
        vec![wire.finding(ID, verdict, evidence)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{dcb, first};
    use rdmascope_model::Status;

    #[test]
    fn pfc_on_a_priority_without_a_buffer() {
        assert_eq!(first(&CHECK, |_| ())[0].status, Status::Ok);
        let moved = first(&CHECK, |m| {
            let Reading::Value(buffers) = &mut dcb(m).buffers else { panic!("no buffers") };
            buffers.buffer_of[3] = 2;
        });
        assert_eq!(moved[0].status, Status::Fail);
        assert!(first(&CHECK, |m| dcb(m).buffers = Reading::Absent).is_empty());
    }
}
