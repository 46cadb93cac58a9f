//! Calls to the coordinator's API, and what to tell a person when one does not work.

use crate::arguments::CoordinatorAt;
use crate::failure::{Failure, code};
use crate::output::plain;
use rdmascope_config::{HostPort, Token};
use rdmascope_expose::api::{HealthView, Problem};
use rdmascope_model::in_one_line;
use rdmascope_secure::{CertificateDer, KEY_FILE, Material, PLAIN_STATUS, Trouble, provider, trouble};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::http::Response;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// A coordinator that is there accepts within this time, also across a wide network.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The matrix of thousands of endpoints takes a while to be written and sent.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Longest answer, bytes: the JSON of 4,096 endpoints has some 600 MB.
const ANSWER_BYTES_MAX: u64 = 1 << 30;
/// Names listed below an error at most.
const KNOWN_SHOWN_MAX: usize = 20;

/// Of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A coordinator.
pub(crate) struct Client {
    at: HostPort,
    token_file: Option<PathBuf>,
    tls: Option<PathBuf>,
    agent: Agent,
}

impl Client {
    /// Reads the certificates, where there is a folder of them.
    pub(crate) fn new(at: &CoordinatorAt) -> Result<Self, Failure> {
        let tls = at.tls.as_deref().map(tls_config).transpose()?.unwrap_or_default();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_WITHIN))
            .timeout_global(Some(ANSWER_WITHIN))
            // Agents dial it directly, too; a proxy for the world outside does not know the cluster's names.
            .proxy(None)
            .build()
            .new_agent();
        Ok(Self { at: at.coordinator.clone(), token_file: at.token_file.clone(), tls: at.tls.clone(), agent })
    }

    /// Where it is.
    pub(crate) fn address(&self) -> &HostPort {
        &self.at
    }

    /// `GET path` as text.
    pub(crate) fn text(&self, path: &str) -> Result<String, Failure> {
        let mut request = self.agent.get(self.url(path));
        // Where reading needs no token, one that this user may not read is none that is missed.
        if let Ok(Some(token)) = self.token() {
            request = request.header("Authorization", token);
        }
        self.body(request.call())
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
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.at)
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
        serde_json::from_str(text).map_err(|error| self.not_understood(&error))
    }

    /// Mostly because the two are of different versions; which ones is worth asking for.
    fn not_understood(&self, error: &serde_json::Error) -> Failure {
        let failure =
            Failure::new(code::FAILED, format!("the answer of {} cannot be understood: {error}", self.at));
        let theirs =
            self.text("/healthz").ok().and_then(|text| serde_json::from_str::<HealthView>(&text).ok());
        match theirs {
            Some(theirs) if theirs.version != VERSION => failure.then(format!(
                "the coordinator is version {}, this program {VERSION}: use the program of the coordinator's version",
                plain(&theirs.version)
            )),
            Some(_) => failure.then("the two are of the same version, so this is a fault of rdmascope: report it"),
            None => failure.then("this does not look like an rdmascope coordinator: is the address right?"),
        }
    }

    /// What to say where no agent has ever connected.
    pub(crate) fn no_agents(&self) -> String {
        format!(
            "no endpoints yet: no agent has connected.\n  next step: on each node, \
             `rdmascope agent --coordinator HOST:{}`\n",
            self.at.port
        )
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        let told = match error {
            ureq::Error::Rustls(error) => trouble(error),
            ureq::Error::Io(error) => trouble(error),
            _ => None,
        };
        if let Some(Trouble { what, next_step }) = told {
            return Failure::new(code::FAILED, format!("the coordinator at {}: {what}", self.at))
                .then(next_step);
        }
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
        let failure = Failure::new(code::FAILED, words);
        match (status, &self.token_file) {
            (PLAIN_STATUS, _) => failure.then("give a folder of `rdmascope tls init` with --tls FOLDER, or name it in RDMASCOPE_TLS"),
            (401, None) => failure.then(
                "give the file of the coordinator's token with --token-file FILE, or name it in RDMASCOPE_TOKEN_FILE; where it speaks \
                 TLS, an operator's certificate with --tls FOLDER does it, too",
            ),
            (401, Some(file)) if Token::read(file).is_err() => {
                let why = Token::read(file).err().map_or_else(String::new, |error| in_one_line(&error));
                failure.then(why)
            }
            (401, Some(file)) => failure.then(format!(
                "the coordinator was started with another token than the one in {}: copy its file to here",
                file.display()
            )),
            (404, _) => failure.of_unknown_name(),
            _ => failure,
        }
    }
}

/// What ureq needs of a folder: whom to trust, and who we are where that is in it.
fn tls_config(folder: &Path) -> Result<TlsConfig, Failure> {
    let material = Material::read(folder).map_err(|error| Failure::new(code::CONFIG, in_one_line(&error)))?;
    let owned = |list: &[CertificateDer<'static>]| -> Vec<Certificate<'static>> {
        list.iter().map(|der| Certificate::from_der(der).to_owned()).collect()
    };
    let own = match material.chain.as_slice() {
        [] => None,
        chain => {
            let unread =
                || Failure::new(code::CONFIG, format!("{} cannot be read", folder.join(KEY_FILE).display()));
            let pem = std::fs::read(folder.join(KEY_FILE)).map_err(|_| unread())?;
            let key = PrivateKey::from_pem(&pem).map_err(|_| unread())?;
            Some(ClientCert::new_with_certs(&owned(chain), key))
        }
    };
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&owned(&material.authorities)))
        .client_cert(own)
        .unversioned_rustls_crypto_provider(provider())
        .build())
}

/// A name as one segment or value of a URL.
pub(crate) fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment() {
        assert_eq!(escaped("a/b c"), "a%2Fb%20c");
    }
}
