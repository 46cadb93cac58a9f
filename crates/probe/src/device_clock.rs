//! A device's own clock: what its stamps are in nanoseconds, and whether they can be believed.

use rdmascope_model::Mono;
use std::fmt;
use std::time::Duration;

/// Both clocks are compared over so long. Longer than a second: firmware that is set to count in seconds and nanoseconds (`sec << 32 | ns`)
/// agrees within each second and jumps at its end.
const TEST: Duration = Duration::from_millis(2_500);
/// At each end of the test the pair with the smallest delay counts: a thread that was woken late makes a pair useless, not the clock.
const END: Duration = Duration::from_millis(500);
/// Clocks of working devices differ by less than 0.1 ‰; a wrong unit or format makes 4 times and more. Between them lies what a
/// busy host can add: some milliseconds.
const DIFFERENCE_MAX_PER_MILLE: u64 = 20;

/// Whether a device's stamps may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockTrust {
    /// Too little was seen to tell: use the other clock meanwhile.
    Testing,
    /// They run as the machine's clock does.
    Trusted,
    /// They must not be used, and why.
    Refused(ClockFault),
}

/// What is wrong with a device's stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockFault {
    /// The device does not tell how fast its clock runs.
    NoRate,
    /// Every stamp was 0.
    Zero,
    /// So many nanoseconds by the device passed in so many of the machine's clock.
    Slope {
        /// By the device's stamps; negative when they ran backwards.
        device_ns: i64,
        /// By the machine's monotonic clock.
        host_ns: u64,
    },
}

impl fmt::Display for ClockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRate => f.write_str("the device does not tell the rate of its clock"),
            Self::Zero => f.write_str("the driver leaves the device's stamps 0"),
            Self::Slope { device_ns, host_ns } => write!(
                f,
                "the device's clock ran {:.3} s while the machine's ran {:.3} s",
                *device_ns as f64 / 1e9,
                *host_ns as f64 / 1e9
            ),
        }
    }
}

/// Turns raw stamps of one device into nanoseconds that do not wrap. Their zero point means nothing.
#[derive(Clone, Debug)]
pub struct DeviceClock {
    mask: u64,
    kilohertz: u64,
    /// The last raw stamp, and the same counted on without wrapping.
    last: Option<(u64, i128)>,
    trust: ClockTrust,
    test: Test,
}

/// The comparison with the machine's clock while it runs.
#[derive(Clone, Copy, Debug, Default)]
struct Test {
    began: Option<Mono>,
    first: Option<Pair>,
    last: Option<Pair>,
}

/// One stamp and when it was handled.
#[derive(Clone, Copy, Debug)]
struct Pair {
    device_ns: i64,
    host: Mono,
}

impl Pair {
    fn delay(self) -> i128 {
        i128::from(self.host.0) - i128::from(self.device_ns)
    }

    fn or_less_delayed(self, other: Option<Self>) -> Self {
        other.filter(|other| other.delay() <= self.delay()).unwrap_or(self)
    }
}

impl DeviceClock {
    /// `mask` are the bits that count (`completion_timestamp_mask`), `kilohertz` the steps per millisecond (`hca_core_clock`: kHz, and
    /// not Hz or MHz).
    #[must_use]
    pub fn new(mask: u64, kilohertz: u64) -> Self {
        let counts = mask.wrapping_add(1).is_power_of_two() || mask == u64::MAX;
        let trust = if kilohertz == 0 || mask == 0 || !counts {
            ClockTrust::Refused(ClockFault::NoRate)
        } else {
            ClockTrust::Testing
        };
        Self { mask, kilohertz, last: None, trust, test: Test::default() }
    }

    /// Whether its stamps may be used, as far as is known.
    #[must_use]
    pub fn trust(&self) -> ClockTrust {
        self.trust
    }

    /// A raw stamp in nanoseconds; `None` for one that is no stamp (0, or before the first). Stamps may come in any order, as long as
    /// no two that follow each other are half a turn of the counter apart. `handled` is when the program saw it: while the clock is
    /// tested, both are compared.
    pub fn nanoseconds(&mut self, raw: u64, handled: Mono) -> Option<i64> {
        if self.trust == ClockTrust::Testing && self.test.began.is_none() {
            self.test.began = Some(handled);
        }
        let stamp = if raw == 0 || self.kilohertz == 0 { None } else { self.unwrapped(raw & self.mask) };
        if self.trust == ClockTrust::Testing {
            self.compare(stamp, handled);
        }
        stamp
    }

    fn unwrapped(&mut self, raw: u64) -> Option<i64> {
        let count = match self.last {
            None => i128::from(raw),
            Some((last, count)) => {
                let ahead = raw.wrapping_sub(last) & self.mask;
                let step = if ahead > self.mask / 2 {
                    -i128::from(last.wrapping_sub(raw) & self.mask)
                } else {
                    i128::from(ahead)
                };
                count + step
            }
        };
        self.last = Some((raw, count));
        i64::try_from(count * 1_000_000 / i128::from(self.kilohertz)).ok()
    }

    fn compare(&mut self, stamp: Option<i64>, handled: Mono) {
        let Some(began) = self.test.began else { return };
        let elapsed = handled.since(began);
        if let Some(device_ns) = stamp {
            let pair = Pair { device_ns, host: handled };
            if elapsed < END {
                self.test.first = Some(pair.or_less_delayed(self.test.first));
            } else if elapsed >= TEST {
                self.test.last = Some(pair.or_less_delayed(self.test.last));
            }
        }
        if elapsed < TEST + END {
            return;
        }
        match (self.test.first, self.test.last) {
            (Some(first), Some(last)) => self.judge(first, last),
            // Nothing but zeros, as long as there was one at all.
            _ if self.last.is_none() => self.trust = ClockTrust::Refused(ClockFault::Zero),
            // Stamps came at one end only: begin anew.
            _ => self.test = Test { began: Some(handled), ..Test::default() },
        }
    }

