//! The list of routes, and the OpenAPI 3.1 document made from it and from the types.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{RefOr, schema};
use utoipa::{PartialSchema, ToSchema};

use super::{
    BandwidthFigures, EndpointList, HealthView, LatencyFigures, MatrixView, NodeList, PairView, PauseRequest,
    PauseView, ProbeRequest, ProbeView, Problem, ReadyView, StatusView, SweepList, SweepRequest, SweepView,
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
    query: &'static [Query],
    request: Option<Type>,
    responses: &'static [Response],
}

#[derive(Clone, Copy, Debug)]
struct Query {
    name: &'static str,
    text: &'static str,
    values: &'static [&'static str],
}

#[derive(Clone, Copy, Debug)]
struct Response {
    status: u16,
    text: &'static str,
    bodies: &'static [Body],
}

#[derive(Clone, Copy, Debug)]
enum Body {
    Json(Type),
    Problem,
    Other(&'static str),
}

type Named = (String, RefOr<Schema>);

/// A type of the API with what the document needs of it.
#[derive(Clone, Copy, Debug)]
struct Type {
    name: fn() -> Cow<'static, str>,
    schema: fn() -> RefOr<Schema>,
    nested: fn(&mut Vec<Named>),
}

const fn of<T: ToSchema + PartialSchema>() -> Type {
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
const UNCHANGED: Response =
    Response { status: 304, text: "The matrix still has the revision of If-None-Match.", bodies: &[] };

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
                values: &["latency", "bandwidth"],
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
                        Body::Other("application/octet-stream"),
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
        &[ok("Both metrics of the pair.", &[Body::Json(of::<PairView>())]), BAD, NOT_FOUND],
    ),
    get("/api/v1/sweeps", "The last sweeps", &[ok("The newest first.", &[Body::Json(of::<SweepList>())])]),
    post(
        "/api/v1/sweeps",
        "Measure every pair once",
        of::<SweepRequest>(),
        &[accepted(&[Body::Json(of::<SweepView>())]), BAD, NO_TOKEN, CONFLICT, TOO_LARGE, NOT_NOW],
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
];

/// The OpenAPI 3.1 document of [`ROUTES`].
#[must_use]
pub fn openapi(version: &str) -> Value {
    let mut schemas = BTreeMap::new();
    // Named only by a generic field, which the derive does not follow.
    for figures in [of::<LatencyFigures>(), of::<BandwidthFigures>()] {
        reference(figures, &mut schemas);
    }
    let mut paths: BTreeMap<&str, serde_json::Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
        let method = match route.method {
            Method::Get => "get",
            Method::Post => "post",
        };
        paths.entry(route.path).or_default().insert(method.to_owned(), operation(route, &mut schemas));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "rdmascope",
            "version": version,
            "description": "Latency and bandwidth between all RDMA endpoints of a cluster. Units stand in the names of the \
                fields; times are RFC 3339 in UTC; what is not known is null.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(route: &Route, schemas: &mut BTreeMap<String, RefOr<Schema>>) -> Value {
    let responses: serde_json::Map<String, Value> = route
        .responses
        .iter()
        .map(|response| (response.status.to_string(), answer(response, schemas)))
        .collect();
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": responses,
    });
    if let Some(request) = route.request {
        operation["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": reference(request, schemas) } },
        });
        // The second, empty choice: a coordinator without a configured token asks for none.
        operation["security"] = json!([{ "token": [] }, {}]);
    }
    operation
}

fn operation_id(route: &Route) -> String {
    let verb = match route.method {
        Method::Get => "get",
        Method::Post => "post",
    };
    let words = route.path.split(['/', '{', '}', '.']).filter(|word| !matches!(*word, "" | "api" | "v1"));
    words.fold(verb.to_owned(), |id, word| id + "_" + word)
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).map(|name| {
        let (kind, text) = match name {
            "id" => ("integer", "Its number."),
            _ => ("string", "NODE/DEVICE/PORT with each / written %2F, or the start of it where that names one endpoint."),
        };
        json!({ "name": name, "in": "path", "required": true, "description": text, "schema": { "type": kind } })
    });
    let in_query = route.query.iter().map(|query| {
        json!({
            "name": query.name, "in": "query", "required": false, "description": query.text,
            "schema": { "type": "string", "enum": query.values, "default": query.values[0] },
        })
    });
    in_path.chain(in_query).collect()
}

fn answer(response: &Response, schemas: &mut BTreeMap<String, RefOr<Schema>>) -> Value {
    let content: serde_json::Map<String, Value> = response
        .bodies
        .iter()
        .map(|body| match body {
            Body::Json(kind) => {
                ("application/json".to_owned(), json!({ "schema": reference(*kind, schemas) }))
            }
            Body::Problem => {
                (Problem::CONTENT_TYPE.to_owned(), json!({ "schema": reference(of::<Problem>(), schemas) }))
            }
            Body::Other(media) => ((*media).to_owned(), json!({})),
        })
        .collect();
    if content.is_empty() {
        json!({ "description": response.text })
    } else {
        json!({ "description": response.text, "content": content })
    }
}

/// Adds the type and all that it names to the schemas.
fn reference(kind: Type, schemas: &mut BTreeMap<String, RefOr<Schema>>) -> schema::Ref {
    let name = (kind.name)().into_owned();
    let mut nested = vec![(name.clone(), (kind.schema)())];
    (kind.nested)(&mut nested);
    schemas.extend(nested);
    schema::Ref::from_schema_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|inner| references(inner, found));
            }
            Value::Array(list) => list.iter().for_each(|inner| references(inner, found)),
            _ => {}
        }
    }

    #[test]
    fn every_route_is_in_the_document_once() {
        let document = openapi("1.2.3");
        let listed: usize =
            document["paths"].as_object().unwrap().values().map(|p| p.as_object().unwrap().len()).sum();
        assert_eq!(listed, ROUTES.len(), "two routes share method and path");
        for route in ROUTES {
            let method = if route.method == Method::Get { "get" } else { "post" };
            let operation = &document["paths"][route.path][method];
            assert_eq!(operation["summary"], route.summary);
            assert!(operation["responses"].as_object().is_some_and(|r| !r.is_empty()));
        }
        assert_eq!(document["info"]["version"], "1.2.3");
    }

    #[test]
    fn every_reference_in_the_document_resolves() {
        let document = openapi("1.2.3");
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > ROUTES.len());
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
    }

    #[test]
    fn calls_that_put_load_on_the_cluster_ask_for_the_token() {
        let document = openapi("1.2.3");
        for route in ROUTES.iter().filter(|route| route.method == Method::Post) {
            let operation = &document["paths"][route.path]["post"];
            assert_eq!(operation["security"][0], json!({ "token": [] }), "{}", route.path);
            assert!(operation["responses"]["401"].is_object(), "{}", route.path);
        }
    }

    #[test]
    fn what_may_be_null_is_said_to_be() {
        let document = openapi("1.2.3");
        let schemas = &document["components"]["schemas"];
        assert_eq!(schemas["LatencyFigures"]["properties"]["p99_ns"]["type"], json!(["integer", "null"]));
        let figures = &schemas["CellView_LatencyFigures"]["properties"]["figures"]["oneOf"];
        assert_eq!(figures, &json!([{ "type": "null" }, { "$ref": "#/components/schemas/LatencyFigures" }]));
    }
}
