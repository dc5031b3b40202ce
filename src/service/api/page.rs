//! The web page: files inside the program, which ask [`super::picture`] and `GET /v1/health`
//! for everything they show. Nothing comes from another host, and the browser is told to allow none.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::ApiError;
use super::peer::Caller;
use super::refusal;
use super::routes::{Operation, Routes};
use crate::report::page::{CHART_SCRIPT, CHART_STYLE};

/// The files hold no secret: they need no token, only what they ask for does.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Routes<S> {
    let file = |routes: Routes<S>, (path, what, kind, text): File| {
        let told = Operation::new(path, what).answers_as(kind);
        routes.get(told, move || async move { answer(kind, text) })
    };
    FILES.into_iter().fold(Routes::new(), file)
}

/// Path, what it is, media type, content.
type File = (&'static str, &'static str, &'static str, &'static str);

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

const FILES: [File; 18] = [
    ("/", "The web page", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.css", "Its style", STYLE, include_str!("page/page.css")),
    ("/chart.css", "The style of charts", STYLE, CHART_STYLE),
    ("/chart.js", "What charts answer to", SCRIPT, CHART_SCRIPT),
    ("/timeline.js", "Its chart of epochs", SCRIPT, include_str!("page/timeline.js")),
    ("/page.js", "Its script", SCRIPT, include_str!("page/page.js")),
    ("/strip.js", "Its first line", SCRIPT, include_str!("page/strip.js")),
    ("/jobs.js", "Its list of jobs", SCRIPT, include_str!("page/jobs.js")),
    ("/more.js", "What else can be asked", SCRIPT, include_str!("page/more.js")),
    ("/address.js", "What its address says", SCRIPT, include_str!("page/address.js")),
    ("/compare.js", "What is compared", SCRIPT, include_str!("page/compare.js")),
    ("/find.js", "What is found and picked", SCRIPT, include_str!("page/find.js")),
    ("/panel.js", "What is found, in full", SCRIPT, include_str!("page/panel.js")),
    ("/whatif.js", "What would be", SCRIPT, include_str!("page/whatif.js")),
    ("/colours.js", "Its colours", SCRIPT, include_str!("page/colours.js")),
    ("/hand.js", "What is done by hand", SCRIPT, include_str!("page/hand.js")),
    ("/picture.js", "Its pictures", SCRIPT, include_str!("page/picture.js")),
    ("/matrix.js", "Its matrices", SCRIPT, include_str!("page/matrix.js")),
];

/// Told with each answer: by it a page that is open notices that an upgrade has brought other files.
const TOLD: &str = "sarouter-page";

/// A digest of the files.
static DIGEST: LazyLock<HeaderValue> = LazyLock::new(|| {
    let mut digest = DefaultHasher::new();
    FILES.hash(&mut digest);
    HeaderValue::from(digest.finish())
});

/// Whether a request is for one of the files.
pub(super) fn is_file(request: &Request) -> bool {
    let path = request.uri().path();
    let path = super::several::below(path).map_or(path, |(_, path)| path);
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    reads && (FILES.iter().any(|(file, ..)| *file == path) || super::several::is_door(path))
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

/// Refuses what a page of another site makes a browser send: behind a forwarded port it would
/// otherwise act with the rights of whoever forwards it. Such a page may even be under a name that it
/// has made lead here (DNS rebinding); the browser then says that name in `Host`.
pub(super) async fn own_pages_only(request: Request, next: Next) -> Response {
    match foreign(&request) {
        None => {
            let mut answer = next.run(request).await;
            answer.headers_mut().insert(TOLD, DIGEST.clone());
            answer
        }
        Some(why) => {
            let caller = request.extensions().get::<Caller>().map_or("somebody", |c| c.name.as_str());
            refusal::log(caller, request.method(), request.uri().path(), why);
            ApiError::new(StatusCode::FORBIDDEN, why).into_response()
        }
    }
}

/// Why a request is not from a page of ours or a program.
fn foreign(request: &Request) -> Option<&'static str> {
    let headers = request.headers();
    let all = |name: header::HeaderName| -> Vec<&str> {
        headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?")).collect()
    };
    match headers.get("sec-fetch-site").map(|value| value.as_bytes()) {
        None | Some(b"same-origin" | b"none") => {}
        Some(_) => return Some("not for pages of other sites"),
    }
    let (hosts, origins) = (all(header::HOST), all(header::ORIGIN));
    let host = match hosts[..] {
        [] => request.uri().authority().map(|a| a.as_str()),
        [host] if request.uri().authority().is_none_or(|a| a.as_str() == host) => Some(host),
        _ => return Some("more than one host is named"),
    };
    let own = |origin: &str| origin.split_once("://").is_some_and(|(_, from)| Some(from) == host);
    if !origins.iter().all(|origin| own(origin)) {
        return Some("not for pages of other sites");
    }
    // Over a network, each request shows a token, which no other site has.
    let on_network = request.extensions().get::<Caller>().is_some_and(|caller| caller.on_network);
    let known = on_network || host.is_none_or(is_this_machine);
    (!known).then_some("the host must be localhost or an address")
}

/// Whether a name leads to this machine without asking anybody.
fn is_this_machine(host: &str) -> bool {
    let port =
        |text: &str| text.is_empty() || text.strip_prefix(':').is_some_and(|p| p.parse::<u16>().is_ok());
    if let Some((address, rest)) = host.strip_prefix('[').and_then(|h| h.split_once(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok() && port(rest);
    }
    let name = host.split(':').next().unwrap_or_default();
    let known = name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::Ipv4Addr>().is_ok();
    known && port(&host[name.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_can_bend_are_this_machine() {
        for host in ["localhost", "LocalHost:8080", "127.0.0.1", "10.1.2.3:80", "[::1]", "[::1]:8080"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "evil.com",
            "localhost.evil.com",
            "evil.com:80",
            "127.0.0.1.evil.com",
            "localhost:80.evil.com",
            "[::1].evil.com",
            "[::1",
            "localhost:",
            "127.1",
            "1.2.3.4:99999",
            "localhost@evil.com",
            "?",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
