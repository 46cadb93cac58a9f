//! Takes the prefix off a log line, whatever shape it has, and keeps what it tells: the time, and whether the kernel wrote the line.

use super::stamp::{self, Stamp};
use std::borrow::Cow;

/// Who wrote a line, as far as its prefix tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The kernel: facility 0, or the tag `kernel:`.
    Kernel,
    /// A program: another facility, or a tag with a process id.
    Program,
    /// The prefix does not say.
    Unknown,
}

/// A line without its prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it was written.
    pub stamp: Stamp,
    /// Who wrote it.
    pub origin: Origin,
    /// The message; of a program's line, with the tag.
    pub text: Cow<'a, str>,
}

/// Reads one line: a record of `/dev/kmsg` (`level,sequence,microseconds,flags;text`), `<level>` with or without a time, any of
/// dmesg's forms, a journal or syslog line, or the bare message.
#[must_use]
pub fn parse(line: &str) -> Record<'_> {
    let line = line.trim_end_matches(['\n', '\r']).trim_start();
    if let Some((priority, micros, text)) = kmsg(line) {
        // The kernel writes a line break inside a message as \x0a there (Documentation/ABI/testing/dev-kmsg).
        let text = if text.contains("\\x0a") { text.replace("\\x0a", " ").into() } else { text.into() };
        return Record { stamp: Stamp::SinceBoot(micros), origin: facility(priority), text };
    }
    let (mut origin, mut rest) = priority(line);
    let mut stamp = Stamp::None;
    if let Some((found, after)) = stamp::text(rest) {
        (stamp, rest) = (found, after);
        let (tagged, after) = tag(rest);
        if tagged != Origin::Unknown {
            origin = tagged;
        }
        rest = after;
    }
    let (since_boot, after) = boot_stamp(rest);
    if let (Stamp::None, Some(micros)) = (&stamp, since_boot) {
        stamp = Stamp::SinceBoot(micros);
    }
    Record { stamp, origin, text: after.into() }
}

/// `6,3973,227996636,-;text`: priority, microseconds since boot, message.
fn kmsg(line: &str) -> Option<(u32, u64, &str)> {
    let (head, text) = line.split_once(';')?;
    let mut fields = head.split(',');
    let priority = fields.next()?.parse().ok()?;
    let _sequence: u64 = fields.next()?.parse().ok()?;
    let micros = fields.next()?.parse().ok()?;
    fields.next()?;
    Some((priority, micros, text))
}

/// Priority and facility of syslog: facility in the bits above the lowest three.
fn facility(priority: u32) -> Origin {
    if priority >> 3 == 0 { Origin::Kernel } else { Origin::Program }
}

/// `<6>`, or `kern  :warn  : ` of `dmesg -x`.
fn priority(line: &str) -> (Origin, &str) {
    if let Some((number, rest)) = line.strip_prefix('<').and_then(|rest| rest.split_once('>'))
        && let Ok(number) = number.parse()
    {
        return (facility(number), rest.trim_start());
    }
    let mut parts = line.splitn(3, ':');
    let (Some(who), Some(level), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return (Origin::Unknown, line);
    };
    let levels = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
    if levels.contains(&level.trim_end()) {
        let origin = if who.trim_end() == "kern" { Origin::Kernel } else { Origin::Program };
        return (origin, rest.trim_start());
    }
    (Origin::Unknown, line)
}

/// `host kernel: ` and `host name[pid]: ` after a time of day; the second keeps its tag in the text.
fn tag(rest: &str) -> (Origin, &str) {
    if let Some(after) = rest.strip_prefix("kernel: ") {
        return (Origin::Kernel, after);
    }
    let Some((_, after)) = rest.split_once(' ') else { return (Origin::Unknown, rest) };
    if let Some(message) = after.strip_prefix("kernel: ") {
        return (Origin::Kernel, message);
    }
    let tag = after.split(' ').next().unwrap_or_default();
    let named = tag.strip_suffix("]:").and_then(|tag| tag.split_once('['));
    if named.is_some_and(|(_, pid)| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit())) {
        return (Origin::Program, after);
    }
    (Origin::Unknown, rest)
}

