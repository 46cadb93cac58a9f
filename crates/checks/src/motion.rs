//! How one counter moved, for checks to which its total means something even when it was seen once: losses of a link, errors of a port.
//!
//! Sums and rates over several counters are in [`crate::watch`], where one look says nothing.

use crate::counters::{Place, Width, find};
use crate::{Look, Rise, Source};
use rdmascope_model::{Port, Reading};
use std::time::Duration;

/// What a check can say of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Motion {
    /// The machine has no such counter.
    NotThere,
    /// It is there and could not be read; why.
    Unread(String),
    /// It rose by so much within so long.
    By(u64, Duration),
    /// How it moved is not known (seen once, or reset since), for the reason given; it cannot have risen by more than it shows.
    AtMost(u64, String),
    /// It stands at its end: what happens is not counted any more.
    Stuck(u64),
}

/// How a counter moved within the window; `reading` is what it shows now.
pub(crate) fn moved(
    look: &Look<'_>,
    source: &Source,
    name: &str,
    reading: &Reading<u64>,
    window: Duration,
) -> Motion {
    let value = match reading {
        Reading::Value(value) => *value,
        Reading::Absent => return Motion::NotThere,
        Reading::Failed(why) => return Motion::Unread(why.clone()),
    };
    let end = match source {
        Source::Port(..) => find(Place::Port, name).map(|row| row.width),
        Source::Netdev(_) | Source::Pci(_) => None,
    };
    if end == Some(Width::StopsAt(value)) {
        return Motion::Stuck(value);
    }
    match look.past.rise(source, name, window) {
        Rise::By(count, within) => Motion::By(count, within),
        Rise::Saturated(value) => Motion::Stuck(value),
        Rise::Unknown(why) => Motion::AtMost(value, why),
    }
}

/// A counter of `counters/`; failed where the folder is.
pub(crate) fn port_counter(port: &Port, name: &str) -> Reading<u64> {
    let folder = || match port.counters.get("counters/") {
        Some(Reading::Failed(why)) => Reading::Failed(why.clone()),
        _ => Reading::Absent,
    };
    port.counters.get(name).cloned().unwrap_or_else(folder)
}

/// So long, in words: the largest unit that fits.
pub(crate) fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds if seconds < 7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}
