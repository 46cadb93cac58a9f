//! For tests that run inside the lab: faults on its ports, a real cluster of the real binary, and its API.
//!
//! Everything here changes the machine it runs on and undoes that on drop, so a failed test does not spoil the next.
//! Helpers panic with what was done and what was seen: in a test, that is the message one reads.

mod adapters;
mod api;
mod cluster;
mod endpoint;
mod iwarp;
mod pair;
mod program;
mod view;

pub use adapters::{Adapters, SimulatedNic};
pub use api::{Answer, Api};
pub use cluster::{Cluster, NODE_PREFIX};
pub use endpoint::{Endpoint, Undo, endpoints};
pub use iwarp::SoftIwarp;
pub use pair::{Ended, Pair};
pub use program::Program;
pub use rustix::process::Signal;
pub use view::pairs;

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a line of bash and returns its standard output.
///
/// # Panics
/// When it cannot be started or its exit code is not 0: with the line, the code and everything it printed.
#[track_caller]
#[must_use]
pub fn run(line: &str) -> String {
    match try_run(line) {
        Ok(output) => output,
        Err(why) => panic!("{why}"),
    }
}

/// As [`run`], for a line that may fail: the error has the line, the exit code and what it printed.
///
/// # Errors
/// When it cannot be started or its exit code is not 0.
pub fn try_run(line: &str) -> Result<String, String> {
    let output = Command::new("bash")
        .args(["-c", line])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{line}` cannot be started: {error}"))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Ok(stdout.into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{line}` failed ({}):\n{stdout}{stderr}", output.status))
}

/// Looks again and again until `look` says `Ok`, and returns that. `Err` is what is seen instead; the last one is
/// in the message when the time is up, so let it say what a reader needs: `Err(format!("state is {state}"))`.
///
/// The state is waited for, not its change, so nothing is missed that happened before the call. The deadline only
/// ends a test that would hang; give it far more time than a slow machine needs.
///
/// # Panics
/// When `limit` is over.
#[track_caller]
pub fn wait_until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    const BETWEEN: Duration = Duration::from_millis(50);
    let deadline = Instant::now() + limit;
    loop {
        match look() {
            Ok(seen) => return seen,
            Err(instead) if Instant::now() > deadline => {
                panic!("not within {} s: {what}; last seen: {instead}", limit.as_secs_f64())
            }
            Err(_) => thread::sleep(BETWEEN),
        }
    }
}

/// Waits until a TCP port of this machine has a listener, without connecting to it.
///
/// # Panics
/// When nobody listens within 30 s.
#[track_caller]
pub fn wait_for_listener(port: u16) {
    // Columns: slot, local address:port in hexadecimal, remote address, state (0A is LISTEN).
    let local = format!(":{port:04X}");
    let listens = |line: &str| {
        let mut columns = line.split_whitespace().skip(1);
        columns.next().is_some_and(|address| address.ends_with(&local)) && columns.nth(1) == Some("0A")
    };
    wait_until(&format!("a listener on port {port}"), Duration::from_secs(30), || {
        let tables =
            ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
        let found = tables.iter().any(|table| table.lines().any(listens));
        if found { Ok(()) } else { Err("nobody listens".to_owned()) }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_line_is_reported_with_its_code_and_its_output() {
        let why = try_run("echo to-out; echo to-err >&2; exit 7").unwrap_err();
        assert!(why.contains("exit 7") && why.contains("to-out") && why.contains("to-err"), "{why}");
        assert_eq!(run("echo fine"), "fine\n");
    }

    #[test]
    fn a_condition_is_waited_for_and_the_last_look_is_in_the_message() {
        let mut looks = 0;
        let seen = wait_until("three looks", Duration::from_secs(60), || {
            looks += 1;
            if looks == 3 { Ok(looks) } else { Err(String::new()) }
        });
        assert_eq!(seen, 3);
        let panic = std::panic::catch_unwind(|| {
            wait_until("never", Duration::ZERO, || Err::<(), _>("only noise".to_owned()));
        });
        let message = *panic.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("never") && message.contains("only noise"), "{message}");
    }

    #[test]
    fn a_listener_is_seen() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        wait_for_listener(listener.local_addr().unwrap().port());
    }
}
