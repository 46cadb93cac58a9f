//! `rdmascope tls`: makes certificates for a cluster, and says what is in one.

use crate::failure::{Failure, code};
use crate::output::{plain, show};
use clap::{Args, Subcommand};
use rdmascope_config::node_names;
use rdmascope_host::Clock;
use rdmascope_model::{EndpointName, Wall, in_one_line};
use rdmascope_secure::{AuthorityError, CertificateRole, Request, Subject, make, subjects};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Largest file that `show` reads, bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Days in which a certificate should be replaced; the shipped alert says the same.
const SOON_DAYS: u64 = 14;
const DAY_MS: u64 = 86_400_000;

#[derive(Debug, Subcommand)]
pub(crate) enum TlsCommand {
    Init(InitFlags),
    /// Say whom a certificate is for, and until when
    #[command(after_help = "Example:\n  rdmascope tls show /etc/rdmascope/tls/tls.crt")]
    Show {
        /// File with certificates in PEM
        file: PathBuf,
    },
}

/// Make a small CA, and a folder with certificate and key for everybody
///
/// FOLDER/coordinator, FOLDER/nodes/NAME, FOLDER/operator (may do everything) and FOLDER/reader (may only look)
/// are each what --tls and tls_dir take: copy each to where it is used, as /etc/rdmascope/tls. FOLDER/ca.key
/// makes more of them: keep it off the cluster. Nothing is ever overwritten.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope tls init pki --nodes 'node[01-18]' --coordinator head
  rdmascope tls init pki --add --nodes node19      one more node
  rm -r pki/nodes/node07 && rdmascope tls init pki --add --nodes node07   a new one")]
pub(crate) struct InitFlags {
    /// Folder to make, or with --add the one that is there
    folder: PathBuf,
    /// Names of the nodes as the matrix has them; as Slurm writes them: node[01-18],gpu7
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    nodes: String,
    /// Name or address that the coordinator is called by; may be given more than once (localhost always is)
    #[arg(long, value_name = "NAME")]
    coordinator: Vec<String>,
    /// Days that certificates are valid; the CA is for ten years
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    days: u32,
    /// The CA is there: make only what is named
    #[arg(long)]
    add: bool,
}

/// Runs it.
pub(crate) fn run(command: &TlsCommand) -> Result<u8, Failure> {
    match command {
        TlsCommand::Init(flags) => init(flags),
        TlsCommand::Show { file } => show_file(file),
    }
}

fn init(flags: &InitFlags) -> Result<u8, Failure> {
    let request = Request {
        folder: flags.folder.clone(),
        nodes: nodes(&flags.nodes)?,
        coordinator: flags.coordinator.clone(),
        days: flags.days,
        add: flags.add,
    };
    if let Some(bad) = request.coordinator.iter().find(|name| !is_host(name)) {
        return Err(Failure::new(code::USAGE, format!("--coordinator {bad}: not a name or an address"))
            .then("give it as agents dial it, without a port: head.example.net"));
    }
    let made = make(&request).map_err(|error| failed(&error, flags))?;
    let mut text = String::new();
    for folder in &made {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{}", folder.display());
    }
    if !flags.add {
        let _ = writeln!(
            text,
            "next step: copy each folder to its machine as /etc/rdmascope/tls (the key readable by rdmascope only), name it with \
             tls_dir or --tls, and keep {}/ca.key off the cluster",
            flags.folder.display()
        );
    }
    show(&text)?;
    Ok(0)
}

fn failed(error: &AuthorityError, flags: &InitFlags) -> Failure {
    let failure = Failure::new(code::FAILED, in_one_line(error));
    match error {
        AuthorityError::Exists(_) if flags.add => failure.then(
            "move it away first, where it is to be replaced: the old certificate is good until it expires",
        ),
        AuthorityError::Exists(_) => failure.then("add to it with --add, or name another folder"),
        AuthorityError::File { .. } if flags.add => {
            failure.then("is this the folder of an earlier `rdmascope tls init`, with its ca.crt and ca.key?")
        }
        AuthorityError::File { .. } => failure.then("is the disk full, or the folder another user's?"),
        AuthorityError::Make { .. } => {
            failure.then("names in certificates are of letters, digits, dots and dashes")
        }
    }
}

