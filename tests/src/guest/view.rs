//! What a test asks of the coordinator: who is there, a sweep until it has ended, one pair.

use super::{Api, Endpoint, NODE_PREFIX, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

/// A sweep of a small lab takes seconds; a fault may cost some leases.
const SWEEP_LIMIT: Duration = Duration::from_secs(120);
/// An agent registers within a second of its start; an emulated machine may need many.
const JOIN_LIMIT: Duration = Duration::from_secs(60);

impl Endpoint {
    /// Its node's name: `lab-1`.
    #[must_use]
    pub fn node(self) -> String {
        format!("{NODE_PREFIX}{}", self.0)
    }

    /// Its name on the API: `lab-1/rxe1/1`.
    #[must_use]
    pub fn name(self) -> String {
        format!("{}/{}/1", self.node(), self.device())
    }
}

impl Api {
    /// The endpoint as the API shows it; an error while it is not there.
    ///
    /// # Errors
    /// Nobody answers, or the endpoint is not known.
    pub fn endpoint(&self, endpoint: Endpoint) -> Result<Value, String> {
        let all = self.json("/api/v1/endpoints")?;
        let found =
            all["endpoints"].as_array().into_iter().flatten().find(|e| e["name"] == json!(endpoint.name()));
        found.cloned().ok_or_else(|| format!("{} is not among {all}", endpoint.name()))
    }

    /// Waits until all of them can be probed.
    #[track_caller]
    pub fn wait_usable(&self, endpoints: impl IntoIterator<Item = Endpoint>) {
        for endpoint in endpoints {
            wait_until(&format!("{} is usable", endpoint.name()), JOIN_LIMIT, || {
                let seen = self.endpoint(endpoint)?;
                if seen["usable"] == json!(true) && seen["gone_since"].is_null() {
                    Ok(())
                } else {
                    Err(seen.to_string())
                }
            });
        }
    }

    /// Begins a sweep over drained nodes; `metric` is `latency`, `bandwidth` or `all`.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    #[must_use]
    pub fn begin_sweep(&self, metric: &str) -> u64 {
        let body = json!({"metric": metric, "drained": true});
        let answer = self.post("/api/v1/sweeps", &body).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(answer.status, 202, "the sweep was refused: {}", answer.text);
        answer.body["id"].as_u64().unwrap_or_else(|| panic!("a sweep without id: {}", answer.text))
    }

    /// Waits until a sweep has ended, and returns it.
    #[track_caller]
    pub fn wait_sweep(&self, id: u64) -> Value {
        wait_until(&format!("sweep {id} ends"), SWEEP_LIMIT, || {
            let sweep = self.json(&format!("/api/v1/sweeps/{id}"))?;
            if sweep["state"] == json!("running") { Err(sweep.to_string()) } else { Ok(sweep) }
        })
    }

    /// Everything that is not fine, as `NODE STATUS ID SUBJECT`, sorted; what settles has `(settling)` behind it.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn findings(&self) -> Result<Vec<String>, String> {
        let list = self.json("/api/v1/findings")?;
        let word = |found: &Value, key: &str| found[key].as_str().unwrap_or_default().to_owned();
        let line = |found: &Value| {
            let settling = if found["settling"] == json!(true) { " (settling)" } else { "" };
            let [node, status, id, subject] = ["node", "status", "id", "subject"].map(|key| word(found, key));
            format!("{node} {status} {id} {subject}{settling}")
        };
        let mut lines: Vec<String> = list["findings"].as_array().into_iter().flatten().map(line).collect();
        lines.sort();
        Ok(lines)
    }

    /// Waits until exactly these are the findings, and no other.
    #[track_caller]
    pub fn wait_findings(&self, what: &str, limit: Duration, expected: &[&str]) {
        let mut expected: Vec<&str> = expected.to_vec();
        expected.sort_unstable();
        wait_until(&format!("{what} has exactly its findings"), limit, || {
            let seen = self.findings()?;
            if seen == expected { Ok(()) } else { Err(format!("{seen:#?}, expected {expected:#?}")) }
        });
    }

    /// One pair's cell of a metric (`latency` or `bandwidth`).
    ///
    /// # Panics
    /// When the API does not know the pair.
    #[track_caller]
    #[must_use]
    pub fn cell(&self, metric: &str, from: Endpoint, to: Endpoint) -> Value {
        let path = format!("/api/v1/pairs/{}/{}", from.node(), to.node());
        let pair = self.json(&path).unwrap_or_else(|why| panic!("{why}"));
        pair[metric].clone()
    }
}

/// All ordered pairs of the endpoints.
pub fn pairs(endpoints: impl IntoIterator<Item = Endpoint>) -> impl Iterator<Item = (Endpoint, Endpoint)> {
    let all: Vec<_> = endpoints.into_iter().collect();
    let targets = all.clone();
    all.into_iter()
        .flat_map(move |from| targets.clone().into_iter().map(move |to| (from, to)))
        .filter(|(a, b)| a != b)
}
