//! Goodput from completions: the average, and the slowest tenth where there are enough completions to tell.

use rdmascope_model::BandwidthStats;

/// Below so many completions a worst window says more about the message size than about the path.
const WORST_WINDOW_COMPLETIONS_MIN: usize = 50;

/// Collects the completions of one measured window.
#[derive(Debug)]
pub struct BandwidthMeter {
    began_ns: u64,
    message_bytes: u64,
    completed_ns: Vec<u64>,
}

impl BandwidthMeter {
    /// Starts at `began_ns`, with room for the completions that are expected, so that the loop does not allocate.
    #[must_use]
    pub fn new(began_ns: u64, message_bytes: u32, expected: usize) -> Self {
        Self { began_ns, message_bytes: u64::from(message_bytes), completed_ns: Vec::with_capacity(expected) }
    }

    /// One message completed; times never go back.
    pub fn completed(&mut self, at_ns: u64) {
        self.completed_ns.push(at_ns);
    }

    /// Completions so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.completed_ns.len()
    }

    /// The figures; `None` while nothing has completed or no time has passed.
    #[must_use]
    pub fn stats(&self) -> Option<BandwidthStats> {
        let last = *self.completed_ns.last()?;
        let duration_ns = last.checked_sub(self.began_ns).filter(|&d| d > 0)?;
        let bytes = self.message_bytes * self.completed_ns.len() as u64;
        Some(BandwidthStats {
            bytes,
            duration_ns,
            average_bps: bits_per_second(bytes, duration_ns),
            worst_window_bps: self.worst_window(duration_ns),
            completions: u32::try_from(self.completed_ns.len()).unwrap_or(u32::MAX),
            variation_permille: self.variation(duration_ns),
        })
    }

    /// The coefficient of variation of what completed in each tenth of the window, in thousandths.
    fn variation(&self, duration_ns: u64) -> Option<u32> {
        if self.completed_ns.len() < WORST_WINDOW_COMPLETIONS_MIN {
            return None;
        }
        let mut tenths = [0.0_f64; 10];
        for at in &self.completed_ns {
            // The window ends with its last completion, which belongs to the last tenth.
            let tenth = (at.saturating_sub(self.began_ns + 1) / (duration_ns / 10).max(1)).min(9);
            tenths[tenth as usize] += 1.0;
        }
        let mean = self.completed_ns.len() as f64 / 10.0;
        let variance = tenths.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 10.0;
        Some((variance.sqrt() / mean * 1_000.0) as u32)
    }

    /// The fewest bytes that completed in any stretch as long as a tenth of the window, as a rate. Every stretch that
    /// begins just after a completion is tried: the worst one always begins there.
    fn worst_window(&self, duration_ns: u64) -> Option<u64> {
        if self.completed_ns.len() < WORST_WINDOW_COMPLETIONS_MIN {
            return None;
        }
        let length = (duration_ns / 10).max(1);
        let end = self.began_ns + duration_ns;
        let starts = std::iter::once(self.began_ns).chain(self.completed_ns.iter().copied());
        let (mut first, mut past, mut fewest) = (0, 0, u64::MAX);
        for start in starts.take_while(|start| start + length <= end) {
            while first < self.completed_ns.len() && self.completed_ns[first] <= start {
                first += 1;
            }
            past = past.max(first);
            while past < self.completed_ns.len() && self.completed_ns[past] <= start + length {
                past += 1;
            }
            fewest = fewest.min((past - first) as u64);
        }
        Some(bits_per_second(fewest * self.message_bytes, length))
    }
}

/// Bytes in nanoseconds as bits per second; 128-bit arithmetic, since 1 GiB times 8e9 exceeds 64 bits.
fn bits_per_second(bytes: u64, duration_ns: u64) -> u64 {
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    u64::try_from(bits / u128::from(duration_ns)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(times: impl Iterator<Item = u64>) -> BandwidthMeter {
        let mut meter = BandwidthMeter::new(0, 1_000, 0);
        times.for_each(|t| meter.completed(t));
        meter
    }

    #[test]
    fn a_steady_stream_has_equal_average_and_worst_window() {
        // 1,000 bytes every microsecond are 8 Gbit/s.
        let stats = meter((1..=100).map(|i| i * 1_000)).stats().unwrap();
        assert_eq!(stats.average_bps, 8_000_000_000);
        assert_eq!(stats.worst_window_bps, Some(8_000_000_000));
        assert_eq!(stats.variation_permille, Some(0));
        assert_eq!((stats.bytes, stats.completions, stats.duration_ns), (100_000, 100, 100_000));
    }

    #[test]
    fn a_gap_shows_in_the_worst_window_and_hardly_in_the_average() {
        // 90 us of stream, a gap of 20 us, 90 us of stream: the tenth (20 us) inside the gap saw nothing.
        let times = (1..=90).chain(111..=200).map(|i| i * 1_000);
        let stats = meter(times).stats().unwrap();
        assert_eq!(stats.average_bps, 7_200_000_000);
        assert_eq!(stats.worst_window_bps, Some(0));
        // Eight tenths of 20 and two of 10: the mean is 18, the standard deviation 4.
        assert_eq!(stats.variation_permille, Some(222));
    }

    #[test]
    fn few_completions_give_no_worst_window_and_none_gives_nothing() {
        let few = meter((1..=49).map(|i| i * 1_000)).stats().unwrap();
        assert_eq!((few.worst_window_bps, few.variation_permille), (None, None));
        let enough = meter((1..=50).map(|i| i * 1_000)).stats().unwrap();
        assert!(enough.worst_window_bps.is_some() && enough.variation_permille.is_some());
        assert_eq!(meter(std::iter::empty()).stats(), None);
    }
}
