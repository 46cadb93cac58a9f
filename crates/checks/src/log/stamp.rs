//! Times as logs write them, made into the machine's clock.

use rdmascope_model::{Reading, Wall};

/// A time as a line gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// The line has none.
    None,
    /// Microseconds since boot.
    SinceBoot(u64),
    /// A date. One without a zone (`dmesg -T`) is taken as UTC.
    At(Wall),
    /// A date without a year, taken as UTC.
    ThisYear {
        /// 1 to 12.
        month: u32,
        /// 1 to 31.
        day: u32,
        /// Second of the day.
        second: u32,
    },
}

/// What is needed to place times on the machine's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// When the log was read.
    pub read_at: Wall,
    /// When the machine booted.
    pub booted_at: Reading<Wall>,
}

impl Times {
    /// The time of a line; failed where it has none, or where the boot time is needed and not known.
    #[must_use]
    pub fn wall(&self, stamp: Stamp) -> Reading<Wall> {
        match stamp {
            Stamp::None => Reading::failed("the line has no time"),
            Stamp::At(wall) => Reading::Value(wall),
            Stamp::SinceBoot(micros) => {
                self.booted_at.clone().map(|booted| Wall(booted.0.saturating_add(micros / 1_000)))
            }
            Stamp::ThisYear { month, day, second } => Reading::Value(self.latest(month, day, second)),
        }
    }

