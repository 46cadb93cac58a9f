//! The calls that change something or put load on the cluster: they need the role for it.

use crate::access::Caller;
use crate::api::{BODY_BYTES_MAX, bad_number, json, problem};
use crate::hub::Hub;
use crate::{report, sweeps, views};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use rdmascope_control::coordinator::{self, CommandError, Measure, PairRequest};
use rdmascope_expose::api::{
    CancelRequest, IncastRequest, PauseRequest, ProbeRequest, Problem, SweepRequest,
};
use rdmascope_link::PauseFlags;
use rdmascope_localise::pair::PATHS_DEFAULT;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tracing::info;

/// What a refused command answers.
pub(crate) fn refused(error: &CommandError) -> Response {
    problem(&match error {
        CommandError::UnknownEndpoint(text)
        | CommandError::UnknownNode(text)
        | CommandError::Unknown(text) => Problem::not_found(text.as_str()),
        CommandError::Conflict(text) => Problem::conflict(text.as_str()),
    })
}

/// Whether a request may change something or put load on the cluster; `access` says who its sender is.
pub(crate) fn may_operate(caller: Caller) -> Result<(), Box<Problem>> {
    if caller.operates() { Ok(()) } else { Err(Box::new(Problem::unauthorized())) }
}

/// Checks the role and reads the body; an empty body is the default request.
pub(crate) fn request<T: DeserializeOwned>(
    caller: Caller,
    body: Result<Bytes, BytesRejection>,
) -> Result<T, Box<Problem>> {
    may_operate(caller)?;
    let body = body.map_err(|_| Box::new(Problem::too_large(BODY_BYTES_MAX as u64)))?;
    let body: &[u8] = if body.is_empty() { b"{}" } else { &body };
    serde_json::from_slice(body).map_err(|error| Box::new(Problem::bad_request(error.to_string())))
}

/// `POST /api/v1/sweeps`.
pub(crate) async fn start_sweep(
    State(hub): State<Arc<Hub>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let request: SweepRequest = match request(caller, body) {
        Ok(request) => request,
        Err(wrong) => return problem(&wrong),
    };
    if let Err(wrong) = check_class(request.class) {
        return problem(&Problem::bad_request(wrong));
    }
    let order = sweeps::order(&request);
    if request.dry_run {
        return match hub.write(|state, now| state.plan_sweep(&order, now)) {
            Ok(plan) => json(StatusCode::OK, &sweeps::plan(&plan)),
            Err(error) => refused(&error),
        };
    }
    let started = hub.write(|state, now| {
        let id = state.start_sweep_of(&order, now)?;
        Ok((id, state.sweep().map(|sweep| sweeps::sweep(state, sweep, now, true))))
    });
    match started {
        Ok((id, view)) => {
            info!(
                sweep = id,
                metric = request.metric.as_str(),
                drained = request.drained,
                nodes = request.nodes.as_ref().map(Vec::len),
                cross_rail = request.cross_rail,
                quick = request.quick,
                "sweep begins"
            );
            json(StatusCode::ACCEPTED, &view)
        }
        Err(error) => refused(&error),
    }
}

/// `POST /api/v1/sweeps/{id}/cancel`.
pub(crate) async fn cancel_sweep(
    State(hub): State<Arc<Hub>>,
    Path(id): Path<String>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Ok(number) = id.parse::<u64>() else { return bad_number("sweep", &id) };
    if let Err(wrong) = request::<CancelRequest>(caller, body) {
        return problem(&wrong);
    }
    let ended = hub.write(|state, now| {
        state.cancel_sweep(number, now)?;
        Ok(state.sweep().map(|sweep| sweeps::sweep(state, sweep, now, true)))
    });
    match ended {
        Ok(view) => {
            info!(sweep = number, "sweep is ended early");
            json(StatusCode::OK, &view)
        }
        Err(error) => refused(&error),
    }
}

