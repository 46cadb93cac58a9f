//! `GET /api/v1/events/stream`: what enters the history, and incidents that open and close, as server-sent events.
//!
//! Everybody is told over one bounded queue; a reader that falls behind it is told so and let go, and costs nobody else anything.

use crate::findings;
use crate::hub::Hub;
use crate::query::Query;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use rdmascope_control::coordinator::EventRow;
use rdmascope_expose::api::{IncidentView, Problem};
use serde::Deserialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, Sender, channel, error::RecvError};

/// Readers at the same time: pages, scripts and gateways, not every node.
const READERS_MAX: usize = 64;
/// Entries that wait for the slowest reader; some 400 bytes each.
const QUEUED_MAX: usize = 1_024;
/// Without news a line is sent so often, so that proxies keep the connection and a dead reader is noticed.
const QUIET: Duration = Duration::from_secs(15);
/// The kind of what is told of incidents themselves.
const INCIDENT: &str = "incident";

/// One entry, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    kind: Arc<str>,
    /// Its number in the history; an incident has none there.
    number: Option<u64>,
    nodes: Arc<[String]>,
    data: Arc<str>,
}

impl Told {
    /// An entry of the history.
    pub(crate) fn row(row: &EventRow) -> Self {
        // These types always have a JSON form.
        let data = serde_json::to_string(&findings::event(row)).unwrap_or_default();
        Self {
            kind: row.kind.as_str().into(),
            number: Some(row.number),
            nodes: [row.node.clone()].into(),
            data: data.into(),
        }
    }

    /// An incident that has opened or closed.
    pub(crate) fn incident(incident: &IncidentView) -> Self {
        let data = serde_json::to_string(incident).unwrap_or_default();
        Self { kind: INCIDENT.into(), number: None, nodes: incident.nodes.clone().into(), data: data.into() }
    }

    fn event(&self) -> Event {
        let event = Event::default().event(&*self.kind).data(&*self.data);
        match self.number {
            Some(number) => event.id(number.to_string()),
            None => event,
        }
    }
}

/// Where everything is told; empty once the coordinator stops.
#[derive(Debug)]
pub(crate) struct Stream(Mutex<Option<Sender<Told>>>);

impl Default for Stream {
    fn default() -> Self {
        Self(Mutex::new(Some(channel(QUEUED_MAX).0)))
    }
}

impl Stream {
    /// Tells all readers; without one nothing is made up.
    pub(crate) fn tell(&self, told: impl FnOnce() -> Told) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = sender.as_ref().filter(|sender| sender.receiver_count() > 0) {
            // The last reader may have gone in between.
            let _ = sender.send(told());
        }
    }

    /// One more reader; `None` when there are too many, or the coordinator stops.
    pub(crate) fn listen(&self) -> Option<Receiver<Told>> {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = sender.as_ref().filter(|sender| sender.receiver_count() < READERS_MAX)?;
        Some(sender.subscribe())
    }

    /// Lets all readers go.
    pub(crate) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What a reader wants.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    node: Option<String>,
    kind: Option<String>,
    after: Option<u64>,
}

impl Wanted {
    fn fits(&self, told: &Told) -> bool {
        self.kind.as_deref().is_none_or(|kind| *kind == *told.kind)
            && self.node.as_ref().is_none_or(|node| told.nodes.contains(node))
    }
}

struct Reader {
    wanted: Wanted,
    missed: VecDeque<Told>,
    receiver: Option<Receiver<Told>>,
}

