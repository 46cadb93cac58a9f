//! Child processes that never outlive xtask: each is a process group that is ended on drop and on Ctrl-C.

use crate::error::{Error, Result, file, other};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpid};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long an ended process may take to clean up before it is killed.
const GRACE: Duration = Duration::from_secs(3);
/// How often a child is looked at while something else may happen as well.
const GLANCE: Duration = Duration::from_millis(20);

/// What is still to be undone, newest last.
static PENDING: Mutex<Vec<Undo>> = Mutex::new(Vec::new());
static ENDING: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Undo {
    EndGroup(Pid),
    RemoveFolder(PathBuf),
}

impl Undo {
    fn run(&self) {
        match self {
            Self::EndGroup(group) => end_group(*group),
            Self::RemoveFolder(path) => drop(std::fs::remove_dir_all(path)),
        }
    }
}

fn pending() -> MutexGuard<'static, Vec<Undo>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forget(undo: &Undo) {
    pending().retain(|other| other != undo);
}

/// From now on Ctrl-C (also TERM and HUP) ends all children, removes all temporary folders and exits.
pub(crate) fn undo_everything_on_signal() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|error| other(format!("cannot watch for Ctrl-C: {error}")))?;
    let watch = |kind| {
        let _inside = runtime.enter();
        signal(kind).map_err(|error| other(format!("cannot watch for Ctrl-C: {error}")))
    };
    let mut interrupt = watch(SignalKind::interrupt())?;
    let mut terminate = watch(SignalKind::terminate())?;
    let mut hangup = watch(SignalKind::hangup())?;
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        ENDING.store(true, Ordering::SeqCst);
        eprintln!("\nxtask: ending what was started ...");
        // The lock stays held, so that the main thread cannot start anything new meanwhile.
        let pending = pending();
        // All are asked first, so that their times to clean up do not add up.
        for undo in pending.iter() {
            if let Undo::EndGroup(group) = undo {
                let _ = kill_process_group(*group, Signal::TERM);
            }
        }
        for undo in pending.iter().rev() {
            undo.run();
        }
        // 128 + SIGINT: what a shell reports for a command that Ctrl-C ended.
        std::process::exit(130);
    });
    Ok(())
}

/// Does not return while a signal is being handled: what fails then fails because everything is being ended.
pub(crate) fn stop_here_if_ending() {
    while ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// Ends every process of a group: asks, waits for [`GRACE`], then kills.
fn end_group(group: Pid) {
    // An error means that the group is already gone, which is what is wanted.
    let _ = kill_process_group(group, Signal::TERM);
    // A stopped process acts on TERM only when it runs again.
    let _ = kill_process_group(group, Signal::CONT);
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline {
        // Reaps the leader; when the main thread was faster, this is an error and the next line decides.
        let _ = waitpid(Some(group), WaitOptions::NOHANG);
        if test_kill_process_group(group).is_err() {
            return;
        }
        thread::sleep(GLANCE);
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = waitpid(Some(group), WaitOptions::empty());
}

/// A running child and all its descendants.
pub(crate) struct Group {
    program: String,
    child: Child,
    undo: Undo,
}

impl Group {
    /// Starts `command` without standard input, in a process group of its own.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).process_group(0);
        // The lock is held over the start: a signal in between must find the new group.
        let mut pending = pending();
        let child = command.spawn().map_err(|source| Error::Start { program: program.clone(), source })?;
        let undo = Undo::EndGroup(Pid::from_child(&child));
        pending.push(undo.clone());
        Ok(Self { program, child, undo })
    }

    /// As [`Group::start`], for a child that runs as long as xtask: the kernel kills it even when xtask itself is
    /// killed with -9, and all it prints goes to the file `log`.
    pub(crate) fn start_bound(command: &Command, log: &Path) -> Result<Self> {
        let output = std::fs::File::create(log).map_err(file("create", log))?;
        let errors = output.try_clone().map_err(file("open", log))?;
        let mut bound = Command::new("setpriv");
        bound.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
        Self::start(bound.stdout(output).stderr(errors))
    }

    /// The exit status if the child has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let result = self.child.try_wait();
        stop_here_if_ending();
        result.map_err(|source| Error::Start { program: self.program.clone(), source })
    }

    /// Waits for the child's end.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        let result = self.child.wait();
        stop_here_if_ending();
        result.map_err(|source| Error::Start { program: self.program.clone(), source })
    }

    /// The child's standard output, when it was piped.
    pub(crate) fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.undo.run();
        forget(&self.undo);
        // Reaps the leader if it has not been yet.
        drop(self.child.wait());
    }
}

