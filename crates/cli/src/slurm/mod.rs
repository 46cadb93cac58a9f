//! `rdmascope slurm`: what slurmd runs on a node. Reads the agent's verdict, and drains by it: seldom, and never over somebody's head.

mod agent;
mod decide;
mod memory;
mod scontrol;
mod shown;

use crate::failure::{Failure, code};
use crate::output::{plain, print, print_json, show};
use agent::Agent;
use clap::{Args, Subcommand};
use decide::{Step, Wish};
use memory::Memory;
use rdmascope_expose::api::{ASK_LEAVE, ASK_VERDICT, HeldFinding, NodeVerdictView};
use rdmascope_model::Reading;
use scontrol::Slurm;

/// What slurmd of Slurm tells its programs.
const NODE_VARIABLE: &str = "SLURMD_NODENAME";

#[derive(Debug, Subcommand)]
pub(crate) enum SlurmCommand {
    Healthcheck(HealthcheckFlags),
    Prolog(PrologFlags),
    Undrain(UndrainFlags),
    Verdict(VerdictFlags),
}

/// Drain this node for a hard local fault: a HealthCheckProgram of slurmd
///
/// Prints nothing when nothing is to be done. Drains only for what the agent on this node calls a hard local fault (a
/// link that stays down, a device that is gone, a fatal line of the kernel), never for what is unknown, out of date or
/// inferred, and only with the coordinator's leave: 2 nodes or 2 % of all in an hour. Calls scontrol only when
/// something changed, and never touches a node that has somebody else's reason. The exit code is always 0.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope slurm healthcheck
  rdmascope slurm healthcheck --resume   also resumes what it drained itself

In slurm.conf:
  HealthCheckProgram=/etc/rdmascope/slurm-healthcheck
  HealthCheckInterval=60")]
pub(crate) struct HealthcheckFlags {
    /// Resume the node when the fault for which it was drained is over [default: a person does]
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    at: NodeAt,
}

/// Keep a job off this node for a hard local fault: a Prolog of slurmd
///
/// Exit code 1, upon which Slurm runs the job elsewhere, only when the node may be drained (see healthcheck), and it is
/// drained then; 0 in all other cases, also when nothing can be said. Lines for the job begin with "print".
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope slurm prolog

In slurm.conf:
  Prolog=/etc/rdmascope/slurm-prolog")]
pub(crate) struct PrologFlags {
    #[command(flatten)]
    at: NodeAt,
}

/// Resume nodes that rdmascope drained, and no others
///
/// Exit code: 0 when all of them are resumed, 1 when one is drained for somebody else's reason or scontrol failed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope slurm undrain          this node
  rdmascope slurm undrain n1 n2    after the cables were changed")]
pub(crate) struct UndrainFlags {
    /// Names of nodes in Slurm [default: this one]
    nodes: Vec<String>,
    #[command(flatten)]
    slurm: Slurm,
}

/// Show what the agent on this node knows: what `healthcheck` and `prolog` go by
///
/// Nothing is drained by it. Exit code: 0 when no hard local fault stands, 1 when one does, 3 when it cannot be said.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope slurm verdict
  rdmascope slurm verdict --json")]
pub(crate) struct VerdictFlags {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: Agent,
}

/// This node, its agent, and its Slurm.
#[derive(Debug, Args)]
struct NodeAt {
    /// Name of this node in Slurm [default: what slurmd says, else the host name up to its first dot]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    #[command(flatten)]
    agent: Agent,
    #[command(flatten)]
    slurm: Slurm,
    #[command(flatten)]
    memory: Memory,
}

/// Runs it.
pub(crate) fn run(command: &SlurmCommand) -> Result<u8, Failure> {
    match command {
        SlurmCommand::Healthcheck(flags) => {
            // slurmd takes any other code for a node that must not register.
            if let Err(failure) = healthcheck(flags) {
                failure.tell();
            }
            Ok(0)
        }
        SlurmCommand::Prolog(flags) => match prolog(&flags.at) {
            Ok(code) => Ok(code),
            // A job is never kept off a node that could not be judged.
            Err(failure) => {
                failure.tell();
                Ok(0)
            }
        },
        SlurmCommand::Undrain(flags) => undrain(flags),
        SlurmCommand::Verdict(flags) => verdict(flags),
    }
}

