//! The virtual machine: QEMU's arguments, KVM or emulation, and the three ports that lead out of the guest.

use super::kernel::Kernel;
use super::share::RunFolder;
use crate::error::{Error, Result, file, other};
use crate::process::{Group, create_private_folder, glance};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How the guest's processors are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceleration {
    /// By the processor itself.
    Kvm,
    /// By QEMU in software: works everywhere, about ten times slower.
    Emulation,
}

impl Acceleration {
    fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Emulation => "emulation",
        }
    }

    fn arguments(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Self::Emulation => ["-accel", "tcg,thread=multi", "-cpu", "max"],
        }
    }
}

/// What the guest says over its control port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The first script runs.
    Started,
    /// All endpoints are up, so many seconds after the kernel's start.
    Ready(String),
    /// The guest could not be set up.
    Failed(String),
    /// The command ended.
    Exit(i32),
    /// All output of the command has been handed over.
    Flushed,
}

impl Word {
    fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        match word {
            "started" => Some(Self::Started),
            "ready" => Some(Self::Ready(rest.to_owned())),
            "failed" => Some(Self::Failed(rest.to_owned())),
            "exit" => rest.parse().ok().map(Self::Exit),
            "flushed" => Some(Self::Flushed),
            _ => None,
        }
    }
}

/// What a machine is made of.
pub(crate) struct Parts<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) run: &'a RunFolder,
    pub(crate) memory_mib: u32,
    /// Port of 127.0.0.1 that leads to port 8080 of the guest.
    pub(crate) port: u16,
}

/// A running machine. Dropping it switches the machine off.
pub(crate) struct Machine {
    qemu: Group,
    words: Receiver<Word>,
    copiers: Vec<JoinHandle<()>>,
    console: PathBuf,
    log: PathBuf,
}

impl Machine {
    /// Starts QEMU and connects the ports.
    ///
    /// # Errors
    /// QEMU is not there, or it ended before its ports were connected.
    pub(crate) fn start(parts: &Parts<'_>, acceleration: Acceleration) -> Result<Self> {
        // A folder for each try: a connection of a failed try must not be taken for one of the next.
        let folder = parts.run.path().join(acceleration.name());
        create_private_folder(&folder)?;
        let listen = |name: &str| {
            let path = folder.join(name);
            let listener = UnixListener::bind(&path).map_err(file("listen on", &path))?;
            listener.set_nonblocking(true).map_err(file("listen on", &path))?;
            Ok::<_, Error>(listener)
        };
        let (control, stdout, stderr) = (listen("control")?, listen("stdout")?, listen("stderr")?);
        let console = folder.join("console.log");
        let log = folder.join("qemu.log");
        let mut qemu = Group::start_bound(&qemu(parts, acceleration, &folder, &console), &log)?;
        let control = accept(&control, &mut qemu, &log)?;
        let stdout = accept(&stdout, &mut qemu, &log)?;
        let stderr = accept(&stderr, &mut qemu, &log)?;
        let (sender, words) = channel();
        thread::spawn(move || read_words(control, &sender));
        let copiers = vec![
            thread::spawn(move || copy(stdout, std::io::stdout())),
            thread::spawn(move || copy(stderr, std::io::stderr())),
        ];
        Ok(Self { qemu, words, copiers, console, log })
    }

    /// The guest's next word, or nothing when it says none within `patience`.
    ///
    /// # Errors
    /// The machine ended by itself: the kernel panicked, or QEMU failed.
    pub(crate) fn next_word(&mut self, patience: Duration) -> Result<Option<Word>> {
        match self.words.recv_timeout(patience) {
            Ok(word) => Ok(Some(word)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.qemu.wait()?;
                Err(other(format!(
                    "the virtual machine ended by itself ({status}) {}",
                    super::tail(&self.log)
                )))
            }
        }
    }

    /// The last lines of the guest kernel's messages.
    pub(crate) fn console(&self) -> String {
        super::tail(&self.console)
    }

    /// Switches the machine off and waits until all its output has been printed.
    pub(crate) fn switch_off(self) {
        let Self { qemu, copiers, .. } = self;
        drop(qemu);
        for copier in copiers {
            // A panicked copier has said so itself.
            drop(copier.join());
        }
    }
}

