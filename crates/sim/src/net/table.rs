//! Random factors by a look-up: a table of quantiles costs a nanosecond, a logarithm ten.

const BITS: u32 = 10;
const SIZE: usize = 1 << BITS;

/// Factors around 1, log-logistically distributed: like a log-normal with somewhat heavier tails.
#[derive(Clone, Debug)]
pub(crate) struct Table(Box<[f32; SIZE]>);

impl Table {
    /// Factors whose logarithm has this standard deviation; their median is 1.
    pub(crate) fn spread(deviation: f32) -> Self {
        // The logistic distribution's standard deviation is its scale times π/√3.
        let scale = f64::from(deviation) * 3.0_f64.sqrt() / std::f64::consts::PI;
        let factor = |at: usize| {
            let share = (at as f64 + 0.5) / SIZE as f64;
            (share / (1.0 - share)).powf(scale) as f32
        };
        Self(Box::new(std::array::from_fn(factor)))
    }

    /// The factor that the lowest bits of a random number stand for.
    pub(crate) fn at(&self, draw: u64) -> f32 {
        self.0[(draw & (SIZE as u64 - 1)) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_the_median_and_the_spread_that_were_asked_for() {
        let table = Table::spread(0.05);
        let logs: Vec<f64> = table.0.iter().map(|f| f64::from(*f).ln()).collect();
        let mean = logs.iter().sum::<f64>() / SIZE as f64;
        let deviation = (logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / SIZE as f64).sqrt();
        assert!(mean.abs() < 1e-6 && (deviation - 0.05).abs() < 1e-3, "{mean} {deviation}");
        assert!(Table::spread(0.0).0.iter().all(|factor| (*factor - 1.0).abs() < f32::EPSILON));
    }
}
