//! Who holds the queue pairs of each RDMA device, as `rdma res show qp` tells it.

use super::{Asked, attribute};
use crate::nl::{Attributes, NO_SUBSYSTEM, Question, RdmaQuestion, Refusal, Writer};
use crate::parse;
use crate::processes::{QueuePairs, captured_queue_pairs};
use crate::tree::Tree;
use rdmascope_model::Reading;
use std::collections::BTreeMap;

/// What stands in the place of an owner that the kernel does not show.
const HIDDEN: &str = "-";

/// The queue pairs of all RDMA devices, or of the one that is named; in a capture, those of all from `rdmascope/rdma/queue_pairs`, lines `DEVICE PORT PID NAME COUNT`.
///
/// The kernel asks the driver for each queue pair, on mlx5 one firmware command: a job with thousands costs some 10 ms. `Absent`
/// where there is no RDMA netlink.
pub(crate) fn queue_pairs(tree: &Tree, only: Option<&str>) -> Reading<Vec<QueuePairs>> {
    if !tree.is_real() {
        return captured_queue_pairs(tree);
    }
    let asked = match Asked::connect(tree) {
        Reading::Value(asked) => asked,
        Reading::Absent => return Reading::Absent,
        Reading::Failed(why) => return Reading::Failed(why),
    };
    let comm = |pid: u32| {
        let name = tree.parsed(&format!("proc/{pid}/comm"), parse::plain);
        name.value().cloned().unwrap_or_else(|| HIDDEN.to_owned())
    };
    let mut all = Vec::new();
    for (device, known) in asked.devices.iter().filter(|(device, _)| only.is_none_or(|only| only == *device))
    {
        match of_device(&asked, device, known.index, &comm) {
            Ok(found) => all.extend(found),
            Err(refusal) => {
                return refusal
                    .reading(&format!("asking RDMA netlink for the queue pairs of {device}"), NO_SUBSYSTEM);
            }
        }
    }
    Reading::Value(all)
}

fn of_device(
    asked: &Asked,
    device: &str,
    index: u32,
    comm: &dyn Fn(u32) -> String,
) -> Result<Vec<QueuePairs>, Refusal> {
    let this = Writer::default().u32(attribute::DEV_INDEX, index);
    let total = || asked.socket.one(Question::Rdma(RdmaQuestion::Resources), &this);
    let before = total()?;
    let answers = asked.socket.all(Question::Rdma(RdmaQuestion::QueuePairs), &this)?;
    // Some may be made or destroyed meanwhile: only what was there all the time can be hidden.
    let total = summary(&before).min(summary(&total()?));
    Ok(table(device, &answers, total, comm))
}

/// How many queue pairs the device has, shown or not.
pub(crate) fn summary(answer: &[u8]) -> u64 {
    let entries = Attributes(answer).nested(attribute::RES_SUMMARY);
    let of = |kind: u16, entry| {
        let entry = Attributes(entry);
        let ours = kind == attribute::RES_SUMMARY_ENTRY
            && entry.text(attribute::RES_SUMMARY_ENTRY_NAME) == Some("qp");
        entry.u64(attribute::RES_SUMMARY_ENTRY_CURR).filter(|_| ours)
    };
    entries.iter().find_map(|(kind, entry)| of(kind, entry)).unwrap_or(0)
}

