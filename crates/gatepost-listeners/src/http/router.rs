//! The choice of the handler that answers a request.
//!
//! The operator's own pages take precedence over built-in pages of the same name (the dashboard at
//! `/`, `/docs`); the API, whose prefixes are few and fixed, takes precedence over both.

use std::sync::Arc;

use super::api::{admin, call, files as attachments, ntfy, senders, topics, web_push};
use super::context::HttpContext;
use super::error::HttpError;
use super::request::HttpRequest;
use super::response::HttpResponse;
use super::site::{assets, digest, error_page, files, guide, home, login, release};
use super::{access, forwarded, https_redirect, origin, websocket_handshake};

/// The methods that some path supports, or that are refused by name.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "QUERY",
];

/// Decides before the body is read whether the request is served at all: proxies, rates, HTTPS,
/// origin, and authentication if a body or the path needs a login. The error is the response.
pub(super) async fn admit(
    context: &Arc<HttpContext>,
    request: &mut HttpRequest,
    has_body: bool,
) -> Result<(), Box<HttpResponse>> {
    forwarded::apply(&context.settings, request);
    // The connection's own peer was not banned when it connected; behind a trusted proxy, the
    // client is known only now.
    if context.limits.admission.refuses(request.peer) {
        return Err(Box::new(HttpError::Banned.response()));
    }
    let response = match check(context, request, has_body).await {
        Ok(None) => return Ok(()),
        Ok(Some(response)) => response,
        Err(error) => error_response(context, request, &error).await,
    };
    Err(Box::new(with_common_fields(context, request, response)))
}

/// Answers an admitted request.
pub(super) async fn respond(context: &Arc<HttpContext>, request: &mut HttpRequest) -> HttpResponse {
    match route(context, request).await {
        Ok(response) => with_common_fields(context, request, response),
        Err(error) => refused(context, request, &error).await,
    }
}

/// The response to an admitted request that failed.
pub(super) async fn refused(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    error: &HttpError,
) -> HttpResponse {
    let response = error_response(context, request, error).await;
    with_common_fields(context, request, response)
}

/// The one place where errors become responses.
async fn error_response(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    error: &HttpError,
) -> HttpResponse {
    let page = error_page::respond(context, request, error).await;
    let mut response = page.unwrap_or_else(|| error.response());
    login::replace_challenge(request, &mut response);
    response
}

/// Adds the fields that every response has.
pub(super) fn with_common_fields(
    context: &HttpContext,
    request: &HttpRequest,
    mut response: HttpResponse,
) -> HttpResponse {
    let settings = &context.settings;
    origin::mark(context, request, &mut response);
    for (name, value) in settings.extra_fields() {
        let mut set = response.fields.iter().map(|(set, _)| set);
        if !set.any(|set| set.eq_ignore_ascii_case(name)) {
            response.field(name.to_owned(), value.to_owned());
        }
    }
    response
}

/// The checks of [`admit`]; a response if the request is answered already.
async fn check(
    context: &HttpContext,
    request: &mut HttpRequest,
    has_body: bool,
) -> Result<Option<HttpResponse>, HttpError> {
    if let Err(wait) = context.rate_limits.admit(request.peer) {
        return Err(HttpError::TooManyRequests(wait.as_secs() + 1));
    }
    // Probes of an orchestrator come unencrypted, from this machine or pod.
    let is_probe = matches!(request.path.as_str(), "/healthz" | "/readyz");
    if context.settings.https_redirect && !request.secure && !is_probe {
        return https_redirect::to_https(request, context.settings.https_port).map(Some);
    }
    let method = request.method();
    if !METHODS.contains(&method) {
        return Err(HttpError::UnknownMethod(method.chars().take(20).collect()));
    }
    origin::check(context, request)?;
    if let Some(preflight) = origin::preflight(context, request) {
        return Ok(Some(preflight));
    }
    if login::takes_form(&request.path) {
        login::check_length(request, has_body)?;
    } else if has_body || needs_identity(&request.path) {
        access::identify(context, request).await?;
    }
    Ok(None)
}

