//! The dashboard and the script of live values, built into the binary: both work without a folder
//! of files and without another server.

use std::io::Read as _;

use bytes::Bytes;
use flate2::read::GzDecoder;
use gatepost_pages::{is_known, mime_type, takes_gzip};

use super::representation::HTML;
use crate::http::error::HttpError;
use crate::http::login_cookie;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// The service worker, which serves pages outside its own folder too.
const WORKER: &str = "push-worker.js";

/// The description of the API, which has an address of its own.
const DESCRIPTION: &str = "openapi.json";

/// A file of the console, or the description of the API.
struct BuiltInFile {
    name: &'static str,
    /// The checksum of the content.
    version: &'static str,
    /// The content, compressed by the build script.
    gzip: &'static [u8],
}

/// All files: those under `/gatepost/`, the pages, and the description.
const FILES: &[BuiltInFile] = include!(concat!(env!("OUT_DIR"), "/built_in_files.rs"));

impl BuiltInFile {
    fn find(name: &str) -> Option<&'static Self> {
        FILES.iter().find(|file| file.name == name)
    }

    /// The response with this file, or "not modified" where the client has it.
    fn response(&self, request: &HttpRequest) -> HttpResponse {
        let with_gzip = takes_gzip(request.field("accept-encoding").map(str::as_bytes));
        let form = if with_gzip { "gzip" } else { "plain" };
        let etag = format!("\"{}-{form}\"", self.version);
        let known = request.field("if-none-match");
        let response = if known.is_some_and(|tags| is_known(tags, &etag)) {
            HttpResponse::empty(304)
        } else if with_gzip {
            HttpResponse::new(200, mime_type(self.name), self.gzip).with("Content-Encoding", "gzip")
        } else {
            HttpResponse::new(200, mime_type(self.name), self.content())
        };
        response
            .with("Cache-Control", "no-cache")
            .with("Vary", "Accept-Encoding")
            .with("ETag", etag)
    }

    /// The content, for the few clients that do not take it compressed.
    fn content(&self) -> Vec<u8> {
        let mut content = Vec::new();
        let read = GzDecoder::new(self.gzip).read_to_end(&mut content);
        debug_assert!(read.is_ok(), "the build script compressed it: {read:?}");
        content
    }
}

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
    // The pages have addresses of their own.
    let file = BuiltInFile::find(name)
        .filter(|file| mime_type(file.name) != HTML && file.name != DESCRIPTION);
    let file = file.ok_or_else(|| HttpError::NotFound(request.path.clone()))?;
    let response = file.response(request);
    Ok(if name == WORKER {
        response.with("Service-Worker-Allowed", "/")
    } else {
        response
    })
}

/// `/openapi.json`: the API described for programs, as OpenAPI 3.1.
pub(in crate::http) fn description(request: &HttpRequest) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    built_in_file(request, DESCRIPTION)
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
    let dashboard = built_in_page(request, "dashboard.html")?;
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
    built_in_page(request, "push.html")
}

/// The page on which users allow and block senders for their own mailbox.
pub(in crate::http) fn senders(request: &HttpRequest) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    built_in_page(request, "senders.html")
}

fn built_in_page(request: &HttpRequest, name: &str) -> Result<HttpResponse, HttpError> {
    built_in_file(request, name).map(with_policy)
}

fn built_in_file(request: &HttpRequest, name: &str) -> Result<HttpResponse, HttpError> {
    let file = BuiltInFile::find(name);
    let file = file.ok_or_else(|| HttpError::NotFound(request.path.clone()))?;
    Ok(file.response(request))
}

/// A page that is made for a request.
pub(super) fn page(content: impl Into<Bytes>) -> HttpResponse {
    with_policy(HttpResponse::new(200, HTML, content).with("Cache-Control", "no-cache"))
}

fn with_policy(page: HttpResponse) -> HttpResponse {
    page.with("Content-Security-Policy", POLICY)
        .with("Referrer-Policy", "same-origin")
}
