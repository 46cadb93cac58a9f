//! What a route is: its path, parameters, bodies and answers, and the words to write one down.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

/// HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads; needs no token.
    Get,
    /// Changes something or puts load on the cluster; needs the token where one is configured.
    Post,
    /// Makes something be, and changes nothing where it is already; needs the token likewise.
    Put,
    /// Takes something away; needs the token likewise.
    Delete,
}

impl Method {
    /// The word used in the OpenAPI document.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }
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

pub(super) const fn ok(text: &'static str, bodies: &'static [Body]) -> Response {
    Response { status: 200, text, bodies }
}

pub(super) const fn accepted(bodies: &'static [Body]) -> Response {
    Response { status: 202, text: "Begun.", bodies }
}

pub(super) const fn problem(status: u16, text: &'static str) -> Response {
    Response { status, text, bodies: &[Body::Problem] }
}

pub(super) const fn get(path: &'static str, summary: &'static str, responses: &'static [Response]) -> Route {
    Route { method: Method::Get, path, summary, query: &[], request: None, responses }
}

/// A call that needs the token and has no body.
pub(super) const fn write(
    method: Method,
    path: &'static str,
    summary: &'static str,
    query: &'static [Query],
    responses: &'static [Response],
) -> Route {
    Route { method, path, summary, query, request: None, responses }
}

pub(super) const fn post(
    path: &'static str,
    summary: &'static str,
    request: Type,
    responses: &'static [Response],
) -> Route {
    Route { method: Method::Post, path, summary, query: &[], request: Some(request), responses }
}
