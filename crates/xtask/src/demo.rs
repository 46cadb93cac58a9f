//! `cargo xtask demo`: the whole product at work, from the ports to the matrix, with one command.

use crate::error::{Result, file, other};
use crate::install::{Need, install};
use crate::lab::{ENDPOINTS_MAX, Lab, Plan, RunFolder, free_port, tail};
use crate::process::{Group, TemporaryFolder, create_private_folder, failed, random_hex, run};
use crate::workspace::{RDMASCOPE, build};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Where a browser finds the demo unless somebody else listens there.
const DEFAULT_PORT: u16 = 18080;
/// The coordinator answers within a second or two, in the emulated lab too.
const COORDINATOR_PATIENCE: Duration = Duration::from_secs(60);
/// What runs in the lab; `$1` endpoints. Ends only when something of it ends, which is a failure.
const IN_THE_LAB: &str = include_str!("demo.sh");

/// How to show it.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Endpoints of the cluster.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=i64::from(ENDPOINTS_MAX)))]
    endpoints: u8,
    /// End after the first sweep instead of waiting for Ctrl-C.
    #[arg(long)]
    exit_after_sweep: bool,
    /// Port of 127.0.0.1 for the page, the API and the metrics [default: 18080, or a free one].
    #[arg(long)]
    port: Option<u16>,
    /// Use the RDMA devices of this machine instead of the lab's; measures latency only.
    #[arg(long, conflicts_with_all = ["tcp", "endpoints"])]
    here: bool,
    /// With --here: measure bandwidth too (it fills the ports: only where no job runs).
    #[arg(long, requires = "here")]
    bandwidth: bool,
    /// Run on loopback over TCP, for a machine without QEMU; no RDMA is measured.
    #[arg(long)]
    tcp: bool,
}

/// What is being watched, and by whom it is kept alive.
pub(crate) enum Cluster {
    Lab(Box<Lab>),
    Processes { members: Vec<Member>, folder: TemporaryFolder },
}

pub(crate) struct Member {
    name: String,
    group: Group,
    log: PathBuf,
}

/// How the client commands reach the coordinator.
struct Client {
    rdmascope: PathBuf,
    port: u16,
    token: PathBuf,
}

/// Shows it.
///
/// # Errors
/// Something cannot be installed, built or booted, the sweep failed, or a part of the cluster ended by itself.
pub(crate) fn demo(options: &Options) -> Result<()> {
    let in_lab = !options.here && !options.tcp;
    install(if in_lab { &[Need::Build, Need::Lab] } else { &[Need::Build] })?;
    eprintln!("demo: building rdmascope (release)");
    let rdmascope = build(RDMASCOPE)?;
    let port = choose_port(options.port)?;
    let (mut cluster, endpoints) = if options.here {
        here(&rdmascope, port)?
    } else if options.tcp {
        (tcp(&rdmascope, port, options.endpoints)?, usize::from(options.endpoints))
    } else {
        (lab(&rdmascope, port, options.endpoints)?, usize::from(options.endpoints))
    };
    let client = Client { rdmascope, port, token: cluster.token() };
    wait_for_coordinator(&mut cluster, port)?;
    let bandwidth = !options.here || options.bandwidth;
    sweep(&client, &mut cluster, endpoints, bandwidth)?;
    let metrics: &[&str] = if bandwidth { &["latency", "bandwidth"] } else { &["latency"] };
    for metric in metrics {
        println!("\n{metric}:");
        run(
            &format!("rdmascope matrix --metric {metric}"),
            &mut client.command(&["matrix", "--metric", metric]),
        )?;
    }
    if options.tcp {
        println!("\nThese are TCP connections on loopback: no RDMA was measured.");
    }
    println!("\nPage and API: http://127.0.0.1:{port}/   metrics: http://127.0.0.1:{port}/metrics");
    if options.exit_after_sweep {
        return Ok(());
    }
    println!("Ctrl-C ends it and removes everything that it made.");
    loop {
        cluster.check(Duration::from_secs(1))?;
    }
}

