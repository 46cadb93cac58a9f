//! Certificates and who they are for, TLS on both sides of every connection, and the HTTP server of both daemons with its limits.
//!
//! A folder is all that anybody is told: `ca.crt` (whom to trust), `tls.crt` and `tls.key` (who one is), the names that secrets of
//! Kubernetes have. `authority` makes such folders, `material` reads one, `tls` keeps what is in force and looks for newer files,
//! `server` serves HTTP over it, `words` says what went wrong and what to do.

mod authority;
mod material;
mod server;
mod subject;
#[cfg(test)]
mod tests;
mod tls;
mod words;

pub use authority::{AuthorityError, Request, make};
pub use material::{CA_FILE, CERTIFICATE_FILE, KEY_FILE, Material, TlsError, provider};
pub use rustls::pki_types::CertificateDer;
pub use server::{Limits, Peer, Server, bearer};
pub use subject::{CertificateRole, Subject, subjects};
pub use tls::{ClientStream, Tls};
pub use words::{PLAIN_STATUS, Trouble, trouble};
