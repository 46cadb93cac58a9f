//! The connection to the coordinator: dialled, kept, and dialled again with a growing, random pause.

use crate::Credentials;
use futures_util::{SinkExt as _, StreamExt as _};
use rdmascope_config::HostPort;
use rdmascope_link::{FRAME_BYTES_MAX, ToAgent};
use rdmascope_secure::{ClientStream, PLAIN_STATUS, Tls, Trouble, trouble};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tracing::{debug, info, warn};

/// Control frames that may wait: heartbeats, offers, results of a few leases. More means that nobody reads.
pub(crate) const CONTROL_MAX: usize = 256;
/// Frames of old results that may wait; each is at most 64 KiB. A whole memory of 32,768 pairs is 328 frames.
pub(crate) const BULK_MAX: usize = 512;
/// A connection that is not made in this time is tried anew.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// First and longest pause before dialling again. Ten seconds after a coordinator's restart all agents must be back.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(3));
/// A connection that lasted so long was a good one: after it, dialling begins with the first pause again.
const GOOD_AFTER: Duration = Duration::from_secs(5);
/// Bytes of the socket's buffers; frames are small.
const BUFFER_BYTES: usize = 4 * 1024;

/// What the uplink tells the main loop.
pub enum Happened {
    /// Connected; what is put into these queues is sent. Dropping both ends the connection.
    Connected(Queues),
    /// The connection is gone.
    Lost,
    /// The coordinator said something.
    Frame(Box<ToAgent>),
}

/// Where the main loop puts encoded frames.
pub struct Queues {
    /// Sent first.
    pub control: mpsc::Sender<Vec<u8>>,
    /// Sent when no control frame waits.
    pub bulk: mpsc::Sender<Vec<u8>>,
}

/// Keeps a connection for as long as somebody listens to what happens. Each time it is made, the token of that moment is shown.
pub async fn keep(
    coordinator: HostPort,
    credentials: watch::Receiver<Credentials>,
    happened: mpsc::Sender<Happened>,
) {
    let mut pause = PAUSE.0;
    let mut told = String::new();
    while !happened.is_closed() {
        let shown = credentials.borrow().clone();
        match dial(&coordinator, &shown).await {
            Ok(socket) => {
                info!(%coordinator, "connected to the coordinator");
                told.clear();
                let began = Instant::now();
                let why = serve(socket, &happened).await;
                // Whoever is let in and refused at once (for its name, its version) must not come back four times a second.
                if began.elapsed() >= GOOD_AFTER {
                    pause = PAUSE.0;
                }
                warn!(%coordinator, why, "connection to the coordinator ended; trying again");
                if happened.send(Happened::Lost).await.is_err() {
                    return;
                }
            }
            // Said once, until it changes: a coordinator that is away for a day must not fill the log.
            Err(why) if why != told => {
                warn!(%coordinator, why, "no connection to the coordinator; trying again until there is one");
                told = why;
            }
            Err(why) => debug!(%coordinator, why, "still no connection to the coordinator"),
        }
        sleep(jittered(pause)).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Between half of the pause and all of it, so that agents that lost their coordinator together do not return together.
fn jittered(pause: Duration) -> Duration {
    // The hasher's keys are random; nothing here needs better randomness.
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(0);
    pause.mul_f64(0.5 + (random % 1_000) as f64 / 2_000.0)
}

async fn dial(coordinator: &HostPort, credentials: &Credentials) -> Result<WebSocketStream<Line>, String> {
    let address = coordinator.to_string();
    let attempt = async {
        let stream = TcpStream::connect(&address).await.map_err(|e| e.to_string())?;
        // Offers and results are small and somebody waits for each.
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        let mut request =
            format!("ws://{address}/api/v1/agent").into_client_request().map_err(|e| e.to_string())?;
        if let Some(token) = &credentials.token {
            let mut value: HeaderValue =
                format!("Bearer {}", token.secret()).parse().map_err(|_| "the token has odd characters")?;
            value.set_sensitive(true);
            request.headers_mut().insert("authorization", value);
        }
        let stream = match &credentials.tls {
            Some(tls) => Line::Secure(Box::new(secured(tls, &coordinator.host, stream).await?)),
            None => Line::Plain(stream),
        };
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(2 * FRAME_BYTES_MAX)
            .max_message_size(Some(FRAME_BYTES_MAX))
            .max_frame_size(Some(FRAME_BYTES_MAX));
        let made = client_async_with_config(request, stream, Some(config)).await;
        made.map(|(socket, _)| socket).map_err(|error| explained(&error))
    };
    timeout(CONNECT_WITHIN, attempt).await.unwrap_or_else(|_| Err("no answer within five seconds".to_owned()))
}

async fn secured(tls: &Tls, host: &str, stream: TcpStream) -> Result<ClientStream, String> {
    let made = tls.connect(host, stream).await;
    made.map_err(|error| trouble(&error).map_or_else(|| error.to_string(), |trouble| told(&trouble)))
}

fn told(trouble: &Trouble) -> String {
    format!("{}; next step: {}", trouble.what, trouble.next_step)
}

fn explained(error: &tungstenite::Error) -> String {
    if let Some(trouble) = trouble(error) {
        return told(&trouble);
    }
    match error {
        tungstenite::Error::Http(response) if response.status() == StatusCode::UNAUTHORIZED => {
            "the coordinator wants another token: give its file with --token-file, or this node's folder of `rdmascope tls init` with --tls"
                .to_owned()
        }
        tungstenite::Error::Http(response) if response.status() == PLAIN_STATUS => {
            "the coordinator speaks TLS: give a folder of `rdmascope tls init` with --tls".to_owned()
        }
        tungstenite::Error::Http(response) => {
            format!("this is no rdmascope coordinator: it answered with status {}", response.status())
        }
        other => other.to_string(),
    }
}

/// A connection with TLS or without.
enum Line {
    Plain(TcpStream),
    Secure(Box<ClientStream>),
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Self::Secure(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Secure(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Secure(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// Passes frames both ways until the connection ends; answers why.
async fn serve(socket: WebSocketStream<Line>, happened: &mpsc::Sender<Happened>) -> String {
    let (control, mut control_out) = mpsc::channel(CONTROL_MAX);
    let (bulk, mut bulk_out) = mpsc::channel(BULK_MAX);
    if happened.send(Happened::Connected(Queues { control, bulk })).await.is_err() {
        return "the agent stops".to_owned();
    }
    let (mut sink, mut stream) = socket.split();
    loop {
        tokio::select! {
            biased;
            frame = control_out.recv() => match frame {
                Some(frame) => if let Err(error) = sink.send(Message::Binary(frame.into())).await {
                    return error.to_string();
                },
                None => return "ended by the agent".to_owned(),
            },
            message = stream.next() => match message {
                Some(Ok(Message::Binary(bytes))) => match ToAgent::decode(&bytes) {
                    Ok(frame) => if happened.send(Happened::Frame(Box::new(frame))).await.is_err() {
                        return "the agent stops".to_owned();
                    },
                    Err(error) => return format!("the coordinator sent a {error}"),
                },
                Some(Ok(Message::Close(reason))) => {
                    return reason.map_or("closed by the coordinator".to_owned(), |r| r.reason.to_string());
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return explained(&error),
                None => return "closed by the coordinator".to_owned(),
            },
            Some(frame) = bulk_out.recv() => {
                if let Err(error) = sink.send(Message::Binary(frame.into())).await {
                    return error.to_string();
                }
            }
        }
    }
}
