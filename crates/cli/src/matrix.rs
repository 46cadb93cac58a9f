//! `rdmascope matrix`: the whole matrix for people, and as the API has it for programs.

use crate::arguments::{MatrixFlags, OneMetric};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{columns, plain, print};
use crate::{figures, pause, reasons, table};
use rdmascope_expose::api::{MatrixCause, MatrixView, PairView, PauseLevel, StatusView};

/// Pairs with loss that are told in words.
const LOSSY_MAX: usize = 8;

/// Runs it.
pub(crate) fn run(flags: &MatrixFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at);
    let metric = match flags.metric {
        OneMetric::Latency => "latency",
        OneMetric::Bandwidth => "bandwidth",
        OneMetric::Ping => "ping",
    };
    if flags.json || flags.csv {
        let format = if flags.json { "json" } else { "csv" };
        let mut text = client.text(&format!("/api/v1/matrix?metric={metric}&format={format}"))?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        print(&text)?;
        return Ok(0);
    }
    let view: MatrixView = client.get(&format!("/api/v1/matrix?metric={metric}"))?;
    let status: StatusView = client.get("/api/v1/status")?;
    print(&(for_people(&client, flags.metric, &view) + &notes(&status)))?;
    Ok(0)
}

fn for_people(client: &Client, metric: OneMetric, view: &MatrixView) -> String {
    if view.endpoints.is_empty() {
        return format!(
            "no endpoints yet: no agent has connected.\n  next step: on each node, \
             `rdmascope agent --coordinator HOST:{}`\n",
            client.address().port
        );
    }
    let evidence = |row: &MatrixCause| {
        // The cause may be gone by now, and the coordinator too: the rest is still worth showing.
        let pair: PairView = client.get(&pair_path(&row.source, &row.target)).ok()?;
        let failure = match metric {
            OneMetric::Latency => pair.latency.failure,
            OneMetric::Bandwidth => pair.bandwidth.failure,
            OneMetric::Ping => pair.ping.failure,
        };
        failure.filter(|failure| failure.cause == row.cause).map(|failure| failure.evidence)
    };
    table::draw(view, columns()) + &lossy(client, view) + &reasons::words(view, evidence)
}

/// The pairs that lose most, each with what its pings say of it.
fn lossy(client: &Client, view: &MatrixView) -> String {
    let mut text = String::new();
    let pairs = table::lossy(view);
    for (loss, source, target) in pairs.iter().take(LOSSY_MAX) {
        let name = |index: usize| view.endpoints.get(index).map_or("", String::as_str);
        let (source, target) = (name(*source), name(*target));
        text.push_str(&format!("\nloss: {} -> {}, {}\n", plain(source), plain(target), figures::loss(*loss)));
        // The pair may be fine by now, and the coordinator gone: the rest is still worth showing.
        let pair: Option<PairView> = client.get(&pair_path(source, target)).ok();
        for verdict in pair.iter().flat_map(|pair| &pair.verdicts) {
            text.push_str(&reasons::verdict(verdict));
        }
    }
    if pairs.len() > LOSSY_MAX {
        text.push_str(&format!("and {} more pairs with loss\n", pairs.len() - LOSSY_MAX));
    }
    text
}

/// What a reader of the matrix should know besides.
fn notes(status: &StatusView) -> String {
    let mut text = String::new();
    if status.paused.cluster != PauseLevel::None || !status.paused.nodes.is_empty() {
        text.push_str(&format!("\n{}", pause::words(&status.paused)));
    }
    if status.insecure {
        text.push_str("\nINSECURE: this coordinator lets anybody who reaches it start probes\n");
    }
    text
}

/// Where the API has a pair; the slashes of the names belong to the names.
fn pair_path(source: &str, target: &str) -> String {
    format!("/api/v1/pairs/{}/{}", source.replace('/', "%2F"), target.replace('/', "%2F"))
}
