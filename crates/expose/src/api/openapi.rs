//! The OpenAPI 3.1 document, made from the list of routes and from the types.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{RefOr, schema};

use super::route::{Body, Method, Response, Route, Type, of};
use super::routes::ROUTES;
use super::{BandwidthFigures, LatencyFigures, PingFigures, Problem};

/// The OpenAPI 3.1 document of [`ROUTES`].
#[must_use]
pub fn openapi(version: &str) -> Value {
    let mut schemas = BTreeMap::new();
    // Named only by a generic field, which the derive does not follow.
    for figures in [of::<LatencyFigures>(), of::<BandwidthFigures>(), of::<PingFigures>()] {
        reference(figures, &mut schemas);
    }
    let mut paths: BTreeMap<&str, serde_json::Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
        let method = route.method.as_str().to_owned();
        paths.entry(route.path).or_default().insert(method, operation(route, &mut schemas));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "rdmascope",
            "version": version,
            "description": "Latency, bandwidth and loss between all RDMA endpoints of a cluster. Units stand in the names of the \
                fields, or beside them; times are RFC 3339 in UTC; what is not known is null, or left out where that is said.",
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
    }
    if route.method != Method::Get {
        // The second, empty choice: a coordinator without a configured token asks for none.
        operation["security"] = json!([{ "token": [] }, {}]);
    }
    operation
}

fn operation_id(route: &Route) -> String {
    let verb = route.method.as_str();
    let words = route.path.split(['/', '{', '}', '.']).filter(|word| !matches!(*word, "" | "api" | "v1"));
    words.fold(verb.to_owned(), |id, word| id + "_" + word)
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).map(|name| {
        let (kind, text) = match name {
            "id" => ("integer", "Its number."),
            "node" => ("string", "Name of the node."),
            _ => ("string", "NODE/DEVICE/PORT with each / written %2F, or the start of it where that names one endpoint."),
        };
        json!({ "name": name, "in": "path", "required": true, "description": text, "schema": { "type": kind } })
    });
    let in_query = route.query.iter().map(|query| {
        // Words to choose from; the first is the default where the text says so by "when left out".
        let mut schema = json!({ "type": "string" });
        if !query.values.is_empty() {
            schema["enum"] = json!(query.values);
        }
        if query.text.contains("when left out") && !query.values.is_empty() {
            schema["default"] = json!(query.values[0]);
        }
        let required = matches!(query.name, "source" | "target");
        json!({ "name": query.name, "in": "query", "required": required, "description": query.text, "schema": schema })
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
            Body::Bytes(media, text) => {
                let schema = json!({ "type": "string", "format": "binary", "description": text });
                ((*media).to_owned(), json!({ "schema": schema }))
            }
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
pub(super) mod tests {
    use super::*;

    /// Every reference in a schema, wherever it stands.
    pub(crate) fn references(value: &Value, found: &mut Vec<String>) {
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
            let operation = &document["paths"][route.path][route.method.as_str()];
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
    fn calls_that_change_something_or_put_load_on_the_cluster_ask_for_the_token() {
        let document = openapi("1.2.3");
        for route in ROUTES.iter().filter(|route| route.method != Method::Get) {
            let operation = &document["paths"][route.path][route.method.as_str()];
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
