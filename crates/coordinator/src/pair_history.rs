//! One pair over time: what the API shows of it, and the calls that pin pairs.

use crate::access::Caller;
use crate::api::{json, problem};
use crate::commands::{may_operate, refused};
use crate::hub::Hub;
use crate::query::Query;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rdmascope_control::coordinator::{CommandError, Coordinator};
use rdmascope_expose::api::{CellState, HistoryPoint, HistoryView, PinList, PinView, Problem};
use rdmascope_localise::{EndpointIndex, KeptPair, Moment, Was};
use rdmascope_model::{Metric, Now};
use serde::Deserialize;
use std::sync::Arc;
use tracing::info;

/// Of which pair, and what of it.
#[derive(Deserialize)]
pub(crate) struct Asked {
    source: Option<String>,
    target: Option<String>,
    metric: Option<String>,
}

impl Asked {
    fn ends(&self) -> Result<(&str, &str), Problem> {
        let missing =
            || Problem::bad_request("give both ends: ?source=NODE/DEVICE/PORT&target=NODE/DEVICE/PORT");
        self.source.as_deref().zip(self.target.as_deref()).ok_or_else(missing)
    }
}

/// `GET /api/v1/history`.
pub(crate) async fn one(State(hub): State<Arc<Hub>>, Query(asked): Query<Asked>) -> Response {
    let (source, target) = match asked.ends() {
        Ok(ends) => ends,
        Err(wrong) => return problem(&wrong),
    };
    let metric = match asked.metric.as_deref().map(str::parse::<Metric>).transpose() {
        Ok(metric) => metric,
        Err(unknown) => return problem(&Problem::bad_request(unknown.to_string())),
    };
    match hub.read(|state, now| history(state, (source, target), metric, now)) {
        Ok(view) => json(StatusCode::OK, &view),
        Err(wrong) => problem(&wrong),
    }
}

fn history(
    state: &Coordinator,
    (source, target): (&str, &str),
    metric: Option<Metric>,
    now: Now,
) -> Result<HistoryView, Problem> {
    let find = |name: &str| state.find_endpoint(name).map_err(|error| Problem::not_found(error.to_string()));
    let (from, to) = (find(source)?, find(target)?);
    if from == to {
        return Err(Problem::bad_request("a pair needs two different endpoints"));
    }
    let name = |index: EndpointIndex| state.matrix().name(index).to_string();
    let Some(trail) = state.trail(from, to, now.wall) else {
        return Err(Problem::not_found(not_kept(&name(from), &name(to), state.matrix().len())));
    };
    // What is measured of it all the time.
    let usual = [Metric::Ping, Metric::Latency, Metric::Bandwidth];
    let has = |metric: &Metric| trail.pair.is_some_and(|pair: &KeptPair| pair.has(*metric));
    let metric = metric.or_else(|| usual.into_iter().find(has)).unwrap_or(Metric::Ping);
    let moments = trail.pair.map(|pair| pair.moments(metric)).unwrap_or_default();
    Ok(HistoryView {
        source: name(from),
        target: name(to),
        metric: metric.as_str().to_owned(),
        unit: HistoryView::unit_of(metric).to_owned(),
        kept_because: trail.because.as_str().to_owned(),
        kept_until: trail.until.map(|until| until.to_string()),
        points: moments.iter().map(|moment| point(metric, moment)).collect(),
    })
}

fn not_kept(source: &str, target: &str, endpoints: usize) -> String {
    format!(
        "no history of {source} -> {target} is kept: among {endpoints} endpoints only the worst 1,000 pairs, those of incidents and \
         pinned ones have one. To have it from now on: PUT /api/v1/history/pins?source={source}&target={target} (rdmascope history \
         {source} {target} --pin). Figures of every pair over time: scrape /metrics/pairs with Prometheus"
    )
}

fn point(metric: Metric, moment: &Moment) -> HistoryPoint {
    let in_state = |state| HistoryPoint::bare(moment.at.to_string(), moment.until.to_string(), state);
    let was = match moment.was {
        Was::Measured => in_state(CellState::Fresh),
        Was::Stale => in_state(CellState::Stale).not_measured(),
        Was::Failed(cause) => in_state(CellState::Failed).with_cause(cause),
        Was::Excluded(why) => in_state(CellState::Excluded).with_exclusion(why),
    };
    let of = |wanted: Metric, value: Option<u64>| value.filter(|_| metric == wanted);
    HistoryPoint {
        p50: moment.headline.filter(|_| metric != Metric::Bandwidth),
        p99: of(Metric::Latency, moment.tail),
        max: of(Metric::Ping, moment.tail),
        average: of(Metric::Bandwidth, moment.headline),
        sent: moment.sent_lost.map(|[sent, _]| sent),
        lost: moment.sent_lost.map(|[_, lost]| lost),
        ..was
    }
}

fn pin_list(state: &Coordinator) -> PinList {
    let pins = state
        .pins()
        .map(|(source, target)| PinView { source: source.to_string(), target: target.to_string() });
    PinList { pins: pins.collect() }
}

/// `GET /api/v1/history/pins`.
pub(crate) async fn pins(State(hub): State<Arc<Hub>>) -> Response {
    json(StatusCode::OK, &hub.read(|state, _| pin_list(state)))
}

/// `PUT /api/v1/history/pins`.
pub(crate) async fn pin(hub: State<Arc<Hub>>, caller: Extension<Caller>, asked: Query<Asked>) -> Response {
    set_pin(&hub, *caller, &asked.0, true)
}

/// `DELETE /api/v1/history/pins`.
pub(crate) async fn unpin(hub: State<Arc<Hub>>, caller: Extension<Caller>, asked: Query<Asked>) -> Response {
    set_pin(&hub, *caller, &asked.0, false)
}

fn set_pin(hub: &Hub, caller: Caller, asked: &Asked, on: bool) -> Response {
    if let Err(wrong) = may_operate(caller) {
        return problem(&wrong);
    }
    let (source, target) = match asked.ends() {
        Ok(ends) => ends,
        Err(wrong) => return problem(&wrong),
    };
    let done = hub.write(|state, now| {
        let (from, to) = (state.find_endpoint(source)?, state.find_endpoint(target)?);
        if from != to {
            state.pin(from, to, on, now)?;
        }
        Ok::<_, CommandError>((from != to).then(|| pin_list(state)))
    });
    match done {
        Ok(Some(list)) => {
            info!(source, target, pinned = on, "history pins changed");
            json(StatusCode::OK, &list)
        }
        Ok(None) => problem(&Problem::bad_request("a pair needs two different endpoints")),
        Err(error) => refused(&error),
    }
}
