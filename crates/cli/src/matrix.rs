//! `rdmascope matrix`: the whole matrix for people, and as the API has it for programs.

use crate::arguments::{MatrixFlags, OneMetric};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{columns, print};
use crate::{pause, reasons, table};
use rdmascope_expose::api::{MatrixCause, MatrixView, PairView, PauseLevel, StatusView};

/// Runs it.
pub(crate) fn run(flags: &MatrixFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at);
    let metric = match flags.metric {
        OneMetric::Latency => "latency",
        OneMetric::Bandwidth => "bandwidth",
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
        };
        failure.filter(|failure| failure.cause == row.cause).map(|failure| failure.evidence)
    };
    table::draw(view, columns()) + &reasons::words(view, evidence)
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
