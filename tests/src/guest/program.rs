//! A program under test as a child process that is killed on drop.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A running program. Dropping it kills it with -9; while a test is failing, its last output is printed.
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts a program; everything it prints goes to `log`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    #[must_use]
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Self {
        let output = File::options().create(true).append(true).open(log);
        let output = output.unwrap_or_else(|error| panic!("cannot write {}: {error}", log.display()));
        let errors =
            output.try_clone().unwrap_or_else(|error| panic!("cannot write {}: {error}", log.display()));
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self { name: name.to_owned(), child, log: log.to_owned() }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has printed so far.
    #[must_use]
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Sends a signal: [`Signal::STOP`] and [`Signal::CONT`], [`Signal::TERM`], [`Signal::KILL`].
    ///
    /// # Panics
    /// When the program has already ended.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process(Pid::from_child(&self.child), signal) {
            panic!("{} cannot be sent {signal:?}: {error}", self.name);
        }
    }

    /// Its exit status when it has ended.
    ///
    /// # Panics
    /// When the system cannot say.
    #[track_caller]
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or_else(|error| panic!("cannot wait for {}: {error}", self.name))
    }

    /// Kills it with -9 and waits until it is gone, as a crash of the machine would.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // Both fail only when it has already ended, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            let printed = self.printed();
            let lines: Vec<&str> = printed.lines().collect();
            eprintln!("--- the last of {}:", self.name);
            for line in &lines[lines.len().saturating_sub(20)..] {
                eprintln!("    {line}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::wait_until;
    use std::time::Duration;

    fn sleeper(log: &Path) -> Program {
        Program::start("sleeper", Command::new("sleep").arg("1000"), log)
    }

    #[test]
    fn a_program_is_stopped_continued_and_gone_after_drop() {
        let log = std::env::temp_dir().join(format!("rdmascope-program-{}.log", std::process::id()));
        let program = sleeper(&log);
        let stat = format!("/proc/{}/stat", program.pid());
        let state = |wanted: &str| {
            wait_until(wanted, Duration::from_secs(30), || {
                let seen = std::fs::read_to_string(&stat).unwrap();
                if seen.contains(wanted) { Ok(()) } else { Err(seen) }
            });
        };
        program.signal(Signal::STOP);
        state(") T ");
        program.signal(Signal::CONT);
        state(") S ");
        drop(program);
        assert!(!Path::new(&stat).exists());
        std::fs::remove_file(log).unwrap();
    }
}