    /// The latest such date that is not more than a day after the reading: a log holds no future, but zones differ.
    fn latest(&self, month: u32, day: u32, second: u32) -> Wall {
        let year = self.read_at.0 / 31_556_952_000 + 1970;
        // A capture says when it was read, and may say anything.
        let start_of = |year| days(year, month, day).saturating_mul(86_400_000);
        let at = |year| Wall(start_of(year).saturating_add(u64::from(second) * 1_000));
        let latest_possible = self.read_at.0.saturating_add(86_400_000);
        let candidates = [year + 1, year, year.saturating_sub(1).max(1970)];
        candidates.into_iter().map(at).find(|wall| wall.0 <= latest_possible).unwrap_or(self.read_at)
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A date at the beginning of a line, and the rest of the line.
pub(crate) fn text(line: &str) -> Option<(Stamp, &str)> {
    bracketed(line).or_else(|| iso(line)).or_else(|| syslog(line))
}

/// `[Sun Dec  1 14:54:40 2024] `.
fn bracketed(line: &str) -> Option<(Stamp, &str)> {
    let (inside, rest) = line.strip_prefix('[')?.split_once(']')?;
    let mut words = inside.split_ascii_whitespace();
    words.next()?;
    let (month, day) = (month(words.next()?)?, number(words.next()?, 31)?);
    let second = clock(words.next()?)?;
    let year = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let wall = Wall(days(year, month, day) * 86_400_000 + u64::from(second) * 1_000);
    Some((Stamp::At(wall), rest.trim_start()))
}

/// `2026-10-03T05:56:38-0400`, also with a fraction after `,` or `.`, and with `Z` or `+00:00`.
fn iso(line: &str) -> Option<(Stamp, &str)> {
    let (word, rest) = line.split_once(' ')?;
    let (date, time) = word.split_once('T')?;
    let mut date = date.split('-');
    let year = date.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let (month, day) = (number(date.next()?, 12)?, number(date.next()?, 31)?);
    let second = clock(time.get(..8)?)?;
    let after = &time[8..];
    let (fraction, zone) = match after.strip_prefix(['.', ',']) {
        Some(after) => after.split_at(after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len())),
        None => ("", after),
    };
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    let millis: i64 = digits.parse().ok()?;
    let east = match zone.strip_prefix('-') {
        Some(offset) => -minutes(offset)?,
        None => minutes(zone.trim_start_matches(['+', 'Z']))?,
    };
    let days = i64::try_from(days(year, month, day)).ok()?;
    let wall = days * 86_400_000 + i64::from(second) * 1_000 + millis - east * 60_000;
    Some((Stamp::At(Wall(u64::try_from(wall).ok()?)), rest.trim_start()))
}

/// `0400` and `04:00` as minutes; nothing is UTC.
fn minutes(offset: &str) -> Option<i64> {
    let digits = offset.replace(':', "");
    if digits.is_empty() {
        return Some(0);
    }
    let value: i64 = digits.parse().ok().filter(|_| digits.len() == 4 && digits.is_ascii())?;
    Some(value / 100 * 60 + value % 100)
}

/// `Aug 17 06:18:01 `.
fn syslog(line: &str) -> Option<(Stamp, &str)> {
    let month = month(line.get(..3)?)?;
    let rest = line.get(3..)?.strip_prefix(' ')?.trim_start();
    let (day, rest) = rest.split_once(' ')?;
    let (time, rest) = rest.split_once(' ')?;
    Some((Stamp::ThisYear { month, day: number(day, 31)?, second: clock(time)? }, rest.trim_start()))
}

fn month(name: &str) -> Option<u32> {
    MONTHS.iter().position(|known| *known == name).and_then(|i| u32::try_from(i + 1).ok())
}

fn number(text: &str, most: u32) -> Option<u32> {
    text.parse().ok().filter(|n| (1..=most).contains(n))
}

/// `14:54:40` as the second of the day.
fn clock(text: &str) -> Option<u32> {
    let mut parts = text.split(':').map(|part| part.parse::<u32>().ok());
    let (h, m, s) = (parts.next()??, parts.next()??, parts.next()??);
    (parts.next().is_none() && h < 24 && m < 60 && s < 61).then_some(h * 3_600 + m * 60 + s)
}

/// Days from 1970-01-01 to a Gregorian date; a year begins on 1 March here, so that the leap day is its last.
fn days(year: u64, month: u32, day: u32) -> u64 {
    let (year, month) = (year - u64::from(month <= 2), u64::from(month));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + u64::from(day) - 1;
    (365 * year + year / 4 - year / 100 + year / 400 + day_of_year).saturating_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_that_people_know() {
        // `date -u -d @951782400` is 2000-02-29, `@1796000000` is 2026-11-30T00:53:20.
        assert_eq!(days(2000, 2, 29) * 86_400, 951_782_400);
        assert_eq!(days(1970, 1, 1), 0);
        let (stamp, rest) = text("2026-11-30T02:53:20.5+02:00 x").unwrap();
        assert_eq!((stamp, rest), (Stamp::At(Wall(1_796_000_000_500)), "x"));
        assert_eq!(text("2026-11-30T00:53:20Z x").unwrap().0, Stamp::At(Wall(1_796_000_000_000)));
    }

    #[test]
    fn a_date_without_a_year_is_the_latest_one_that_is_not_in_the_future() {
        let times = Times { read_at: Wall(1_796_000_000_000), booted_at: Reading::Absent };
        let on =
            |month, day| times.wall(Stamp::ThisYear { month, day, second: 0 }).value().unwrap().to_string();
        assert!(on(11, 30).starts_with("2026-11-30"));
        assert!(on(12, 1).starts_with("2026-12-01"), "zones differ by a day at most");
        assert!(on(12, 2).starts_with("2025-12-02"));
    }

    #[test]
    fn a_reading_at_the_end_of_all_time_has_a_time_too() {
        let times = Times { read_at: Wall(u64::MAX), booted_at: Reading::Absent };
        let latest = times.latest(12, 31, 86_399);
        assert!(latest.0 > u64::MAX - 2 * 31_622_400_000, "within the last two years: {}", latest.0);
    }

    #[test]
    fn a_time_since_boot_needs_the_boot() {
        let mut times = Times { read_at: Wall(9), booted_at: Reading::Value(Wall(1_000)) };
        assert_eq!(times.wall(Stamp::SinceBoot(2_500_000)), Reading::Value(Wall(3_500)));
        times.booted_at = Reading::failed("no /proc");
        assert!(matches!(times.wall(Stamp::SinceBoot(1)), Reading::Failed(_)));
        assert!(matches!(times.wall(Stamp::None), Reading::Failed(_)));
    }
}
