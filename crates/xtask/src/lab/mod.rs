//! The lab: a virtual machine with real RDMA devices (Soft-RoCE), booted for one command.

mod initramfs;
mod kernel;
mod machine;
mod modules;
mod share;

pub(crate) use kernel::cache;
pub(crate) use share::RunFolder;

use crate::error::{Result, file, other};
use crate::process::stop_here_if_ending;
use machine::{Acceleration, Machine, Parts, Word};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most endpoints that fit; 16 come up within 2 GiB of memory.
pub(crate) const ENDPOINTS_MAX: u8 = 16;
/// A machine that KVM can run says its first word after about 1 s; one that hangs says nothing for ever.
const KVM_PATIENCE: Duration = Duration::from_secs(15);
/// Emulation needs about 6 s on an idle machine; a busy one may be many times slower.
const BOOT_PATIENCE: Duration = Duration::from_secs(240);
/// Output that is still on its way after the command's end is waited for so long.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);
/// In the cache: this machine's KVM did not boot the guest.
const KVM_FAILED: &str = "kvm-does-not-boot";

/// What to boot.
pub(crate) struct Plan {
    /// Number of endpoints, 1 to [`ENDPOINTS_MAX`].
    pub(crate) endpoints: u8,
    /// Put the modules of [`modules`] into the share.
    pub(crate) modules: bool,
    /// Port of 127.0.0.1 that leads to port 8080 of the guest.
    pub(crate) port: u16,
    /// One word is a line for `bash -c`; several are a program and its arguments.
    pub(crate) command: Vec<String>,
}

/// A booted lab whose command is running. Dropping it switches the machine off.
pub(crate) struct Lab {
    machine: Machine,
    run: RunFolder,
}

impl Lab {
    /// Boots the machine, waits until all endpoints are up, and starts the command.
    ///
    /// # Errors
    /// No kernel to be had, or the machine does not boot: the reason and the last messages of the guest.
    pub(crate) fn boot(run: RunFolder, plan: &Plan) -> Result<Self> {
        let cache = cache()?;
        let kernel = kernel::prepare(&cache)?;
        if plan.modules {
            run.add_folder(&modules::prepare(&cache, &kernel.version)?, "modules")?;
        }
        run.write(".boot/guest.sh", include_str!("guest.sh"))?;
        run.write(".boot/endpoints", &format!("{}\n", plan.endpoints))?;
        run.write(".boot/command.sh", &script(&plan.command))?;
        // 1,536 MiB carry 8 endpoints and what measures them; each rxe device pins some more.
        let memory_mib = if plan.endpoints > 8 { 2048 } else { 1536 };
        let parts = Parts { kernel: &kernel, run: &run, memory_mib, port: plan.port };
        let start = Instant::now();
        let mut machine = start_machine(&parts, &cache)?;
        if let Err(error) = wait_until_ready(&mut machine, plan.endpoints, start) {
            stop_here_if_ending();
            let console = machine.console();
            machine.switch_off();
            let guest = tail(&run.share().join(".boot/guest.log"));
            return Err(other(format!(
                "the lab does not boot: {error}\n--- the guest's kernel:\n{console}\n--- the guest's script:\n{guest}"
            )));
        }
        Ok(Self { machine, run })
    }

    /// The folder that host and guest share.
    pub(crate) fn share(&self) -> std::path::PathBuf {
        self.run.share()
    }

    /// The command's exit code, or nothing when it is still running after `patience`.
    ///
    /// # Errors
    /// The machine ended by itself.
    pub(crate) fn exit_code(&mut self, patience: Duration) -> Result<Option<i32>> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.machine.next_word(left) {
                Ok(Some(Word::Exit(code))) => {
                    let flushed = self.machine.next_word(FLUSH_PATIENCE)?;
                    if flushed.is_none() {
                        eprintln!("lab: the command's last output may be missing");
                    }
                    return Ok(Some(code));
                }
                Ok(Some(_)) => {}
                Ok(None) => return Ok(None),
                Err(error) => {
                    stop_here_if_ending();
                    return Err(other(format!(
                        "{error}\n--- the guest's kernel:\n{}",
                        self.machine.console()
                    )));
                }
            }
        }
    }

    /// Waits for the command's end and switches the machine off.
    ///
    /// # Errors
    /// The machine ended by itself, or the command is not done within `limit`.
    pub(crate) fn finish(mut self, limit: Option<Duration>) -> Result<i32> {
        // Longer than any run; `Duration::MAX` cannot be added to an instant.
        const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);
        let code = self.exit_code(limit.unwrap_or(FOR_EVER))?;
        self.machine.switch_off();
        let seconds = limit.unwrap_or(FOR_EVER).as_secs();
        code.ok_or_else(|| other(format!("the command in the lab was not done after {seconds} s")))
    }
}

