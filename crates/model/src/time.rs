//! Points in time as plain numbers, so that pure code can run on a virtual clock; only shells and tests make them.

use std::fmt;
use std::time::Duration;

/// Nanoseconds on a clock that never goes back; the zero point means nothing and differs between processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

impl Mono {
    /// The same clock `by` later.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; zero when it lies in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Milliseconds since 1970-01-01 UTC on the machine's clock, which may step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub u64);

impl Wall {
    /// How long ago `earlier` was; zero when it lies in the future (a clock that stepped back).
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Both clocks, read together: one for deadlines, one for people and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For deadlines and durations.
    pub mono: Mono,
    /// For what is shown and kept.
    pub wall: Wall,
}

impl fmt::Display for Wall {
    /// RFC 3339 in UTC with milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{:03}Z", ms % 1_000)
    }
}

/// Days since 1970-01-01 to a Gregorian date; counts in 400-year eras that begin on 1 March, so that the leap day is last.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_is_shown_as_a_date_that_people_know() {
        // `date -u -d @951782400` and `@1796000000`.
        assert_eq!(Wall(951_782_400_000).to_string(), "2000-02-29T00:00:00.000Z");
        assert_eq!(Wall(1_796_000_000_123).to_string(), "2026-11-30T00:53:20.123Z");
        assert_eq!(Wall(0).to_string(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_clock_that_stepped_back_gives_no_negative_age() {
        assert_eq!(Wall(5).since(Wall(9)), Duration::ZERO);
        assert_eq!(Mono(5).since(Mono(9)), Duration::ZERO);
    }
}
