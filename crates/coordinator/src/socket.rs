//! The WebSocket that agents dial: one message is one frame, and what is not a frame ends that connection only.

use crate::hub::{Hub, Outgoing};
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use rdmascope_control::coordinator::ConnectionId;
use rdmascope_expose::api::Problem;
use rdmascope_link::{FRAME_BYTES_MAX, ToAgent, ToCoordinator};
use rdmascope_model::in_one_line;
use rdmascope_secure::{Peer, Subject};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tracing::{debug, warn};

/// A connection that is not introduced within this time is closed.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of each connection's buffer, and of one read: nearly all frames come in one piece, the largest of pings by numbers (22 KB) in two.
/// Thousands of agents stay small.
const BUFFER_BYTES: usize = 16 * 1024;
/// Connections of agents at the same time, those that said no hello yet included: half of them may be half dead ones of the other half.
const AGENTS_MAX: usize = 8_192;
/// Frames that one agent may send at once, and in a second after that; the rest waits in its own socket. A whole memory of results
/// is 328 frames, an agent of eight ports sends about ten in a second.
const FRAMES: (f64, f64) = (1_024.0, 500.0);

/// `GET /api/v1/agent`: becomes an agent's connection.
pub(crate) async fn upgrade(
    State(hub): State<Arc<Hub>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    socket: WebSocketUpgrade,
) -> Response {
    let subject = peer.and_then(|Extension(peer)| peer.subject);
    if !hub.access().admits_agent(&headers, subject.as_deref()) {
        hub.own.refused("token");
        warn!("an agent with a wrong token, or without token and certificate, was turned away");
        return crate::api::problem(&Problem::unauthorized());
    }
    if hub.connections() >= AGENTS_MAX {
        hub.own.refused("full");
        warn!("there are {AGENTS_MAX} connections of agents already: one more was turned away");
        return crate::api::problem(&Problem::unavailable("there are too many connections of agents"));
    }
    let socket = socket
        .max_message_size(FRAME_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * FRAME_BYTES_MAX);
    socket.on_upgrade(move |socket| serve(hub, socket, subject)).into_response()
}

async fn serve(hub: Arc<Hub>, mut socket: WebSocket, subject: Option<Arc<Subject>>) {
    let (id, mut outgoing) = hub.connect();
    let why = talk(&hub, id, subject.as_deref(), &mut socket, &mut outgoing).await;
    debug!(connection = id.0, why, "connection ends");
    hub.disconnect(id);
}

/// Passes frames both ways until one side ends it; answers why.
async fn talk(
    hub: &Hub,
    id: ConnectionId,
    subject: Option<&Subject>,
    socket: &mut WebSocket,
    outgoing: &mut mpsc::Receiver<Outgoing>,
) -> String {
    let mut introduced = false;
    let mut room = Room { frames: FRAMES.0, at: Instant::now() };
    let hello_deadline = tokio::time::sleep(HELLO_WITHIN);
    tokio::pin!(hello_deadline);
    loop {
        tokio::select! {
            next = outgoing.recv() => match next {
                Some(Outgoing::Frame(frame)) => {
                    if let Err(why) = send(hub, socket, Message::Binary(frame)).await {
                        return why;
                    }
                }
                Some(Outgoing::Close) => return close(hub, socket, close_code::NORMAL, "closed by the coordinator").await,
                None => {
                    hub.own.refused("stuck");
                    return "its queue was full".to_owned();
                }
            },
            () = tokio::time::sleep(room.wait()), if room.is_full() => hub.own.frames_delayed.inc(),
            message = socket.recv(), if !room.is_full() => match message {
                Some(Ok(Message::Binary(bytes))) => match ToCoordinator::decode(&bytes) {
                    Ok(frame) => {
                        if let Some(why) = stranger(subject, &frame) {
                            hub.own.refused("identity");
                            warn!(connection = id.0, "{why}; its connection is closed");
                            let refusal = ToAgent::Refused { message: why.clone() };
                            let _ = send(hub, socket, Message::Binary(refusal.encode().into())).await;
                            return close(hub, socket, close_code::POLICY, &why).await;
                        }
                        introduced = true;
                        room.take();
                        hub.frame(id, frame);
                    }
                    Err(error) => {
                        hub.own.frames_malformed.inc();
                        let text = in_one_line(&error);
                        warn!(connection = id.0, "an agent sent a {text}; its connection is closed");
                        let refusal = ToAgent::Refused { message: text.clone() };
                        let _ = send(hub, socket, Message::Binary(refusal.encode().into())).await;
                        return close(hub, socket, close_code::PROTOCOL, &text).await;
                    }
                },
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Text(_))) => {
                    hub.own.frames_malformed.inc();
                    warn!(connection = id.0, "an agent sent text; its connection is closed");
                    return close(hub, socket, close_code::UNSUPPORTED, "frames are binary").await;
                }
                Some(Ok(Message::Close(_))) | None => return "closed by the agent".to_owned(),
                Some(Err(error)) => {
                    // Too long, or not WebSocket at all; a connection that just broke ends here too.
                    return in_one_line(&error);
                }
            },
            () = &mut hello_deadline, if !introduced => {
                hub.own.refused("silent");
                return close(hub, socket, close_code::POLICY, "no hello within ten seconds").await;
            }
        }
    }
}

