//! What a lease or a known state of the machine makes of cells and runs.

use super::lease::{CellNews, Lease, counters};
use super::runs::Ended;
use super::sweep::Found;
use super::work::{Ending, Job, Origin};
use super::{Action, Coordinator, Probed, caps};
use rdmascope_link::{ProbeResult, ToAgent};
use rdmascope_localise::{EndpointIndex, PingFigures, ping_failure};
use rdmascope_model::{Failure, Metric, Now, Outcome, PackedPings, Side, Step};

impl Coordinator {
    /// Ends the leases that are decided.
    pub(super) fn judge(&mut self, now: Now) {
        let decided: Vec<_> =
            self.leases.iter().filter(|(_, l)| l.is_decided(now.mono)).map(|(&id, _)| id).collect();
        for id in decided {
            let Some(lease) = self.leases.remove(&id) else { continue };
            for index in [lease.job.source, lease.job.target] {
                // An agent that has connected again holds the lease still.
                if let Some(connection) = self.members.connection(&self.matrix.name(index).node) {
                    self.outbox.push_back(Action::Send(connection, ToAgent::LeaseEnd { lease: id }));
                }
            }
            self.release(id, &lease);
            let [forward, backward] = lease.verdict(self.known_failure(lease.job.source, lease.job.target));
            let ending = self.settle(lease.job.source, lease.job.target, &lease.job, &forward, now);
            self.settle(lease.job.target, lease.job.source, &lease.job, &backward, now);
            let origin = lease.job.origin;
            let text = summary(&lease, &forward, now);
            self.work.runs.step(origin, Side::Coordinator, Step::Measure, text, now.mono);
            self.work.runs.ended(origin, lease.told(), Ended::of(&forward));
            self.work.sent(origin, lease.bytes_at_most, caps::sent(&lease));
            let took = now.mono.since(lease.began.mono);
            // Who is set aside, or back, changes whom everybody else waits for.
            self.changed |= self.work.ended(&lease.job, ending, Some(took));
        }
    }

    /// A job whose result is known without running it.
    pub(super) fn settle_known(&mut self, job: &Job, news: &CellNews, now: Now) {
        let ending = self.settle(job.source, job.target, job, news, now);
        if job.spec.fills_both() {
            self.settle(job.target, job.source, job, &super::lease::mirrored_news(news), now);
        }
        let text = match news {
            CellNews::Failed(failure) => format!("failed: {} ({})", failure.cause.text(), failure.evidence),
            CellNews::Excluded(why) => format!("not run: {}", why.as_str()),
            CellNews::Measured(_) | CellNews::Nothing => String::new(),
        };
        self.work.runs.step(job.origin, Side::Coordinator, Step::Admit, text, now.mono);
        self.work.runs.ended(job.origin, [None, None], Ended::of(news));
        self.changed |= self.work.ended(job, ending, None);
    }

    fn settle(
        &mut self,
        source: EndpointIndex,
        target: EndpointIndex,
        job: &Job,
        news: &CellNews,
        now: Now,
    ) -> Ending {
        let Some(metric) = job.cell() else {
            self.keep_with_sweep(source, target, job, news);
            return Ending::of(news);
        };
        let (ending, probed) = match news {
            CellNews::Measured(result) if let Some((failure, figures)) = silence(result) => {
                let cause = failure.cause;
                // Nobody tells of a lease's pings what he heard of them, but for the lease.
                self.matrix.record_silence(source, target, result.measured_at, figures, 0);
                self.ping_news.set_waits(source, target, false);
                (Ending::Failed, Some(Probed::Failed(metric, cause)))
            }
            CellNews::Measured(result) => {
                // A stream that was given up leaves the cell as it is: what it saw is no figure of the pair.
                self.write(source, target, result);
                self.spread_result(source, target, result);
                (Ending::of(news), probed(result))
            }
            CellNews::Failed(failure) => {
                self.matrix.fail(metric, source, target, now.wall, failure);
                (Ending::Failed, Some(Probed::Failed(metric, failure.cause)))
            }
            // That a suspect could not be measured again is no news of its pair.
            CellNews::Excluded(_) if job.origin == Origin::Retest => (Ending::Excluded, None),
            CellNews::Excluded(why) => {
                self.matrix.exclude(metric, source, target, now.wall, *why);
                (Ending::Excluded, Some(Probed::Excluded(metric)))
            }
            CellNews::Nothing => (Ending::Excluded, None),
        };
        self.outbox.extend(probed.map(Action::Probed));
        ending
    }

