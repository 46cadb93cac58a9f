//! Which nodes work for which job, and when a job's phase fills the port of one of them.

use super::parameters::Jobs;
use crate::random::{Random, mix};

const MILLI: f32 = 1e6;

/// One job.
#[derive(Clone, Debug)]
struct Job {
    nodes: Vec<usize>,
    period: u64,
    on: u64,
    shift: u64,
    seed: u64,
    /// All phases send to this node, instead of to another one each time.
    steady: Option<usize>,
}

/// All jobs.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    jobs: Vec<Job>,
    /// By node; one past the last job for none.
    of_node: Vec<u16>,
    queue_ns: f32,
}

impl Phases {
    pub(crate) fn new(jobs: &Jobs, nodes: usize, random: &mut Random) -> Self {
        let mut order: Vec<usize> = (0..nodes).collect();
        for at in (1..nodes).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        let busy = (nodes as f32 * jobs.share) as usize;
        // A job of one node talks to nobody.
        let members = order[..busy].chunks(jobs.nodes).filter(|members| members.len() > 1);
        let jobs_of: Vec<Job> = members
            .map(|members| {
                let period = random.between(jobs.period_ms) * MILLI;
                let on = period * random.between(jobs.duty);
                let (shift, seed) = (random.below(period as u64), random.draw());
                let (period, on) = (period as u64, on as u64);
                Job { nodes: members.to_vec(), period, on, shift, seed, steady: None }
            })
            .collect();
        let none = u16::try_from(jobs_of.len()).unwrap_or(u16::MAX);
        let mut of_node = vec![none; nodes];
        for (job, at) in jobs_of.iter().zip(0..) {
            job.nodes.iter().for_each(|&node| of_node[node] = at);
        }
        Self { jobs: jobs_of, of_node, queue_ns: jobs.queue_ns }
    }

    /// No jobs.
    pub(crate) fn clear(&mut self) {
        self.jobs.clear();
    }

    /// A new job of these nodes, all of which send to the first one for this share of the time.
    pub(crate) fn add_steady(&mut self, nodes: &[usize], period: u64, duty: f32) {
        let at = self.jobs.len();
        for of in &mut self.of_node {
            *of = if usize::from(*of) == at { *of + 1 } else { *of };
        }
        for &node in nodes {
            self.of_node[node] = u16::try_from(at).unwrap_or(u16::MAX);
        }
        let on = (period as f32 * duty) as u64;
        let steady = nodes.first().copied();
        self.jobs.push(Job { nodes: nodes.to_vec(), period, on, shift: 0, seed: 0, steady });
    }

    /// Nodes that are in a job.
    pub(crate) fn busy_nodes(&self) -> impl Iterator<Item = usize> {
        self.jobs.iter().flat_map(|job| job.nodes.iter().copied())
    }

    /// Mean wait of packets to a node at this time, nanoseconds; 0 while nobody fills its port.
    pub(crate) fn queue_ns(&self, node: usize, at: u64) -> f32 {
        let Some(job) = self.jobs.get(usize::from(self.of_node[node])) else { return 0.0 };
        let shifted = at + job.shift;
        let (phase, within) = (shifted / job.period, shifted % job.period);
        if within >= job.on {
            return 0.0;
        }
        let turn = || job.nodes[(mix(job.seed ^ phase) % job.nodes.len() as u64) as usize];
        if job.steady.unwrap_or_else(turn) == node { self.queue_ns } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOBS: Jobs =
        Jobs { share: 0.5, nodes: 4, period_ms: [500.0, 1_000.0], duty: [0.2, 0.4], queue_ns: 40_000.0 };

    #[test]
    fn half_of_the_nodes_work_and_each_is_sent_to_in_its_turn() {
        let phases = Phases::new(&JOBS, 16, &mut Random::new(4));
        let times = || (0..100_000).map(|i| i * 1_000_000_u64);
        let filled = |node| times().filter(|&at| phases.queue_ns(node, at) > 0.0).count() as f64 / 1e5;
        let shares: Vec<f64> = (0..16).map(filled).collect();
        assert_eq!(shares.iter().filter(|share| **share > 0.0).count(), 8);
        // A duty of 0.2 to 0.4, shared by four.
        let busy = shares.iter().filter(|share| **share > 0.0);
        assert!(busy.clone().all(|share| (0.03..0.15).contains(share)), "{shares:?}");
        assert!(times().all(|at| (0..16).filter(|&node| phases.queue_ns(node, at) > 0.0).count() <= 2));
    }

    #[test]
    fn a_steady_job_fills_one_port_and_takes_its_nodes_from_their_old_jobs() {
        let mut phases = Phases::new(&JOBS, 16, &mut Random::new(4));
        phases.add_steady(&[3, 5, 7], 1_000_000_000, 0.45);
        let filled = |node| (0..10_000).filter(|i| phases.queue_ns(node, i * 1_000_000) > 0.0).count();
        assert_eq!((filled(3), filled(5)), (4_500, 0));
    }
}