/// `[   12.345678] ` with, maybe, the caller after it (`[T123] `, `[C1] `).
fn boot_stamp(line: &str) -> (Option<u64>, &str) {
    let read = || {
        let (inside, rest) = line.strip_prefix('[')?.split_once(']')?;
        let (seconds, fraction) = inside.trim().split_once('.')?;
        let seconds: u64 = seconds.parse().ok()?;
        let digits = u32::try_from(fraction.len()).ok().filter(|n| (1..=6).contains(n))?;
        let micros = fraction.parse::<u64>().ok()? * 10_u64.pow(6 - digits);
        Some((seconds.checked_mul(1_000_000)?.checked_add(micros)?, rest))
    };
    let Some((micros, rest)) = read() else { return (None, line) };
    let rest = rest.trim_start();
    let caller = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let is_caller = |inside: &str| {
        let id = inside.trim().strip_prefix(['T', 'C']);
        id.is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
    };
    match caller {
        Some((inside, after)) if is_caller(inside) => (Some(micros), after.trim_start()),
        _ => (Some(micros), rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_model::Wall;

    #[track_caller]
    fn seen(line: &str, stamp: Stamp, origin: Origin, text: &str) {
        assert_eq!(parse(line), Record { stamp, origin, text: text.into() }, "{line}");
    }

    #[test]
    fn every_published_shape_gives_up_its_message() {
        use Origin::{Kernel, Program, Unknown};
        let text = "mlx5_core 0000:41:00.1: x";
        seen("[    2.608284] mlx5_core 0000:41:00.1: x", Stamp::SinceBoot(2_608_284), Unknown, text);
        seen("[    2.608284][    T1] mlx5_core 0000:41:00.1: x", Stamp::SinceBoot(2_608_284), Unknown, text);
        seen("<6>[   14.952018] mlx5_core 0000:41:00.1: x\n", Stamp::SinceBoot(14_952_018), Kernel, text);
        seen("<30>[   14.952018] systemd[1]: x", Stamp::SinceBoot(14_952_018), Program, "systemd[1]: x");
        seen(
            "6,3973,227996636,-;nvidia-peermem x",
            Stamp::SinceBoot(227_996_636),
            Kernel,
            "nvidia-peermem x",
        );
        seen("12,3973,5,-;forged: x", Stamp::SinceBoot(5), Program, "forged: x");
        seen("3,1,5,-,caller=T1;one\\x0atwo", Stamp::SinceBoot(5), Kernel, "one two");
        let december = Stamp::At(Wall(1_733_064_880_000));
        seen("[Sun Dec  1 14:54:40 2024] node-a kernel: mlx5_core 0000:41:00.1: x", december, Kernel, text);
        seen("[Sun Dec  1 14:54:40 2024] mlx5_core 0000:41:00.1: x", december, Unknown, text);
        let january = Stamp::At(Wall(1_737_448_121_287));
        seen(
            "kern  :warn  : 2025-01-21T08:28:41,287197+00:00 mlx5_core 0000:41:00.1: x",
            january,
            Kernel,
            text,
        );
        seen("user  :info  : [   14.952018] x", Stamp::SinceBoot(14_952_018), Program, "x");
        let october = Stamp::At(Wall(1_791_021_398_000));
        seen("2026-10-03T05:56:38-0400 h kernel: mlx5_core 0000:41:00.1: x", october, Kernel, text);
        let march = Stamp::ThisYear { month: 3, day: 3, second: 36_904 };
        seen("Mar  3 10:15:04 node-a kernel: mlx5_core 0000:41:00.1: x", march, Kernel, text);
        seen("Mar  3 10:15:04 node-a kernel: [ 5.000001] mlx5_core 0000:41:00.1: x", march, Kernel, text);
        seen("Mar  3 10:15:04 a networkd[53]: ib6: x", march, Program, "networkd[53]: ib6: x");
        seen("mlx5_core: INFO: synd 0x8: x", Stamp::None, Unknown, "mlx5_core: INFO: synd 0x8: x");
        seen(
            "mlx5_cmd_out_err:838:(pid 1441871): x",
            Stamp::None,
            Unknown,
            "mlx5_cmd_out_err:838:(pid 1441871): x",
        );
    }

    #[test]
    fn what_only_looks_like_a_prefix_stays() {
        for line in ["[", "[]", "[1.]", "<", "<x>y", "a,b,c,d;e", "May", "2026-13-01T", "[Sun Dec", "::", ""]
        {
            assert_eq!(parse(line).text, line);
        }
    }
}
