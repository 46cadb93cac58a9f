//! Numbers as people read them: three digits that count, and one unit for the whole table.

use rdmascope_expose::api::{BandwidthFigures, CellView, LatencyFigures, PingFigures, PingSizeFigures};

/// Unit of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// From nanoseconds.
    Microseconds,
    /// From bits per second.
    GigabitsPerSecond,
    /// From bits per second, where Gbit/s would be below 1.
    MegabytesPerSecond,
}

impl Unit {
    /// The unit for rates of which `largest` is the largest, bits per second.
    pub(crate) fn of_rates(largest: u64) -> Self {
        if largest >= 1_000_000_000 { Self::GigabitsPerSecond } else { Self::MegabytesPerSecond }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Microseconds => "µs",
            Self::GigabitsPerSecond => "Gbit/s",
            Self::MegabytesPerSecond => "MB/s",
        }
    }

    /// The number alone.
    pub(crate) fn number(self, value: u64) -> String {
        three_digits(value as f64 / self.divisor())
    }

    /// Number and unit.
    pub(crate) fn show(self, value: u64) -> String {
        format!("{} {}", self.number(value), self.as_str())
    }

    fn divisor(self) -> f64 {
        match self {
            Self::Microseconds => 1e3,
            Self::GigabitsPerSecond => 1e9,
            Self::MegabytesPerSecond => 8e6,
        }
    }
}

fn three_digits(value: f64) -> String {
    // At the border the next smaller form would round up to one digit more.
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// `2.9 times the median`.
pub(crate) fn ratio(ratio: f64) -> String {
    format!("{} times the median", three_digits(ratio))
}

/// `2.5 % lost`.
pub(crate) fn loss(ratio: f64) -> String {
    format!("{} % lost", three_digits(ratio * 100.0))
}

/// What was measured of a pair's latency; nothing where it was not.
pub(crate) fn latency(cell: &CellView<LatencyFigures>) -> Option<String> {
    let figures = cell.figures.as_ref()?;
    let us = Unit::Microseconds;
    let mut text = format!(
        "latency    p50 {} (min {}, p90 {}",
        us.show(figures.p50_ns),
        us.number(figures.min_ns),
        us.number(figures.p90_ns)
    );
    for (name, quantile) in [("p99", figures.p99_ns), ("p99.9", figures.p999_ns)] {
        if let Some(quantile) = quantile {
            text.push_str(&format!(", {name} {}", us.number(quantile)));
        }
    }
    text.push_str(&format!(", max {}) from {} samples", us.number(figures.max_ns), figures.count));
    if figures.host_delayed > 0 {
        text.push_str(&format!(", {} of them delayed by the host itself", figures.host_delayed));
    }
    Some(text + &besides(cell.ratio_to_median, cell.retransmits))
}

/// What was measured of a pair's bandwidth; nothing where it was not.
pub(crate) fn bandwidth(cell: &CellView<BandwidthFigures>) -> Option<String> {
    let figures = cell.figures.as_ref()?;
    let unit = Unit::of_rates(figures.average_bits_per_second);
    let mut text = format!("bandwidth  {} on average", unit.show(figures.average_bits_per_second));
    if let Some(worst) = figures.worst_window_bits_per_second {
        text.push_str(&format!(", {} in the slowest tenth of the time", unit.show(worst)));
    }
    let seconds = three_digits(figures.duration_ns as f64 / 1e9);
    text.push_str(&format!(" ({} writes in {seconds} s)", figures.count));
    Some(text + &besides(cell.ratio_to_median, cell.retransmits))
}

/// What pings found of a pair; nothing where none were sent.
pub(crate) fn ping(cell: &CellView<PingFigures>) -> Option<String> {
    let figures = cell.figures.as_ref()?;
    let us = |ns: Option<u64>| ns.map_or("unknown".to_owned(), |ns| Unit::Microseconds.show(ns));
    let mut text = format!(
        "ping       network p50 {} (large {}, max {}), responder {}, prober {}; stamped by the {}\n",
        us(figures.network_p50_ns),
        us(figures.large_p50_ns),
        us(figures.network_max_ns),
        us(figures.responder_p50_ns),
        us(figures.prober_p50_ns),
        if figures.clock == "hw" { "adapter" } else { "host" }
    );
    if figures.host_delayed > 0 {
        text.push_str(&format!("           {} answers delayed by a host itself\n", figures.host_delayed));
    }
    for size in [&figures.small, &figures.large].into_iter().filter(|size| size.sent > 0) {
        text.push_str(&format!("           {}\n", of_size(size)));
    }
    text.truncate(text.trim_end().len());
    Some(text + &besides(cell.ratio_to_median, None))
}

fn of_size(size: &PingSizeFigures) -> String {
    let mut text = format!("{} B: {} sent, {} answered", size.payload_bytes, size.sent, size.answered);
    match (size.lost_forward, size.lost_backward) {
        (None, None) if size.sent > size.answered + size.late => text.push_str(", the others lost somewhere"),
        (forward, backward) => {
            for (lost, way) in [(forward, "on the way there"), (backward, "on the way back")] {
                let lost = lost.filter(|lost| *lost > 0);
                text.push_str(&lost.map(|lost| format!(", {lost} lost {way}")).unwrap_or_default());
            }
        }
    }
    for (count, what) in [(size.late, "late"), (size.duplicate, "twice"), (size.reordered, "out of order")] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}

fn besides(to_median: Option<f64>, retransmits: Option<u64>) -> String {
    let mut text = to_median.map(|r| format!("; {}", ratio(r))).unwrap_or_default();
    // None is not said: drivers that do not count are the rule on software devices.
    if let Some(count) = retransmits.filter(|count| *count > 0) {
        text.push_str(&format!("; {count} packets sent again or out of order"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count_whatever_the_size() {
        let us = Unit::Microseconds;
        let shown =
            [0, 8, 999, 1_234, 9_994, 9_995, 12_345, 99_949, 99_950, 1_287_064].map(|ns| us.number(ns));
        assert_eq!(shown, ["0.00", "0.01", "1.00", "1.23", "9.99", "10.0", "12.3", "99.9", "100", "1287"]);
    }

    #[test]
    fn small_rates_are_in_megabytes() {
        assert_eq!(Unit::of_rates(98_000_000_000).show(98_000_000_000), "98.0 Gbit/s");
        assert_eq!(Unit::of_rates(999_999_999).show(999_999_999), "125 MB/s");
        assert_eq!(Unit::of_rates(8_000_000).show(8_000_000), "1.00 MB/s");
    }

    #[test]
    fn a_cell_without_figures_says_nothing() {
        assert_eq!(latency(&CellView::never()), None);
        assert_eq!(bandwidth(&CellView::never()), None);
        assert_eq!(ping(&CellView::never()), None);
    }

    #[test]
    fn a_batch_says_which_size_was_lost_and_on_which_way() {
        let size = PingSizeFigures {
            payload_bytes: 4_096,
            sent: 100,
            answered: 80,
            lost_forward: Some(20),
            lost_backward: Some(0),
            late: 0,
            duplicate: 3,
            reordered: 0,
        };
        assert_eq!(of_size(&size), "4096 B: 100 sent, 80 answered, 20 lost on the way there, 3 twice");
        let unknown = PingSizeFigures { lost_forward: None, lost_backward: None, duplicate: 0, ..size };
        assert_eq!(of_size(&unknown), "4096 B: 100 sent, 80 answered, the others lost somewhere");
    }
}
