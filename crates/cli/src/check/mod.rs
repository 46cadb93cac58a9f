//! `rdmascope check`: judges this machine, or a captured one, without coordinator and agent.

mod render;
mod textfile;

use crate::check_arguments::{CheckFlags, ExitStyle};
use crate::config_check;
use crate::failure::{Failure, code};
use crate::looking::finished;
use crate::output::print;
use rdmascope_checks::log::Rules;
use rdmascope_checks::{Look, Past, Policy};
use rdmascope_config::Config;
use rdmascope_host::{Host, KernelLogReader, Sight, ask_verbs, sight};
use rdmascope_model::{Finding, KernelLog, Mono, Reading, Snapshot, Status, in_one_line};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs it.
pub(crate) fn run(flags: &CheckFlags) -> Result<u8, Failure> {
    let style = flags.exit_style;
    match judge(flags) {
        Err(failure) if style.is_some() => {
            // Whoever calls knows no code but these, and reads no standard error.
            print(&render::for_npd(failure.text()))?;
            Ok(if style == Some(ExitStyle::Npd) { 2 } else { 1 })
        }
        done => done,
    }
}

fn judge(flags: &CheckFlags) -> Result<u8, Failure> {
    let policy = policy(flags)?;
    let host = host(flags, &policy)?;
    let seen = read(&host, flags, &policy.rules)?;
    if flags.show.self_audit {
        print(&render::audit(&host.opened()))?;
        return Ok(0);
    }
    if flags.show.what_i_can_see {
        print(&render::sights(&seen.sights))?;
        return Ok(0);
    }
    let look = Look { now: &seen.now, past: &seen.past, log: &seen.log, policy: &policy };
    let mut findings = rdmascope_checks::run(&look);
    if let Some(folder) = &flags.show.textfile {
        textfile::write(folder, &seen, &findings, &policy)?;
        return Ok(0);
    }
    // Stable: within a status the order of the checks stays, link layer first.
    findings.sort_by_key(|finding| Reverse(finding.status));
    let worst = rdmascope_checks::worst(&findings);
    print(&match flags.exit_style {
        Some(ExitStyle::Npd) => render::for_npd(&render::worst_line(&findings)),
        Some(ExitStyle::Slurm) => render::for_slurm(&findings),
        None if flags.show.json => render::as_json(&seen.now, worst, &findings, &seen.sights),
        None => render::for_people(&findings, flags.all),
    })?;
    Ok(exit_code(flags.exit_style, worst))
}

fn exit_code(style: Option<ExitStyle>, worst: Status) -> u8 {
    match (style, worst) {
        (None, worst) => rdmascope_checks::exit_code(worst),
        (Some(_), Status::Ok | Status::Warn) => 0,
        (Some(ExitStyle::Npd), Status::Unknown) => 2,
        (Some(_), Status::Unknown | Status::Fail) => 1,
    }
}

/// What is expected of the machine.
fn policy(flags: &CheckFlags) -> Result<Policy, Failure> {
    let config = match &flags.config {
        Some(file) => config_check::load(file).map_err(|failure| failure.with(code::CHECK_UNKNOWN))?,
        None => Config::default(),
    };
    let mut policy = Policy { in_container: flags.in_container, ..config.policy };
    if !flags.devices.is_empty() {
        policy.devices.clone_from(&flags.devices);
    }
    if let Some(folder) = &config.agent.log_rules {
        policy.rules = rdmascope_agent::rules(folder)
            .map_err(|error| Failure::new(code::CHECK_UNKNOWN, in_one_line(&error)))?;
    }
    Ok(policy)
}

/// `rdmascope config manifest`: this machine, or one in a folder, as it is now.
pub(crate) fn manifest(root: Option<PathBuf>) -> Result<u8, Failure> {
    let host = Host::new(root.unwrap_or_else(|| "/".into()))
        .map_err(|error| Failure::new(code::FAILED, in_one_line(&error)))?;
    let snapshot = finished(code::FAILED, host.snapshot(ask_verbs()))?;
    print(&rdmascope_config::pinned(&snapshot))?;
    Ok(0)
}

fn host(flags: &CheckFlags, policy: &Policy) -> Result<Host, Failure> {
    let unknown = |text: String| Failure::new(code::CHECK_UNKNOWN, text);
    let host = match (&flags.capture, &flags.root) {
        (Some(file), _) => Host::from_archive(&text_of(file)?)
            .map_err(|error| unknown(format!("{}: {error}", file.display())))?,
        (None, root) => {
            let root = root.clone().unwrap_or_else(|| Path::new("/").to_owned());
            let host = if flags.show.self_audit { Host::recording(root) } else { Host::new(root) };
            host.map_err(|error| unknown(in_one_line(&error)))?
        }
    };
    Ok(host.only(&flags.devices).with_workloads(&policy.workloads))
}

fn text_of(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        Failure::new(code::CHECK_UNKNOWN, format!("{} cannot be read: {error}", file.display()))
    })
}

/// All that was read of a machine.
struct Seen {
    now: Snapshot,
    past: Past,
    log: Reading<KernelLog>,
    sights: Vec<Sight>,
}

fn read(host: &Host, flags: &CheckFlags, rules: &Rules) -> Result<Seen, Failure> {
    let (before, now) = finished(code::CHECK_UNKNOWN, look(host, flags))?;
    let mut past = Past::new();
    let mut at = Mono(0);
    if let Some(before) = &before {
        past.observe(before, at);
        // At least a little later, whatever the clock says: two looks at one instant would be one.
        at = at.after(now.taken_at.since(before.taken_at).max(Duration::from_millis(1)));
    }
    past.observe(&now, at);
    let log = kernel_log(host, flags, rules, &now)?;
    let sights = sight(&now, &host.capabilities(), &log);
    Ok(Seen { now, past, log, sights })
}

/// The machine some seconds ago, where there are two readings, and now.
async fn look(host: &Host, flags: &CheckFlags) -> (Option<Snapshot>, Snapshot) {
    let pause = Duration::from_secs(flags.seconds);
    let once = pause.is_zero() || flags.show.what_i_can_see;
    let before = match host.earlier() {
        Some(earlier) => Some(earlier.snapshot(ask_verbs()).await),
        None if host.is_real() && !once => {
            let before = host.snapshot(ask_verbs()).await;
            if before.devices.value().is_none_or(Vec::is_empty) {
                // Nothing counts here: there is nothing to wait for.
                return (None, before);
            }
            tokio::time::sleep(pause).await;
            Some(before)
        }
        None => None,
    };
    (before, host.snapshot(ask_verbs()).await)
}

/// The kernel log: a file that was given, or the machine's own.
fn kernel_log(
    host: &Host,
    flags: &CheckFlags,
    rules: &Rules,
    now: &Snapshot,
) -> Result<Reading<KernelLog>, Failure> {
    if let Some(file) = &flags.kernel_log {
        text_of(file)?;
    }
    Ok(KernelLogReader::new(flags.kernel_log.clone()).read_now(host, rules, now))
}

/// Of several findings the ones that a job scheduler must know of.
fn is_problem(finding: &&Finding) -> bool {
    matches!(finding.status, Status::Fail | Status::Unknown)
}
