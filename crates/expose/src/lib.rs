//! Everything that outsiders parse: public JSON, OpenAPI, metric families.

pub mod api;
pub mod metrics;