/// Runs one command in a lab of its own and returns its exit code.
///
/// # Errors
/// As [`Lab::boot`] and [`Lab::finish`].
pub(crate) fn run_command(endpoints: u8, command: Vec<String>, rdmascope: Option<&Path>) -> Result<i32> {
    let run = RunFolder::create()?;
    if let Some(program) = rdmascope {
        run.add_program(program, "rdmascope")?;
    }
    let port = free_port()?;
    eprintln!("lab: port 8080 of the guest is http://127.0.0.1:{port} here");
    Lab::boot(run, &Plan { endpoints, modules: true, port, command })?.finish(None)
}

/// A port of 127.0.0.1 that nobody uses at this moment.
pub(crate) fn free_port() -> Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| other(format!("no free port on 127.0.0.1: {error}")))
}

/// The last lines of a log; empty when there is none.
pub(crate) fn tail(path: &Path) -> String {
    const LINES: usize = 30;
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

fn start_machine(parts: &Parts<'_>, cache: &Path) -> Result<Machine> {
    let note = cache.join(KVM_FAILED);
    let here = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let failed_before = fs::read_to_string(&note).is_ok_and(|kernel| kernel == here);
    if failed_before || fs::File::options().read(true).write(true).open("/dev/kvm").is_err() {
        eprintln!("lab: booting in software emulation");
        return Machine::start(parts, Acceleration::Emulation);
    }
    eprintln!("lab: booting with KVM");
    let reason = match try_kvm(parts) {
        Ok(machine) => return Ok(machine),
        Err(error) => error.to_string(),
    };
    stop_here_if_ending();
    eprintln!("lab: not with KVM: {}", reason.lines().next().unwrap_or_default());
    eprintln!("lab: booting in software emulation");
    let machine = Machine::start(parts, Acceleration::Emulation)?;
    // Only now, because what keeps QEMU itself from starting says nothing about KVM.
    fs::write(&note, &here).map_err(file("write", &note))?;
    eprintln!("lab: KVM will not be tried here again until {} is removed", note.display());
    Ok(machine)
}

fn try_kvm(parts: &Parts<'_>) -> Result<Machine> {
    let mut machine = Machine::start(parts, Acceleration::Kvm)?;
    match machine.next_word(KVM_PATIENCE)? {
        Some(Word::Started) => Ok(machine),
        Some(Word::Failed(reason)) => Err(other(reason)),
        _ => Err(other(format!("the guest did not start within {} s", KVM_PATIENCE.as_secs()))),
    }
}

fn wait_until_ready(machine: &mut Machine, endpoints: u8, start: Instant) -> Result<()> {
    let deadline = start + BOOT_PATIENCE;
    let since = || start.elapsed().as_secs_f64();
    loop {
        match machine.next_word(deadline.saturating_duration_since(Instant::now()))? {
            Some(Word::Started) => eprintln!("lab: the guest's kernel is up after {:.1} s", since()),
            Some(Word::Ready(uptime)) => {
                eprintln!(
                    "lab: {endpoints} endpoints are up after {:.1} s (guest clock {uptime} s)",
                    since()
                );
                return Ok(());
            }
            Some(Word::Failed(reason)) => return Err(other(reason)),
            Some(Word::Exit(_) | Word::Flushed) => return Err(other("the guest spoke out of turn")),
            None => {
                return Err(other(format!("it was not ready after {} s", BOOT_PATIENCE.as_secs())));
            }
        }
    }
}

/// The script that the guest runs: a single word is a line of bash, several are quoted one by one.
fn script(command: &[String]) -> String {
    match command {
        [line] => format!("{line}\n"),
        words => {
            let quoted: Vec<String> =
                words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
            format!("exec {}\n", quoted.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_a_line_of_bash_and_several_keep_their_borders() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(script(&words(&["rdma link | head"])), "rdma link | head\n");
        assert_eq!(script(&words(&["echo", "a  b", "it's"])), "exec 'echo' 'a  b' 'it'\\''s'\n");
    }

    #[test]
    fn a_log_s_tail_is_its_last_lines_and_a_missing_log_is_empty() {
        let folder =
            crate::process::TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-unit").unwrap();
        let path = folder.path().join("log");
        assert_eq!(tail(&path), "");
        let text: Vec<String> = (0..100).map(|line| line.to_string()).collect();
        fs::write(&path, text.join("\n")).unwrap();
        assert!(tail(&path).starts_with("70\n") && tail(&path).ends_with("\n99"));
    }
}