fn qemu(parts: &Parts<'_>, acceleration: Acceleration, folder: &Path, console: &Path) -> Command {
    let kernel = parts.kernel;
    let memory = parts.memory_mib.to_string();
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(acceleration.arguments());
    qemu.args([
        "-smp",
        "2",
        "-m",
        &memory,
        "-display",
        "none",
        "-no-reboot",
        "-nodefaults",
        "-monitor",
        "none",
    ]);
    qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(&kernel.initramfs);
    qemu.args(["-append", KERNEL_ARGUMENTS]);
    qemu.arg("-serial").arg(with_path("file:", console));
    // restrict: nothing in the guest reaches the network; the forwarded port still leads in.
    let network =
        format!("user,id=host,ipv6=off,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:8080", port = parts.port);
    // Without its boot ROM, which only costs time here and is in a package of its own.
    qemu.args(["-netdev", &network, "-device", "virtio-net-pci,netdev=host,romfile="]);
    qemu.args(["-device", "virtio-serial-pci"]);
    for name in ["control", "stdout", "stderr"] {
        qemu.arg("-chardev").arg(with_path(&format!("socket,id={name},path="), &folder.join(name)));
        qemu.arg("-device").arg(format!("virtserialport,chardev={name},name={name}"));
    }
    let share = parts.run.share();
    for (tag, path, access) in [
        ("root", Path::new("/"), ",readonly=on"),
        ("kernel", kernel.root.as_path(), ",readonly=on"),
        ("lab", share.as_path(), ""),
    ] {
        let tail = format!("mount_tag={tag},security_model=none,multidevs=remap{access},path=");
        qemu.arg("-virtfs").arg(with_path(&format!("local,{tail}"), path));
    }
    qemu
}

/// mitigations, apparmor, audit: an emulated processor pays much for them, and the guest is thrown away.
/// `rcu_expedited`: adding and removing ports waits for microseconds instead of timer ticks.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet panic=-1 mitigations=off apparmor=0 audit=0 tsc=reliable \
     no_timer_check cryptomgr.notests random.trust_cpu=on rcupdate.rcu_expedited=1";

/// QEMU separates options by commas, and takes a doubled one for a comma in a path.
fn with_path(before: &str, path: &Path) -> String {
    format!("{before}{}", path.display().to_string().replace(',', ",,"))
}

/// QEMU connects to the sockets before it starts the machine.
fn accept(listener: &UnixListener, qemu: &mut Group, log: &Path) -> Result<UnixStream> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(|error| other(format!("a port failed: {error}")))?;
                return Ok(stream);
            }
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => {
                return Err(other(format!("a port failed: {error}")));
            }
            Err(_) => {}
        }
        if let Some(status) = qemu.ended()? {
            return Err(other(format!("QEMU ended at once ({status}): {}", super::tail(log))));
        }
        if Instant::now() > deadline {
            return Err(other("QEMU did not connect its ports within 30 s"));
        }
        glance();
    }
}

fn read_words(control: UnixStream, words: &Sender<Word>) {
    for line in BufReader::new(control).lines().map_while(std::io::Result::ok) {
        let Some(word) = Word::parse(&line) else { continue };
        if words.send(word).is_err() {
            return;
        }
    }
}

/// Copies what the guest prints, at once and unchanged, until the machine is switched off.
fn copy(mut from: UnixStream, mut to: impl Write) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 {
            return;
        }
        // When nobody reads our output any more, the guest's is still taken, so that it does not stall.
        drop(to.write_all(&buffer[..count]).and_then(|()| to.flush()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_s_words_are_understood_and_noise_is_not() {
        assert_eq!(Word::parse("started\r"), Some(Word::Started));
        assert_eq!(Word::parse("ready 5.61"), Some(Word::Ready("5.61".to_owned())));
        assert_eq!(Word::parse("exit 3"), Some(Word::Exit(3)));
        assert_eq!(Word::parse("failed no crc32"), Some(Word::Failed("no crc32".to_owned())));
        assert_eq!(Word::parse("exit"), None);
        assert_eq!(Word::parse(""), None);
    }

    #[test]
    fn a_comma_in_a_path_does_not_start_a_new_option() {
        assert_eq!(with_path("file:", Path::new("/a,b")), "file:/a,,b");
    }
}
