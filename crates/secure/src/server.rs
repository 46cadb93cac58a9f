//! The HTTP server of both daemons: TLS where there are certificates, and a limit on everything that whoever connects can hold.

use crate::subject::Subject;
use crate::tls::Tls;
use crate::words::{PLAIN_STATUS, trouble};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rdmascope_expose::api::Problem;
use rdmascope_expose::metrics::ConnectionRefusal;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

/// From its being accepted until a connection is secure, its turn among others of its address included.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// From the first moment that a request could come until its head is there; a connection that is kept without one ends, too.
const HEAD_WITHIN: Duration = Duration::from_secs(15);
/// Whoever takes nothing of an answer for so long is let go.
const WRITE_WITHIN: Duration = Duration::from_secs(30);
/// Bytes of a request's head, and of what is read ahead of a body.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// First byte of everything that begins TLS: a record of the handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;
/// The log has one line about refused connections in so long, at most.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// What may be held of one server. Connections of agents count only until they are agents.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at the same time.
    pub connections: usize,
    /// Connections of one address at the same time; more of them wait for their turn.
    pub per_address: usize,
}

/// Who is at the other end; an extension of each request.
#[derive(Clone, Debug)]
pub struct Peer {
    /// From where.
    pub address: SocketAddr,
    /// Whom the certificate is for that it showed, if any.
    pub subject: Option<Arc<Subject>>,
}

/// The bearer token that a request shows.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(header::AUTHORIZATION)?.as_bytes().strip_prefix(b"Bearer ")
}

/// What is served, and how.
pub struct Server {
    /// Answers.
    pub router: Router,
    /// `None`: plain text.
    pub tls: Option<Arc<Tls>>,
    /// What may be held.
    pub limits: Limits,
    /// Is told of each connection that is not served.
    pub refused: Box<dyn Fn(ConnectionRefusal) + Send + Sync>,
}

struct Shared {
    server: Server,
    all: Arc<Semaphore>,
    addresses: Mutex<BTreeMap<IpAddr, Arc<Semaphore>>>,
    told: Mutex<Option<Instant>>,
}

/// Room of one connection, given back when it is dropped.
struct Room {
    shared: Arc<Shared>,
    address: IpAddr,
    _all: OwnedSemaphorePermit,
    own: Option<OwnedSemaphorePermit>,
}

impl Server {
    /// Serves until `shutdown` is ready and all requests are answered.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let shared = Arc::new(Shared {
            all: Arc::new(Semaphore::new(self.limits.connections)),
            addresses: Mutex::default(),
            told: Mutex::default(),
            server: self,
        });
        let (stop, stopped) = watch::channel(());
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => {
                        let Ok(all) = Arc::clone(&shared.all).try_acquire_owned() else {
                            shared.refuse(ConnectionRefusal::Full, address, "");
                            continue;
                        };
                        connections.spawn(Arc::clone(&shared).connection(stream, address, all, stopped.clone()));
                    }
                    // No file descriptor is left, or the connection ended meanwhile.
                    Err(error) => {
                        debug!(%error, "a connection could not be accepted");
                        sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
        drop(listener);
        drop(stopped);
        // Whoever waits for it sees that nobody holds the other end any more.
        drop(stop);
        while connections.join_next().await.is_some() {}
    }
}

