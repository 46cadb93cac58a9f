//! Who holds the queue pairs of each RDMA device, as `rdma res show qp` tells it.

use super::{Asked, attribute};
use crate::nl::{Attributes, NO_SUBSYSTEM, Question, RdmaQuestion, Refusal, Writer};
use crate::parse;
use crate::text;
use crate::tree::Tree;
use rdmascope_model::Reading;
use std::collections::BTreeMap;

const FILE: &str = "rdmascope/rdma/queue_pairs";

/// A file that lists nothing.
const NONE: &str = "none";

/// What stands in the place of an owner that the kernel does not show.
const HIDDEN: &str = "-";

/// Queue pairs of one owner on one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePairs {
    /// RDMA device.
    pub device: String,
    /// Port; 0 while it is not yet bound to one, and on those whose owner is not shown.
    pub port: u8,
    /// Process in our PID namespace; 0: the kernel itself. `None`: the kernel counts them and does not show whose they are, because
    /// they belong to another PID namespace, or to a process that is ending.
    pub pid: Option<u32>,
    /// Name of the process (`comm`), or of the kernel module; `-` where it is not known.
    pub name: String,
    /// How many.
    pub count: u32,
}

/// The queue pairs of all RDMA devices; in a capture from `rdmascope/rdma/queue_pairs`, lines `DEVICE PORT PID NAME COUNT`.
///
/// The kernel asks the driver for each queue pair, on mlx5 one firmware command: a job with thousands costs some 10 ms. `Absent`
/// where there is no RDMA netlink.
pub(crate) fn queue_pairs(tree: &Tree) -> Reading<Vec<QueuePairs>> {
    if !tree.is_real() {
        return text::parsed(tree, FILE, from_text);
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
    for (device, known) in &asked.devices {
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
fn summary(answer: &[u8]) -> u64 {
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
fn table(device: &str, answers: &[Vec<u8>], total: u64, comm: &dyn Fn(u32) -> String) -> Vec<QueuePairs> {
    let mut owners: BTreeMap<(u8, Option<u32>, String), u32> = BTreeMap::new();
    let (mut listed, mut hidden) = (0, 0);
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
    hidden += u32::try_from(total.saturating_sub(listed)).unwrap_or(u32::MAX);
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

/// The file of a capture, path and text; `None` when they could not be read.
pub(crate) fn queue_pairs_file(all: &Reading<Vec<QueuePairs>>) -> Option<(String, String)> {
    let line = |row: &QueuePairs| {
        let pid = row.pid.map_or(HIDDEN.to_owned(), |pid| pid.to_string());
        format!("{} {} {pid} {} {}\n", row.device, row.port, row.name, row.count)
    };
    let write = |all: &Vec<QueuePairs>| match all.is_empty() {
        true => format!("{NONE}\n"),
        false => all.iter().map(line).collect(),
    };
    Some((FILE.to_owned(), text::file(all, write)?))
}

fn from_text(text: &str) -> Result<Vec<QueuePairs>, String> {
    let one = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        // A process may have spaces in its name.
        let [device, port, pid, name @ .., count] = &words[..] else {
            return Err("a line of it is not of the form 'DEVICE PORT PID NAME COUNT'".to_owned());
        };
        let pid = match *pid {
            HIDDEN => None,
            pid => Some(parse::number(pid)?),
        };
        Ok(QueuePairs {
            device: parse::plain(device)?,
            port: parse::number(port)?,
            pid,
            name: parse::plain(&name.join(" "))?,
            count: parse::number(count)?,
        })
    };
    text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != NONE).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;

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

    #[test]
    fn what_is_written_is_read_again() {
        let folder = Folder::new();
        let tree = Tree::open(folder.path()).unwrap();
        assert!(
            matches!(queue_pairs(&tree), Reading::Failed(why) if why.contains("not part of this capture"))
        );
        let full =
            vec![row(1, Some(0), "ib_core", 1), row(1, Some(4711), "python3 -u", 300), row(0, None, "-", 2)];
        for reading in [Reading::Value(full), Reading::Value(Vec::new()), Reading::Absent] {
            let (path, text) = queue_pairs_file(&reading).unwrap();
            folder.write(&path, &text);
            assert_eq!(queue_pairs(&tree), reading);
        }
        assert_eq!(queue_pairs_file(&Reading::failed("EPERM")), None);
        folder.write(FILE, "mlx5_0 1 4711\n");
        assert!(matches!(queue_pairs(&tree), Reading::Failed(_)));
    }
}
