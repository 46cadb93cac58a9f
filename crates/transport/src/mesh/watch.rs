//! The poller's clock, and what of a moment's time its thread was kept from running: that is the host's doing, not the network's.
//!
//! A thread that sleeps in epoll becomes ready to run when a datagram arrives, and stamps it when it gets a processor. The
//! scheduler counts the time in between once the thread runs (`sched_info_arrive`, kernel/sched/stats.h of Linux), so it is
//! known how long that was. What arrived is then stamped with the moment the thread became ready; but only the first of what
//! it finds is sure to be what woke it up, the rest came at any time since. And a thread that was interrupted in mid-turn
//! finds what came meanwhile, without a trace of when. Such stamps are vague: they say the earliest that it can have been.

use super::Clock;
use super::waited::{Wait, Waited};
use rdmascope_model::Mono;
use rdmascope_probe::mesh::Stamp;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::time::Duration;

/// Less than this is within what a program's stamps are good for.
const SLACK: Duration = Duration::from_micros(100);
/// Timers of the kernel are as late as this without anybody's doing.
const TIMER_SLACK: Duration = Duration::from_millis(1);

/// Reads both.
pub(super) struct Watch {
    clock: Clock,
    waited: Waited,
    /// When the thread's own processor time was last read, and what it was.
    ran: Cell<(Mono, Duration)>,
    /// When it was last found that the thread had been kept from running.
    kept: Cell<Mono>,
}

/// A sleep, as it was meant.
#[derive(Clone, Copy)]
pub(super) struct Sleep {
    /// Everything that had arrived by then was taken.
    pub(super) looked: Mono,
    pub(super) began: Mono,
    pub(super) rest: Duration,
    /// The thread was kept from running before it slept.
    pub(super) kept: bool,
}

/// When the thread woke up, and when what it finds can have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Woken {
    pub(super) at: Mono,
    /// Of the first datagram, where only one endpoint has any.
    pub(super) first: Stamp,
    /// Of all others.
    pub(super) others: Stamp,
}

impl Watch {
    /// For the calling thread.
    pub(super) fn new(clock: Clock) -> Self {
        let watch = Self { clock, waited: Waited::new(), ran: Cell::default(), kept: Cell::default() };
        watch.ran.set((watch.now(), processor_time()));
        watch
    }

    pub(super) fn now(&self) -> Mono {
        (self.clock)()
    }

    /// Was the awake thread kept from running since then? Time that passed without its own processor time is time that it waited. Asked
    /// often, it reads that (a system call) only once in a while.
    pub(super) fn kept_since(&self, then: Mono, now: Mono) -> bool {
        let (since, had) = self.ran.get();
        if now.since(since) > SLACK {
            let has = processor_time();
            if now.since(since).saturating_sub(has.saturating_sub(had)) > SLACK {
                self.kept.set(now);
            }
            self.ran.set((now, has));
        }
        self.kept.get() > then
    }

    /// The same right before a sleep. What the scheduler counted by then is none of the sleep's.
    pub(super) fn kept_before_sleep(&self, looked: Mono, began: Mono) -> bool {
        let kept = self.kept_since(looked, began);
        if kept {
            self.waited.since_last();
        }
        kept
    }

    /// A stamp for what happened between `then` and now.
    pub(super) fn stamp_since(&self, then: Mono) -> Stamp {
        let now = self.now();
        if self.kept_since(then, now) { Stamp::vague(now) } else { Stamp::software(now) }
    }

    /// A stamp for what came in at any time from `then` to `now`.
    pub(super) fn stamp_of_what_came_since(&self, then: Mono, now: Mono) -> Stamp {
        if self.kept_since(then, now) { Stamp::vague(then) } else { Stamp::software(now) }
    }

    /// To be called right after a sleep that so many of the epoll's members ended.
    pub(super) fn woke(&self, sleep: &Sleep, members: usize) -> (Woken, Option<u64>) {
        let at = self.now();
        self.ran.set((at, processor_time()));
        // A timer in time: nothing has come that would want a stamp, and the scheduler need not be asked.
        if members == 0 && at < sleep.began.after(sleep.rest + TIMER_SLACK) {
            let stamp = Stamp::software(at);
            return (Woken { at, first: stamp, others: stamp }, None);
        }
        let wait = self.waited.since_last();
        (woken(sleep, at, wait, members == 1), wait.map(|wait| wait.ns))
    }
}

impl Wait {
    fn long(self) -> bool {
        u128::from(self.ns) > SLACK.as_nanos()
    }
}

impl Woken {
    /// The thread was kept from running between waking up and looking: what it finds may have come in the meantime.
    pub(super) fn kept(&mut self) {
        self.others = Stamp { vague: true, ..self.others };
    }
}

