//! Whether a port has been idle long enough for a bandwidth probe on a node that may be working; pure.

use crate::Traffic;
use rdmascope_model::{Mono, Reading};
use std::collections::VecDeque;
use std::time::Duration;

/// How long the port must have been quiet.
const WINDOW: Duration = Duration::from_secs(10);

/// Busy from this share of the rate on (tx and rx together), in percent: a job that computes between two exchanges stays above it
/// over ten seconds, while heartbeats and monitoring stay below. Untested on clusters with jobs.
const BUSY_PERCENT: u64 = 1;

/// Readings closer together than this are not kept: a single burst would look like a busy port.
const STEP_MIN: Duration = Duration::from_millis(500);

/// A newest reading older than this says nothing about now.
const AGE_MAX: Duration = Duration::from_secs(3);

/// Readings that are kept at most: the window at the smallest step, and the ones at its edges.
const SAMPLES_MAX: usize = 24;

/// What the gate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdleState {
    /// Quiet for the whole window.
    Idle,
    /// Somebody uses it.
    Busy {
        /// The busiest stretch within the window, bits per second, our own probes not counted.
        bps: u64,
    },
    /// Not known, and why: counts as busy.
    Unknown(String),
}

impl IdleState {
    /// Idle, or why not, for people.
    ///
    /// # Errors
    /// Why not.
    pub fn words(self) -> Result<(), String> {
        match self {
            Self::Idle => Ok(()),
            Self::Busy { bps } => Err(format!(
                "the port carried {}.{} Mb/s within the last {} s, which is {BUSY_PERCENT} % of its rate or more",
                bps / 1_000_000,
                bps / 100_000 % 10,
                WINDOW.as_secs()
            )),
            Self::Unknown(why) => Err(format!("it cannot be told whether the port is idle: {why}")),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Mono,
    /// All bytes, and our own among them, both since an arbitrary beginning.
    bytes: u64,
    own: u64,
}

/// The last seconds of one port.
#[derive(Clone, Debug)]
pub struct IdleGate {
    samples: VecDeque<Sample>,
    trouble: Option<String>,
}

impl Default for IdleGate {
    fn default() -> Self {
        Self::new()
    }
}

impl IdleGate {
    /// A port of which nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self { samples: VecDeque::new(), trouble: None }
    }

    /// Takes one reading. `own_bytes` is what our own probes moved on this port, both ways, headers included, since the agent
    /// started: it never goes back.
    pub fn push(&mut self, now: Mono, traffic: &Reading<Traffic>, own_bytes: u64) {
        let traffic = match traffic {
            Reading::Value(traffic) => traffic,
            missing => {
                self.samples.clear();
                self.trouble = Some(missing.why_missing().unwrap_or("not read").to_owned());
                return;
            }
        };
        let sample =
            Sample { at: now, bytes: traffic.tx_bytes.wrapping_add(traffic.rx_bytes), own: own_bytes };
        if let Some(last) = self.samples.back() {
            if sample.bytes < last.bytes || sample.own < last.own {
                self.samples.clear();
                self.trouble = Some("the port's byte counters went back (driver reload or reset)".to_owned());
            } else if now.since(last.at) < STEP_MIN {
                return;
            }
        }
        self.samples.push_back(sample);
        // One sample at or before the edge of the window is needed, none before that.
        while self.samples.get(1).is_some_and(|second| now.since(second.at) >= WINDOW)
            || self.samples.len() > SAMPLES_MAX
        {
            self.samples.pop_front();
        }
    }

    /// Whether the port is idle, for its rate in bits per second.
    #[must_use]
    pub fn state(&self, now: Mono, rate_bps: &Reading<u64>) -> IdleState {
        let Some(rate) = rate_bps.value().filter(|rate| **rate > 0) else {
            return IdleState::Unknown(format!(
                "the port's rate is not known: {}",
                rate_bps.why_missing().unwrap_or("0")
            ));
        };
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return IdleState::Unknown(
                self.trouble.clone().unwrap_or_else(|| "the port was not read yet".to_owned()),
            );
        };
        if now.since(last.at) > AGE_MAX {
            return IdleState::Unknown(format!("the last reading is {} s old", now.since(last.at).as_secs()));
        }
        let busiest =
            self.samples.iter().zip(self.samples.iter().skip(1)).map(|(a, b)| bits_per_second(*a, *b)).max();
        match busiest {
            Some(bps) if bps >= rate / 100 * BUSY_PERCENT => IdleState::Busy { bps },
            Some(_) if last.at.since(first.at) >= WINDOW => IdleState::Idle,
            _ => {
                let seen = last.at.since(first.at).as_secs();
                let why = self.trouble.as_deref().map_or_else(String::new, |t| format!("; before that: {t}"));
                IdleState::Unknown(format!(
                    "watched for {seen} s of the {} s that it takes{why}",
                    WINDOW.as_secs()
                ))
            }
        }
    }
}

