//! Calls to the coordinator's API, and what to tell a person when one does not work.

use crate::arguments::CoordinatorAt;
use crate::failure::{Failure, code};
use crate::output::plain;
use rdmascope_config::{HostPort, Token};
use rdmascope_expose::api::Problem;
use rdmascope_model::in_one_line;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::time::Duration;
use ureq::http::Response;
use ureq::{Agent, Body};

/// A coordinator that is there accepts within this time, also across a wide network.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The matrix of thousands of endpoints takes a while to be written and sent.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Longest answer, bytes: the JSON of 4,096 endpoints has some 600 MB.
const ANSWER_BYTES_MAX: u64 = 1 << 30;
/// Names listed below an error at most.
const KNOWN_SHOWN_MAX: usize = 20;

/// A coordinator.
pub(crate) struct Client {
    at: HostPort,
    token_file: Option<PathBuf>,
    agent: Agent,
}

impl Client {
    pub(crate) fn new(at: &CoordinatorAt) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_WITHIN))
            .timeout_global(Some(ANSWER_WITHIN))
            // Agents dial it directly, too; a proxy for the world outside does not know the cluster's names.
            .proxy(None)
            .build()
            .new_agent();
        Self { at: at.coordinator.clone(), token_file: at.token_file.clone(), agent }
    }

    /// Where it is.
    pub(crate) fn address(&self) -> &HostPort {
        &self.at
    }

    /// `GET path` as text.
    pub(crate) fn text(&self, path: &str) -> Result<String, Failure> {
        let answer = self.agent.get(self.url(path)).call();
        self.body(answer)
    }

    /// `GET path` as a value.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let text = self.text(path)?;
        self.parsed(&text)
    }

    /// `POST path` with a JSON body; shows the token where there is one.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        let body = serde_json::to_string(body)
            .map_err(|error| Failure::new(code::FAILED, format!("the request cannot be written: {error}")))?;
        let mut request = self.agent.post(self.url(path)).header("Content-Type", "application/json");
        if let Some(token) = self.token()? {
            request = request.header("Authorization", token);
        }
        let text = self.body(request.send(body))?;
        self.parsed(&text)
    }

    /// `PUT path` or, to take it away, `DELETE path`; shows the token where there is one.
    pub(crate) fn set<T: DeserializeOwned>(&self, path: &str, on: bool) -> Result<T, Failure> {
        let (mut put, mut delete) = (self.agent.put(self.url(path)), self.agent.delete(self.url(path)));
        if let Some(token) = self.token()? {
            (put, delete) = (put.header("Authorization", &token), delete.header("Authorization", &token));
        }
        let text = self.body(if on { put.send_empty() } else { delete.call() })?;
        self.parsed(&text)
    }

    /// What a call that changes something shows.
    fn token(&self) -> Result<Option<String>, Failure> {
        let read = |file: &PathBuf| Token::read(file).map(|token| format!("Bearer {}", token.secret()));
        let token = self.token_file.as_ref().map(read).transpose();
        token.map_err(|error| Failure::new(code::CONFIG, in_one_line(&error)))
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.at)
    }

    fn body(&self, answer: Result<Response<Body>, ureq::Error>) -> Result<String, Failure> {
        let mut answer = answer.map_err(|error| self.unreachable(&error))?;
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| self.unreachable(&error))?;
        match answer.status().as_u16() {
            200..300 => Ok(text),
            status => Err(self.refused(status, &text)),
        }
    }

    /// An answer's text as a value.
    pub(crate) fn parsed<T: DeserializeOwned>(&self, text: &str) -> Result<T, Failure> {
        serde_json::from_str(text).map_err(|error| {
            Failure::new(code::FAILED, format!("the answer of {} cannot be understood: {error}", self.at))
                .then("is this the address of an rdmascope coordinator, of about the same version?")
        })
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        let why = match error {
            ureq::Error::Io(error) => error.to_string(),
            ureq::Error::HostNotFound => "no such host".to_owned(),
            other => in_one_line(other),
        };
        Failure::new(code::FAILED, format!("cannot reach the coordinator at {}: {why}", self.at)).then(
            "is it running there? start it with `rdmascope coordinator`, or name another with --coordinator HOST:PORT",
        )
    }

    fn refused(&self, status: u16, text: &str) -> Failure {
        let Ok(problem) = serde_json::from_str::<Problem>(text) else {
            return Failure::new(code::FAILED, format!("{} answers with status {status}", self.at))
                .then("this does not look like an rdmascope coordinator: is the address right?");
        };
        let mut words = format!("{}: {}", plain(&problem.title), plain(&problem.detail));
        for known in problem.known.iter().take(KNOWN_SHOWN_MAX) {
            words.push_str(&format!("\n  {}", plain(known)));
        }
        if problem.known.len() > KNOWN_SHOWN_MAX {
            words.push_str(&format!("\n  and {} more", problem.known.len() - KNOWN_SHOWN_MAX));
        }
        Failure::new(code::FAILED, words)
    }
}
