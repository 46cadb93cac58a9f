//! Reads several things, each of which may hang in the kernel: one thread does all of them while they answer, and whatever keeps it
//! waiting keeps nobody else. A thread for each would cost more than most of the readings.

use crate::Host;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

/// After so long without an answer another thread takes on what is left. A healthy device answers within a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(20);

/// Why a reading gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// An earlier one of the same key is still in the kernel.
    Stuck,
    /// The time that it was given is over.
    Late(Duration),
}

impl Unfinished {
    /// In words; `what` is what should have been read.
    pub(crate) fn words(self, what: &str) -> String {
        match self {
            Self::Stuck => format!("an earlier reading of {what} is still stuck in the kernel"),
            Self::Late(allowed) => format!("reading {what} took longer than {} s", allowed.as_secs_f32()),
        }
    }
}

/// What is left to read, and where it is told.
struct Crew<J, T, F> {
    host: Host,
    left: Mutex<VecDeque<(usize, String, J)>>,
    read: F,
    done: Sender<(usize, Result<T, Unfinished>)>,
}

impl Host {
    /// Reads everything of `jobs`, each with the key under which no second reading begins while one has not come back. The answers
    /// are in the order of the jobs. A thread that is stuck stays until the kernel lets it go.
    pub(crate) async fn read_all<J: Send + 'static, T: Send + 'static>(
        &self,
        jobs: Vec<(String, J)>,
        allowed: Duration,
        read: impl Fn(&Self, J) -> T + Send + Sync + 'static,
    ) -> Vec<Result<T, Unfinished>> {
        let mut answers: Vec<_> = jobs.iter().map(|_| Err(Unfinished::Late(allowed))).collect();
        let left = jobs.into_iter().enumerate().map(|(number, (key, job))| (number, key, job)).collect();
        // Room for every answer: nothing is ever dropped.
        let (done, mut told) = channel(answers.len().max(1));
        let crew = Arc::new(Crew { host: self.clone(), left: Mutex::new(left), read, done });
        let deadline = Instant::now() + allowed;
        let (mut missing, mut waiting) = (answers.len(), false);
        while missing > 0 {
            if !waiting {
                let crew = Arc::clone(&crew);
                spawn_blocking(move || crew.work());
            }
            let patience = Instant::now() + PATIENCE;
            match timeout_at(patience.min(deadline), told.recv()).await {
                Ok(Some((number, answer))) => {
                    if let Some(place) = answers.get_mut(number) {
                        *place = answer;
                    }
                    missing -= 1;
                    waiting = true;
                }
                Ok(None) => break,
                Err(_) if Instant::now() >= deadline => break,
                Err(_) => waiting = crew.left.lock().unwrap_or_else(PoisonError::into_inner).is_empty(),
            }
        }
        // Nobody waits for them any more.
        crew.left.lock().unwrap_or_else(PoisonError::into_inner).clear();
        answers
    }
}

impl<J, T, F: Fn(&Host, J) -> T> Crew<J, T, F> {
    fn work(&self) {
        let next = || self.left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some((number, key, job)) = next() {
            let reading = || self.host.reading.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = if reading().insert(key.clone()) {
                let answer = (self.read)(&self.host, job);
                reading().remove(&key);
                Ok(answer)
            } else {
                Err(Unfinished::Stuck)
            };
            // When nobody listens any more, what is left was taken away.
            let _ = self.done.try_send((number, answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::FakeHost;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    fn jobs(keys: &[&str]) -> Vec<(String, String)> {
        keys.iter().map(|key| ((*key).to_owned(), (*key).to_owned())).collect()
    }

    #[test]
    fn those_that_hang_keep_nobody_waiting_and_are_not_asked_twice() {
        let fake = FakeHost::rxe(1);
        let host = Host::new(fake.root().to_owned()).unwrap();
        let (free, stuck) = std::sync::mpsc::channel::<()>();
        let stuck = Mutex::new(stuck);
        let read = move |_: &Host, key: String| {
            if key.starts_with("hangs") {
                let _ = stuck.lock().unwrap().recv();
            }
            key
        };
        let allowed = Duration::from_millis(500);
        let late = Err(Unfinished::Late(allowed));
        let fine = |key: &str| Ok(key.to_owned());
        let seen = run(async {
            let seen = host.read_all(jobs(&["hangs", "a", "hangs too", "b"]), allowed, read).await;
            let again = host.read_all(jobs(&["hangs", "a"]), allowed, |_, key: String| key).await;
            assert_eq!(again, [Err(Unfinished::Stuck), fine("a")]);
            drop(free);
            seen
        });
        assert_eq!(seen, [late.clone(), fine("a"), late, fine("b")]);
        assert!(host.reading.lock().unwrap().is_empty(), "what has come back is free again");
    }

    #[test]
    fn one_thread_does_for_those_that_answer() {
        let fake = FakeHost::rxe(1);
        let host = Host::new(fake.root().to_owned()).unwrap();
        let thread = |_: &Host, _: String| std::thread::current().id();
        let seen = run(host.read_all(jobs(&["a", "b", "c"]), Duration::from_secs(5), thread));
        assert_eq!(seen.len(), 3);
        assert!(seen.iter().all(|id| id.is_ok() && *id == seen[0]), "{seen:?}");
    }
}
