//! The WebSocket that agents dial: one message is one frame, and what is not a frame ends that connection only.

use crate::hub::{Hub, Outgoing};
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use rdmascope_control::coordinator::ConnectionId;
use rdmascope_link::{FRAME_BYTES_MAX, ToAgent, ToCoordinator};
use rdmascope_model::in_one_line;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tracing::{debug, warn};

/// A connection that is not introduced within this time is closed.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of each connection's buffers: thousands of agents stay small, and frames are small too.
const BUFFER_BYTES: usize = 4 * 1024;

/// `GET /api/v1/agent`: becomes an agent's connection.
pub(crate) async fn upgrade(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
    socket: WebSocketUpgrade,
) -> Response {
    if !hub.admits(crate::commands::bearer(&headers)) {
        hub.own.refused_token();
        warn!("an agent with a wrong token, or without one, was turned away");
        return crate::api::problem(&rdmascope_expose::api::Problem::unauthorized());
    }
    let socket = socket
        .max_message_size(FRAME_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * FRAME_BYTES_MAX);
    socket.on_upgrade(move |socket| serve(hub, socket)).into_response()
}

async fn serve(hub: Arc<Hub>, mut socket: WebSocket) {
    let (id, mut outgoing) = hub.connect();
    let why = talk(&hub, id, &mut socket, &mut outgoing).await;
    debug!(connection = id.0, why, "connection ends");
    hub.disconnect(id);
}

/// Passes frames both ways until one side ends it; answers why.
async fn talk(
    hub: &Hub,
    id: ConnectionId,
    socket: &mut WebSocket,
    outgoing: &mut mpsc::Receiver<Outgoing>,
) -> String {
    let mut introduced = false;
    let hello_deadline = tokio::time::sleep(HELLO_WITHIN);
    tokio::pin!(hello_deadline);
    loop {
        tokio::select! {
            next = outgoing.recv() => match next {
                Some(Outgoing::Frame(frame)) => {
                    if let Err(error) = socket.send(Message::Binary(frame)).await {
                        return error.to_string();
                    }
                }
                Some(Outgoing::Close) => return close(socket, close_code::NORMAL, "closed by the coordinator").await,
                None => return "its queue was full".to_owned(),
            },
            message = socket.recv() => match message {
                Some(Ok(Message::Binary(bytes))) => match ToCoordinator::decode(&bytes) {
                    Ok(frame) => {
                        introduced = true;
                        hub.frame(id, frame);
                    }
                    Err(error) => {
                        hub.own.frames_malformed.inc();
                        let text = in_one_line(&error);
                        warn!(connection = id.0, "an agent sent a {text}; its connection is closed");
                        let refusal = ToAgent::Refused { message: text.clone() };
                        let _ = socket.send(Message::Binary(refusal.encode().into())).await;
                        return close(socket, close_code::PROTOCOL, &text).await;
                    }
                },
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Text(_))) => {
                    hub.own.frames_malformed.inc();
                    warn!(connection = id.0, "an agent sent text; its connection is closed");
                    return close(socket, close_code::UNSUPPORTED, "frames are binary").await;
                }
                Some(Ok(Message::Close(_))) | None => return "closed by the agent".to_owned(),
                Some(Err(error)) => {
                    // Too long, or not WebSocket at all; a connection that just broke ends here too.
                    return in_one_line(&error);
                }
            },
            () = &mut hello_deadline, if !introduced => {
                return close(socket, close_code::POLICY, "no hello within ten seconds").await;
            }
        }
    }
}

async fn close(socket: &mut WebSocket, code: u16, why: &str) -> String {
    // RFC 6455, 5.5: a close frame's reason has at most 123 bytes.
    let reason: String = why.chars().take(100).collect();
    // The other side may be gone; then there is nobody to tell.
    let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
    why.to_owned()
}
