//! What a process costs: memory and processor time, from its own files.

use rdmascope_model::Reading;
use std::time::Duration;

/// Clock ticks per second of `/proc/PID/stat` (USER_HZ, 100 on every Linux that we run on).
const TICKS_PER_SECOND: u64 = 100;

/// What a process has cost so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessCost {
    /// Time on processors of all its threads, to 10 ms.
    pub processor: Duration,
    /// Bytes of memory that it has now.
    pub resident: u64,
    /// Bytes of memory that it had at most.
    pub resident_max: u64,
}

impl ProcessCost {
    /// What a process has cost so far.
    #[must_use]
    pub fn of(process: u32) -> Reading<Self> {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}"));
        let (stat, status) = match (read("stat"), read("status")) {
            (Ok(stat), Ok(status)) => (stat, status),
            (Err(error), _) | (_, Err(error)) => {
                return Reading::Failed(format!("process {process} cannot be read: {error}"));
            }
        };
        match parse(&stat, &status) {
            Some(cost) => Reading::Value(cost),
            None => Reading::Failed(format!("the files of process {process} are not as expected")),
        }
    }
}

fn parse(stat: &str, status: &str) -> Option<ProcessCost> {
    // The name in brackets may hold spaces; what follows it begins with field 3, and fields 14 and 15 are the times.
    let (_, rest) = stat.rsplit_once(") ")?;
    let times: Option<Vec<u64>> = rest.split_whitespace().skip(11).take(2).map(|n| n.parse().ok()).collect();
    let ticks: u64 = times.filter(|times| times.len() == 2)?.iter().sum();
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1_024)
    };
    Some(ProcessCost {
        processor: Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND),
        resident: bytes("VmRSS")?,
        resident_max: bytes("VmHWM")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_behind_a_name_with_brackets_are_the_right_ones() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 150 9 9 20 0 1 0 100 1000 200 0";
        let status = "Name:\ta) b\nVmHWM:\t    3000 kB\nVmRSS:\t    2000 kB\n";
        let cost = parse(stat, status).unwrap();
        assert_eq!(
            (cost.processor, cost.resident, cost.resident_max),
            (Duration::from_secs(4), 2_048_000, 3_072_000)
        );
        assert_eq!(parse("7 (a) S 1", status), None);
        assert_eq!(parse(stat, "VmRSS: 1 kB"), None);
    }

    #[test]
    fn a_process_that_is_not_there_is_a_reading_that_failed() {
        assert!(matches!(ProcessCost::of(u32::MAX), Reading::Failed(_)));
        let own = ProcessCost::of(std::process::id());
        assert!(matches!(own, Reading::Value(cost) if cost.resident > 0), "{own:?}");
    }
}