/// Runs a command to its end; its output goes where xtask's goes.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<()> {
    let status = Group::start(command)?.wait()?;
    if status.success() { Ok(()) } else { Err(failed(what, status)) }
}

/// Runs a command to its end and returns its standard output.
pub(crate) fn output(what: &str, command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let result = command.stdin(Stdio::null()).stderr(Stdio::piped()).output();
    stop_here_if_ending();
    let output = result.map_err(|source| Error::Start { program, source })?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(Error::Failed {
            what: what.to_owned(),
            how: format!("{}: {}", output.status, errors.trim()),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The error of a command that ended with `status`.
pub(crate) fn failed(what: &str, status: ExitStatus) -> Error {
    Error::Failed { what: what.to_owned(), how: status.to_string() }
}

/// Waits a moment between two looks at something.
pub(crate) fn glance() {
    thread::sleep(GLANCE);
}

/// A folder that is removed with all its content on drop and on Ctrl-C.
pub(crate) struct TemporaryFolder {
    path: PathBuf,
}

impl TemporaryFolder {
    /// Creates `parent/PREFIX-RANDOM`, readable by its owner alone.
    pub(crate) fn create(parent: &Path, prefix: &str) -> Result<Self> {
        let path = parent.join(format!("{prefix}-{}", random_hex(6)?));
        let mut pending = pending();
        create_private_folder(&path)?;
        pending.push(Undo::RemoveFolder(path.clone()));
        Ok(Self { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the content under another name, from where nothing removes it. False: somebody else was faster.
    pub(crate) fn keep_as(self, target: &Path) -> Result<bool> {
        match std::fs::rename(&self.path, target) {
            Ok(()) => Ok(true),
            Err(_) if target.exists() => Ok(false),
            Err(error) => Err(file("create", target)(error)),
        }
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let undo = Undo::RemoveFolder(self.path.clone());
        undo.run();
        forget(&undo);
    }
}

/// Creates a folder that only its owner can enter.
pub(crate) fn create_private_folder(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(path).map_err(file("create", path))
}

/// `bytes` random bytes from the kernel, as hexadecimal digits.
pub(crate) fn random_hex(bytes: usize) -> Result<String> {
    use std::io::Read;
    let source = Path::new("/dev/urandom");
    let mut buffer = vec![0; bytes];
    std::fs::File::open(source)
        .and_then(|mut file| file.read_exact(&mut buffer))
        .map_err(file("read", source))?;
    Ok(buffer.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_group_leaves_no_process_even_when_it_ignores_the_request() {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; sleep 1000 & echo $!; wait"]).stdout(Stdio::piped());
        let mut group = Group::start(&mut command).unwrap();
        let mut line = String::new();
        let mut reader = std::io::BufReader::new(group.take_stdout().unwrap());
        std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
        let stat = format!("/proc/{}/stat", line.trim());
        // A zombie has ended: only its parent has not asked for its exit code yet.
        let alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        assert!(alive());
        drop(group);
        let deadline = Instant::now() + Duration::from_secs(10);
        while alive() && Instant::now() < deadline {
            glance();
        }
        assert!(!alive(), "the grandchild is still there");
    }

    #[test]
    fn a_temporary_folder_is_private_and_goes_with_its_content() {
        use std::os::unix::fs::PermissionsExt;
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-unit").unwrap();
        let path = folder.path().to_owned();
        std::fs::write(path.join("content"), "x").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_failed_command_is_reported_with_its_code_and_its_errors() {
        let error = output("the trial", Command::new("sh").args(["-c", "echo sad >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("the trial") && text.contains('3') && text.contains("sad"), "{text}");
    }
}