    /// What a sweep in another class finds is no figure of the matrix.
    fn keep_with_sweep(&mut self, source: EndpointIndex, target: EndpointIndex, job: &Job, news: &CellNews) {
        let value = match news {
            CellNews::Measured(result) => match (&result.outcome, silence(result)) {
                (_, Some((failure, _))) => Err(failure.cause.id()),
                (Outcome::Latency(stats, _), _) => Ok(stats.p50_ns),
                (Outcome::Bandwidth(stats, _), _) => Ok(stats.average_bps),
                (Outcome::Pings(stats), _) => match &stats.network {
                    Some(network) => Ok(network.p50_ns),
                    None => return,
                },
                _ => return,
            },
            CellNews::Failed(failure) => Err(failure.cause.id()),
            CellNews::Excluded(_) | CellNews::Nothing => return,
        };
        if let Some(metric) = job.spec.metric() {
            self.work.found(job.origin, Found { metric, source, target, value });
        }
    }

    fn spread_result(&mut self, source: EndpointIndex, target: EndpointIndex, result: &ProbeResult) {
        match &result.outcome {
            Outcome::Latency(stats, _) => {
                self.spread(Metric::Latency, source, target, stats.p50_ns as f64 / 1e9);
            }
            Outcome::Bandwidth(stats, _) => {
                if let Some(rate) = self.slower_rate(source, target).filter(|rate| *rate > 0) {
                    let ratio = stats.average_bps as f64 / rate as f64;
                    self.spread(Metric::Bandwidth, source, target, ratio);
                }
            }
            Outcome::Pings(stats) => {
                if let Some(network) = &stats.network {
                    self.spread(Metric::Ping, source, target, network.p50_ns as f64 / 1e9);
                }
            }
            _ => {}
        }
    }
}

/// How a measured direction is counted.
fn probed(result: &ProbeResult) -> Option<Probed> {
    match &result.outcome {
        Outcome::Latency(..) => Some(Probed::Measured(Metric::Latency)),
        Outcome::Bandwidth(..) => Some(Probed::Measured(Metric::Bandwidth)),
        Outcome::Aborted(..) => Some(Probed::Excluded(Metric::Bandwidth)),
        Outcome::Pings(_) => Some(Probed::Pings(1)),
        _ => None,
    }
}

/// Why pings of which none was answered failed.
fn silence(result: &ProbeResult) -> Option<(Failure, PackedPings)> {
    match &result.outcome {
        Outcome::Pings(stats) => {
            let figures = PingFigures::from(&**stats);
            Some((ping_failure(&figures)?, PackedPings::pack(&figures)))
        }
        _ => None,
    }
}

impl Ended {
    fn of(news: &CellNews) -> Self {
        match news {
            CellNews::Measured(_) => Self::Done,
            CellNews::Failed(failure) => Self::Failed(failure.clone()),
            CellNews::Excluded(why) => Self::Excluded(*why),
            CellNews::Nothing => Self::Nothing,
        }
    }
}

impl Ending {
    fn of(news: &CellNews) -> Self {
        match news {
            CellNews::Measured(result) if matches!(result.outcome, Outcome::Aborted(..)) => Self::Excluded,
            CellNews::Measured(_) => Self::Measured,
            CellNews::Failed(_) => Self::Failed,
            CellNews::Excluded(_) | CellNews::Nothing => Self::Excluded,
        }
    }
}

/// A lease's end in words.
fn summary(lease: &Lease, news: &CellNews, now: Now) -> String {
    let took = now.mono.since(lease.began.mono).as_millis();
    match news {
        CellNews::Measured(result) if matches!(result.outcome, Outcome::Aborted(..)) => {
            format!("given up after {took} ms so as not to hurt a job; the cell keeps what it had")
        }
        CellNews::Measured(result) => {
            let retransmits = counters(&result.outcome).and_then(|delta| delta.retransmits);
            let counted = retransmits.map_or("not counted".to_owned(), |n| n.to_string());
            format!("done in {took} ms, retransmits at the source: {counted}")
        }
        CellNews::Failed(failure) => {
            format!("failed after {took} ms: {} Next: {}", failure.cause.text(), failure.cause.next_step())
        }
        CellNews::Excluded(why) => format!("not run: {}", why.as_str()),
        CellNews::Nothing => format!("nothing learned after {took} ms"),
    }
}
