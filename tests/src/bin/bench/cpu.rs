//! Processor time: other work on the machine does not count, only its caches are shared.

use super::median;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Clock ticks per second of `/proc/PID/stat` (USER_HZ, 100 on every Linux that we run on).
const TICKS_PER_SECOND: f64 = 100.0;
/// Measurements of one thing; the median counts.
const RUNS: usize = 9;

/// Milliseconds of one `work`, of all threads of this process; median of several runs of `times` each.
pub(crate) fn milliseconds(times: u32, mut work: impl FnMut()) -> f64 {
    let mut run = || {
        let before = of_this_process();
        (0..times).for_each(|_| work());
        (of_this_process() - before).as_secs_f64() * 1e3 / f64::from(times)
    };
    // Fills caches and starts threads.
    run();
    median((0..RUNS).map(|_| run()).collect())
}

fn of_this_process() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// Seconds on a processor of a process since it began, from fields 14 and 15 of `/proc/PID/stat`.
pub(crate) fn seconds_of(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in brackets may hold spaces; what follows it begins with field 3.
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = rest.split_whitespace().skip(11).take(2).map(|n| n.parse().unwrap_or(f64::NAN));
    ticks.sum::<f64>() / TICKS_PER_SECOND
}

/// MB resident of a process.
pub(crate) fn resident_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(f64::NAN);
    kib * 1024.0 / 1e6
}
