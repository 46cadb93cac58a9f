//! The web page: a few files inside the binary, with a policy that lets them load nothing else.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rdmascope_expose::api::Problem;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Own script, own style, own API; nothing from elsewhere, nothing inline, and no text that becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; object-src 'none'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// One file of the page.
struct File {
    name: &'static str,
    content_type: &'static str,
    text: &'static str,
}

const fn script(name: &'static str, text: &'static str) -> File {
    File { name, content_type: "text/javascript; charset=utf-8", text }
}

const INDEX: File = File {
    name: "index.html",
    content_type: "text/html; charset=utf-8",
    text: include_str!("../web/index.html"),
};

/// What it loads.
const FILES: &[File] = &[
    File {
        name: "style.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("../web/style.css"),
    },
    File { name: "icon.svg", content_type: "image/svg+xml", text: include_str!("../web/icon.svg") },
    script("api.js", include_str!("../web/api.js")),
    script("canvas.js", include_str!("../web/canvas.js")),
    script("colours.js", include_str!("../web/colours.js")),
    script("dialogs.js", include_str!("../web/dialogs.js")),
    script("dom.js", include_str!("../web/dom.js")),
    script("figures.js", include_str!("../web/figures.js")),
    script("history.js", include_str!("../web/history.js")),
    script("incidents.js", include_str!("../web/incidents.js")),
    script("live.js", include_str!("../web/live.js")),
    script("main.js", include_str!("../web/main.js")),
    script("map.js", include_str!("../web/map.js")),
    script("matrix.js", include_str!("../web/matrix.js")),
    script("nodes.js", include_str!("../web/nodes.js")),
    script("pair.js", include_str!("../web/pair.js")),
    script("route.js", include_str!("../web/route.js")),
    script("sweeps.js", include_str!("../web/sweeps.js")),
    script("words.js", include_str!("../web/words.js")),
];

/// `GET /`.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    answer(&INDEX, &headers)
}

/// `GET /web/{file}`.
pub(crate) async fn part(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => answer(file, &headers),
        None => crate::api::problem(&Problem::not_found("the page has no such file; it begins at /")),
    }
}

/// The file, or that it is still the same. A browser asks each time, so that an old page never meets a new coordinator.
fn answer(file: &File, headers: &HeaderMap) -> Response {
    let mut hasher = DefaultHasher::new();
    file.text.hash(&mut hasher);
    let etag = format!("\"{:016x}\"", hasher.finish());
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|have| have.as_bytes() == etag.as_bytes());
    let common = [
        (header::ETAG, etag),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    if known {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    (common, [(header::CONTENT_TYPE, file.content_type)], file.text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use rdmascope_control::coordinator::RowKind;
    use std::collections::BTreeSet;

    fn all() -> impl Iterator<Item = &'static File> {
        [&INDEX].into_iter().chain(FILES)
    }

    #[test]
    fn every_file_of_the_folder_is_served_and_names_itself() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/web");
        let there: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let served: BTreeSet<String> = all().map(|file| file.name.to_owned()).collect();
        assert_eq!(there, served);
        for file in all() {
            assert_eq!(
                std::fs::read_to_string(format!("{folder}/{}", file.name)).unwrap(),
                file.text,
                "{}",
                file.name
            );
        }
    }

    #[tokio::test]
    async fn a_file_comes_with_its_type_a_policy_and_a_tag_and_only_once() {
        let first = part(Path("main.js".to_owned()), HeaderMap::new()).await;
        assert_eq!(first.status(), StatusCode::OK);
        let headers = first.headers().clone();
        assert_eq!(headers[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
        assert_eq!(headers[header::CACHE_CONTROL], "no-cache");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        let text = to_bytes(first.into_body(), usize::MAX).await.unwrap();
        assert!(text.starts_with(b"// Starts the page"));

        let again = HeaderMap::from_iter([(header::IF_NONE_MATCH, headers[header::ETAG].clone())]);
        let unchanged = part(Path("main.js".to_owned()), again.clone()).await;
        assert_eq!(unchanged.status(), StatusCode::NOT_MODIFIED);
        assert!(to_bytes(unchanged.into_body(), usize::MAX).await.unwrap().is_empty());
        let another = part(Path("style.css".to_owned()), again).await;
        assert_eq!(
            (another.status(), another.headers()[header::CONTENT_TYPE].as_bytes()),
            (StatusCode::OK, &b"text/css; charset=utf-8"[..])
        );
        let nothing = part(Path("../Cargo.toml".to_owned()), HeaderMap::new()).await;
        assert_eq!(nothing.status(), StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn the_page_may_load_and_say_nothing_but_its_own() {
        let page = index(HeaderMap::new()).await;
        let policy = page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        for loophole in ["unsafe", "http:", "https:", "data:", "*"] {
            assert!(!policy.contains(loophole), "{policy}");
        }
        for file in all() {
            for inline in [" style=", "<style", "onclick=", "onload=", "javascript:"] {
                assert!(
                    !(file.name.ends_with(".html") && file.text.contains(inline)),
                    "{}: {inline}",
                    file.name
                );
            }
            for markup in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "setAttribute(\"style",
                "cssText",
            ] {
                assert!(!file.text.contains(markup), "{}: {markup}", file.name);
            }
            // Every script is a file of its own: nothing stands between its tags. No element says itself what an event does.
            for script in file.text.split("<script").skip(1).filter(|_| file.name.ends_with(".html")) {
                let (attributes, rest) = script.split_once('>').unwrap();
                assert!(attributes.contains(" src=\"web/") && rest.starts_with("</script>"), "{script}");
            }
            let words = file.text.split_whitespace().filter(|_| file.name.ends_with(".html"));
            for word in words {
                assert!(!(word.starts_with("on") && word.contains('=')), "{}: {word}", file.name);
            }
        }
    }

    #[test]
    fn the_page_listens_to_every_kind_of_event() {
        let live = FILES.iter().find(|file| file.name == "live.js").unwrap().text;
        for kind in RowKind::ALL {
            assert!(
                live.contains(&format!("\"{}\"", kind.as_str())),
                "live.js does not know {}",
                kind.as_str()
            );
        }
    }
}