/// The parts of a dump, added up for each owner.
pub(crate) fn table(
    device: &str,
    answers: &[Vec<u8>],
    total: u64,
    comm: &dyn Fn(u32) -> String,
) -> Vec<QueuePairs> {
    let mut owners: BTreeMap<(u8, Option<u32>, String), u32> = BTreeMap::new();
    let (mut listed, mut hidden) = (0, 0_u32);
    for answer in answers {
        let entries = Attributes(answer).nested(attribute::RES_QP);
        for (_, entry) in entries.iter().filter(|(kind, _)| *kind == attribute::RES_QP_ENTRY) {
            let entry = Attributes(entry);
            listed += 1;
            let port = entry.u32(attribute::PORT_INDEX).and_then(|port| u8::try_from(port).ok()).unwrap_or(0);
            let kernel = entry.text(attribute::RES_KERN_NAME).and_then(|name| parse::plain(name).ok());
            let owner = match (kernel, entry.u32(attribute::RES_PID)) {
                (Some(name), _) => (port, Some(0), name),
                (None, Some(pid)) => (port, Some(pid), String::new()),
                (None, None) => {
                    hidden += 1;
                    continue;
                }
            };
            *owners.entry(owner).or_default() += 1;
        }
    }
    hidden = hidden.saturating_add(u32::try_from(total.saturating_sub(listed)).unwrap_or(u32::MAX));
    let device = device.to_owned();
    let shown = owners.into_iter().map(|((port, pid, kernel), count)| {
        let name = match pid {
            Some(pid) if pid != 0 => comm(pid),
            _ => kernel,
        };
        QueuePairs { device: device.clone(), port, pid, name, count }
    });
    let mut all: Vec<_> = shown.collect();
    if hidden > 0 {
        let name = HIDDEN.to_owned();
        all.push(QueuePairs { device: device.clone(), port: 0, pid: None, name, count: hidden });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(port: Option<u32>, pid: Option<u32>, kernel: Option<&str>) -> Writer {
        let mut entry = Writer::default();
        if let Some(port) = port {
            entry = entry.u32(attribute::PORT_INDEX, port);
        }
        // RES_LQPN: the number of the queue pair itself.
        entry = entry.u32(21, 0x1f3);
        if let Some(name) = kernel {
            entry = entry.text(attribute::RES_KERN_NAME, name);
        }
        if let Some(pid) = pid {
            entry = entry.u32(attribute::RES_PID, pid);
        }
        entry
    }

    fn part(entries: &[Writer]) -> Vec<u8> {
        let nest = |table: Writer, entry| table.nested(attribute::RES_QP_ENTRY, entry);
        let table = entries.iter().fold(Writer::default(), nest);
        let handle = Writer::default().u32(attribute::DEV_INDEX, 0).text(attribute::DEV_NAME, "mlx5_0");
        handle.nested(attribute::RES_QP, &table).as_bytes().to_vec()
    }

    fn row(port: u8, pid: Option<u32>, name: &str, count: u32) -> QueuePairs {
        QueuePairs { device: "mlx5_0".to_owned(), port, pid, name: name.to_owned(), count }
    }

    #[test]
    fn queue_pairs_are_added_up_by_owner_over_all_parts_of_the_dump() {
        let job = || entry(Some(1), Some(4711), None);
        let answers = [
            part(&[entry(Some(1), None, Some("ib_core")), job(), job()]),
            part(&[job(), entry(None, Some(4711), None), entry(Some(1), Some(99), None)]),
        ];
        let comm = |pid: u32| if pid == 4711 { "python3 -u".to_owned() } else { HIDDEN.to_owned() };
        let seen = table("mlx5_0", &answers, 6, &comm);
        assert_eq!(
            seen,
            [
                row(0, Some(4711), "python3 -u", 1),
                row(1, Some(0), "ib_core", 1),
                row(1, Some(99), "-", 1),
                row(1, Some(4711), "python3 -u", 3),
            ]
        );
        // Two of the eight that the device has are another container's; one that is shown has lost its process.
        let answers = [part(&[job(), entry(Some(1), None, None)])];
        let seen = table("mlx5_0", &answers, 4, &comm);
        assert_eq!(seen, [row(1, Some(4711), "python3 -u", 1), row(0, None, "-", 3)]);
        // A number that cannot be is the largest one, not a small one.
        assert_eq!(table("mlx5_0", &answers, u64::MAX, &comm)[1].count, u32::MAX);
    }

    #[test]
    fn the_summary_says_how_many_there_are() {
        let entry = |name: &str, count: u64| {
            Writer::default()
                .text(attribute::RES_SUMMARY_ENTRY_NAME, name)
                .bytes(attribute::RES_SUMMARY_ENTRY_CURR, &count.to_ne_bytes())
        };
        let table = Writer::default()
            .nested(attribute::RES_SUMMARY_ENTRY, &entry("pd", 3))
            .nested(attribute::RES_SUMMARY_ENTRY, &entry("qp", 300));
        let answer = Writer::default().u32(attribute::DEV_INDEX, 0).nested(attribute::RES_SUMMARY, &table);
        assert_eq!(summary(answer.as_bytes()), 300);
        assert_eq!(summary(&[]), 0);
    }
}
