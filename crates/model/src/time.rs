//! Points in time as plain numbers, so that pure code can run on a virtual clock; only shells and tests make them.

use std::fmt;
use std::str::FromStr;
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

impl Now {
    /// The same moment with a wall clock that has not gone back since `last`: one that was set back goes on from where it was, or what
    /// is old would be as good as new for as long as it was set back.
    #[must_use]
    pub fn going_on_from(self, last: Self) -> Self {
        let since = u64::try_from(self.mono.since(last.mono).as_millis()).unwrap_or(u64::MAX);
        Self { wall: self.wall.max(Wall(last.wall.0.saturating_add(since))), ..self }
    }
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

/// The text is not a time in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WallError(String);

impl fmt::Display for WallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a time in UTC, such as 2026-11-30T00:53:20Z", self.0)
    }
}

impl std::error::Error for WallError {}

impl FromStr for Wall {
    type Err = WallError;

    /// RFC 3339 in UTC (`Z`), with or without a fraction of the second, of which milliseconds count; or the day alone, which means its begin.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parsed(text).ok_or_else(|| WallError(text.chars().take(40).collect()))
    }
}

fn parsed(text: &str) -> Option<Wall> {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let number = |digits: &str, width: usize| -> Option<u64> {
        let all_digits = digits.len() == width && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse().ok().filter(|_| all_digits)
    };
    let mut parts = date.split('-');
    let mut part = |width| number(parts.next()?, width);
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    let (whole, fraction) = time.strip_suffix('Z')?.split_once('.').unwrap_or((time.strip_suffix('Z')?, "0"));
    let mut parts = whole.split(':');
    let mut part = || number(parts.next()?, 2);
    let (h, m, s) = (part()?, part()?, part()?);
    if parts.next().is_some() || fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let ms = format!("{fraction:0<3}").get(..3)?.parse::<u64>().ok()?;
    let days = days_from_civil(year, month, day)?;
    let there = civil_from_days(days) == (year, month, day) && h < 24 && m < 60 && s < 60;
    there.then(|| Wall(days * 86_400_000 + h * 3_600_000 + m * 60_000 + s * 1_000 + ms))
}

/// The other way; a day that does not exist becomes another one.
fn days_from_civil(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * shifted + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
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
    fn a_clock_that_is_set_back_goes_on_and_one_that_is_set_ahead_is_followed() {
        let at = |seconds: u64, wall| Now { mono: Mono(seconds * 1_000_000_000), wall: Wall(wall) };
        let last = at(10, 500_000);
        assert_eq!(at(12, 502_000).going_on_from(last), at(12, 502_000));
        assert_eq!(at(12, 9).going_on_from(last), at(12, 502_000));
        assert_eq!(at(12, 900_000).going_on_from(last), at(12, 900_000));
    }

    #[test]
    fn a_time_reads_back_as_it_is_shown_and_what_is_none_is_refused() {
        for ms in [0, 951_782_400_000, 951_868_799_999, 1_796_000_000_123, 4_107_542_399_000] {
            assert_eq!(Wall(ms).to_string().parse(), Ok(Wall(ms)));
        }
        assert_eq!("2026-11-30".parse::<Wall>().unwrap().to_string(), "2026-11-30T00:00:00.000Z");
        assert_eq!("2026-11-30T00:53:20.1Z".parse(), Ok(Wall(1_796_000_000_100)));
        for bad in [
            "",
            "2026-02-30",
            "2026-13-01",
            "1969-12-31",
            "2026-11-30T24:00:00Z",
            "2026-11-30T00:53:20",
            "2026-11-30T00:53:20+01:00",
            "2026-1-1",
            "2026-11-30T00:53:20.Z",
            "2026-00-01",
            "2026-01-00",
            "\u{fc}026-01-01",
        ] {
            assert!(bad.parse::<Wall>().is_err(), "{bad} was taken for a time");
        }
    }

    #[test]
    fn a_clock_that_stepped_back_gives_no_negative_age() {
        assert_eq!(Wall(5).since(Wall(9)), Duration::ZERO);
        assert_eq!(Mono(5).since(Mono(9)), Duration::ZERO);
    }
}