/// Processor time of the calling thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

fn woken(sleep: &Sleep, at: Mono, wait: Option<Wait>, alone: bool) -> Woken {
    let both = |stamp| Woken { at, first: stamp, others: stamp };
    let Some(wait) = wait else { return both(Stamp::software(at)) };
    if wait.runs == 0 {
        // It did not sleep at all: what is there came during the turn before.
        return both(if sleep.kept { Stamp::vague(sleep.looked) } else { Stamp::software(at) });
    }
    let ready = Mono(at.0.saturating_sub(wait.ns));
    if !wait.long() {
        return both(Stamp::software(ready.max(sleep.began)));
    }
    if wait.runs > 1 || ready < sleep.began {
        return both(Stamp::vague(ready.max(sleep.looked)));
    }
    let by_itself = ready.after(TIMER_SLACK) >= sleep.began.after(sleep.rest);
    let (first, others) = (Stamp::software(ready), Stamp::vague(ready));
    Woken { at, first: if alone && !by_itself { first } else { others }, others }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const MS: u64 = 1_000 * US;

    /// A thread on a host that is short of processors, and one endpoint where datagrams arrive.
    struct Starved {
        now: u64,
        dice: u64,
        arrivals: Vec<u64>,
    }

    impl Starved {
        /// One of `sides` numbers from 0 on.
        fn roll(&mut self, sides: u64) -> u64 {
            self.dice =
                self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.dice >> 33) % sides
        }

        /// Now and then it waits for long.
        fn wait(&mut self, one_in: u64) -> u64 {
            let wait = if self.roll(one_in) == 0 { MS + self.roll(40 * MS) } else { 3 * US };
            self.now += wait;
            wait
        }

        /// Sleeps until something comes, and says how it woke up.
        fn sleep(&mut self, sleep: &Sleep) -> Woken {
            let pending = self.arrivals.iter().find(|&&at| at > sleep.looked.0).copied();
            let wait = if pending.is_some_and(|at| at <= self.now) {
                Wait::default()
            } else {
                let timer = sleep.began.after(sleep.rest).0;
                self.now = pending.unwrap_or(u64::MAX).min(timer);
                let (ns, again) = (self.wait(2), self.roll(8) == 0);
                let more = if again { self.wait(1) } else { 0 };
                Wait { ns: ns + more, runs: 1 + u64::from(again) }
            };
            let alone = pending.is_some_and(|at| at <= self.now);
            woken(sleep, Mono(self.now), Some(wait), alone)
        }
    }

    #[test]
    fn on_a_starved_host_a_stamp_is_right_or_vague_and_a_vague_one_is_never_late() {
        let mut host = Starved { now: MS, dice: 7, arrivals: Vec::new() };
        let mut at = MS;
        while at < 60_000 * MS {
            at += 50 * US + host.roll(9 * MS);
            host.arrivals.push(at);
        }
        let (mut looked, mut right, mut vague) = (host.now, 0, 0);
        while host.now < 59_000 * MS {
            // A turn, in which it may be interrupted.
            host.now += 20 * US;
            let kept = host.wait(6) > MS;
            let began = Mono(host.now);
            let rest = Duration::from_millis(10);
            let mut woken = host.sleep(&Sleep { looked: Mono(looked), began, rest, kept });
            if host.wait(9) > MS {
                woken.kept();
            }
            let mut stamp = woken.first;
            for &arrival in host.arrivals.iter().filter(|&&at| at > looked && at <= host.now) {
                if stamp.vague {
                    vague += 1;
                    assert!(stamp.ns <= arrival, "{stamp:?} of {arrival}");
                } else {
                    right += 1;
                    let wrong = stamp.ns.abs_diff(arrival);
                    assert!(wrong <= 150 * US, "{stamp:?} of {arrival} is wrong by {wrong} ns");
                }
                stamp = woken.others;
            }
            looked = host.now;
        }
        assert!(right > 500 && vague > 500, "{right} right, {vague} vague");
    }

    #[test]
    fn a_prompt_thread_and_a_kernel_that_does_not_tell_give_plain_stamps() {
        let rest = Duration::from_millis(10);
        let sleep = Sleep { looked: Mono(MS), began: Mono(MS + 10 * US), rest, kept: false };
        let at = Mono(3 * MS);
        let stamps = |wait| woken(&sleep, at, wait, false).others;
        assert_eq!(stamps(None), Stamp::software(at));
        assert_eq!(stamps(Some(Wait { ns: 40 * US, runs: 1 })), Stamp::software(Mono(3 * MS - 40 * US)));
        assert_eq!(stamps(Some(Wait { ns: 400 * US, runs: 1 })), Stamp::vague(Mono(3 * MS - 400 * US)));
    }
}
