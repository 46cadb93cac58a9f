//! What went wrong between two ends of a connection, in words for whoever has to mend it, with the next step.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use std::error::Error as StdError;

/// HTTP status that a port with TLS answers to plain text: RFC 2817, section 4.2, has it for this.
pub const PLAIN_STATUS: u16 = 426;

/// What is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub next_step: &'static str,
}

/// Words for an error of TLS that stands somewhere in a chain of errors; `None` where there is none.
#[must_use]
pub fn trouble(error: &(dyn StdError + 'static)) -> Option<Trouble> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(tls) = error.downcast_ref::<Error>() {
            return Some(told(tls));
        }
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        at = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn told(error: &Error) -> Trouble {
    let (what, next_step) = match error {
        Error::InvalidCertificate(wrong) => certificate(wrong),
        Error::AlertReceived(alert) => refused(*alert),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => (
            "it answers in plain text, not TLS".to_owned(),
            "start it with --tls FOLDER, or leave --tls out here where plain text is meant",
        ),
        Error::NoCertificatesPresented => (
            "it showed no certificate".to_owned(),
            "give it --tls FOLDER with a certificate of `rdmascope tls init`",
        ),
        other => (format!("TLS failed: {other}"), "compare both ends with `rdmascope tls show`"),
    };
    Trouble { what, next_step }
}

fn certificate(wrong: &CertificateError) -> (String, &'static str) {
    match wrong {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            "its certificate has expired".to_owned(),
            "put a new one into its folder (`rdmascope tls init --add`); it is read within a minute",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
            "its certificate is not valid yet".to_owned(),
            "compare the clocks of both machines; `rdmascope tls show` says from when it is valid",
        ),
        CertificateError::NotValidForNameContext { expected, presented } => (
            format!("its certificate is for {}, not for {}", list(presented), expected.to_str()),
            "dial it by a name in its certificate, or make it one for this name (`rdmascope tls init --coordinator NAME`)",
        ),
        CertificateError::NotValidForName => (
            "its certificate is for another name".to_owned(),
            "dial it by a name in its certificate; `rdmascope tls show` lists them",
        ),
        // Two authorities of the same name have different keys.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => (
            "its certificate is from an unknown CA".to_owned(),
            "ca.crt must hold the CA that made its certificate: copy both from one folder of `rdmascope tls init`",
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => (
            "its certificate is for another purpose".to_owned(),
            "an operator's certificate cannot serve, a server's cannot dial: copy the right folder of `rdmascope tls init`",
        ),
        other => (format!("its certificate cannot be used: {other}"), "look at it with `rdmascope tls show`"),
    }
}

/// The other side did not like what we showed.
fn refused(alert: AlertDescription) -> (String, &'static str) {
    match alert {
        AlertDescription::CertificateExpired => (
            "it refuses our certificate, which has expired".to_owned(),
            "put a new one into the folder of --tls; it is read within a minute",
        ),
        AlertDescription::UnknownCA | AlertDescription::DecryptError => (
            "it refuses our certificate, which is from a CA unknown to it".to_owned(),
            "both ends need certificates of one CA: compare ca.crt of both with `rdmascope tls show`",
        ),
        AlertDescription::CertificateRequired => (
            "it wants a certificate".to_owned(),
            "the folder of --tls needs tls.crt and tls.key; `rdmascope tls init` makes them",
        ),
        AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion => {
            ("it does not speak TLS 1.3".to_owned(), "is this an rdmascope, and no proxy in front of it?")
        }
        other => (
            format!("it refuses our certificate ({other:?})"),
            "look at it with `rdmascope tls show`: name, CA and dates",
        ),
    }
}

fn list(names: &[String]) -> String {
    // As the library writes them: DnsName("n1").
    let bare = names.iter().map(|name| name.split('"').nth(1).unwrap_or(name));
    let bare: Vec<&str> = bare.take(5).collect();
    if bare.is_empty() { "no name".to_owned() } else { bare.join(", ") }
}
