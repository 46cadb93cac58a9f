//! Who may do what: tokens and certificates become a role, once, before anything else looks at a request.

use crate::api::{BODY_BYTES_MAX, problem};
use crate::hub::Hub;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use rdmascope_config::Token;
use rdmascope_expose::api::Problem;
use rdmascope_secure::{CertificateRole, Peer, Subject, bearer};
use std::sync::Arc;
use std::time::Duration;

/// A body has come after this time, or it is not waited for.
const BODY_WITHIN: Duration = Duration::from_secs(10);
/// Nothing that is not the page may load or frame anything.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";
/// What needs no role: whether somebody is there, for probes of load balancers and of Kubernetes.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];
/// Where agents connect; `socket` asks who they are.
pub(crate) const AGENTS: &str = "/api/v1/agent";

/// What admits somebody.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Access {
    /// Who shows it may do everything.
    pub(crate) operate: Option<Token>,
    /// Who shows it may look; with it, nobody else may.
    pub(crate) read: Option<Token>,
    /// The port speaks TLS, and certificates admit.
    pub(crate) certificates: bool,
}

/// What whoever sent a request may do; an extension of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Looking is allowed as well.
    role: Option<CertificateRole>,
}

impl Caller {
    pub(crate) fn reads(self) -> bool {
        self.role.is_some()
    }

    pub(crate) fn operates(self) -> bool {
        self.role == Some(CertificateRole::Operate)
    }
}

impl Access {
    /// Everybody may do everything: nothing is there that could tell one from the other.
    pub(crate) fn is_open(&self) -> bool {
        self.operate.is_none() && !self.certificates
    }

    /// What the sender of these headers may do.
    pub(crate) fn caller(&self, headers: &HeaderMap, subject: Option<&Subject>) -> Caller {
        let shown = credentials(headers);
        let is =
            |token: &Option<Token>, secret: &[u8]| token.as_ref().is_some_and(|token| token.matches(secret));
        let by_token = shown.and_then(|shown| match shown {
            Shown::Bearer(secret) if is(&self.operate, secret) => Some(CertificateRole::Operate),
            Shown::Bearer(secret) if is(&self.read, secret) => Some(CertificateRole::Read),
            // A browser sends a password with everything, also with what another site made it send: it never writes.
            Shown::Password(secret) if is(&self.operate, &secret) || is(&self.read, &secret) => {
                Some(CertificateRole::Read)
            }
            _ => None,
        });
        let by_certificate = subject.and_then(|subject| subject.role);
        let anybody = match (self.is_open(), &self.read) {
            (true, _) => Some(CertificateRole::Operate),
            (false, None) => Some(CertificateRole::Read),
            (false, Some(_)) => None,
        };
        Caller { role: by_token.max(by_certificate).max(anybody) }
    }

    /// Whether somebody may be an agent at all; which one is asked when it says its name.
    pub(crate) fn admits_agent(&self, headers: &HeaderMap, subject: Option<&Subject>) -> bool {
        let by_token = match (&self.operate, credentials(headers)) {
            (Some(token), Some(Shown::Bearer(secret))) => token.matches(secret),
            _ => false,
        };
        self.is_open() || by_token || (self.certificates && subject.is_some())
    }
}

enum Shown<'h> {
    Bearer(&'h [u8]),
    Password(Vec<u8>),
}

/// What a request shows: a bearer token, or a password with any name.
fn credentials(headers: &HeaderMap) -> Option<Shown<'_>> {
    use base64::Engine as _;
    if let Some(token) = bearer(headers) {
        return Some(Shown::Bearer(token));
    }
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let pair = base64::engine::general_purpose::STANDARD.decode(value.strip_prefix(b"Basic ")?).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(Shown::Password(pair.get(colon + 1..)?.to_vec()))
}

/// The page of another site sent it: browsers say so, and nobody else has reason to.
pub(crate) fn is_foreign(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let own = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let site = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, site)| site);
    site.is_none() || site != own
}

/// Stands before every call.
pub(crate) async fn guard(State(hub): State<Arc<Hub>>, mut request: Request, next: Next) -> Response {
    let subject = request.extensions().get::<Peer>().and_then(|peer| peer.subject.clone());
    let caller = hub.access().caller(request.headers(), subject.as_deref());
    request.extensions_mut().insert(caller);
    let path = request.uri().path();
    let is_open = OPEN.contains(&path) || path == AGENTS;
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_open && reads && !caller.reads() {
        let ask = (
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("Basic realm=\"rdmascope: token as password\""),
        );
        return hardened(([ask], problem(&Problem::unauthorized())).into_response());
    }
    if (!reads || path == AGENTS) && is_foreign(request.headers()) {
        let why = "The page of another site may not do this (Origin and Host differ).";
        return hardened(problem(&Problem::forbidden(why)));
    }
    if !reads {
        request = match bounded(request, caller).await {
            Ok(request) => request,
            Err(refused) => return hardened(*refused),
        };
    }
    hardened(next.run(request).await)
}

