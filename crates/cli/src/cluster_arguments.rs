//! Arguments of the commands that show and change what the coordinator knows of the nodes' health.

use crate::arguments::CoordinatorAt;
use crate::nodes::Nodes;
use crate::replay::Since;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Show what is not fine on the nodes, and what differs between them
///
/// Exit code: 0 when nothing is open, 1 when something is (acknowledged findings and nodes in maintenance do not count).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope findings                 the worst first
  rdmascope findings --node node7
  rdmascope findings --all           with what is acknowledged or in maintenance")]
pub(crate) struct FindingsFlags {
    /// Only of this node
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Also what is acknowledged or whose node is in maintenance
    #[arg(long)]
    pub(crate) all: bool,
    /// Print the JSON of the API
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

/// Show what is to blame: one incident for one cause, with evidence and what to do
///
/// What is suspected is being measured again before anybody is told. Exit code: 0 when nothing is open, 1 when something is (what is
/// acknowledged or in maintenance does not count).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope incidents          what is open, the worst first
  rdmascope incidents --all    with what is suspected, known or over
  rdmascope incidents 17       for the ticket: hardware, switch ports, changes")]
pub(crate) struct IncidentsFlags {
    /// Number of an incident: show all that a ticket needs
    #[arg(value_name = "NUMBER")]
    pub(crate) id: Option<u64>,
    /// Also what is suspected, acknowledged, in maintenance or over
    #[arg(long, conflicts_with = "id")]
    pub(crate) all: bool,
    /// Print the JSON of the API
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

/// Say what is wrong now, or whether it is the network of a job's nodes
///
/// Answers from what is known; nothing is probed for it. Exit code: 0 when nothing is wrong, 1 when something is, 3 when it cannot be
/// said (too little is measured, or the coordinator does not answer).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope diagnose                            what is wrong in the cluster?
  rdmascope diagnose --nodes node3,node4        is it the network?
  rdmascope diagnose --nodes 'gpu[01-04,07]'    a list as Slurm writes it
  rdmascope diagnose --nodes $SLURM_JOB_NODELIST")]
pub(crate) struct DiagnoseFlags {
    /// The nodes of a job; one node alone is looked at towards all others [default: the whole cluster]
    #[arg(long, value_name = "LIST", value_parser = crate::nodes::expanded)]
    pub(crate) nodes: Option<Nodes>,
    /// Print the JSON of the API
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

/// Say what a changed policy would have said about the history: which findings it would raise, silence or change
///
/// Only the numbers of the policy are replayed. Each finding is looked up among the answers that its own check gave when it was raised;
/// where the history does not hold enough, it says so and why.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope replay --policy new.yaml --since 7d
  rdmascope replay --policy new.yaml --since 2026-11-30T00:00:00Z --node node7")]
pub(crate) struct ReplayFlags {
    /// Config file with the policy to try
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    /// How far back, such as 2h or 7d, or from which time (UTC) on
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = crate::replay::since)]
    pub(crate) since: Since,
    /// Only of this node
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

/// Show what happened: state changes, findings, kernel-log lines, changed settings
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope events                   the last 100, the newest first
  rdmascope events --node node7 --limit 1000")]
pub(crate) struct EventsFlags {
    /// Only of this node
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// At most so many, up to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) limit: u16,
    /// Only older than this number
    #[arg(long, value_name = "NUMBER")]
    pub(crate) before: Option<u64>,
    /// Print the JSON of the API
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

/// Say that a finding or an incident is known: it stays in sight and no longer counts
///
/// The acknowledgement ends with its finding or incident: if that comes back, it is news.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope ack node7 port-state                 all of that id on the node
  rdmascope ack node7 port-state mlx5_1/1 --note 'cable ordered'
  rdmascope ack node7 port-state --undo
  rdmascope ack --incident 17 --note 'cable ordered'")]
pub(crate) struct AckFlags {
    /// Node
    #[arg(required_unless_present = "incident", conflicts_with = "incident", requires = "id")]
    pub(crate) node: Option<String>,
    /// Id of the finding, as `rdmascope findings` shows it
    pub(crate) id: Option<String>,
    /// What it is about [default: all of that id]
    pub(crate) subject: Option<String>,
    /// Number of an incident, in place of a finding
    #[arg(long, value_name = "NUMBER")]
    pub(crate) incident: Option<u64>,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) note: String,
    /// Take the acknowledgement back
    #[arg(long)]
    pub(crate) undo: bool,
    /// Print the JSON of the API
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

/// Silence the findings of nodes on which somebody works, or show which are silenced
///
/// It ends by itself. Findings stay in sight, marked; nodes in maintenance are not compared with others.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope maintenance                            what is in maintenance
  rdmascope maintenance node7 --for 2h --note 'new cable'
  rdmascope maintenance 'rack7-*' --for 30m        all nodes of a rack
  rdmascope maintenance node7 --end")]
pub(crate) struct MaintenanceFlags {
    /// Node; * stands for any letters
    pub(crate) nodes: Option<String>,
    /// How long, such as 30m or 2h; 30 days at most
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, requires = "nodes")]
    pub(crate) how_long: Option<Duration>,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "", requires = "nodes")]
    pub(crate) note: String,
    /// End it now
    #[arg(long, requires = "nodes", conflicts_with = "how_long")]
    pub(crate) end: bool,
    /// Print the JSON of the API
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

/// Show the nodes and endpoints that the coordinator knows; forget or rename nodes
///
/// Below each node stand its endpoints: whether they can be probed, their rail, and the leaf switch that they hang on.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  rdmascope nodes                  who is there, in which state
  rdmascope nodes --node node7     one node and its endpoints
  rdmascope nodes remove node7     it is gone for good"
)]
pub(crate) struct NodesFlags {
    #[command(subcommand)]
    pub(crate) command: Option<NodesCommand>,
    /// Only this node
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodesCommand {
    /// Forget a node that is gone for good; its agent must not be connected
    #[command(after_help = "Example:\n  rdmascope nodes remove node7")]
    Remove {
        /// Its name
        node: String,
        /// Print the JSON of the API
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        at: CoordinatorAt,
    },
    /// Go on with a node's history under the name that its machine has now
    #[command(after_help = "Example:\n  rdmascope nodes rename node7 gpu-a-07")]
    Rename {
        /// Its name so far; its agent must not be connected under it
        node: String,
        /// Its name now
        to: String,
        /// Print the JSON of the API
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        at: CoordinatorAt,
    },
}

/// `30s`, `10m`, `2h`, `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a whole number and its unit (s, m, h or d), such as 30m".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).filter(|s| *s > 0).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("30m"), Ok(Duration::from_secs(1800)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(7 * 24 * 3600)));
        for bad in ["", "m", "5", "0s", "1.5h", "-1h", "99999999999999999999d", "5ü"] {
            assert!(duration(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
