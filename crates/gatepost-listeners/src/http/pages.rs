//! Pages: what they are told of a request, and the answers that they become.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{Cookie, Peer};
use gatepost_pages::{
    Content, Entry, Page, PageError, PageRequest, Pairs, Rendered, Session, Sink,
};

use super::HttpContext;
use super::access;
use super::error::HttpError;
use super::files::load;
use super::request::Request;
use super::response::{Body, Response};

/// What an HTML page is.
pub(super) const HTML: &str = "text/html; charset=utf-8";

/// Answers with a page.
pub(super) async fn respond(
    context: &Arc<HttpContext>,
    request: &mut Request,
    entry: Arc<Entry>,
) -> Result<Response, HttpError> {
    let told = if asks_of_request(&entry) {
        access::identify_if_told(context, request).await?;
        page_request(request)
    } else {
        PageRequest::default()
    };
    render(context, request, entry, told, 200).await
}

/// Renders a page and makes an answer of it.
pub(super) async fn render(
    context: &HttpContext,
    request: &Request,
    entry: Arc<Entry>,
    told: PageRequest,
    status: u16,
) -> Result<Response, HttpError> {
    let accept = request.field("accept-encoding").map(str::as_bytes);
    let rendered = context.pages.render(entry, told, accept).await?;
    Ok(response_of(request, rendered, status))
}

/// Whether a page wants to know for whom it is made: one that calls a procedure does.
fn asks_of_request(entry: &Entry) -> bool {
    match &entry.content {
        Content::Page(Page::Pieces(pieces)) => {
            let needs = pieces.needs();
            needs.request || needs.worker
        }
        _ => true,
    }
}

/// What a page is told.
pub(super) fn page_request(request: &Request) -> PageRequest {
    let cookies = cookies(request);
    PageRequest {
        method: request.method().to_owned(),
        path: request.path.clone(),
        query: request.parameters().into_iter().collect(),
        headers: request
            .fields()
            .map(|(name, value)| (name, value.to_owned()))
            .collect(),
        user: request.user().map(str::to_owned),
        address: match request.peer {
            Peer::Address(address) => Some(address.ip().to_canonical().to_string()),
            Peer::Local => None,
        },
        peer: Some(request.peer),
        secure: request.secure,
        session: Session::of(cookies.get(Session::COOKIE)),
        cookies,
        ..PageRequest::default()
    }
}

/// The cookies of a request (RFC 6265 § 5.4); HTTP/2 may split them over several fields.
fn cookies(request: &Request) -> Pairs {
    let fields = request.field_bytes("cookie");
    let mut pairs = Pairs::new();
    for field in fields.filter_map(|field| std::str::from_utf8(field).ok()) {
        for (name, value) in field.split(';').filter_map(|pair| pair.split_once('=')) {
            let value = value.trim().trim_matches('"');
            pairs.insert(name.trim().to_owned(), value.to_owned());
        }
    }
    pairs
}

/// A rendered page as an answer, with what its procedures said of it.
pub(super) fn response_of(request: &Request, rendered: Rendered, status: u16) -> Response {
    let reply = &rendered.reply;
    let status = reply.status(status);
    let mut response = Response::empty(status);
    for (name, value) in reply.headers() {
        response.field(name.clone(), value.clone());
    }
    for cookie in reply.cookies() {
        response.field("Set-Cookie", cookie.field(request.secure));
    }
    if let Some(session) = &rendered.session {
        // Lax, its default: with Strict, a visitor who follows a link to the page would be given a
        // new one, and forms in other tabs would be refused.
        let cookie = Cookie::new(Session::COOKIE, Some(session.clone()));
        response.field("Set-Cookie", cookie.field(request.secure));
    }
    // A form is signed for one browser; what is made for one visitor is not another's.
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
    // RFC 9110 § 15.3.5, § 15.3.6, § 15.4.5: these have no content.
    if !matches!(status, 204 | 205 | 304) {
        response.body = Body::Pieces(rendered.pieces);
    }
    response
}

fn default_field(response: &mut Response, name: &'static str, value: &'static str) {
    let mut set = response.fields.iter().map(|(set, _)| set);
    if !set.any(|set| set.eq_ignore_ascii_case(name)) {
        response.field(name, value);
    }
}

/// The user's own page for an error (`404.html`), or ours, where the client is a browser; `None`
/// where JSON serves it better.
pub(super) async fn error_page(
    context: &Arc<HttpContext>,
    request: &Request,
    error: &HttpError,
) -> Option<Response> {
    if !request.accepts("text/html") {
        return None;
    }
    let mut response = match own_error_page(context, request, error).await {
        Some(response) => response,
        None => built_in(error),
    };
    // What the error itself says in the head, for browsers too: Allow, Retry-After, a challenge.
    let told = error.response().fields.into_iter();
    for (name, value) in told.filter(|(name, _)| name != "Content-Type" && name != "Cache-Control")
    {
        response.field(name, value);
    }
    Some(response)
}

async fn own_error_page(
    context: &Arc<HttpContext>,
    request: &Request,
    error: &HttpError,
) -> Option<Response> {
    let row = error.row();
    let entry = load(context, request, &format!("/{}.html", row.status)).await?;
    if !matches!(entry.content, Content::Page(_)) {
        return None;
    }
    let mut told = page_request(request);
    told.error = Some(PageError {
        status: row.status,
        text: row.text.to_owned(),
        detail: error.to_string(),
        id: match error {
            HttpError::Internal(id) => id.clone(),
            _ => String::new(),
        },
    });
    render(context, request, entry, told, row.status).await.ok()
}

fn built_in(error: &HttpError) -> Response {
    let row = error.row();
    let mut page = Rendered::default();
    page.shared(&Bytes::from_static(ERROR_PAGE_START));
    page.text(|text| {
        let (what, status) = (row.text, row.status);
        let title = format!("<title>{what}</title><h1>{what} <small>{status}</small></h1><p>");
        text.extend_from_slice(title.as_bytes());
        gatepost_pages::push_escaped(text, &error.to_string());
        text.extend_from_slice(b"</p>");
    });
    let mut response = Response::empty(row.status)
        .with("Content-Type", HTML)
        .with("Cache-Control", "no-store");
    response.body = Body::Pieces(page.pieces);
    response
}

const ERROR_PAGE_START: &[u8] = b"<!doctype html><html lang=en><meta charset=utf-8>\
<meta name=viewport content=\"width=device-width\"><style>:root{color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:15vh auto;padding:0 1rem}\
small{opacity:.6}h1::first-letter{text-transform:uppercase}</style>";
