//! The routes of the coordinator's port, and the calls that only look.

use crate::hub::Hub;
use crate::query::Query;
use crate::{
    access, commands, diagnosis, discovery, findings, incidents, metrics, page, pair_history, report, socket,
    stream, sweeps as sweep_views, views,
};
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use rdmascope_control::coordinator::COUNTED_AT_ONCE_MAX;
use rdmascope_expose::api::{HealthView, MatrixForm, MatrixWriter, Problem, ReadyView, openapi};
use rdmascope_localise::EndpointIndex;
use rdmascope_model::Metric;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bodies that are accepted, bytes: a pause request with 4,096 node names fits.
pub(crate) const BODY_BYTES_MAX: usize = 256 * 1024;

/// Cells of a large matrix that are read and written in one go: about a millisecond, in which nobody else has a turn.
const MATRIX_PORTION: usize = 65_536;

/// Everything that is served.
pub(crate) fn router(hub: Arc<Hub>) -> Router {
    Router::new()
        .route("/", get(page::index))
        .route("/web/{file}", get(page::part))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics::all))
        .route("/metrics/pairs", get(metrics::pairs))
        .route(access::AGENTS, get(socket::upgrade))
        .route("/api/v1/openapi.json", get(document))
        .route("/api/v1/sd/prometheus", get(discovery::prometheus))
        .route("/api/v1/status", get(status))
        .route("/api/v1/nodes", get(nodes))
        .route("/api/v1/nodes/{node}", get(findings::node))
        .route("/api/v1/nodes/{node}/remove", post(findings::remove))
        .route("/api/v1/findings", get(findings::list))
        .route("/api/v1/events", get(findings::events))
        .route("/api/v1/events/stream", get(stream::events))
        .route("/api/v1/incidents", get(incidents::list))
        .route("/api/v1/incidents/{id}", get(incidents::one))
        .route("/api/v1/diagnosis", get(diagnosis::diagnosis))
        .route("/api/v1/acknowledgements", post(findings::acknowledge))
        .route("/api/v1/maintenance", get(findings::maintenances).post(findings::maintain))
        .route("/api/v1/endpoints", get(endpoints))
        .route("/api/v1/matrix", get(matrix))
        .route("/api/v1/pairs/{source}/{target}", get(pair))
        .route("/api/v1/history", get(pair_history::one))
        .route(
            "/api/v1/history/pins",
            get(pair_history::pins).put(pair_history::pin).delete(pair_history::unpin),
        )
        .route("/api/v1/sweeps", get(sweeps).post(commands::start_sweep))
        .route("/api/v1/sweeps/{id}", get(sweep))
        .route("/api/v1/sweeps/{id}/pairs", get(sweep_pairs))
        .route("/api/v1/sweeps/{id}/cancel", post(commands::cancel_sweep))
        .route("/api/v1/probes", get(report::probes).post(commands::start_probe))
        .route("/api/v1/probes/{id}", get(probe))
        .route("/api/v1/incasts", post(commands::start_incast))
        .route("/api/v1/services", get(services))
        .route("/api/v1/pause", get(pause).post(commands::pause))
        .route("/api/v1/resume", post(commands::resume))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&hub), access::guard))
        .with_state(hub)
}

/// A problem document as an answer.
pub(crate) fn problem(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_string(problem).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, Problem::CONTENT_TYPE)], body).into_response()
}

/// A JSON answer.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_string(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => problem(&Problem::internal(error.to_string())),
    }
}

async fn healthz() -> Response {
    json(StatusCode::OK, &HealthView::ok(views::VERSION))
}

/// Ready as soon as it serves: its state is soft, and agents fill it.
async fn readyz() -> Response {
    json(StatusCode::OK, &ReadyView { ready: true, reason: None })
}

async fn document() -> Response {
    json(StatusCode::OK, &openapi(views::VERSION))
}

async fn status(State(hub): State<Arc<Hub>>) -> Response {
    json(StatusCode::OK, &hub.read(|state, now| views::status(state, now, hub.insecure())))
}

async fn nodes(State(hub): State<Arc<Hub>>) -> Response {
    json(StatusCode::OK, &hub.read(|state, _| views::nodes(state)))
}

async fn endpoints(State(hub): State<Arc<Hub>>) -> Response {
    json(StatusCode::OK, &hub.read(|state, _| views::endpoints(state)))
}

async fn pause(State(hub): State<Arc<Hub>>) -> Response {
    json(StatusCode::OK, &hub.read(|state, _| views::pause(state)))
}

async fn services(State(hub): State<Arc<Hub>>) -> Response {
    json(StatusCode::OK, &hub.read(|state, _| report::services(state)))
}

async fn sweeps(State(hub): State<Arc<Hub>>) -> Response {
    json(StatusCode::OK, &hub.read(sweep_views::sweeps))
}