/// What is said to an agent whose certificate is for another node than it says it is.
fn stranger(subject: Option<&Subject>, frame: &ToCoordinator) -> Option<String> {
    let (subject, ToCoordinator::Hello(hello)) = (subject?, frame) else { return None };
    (!subject.is_node(&hello.node)).then(|| {
        let names = if subject.dns.is_empty() { "no node".to_owned() } else { subject.dns.join(", ") };
        format!(
            "the certificate is for {names}, the agent calls itself {}: give it the folder of its own node, or --node-name",
            hello.node
        )
    })
}

/// How many frames of one agent are read before others have their turn.
struct Room {
    frames: f64,
    at: Instant,
}

impl Room {
    fn refill(&mut self) {
        let now = Instant::now();
        self.frames = FRAMES.0.min(self.frames + (now - self.at).as_secs_f64() * FRAMES.1);
        self.at = now;
    }

    fn take(&mut self) {
        self.refill();
        self.frames -= 1.0;
    }

    fn is_full(&mut self) -> bool {
        self.refill();
        self.frames < 1.0
    }

    /// Until there is room again.
    fn wait(&self) -> Duration {
        Duration::from_secs_f64((1.0 - self.frames).max(0.0) / FRAMES.1)
    }
}

/// Sends a message. Whoever takes nothing is let go by the server below (`secure`, `server.rs`) after 30 s; here that is said and counted.
async fn send(hub: &Hub, socket: &mut WebSocket, message: Message) -> Result<(), String> {
    let sent = socket.send(message).await;
    sent.map_err(|error| {
        if timed_out(&error) {
            hub.own.refused("stuck");
            warn!("an agent has taken nothing for 30 s; its connection is closed");
        }
        in_one_line(&error)
    })
}

fn timed_out(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == ErrorKind::TimedOut) || error.source().is_some_and(timed_out)
}

async fn close(hub: &Hub, socket: &mut WebSocket, code: u16, why: &str) -> String {
    // RFC 6455, 5.5: a close frame's reason has at most 123 bytes.
    let reason: String = why.chars().take(100).collect();
    // The other side may be gone; then there is nobody to tell.
    let _ = send(hub, socket, Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
    why.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::hub::FRAMES_QUEUED_MAX;
    use futures_util::{SinkExt as _, StreamExt as _};
    use rdmascope_control::coordinator::Settings;
    use rdmascope_expose::metrics::encode;
    use rdmascope_host::Clock;
    use rdmascope_link::{Hello, PROTOCOL_MAX, PROTOCOL_MIN};
    use rdmascope_secure::{Limits, Server};
    use tokio::net::TcpListener;
    use tokio_tungstenite::connect_async;
    use tokio_tungstenite::tungstenite;

    fn hello() -> tungstenite::Message {
        let hello = Hello {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            agent_version: "1".to_owned(),
            node: "n1".to_owned(),
            instance: 1,
            machine: "m1".to_owned(),
            metrics: None,
        };
        tungstenite::Message::Binary(ToCoordinator::Hello(hello).encode().into())
    }

    /// How many agents were let go because they took nothing.
    fn stuck(hub: &Hub) -> String {
        let text = encode(&hub.registry).unwrap();
        let name = "rdmascope_agents_refused_total{reason=\"stuck\"} ";
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned()
    }

    #[tokio::test]
    async fn an_agent_that_lets_more_frames_wait_than_its_queue_holds_is_let_go_and_counted() {
        let hub = Hub::new(Settings::default(), 1, Clock::new(), Access::default(), false, 100);
        let hub = Arc::new(hub.unwrap());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("ws://{}/api/v1/agent", listener.local_addr().unwrap());
        let server = Server {
            router: crate::api::router(Arc::clone(&hub)),
            tls: None,
            limits: Limits { connections: 8, per_address: 8 },
            refused: Box::new(|why| panic!("{why:?}")),
        };
        let agent = async {
            let (mut agent, _) = connect_async(url).await.unwrap();
            agent.send(hello()).await.unwrap();
            agent.next().await.unwrap().unwrap();
            while hub.fullest_queue() > 0 {
                tokio::task::yield_now().await;
            }
            // All at once: its connection's task has no turn meanwhile, as while it waits for a socket that takes nothing.
            let say = |number| hub.write(|state, _| state.kept(ConnectionId(1), number));
            (1..=FRAMES_QUEUED_MAX as u64).for_each(say);
            assert_eq!((hub.fullest_queue(), hub.connections()), (FRAMES_QUEUED_MAX, 1), "all of them wait");
            say(0);
            assert_eq!((hub.connections(), stuck(&hub).as_str()), (0, "0"), "one more is too many");
            let mut heard = 0;
            while let Some(Ok(message)) = agent.next().await {
                heard += usize::from(matches!(
                    ToAgent::decode(&message.into_data()),
                    Ok(ToAgent::EventsSeen { .. })
                ));
            }
            assert_eq!((heard, stuck(&hub).as_str()), (FRAMES_QUEUED_MAX, "1"));
        };
        tokio::select! {
            () = server.serve(listener, std::future::pending()) => panic!("it serves for ever"),
            () = agent => {}
        }
    }

    /// The server below gives up on a socket that takes nothing (a test of `secure` shows it); its error comes through two others.
    #[test]
    fn a_socket_that_took_nothing_is_told_from_one_that_broke() {
        let error = |kind: ErrorKind| axum::Error::new(tungstenite::Error::Io(kind.into()));
        assert!(timed_out(&error(ErrorKind::TimedOut)));
        assert!(!timed_out(&error(ErrorKind::ConnectionReset)));
        assert!(!timed_out(&axum::Error::new(tungstenite::Error::ConnectionClosed)));
    }
}
