//! The processor's own time counter: a stamp costs less than reading the system clock, above all in virtual
//! machines whose clock needs a system call (seen in the lab: 5 µs of a 50 µs round trip).

use std::time::Instant;

/// Reads the processor's time counter. Its unit differs between machines: [`TickScale`] tells it.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC exists on every x86-64 processor and changes nothing but the registers of its result.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: Linux lets user space read the virtual counter; the instruction changes nothing else.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Translates ticks to nanoseconds by comparing both clocks over the measured window itself, so that nothing
/// is spent on calibration before it.
#[derive(Debug, Clone, Copy)]
pub struct TickScale {
    began: Instant,
    began_ticks: u64,
}

impl TickScale {
    /// Begins a window.
    #[expect(clippy::new_without_default, reason = "it reads clocks: a default would hide that")]
    pub fn new() -> Self {
        Self { began: Instant::now(), began_ticks: ticks() }
    }

    /// Nanoseconds per tick from the window's beginning until now; `None` when a clock did not move or the
    /// counter went back (processors whose counters disagree), which leaves no honest figure.
    pub fn nanoseconds_per_tick(&self) -> Option<f64> {
        let elapsed = self.began.elapsed().as_nanos() as f64;
        let ticked = ticks().checked_sub(self.began_ticks).filter(|&ticked| ticked > 0)?;
        (elapsed > 0.0).then(|| elapsed / ticked as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_window_measured_in_ticks_is_as_long_as_on_the_system_clock() {
        let scale = TickScale::new();
        let (first, began) = (ticks(), Instant::now());
        while began.elapsed() < Duration::from_millis(20) {}
        let (last, elapsed) = (ticks(), began.elapsed());
        let measured = (last - first) as f64 * scale.nanoseconds_per_tick().expect("clocks move");
        let ratio = measured / elapsed.as_nanos() as f64;
        // Both clocks are read one after the other; being preempted between the two reads is the only
        // difference.
        assert!((0.5..2.0).contains(&ratio), "{ratio}");
    }
}
