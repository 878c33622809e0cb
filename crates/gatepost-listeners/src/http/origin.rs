//! Requests that a page of another origin makes a browser send.
//!
//! A browser sends requests to this machine's loopback like to any other address, so without this
//! check any web page could publish here. Browsers send the page's origin; other programs send none
//! and are not affected.

use super::context::HttpContext;
use super::error::HttpError;
use super::request::HttpRequest;
use super::response::HttpResponse;

/// Refuses a request that changes something or opens a WebSocket, if its page has an origin that is
/// neither the server's own nor allowed.
pub(super) fn check(context: &HttpContext, request: &HttpRequest) -> Result<(), HttpError> {
    let reads = matches!(request.method(), "GET" | "HEAD" | "OPTIONS");
    // Browsers open WebSockets without a preflight request (RFC 6455, section 10.2).
    if reads && !request.has_token("upgrade", "websocket") {
        return Ok(());
    }
    match request.field("origin") {
        Some(origin) if !is_own(request, origin) && !is_allowed(context, origin) => {
            Err(cross_origin(origin))
        }
        _ => Ok(()),
    }
}

/// Refuses a form from a page of another origin, even if that origin may publish. Browsers that
/// send no origin send at least the page's address.
pub(super) fn expect_own(request: &HttpRequest) -> Result<(), HttpError> {
    match request.field("sec-fetch-site") {
        None | Some("same-origin" | "none") => {}
        Some(site) => return Err(cross_origin(site)),
    }
    match page_of(request) {
        Some(page) if !is_own(request, page) => Err(cross_origin(page)),
        _ => Ok(()),
    }
}

/// Whether a request may act by the cookie of a login: it must not come from a page of another
/// origin, not even from one that may publish with a login of its own. A request that changes
/// something or opens a WebSocket must prove that it comes from a page of this server; one that
/// only reads may be a link that the visitor followed.
pub(super) fn is_of_own_page(request: &HttpRequest) -> bool {
    let site = request.field("sec-fetch-site");
    let from_elsewhere = |origin: &str| !is_own(request, origin);
    if request.field("origin").is_some_and(from_elsewhere) {
        return false;
    }
    let reads = matches!(request.method(), "GET" | "HEAD");
    if reads && !request.has_token("upgrade", "websocket") {
        return match site {
            None | Some("same-origin" | "none") => true,
            Some(_) => request.field("sec-fetch-mode") == Some("navigate"),
        };
    }
    match site {
        Some(site) => site == "same-origin",
        // Browsers omit it where neither TLS nor loopback protects the connection.
        None => page_of(request).is_some_and(|page| is_own(request, page)),
    }
}

/// Refuses a request that acts for a visitor unless it provably comes from a page of this server.
pub(super) fn expect_own_page(request: &HttpRequest) -> Result<(), HttpError> {
    if is_of_own_page(request) {
        return Ok(());
    }
    let page = page_of(request).unwrap_or("a request without the origin of its page");
    Err(cross_origin(page))
}

/// Refuses a link that changes something if a page of another origin made the browser follow it,
/// unless that origin is allowed. By the cookie of a login, only a link of an own page, or one that
/// the visitor typed, changes something.
pub(super) fn expect_own_link(
    context: &HttpContext,
    request: &HttpRequest,
) -> Result<(), HttpError> {
    if request.session.is_some() {
        let is_typed = request.field("sec-fetch-site") == Some("none");
        return match page_of(request) {
            Some(page) if is_own(request, page) => Ok(()),
            None if is_typed => Ok(()),
            page => Err(cross_origin(page.unwrap_or("a link without its page"))),
        };
    }
    match (request.field("sec-fetch-site"), page_of(request)) {
        (_, Some(page)) if is_own(request, page) || is_allowed(context, origin_of(page)) => Ok(()),
        (_, Some(page)) => Err(cross_origin(page)),
        (None | Some("same-origin" | "none"), None) => Ok(()),
        (Some(site), None) => Err(cross_origin(site)),
    }
}

/// The page that made the request, as reported by the browser.
fn page_of(request: &HttpRequest) -> Option<&str> {
    request.field("origin").or_else(|| request.field("referer"))
}

/// The origin of a page's address.
fn origin_of(page: &str) -> &str {
    let authority = page.find("://").map_or(0, |at| at + 3);
    let rest = page.get(authority..).unwrap_or_default();
    let end = rest.find('/').map_or(page.len(), |at| authority + at);
    page.get(..end).unwrap_or(page)
}

fn cross_origin(name: &str) -> HttpError {
    HttpError::CrossOrigin(name.chars().take(200).collect())
}

/// Whether a page is of the origin at which the request was made, scheme included. Behind a proxy
/// that is not trusted the scheme is not known, and only the host is compared.
fn is_own(request: &HttpRequest, page: &str) -> bool {
    let host = request.field("host").unwrap_or_default();
    let Some((scheme, authority)) = origin_of(page).split_once("://") else {
        return false;
    };
    let expected = if request.secure { "https" } else { "http" };
    (request.is_forwarded || scheme.eq_ignore_ascii_case(expected))
        && authority.eq_ignore_ascii_case(host)
}

fn is_allowed(context: &HttpContext, origin: &str) -> bool {
    let allowed = &context.settings.origins;
    allowed.iter().any(|entry| entry == "*" || entry == origin)
}

/// The answer to a preflight request (CORS), if the origin is allowed.
pub(super) fn preflight(context: &HttpContext, request: &HttpRequest) -> Option<HttpResponse> {
    let origin = request.field("origin")?;
    request.field("access-control-request-method")?;
    if request.method() != "OPTIONS" || !is_allowed(context, origin) {
        return None;
    }
    let mut response = HttpResponse::empty(204)
        .with(
            "Access-Control-Allow-Methods",
            "GET, HEAD, POST, PUT, DELETE, PATCH",
        )
        .with("Access-Control-Max-Age", "600");
    if let Some(fields) = request.field("access-control-request-headers") {
        response.field("Access-Control-Allow-Headers", fields.to_owned());
    }
    Some(response)
}

/// Permits a page of an allowed origin to read the answer. An origin that is allowed by name may
/// send the visitor's credentials; `"*"` permits that for no origin.
pub(super) fn mark(context: &HttpContext, request: &HttpRequest, response: &mut HttpResponse) {
    if context.settings.origins.is_empty() {
        return;
    }
    response.field("Vary", "Origin");
    let Some(origin) = request.field("origin") else {
        return;
    };
    if context.settings.origins.iter().any(|entry| entry == origin) {
        response.field("Access-Control-Allow-Origin", origin.to_owned());
        response.field("Access-Control-Allow-Credentials", "true");
    } else if is_allowed(context, origin) {
        response.field("Access-Control-Allow-Origin", "*");
    }
}
