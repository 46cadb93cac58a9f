//! A real Prometheus that scrapes a cluster, and its API as Grafana uses it.

use crate::guest::{Api, Program, wait_until};
use crate::loopback::{Folder, free_address};
use serde_json::Value;
use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// As Debian installs it.
const PROGRAM: &str = "/usr/bin/prometheus";
const START_LIMIT: Duration = Duration::from_secs(120);
/// What a panel shows, and how close its points are.
const SPAN_SECONDS: u64 = 120;
const STEP_SECONDS: u64 = 5;

/// A running server.
pub struct Prometheus {
    _program: Program,
    _folder: Folder,
    api: Api,
    every_seconds: u64,
    /// Where it listens.
    pub address: String,
}

/// One line of an answer.
pub struct Series {
    /// Its labels.
    pub labels: Value,
    /// Any of its values is a number.
    pub has_number: bool,
}

fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn list<'a>(addresses: impl IntoIterator<Item = &'a String>) -> String {
    addresses.into_iter().map(|address| format!("'{address}'")).collect::<Vec<_>>().join(", ")
}

impl Prometheus {
    /// Scrapes `/metrics` of all and `/metrics/pairs` of coordinators, in jobs of their own, and more often than anybody should.
    pub fn start<'a>(
        every_seconds: u64,
        agents: impl IntoIterator<Item = &'a String>,
        coordinators: &[String],
    ) -> Self {
        let (agents, coordinators) = (list(agents), list(coordinators));
        Self::configured(
            every_seconds,
            &format!(
                "global: {{scrape_interval: {every_seconds}s, scrape_timeout: {every_seconds}s}}\nscrape_configs:\n\
                 - job_name: rdmascope-agents\n  static_configs: [{{targets: [{agents}]}}]\n\
                 - job_name: rdmascope-coordinator\n  static_configs: [{{targets: [{coordinators}]}}]\n\
                 - job_name: rdmascope-pairs\n  metrics_path: /metrics/pairs\n  static_configs: [{{targets: [{coordinators}]}}]\n"
            ),
        )
    }

    /// One with this configuration, in which `every_seconds` is how often it scrapes.
    pub fn configured(every_seconds: u64, config: &str) -> Self {
        let folder = Folder::new("prometheus");
        let config = folder.write("prometheus.yaml", config);
        let address = free_address();
        let mut command = Command::new(PROGRAM);
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path("data").display()));
        command.arg(format!("--web.listen-address={address}")).arg("--log.level=warn");
        let program = Program::start("prometheus", &mut command, &folder.path("prometheus.log"));
        let api = Api::new(&address, None);
        wait_until("Prometheus is ready", START_LIMIT, || match api.get("/-/ready")? {
            answer if answer.status == 200 => Ok(()),
            answer => Err(answer.text),
        });
        Self { _program: program, _folder: folder, api, every_seconds, address }
    }

    /// `GET path` with parameters; the data of the answer.
    fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
        let pairs: Vec<_> =
            parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let answer = self.api.get(&format!("{path}?{}", pairs.join("&")))?;
        if answer.body["status"] == "success" {
            return Ok(answer.body["data"].clone());
        }
        Err(answer.text)
    }

    /// Values of a label over all series that match.
    pub fn label_values(&self, selector: &str, label: &str) -> Result<Vec<String>, String> {
        let data = self.get(&format!("/api/v1/label/{label}/values"), &[("match[]", selector)])?;
        let words = data.as_array().into_iter().flatten();
        Ok(words.filter_map(|word| word.as_str().map(str::to_owned)).collect())
    }

    /// What Grafana puts in the place of `$__rate_interval`.
    pub fn rate_interval(&self) -> String {
        format!("{}s", (4 * self.every_seconds).max(STEP_SECONDS + self.every_seconds))
    }

    /// The answer to a query, of now or of the last minutes.
    pub fn query(&self, expression: &str, instant: bool) -> Result<Vec<Series>, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let data = if instant {
            self.get("/api/v1/query", &[("query", expression)])?
        } else {
            let (start, end) = ((now - SPAN_SECONDS).to_string(), now.to_string());
            let step = STEP_SECONDS.to_string();
            let span = [("query", expression), ("start", &start), ("end", &end), ("step", &step)];
            self.get("/api/v1/query_range", &span)?
        };
        let is_number = |point: &Value| {
            let value = point[1].as_str().and_then(|text| text.parse::<f64>().ok());
            value.is_some_and(|value| !value.is_nan())
        };
        let series = |series: &Value| {
            let points =
                series["values"].as_array().cloned().unwrap_or_else(|| vec![series["value"].clone()]);
            Series { labels: series["metric"].clone(), has_number: points.iter().any(is_number) }
        };
        Ok(data["result"].as_array().into_iter().flatten().map(series).collect())
    }
}
