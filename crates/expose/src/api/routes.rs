//! The list of routes: path, parameters, bodies and answers; the OpenAPI document is made from it.

use super::route::{Body, Method, Query, Response, Route, accepted, get, of, ok, post, problem, write};
use super::{
    AcknowledgeAnswer, AcknowledgeRequest, CancelRequest, DiagnosisView, EndpointList, EventList,
    FindingList, HealthView, HistoryView, IncastRequest, IncidentDetail, IncidentList, MATRIX_BIN,
    MaintenanceList, MaintenanceRequest, MatrixView, NodeDetail, NodeList, PairView, PauseRequest, PauseView,
    PinList, ProbeList, ProbeRequest, ProbeView, ReadyView, RemoveRequest, ScrapeTargets, ServiceList,
    StatusView, SweepList, SweepPairList, SweepPlan, SweepRequest, SweepView,
};

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

/// The two ends of a pair.
const SOURCE: Query = Query {
    name: "source",
    text: "Endpoint that sends: NODE/DEVICE/PORT, or the start of it where that names one endpoint.",
    values: &[],
};
const TARGET: Query = Query { name: "target", text: "Endpoint that receives, likewise.", values: &[] };

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
    Route {
        query: &[
            SOURCE,
            TARGET,
            Query {
                name: "metric",
                text: "What was measured; without it what is measured of the pair all the time: pings, or else latency.",
                values: &["latency", "bandwidth", "ping"],
            },
        ],
        ..get(
            "/api/v1/history",
            "One pair over the last day, where that is kept",
            &[ok("What it was, and why that is kept.", &[Body::Json(of::<HistoryView>())]), BAD, NOT_FOUND],
        )
    },
    get(
        "/api/v1/history/pins",
        "Pairs whose history an operator wants kept",
        &[ok("By name.", &[Body::Json(of::<PinList>())])],
    ),
    write(
        Method::Put,
        "/api/v1/history/pins",
        "Keep the history of a pair from now on",
        &[SOURCE, TARGET],
        &[ok("All pinned pairs.", &[Body::Json(of::<PinList>())]), BAD, NO_TOKEN, NOT_FOUND, CONFLICT],
    ),
    write(
        Method::Delete,
        "/api/v1/history/pins",
        "Take a pin away; what is kept stays for an hour",
        &[SOURCE, TARGET],
        &[ok("All pinned pairs.", &[Body::Json(of::<PinList>())]), BAD, NO_TOKEN, NOT_FOUND],
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
    get(
        "/api/v1/sweeps/{id}/pairs",
        "Every pair of a sweep in another class or with other messages, as such figures are not in the matrix",
        &[ok("All pairs, those without a figure too.", &[Body::Json(of::<SweepPairList>())]), BAD, NOT_FOUND],
    ),
    post(
        "/api/v1/sweeps/{id}/cancel",
        "End a sweep early: what runs is measured, the rest is not",
        of::<CancelRequest>(),
        &[ok("The sweep.", &[Body::Json(of::<SweepView>())]), BAD, NO_TOKEN, NOT_FOUND, CONFLICT],
    ),
    Route {
        query: &[
            Query { name: "source", text: "Only from this endpoint, by its full name.", values: &[] },
            Query { name: "target", text: "Only to this endpoint, by its full name.", values: &[] },
            Query { name: "limit", text: "At most so many, from 1; all when left out.", values: &[] },
        ],
        ..get(
            "/api/v1/probes",
            "The last probes that somebody asked for, step by step",
            &[ok("The newest first.", &[Body::Json(of::<ProbeList>())]), BAD],
        )
    },
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
