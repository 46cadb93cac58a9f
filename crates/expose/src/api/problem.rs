//! Errors of the API as problem documents (RFC 9457), with what exists where a name was wrong.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Names listed in a problem document at most: more do not help a person, and the list must stay bounded.
const KNOWN_MAX: usize = 100;

/// What went wrong with a request. Content type: `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Stable name of the kind of problem, a URN.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// What was wrong with this request, and what to do.
    pub detail: String,
    /// What exists, where a name was not known or not unique; the first 100.
    #[serde(default)]
    pub known: Vec<String>,
}

impl Problem {
    /// Content type of these documents.
    pub const CONTENT_TYPE: &'static str = "application/problem+json";

    fn new(status: u16, id: &str, title: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:rdmascope:problem:{id}"),
            title: title.to_owned(),
            status,
            detail: detail.into(),
            known: Vec::new(),
        }
    }

    /// 400: a value that cannot be, such as an unknown metric.
    #[must_use]
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(400, "bad-request", "The request cannot be understood", detail)
    }

    /// 401: the call needs a token or a certificate, and shows none that is known.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(
            401,
            "unauthorized",
            "This call needs a token or a certificate",
            "Send the coordinator's token as 'Authorization: Bearer TOKEN' (rdmascope: --token-file), or show a certificate of its CA \
             (--tls).",
        )
    }

    /// 403: it is known who calls, and that is not enough.
    #[must_use]
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(403, "forbidden", "Whoever calls may not do this", detail)
    }

    /// 408: the body did not come in time.
    #[must_use]
    pub fn too_slow() -> Self {
        Self::new(
            408,
            "too-slow",
            "The request did not come in time",
            "Send the whole body within ten seconds.",
        )
    }

    /// 426: plain text to a port with TLS.
    #[must_use]
    pub fn plain_text() -> Self {
        Self::new(
            426,
            "plain-text",
            "This port speaks TLS",
            "Call it with https and trust its CA (curl --cacert ca.crt; rdmascope: --tls FOLDER).",
        )
    }

    /// 404: no such thing.
    #[must_use]
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, "not-found", "There is no such thing", detail)
    }

    /// 405: the path exists and does not know the method.
    #[must_use]
    pub fn method_not_allowed(detail: impl Into<String>) -> Self {
        Self::new(405, "method-not-allowed", "This path does not know the method", detail)
    }

    /// 409: cannot be done in the present state, such as a second sweep.
    #[must_use]
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(409, "conflict", "Cannot be done now", detail)
    }

    /// 413: the body or the answer would be larger than `bytes_max`.
    #[must_use]
    pub fn too_large(bytes_max: u64) -> Self {
        let detail = format!("At most {bytes_max} bytes are accepted.");
        Self::new(413, "too-large", "The body is too large", detail)
    }

    /// 500: a fault of the coordinator itself.
    #[must_use]
    pub fn internal(detail: impl Into<String>) -> Self {
        Self::new(500, "internal", "rdmascope itself failed", detail)
    }

    /// 503: cannot be done yet, such as a sweep without endpoints.
    #[must_use]
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(503, "unavailable", "Not available now", detail)
    }

    /// The same problem with what exists; the first 100 are kept.
    #[must_use]
    pub fn with_known<S: Into<String>>(mut self, known: impl IntoIterator<Item = S>) -> Self {
        self.known = known.into_iter().take(KNOWN_MAX).map(Into::into).collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_gets_a_problem_that_lists_what_exists() {
        let problem = Problem::bad_request("no metric 'speed'").with_known(["latency", "bandwidth"]);
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["type"], "urn:rdmascope:problem:bad-request");
        assert_eq!(json["status"], 400);
        assert_eq!(json["known"], serde_json::json!(["latency", "bandwidth"]));
    }

    #[test]
    fn the_list_of_what_exists_stays_bounded() {
        let problem = Problem::not_found("no endpoint 'x'").with_known((0..5_000).map(|i| i.to_string()));
        assert_eq!(problem.known.len(), KNOWN_MAX);
    }
}