fn bits_per_second(from: Sample, to: Sample) -> u64 {
    let foreign = (to.bytes - from.bytes).saturating_sub(to.own - from.own);
    let nanoseconds = to.at.since(from.at).as_nanos().max(1);
    u64::try_from(u128::from(foreign) * 8 * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Reading<u64> = Reading::Value(100_000_000_000);
    /// 1 % of 100 Gb/s in bytes per second.
    const LIMIT: u64 = 125_000_000;

    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    fn bytes(tx: u64, rx: u64) -> Reading<Traffic> {
        Reading::Value(Traffic { tx_bytes: tx, rx_bytes: rx })
    }

    /// Pushes one reading each second; `each` gives (tx, rx, own) of that second.
    fn watched(seconds: u64, each: impl Fn(u64) -> (u64, u64, u64)) -> IdleGate {
        let mut gate = IdleGate::new();
        let (mut tx, mut rx, mut own) = (0, 0, 0);
        for second in 0..=seconds {
            gate.push(at(second), &bytes(tx, rx), own);
            let (t, r, o) = each(second);
            (tx, rx, own) = (tx + t, rx + r, own + o);
        }
        gate
    }

    #[test]
    fn ten_quiet_seconds_make_it_idle_and_nine_do_not() {
        let quiet = |_| (LIMIT / 4, LIMIT / 4, 0);
        assert_eq!(watched(10, quiet).state(at(10), &RATE), IdleState::Idle);
        assert!(
            matches!(watched(9, quiet).state(at(9), &RATE), IdleState::Unknown(why) if why.contains("9 s of the 10 s"))
        );
    }

    #[test]
    fn one_busy_second_of_ten_is_busy_until_it_is_out_of_the_window() {
        let burst = |second| if second == 5 { (LIMIT / 2, LIMIT / 2, 0) } else { (0, 0, 0) };
        assert_eq!(watched(10, burst).state(at(10), &RATE), IdleState::Busy { bps: 1_000_000_000 });
        let why = watched(10, burst).state(at(10), &RATE).words().unwrap_err();
        assert!(why.starts_with("the port carried 1000.0 Mb/s within the last 10 s"), "{why}");
        assert!(matches!(watched(15, burst).state(at(15), &RATE), IdleState::Busy { .. }));
        assert_eq!(watched(16, burst).state(at(16), &RATE), IdleState::Idle);
    }

    #[test]
    fn our_own_probes_do_not_make_a_port_busy_and_do_not_hide_a_job() {
        let own = |_| (LIMIT * 10, 0, LIMIT * 10);
        assert_eq!(watched(10, own).state(at(10), &RATE), IdleState::Idle);
        let with_job = |_| (LIMIT * 10, LIMIT, LIMIT * 10);
        assert!(matches!(watched(10, with_job).state(at(10), &RATE), IdleState::Busy { .. }));
    }

    #[test]
    fn what_is_not_known_is_never_idle() {
        let quiet = |_| (0, 0, 0);
        let mut gate = watched(10, quiet);
        assert!(matches!(gate.state(at(10), &Reading::Absent), IdleState::Unknown(_)));
        assert!(matches!(gate.state(at(10), &Reading::Value(0)), IdleState::Unknown(_)));
        assert!(
            matches!(gate.state(at(14), &RATE), IdleState::Unknown(why) if why == "the last reading is 4 s old")
        );
        gate.push(at(11), &Reading::Failed("EINVAL".into()), 0);
        assert_eq!(gate.state(at(11), &RATE), IdleState::Unknown("EINVAL".into()));
        gate.push(at(12), &bytes(0, 0), 0);
        assert!(matches!(gate.state(at(12), &RATE), IdleState::Unknown(_)));
        assert!(matches!(IdleGate::new().state(at(0), &RATE), IdleState::Unknown(_)));
    }

    #[test]
    fn a_counter_that_went_back_starts_the_watch_again() {
        let mut gate = watched(10, |_| (1_000, 0, 0));
        gate.push(at(11), &bytes(0, 0), 0);
        assert!(matches!(gate.state(at(11), &RATE), IdleState::Unknown(why) if why.contains("went back")));
    }

    #[test]
    fn readings_in_quick_succession_do_not_turn_a_packet_into_a_busy_port() {
        let mut gate = watched(10, |_| (0, 0, 0));
        gate.push(Mono(10_000_001_000), &bytes(9_000, 0), 0);
        assert_eq!(gate.state(at(10), &RATE), IdleState::Idle);
        gate.push(at(11), &bytes(9_000, 0), 0);
        assert_eq!(gate.state(at(11), &RATE), IdleState::Idle);
    }
}