async fn route(
    context: &Arc<HttpContext>,
    request: &mut HttpRequest,
) -> Result<HttpResponse, HttpError> {
    let may_be_page = matches!(request.method(), "GET" | "HEAD" | "POST");
    let path = request.path.clone();
    let path = path.as_str();
    match path {
        "/openapi.json" => return assets::description(request),
        "/healthz" | "/readyz" => return admin::health(context, request),
        "/metrics" => return admin::metrics(context, request),
        "/mqtt" if context.websocket.is_some() => {
            // MQTT has its own login, and needs none after one by the page.
            access::identify_by_cookie(context, request);
            return websocket_handshake::upgrade(request);
        }
        "/topics" => return topics::respond(context, request, None).await,
        "/v1/senders" => return senders::respond(context, request, None).await,
        "/v1/webpush" => return web_push::respond(context, request).await,
        _ => {}
    }
    if let Some(topic) = path.strip_prefix("/topics/") {
        return topics::respond(context, request, Some(topic)).await;
    }
    if let Some(entry) = path.strip_prefix("/v1/senders/") {
        return senders::respond(context, request, Some(entry)).await;
    }
    if let Some(procedure) = path.strip_prefix("/call/") {
        return call::respond(context, request, procedure).await;
    }
    if path.starts_with("/admin/") {
        return admin::respond(context, request).await;
    }
    if let Some(name) = path.strip_prefix("/gatepost/") {
        return match name {
            "login" => login::respond(context, request).await,
            "logout" => login::log_out(context, request).await,
            "session" => login::session(context, request).await,
            "release" => release::respond(context, request).await,
            "digest" => digest::respond(context, request).await,
            name => assets::respond(request, name),
        };
    }
    if let Some(answered) = attachments::respond(context, request).await {
        return answered;
    }
    if may_be_page && let Some(response) = files::respond(context, request).await? {
        return Ok(response);
    }
    if let Some(answered) = guide::respond(context, request).await {
        return answered;
    }
    route_replaceable(context, request, path).await
}

/// Responds to a path that a page of the site may replace: the consoles, and ntfy's topics.
async fn route_replaceable(
    context: &Arc<HttpContext>,
    request: &mut HttpRequest,
    path: &str,
) -> Result<HttpResponse, HttpError> {
    let is_read = matches!(request.method(), "GET" | "HEAD");
    let is_write = matches!(request.method(), "POST" | "PUT");
    match path {
        // ntfy's clients publish to the root in JSON.
        "/" if is_write => {
            access::identify(context, request).await?;
            ntfy::publish_json(context, request).await
        }
        // ntfy's clients may publish to a topic of this name.
        "/push" if is_read => {
            access::identify(context, request).await?;
            assets::push(request)
        }
        "/senders" if is_read => {
            access::identify(context, request).await?;
            assets::senders(request)
        }
        "/" | "/dashboard" | "/status" => {
            access::identify(context, request).await?;
            if let Err(refusal) = access::expect_admin(context, request) {
                let is_page = request.path != "/status";
                return home::respond(request).filter(|_| is_page).ok_or(refusal);
            }
            if request.path == "/status" {
                admin::procedures(context, request)
            } else {
                assets::dashboard(request)
            }
        }
        _ => respond_as_ntfy(context, request).await,
    }
}

/// Responds to a path in the form of ntfy's topics, or refuses one that does not exist.
async fn respond_as_ntfy(
    context: &Arc<HttpContext>,
    request: &mut HttpRequest,
) -> Result<HttpResponse, HttpError> {
    access::identify(context, request).await?;
    match ntfy::respond(context, request).await {
        Some(answered) => answered,
        None => Err(files::refusal(context, request).await),
    }
}

/// Whether the path needs authentication. Of the other paths, pages are public, and the dashboard
/// and ntfy's shapes authenticate if no page replaces them.
fn needs_identity(path: &str) -> bool {
    // Not `/topics.html`, which may be a page.
    let is_part_of = |whole: &str| {
        let rest = path.strip_prefix(whole);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    path == "/metrics"
        || ["/call/", "/admin/"]
            .iter()
            .any(|part| path.starts_with(part))
        || ["/topics", "/v1/senders", "/v1/webpush"]
            .into_iter()
            .any(is_part_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_need_no_login_whatever_their_names_begin_with() {
        for (path, needs) in [
            ("/topics", true),
            ("/topics/a", true),
            ("/topics.html", false),
            ("/topics-of-today", false),
            ("/call/a", true),
            ("/calls", false),
            ("/admin/users", true),
            ("/administration", false),
            ("/metrics", true),
            ("/metrics.html", false),
            ("/v1/senders", true),
            ("/v1/senders/a", true),
            ("/v1/sendersx", false),
            ("/v1/webpush", true),
        ] {
            assert_eq!(needs_identity(path), needs, "{path}");
        }
    }
}
