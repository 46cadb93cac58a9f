//! The web page: three files inside the binary, with a policy that lets them load nothing else.

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// Own script, own style, own API; nothing from elsewhere, nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn file(content_type: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The files change only with the program; a minute bounds how long an old page meets a new coordinator.
        (header::CACHE_CONTROL, "max-age=60"),
    ];
    (headers, text).into_response()
}

/// `GET /`.
pub(crate) async fn index() -> Response {
    file("text/html; charset=utf-8", include_str!("../web/index.html"))
}

/// `GET /app.js`.
pub(crate) async fn script() -> Response {
    file("text/javascript; charset=utf-8", include_str!("../web/app.js"))
}

/// `GET /style.css`.
pub(crate) async fn style() -> Response {
    file("text/css; charset=utf-8", include_str!("../web/style.css"))
}
