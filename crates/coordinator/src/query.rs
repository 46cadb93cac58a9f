//! The query of a request: like axum's own, but a value that cannot be is told as a problem document, as everywhere in the API.

use crate::api::problem;
use axum::extract::{FromRequestParts, Query as Plain};
use axum::http::request::Parts;
use axum::response::Response;
use rdmascope_expose::api::Problem;
use serde::de::DeserializeOwned;

/// What stands behind the `?`.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        match Plain::from_request_parts(parts, state).await {
            Ok(Plain(value)) => Ok(Self(value)),
            Err(error) => Err(problem(&Problem::bad_request(error.body_text()))),
        }
    }
}