async fn sweep(State(hub): State<Arc<Hub>>, Path(id): Path<String>) -> Response {
    let Ok(number) = id.parse::<u64>() else { return bad_number("sweep", &id) };
    let found = hub.read(|state, now| {
        state
            .sweep()
            .filter(|sweep| sweep.id == number)
            .map(|sweep| sweep_views::sweep(state, sweep, now, true))
    });
    match found {
        Some(view) => json(StatusCode::OK, &view),
        None => no_sweep(number),
    }
}

async fn sweep_pairs(State(hub): State<Arc<Hub>>, Path(id): Path<String>) -> Response {
    let Ok(number) = id.parse::<u64>() else { return bad_number("sweep", &id) };
    let found = hub.read(|state, _| {
        let sweep = state.sweep().filter(|sweep| sweep.id == number)?;
        Some(sweep_views::pairs(state, sweep))
    });
    found.map_or_else(|| no_sweep(number), |list| json(StatusCode::OK, &list))
}

fn no_sweep(number: u64) -> Response {
    problem(&Problem::not_found(format!("no sweep {number}; GET /api/v1/sweeps lists what there is")))
}

async fn probe(State(hub): State<Arc<Hub>>, Path(id): Path<String>) -> Response {
    let Ok(number) = id.parse::<u64>() else { return bad_number("probe", &id) };
    let found = hub.read(|state, now| state.probe(number).map(|run| report::probe(state, number, run, now)));
    match found {
        Some(view) => json(StatusCode::OK, &view),
        None => problem(&Problem::not_found(format!("no probe {number}; the last 64 are kept"))),
    }
}

async fn pair(State(hub): State<Arc<Hub>>, Path((source, target)): Path<(String, String)>) -> Response {
    let view = hub.read(|state, now| {
        let source = state.find_endpoint(&source)?;
        let target = state.find_endpoint(&target)?;
        Ok((source, target, views::pair(state, source, target, now)))
    });
    match view {
        Ok((EndpointIndex(source), EndpointIndex(target), _)) if source == target => {
            problem(&Problem::bad_request("a pair needs two different endpoints"))
        }
        Ok((_, _, view)) => json(StatusCode::OK, &view),
        Err(error) => commands::refused(&error),
    }
}

#[derive(Deserialize)]
struct MatrixQuery {
    metric: Option<String>,
    format: Option<String>,
}

async fn matrix(
    State(hub): State<Arc<Hub>>,
    Query(query): Query<MatrixQuery>,
    headers: HeaderMap,
) -> Response {
    let metric = match query.metric.as_deref().unwrap_or("latency").parse::<Metric>() {
        Ok(metric) => metric,
        Err(unknown) => return problem(&Problem::bad_request(unknown.to_string())),
    };
    let format = query.format.as_deref().unwrap_or("json");
    let (form, content_type) = match format {
        "json" => (MatrixForm::Json, "application/json"),
        "csv" => (MatrixForm::Csv, "text/csv; charset=utf-8"),
        "bin" => (MatrixForm::Bin, "application/octet-stream"),
        other => {
            let other: String = other.chars().take(40).collect();
            return problem(&Problem::bad_request(format!("no format '{other}'; there are: json, csv, bin")));
        }
    };
    let (etag, changed) = hub.read(|state, now| {
        // Time is in it too: a cell that turns stale changes the answer, and nothing else tells of it.
        let tens_of_seconds = now.wall.0 / 10_000;
        let etag = format!("\"{metric}-{}-{}-{tens_of_seconds}\"", state.epoch(), state.matrix().revision());
        let known = headers.get(header::IF_NONE_MATCH).is_some_and(|have| have.as_bytes() == etag.as_bytes());
        (etag, (!known).then(|| views::matrix_head(state, metric, now)))
    });
    let Some((head, indices)) = changed else {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response();
    };
    let headers = [(header::CONTENT_TYPE, content_type.to_owned()), (header::ETAG, etag)];
    let mut writer = MatrixWriter::new(head, form);
    // A small matrix is of one moment and is sent at once; of a large one only a portion is held, and others have their turn between two.
    let small = indices.len() * indices.len() <= COUNTED_AT_ONCE_MAX;
    let portion = if small { usize::MAX } else { MATRIX_PORTION };
    let mut next = move || {
        hub.read(|state, now| views::matrix_portion(state, now, metric, (&mut writer, portion), &indices))
    };
    if small {
        return (headers, next().unwrap_or_default()).into_response();
    }
    let portions = std::iter::from_fn(move || next().map(Ok::<_, std::convert::Infallible>));
    (headers, Body::from_stream(futures_util::stream::iter(portions))).into_response()
}

pub(crate) fn bad_number(what: &str, text: &str) -> Response {
    let text: String = text.chars().take(40).collect();
    problem(&Problem::bad_request(format!("'{text}' is not the number of a {what}")))
}

async fn unknown_path() -> Response {
    problem(&Problem::not_found("no such path; /api/v1/openapi.json lists what there is"))
}

async fn unknown_method() -> Response {
    problem(&Problem::method_not_allowed("/api/v1/openapi.json lists paths and methods"))
}
