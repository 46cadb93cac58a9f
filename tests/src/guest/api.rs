//! The coordinator's HTTP API as a test sees it: JSON in, JSON out, the status always there.

use serde_json::Value;
use std::time::Duration;

/// Where a coordinator answers, and the token that its write calls want.
#[derive(Clone, Debug)]
pub struct Api {
    base: String,
    token: Option<String>,
    agent: ureq::Agent,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body as text.
    pub text: String,
    /// The body as JSON; `Value::Null` when it is none.
    pub body: Value,
}

impl Api {
    /// An API at `HOST:PORT`; with a token, every call carries it.
    #[must_use]
    pub fn new(address: &str, token: Option<&str>) -> Self {
        let agent = ureq::Agent::config_builder()
            // A status is what many tests are about, so none of them is an error here.
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(20)))
            .build()
            .new_agent();
        Self { base: format!("http://{address}"), token: token.map(str::to_owned), agent }
    }

    /// `GET path`.
    ///
    /// # Errors
    /// Nobody answers: the reason, in words.
    pub fn get(&self, path: &str) -> Result<Answer, String> {
        let mut request = self.agent.get(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        answer(&format!("GET {path}"), request.call())
    }

    /// `POST path` with a JSON body.
    ///
    /// # Errors
    /// Nobody answers: the reason, in words.
    pub fn post(&self, path: &str, body: &Value) -> Result<Answer, String> {
        let mut request = self.agent.post(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        answer(&format!("POST {path}"), request.send_json(body))
    }

    /// `PUT path` without a body.
    ///
    /// # Errors
    /// Nobody answers: the reason, in words.
    pub fn put(&self, path: &str) -> Result<Answer, String> {
        let mut request = self.agent.put(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        answer(&format!("PUT {path}"), request.send_empty())
    }

    /// `DELETE path`.
    ///
    /// # Errors
    /// Nobody answers: the reason, in words.
    pub fn delete(&self, path: &str) -> Result<Answer, String> {
        let mut request = self.agent.delete(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        answer(&format!("DELETE {path}"), request.call())
    }

    /// `GET path` that must say 200, as JSON; anything else is an error with the status and the text.
    ///
    /// # Errors
    /// Nobody answers, or the status is not 200.
    pub fn json(&self, path: &str) -> Result<Value, String> {
        let answer = self.get(path)?;
        if answer.status == 200 {
            return Ok(answer.body);
        }
        Err(format!("GET {path} said {}: {}", answer.status, answer.text))
    }
}

fn answer(
    call: &str,
    result: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<Answer, String> {
    let mut response = result.map_err(|error| format!("{call}: {error}"))?;
    let status = response.status().as_u16();
    let text = response.body_mut().read_to_string().map_err(|error| format!("{call}: {error}"))?;
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Ok(Answer { status, text, body })
}
