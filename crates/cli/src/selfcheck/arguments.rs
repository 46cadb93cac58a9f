//! The command line of `rdmascope selfcheck`: which nodes, against which limits, and where the report goes.

use crate::arguments::CoordinatorAt;
use crate::cluster_arguments::duration;
use crate::probe_arguments::class;
use clap::Args;
use rdmascope_localise::batch::{Limit, PRESETS, Preset, Sense};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Test a batch of nodes before it is handed over
///
/// What the nodes say of themselves first, then latency of every pair, then goodput, then incasts, then whatever
/// is suspect by itself. It passes when all of it was tested and keeps to the limits.
///
/// With --expect it is its own coordinator: start `rdmascope agent --once` on the nodes by whatever starts
/// programs there (srun, kubectl, pdsh, a loop over ssh). Otherwise the nodes' agents and a coordinator run
/// already.
///
/// Exit code: 0 passes, 1 warnings, 2 fails, 3 something was not tested (or wrong usage).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope selfcheck --preset 400g --nodes 'gpu[01-16]'
  rdmascope selfcheck --preset ndr --nodes hosts.txt --report r.html --report r.xml
  rdmascope selfcheck --preset 100g --limit latency=9 --limit retransmits=any
With its own coordinator, on the head node; then an agent on each of 16 nodes:
  rdmascope selfcheck --preset 200g --expect 16 --listen 0.0.0.0:8080 --token-file t
  srun -N16 rdmascope agent --once --coordinator head:8080 --token-file t")]
pub(crate) struct SelfcheckFlags {
    /// The nodes: a file with a name on each line, or a list: a,b or gpu[01-16] [default: all that the coordinator knows]
    #[arg(long, value_name = "FILE|LIST", conflicts_with = "expect")]
    pub(crate) nodes: Option<String>,
    /// Be the coordinator, and wait for so many nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub(crate) expect: Option<u32>,
    /// Limits for which ports: 25g-roce, 100g, 200g, 400g, ndr; lab for software devices
    #[arg(long, value_name = "NAME", value_parser = preset)]
    pub(crate) preset: &'static Preset,
    /// Another number for a limit of the preset, or `any`; the report lists all limits with their names
    #[arg(long = "limit", value_name = "NAME=NUMBER", value_parser = limit)]
    pub(crate) limits: Vec<(Limit, Option<f64>)>,
    /// Leave findings of this id out, such as firmware-manifest; may be given more than once
    #[arg(long = "ignore", value_name = "ID")]
    pub(crate) ignore: Vec<String>,
    /// Wait so long for the nodes
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = duration)]
    pub(crate) wait: Duration,
    /// The nodes may carry jobs: bandwidth only where ports are idle; what is not measured was not tested
    #[arg(long)]
    pub(crate) live: bool,
    /// Only these RDMA devices, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) devices: Vec<String>,
    /// Pairs of two rails, too
    #[arg(long)]
    pub(crate) cross_rail: bool,
    /// Class of all packets: a DSCP or its name (af31), a service level on InfiniBand
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub(crate) class: Option<u8>,
    /// Priority on which pauses are meant to be [default: that of the class]
    #[arg(long, value_name = "0-7", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) priority: Option<u8>,
    /// Incasts of up to eight senders; 0 leaves them out
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) incasts: u16,
    /// Decides which pairs are measured at the same time, and which incasts: the same number, the same test
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the report: .html, .json, .xml (JUnit) or .csv; may be given more than once
    #[arg(long = "report", value_name = "FILE", value_parser = report)]
    pub(crate) reports: Vec<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// With --expect: address for the agents; port 0 takes any free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT", requires = "expect")]
    pub(crate) listen: Option<SocketAddr>,
    /// With --expect: let other machines in without any token
    #[arg(long, requires = "expect")]
    pub(crate) insecure: bool,
    /// With --expect: config file of the coordinator (topology, services, limits of streams)
    #[arg(long, value_name = "FILE", requires = "expect")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) at: CoordinatorAt,
}

fn preset(name: &str) -> Result<&'static Preset, String> {
    Preset::from_name(name).ok_or_else(|| {
        let known: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        format!("there are: {}", known.join(", "))
    })
}

fn limit(text: &str) -> Result<(Limit, Option<f64>), String> {
    let (name, number) = text.split_once('=').ok_or("write NAME=NUMBER, such as latency=9")?;
    let limit = Limit::from_name(name).ok_or_else(|| {
        let known: Vec<_> = Limit::ALL.iter().map(|limit| format!("{limit} ({})", limit.unit())).collect();
        format!("no limit '{name}'; there are: {}", known.join(", "))
    })?;
    if number == "any" && limit.sense() != Sense::Says {
        return Ok((limit, None));
    }
    let value = number.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    let value = value.ok_or_else(|| format!("'{number}' is no number of {}, and not `any`", limit.unit()))?;
    Ok((limit, Some(value)))
}

fn report(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    match path.extension().and_then(|end| end.to_str()) {
        Some("html" | "json" | "xml" | "csv") => Ok(path),
        _ => Err("its name must end in .html, .json, .xml (JUnit) or .csv".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named_and_have_numbers() {
        assert_eq!(limit("latency=9"), Ok((Limit::Latency, Some(9.0))));
        assert_eq!(limit("p99=any"), Ok((Limit::P99, None)));
        for (wrong, word) in [
            ("latency", "NAME=NUMBER"),
            ("speed=3", "latency (µs)"),
            ("latency=fast", "no number"),
            ("latency=-1", "no number"),
            ("goodput-bytes=any", "no number"),
        ] {
            let told = limit(wrong).unwrap_err();
            assert!(told.contains(word), "{wrong}: {told}");
        }
    }

    #[test]
    fn a_report_is_named_by_its_kind() {
        assert!(report("r.html").is_ok() && report("a/b.xml").is_ok());
        assert!(report("r.pdf").is_err() && report("report").is_err());
    }
}
