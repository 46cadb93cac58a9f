//! The list of routes: path, parameters, bodies and answers; the OpenAPI document is made from it.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::{
    AcknowledgeAnswer, AcknowledgeRequest, DiagnosisView, EndpointList, EventList, FindingList, HealthView,
    IncastRequest, IncidentDetail, IncidentList, MATRIX_BIN, MaintenanceList, MaintenanceRequest, MatrixView,
    NodeDetail, NodeList, PairView, PauseRequest, PauseView, ProbeRequest, ProbeView, ReadyView,
    RemoveRequest, ScrapeTargets, ServiceList, StatusView, SweepList, SweepPlan, SweepRequest, SweepView,
};

/// HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads; needs no token.
    Get,
    /// Changes something or puts load on the cluster; needs the token where one is configured.
    Post,
}

/// One route of the coordinator's port.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Method.
    pub method: Method,
    /// Path, with names of segments in braces. A name of an endpoint is one segment: its `/` is written `%2F`.
    pub path: &'static str,
    /// What it does.
    pub summary: &'static str,
    pub(super) query: &'static [Query],
    pub(super) request: Option<Type>,
    pub(super) responses: &'static [Response],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Query {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    pub(super) values: &'static [&'static str],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) text: &'static str,
    pub(super) bodies: &'static [Body],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    Json(Type),
    Problem,
    Other(&'static str),
    /// Bytes, and how they lie.
    Bytes(&'static str, &'static str),
}

pub(super) type Named = (String, RefOr<Schema>);

/// A type of the API with what the document needs of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub(super) name: fn() -> Cow<'static, str>,
    pub(super) schema: fn() -> RefOr<Schema>,
    pub(super) nested: fn(&mut Vec<Named>),
}

pub(super) const fn of<T: ToSchema + PartialSchema>() -> Type {
    Type { name: T::name, schema: T::schema, nested: T::schemas }
}

const fn ok(text: &'static str, bodies: &'static [Body]) -> Response {
    Response { status: 200, text, bodies }
}

const fn accepted(bodies: &'static [Body]) -> Response {
    Response { status: 202, text: "Begun.", bodies }
}

const fn problem(status: u16, text: &'static str) -> Response {
    Response { status, text, bodies: &[Body::Problem] }
}

const BAD: Response = problem(400, "A value that cannot be; lists what exists.");
const NO_TOKEN: Response = problem(401, "The call needs the coordinator's token.");
const NOT_FOUND: Response = problem(404, "No such thing; lists what exists.");
const CONFLICT: Response = problem(409, "Cannot be done in the present state.");
const TOO_LARGE: Response = problem(413, "The body is too large.");
const NOT_NOW: Response = problem(503, "Not available now; says why.");
const UNCHANGED: Response = Response {
    status: 304,
    text: "Nothing has changed since the answer that If-None-Match names.",
    bodies: &[],
};
/// A bound in time.
const SINCE: Query =
    Query { name: "since", text: "Only what was seen at this time (RFC 3339 in UTC) or later.", values: &[] };

const fn get(path: &'static str, summary: &'static str, responses: &'static [Response]) -> Route {
    Route { method: Method::Get, path, summary, query: &[], request: None, responses }
}

const fn post(
    path: &'static str,
    summary: &'static str,
    request: Type,
    responses: &'static [Response],
) -> Route {
    Route { method: Method::Post, path, summary, query: &[], request: Some(request), responses }
}

