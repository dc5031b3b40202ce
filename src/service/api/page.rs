//! The web page: three files inside the program, which ask [`super::picture`] and `GET /v1/health`
//! for everything they show. Nothing comes from another host, and the browser is told to allow none.

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::answer::ApiError;

/// The files hold no secret: they need no token, only what they ask for does.
pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let file = |kind: &'static str, text: &'static str| get(move || async move { answer(kind, text) });
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("page/index.html")))
        .route("/page.css", file("text/css; charset=utf-8", include_str!("page/page.css")))
        .route("/page.js", file("text/javascript; charset=utf-8", include_str!("page/page.js")))
        .route("/picture.js", file("text/javascript; charset=utf-8", include_str!("page/picture.js")))
}

/// Whether a request is for one of the files.
pub(super) fn is_file(request: &Request) -> bool {
    request.method() == axum::http::Method::GET
        && ["/", "/page.css", "/page.js", "/picture.js"].contains(&request.uri().path())
}

/// Scripts and styles are files of ours, requests go to us, nobody frames the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn answer(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // After an upgrade the new files, not those of before.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}

/// Refuses what a page of another site makes a browser send: behind a forwarded port or a reused
/// token it would otherwise act with its owner's rights.
pub(super) async fn own_pages_only(request: Request, next: Next) -> Response {
    let site = request.headers().get("sec-fetch-site").map(|value| value.as_bytes());
    match site {
        None | Some(b"same-origin" | b"none") => next.run(request).await,
        Some(_) => ApiError::new(StatusCode::FORBIDDEN, "not for pages of other sites").into_response(),
    }
}
