//! Incidents on the API: the list, and one with what a ticket needs.

mod ticket;
mod view;

pub(crate) use view::{counts, goes_on, incident, inputs, row};

use crate::api::{json, problem};
use crate::hub::Hub;
use crate::query::Query;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rdmascope_control::coordinator::Coordinator;
use rdmascope_expose::api::{IncidentDetail, IncidentList, IncidentView, Problem};
use rdmascope_localise::{Incident, IncidentState};
use rdmascope_model::Wall;
use serde::Deserialize;
use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

/// In the order in which they are shown.
const STATES: [IncidentState; 3] = [IncidentState::Open, IncidentState::Suspected, IncidentState::Closed];

/// Which incidents.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    state: Option<String>,
    node: Option<String>,
    since: Option<String>,
    limit: Option<usize>,
}

/// `GET /api/v1/incidents`.
pub(crate) async fn list(
    State(hub): State<Arc<Hub>>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Response {
    let wrong = |text: String| problem(&Problem::bad_request(text));
    let of_state = match wanted.state.as_deref() {
        None => None,
        Some(word) => match STATES.into_iter().find(|state| state.as_str() == word) {
            Some(state) => Some(state),
            None => return wrong("no such state; there are: open, suspected, closed".to_owned()),
        },
    };
    let since = match wanted.since.as_deref().map(str::parse::<Wall>).transpose() {
        Ok(since) => since,
        Err(error) => return wrong(error.to_string()),
    };
    let mut incidents = hub.read(|state, _| {
        let fits = |incident: &&Incident| {
            of_state.is_none_or(|wanted| incident.state == wanted)
                && since.is_none_or(|since| incident.seen_at >= since)
        };
        let mut found: Vec<&Incident> = state.incidents().iter().filter(fits).collect();
        found.sort_by_key(|incident| {
            (
                STATES.iter().position(|state| *state == incident.state),
                Reverse(incident.since),
                Reverse(incident.id),
            )
        });
        found.into_iter().map(|found| incident(state, found)).collect::<Vec<_>>()
    });
    if let Some(node) = &wanted.node {
        incidents.retain(|incident| incident.nodes.contains(node));
    }
    let all = incidents.len();
    incidents.truncate(wanted.limit.map_or(all, |limit| limit.max(1)));
    let left_out = (all - incidents.len()) as u64;
    tagged(&headers, &IncidentList { incidents, left_out })
}

/// The answer under a tag of its own text, or that it is still the same.
fn tagged(headers: &HeaderMap, list: &IncidentList) -> Response {
    let body = match serde_json::to_string(list) {
        Ok(body) => body,
        Err(error) => return problem(&Problem::internal(error.to_string())),
    };
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    let etag = format!("\"incidents-{:016x}\"", hasher.finish());
    if headers.get(header::IF_NONE_MATCH).is_some_and(|have| have.as_bytes() == etag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response();
    }
    let headers = [(header::CONTENT_TYPE, "application/json".to_owned()), (header::ETAG, etag)];
    (headers, body).into_response()
}

/// `GET /api/v1/incidents/{id}`.
pub(crate) async fn one(State(hub): State<Arc<Hub>>, Path(id): Path<String>) -> Response {
    let Ok(number) = id.parse::<u64>() else { return crate::api::bad_number("incident", &id) };
    let found = hub.read(|state, _| {
        let found = state.incidents().iter().find(|incident| incident.id == number)?;
        Some(ticket::Ticket::new(state, found))
    });
    let Some(ticket) = found else {
        let text = format!("no incident {number}; GET /api/v1/incidents lists what there is");
        return problem(&Problem::not_found(text));
    };
    match ticket.complete(&hub).await {
        Ok(detail) => json::<IncidentDetail>(StatusCode::OK, &detail),
        Err(error) => problem(&Problem::internal(error)),
    }
}

/// Those that are not over, open ones first, of these the worst.
pub(crate) fn going_on(
    state: &Coordinator,
    wanted: impl Fn(&Incident, &IncidentView) -> bool,
) -> Vec<IncidentView> {
    let known = state.incidents().iter().filter(|found| goes_on(found));
    let shown = known.map(|found| (found, incident(state, found)));
    let mut all: Vec<(&Incident, IncidentView)> = shown.filter(|(found, view)| wanted(found, view)).collect();
    all.sort_by_key(|(found, view)| {
        let place = STATES.iter().position(|state| *state == found.state);
        (!view.counts(), place, Reverse(found.suspect.status), found.since, found.id)
    });
    all.into_iter().map(|(_, view)| view).collect()
}

#[cfg(test)]
pub(crate) mod tests;