pub(crate) fn lab(rdmascope: &Path, port: u16, endpoints: u8) -> Result<Cluster> {
    let run = RunFolder::create()?;
    run.add_program(rdmascope, "rdmascope")?;
    write_token(&run.share())?;
    run.write("demo.sh", IN_THE_LAB)?;
    let command = vec!["bash".to_owned(), "/tmp/lab/demo.sh".to_owned(), endpoints.to_string()];
    let lab = Lab::boot(run, &Plan { endpoints, modules: false, port, command })?;
    eprintln!("demo: one coordinator and {endpoints} agents start in the lab");
    Ok(Cluster::Lab(Box::new(lab)))
}

fn here(rdmascope: &Path, port: u16) -> Result<(Cluster, usize)> {
    let endpoints = active_ports(Path::new("/sys/class/infiniband"));
    if endpoints < 2 {
        return Err(other(format!(
            "this machine has {endpoints} active RDMA port(s), and a pair needs two; \
             without --here the demo brings its own devices"
        )));
    }
    let mut cluster = processes(rdmascope, port)?;
    cluster.add(rdmascope, port, "agent", &[])?;
    eprintln!("demo: one coordinator and one agent with {endpoints} active ports of this machine");
    Ok((cluster, endpoints))
}

pub(crate) fn tcp(rdmascope: &Path, port: u16, endpoints: u8) -> Result<Cluster> {
    let mut cluster = processes(rdmascope, port)?;
    for index in 1..=endpoints {
        let name = format!("demo-{index}");
        cluster.add(rdmascope, port, &name, &["--transport", "tcp", "--node-name", &name])?;
    }
    eprintln!("demo: one coordinator and {endpoints} agents over TCP on loopback; no RDMA is measured");
    Ok(cluster)
}

/// A coordinator on this machine, ready for agents.
fn processes(rdmascope: &Path, port: u16) -> Result<Cluster> {
    let folder = TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-demo")?;
    write_token(folder.path())?;
    let mut command = Command::new(rdmascope);
    command.args(["coordinator", "--listen", &format!("127.0.0.1:{port}"), "--token-file"]);
    command.arg(folder.path().join("token")).arg("--state-dir").arg(state_folder(&folder, "coordinator")?);
    let log = folder.path().join("coordinator.log");
    let group = Group::start_bound(&command, &log)?;
    Ok(Cluster::Processes { members: vec![Member { name: "coordinator".to_owned(), group, log }], folder })
}

fn state_folder(folder: &TemporaryFolder, name: &str) -> Result<PathBuf> {
    let path = folder.path().join(name);
    create_private_folder(&path)?;
    Ok(path)
}

impl Cluster {
    pub(crate) fn token(&self) -> PathBuf {
        match self {
            Self::Lab(lab) => lab.share().join("token"),
            Self::Processes { folder, .. } => folder.path().join("token"),
        }
    }

    fn add(&mut self, rdmascope: &Path, port: u16, name: &str, arguments: &[&str]) -> Result<()> {
        let Self::Processes { members, folder } = self else {
            return Err(other("the lab starts its agents itself"));
        };
        let mut command = Command::new(rdmascope);
        command.args(["agent", "--coordinator", &format!("127.0.0.1:{port}"), "--token-file"]);
        command.arg(folder.path().join("token")).args(arguments);
        command.arg("--state-dir").arg(state_folder(folder, name)?);
        let log = folder.path().join(format!("{name}.log"));
        let group = Group::start_bound(&command, &log)?;
        members.push(Member { name: name.to_owned(), group, log });
        Ok(())
    }

    /// Watches the cluster for about `patience`; an error when a part of it has ended.
    pub(crate) fn check(&mut self, patience: Duration) -> Result<()> {
        match self {
            Self::Lab(lab) => match lab.exit_code(patience)? {
                Some(code) => Err(other(format!("the lab's programs ended (exit code {code}); see above"))),
                None => Ok(()),
            },
            Self::Processes { members, .. } => {
                for member in members {
                    if let Some(status) = member.group.ended()? {
                        let log = tail(&member.log);
                        return Err(other(format!("{} ended ({status}):\n{log}", member.name)));
                    }
                }
                std::thread::sleep(patience);
                Ok(())
            }
        }
    }
}