/// Every route that outsiders may use.
pub const ROUTES: &[Route] = &[
    get("/healthz", "The process answers", &[ok("Alive.", &[Body::Json(of::<HealthView>())])]),
    get(
        "/readyz",
        "It can do its work",
        &[
            ok("Ready.", &[Body::Json(of::<ReadyView>())]),
            Response { status: 503, text: "Not ready; says why.", bodies: &[Body::Json(of::<ReadyView>())] },
        ],
    ),
    get(
        "/metrics",
        "Prometheus metrics, bounded by the number of nodes",
        &[ok("Text format 0.0.4.", &[Body::Other("text/plain")])],
    ),
    get(
        "/metrics/pairs",
        "Prometheus metrics per pair, bounded by metrics.pairs_max",
        &[ok("Text format 0.0.4.", &[Body::Other("text/plain")])],
    ),
    get("/api/v1/openapi.json", "This document", &[ok("OpenAPI 3.1.", &[Body::Other("application/json")])]),
    get(
        "/api/v1/sd/prometheus",
        "Where Prometheus finds the agents (http_sd_configs)",
        &[ok("Agents that serve metrics, lost ones too.", &[Body::Json(of::<ScrapeTargets>())])],
    ),
    get(
        "/api/v1/status",
        "State of the coordinator in short",
        &[ok("State.", &[Body::Json(of::<StatusView>())])],
    ),
    get("/api/v1/nodes", "All nodes", &[ok("Nodes by name.", &[Body::Json(of::<NodeList>())])]),
    get(
        "/api/v1/endpoints",
        "All endpoints",
        &[ok("Endpoints by name.", &[Body::Json(of::<EndpointList>())])],
    ),
    Route {
        query: &[
            Query {
                name: "metric",
                text: "What was measured; latency when left out.",
                values: &["latency", "bandwidth", "ping"],
            },
            Query {
                name: "format",
                text: "Form of the answer; json when left out.",
                values: &["json", "csv", "bin"],
            },
        ],
        ..get(
            "/api/v1/matrix",
            "The whole matrix of one metric",
            &[
                ok(
                    "The matrix; its revision is the ETag.",
                    &[
                        Body::Json(of::<MatrixView>()),
                        Body::Other("text/csv"),
                        Body::Bytes("application/octet-stream", MATRIX_BIN),
                    ],
                ),
                UNCHANGED,
                BAD,
            ],
        )
    },
    get(
        "/api/v1/pairs/{source}/{target}",
        "One pair in full",
        &[
            ok("All metrics of the pair, and what is wrong with it.", &[Body::Json(of::<PairView>())]),
            BAD,
            NOT_FOUND,
        ],
    ),
    get(
        "/api/v1/sweeps",
        "The last sweeps, and what goes on by itself",
        &[ok("The newest first.", &[Body::Json(of::<SweepList>())])],
    ),
    post(
        "/api/v1/sweeps",
        "Measure every wanted pair once, or tell what that would cost",
        of::<SweepRequest>(),
        &[
            ok("Only planned (dry_run).", &[Body::Json(of::<SweepPlan>())]),
            accepted(&[Body::Json(of::<SweepView>())]),
            BAD,
            NO_TOKEN,
            CONFLICT,
            TOO_LARGE,
            NOT_NOW,
        ],
    ),
    get(
        "/api/v1/sweeps/{id}",
        "How far a sweep is",
        &[ok("The sweep.", &[Body::Json(of::<SweepView>())]), BAD, NOT_FOUND],
    ),
    post(
        "/api/v1/probes",
        "Measure one pair now",
        of::<ProbeRequest>(),
        &[accepted(&[Body::Json(of::<ProbeView>())]), BAD, NO_TOKEN, NOT_FOUND, CONFLICT, TOO_LARGE, NOT_NOW],
    ),
    get(
        "/api/v1/probes/{id}",
        "How far a probe is, step by step",
        &[ok("The probe.", &[Body::Json(of::<ProbeView>())]), BAD, NOT_FOUND],
    ),
    post(
        "/api/v1/incasts",
        "Let several endpoints send to one at once",
        of::<IncastRequest>(),
        &[accepted(&[Body::Json(of::<ProbeView>())]), BAD, NO_TOKEN, NOT_FOUND, CONFLICT, TOO_LARGE, NOT_NOW],
    ),
    get(
        "/api/v1/services",
        "Services of the configuration: device, class and peers",
        &[ok("By name.", &[Body::Json(of::<ServiceList>())])],
    ),
    get("/api/v1/pause", "What is paused", &[ok("What is paused now.", &[Body::Json(of::<PauseView>())])]),
    post(
        "/api/v1/pause",
        "Pause probing on nodes or on the whole cluster",
        of::<PauseRequest>(),
        &[ok("What is paused now.", &[Body::Json(of::<PauseView>())]), BAD, NO_TOKEN, NOT_FOUND, TOO_LARGE],
    ),
    post(
        "/api/v1/resume",
        "End a pause",
        of::<PauseRequest>(),
        &[ok("What is paused now.", &[Body::Json(of::<PauseView>())]), BAD, NO_TOKEN, NOT_FOUND, TOO_LARGE],
    ),
    Route {
        query: &[
            Query { name: "node", text: "Only of this node.", values: &[] },
            Query { name: "status", text: "Only of this status.", values: &["fail", "unknown", "warn"] },
            Query { name: "id", text: "Only of this check or rule.", values: &[] },
            Query { name: "limit", text: "At most so many, from 1; all when left out.", values: &[] },
        ],
        ..get(
            "/api/v1/findings",
            "What is not fine, on nodes and between them",
            &[ok("Open ones first, the worst of these first.", &[Body::Json(of::<FindingList>())]), BAD],
        )
    },
    Route {
        query: &[
            Query { name: "node", text: "Only of this node.", values: &[] },
            Query { name: "kind", text: "Only of this kind.", values: &[] },
            Query { name: "limit", text: "At most so many, 1 to 1000; 100 when left out.", values: &[] },
            Query { name: "before", text: "Only older than this number.", values: &[] },
            SINCE,
        ],
        ..get(
            "/api/v1/events",
            "What happened",
            &[ok("The newest first.", &[Body::Json(of::<EventList>())]), BAD],
        )
    },
    Route {
        query: &[
            Query { name: "node", text: "Only of this node.", values: &[] },
            Query {
                name: "kind",
                text: "Only of this kind; `incident` for incidents that open and close.",
                values: &[],
            },
            Query {
                name: "after",
                text: "Begin with what is newer than this number; like the header Last-Event-ID.",
                values: &[],
            },
        ],
        ..get(
            "/api/v1/events/stream",
            "What happens, as it happens (server-sent events)",
            &[
                ok(
                    "An event for each entry of the history: its kind is the event's name, its number the id, the data the EventView; and \
                     `incident` with the IncidentView when one opens or closes. `dropped` says that this reader was too slow, and ends the \
                     stream: connect again with Last-Event-ID.",
                    &[Body::Other("text/event-stream")],
                ),
                BAD,
                NOT_NOW,
            ],
        )
    },
    Route {
        query: &[
            Query { name: "state", text: "Only of this state.", values: &["open", "suspected", "closed"] },
            Query { name: "node", text: "Only those that touch this node.", values: &[] },
            SINCE,
            Query { name: "limit", text: "At most so many, from 1; all when left out.", values: &[] },
        ],
        ..get(
            "/api/v1/incidents",
            "What is to blame: one incident for one cause",
            &[
                ok(
                    "Open ones first, then suspected, then closed; the newest of each first.",
                    &[Body::Json(of::<IncidentList>())],
                ),
                UNCHANGED,
                BAD,
            ],
        )
    },
    get(
        "/api/v1/incidents/{id}",
        "One incident with what a ticket needs: hardware, switch ports, and what changed in the hour before",
        &[ok("The incident.", &[Body::Json(of::<IncidentDetail>())]), BAD, NOT_FOUND],
    ),
    Route {
        query: &[Query {
            name: "nodes",
            text: "Names of nodes, separated by commas: is it the network between them? The whole cluster when left out.",
            values: &[],
        }],
        ..get(
            "/api/v1/diagnosis",
            "What is wrong now, in one answer; from what is known, without any new probe",
            &[ok("The answer with what it rests on.", &[Body::Json(of::<DiagnosisView>())]), BAD, NOT_FOUND],
        )
    },
    get(
        "/api/v1/nodes/{node}",
        "One node in full",
        &[ok("Findings, facts and last events.", &[Body::Json(of::<NodeDetail>())]), NOT_FOUND],
    ),
    post(
        "/api/v1/nodes/{node}/remove",
        "Forget a node that is gone, or go on with it under another name",
        of::<RemoveRequest>(),
        &[
            ok("The nodes that are left.", &[Body::Json(of::<NodeList>())]),
            BAD,
            NO_TOKEN,
            NOT_FOUND,
            CONFLICT,
        ],
    ),
    post(
        "/api/v1/acknowledgements",
        "Say that a finding or an incident is known",
        of::<AcknowledgeRequest>(),
        &[ok("Done.", &[Body::Json(of::<AcknowledgeAnswer>())]), BAD, NO_TOKEN, NOT_FOUND, TOO_LARGE],
    ),
    get(
        "/api/v1/maintenance",
        "Nodes on which somebody works",
        &[ok("All that run.", &[Body::Json(of::<MaintenanceList>())])],
    ),
    post(
        "/api/v1/maintenance",
        "Begin or end a maintenance",
        of::<MaintenanceRequest>(),
        &[
            ok("All that run.", &[Body::Json(of::<MaintenanceList>())]),
            BAD,
            NO_TOKEN,
            NOT_FOUND,
            CONFLICT,
            TOO_LARGE,
        ],
    ),
];