/// The request with its whole body, which nobody waits for longer than for others; of whom it is refused anyway, without any.
async fn bounded(request: Request, caller: Caller) -> Result<Request, Box<Response>> {
    let (parts, body) = request.into_parts();
    if !caller.operates() {
        return Ok(Request::from_parts(parts, Body::empty()));
    }
    match tokio::time::timeout(BODY_WITHIN, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(bytes)) => Ok(Request::from_parts(parts, Body::from(bytes))),
        Ok(Err(_)) => Err(Box::new(problem(&Problem::too_large(BODY_BYTES_MAX as u64)))),
        Err(_) => Err(Box::new(problem(&Problem::too_slow()))),
    }
}

fn hardened(mut answer: Response) -> Response {
    let fixed: [(HeaderName, &'static str); 3] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    for (name, value) in fixed {
        // The page has a policy of its own.
        answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_model::Wall;

    fn token(name: &str, text: &str) -> Token {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("rdmascope-access-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let token = Token::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        token
    }

    fn access(operate: bool, read: bool, certificates: bool, name: &str) -> Access {
        Access {
            operate: operate.then(|| token(&format!("{name}-o"), "operate-operate-1")),
            read: read.then(|| token(&format!("{name}-r"), "read-read-read-12")),
            certificates,
        }
    }

    fn headers(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !authorization.is_empty() {
            headers.insert(header::AUTHORIZATION, authorization.parse().unwrap());
        }
        headers
    }

    fn subject(role: Option<CertificateRole>) -> Subject {
        Subject {
            name: "n1".to_owned(),
            dns: vec!["n1".to_owned()],
            addresses: Vec::new(),
            role,
            is_authority: false,
            from: Wall(0),
            until: Wall(u64::MAX),
        }
    }

    #[test]
    fn a_role_is_the_most_that_anything_shown_gives() {
        let (operate, read) = ("Bearer operate-operate-1", "Bearer read-read-read-12");
        // base64 of "me:operate-operate-1".
        let password = "Basic bWU6b3BlcmF0ZS1vcGVyYXRlLTE=";
        let node = subject(None);
        let (reader, operator) =
            (subject(Some(CertificateRole::Read)), subject(Some(CertificateRole::Operate)));
        let nobody = None;
        // Who is admitted, what is shown, and whether that may look and operate.
        let cases: &[(Access, &str, Option<&Subject>, [bool; 2])] = &[
            (access(false, false, false, "a"), "", nobody, [true, true]),
            (access(true, false, false, "b"), "", nobody, [true, false]),
            (access(true, false, false, "c"), "Bearer wrong-wrong-wrong", nobody, [true, false]),
            (access(true, false, false, "d"), operate, nobody, [true, true]),
            (access(true, true, false, "e"), "", nobody, [false, false]),
            (access(true, true, false, "f"), read, nobody, [true, false]),
            (access(true, true, false, "g"), operate, nobody, [true, true]),
            (access(true, true, false, "h"), password, nobody, [true, false]),
            (access(true, true, false, "i"), "Basic nonsense", nobody, [false, false]),
            (access(false, false, true, "j"), "", nobody, [true, false]),
            (access(false, false, true, "k"), "", Some(&node), [true, false]),
            (access(false, false, true, "l"), "", Some(&operator), [true, true]),
            (access(true, true, true, "m"), "", Some(&node), [false, false]),
            (access(true, true, true, "n"), "", Some(&reader), [true, false]),
            (access(true, true, true, "o"), operate, Some(&node), [true, true]),
        ];
        for (at, (access, shown, subject, expected)) in cases.iter().enumerate() {
            let caller = access.caller(&headers(shown), *subject);
            assert_eq!([caller.reads(), caller.operates()], *expected, "case {at}");
        }
    }

    #[test]
    fn an_agent_needs_the_token_or_a_certificate_and_no_password() {
        let node = subject(None);
        assert!(access(false, false, false, "p").admits_agent(&headers(""), None));
        let both = access(true, true, true, "q");
        assert!(both.admits_agent(&headers("Bearer operate-operate-1"), None));
        assert!(both.admits_agent(&headers(""), Some(&node)));
        for shown in ["", "Bearer read-read-read-12", "Basic bWU6b3BlcmF0ZS1vcGVyYXRlLTE="] {
            assert!(!both.admits_agent(&headers(shown), None), "{shown}");
        }
        assert!(!access(false, false, true, "r").admits_agent(&headers(""), None));
    }

    #[test]
    fn the_page_of_another_site_is_known_by_what_the_browser_says() {
        let of = |origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "head:8080".parse().unwrap());
            origin.map(|origin| headers.insert(header::ORIGIN, origin.parse().unwrap()));
            is_foreign(&headers)
        };
        assert!(!of(None) && !of(Some("http://head:8080")) && !of(Some("https://head:8080")));
        assert!(of(Some("https://evil.example")) && of(Some("null")) && of(Some("http://head:8081")));
    }
}
