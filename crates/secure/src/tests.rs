//! Both ends over real sockets: who is let in, what the other one is told, and what whoever connects can hold.

use crate::authority::make_at;
use crate::{
    AuthorityError, CA_FILE, CERTIFICATE_FILE, CertificateRole, KEY_FILE, Limits, Peer, Request, Server, Tls,
    TlsError, make, subjects, trouble,
};
use axum::routing::get;
use axum::{Extension, Router};
use rdmascope_expose::metrics::ConnectionRefusal;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use time::OffsetDateTime;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("rdmascope-secure-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn request(&self, name: &str) -> Request {
        Request {
            folder: self.0.join(name),
            nodes: vec!["n1".to_owned(), "n2".to_owned()],
            coordinator: vec!["head".to_owned()],
            days: 30,
            add: false,
        }
    }

    /// An authority with everybody's folders.
    fn made(&self, name: &str) -> PathBuf {
        make(&self.request(name)).unwrap();
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

const LIMITS: Limits = Limits { connections: 8, per_address: 4 };

/// A server that answers who is there, its address, and what it refused.
async fn serving(folder: Option<&Path>, limits: Limits) -> (SocketAddr, Arc<Mutex<Vec<ConnectionRefusal>>>) {
    let who = async |Extension(peer): Extension<Peer>| {
        let subject = peer.subject;
        subject.map_or("nobody".to_owned(), |subject| {
            format!("{} {:?} {:?}", subject.name, subject.dns, subject.role)
        })
    };
    let refused: Arc<Mutex<Vec<ConnectionRefusal>>> = Arc::default();
    let told = Arc::clone(&refused);
    let server = Server {
        router: Router::new().route("/", get(who)),
        tls: folder.map(|folder| Arc::new(Tls::read_for_server(folder).unwrap())),
        limits,
        refused: Box::new(move |why| told.lock().unwrap().push(why)),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server.serve(listener, std::future::pending()));
    (address, refused)
}

async fn asked(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<String> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// What somebody with this folder gets who calls `host` at this address, or what is wrong in words.
async fn calls(folder: &Path, host: &str, address: SocketAddr) -> Result<String, String> {
    let tls = Tls::read(folder).unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let told = |error: std::io::Error| trouble(&error).expect("an error of TLS").what;
    let stream = tls.connect(host, stream).await.map_err(told)?;
    asked(stream).await.map_err(told)
}

#[test]
fn an_authority_is_made_once_with_tight_keys_and_can_be_added_to() {
    let folder = Folder::new();
    let made = folder.made("pki");
    let mode = |path: &str| fs::metadata(made.join(path)).unwrap().permissions().mode() & 0o777;
    for key in ["ca.key", "coordinator/tls.key", "operator/tls.key", "reader/tls.key", "nodes/n1/tls.key"] {
        assert_eq!(mode(key), 0o600, "{key}");
    }
    assert_eq!((mode("nodes"), mode("nodes/n2")), (0o700, 0o700));
    let of = |path: &str| subjects(&fs::read(made.join(path)).unwrap()).unwrap().remove(0);
    let node = of("nodes/n1/tls.crt");
    assert_eq!((node.dns.as_slice(), node.role, node.is_authority), (&["n1".to_owned()][..], None, false));
    assert!(node.is_node("N1") && !node.is_node("n2") && !node.is_node(""));
    assert_eq!((node.until.0 - node.from.0) / 3_600_000, 30 * 24 + 1, "hours");
    assert_eq!(of("operator/tls.crt").role, Some(CertificateRole::Operate));
    assert_eq!(of("reader/tls.crt").role, Some(CertificateRole::Read));
    assert!(of("ca.crt").is_authority);
    assert_eq!(of("coordinator/tls.crt").addresses, ["127.0.0.1", "::1"]);

    let before = fs::read(made.join("ca.key")).unwrap();
    assert!(matches!(make(&folder.request("pki")), Err(AuthorityError::Exists(_))));
    let added =
        Request { nodes: vec!["n3".to_owned()], add: true, coordinator: Vec::new(), ..folder.request("pki") };
    assert_eq!(make(&added).unwrap(), [made.join("nodes/n3")]);
    let twice = Request { nodes: vec!["n4".to_owned(), "n1".to_owned()], ..added };
    assert!(matches!(make(&twice), Err(AuthorityError::Exists(path)) if path.ends_with("nodes/n1")));
    assert!(!made.join("nodes/n4").exists(), "all or nothing");
    assert_eq!(fs::read(made.join("ca.key")).unwrap(), before);
    assert_eq!(Tls::read(&made.join("nodes/n3")).unwrap().expires().len(), 2);
}

#[test]
fn a_wildcard_stands_for_nobody() {
    let folder = Folder::new();
    let wild = Request { nodes: vec!["*".to_owned()], ..folder.request("pki") };
    make(&wild).unwrap();
    let subject = subjects(&fs::read(folder.0.join("pki/nodes/*/tls.crt")).unwrap()).unwrap().remove(0);
    assert!(!subject.is_node("n1") && !subject.is_node("*"));
}

#[test]
fn what_is_wrong_with_a_folder_is_told_by_its_file() {
    let folder = Folder::new();
    let made = folder.made("pki");
    let node = made.join("nodes/n1");
    let why = |node: &Path| Tls::read(node).err().expect("it is refused").to_string();
    fs::set_permissions(node.join(KEY_FILE), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(why(&node).contains("mode 0644"), "{}", why(&node));
    fs::set_permissions(node.join(KEY_FILE), fs::Permissions::from_mode(0o600)).unwrap();
    fs::copy(made.join("nodes/n2/tls.key"), node.join(KEY_FILE)).unwrap();
    assert!(matches!(Tls::read(&node), Err(TlsError::Pair { .. })), "{}", why(&node));
    fs::write(node.join(KEY_FILE), "secret nonsense").unwrap();
    assert!(why(&node).contains("no private key") && !why(&node).contains("nonsense"), "{}", why(&node));
    fs::write(node.join(CERTIFICATE_FILE), "").unwrap();
    assert!(why(&node).contains("no certificate in it"), "{}", why(&node));
    fs::remove_file(node.join(CERTIFICATE_FILE)).unwrap();
    assert!(why(&node).contains("tls.crt cannot be read"), "{}", why(&node));
    fs::remove_file(node.join(KEY_FILE)).unwrap();
    assert!(Tls::read(&node).is_ok(), "who dials need not have a certificate");
    assert!(matches!(Tls::read_for_server(&node), Err(TlsError::NoCertificate { .. })));
    fs::remove_file(node.join(CA_FILE)).unwrap();
    assert!(why(&node).contains("ca.crt cannot be read"), "{}", why(&node));
}

#[tokio::test]
async fn each_end_sees_who_the_other_one_is() {
    let folder = Folder::new();
    let made = folder.made("pki");
    let (address, refused) = serving(Some(&made.join("coordinator")), LIMITS).await;
    let seen = calls(&made.join("nodes/n1"), "head", address).await.unwrap();
    assert!(seen.ends_with("n1 [\"n1\"] None"), "{seen}");
    let seen = calls(&made.join("operator"), "127.0.0.1", address).await.unwrap();
    assert!(seen.ends_with("rdmascope operator [] Some(Operate)"), "{seen}");
    let bare = made.join("bare");
    fs::create_dir(&bare).unwrap();
    fs::copy(made.join(CA_FILE), bare.join(CA_FILE)).unwrap();
    let seen = calls(&bare, "head", address).await.unwrap();
    assert!(seen.ends_with("nobody"), "{seen}");
    assert_eq!(*refused.lock().unwrap(), []);
}

#[tokio::test]
async fn strangers_impostors_and_expired_ones_are_refused_in_words() {
    let folder = Folder::new();
    let (made, other) = (folder.made("pki"), folder.made("other"));
    let (address, refused) = serving(Some(&made.join("coordinator")), LIMITS).await;
    // Another machine in the coordinator's place: a name that is not its own, though the CA is.
    let why = calls(&made.join("nodes/n1"), "elsewhere", address).await.unwrap_err();
    assert!(why.starts_with("its certificate is for head") && why.ends_with("not for elsewhere"), "{why}");
    let why = calls(&other.join("nodes/n1"), "head", address).await.unwrap_err();
    assert_eq!(why, "its certificate is from an unknown CA");
    // It trusts us, we do not trust it.
    let mixed = other.join("nodes/n2");
    fs::copy(made.join(CA_FILE), mixed.join(CA_FILE)).unwrap();
    let why = calls(&mixed, "head", address).await.unwrap_err();
    assert_eq!(why, "it refuses our certificate, which is from a CA unknown to it");

    let long_ago = OffsetDateTime::now_utc() - time::Duration::days(100);
    make_at(&folder.request("old"), long_ago).unwrap();
    let old = folder.0.join("old");
    let (expired, _) = serving(Some(&old.join("coordinator")), LIMITS).await;
    assert_eq!(
        calls(&old.join("nodes/n1"), "head", expired).await.unwrap_err(),
        "its certificate has expired"
    );
    // The server's is renewed, the node's is not.
    let add = Request { add: true, nodes: Vec::new(), ..folder.request("old") };
    fs::rename(old.join("coordinator"), old.join("coordinator.old")).unwrap();
    make(&add).unwrap();
    let (good, _) = serving(Some(&old.join("coordinator")), LIMITS).await;
    let why = calls(&old.join("nodes/n1"), "head", good).await.unwrap_err();
    assert_eq!(why, "it refuses our certificate, which has expired");
    assert!(refused.lock().unwrap().iter().all(|why| *why == ConnectionRefusal::Handshake));
}

#[tokio::test]
async fn plain_text_and_tls_that_meet_each_other_are_told_apart() {
    let folder = Folder::new();
    let made = folder.made("pki");
    let (address, refused) = serving(Some(&made.join("coordinator")), LIMITS).await;
    let answer = asked(TcpStream::connect(address).await.unwrap()).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 426 ") && answer.contains("This port speaks TLS"), "{answer}");
    assert_eq!(*refused.lock().unwrap(), [ConnectionRefusal::Plain]);
    let (plain, _) = serving(None, LIMITS).await;
    let why = calls(&made.join("nodes/n1"), "head", plain).await.unwrap_err();
    assert_eq!(why, "it answers in plain text, not TLS");
}

#[tokio::test]
async fn new_files_are_taken_bad_ones_are_refused_and_the_old_ones_stay() {
    let folder = Folder::new();
    let (made, next) = (folder.made("pki"), folder.made("next"));
    let place = made.join("coordinator");
    let tls = Tls::read_for_server(&place).unwrap();
    let first = tls.material().fingerprint;
    let put = |from: &Path| {
        for name in [CA_FILE, CERTIFICATE_FILE, KEY_FILE] {
            fs::copy(from.join(name), place.join(name)).unwrap();
        }
    };
    tls.look();
    assert_eq!(tls.material().fingerprint, first);
    fs::copy(next.join("coordinator/tls.crt"), place.join(CERTIFICATE_FILE)).unwrap();
    tls.look();
    assert_eq!(tls.material().fingerprint, first, "half of a pair");
    put(&next.join("coordinator"));
    tls.look();
    let second = tls.material().fingerprint;
    assert_ne!(second, first);
    let long_ago = OffsetDateTime::now_utc() - time::Duration::days(100);
    make_at(&folder.request("old"), long_ago).unwrap();
    put(&folder.0.join("old/coordinator"));
    tls.look();
    assert_eq!(tls.material().fingerprint, second, "expired");
    for name in [CERTIFICATE_FILE, KEY_FILE] {
        fs::remove_file(place.join(name)).unwrap();
    }
    tls.look();
    assert_eq!(tls.material().fingerprint, second, "gone");
    assert!(tls.server().is_some());
}

async fn from(address: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((address, 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

#[tokio::test]
async fn one_address_cannot_keep_the_others_out() {
    let (address, _) = serving(None, Limits { connections: 8, per_address: 2 }).await;
    let held = [from([127, 0, 0, 1], address).await, from([127, 0, 0, 1], address).await];
    let mut third = from([127, 0, 0, 1], address).await;
    third.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let other = asked(from([127, 0, 0, 2], address).await).await.unwrap();
    assert!(other.ends_with("nobody"), "{other}");
    let mut nothing = [0];
    let early = tokio::time::timeout(Duration::from_millis(100), third.read(&mut nothing)).await;
    assert!(early.is_err(), "it waits for its turn");
    drop(held);
    let mut answer = String::new();
    third.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("nobody"), "{answer}");
}

#[tokio::test]
async fn there_is_an_end_to_connections() {
    let (address, refused) = serving(None, Limits { connections: 2, per_address: 2 }).await;
    let _held = [from([127, 0, 0, 1], address).await, from([127, 0, 0, 2], address).await];
    let mut third = from([127, 0, 0, 3], address).await;
    assert!(matches!(third.read(&mut [0]).await, Ok(0) | Err(_)), "it is closed at once");
    assert_eq!(*refused.lock().unwrap(), [ConnectionRefusal::Full]);
}

/// Time passes at once where everybody waits.
#[tokio::test(start_paused = true)]
async fn who_sends_nothing_or_too_slowly_is_let_go() {
    let folder = Folder::new();
    let made = folder.made("pki");
    let (address, refused) = serving(Some(&made.join("coordinator")), LIMITS).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    assert!(matches!(silent.read(&mut [0]).await, Ok(0) | Err(_)));
    assert_eq!(*refused.lock().unwrap(), [ConnectionRefusal::Slow]);

    let (plain, _) = serving(None, LIMITS).await;
    let mut slow = TcpStream::connect(plain).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").await.unwrap();
    let mut answer = Vec::new();
    // A status may come before the end.
    drop(slow.read_to_end(&mut answer).await);
    assert!(!String::from_utf8_lossy(&answer).contains("nobody"), "it was never asked for in full");
}

#[tokio::test]
async fn a_head_has_an_end() {
    let (address, _) = serving(None, LIMITS).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(64 * 1024));
    drop(stream.write_all(long.as_bytes()).await);
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
}