    fn judge(&mut self, first: Pair, last: Pair) {
        let host_ns = last.host.0.saturating_sub(first.host.0);
        let device_ns = last.device_ns.saturating_sub(first.device_ns);
        let difference = (i128::from(host_ns) - i128::from(device_ns)).unsigned_abs();
        let most = u128::from(host_ns) * u128::from(DIFFERENCE_MAX_PER_MILLE) / 1000;
        self.trust = if difference <= most {
            ClockTrust::Trusted
        } else {
            ClockTrust::Refused(ClockFault::Slope { device_ns, host_ns })
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    /// 156.25 MHz.
    const KHZ: u64 = 156_250;

    /// Four seconds of stamps, one each 10 ms, each handled 20 µs later; `raw` gives the stamp at a time in nanoseconds.
    fn tested(clock: &mut DeviceClock, raw: impl Fn(u64) -> u64) -> ClockTrust {
        for tick in 0..400 {
            let at = 7 * SECOND + tick * 10_000_000;
            clock.nanoseconds(raw(at), Mono(at + 20_000));
        }
        clock.trust()
    }

    fn ticks(at: u64) -> u64 {
        (u128::from(at) * u128::from(KHZ) / 1_000_000) as u64
    }

    #[test]
    fn kilohertz_make_nanoseconds() {
        let mut clock = DeviceClock::new(u64::MAX, KHZ);
        let first = clock.nanoseconds(1_000_000, Mono(0)).unwrap();
        let second = clock.nanoseconds(1_000_000 + KHZ, Mono(0)).unwrap();
        assert_eq!(second - first, 1_000_000, "as many steps as kilohertz are a millisecond");
    }

    #[test]
    fn a_counter_that_wraps_goes_on_and_order_does_not_matter() {
        let mut clock = DeviceClock::new((1 << 48) - 1, 1_000_000);
        let before = clock.nanoseconds((1 << 48) - 10, Mono(0)).unwrap();
        let after = clock.nanoseconds(5, Mono(0)).unwrap();
        assert_eq!(after - before, 15);
        let earlier = clock.nanoseconds((1 << 48) - 3, Mono(0)).unwrap();
        assert_eq!(earlier - before, 7, "a stamp from before the wrap, seen after it");
        assert_eq!(clock.nanoseconds(0, Mono(0)), None, "0 is no stamp");
    }

    #[test]
    fn a_clock_that_runs_like_the_machines_is_trusted_after_the_test() {
        let mut clock = DeviceClock::new(u64::MAX, KHZ);
        assert_eq!(clock.trust(), ClockTrust::Testing);
        assert_eq!(tested(&mut clock, ticks), ClockTrust::Trusted);
        // A counter that wraps in the middle of the test: 30 bits are 6.9 s.
        let mut clock = DeviceClock::new((1 << 30) - 1, KHZ);
        assert_eq!(tested(&mut clock, |at| ticks(at - 4 * SECOND)), ClockTrust::Trusted);
    }

    #[test]
    fn hertz_seconds_and_standing_or_backward_clocks_are_refused() {
        let refused = |kilohertz, raw: &dyn Fn(u64) -> u64| {
            let trust = tested(&mut DeviceClock::new(u64::MAX, kilohertz), raw);
            assert!(matches!(trust, ClockTrust::Refused(ClockFault::Slope { .. })), "{trust:?}");
        };
        refused(KHZ * 1000, &ticks);
        refused(KHZ, &|at| at);
        // Real-time format on a device of 1 GHz: right within each second.
        refused(1_000_000, &|at| ((at / SECOND) << 32) | (at % SECOND));
        refused(KHZ, &|_| 4711);
        refused(KHZ, &|at| ticks(100 * SECOND - at));
    }

    #[test]
    fn stamps_of_zero_and_an_unknown_rate_are_refused_with_their_reason() {
        assert_eq!(
            tested(&mut DeviceClock::new(u64::MAX, KHZ), |_| 0),
            ClockTrust::Refused(ClockFault::Zero)
        );
        for (mask, kilohertz) in [(0, KHZ), (u64::MAX, 0), (0b101, KHZ)] {
            let mut clock = DeviceClock::new(mask, kilohertz);
            assert_eq!(tested(&mut clock, |_| 0), ClockTrust::Refused(ClockFault::NoRate));
        }
        assert_eq!(
            ClockFault::Slope { device_ns: 12_500_000_000, host_ns: 2_500_000_000 }.to_string(),
            "the device's clock ran 12.500 s while the machine's ran 2.500 s"
        );
    }

    #[test]
    fn a_host_that_handles_stamps_late_now_and_then_does_not_spoil_the_test() {
        let mut clock = DeviceClock::new(u64::MAX, KHZ);
        for tick in 0..400_u64 {
            let at = 7 * SECOND + tick * 10_000_000;
            let late = if tick % 3 == 0 { 20_000 } else { 300_000_000 };
            clock.nanoseconds(ticks(at), Mono(at + late));
        }
        assert_eq!(clock.trust(), ClockTrust::Trusted);
    }

    #[test]
    fn a_pause_in_the_test_begins_it_anew() {
        let mut clock = DeviceClock::new(u64::MAX, KHZ);
        clock.nanoseconds(ticks(SECOND), Mono(SECOND));
        clock.nanoseconds(0, Mono(60 * SECOND));
        assert_eq!(clock.trust(), ClockTrust::Testing, "one stamp says nothing");
    }
}