impl Shared {
    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        all: OwnedSemaphorePermit,
        stopped: watch::Receiver<()>,
    ) {
        let deadline = tokio::time::Instant::now() + HANDSHAKE_WITHIN;
        let ip = one_holder(address.ip());
        let own = self.of_address(ip);
        let mut room = Room { shared: Arc::clone(&self), address: ip, _all: all, own: None };
        match tokio::time::timeout_at(deadline, own.acquire_owned()).await {
            Ok(Ok(own)) => room.own = Some(own),
            _ => return self.refuse(ConnectionRefusal::Address, address, ""),
        }
        // Answers are small and somebody waits for each.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.server.tls else {
            return self.http(stream, Peer { address, subject: None }, stopped).await;
        };
        match tokio::time::timeout_at(deadline, self.secured(tls, stream, address)).await {
            Ok(Some((stream, subject))) => self.http(stream, Peer { address, subject }, stopped).await,
            Ok(None) => {}
            Err(_) => self.refuse(ConnectionRefusal::Slow, address, ""),
        }
        drop(room);
    }

    async fn secured(
        &self,
        tls: &Tls,
        mut stream: TcpStream,
        address: SocketAddr,
    ) -> Option<(tokio_rustls::server::TlsStream<TcpStream>, Option<Arc<Subject>>)> {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1) if first == [TLS_HANDSHAKE] => {}
            Ok(1) => {
                self.refuse(ConnectionRefusal::Plain, address, "");
                // Whoever asked may be gone.
                let _ = stream.write_all(plain().as_bytes()).await;
                let _ = stream.shutdown().await;
                // What is still unread would turn the end into a reset, and the answer would be lost.
                let _ = timeout(Duration::from_millis(200), drain(&stream)).await;
                return None;
            }
            // It looked whether somebody listens.
            _ => return None,
        }
        let config = tls.server()?;
        match TlsAcceptor::from(config).accept(stream).await {
            Ok(stream) => {
                let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                // rustls has parsed it already.
                let subject = shown.and_then(|shown| Subject::of(shown).ok()).map(Arc::new);
                Some((stream, subject))
            }
            Err(error) => {
                let why = trouble(&error).map_or_else(|| error.to_string(), |trouble| trouble.what);
                self.refuse(ConnectionRefusal::Handshake, address, &why);
                None
            }
        }
    }

    async fn http<S>(&self, stream: S, peer: Peer, mut stopped: watch::Receiver<()>)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_WITHIN));
        let router = TowerToHyperService::new(self.server.router.clone());
        let address = peer.address;
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            router.call(request.map(Body::new))
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(Box::pin(stream)), service)
            .with_upgrades();
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = &mut connection => ended,
            _ = stopped.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(%address, error = rdmascope_model::in_one_line(&error), "a connection ended early");
        }
    }

    fn of_address(&self, address: IpAddr) -> Arc<Semaphore> {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Semaphore::new(self.server.limits.per_address));
        Arc::clone(addresses.entry(address).or_insert_with(new))
    }

    fn refuse(&self, why: ConnectionRefusal, address: SocketAddr, detail: &str) {
        (self.server.refused)(why);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_some_and(|told| told.elapsed() < TOLD_EVERY) {
            return debug!(%address, reason = why.as_str(), detail, "a connection is not served");
        }
        *told = Some(Instant::now());
        warn!(%address, reason = why.as_str(), detail, "a connection is not served; others of this minute are only counted");
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        drop(self.own.take());
        let mut addresses = self.shared.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        // The one in the map is the last: nobody else of this address is here.
        if addresses.get(&self.address).is_some_and(|own| Arc::strong_count(own) == 1) {
            addresses.remove(&self.address);
        }
    }
}

/// Addresses that one machine has for itself count as one: of IPv6 whole networks of 64 bits.
fn one_holder(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        four => four,
    }
}

async fn drain(stream: &TcpStream) {
    let mut bytes = [0; 1024];
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut bytes) {
            Ok(0) => return,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
}

/// What somebody gets who speaks plain HTTP to a port with TLS.
fn plain() -> String {
    let problem = Problem::plain_text();
    // This type always has a JSON form.
    let body = serde_json::to_string(&problem).unwrap_or_default();
    format!(
        "HTTP/1.1 {PLAIN_STATUS} Upgrade Required\r\nUpgrade: TLS/1.3, HTTP/1.1\r\nConnection: Upgrade, close\r\n\
         Content-Type: {}\r\nContent-Length: {}\r\n\r\n{body}",
        Problem::CONTENT_TYPE,
        body.len()
    )
}