/// `POST /api/v1/probes`.
pub(crate) async fn start_probe(
    State(hub): State<Arc<Hub>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let request: ProbeRequest = match request(caller, body) {
        Ok(request) => request,
        Err(wrong) => return problem(&wrong),
    };
    if request.force && request.drained {
        return problem(&Problem::bad_request(
            "`force` is for nodes that may be working, `drained` for others: give one",
        ));
    }
    let asked = match pair_request(&request) {
        Ok(asked) => asked,
        Err(wrong) => return problem(&Problem::bad_request(wrong)),
    };
    let started = hub.write(|state, now| {
        let id = state.start_pair(&asked, now)?;
        Ok((id, state.probe(id).map(|run| report::probe(state, id, run, now))))
    });
    match started {
        Ok((id, view)) => {
            info!(
                probe = id,
                source = request.source,
                target = request.target,
                full = request.full,
                force = request.force,
                "probe begins"
            );
            json(StatusCode::ACCEPTED, &view)
        }
        Err(error) => refused(&error),
    }
}

/// Largest DSCP.
const DSCP_MAX: u8 = 63;
/// More equal-cost paths than this would take more labels than a probe may have.
const PATHS_MAX: u32 = 32;

fn pair_request(request: &ProbeRequest) -> Result<PairRequest, String> {
    check_class(request.class)?;
    let paths = request.paths.unwrap_or(PATHS_DEFAULT);
    if !(1..=PATHS_MAX).contains(&paths) {
        return Err(format!("paths is {paths}; 1 to {PATHS_MAX} can be assumed"));
    }
    if !request.full && (request.paths.is_some() || request.gpu.is_some()) {
        return Err("paths and gpu belong to a full report: set full".to_owned());
    }
    let measure = if request.full {
        Measure::Full { paths, gpu: request.gpu }
    } else {
        Measure::Metrics(request.metric.metrics().to_vec())
    };
    Ok(PairRequest {
        source: request.source.clone(),
        target: request.target.clone(),
        device: request.device.clone(),
        class: request.class,
        service: request.service.clone(),
        drained: request.drained,
        forced: request.force,
        measure,
    })
}

fn check_class(class: Option<u8>) -> Result<(), String> {
    match class {
        Some(class) if class > DSCP_MAX => Err(format!("class is {class}; a DSCP goes up to {DSCP_MAX}")),
        _ => Ok(()),
    }
}

/// `POST /api/v1/incasts`.
pub(crate) async fn start_incast(
    State(hub): State<Arc<Hub>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let request: IncastRequest = match request(caller, body) {
        Ok(request) => request,
        Err(wrong) => return problem(&wrong),
    };
    if let Err(wrong) = check_class(request.class) {
        return problem(&Problem::bad_request(wrong));
    }
    let asked = coordinator::IncastRequest {
        sources: request.sources.clone(),
        target: request.target.clone(),
        device: request.device.clone(),
        class: request.class,
        drained: request.drained,
    };
    let started = hub.write(|state, now| {
        let id = state.start_incast(&asked, now)?;
        Ok((id, state.probe(id).map(|run| report::probe(state, id, run, now))))
    });
    match started {
        Ok((id, view)) => {
            info!(probe = id, sources = ?request.sources, target = request.target, "incast begins");
            json(StatusCode::ACCEPTED, &view)
        }
        Err(error) => refused(&error),
    }
}

/// `POST /api/v1/pause`.
pub(crate) async fn pause(
    hub: State<Arc<Hub>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    set_pause(&hub, caller, body, true)
}

/// `POST /api/v1/resume`.
pub(crate) async fn resume(
    hub: State<Arc<Hub>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    set_pause(&hub, caller, body, false)
}

fn set_pause(hub: &Hub, caller: Caller, body: Result<Bytes, BytesRejection>, on: bool) -> Response {
    let request: PauseRequest = match request(caller, body) {
        Ok(request) => request,
        Err(wrong) => return problem(&wrong),
    };
    let change = |flags: &mut PauseFlags| match (request.bandwidth_only, on) {
        (true, _) => flags.bandwidth = on,
        (false, true) => flags.all = true,
        (false, false) => *flags = PauseFlags::default(),
    };
    let view = hub.write(|state, now| {
        state.set_pause(request.nodes.as_deref(), change, now).map(|()| views::pause(state))
    });
    match view {
        Ok(view) => {
            info!(nodes = ?request.nodes, bandwidth_only = request.bandwidth_only, paused = on, "pause changed");
            json(StatusCode::OK, &view)
        }
        Err(error) => refused(&error),
    }
}
