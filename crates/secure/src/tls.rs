//! What is in force of a folder of certificates: shared by all connections, and replaced when the files change.

use crate::material::{Material, TlsError};
use rdmascope_model::{Wall, in_one_line};
use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tracing::{info, warn};

/// Files are looked at so often.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// A connection that was dialled.
pub type ClientStream = tokio_rustls::client::TlsStream<TcpStream>;

/// Certificates of one folder, as they are now.
pub struct Tls {
    folder: PathBuf,
    now: Mutex<Arc<Material>>,
    /// Fingerprint or words of what was refused last, so that it is told once.
    refused: Mutex<String>,
}

impl Tls {
    /// Reads a folder. One whose certificate has expired is taken: newer files are looked for as long as the program runs.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn read(folder: &Path) -> Result<Self, TlsError> {
        let material = Material::read(folder)?;
        if let Some((path, until)) = expired(&material) {
            warn!(path = %path.display(), %until, "the certificate has expired: nobody will accept it until there is a newer one");
        }
        Ok(Self {
            folder: folder.to_owned(),
            now: Mutex::new(Arc::new(material)),
            refused: Mutex::new(String::new()),
        })
    }

    /// The same, for who listens.
    ///
    /// # Errors
    /// As [`Tls::read`]; or there is no certificate to show.
    pub fn read_for_server(folder: &Path) -> Result<Self, TlsError> {
        let tls = Self::read(folder)?;
        if tls.material().server.is_none() {
            return Err(TlsError::NoCertificate { folder: folder.to_owned() });
        }
        Ok(tls)
    }

    /// What is in force.
    #[must_use]
    pub fn material(&self) -> Arc<Material> {
        Arc::clone(&self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn server(&self) -> Option<Arc<ServerConfig>> {
        self.material().server.clone()
    }

    /// Until when the certificates of each file are valid.
    #[must_use]
    pub fn expires(&self) -> Vec<(PathBuf, Wall)> {
        self.material().expires.clone()
    }

    /// Makes a connection that was dialled at `host` secure: the other side must have a certificate for that name or address.
    ///
    /// # Errors
    /// As the library tells it; [`crate::trouble`] has words for it.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> std::io::Result<ClientStream> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned()).map_err(std::io::Error::other)?;
        TlsConnector::from(Arc::clone(&self.material().client)).connect(name, stream).await
    }

    /// Looks once a minute whether the files have changed, for as long as it is polled.
    pub async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let this = Arc::clone(&self);
            // The folder may lie on a slow disk. Its panic was told already.
            drop(tokio::task::spawn_blocking(move || this.look()).await);
        }
    }

    /// Takes the files if they have changed and are good; what is in force stays otherwise.
    pub(crate) fn look(&self) {
        let read = Material::read(&self.folder).map_err(|error| in_one_line(&error)).and_then(|material| {
            let is_news = material.fingerprint != self.material().fingerprint;
            match expired(&material).filter(|_| is_news) {
                Some((path, until)) => Err(format!("{} has expired on {until}", path.display())),
                None if is_news && material.server.is_none() && self.server().is_some() => {
                    Err("tls.crt and tls.key are gone".to_owned())
                }
                None => Ok(is_news.then_some(material)),
            }
        });
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(None) => refused.clear(),
            Ok(Some(material)) => {
                let (name, until) = (material.subject.as_ref().map(|s| s.name.clone()), first_end(&material));
                info!(folder = %self.folder.display(), name, %until, "new certificates are in force for new connections");
                *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(material);
                refused.clear();
            }
            Err(why) if *refused != why => {
                warn!(folder = %self.folder.display(), why, "the new certificates are refused, the old ones stay in force");
                *refused = why;
            }
            Err(_) => {}
        }
    }
}

fn first_end(material: &Material) -> Wall {
    material.expires.iter().map(|(_, until)| *until).min().unwrap_or_default()
}

/// A file whose certificate has expired.
fn expired(material: &Material) -> Option<&(PathBuf, Wall)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Wall(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    material.expires.iter().find(|(_, until)| *until <= now)
}
