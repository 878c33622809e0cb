//! The user guide at `/docs`, with a search. It runs no script and loads nothing from elsewhere.

use gatepost_guide::{GuideDocument, document, search_page};

use super::representation::HTML;
use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;

/// The guide's own style sheet and form, and no script.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; \
     form-action 'self'; frame-ancestors 'none'";

/// The part of the guide at the request's path, for every client that can log in; `None` if there
/// is none, so that a topic of ntfy's clients may be called `docs`.
pub(in crate::http) async fn respond(
    context: &HttpContext,
    request: &mut HttpRequest,
) -> Option<Result<HttpResponse, HttpError>> {
    let path = request.path.strip_prefix("/docs")?;
    let is_read = matches!(request.method(), "GET" | "HEAD");
    if !context.settings.docs || !is_read || !(path.is_empty() || path.starts_with('/')) {
        return None;
    }
    let found = if path == "/search" {
        search_page(&request.query_value("q").unwrap_or_default())
    } else {
        document(path)?
    };
    if let Err(error) = access::identify(context, request).await {
        return Some(Err(error));
    }
    let response = match found {
        GuideDocument::Html(html) => HttpResponse::new(200, HTML, html),
        GuideDocument::Style(sheet) => HttpResponse::new(200, "text/css; charset=utf-8", sheet),
        GuideDocument::Text(text) => HttpResponse::new(200, "text/plain; charset=utf-8", text),
    };
    let response = response
        .with("Cache-Control", "no-cache")
        .with("Content-Security-Policy", POLICY)
        .with("Referrer-Policy", "same-origin");
    Some(Ok(response))
}