fn nodes(list: &str) -> Result<Vec<String>, Failure> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let usage = |why: String| {
        Failure::new(code::USAGE, format!("--nodes {list}: {why}"))
            .then("write names as Slurm does: node[01-18],gpu7")
    };
    let names = node_names(list).map_err(|why| usage(why.to_string()))?;
    // A name becomes a folder: it must be one that a node can have, and none that leads elsewhere.
    let is_good =
        |name: &str| format!("{name}/device/1").parse::<EndpointName>().is_ok() && !name.starts_with('.');
    match names.iter().find(|name| !is_good(name)) {
        Some(bad) => Err(usage(format!("'{bad}' cannot be a node"))),
        None => Ok(names),
    }
}

fn is_host(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    name.parse::<std::net::IpAddr>().is_ok()
        || (!name.is_empty() && name.len() <= 253 && name.chars().all(plain))
}

fn show_file(file: &Path) -> Result<u8, Failure> {
    let cannot = |why: String| Failure::new(code::FAILED, format!("{}: {why}", file.display()));
    let metadata = std::fs::metadata(file).map_err(|error| cannot(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Err(
            cannot("not a file of certificates".to_owned()).then("name a file such as tls.crt or ca.crt")
        );
    }
    let bytes = std::fs::read(file).map_err(|error| cannot(error.to_string()))?;
    let found = subjects(&bytes)
        .map_err(|why| cannot(why).then("name a file with certificates in PEM, such as tls.crt or ca.crt"))?;
    let now = Clock::new().now().wall;
    let lines: Vec<String> = found.iter().map(|subject| described(subject, now)).collect();
    show(&lines.join("\n"))?;
    Ok(u8::from(found.iter().any(|subject| subject.until <= now)))
}

/// One certificate in words.
pub(crate) fn described(subject: &Subject, now: Wall) -> String {
    let mut text =
        format!("{}\n", if subject.name.is_empty() { "no name".into() } else { plain(&subject.name) });
    let names: Vec<&str> = subject.dns.iter().chain(&subject.addresses).map(String::as_str).collect();
    let is_for = match subject.role {
        Some(CertificateRole::Operate) => "  may    look and operate\n".to_owned(),
        Some(CertificateRole::Read) => "  may    look\n".to_owned(),
        None if subject.is_authority => "  is     a certificate authority\n".to_owned(),
        None => String::new(),
    };
    text.push_str(&is_for);
    if !names.is_empty() {
        text.push_str(&format!("  for    {}\n", plain(&names.join(", "))));
    }
    text.push_str(&format!(
        "  from   {}\n  until  {} ({})\n",
        subject.from,
        subject.until,
        left(subject.until, now)
    ));
    text
}

/// How long a certificate still is good.
pub(crate) fn left(until: Wall, now: Wall) -> String {
    match until.0.saturating_sub(now.0) / DAY_MS {
        _ if until <= now => "EXPIRED: nobody accepts it".to_owned(),
        days if days < SOON_DAYS => format!("{days} days left: replace it now"),
        days => format!("{days} days left"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_none() {
        for bad in ["..", ".hidden", "a/b", "a b"] {
            assert!(nodes(bad).is_err(), "{bad}");
        }
        assert_eq!(nodes("n[1-2],x").unwrap(), ["n1", "n2", "x"]);
        assert!(nodes("").unwrap().is_empty());
        assert!(is_host("head.example.net") && is_host("::1") && !is_host("head:8080") && !is_host(""));
    }

    #[test]
    fn what_is_left_is_told_in_days() {
        let now = Wall(1_000 * DAY_MS);
        let in_days = |days: u64| left(Wall(now.0 + days * DAY_MS), now);
        assert_eq!(in_days(30), "30 days left");
        assert_eq!(in_days(13), "13 days left: replace it now");
        assert_eq!(in_days(0), "EXPIRED: nobody accepts it");
    }
}