/// `GET /api/v1/events/stream`.
pub(crate) async fn events(
    State(hub): State<Arc<Hub>>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Response {
    let last_seen = headers.get("Last-Event-ID").and_then(|id| id.to_str().ok()?.parse().ok());
    let Some((missed, receiver)) = hub.listen(last_seen.or(wanted.after)) else {
        let text = format!(
            "{READERS_MAX} readers listen already, or the coordinator stops; GET /api/v1/events has the history."
        );
        return crate::api::problem(&Problem::unavailable(text));
    };
    let reader = Reader { wanted, missed: missed.into(), receiver: Some(receiver) };
    let events = unfold(reader, |mut reader| async move {
        let event = next(&mut reader).await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(QUIET)).into_response()
}

/// The next event that the reader wants; `None` at the end.
async fn next(reader: &mut Reader) -> Option<Event> {
    while let Some(told) = reader.missed.pop_front() {
        if reader.wanted.fits(&told) {
            return Some(told.event());
        }
    }
    loop {
        match reader.receiver.as_mut()?.recv().await {
            Ok(told) if reader.wanted.fits(&told) => return Some(told.event()),
            Ok(_) => {}
            Err(RecvError::Lagged(missed)) => {
                reader.receiver = None;
                let text = "this reader was too slow and is let go; connect again with Last-Event-ID";
                let data = serde_json::json!({ "missed": missed, "text": text }).to_string();
                return Some(Event::default().event("dropped").data(data));
            }
            Err(RecvError::Closed) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use rdmascope_control::coordinator::{RowKind, Settings};
    use rdmascope_host::Clock;
    use rdmascope_model::Wall;

    fn row(number: u64, node: &str) -> EventRow {
        EventRow {
            number,
            at: Wall(number),
            node: node.to_owned(),
            kind: RowKind::Connected,
            subject: String::new(),
            id: String::new(),
            before: String::new(),
            after: String::new(),
            text: "it is there\nnow".to_owned(),
            basis: None,
        }
    }

    fn reader(wanted: Wanted, receiver: Receiver<Told>) -> Reader {
        Reader { wanted, missed: VecDeque::new(), receiver: Some(receiver) }
    }

    const ALL: Wanted = Wanted { node: None, kind: None, after: None };

    /// As it stands on the wire.
    async fn text(reader: &mut Reader) -> Option<String> {
        next(reader).await.map(|event| format!("{event:?}"))
    }

    #[tokio::test]
    async fn a_reader_gets_what_it_wants_in_order_with_numbers_to_go_on_from() {
        let stream = Stream::default();
        let mut one = reader(Wanted { node: Some("b".to_owned()), ..ALL }, stream.listen().unwrap());
        for (number, node) in [(7, "a"), (8, "b"), (9, "a"), (10, "b")] {
            stream.tell(|| Told::row(&row(number, node)));
        }
        let first = text(&mut one).await.unwrap();
        assert!(first.contains("id: 8") && first.contains("event: agent-connected"), "{first}");
        assert!(text(&mut one).await.unwrap().contains("id: 10"));
        stream.close();
        assert_eq!(text(&mut one).await, None, "it ends with the coordinator");
        assert!(stream.listen().is_none());
    }

    #[tokio::test]
    async fn a_reader_that_is_too_slow_is_told_so_and_let_go() {
        let stream = Stream::default();
        let mut slow = reader(ALL, stream.listen().unwrap());
        for number in 0..QUEUED_MAX as u64 + 5 {
            stream.tell(|| Told::row(&row(number, "a")));
        }
        let last = text(&mut slow).await.unwrap();
        assert!(last.contains("event: dropped") && last.contains("too slow"), "{last}");
        assert_eq!(text(&mut slow).await, None);
        assert!(stream.listen().is_some(), "others are not touched by it");
    }

    #[test]
    fn readers_are_bounded_and_one_that_goes_makes_room() {
        let stream = Stream::default();
        let mut readers: Vec<_> = (0..READERS_MAX).map(|_| stream.listen().unwrap()).collect();
        assert!(stream.listen().is_none());
        readers.pop();
        assert!(stream.listen().is_some());
    }

    #[test]
    fn a_reader_that_comes_back_gets_what_it_missed() {
        let hub = Hub::new(Settings::default(), 1, Clock::new(), Access::default(), false, 100).unwrap();
        let rows = (1..=5).map(|number| row(number, "a")).collect();
        hub.write(|state, _| state.restore_health(rows, 5, Vec::new(), Vec::new()));
        let numbers =
            |after| hub.listen(after).unwrap().0.iter().filter_map(|told| told.number).collect::<Vec<_>>();
        assert_eq!(numbers(Some(3)), [4, 5]);
        assert!(numbers(None).is_empty(), "who comes for the first time hears from now on");
    }
}