fn healthcheck(flags: &HealthcheckFlags) -> Result<(), Failure> {
    let at = &flags.at;
    let known = at.memory.read();
    let verdict = at.agent.ask(ASK_VERDICT)?;
    match decide::wish(&verdict, known.as_ref(), flags.resume) {
        Wish::Nothing => Ok(()),
        Wish::CannotSay(why) => Err(Failure::new(code::FAILED, format!("nothing is done: {}", plain(why)))),
        Wish::Forget => at.memory.write(&[]),
        Wish::Resume => {
            let node = node_name(at.node.as_deref())?;
            let text = resume(&at.slurm, &node)?;
            at.memory.write(&[])?;
            text.map_or(Ok(()), |text| show(&text))
        }
        Wish::Drain => {
            let verdict = at.agent.ask(ASK_LEAVE)?;
            match decide::leave(&verdict) {
                Err(why) => {
                    let text =
                        format!("a hard local fault stands, and the node is not drained: {}", plain(why));
                    Err(Failure::new(code::FAILED, text))
                }
                Ok(faults) => show(&drain(at, &faults)?),
            }
        }
    }
}

fn prolog(at: &NodeAt) -> Result<u8, Failure> {
    let verdict = at.agent.ask(ASK_LEAVE)?;
    let faults = match decide::leave(&verdict) {
        Ok(faults) => faults,
        Err(_) if decide::faults(&verdict).is_empty() && verdict.cannot_say.is_none() => return Ok(0),
        Err(why) => {
            return Err(Failure::new(code::FAILED, format!("the job is let through: {}", plain(why))));
        }
    };
    for fault in &faults {
        print(&format!(
            "print rdmascope: {} {}: {}\n",
            plain(&fault.id),
            plain(&fault.subject),
            plain(&fault.summary)
        ))?;
        print(&format!("print rdmascope: next step: {}\n", plain(&fault.next_step)))?;
    }
    // Slurm drains the node for the failed prolog anyway; with our reason people know what to do.
    if let Err(failure) = drain(at, &faults) {
        failure.tell();
    }
    Ok(1)
}

/// Drains the node, unless somebody else has a reason of his own there; answers what was done.
fn drain(at: &NodeAt, faults: &[&HeldFinding]) -> Result<String, Failure> {
    let node = node_name(at.node.as_deref())?;
    let said = match decide::drain_step(&at.slurm.node(&node)?) {
        Step::Go => {
            let reason = decide::reason(faults);
            at.slurm.drain(&node, &reason)?;
            format!("{node} is drained: {reason}\n")
        }
        Step::Done => format!("{node} is drained already\n"),
        Step::NotOurs(reason) => {
            format!("{node} is left as it is: it has the reason of somebody else ({})\n", plain(&reason))
        }
    };
    at.memory.write(faults)?;
    Ok(said)
}

/// Resumes a node that we drained; `None` where there is nothing to do.
fn resume(slurm: &Slurm, node: &str) -> Result<Option<String>, Failure> {
    match decide::resume_step(&slurm.node(node)?) {
        Step::Go => {
            slurm.resume(node)?;
            Ok(Some(format!("{node} is resumed\n")))
        }
        Step::Done | Step::NotOurs(_) => Ok(None),
    }
}

fn undrain(flags: &UndrainFlags) -> Result<u8, Failure> {
    let nodes = match flags.nodes.as_slice() {
        [] => vec![node_name(None)?],
        nodes => nodes.to_vec(),
    };
    let mut left = 0;
    for node in nodes {
        let text = match decide::resume_step(&flags.slurm.node(&node)?) {
            Step::Go => {
                flags.slurm.resume(&node)?;
                format!("{node} is resumed\n")
            }
            Step::Done => format!("{node} is not drained\n"),
            Step::NotOurs(reason) => {
                left += 1;
                format!(
                    "{node} stays drained: its reason is not one of rdmascope's ({}); \
                     whoever wrote it resumes it: scontrol update nodename={node} state=resume\n",
                    plain(&reason)
                )
            }
        };
        show(&text)?;
    }
    Ok(u8::from(left > 0))
}

fn verdict(flags: &VerdictFlags) -> Result<u8, Failure> {
    let verdict: NodeVerdictView =
        flags.agent.ask(ASK_VERDICT).map_err(|failure| failure.with(code::CHECK_UNKNOWN))?;
    if flags.json {
        print_json(&verdict)?;
    } else {
        show(&shown::words(&verdict))?;
    }
    Ok(match (&verdict.cannot_say, decide::faults(&verdict).is_empty()) {
        (Some(_), _) => code::CHECK_UNKNOWN,
        (None, true) => 0,
        (None, false) => 1,
    })
}

/// As Slurm calls this node.
fn node_name(given: Option<&str>) -> Result<String, Failure> {
    let named = given.map(str::to_owned).or_else(|| std::env::var(NODE_VARIABLE).ok());
    let here = || match rdmascope_host::host_name() {
        Reading::Value(name) => Some(name.split('.').next().unwrap_or_default().to_owned()),
        Reading::Absent | Reading::Failed(_) => None,
    };
    named.or_else(here).filter(|name| !name.is_empty()).ok_or_else(|| {
        Failure::new(code::FAILED, "this node's name in Slurm is not known").then("give it with --node NAME")
    })
}
