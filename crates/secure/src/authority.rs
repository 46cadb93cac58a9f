//! Makes a small certificate authority and a folder of certificate and key for everybody: what `rdmascope tls init` does.

use crate::material::{CA_FILE, CERTIFICATE_FILE, KEY_FILE};
use crate::subject::{OPERATE, READ};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};

/// The key that everything rests on. It belongs onto no node.
const CA_KEY_FILE: &str = "ca.key";
/// Days that the authority itself is valid.
const CA_DAYS: u32 = 3_650;
/// A certificate is valid from so long before it is made: clocks of nodes differ.
const BEFORE: Duration = Duration::hours(1);

/// What to make.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where.
    pub folder: PathBuf,
    /// Names of nodes, each of which gets a certificate.
    pub nodes: Vec<String>,
    /// Names and addresses of the coordinator; its machine's loopback is always among them.
    pub coordinator: Vec<String>,
    /// Days that certificates are valid.
    pub days: u32,
    /// The authority is there already: only what is named is made, and by it.
    pub add: bool,
}

/// Why nothing was made, or not all.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// Something of this name is there.
    #[error("{0} is there already, and nothing is ever overwritten")]
    Exists(PathBuf),
    /// A file cannot be read or written.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A certificate cannot be made.
    #[error("a certificate for {name} cannot be made")]
    Make {
        /// For whom.
        name: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
}

/// Makes everything, or adds to what is there; gives the folders that were made, each of which is what `--tls` takes.
///
/// # Errors
/// Something is there already, a file cannot be written, or a name cannot stand in a certificate.
pub fn make(request: &Request) -> Result<Vec<PathBuf>, AuthorityError> {
    make_at(request, OffsetDateTime::now_utc())
}

pub(crate) fn make_at(request: &Request, now: OffsetDateTime) -> Result<Vec<PathBuf>, AuthorityError> {
    let folder = &request.folder;
    let mut wanted = wanted(request);
    if request.add {
        let is_asked = |one: &Wanted| one.folder != "operator" && one.folder != "reader";
        wanted
            .retain(|one| is_asked(one) && (one.folder != "coordinator" || !request.coordinator.is_empty()));
    }
    // All or nothing, as far as this can be known before.
    let ca = [CA_FILE, CA_KEY_FILE].map(|name| folder.join(name));
    let new = if request.add { [].as_slice() } else { &ca };
    let taken = new.iter().cloned().chain(wanted.iter().map(|one| folder.join(&one.folder)));
    if let Some(taken) = taken.into_iter().find(|path| path.symlink_metadata().is_ok()) {
        return Err(AuthorityError::Exists(taken));
    }
    let (authority, issuer) = if request.add { read(&ca)? } else { found(folder, &ca, now)? };
    wanted.iter().map(|one| one.write(folder, &authority, &issuer, now, request.days)).collect()
}

/// A certificate to be made.
struct Wanted {
    /// Below the folder of all.
    folder: String,
    name: String,
    names: Vec<SanType>,
    purposes: Vec<ExtendedKeyUsagePurpose>,
}

fn wanted(request: &Request) -> Vec<Wanted> {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let dns = |name: &str| name.try_into().map(SanType::DnsName).ok();
    let uri = |uri: &str| uri.try_into().map(SanType::URI).ok();
    let one = |folder: String, name: &str, names: Vec<SanType>, purposes: Vec<ExtendedKeyUsagePurpose>| {
        Wanted { folder, name: name.to_owned(), names, purposes }
    };
    let named = request.coordinator.iter().map(String::as_str);
    let reached =
        named.chain(["localhost", "127.0.0.1", "::1"]).filter_map(|name| match name.parse::<IpAddr>() {
            Ok(address) => Some(SanType::IpAddress(address)),
            Err(_) => dns(name),
        });
    let mut all = vec![
        // Commands on its own machine use its folder; whoever has its key could tell agents anything anyway.
        one(
            "coordinator".to_owned(),
            "rdmascope coordinator",
            reached.chain(uri(OPERATE)).collect(),
            vec![ServerAuth, ClientAuth],
        ),
        one(
            "operator".to_owned(),
            "rdmascope operator",
            uri(OPERATE).into_iter().collect(),
            vec![ClientAuth],
        ),
        one("reader".to_owned(), "rdmascope reader", uri(READ).into_iter().collect(), vec![ClientAuth]),
    ];
    all.extend(request.nodes.iter().map(|node| {
        let names = dns(node).into_iter().collect();
        one(format!("nodes/{node}"), node, names, vec![ServerAuth, ClientAuth])
    }));
    all
}

fn params(name: &str, now: OffsetDateTime, days: u32) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = now - BEFORE;
    params.not_after = now + Duration::days(i64::from(days));
    params
}

/// A new authority.
fn found(
    folder: &Path,
    files: &[PathBuf; 2],
    now: OffsetDateTime,
) -> Result<(String, Issuer<'static, KeyPair>), AuthorityError> {
    // Its moment in the name keeps two authorities apart.
    let name = format!("rdmascope CA {}", now.unix_timestamp());
    let make = |source| AuthorityError::Make { name: name.clone(), source };
    let key = KeyPair::generate().map_err(make)?;
    let mut params = params(&name, now, CA_DAYS);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).map_err(make)?.pem();
    folder_of_own(folder)?;
    let [certificate_file, key_file] = files;
    write(key_file, &key.serialize_pem(), 0o600)?;
    write(certificate_file, &certificate, 0o644)?;
    Ok((certificate, Issuer::new(params, key)))
}

/// The authority that is there.
fn read(files: &[PathBuf; 2]) -> Result<(String, Issuer<'static, KeyPair>), AuthorityError> {
    let text = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|source| AuthorityError::File { path: path.clone(), source })
    };
    let [certificate_file, key_file] = files;
    let (certificate, key) = (text(certificate_file)?, text(key_file)?);
    let make = |source| AuthorityError::Make { name: "the authority".to_owned(), source };
    let issuer =
        Issuer::from_ca_cert_pem(&certificate, KeyPair::from_pem(&key).map_err(make)?).map_err(make)?;
    Ok((certificate, issuer))
}

impl Wanted {
    fn write(
        &self,
        folder: &Path,
        authority: &str,
        issuer: &Issuer<'static, KeyPair>,
        now: OffsetDateTime,
        days: u32,
    ) -> Result<PathBuf, AuthorityError> {
        let make = |source| AuthorityError::Make { name: self.name.clone(), source };
        let mut params = params(&self.name, now, days);
        params.subject_alt_names.clone_from(&self.names);
        params.extended_key_usages.clone_from(&self.purposes);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(make)?;
        let certificate = params.signed_by(&key, issuer).map_err(make)?.pem();
        let own = folder.join(&self.folder);
        folder_of_own(&own)?;
        write(&own.join(KEY_FILE), &key.serialize_pem(), 0o600)?;
        write(&own.join(CERTIFICATE_FILE), &certificate, 0o644)?;
        write(&own.join(CA_FILE), authority, 0o644)?;
        Ok(own)
    }
}

fn folder_of_own(path: &Path) -> Result<(), AuthorityError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| AuthorityError::File { path: path.to_owned(), source })
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), AuthorityError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => AuthorityError::Exists(path.to_owned()),
        _ => AuthorityError::File { path: path.to_owned(), source },
    })
}
