//! Reads a folder of certificates and key into what rustls works with, or says which file is wrong and what to do.

use crate::subject::Subject;
use rdmascope_model::Wall;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Certificates of the authorities that are trusted.
pub const CA_FILE: &str = "ca.crt";
/// One's own certificate, with what stands between it and the authority.
pub const CERTIFICATE_FILE: &str = "tls.crt";
/// The key of one's own certificate.
pub const KEY_FILE: &str = "tls.key";

/// Largest of these files, bytes: a bundle of authorities has some hundred KiB.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Permission bits that a key may not have: anything for others, writing for the group, execution.
const MODE_BITS_REFUSED: u32 = 0o137;

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(
        "{path} cannot be read: `rdmascope tls init` makes such folders; check that this user may read it"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Others could read the key, or change it.
    #[error("{path} has mode {mode:04o}, so others could read or change the key: chmod 0600 {path}")]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file holds something else.
    #[error("{path}: {why}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The two files do not belong together.
    #[error(
        "{folder}: tls.key is not the key of tls.crt: copy both from the same folder of `rdmascope tls init`"
    )]
    Pair {
        /// The folder.
        folder: PathBuf,
    },
    /// What a daemon needs is not there.
    #[error("{folder} has no tls.crt and tls.key: who listens needs both; `rdmascope tls init` makes them")]
    NoCertificate {
        /// The folder.
        folder: PathBuf,
    },
}

/// What a folder holds.
pub struct Material {
    /// For those who dial: trusts the authorities, shows the own certificate where there is one.
    pub(crate) client: Arc<ClientConfig>,
    /// For those who listen; `None` without an own certificate.
    pub(crate) server: Option<Arc<ServerConfig>>,
    /// Trusted authorities.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The own certificate and what stands between it and the authority; empty where there is none.
    pub chain: Vec<CertificateDer<'static>>,
    /// The own key.
    key: Option<PrivateKeyDer<'static>>,
    /// Whom the own certificate is for.
    pub subject: Option<Subject>,
    /// Until when the certificates of each file are valid, the earliest of each.
    pub expires: Vec<(PathBuf, Wall)>,
    /// Changes with the files.
    pub(crate) fingerprint: u64,
}

/// What does the cryptography.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Material {
    /// Reads a folder.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn read(folder: &Path) -> Result<Self, TlsError> {
        let (ca_path, own_path) = (folder.join(CA_FILE), folder.join(CERTIFICATE_FILE));
        let ca = bytes(&ca_path, false)?;
        let own = if own_path.exists() || folder.join(KEY_FILE).exists() {
            Some((bytes(&own_path, false)?, bytes(&folder.join(KEY_FILE), true)?))
        } else {
            None
        };
        let mut hasher = DefaultHasher::new();
        (&ca, &own).hash(&mut hasher);
        let (authorities, ca_until) = certificates(&ca_path, &ca)?;
        let mut expires = vec![(ca_path.clone(), ca_until)];
        let (mut chain, mut key, mut subject) = (Vec::new(), None, None);
        if let Some((certificate, private)) = &own {
            let (read, until) = certificates(&own_path, certificate)?;
            subject = read.first().and_then(|first| Subject::of(first).ok());
            chain = read;
            expires.push((own_path, until));
            // What is wrong with a key is not told in the words of the parser: no part of it may get anywhere.
            key = Some(PrivateKeyDer::from_pem_slice(private).map_err(|_| TlsError::Content {
                path: folder.join(KEY_FILE),
                why: "no private key in PEM: copy it once more from where it was made".to_owned(),
            })?);
        }
        let mut material = Self {
            client: client(&ca_path, &authorities, folder, &chain, key.as_ref())?,
            server: None,
            authorities,
            chain,
            key,
            subject,
            expires,
            fingerprint: hasher.finish(),
        };
        material.server = material.server_config(&ca_path, folder)?;
        Ok(material)
    }

    fn server_config(&self, ca_path: &Path, folder: &Path) -> Result<Option<Arc<ServerConfig>>, TlsError> {
        let Some(key) = &self.key else { return Ok(None) };
        let roots = roots(ca_path, &self.authorities)?;
        // Who shows no certificate may still show a token, or ask for what needs neither: that is decided behind TLS.
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .allow_unauthenticated()
            .build()
            .map_err(|error| content(ca_path, &error))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| content(ca_path, &error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain.clone(), key.clone_key())
            .map_err(|error| pair(folder, &error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Connections live for days; a kept session would outlive a change of the authority.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Some(Arc::new(config)))
    }
}

fn client(
    ca_path: &Path,
    authorities: &[CertificateDer<'static>],
    folder: &Path,
    chain: &[CertificateDer<'static>],
    key: Option<&PrivateKeyDer<'static>>,
) -> Result<Arc<ClientConfig>, TlsError> {
    let roots = Arc::new(roots(ca_path, authorities)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| content(ca_path, &error))?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| content(ca_path, &error))?
        .with_webpki_verifier(verifier);
    let mut config = match key {
        Some(key) => builder
            .with_client_auth_cert(chain.to_vec(), key.clone_key())
            .map_err(|error| pair(folder, &error))?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

fn roots(path: &Path, authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).map_err(|error| content(path, &error))?;
    }
    Ok(roots)
}

fn content(path: &Path, error: &dyn std::error::Error) -> TlsError {
    TlsError::Content { path: path.to_owned(), why: error.to_string() }
}

fn pair(folder: &Path, error: &rustls::Error) -> TlsError {
    match error {
        rustls::Error::InconsistentKeys(_) => TlsError::Pair { folder: folder.to_owned() },
        other => content(&folder.join(KEY_FILE), other),
    }
}

/// The certificates of a file, and the earliest end of one of them.
fn certificates(path: &Path, bytes: &[u8]) -> Result<(Vec<CertificateDer<'static>>, Wall), TlsError> {
    let wrong = |why: String| TlsError::Content {
        path: path.to_owned(),
        why: format!("{why}; it should hold certificates in PEM"),
    };
    let subjects = crate::subjects(bytes).map_err(wrong)?;
    let list = CertificateDer::pem_slice_iter(bytes).collect::<Result<_, _>>();
    let until = subjects.iter().map(|subject| subject.until).min().unwrap_or_default();
    Ok((list.map_err(|error| wrong(error.to_string()))?, until))
}

fn bytes(path: &Path, secret: bool) -> Result<Vec<u8>, TlsError> {
    let unread = |source| TlsError::Read { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(unread)?;
    let metadata = file.metadata().map_err(unread)?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        let why = "not a file of PEM text: is the path right?".to_owned();
        return Err(TlsError::Content { path: path.to_owned(), why });
    }
    let mode = metadata.permissions().mode() & 0o777;
    if secret && mode & MODE_BITS_REFUSED != 0 {
        return Err(TlsError::Mode { path: path.to_owned(), mode });
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(unread)?;
    Ok(bytes)
}