impl Client {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.rdmascope);
        command.args(arguments).arg("--coordinator").arg(format!("127.0.0.1:{}", self.port));
        command.arg("--token-file").arg(&self.token);
        command
    }
}

fn sweep(client: &Client, cluster: &mut Cluster, endpoints: usize, bandwidth: bool) -> Result<()> {
    let endpoints = endpoints.to_string();
    let mut arguments = vec!["sweep", "--min-endpoints", &endpoints, "--metric"];
    // Drained means: no job runs on these ports. True in the lab and on loopback, and promised by --bandwidth.
    arguments.extend(if bandwidth { ["all", "--drained"].as_slice() } else { ["latency"].as_slice() });
    eprintln!("demo: rdmascope {}", arguments.join(" "));
    let start = Instant::now();
    let mut group = Group::start(&mut client.command(&arguments))?;
    loop {
        if let Some(status) = group.ended()? {
            if !status.success() {
                return Err(failed("the first sweep", status));
            }
            eprintln!("demo: the first full sweep took {:.1} s", start.elapsed().as_secs_f64());
            return Ok(());
        }
        cluster.check(Duration::from_millis(50))?;
    }
}

pub(crate) fn wait_for_coordinator(cluster: &mut Cluster, port: u16) -> Result<()> {
    let deadline = Instant::now() + COORDINATOR_PATIENCE;
    while !answers(port) {
        cluster.check(Duration::from_millis(50))?;
        if Instant::now() > deadline {
            let patience = COORDINATOR_PATIENCE.as_secs();
            return Err(other(format!(
                "the coordinator does not answer at 127.0.0.1:{port} after {patience} s"
            )));
        }
    }
    Ok(())
}

/// Whether `GET /healthz` says 200. The forwarded port accepts connections before anybody listens in the guest.
fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut start = [0; 12];
        stream.read_exact(&mut start)?;
        Ok(start.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

fn choose_port(wanted: Option<u16>) -> Result<u16> {
    let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    match wanted {
        Some(port) => match free(port) {
            Ok(_) => Ok(port),
            Err(error) => Err(other(format!("port {port} of 127.0.0.1 cannot be used: {error}"))),
        },
        None if free(DEFAULT_PORT).is_ok() => Ok(DEFAULT_PORT),
        None => {
            let port = free_port()?;
            eprintln!("demo: port {DEFAULT_PORT} is taken, so it is {port} this time");
            Ok(port)
        }
    }
}

/// Makes up a token that only the owner can read.
fn write_token(folder: &Path) -> Result<()> {
    let path = folder.join("token");
    let token = random_hex(32)?;
    fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| writeln!(file, "{token}"))
        .map_err(file("write", &path))
}

/// The RDMA ports below `class` that are up. What cannot be read is no port that a demo could use.
fn active_ports(class: &Path) -> usize {
    let entries =
        |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    entries(class.to_owned())
        .flat_map(|device| entries(device.join("ports")))
        .filter(|port| fs::read_to_string(port.join("state")).is_ok_and(|state| state.contains("ACTIVE")))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_active_ports_count_and_a_machine_without_devices_has_none() {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-unit").unwrap();
        assert_eq!(active_ports(&folder.path().join("infiniband")), 0);
        for (device, state) in [("mlx5_0", "4: ACTIVE\n"), ("mlx5_1", "1: DOWN\n"), ("mlx5_2", "4: ACTIVE\n")]
        {
            let port = folder.path().join(device).join("ports/1");
            fs::create_dir_all(&port).unwrap();
            fs::write(port.join("state"), state).unwrap();
        }
        assert_eq!(active_ports(folder.path()), 2);
    }

    #[test]
    fn a_taken_port_is_an_error_when_it_was_asked_for() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(choose_port(Some(port)).unwrap_err().to_string().contains(&port.to_string()));
    }

    #[test]
    fn the_token_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-unit").unwrap();
        write_token(folder.path()).unwrap();
        let path = folder.path().join("token");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap().trim().len(), 64);
    }
}
