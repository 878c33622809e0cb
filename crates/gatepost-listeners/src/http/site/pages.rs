//! Pages: the properties of the request for a page, and the page as a response.

use std::sync::Arc;

use gatepost_message::{Cookie, Peer};
use gatepost_pages::{
    BrowserSession, CachedPath, CompiledPage, PageRequest, Pairs, PathContent, RenderedPage,
};

use super::representation::HTML;
use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::login_cookie;
use crate::http::request::HttpRequest;
use crate::http::response::{HttpResponse, ResponseBody};

/// Answers with a page.
pub(super) async fn respond(
    context: &Arc<HttpContext>,
    request: &mut HttpRequest,
    entry: Arc<CachedPath>,
) -> Result<HttpResponse, HttpError> {
    let page_request = if needs_request(&entry) {
        access::identify_if_given(context, request).await?;
        page_request(request)
    } else {
        PageRequest::default()
    };
    render(context, request, entry, page_request, 200).await
}

/// Renders a page and returns it as a response.
pub(super) async fn render(
    context: &HttpContext,
    request: &HttpRequest,
    entry: Arc<CachedPath>,
    page_request: PageRequest,
    status: u16,
) -> Result<HttpResponse, HttpError> {
    let accept = request.field("accept-encoding").map(str::as_bytes);
    let rendered = context.pages.render(entry, page_request, accept).await?;
    Ok(response_of(request, rendered, status))
}

/// Whether a page reads the request: a page that calls a procedure does.
fn needs_request(entry: &CachedPath) -> bool {
    match &entry.content {
        PathContent::Page(CompiledPage::Pieces(pieces)) => {
            let needs = pieces.needs();
            needs.request || needs.worker
        }
        _ => true,
    }
}

/// The properties of the request for a page.
pub(super) fn page_request(request: &HttpRequest) -> PageRequest {
    let cookies = cookies(request);
    PageRequest {
        method: request.method().to_owned(),
        path: request.path.clone(),
        query: request.query_values().into_iter().collect(),
        headers: request
            .fields()
            .map(|(name, value)| {
                let value = match name.as_str() {
                    "cookie" => login_cookie::without(value),
                    _ => value.to_owned(),
                };
                (name, value)
            })
            .collect(),
        user: request.user().map(str::to_owned),
        address: match request.peer {
            Peer::Address(address) => Some(address.ip().to_canonical().to_string()),
            Peer::Local => None,
        },
        peer: Some(request.peer),
        secure: request.secure,
        session: BrowserSession::of(cookies.get(BrowserSession::COOKIE)),
        cookies,
        ..PageRequest::default()
    }
}

/// The cookies of a request (RFC 6265, section 5.4); HTTP/2 may split them over several fields.
fn cookies(request: &HttpRequest) -> Pairs {
    let fields = request.field_bytes("cookie");
    let mut pairs = Pairs::new();
    for field in fields.filter_map(|field| std::str::from_utf8(field).ok()) {
        let field = login_cookie::without(field);
        for (name, value) in field.split(';').filter_map(|pair| pair.split_once('=')) {
            let value = value.trim().trim_matches('"');
            pairs.insert(name.trim().to_owned(), value.to_owned());
        }
    }
    pairs
}

/// A rendered page as a response, with the status and the header fields that its procedures set.
pub(in crate::http) fn response_of(
    request: &HttpRequest,
    rendered: RenderedPage,
    status: u16,
) -> HttpResponse {
    let reply = &rendered.reply;
    let status = reply.status(status);
    let mut response = HttpResponse::empty(status);
    for (name, value) in reply.headers() {
        response.field(name.clone(), value.clone());
    }
    for cookie in reply.cookies() {
        response.field("Set-Cookie", cookie.field(request.secure));
    }
    if let Some(session) = &rendered.session {
        // Lax, its default: with Strict, a visitor who follows a link to the page would receive a
        // new session, and forms in other tabs would be refused.
        let cookie = Cookie::new(BrowserSession::COOKIE, Some(session.clone()));
        response.field("Set-Cookie", cookie.field(request.secure));
    }
    // A form is signed for one browser, and a page for one visitor must not be shown to another.
    let caching = match (rendered.session.is_some(), rendered.personal) {
        (true, _) => "no-store",
        (false, true) => "private, no-cache",
        (false, false) => "no-cache",
    };
    default_field(&mut response, "Cache-Control", caching);
    if let Some(place) = reply.redirect() {
        response.field("Location", place.to_owned());
        return response;
    }
    default_field(&mut response, "Content-Type", HTML);
    if rendered.varies {
        response.field("Vary", "Accept-Encoding");
    }
    if rendered.with_gzip {
        response.field("Content-Encoding", "gzip");
    }
    // RFC 9110, section 15.3.5, section 15.3.6, section 15.4.5: these have no content.
    if !matches!(status, 204 | 205 | 304) {
        response.body = ResponseBody::Pieces(rendered.pieces);
    }
    response
}

fn default_field(response: &mut HttpResponse, name: &'static str, value: &'static str) {
    let mut set = response.fields.iter().map(|(set, _)| set);
    if !set.any(|set| set.eq_ignore_ascii_case(name)) {
        response.field(name, value);
    }
}
