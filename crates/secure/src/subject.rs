//! Whom a certificate is for and until when: the names in it, and what its holder may do.

use rdmascope_model::Wall;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// URI in a certificate whose holder may do everything.
pub(crate) const OPERATE: &str = "rdmascope:operate";
/// URI in a certificate whose holder may look.
pub(crate) const READ: &str = "rdmascope:read";
/// Names of a certificate that are looked at.
const NAMES_MAX: usize = 256;

/// What a certificate lets its holder do with the API. One of a node has neither: a stolen node must not start probes elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateRole {
    /// Look.
    Read,
    /// Look, and change what the cluster does.
    Operate,
}

/// What a certificate says of its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Common name; empty where it has none. For people: nothing is decided by it.
    pub name: String,
    /// DNS names, which names of nodes are compared with.
    pub dns: Vec<String>,
    /// Addresses, as text.
    pub addresses: Vec<String>,
    /// What its holder may do.
    pub role: Option<CertificateRole>,
    /// It is a certificate authority's.
    pub is_authority: bool,
    /// Valid from then.
    pub from: Wall,
    /// Valid until then.
    pub until: Wall,
}

impl Subject {
    /// What a certificate in DER says.
    ///
    /// # Errors
    /// It is no certificate.
    pub fn of(der: &[u8]) -> Result<Self, String> {
        let (_, parsed) =
            X509Certificate::from_der(der).map_err(|error| format!("no certificate: {error}"))?;
        let wall = |time: x509_parser::time::ASN1Time| {
            Wall(u64::try_from(time.timestamp()).unwrap_or(0).saturating_mul(1_000))
        };
        let name = parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        let mut subject = Self {
            name: name.unwrap_or_default().to_owned(),
            dns: Vec::new(),
            addresses: Vec::new(),
            role: None,
            is_authority: parsed.is_ca(),
            from: wall(parsed.validity().not_before),
            until: wall(parsed.validity().not_after),
        };
        let names = parsed.subject_alternative_name().map_err(|error| format!("no certificate: {error}"))?;
        for name in names.iter().flat_map(|names| &names.value.general_names).take(NAMES_MAX) {
            match name {
                GeneralName::DNSName(name) => subject.dns.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => subject.addresses.extend(address(bytes)),
                GeneralName::URI(uri) => subject.role = subject.role.max(role(uri)),
                _ => {}
            }
        }
        Ok(subject)
    }

    /// Whether its holder may be the agent of this node: one of its DNS names, as a whole. A wildcard stands for nobody.
    #[must_use]
    pub fn is_node(&self, node: &str) -> bool {
        !node.contains('*') && self.dns.iter().any(|name| name.eq_ignore_ascii_case(node))
    }
}

fn role(uri: &str) -> Option<CertificateRole> {
    match uri {
        OPERATE => Some(CertificateRole::Operate),
        READ => Some(CertificateRole::Read),
        _ => None,
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    let four = <[u8; 4]>::try_from(bytes).map(|bytes| std::net::IpAddr::from(bytes).to_string());
    let sixteen = || <[u8; 16]>::try_from(bytes).map(|bytes| std::net::IpAddr::from(bytes).to_string());
    four.or_else(|_| sixteen()).ok()
}

/// Whom the certificates of a PEM text are for, in its order.
///
/// # Errors
/// There is none, or one that is none.
pub fn subjects(pem: &[u8]) -> Result<Vec<Subject>, String> {
    let certificates: Vec<CertificateDer<'_>> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("not PEM: {error}"))?;
    if certificates.is_empty() {
        return Err("no certificate in it".to_owned());
    }
    certificates.iter().map(|der| Subject::of(der)).collect()
}
