//! The command line of `rdmascope probe`: one pair, everything about one pair, a service, or several sources to one target.

use crate::arguments::{CoordinatorAt, Metrics};
use clap::Args;
use rdmascope_model::class_from_word;

/// Probe one pair now, step by step
///
/// Says why a pair fails, and what to do next. With --full it measures everything that can be measured of the pair
/// and judges it; with --incast several endpoints send to one at the same time.
///
/// Endpoints are named NODE/DEVICE/PORT; NODE/DEVICE or NODE will do where that names only one.
///
/// Exit code: 0 when it was measured and nothing is broken, 1 when not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope probe node1 node2
  rdmascope probe node1/mlx5_0/1 node2/mlx5_3/1 --metric all --drained
  rdmascope probe node1 node2 --full --drained --class af31
  rdmascope probe node1 --service embed
  rdmascope probe --incast node1 --from node2,node3,node4 --drained")]
pub(crate) struct ProbeFlags {
    /// Endpoint that sends
    #[arg(required_unless_present = "incast", conflicts_with = "incast")]
    pub(crate) source: Option<String>,
    /// Endpoint that receives [default with --service: each of its peers]
    #[arg(required_unless_present_any = ["incast", "service"], conflicts_with = "incast")]
    pub(crate) target: Option<String>,
    /// What to measure
    #[arg(long, value_enum, default_value_t = Metrics::Latency, conflicts_with_all = ["full", "incast"])]
    pub(crate) metric: Metrics,
    /// Measure everything, and judge it: datagrams, MTU, verbs, paths, class, bandwidth, TCP
    #[arg(long, conflicts_with = "incast")]
    pub(crate) full: bool,
    /// Equal-cost paths to assume between the two ends [default: 4]
    #[arg(long, value_name = "N", requires = "full", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(crate) paths: Option<u32>,
    /// Measure the memory of this GPU, too
    #[arg(long, value_name = "N", requires = "full")]
    pub(crate) gpu: Option<u8>,
    /// Class of the packets: a DSCP or its name, such as 26, cs3 or af31; a service level on InfiniBand
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub(crate) class: Option<u8>,
    /// RDMA device of all ends, such as mlx5_1, where nodes are named
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Probe as this service of the coordinator's config: its device, class and peers
    #[arg(long, value_name = "NAME", conflicts_with = "incast")]
    pub(crate) service: Option<String>,
    /// Endpoint to which those of --from send at the same time
    #[arg(long, value_name = "TARGET", requires = "from")]
    pub(crate) incast: Option<String>,
    /// Endpoints that send, 2 to 8, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "incast")]
    pub(crate) from: Vec<String>,
    /// The nodes carry no job: measure bandwidth although ports look busy, or nobody can tell
    #[arg(long)]
    pub(crate) drained: bool,
    /// Measure bandwidth although a job may be there: a quarter of a second at most, given up when it meets congestion. The history has it
    #[arg(long, conflicts_with_all = ["drained", "incast", "service"])]
    pub(crate) force: bool,
    /// Print the JSON of the API; a list when a service has several peers
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

pub(crate) fn class(word: &str) -> Result<u8, String> {
    class_from_word(word).ok_or_else(|| "write a DSCP (0 to 63), or a name such as cs3 or af31".to_owned())
}
