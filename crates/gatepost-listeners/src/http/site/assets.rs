//! The dashboard and the script of live values, built into the binary: both work without a folder
//! of files and without another server.

use bytes::Bytes;
use gatepost_pages::mime_type;

use super::representation::HTML;
use crate::http::error::HttpError;
use crate::http::login_cookie;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// The service worker, which serves pages outside its own folder too.
const WORKER: &str = "push-worker.js";

/// The files under `/gatepost/`.
const ASSETS: &[(&str, &[u8])] = &[
    ("live.js", include_bytes!("../assets/live.js")),
    ("dashboard.js", include_bytes!("../assets/dashboard.js")),
    ("access.js", include_bytes!("../assets/access.js")),
    ("alarms.js", include_bytes!("../assets/alarms.js")),
    ("bans.js", include_bytes!("../assets/bans.js")),
    ("charts.js", include_bytes!("../assets/charts.js")),
    ("figures.js", include_bytes!("../assets/figures.js")),
    ("history.js", include_bytes!("../assets/history.js")),
    ("journal.js", include_bytes!("../assets/journal.js")),
    ("later.js", include_bytes!("../assets/later.js")),
    ("login.js", include_bytes!("../assets/login.js")),
    ("messages.js", include_bytes!("../assets/messages.js")),
    ("page.js", include_bytes!("../assets/page.js")),
    ("palette.js", include_bytes!("../assets/palette.js")),
    ("places.js", include_bytes!("../assets/places.js")),
    ("quarantine.js", include_bytes!("../assets/quarantine.js")),
    ("recent.js", include_bytes!("../assets/recent.js")),
    ("rules.js", include_bytes!("../assets/rules.js")),
    ("scan.js", include_bytes!("../assets/scan.js")),
    ("scopes.js", include_bytes!("../assets/scopes.js")),
    ("scores.js", include_bytes!("../assets/scores.js")),
    ("senders.js", include_bytes!("../assets/senders.js")),
    ("procedures.js", include_bytes!("../assets/procedures.js")),
    ("server.js", include_bytes!("../assets/server.js")),
    ("sessions.js", include_bytes!("../assets/sessions.js")),
    ("topics.js", include_bytes!("../assets/topics.js")),
    ("dashboard.css", include_bytes!("../assets/dashboard.css")),
    ("icon.svg", include_bytes!("../assets/icon.svg")),
    ("push.js", include_bytes!("../assets/push.js")),
    ("pushed.js", include_bytes!("../assets/pushed.js")),
    (WORKER, include_bytes!("../assets/push-worker.js")),
    (
        "app.webmanifest",
        include_bytes!("../assets/app.webmanifest"),
    ),
];

/// Everything is loaded from this server and nothing is inline, so the content of a message is
/// never executed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' \
     data:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'";

/// A file under `/gatepost/`.
pub(in crate::http) fn respond(
    request: &HttpRequest,
    name: &str,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let (_, content) = ASSETS
        .iter()
        .find(|(asset, _)| *asset == name)
        .ok_or_else(|| HttpError::NotFound(request.path.clone()))?;
    let response =
        HttpResponse::new(200, mime_type(name), *content).with("Cache-Control", "no-cache");
    Ok(if name == WORKER {
        response.with("Service-Worker-Allowed", "/")
    } else {
        response
    })
}

/// The welcome page.
pub(in crate::http) fn dashboard(request: &HttpRequest) -> Result<HttpResponse, HttpError> {
    // Another handler serves publications to the root by ntfy's clients.
    let allow = if request.path == "/" {
        "GET, HEAD, POST, PUT"
    } else {
        "GET, HEAD"
    };
    expect_method(request, &["GET", "HEAD"], allow)?;
    let dashboard = page(&include_bytes!("../assets/dashboard.html")[..]);
    Ok(
        if request.user().is_none() && !login_cookie::is_present(request) {
            // Once the first user exists, the page leads to the login page.
            dashboard.with("Set-Cookie", login_cookie::none(request))
        } else {
            dashboard
        },
    )
}

/// The page on which users subscribe their browser to notifications.
pub(in crate::http) fn push(request: &HttpRequest) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    Ok(page(&include_bytes!("../assets/push.html")[..]))
}

/// The page on which users allow and block senders for their own mailbox.
pub(in crate::http) fn senders(request: &HttpRequest) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    Ok(page(include_bytes!("../assets/senders.html").as_slice()))
}

/// A built-in page.
pub(super) fn page(content: impl Into<Bytes>) -> HttpResponse {
    HttpResponse::new(200, HTML, content)
        .with("Cache-Control", "no-cache")
        .with("Content-Security-Policy", POLICY)
        .with("Referrer-Policy", "same-origin")
}
