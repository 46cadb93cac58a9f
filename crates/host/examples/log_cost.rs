//! What the kernel-log rules cost: memory of the built-in set, and time for a line. Run it with `--release`.

use rdmascope_checks::log::{Rules, Tally, Times};
use rdmascope_model::{Reading, Wall};
use std::io::Write as _;

const LINES: &str = include_str!("../../checks/rules/published-lines.txt");
const ROUNDS: u32 = 5_000;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let before = resident_kib()?;
    let began = processor_ns()?;
    let rules = Rules::builtin();
    let loading = processor_ns()? - began;
    let after = resident_kib()?;
    writeln!(out, "rules: {}, read in {:.1} ms", rules.docs().len(), loading as f64 / 1e6)?;
    writeln!(out, "resident: {} KiB more ({before} before)", after.saturating_sub(before))?;
    let published: Vec<&str> = LINES.lines().filter_map(|line| line.splitn(3, ' ').nth(2)).collect();
    per_line(&mut out, "published lines, nearly all known", &rules, &published)?;
    let strange: Vec<String> = (0..90)
        .map(|n| {
            format!(
                "[  12.{n:06}] usb 1-{n}: new high-speed USB device number {n} using xhci_hcd, SerialNumber=1"
            )
        })
        .collect();
    let strange: Vec<&str> = strange.iter().map(String::as_str).collect();
    per_line(&mut out, "lines that no rule knows", &rules, &strange)
}

fn per_line(out: &mut impl std::io::Write, what: &str, rules: &Rules, lines: &[&str]) -> std::io::Result<()> {
    let times =
        Times { read_at: Wall(1_796_000_000_000), booted_at: Reading::Value(Wall(1_795_000_000_000)) };
    let mut tally = Tally::new(rules, Some(1));
    let began = processor_ns()?;
    for _ in 0..ROUNDS {
        for line in lines {
            tally.line(line, &times);
        }
    }
    let nanoseconds = (processor_ns()? - began) / (u64::from(ROUNDS) * lines.len() as u64);
    writeln!(out, "{what}: {nanoseconds} ns a line, {} entries", tally.log().hits.len())
}

/// Time on a processor so far, nanoseconds: other work on the machine does not count.
fn processor_ns() -> std::io::Result<u64> {
    Ok(first_number(&std::fs::read_to_string("/proc/self/schedstat")?))
}

fn resident_kib() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.map_or(0, first_number))
}

fn first_number(text: &str) -> u64 {
    text.split_ascii_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}
