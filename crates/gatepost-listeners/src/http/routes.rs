//! Which handler answers which request.
//!
//! A user's own pages come before our pages of the same name (the dashboard at `/`, `/status`),
//! and after the API, whose prefixes are few and fixed.

use std::sync::Arc;

use super::HttpContext;
use super::error::HttpError;
use super::request::Request;
use super::response::Response;
use super::{
    access, admin, assets, call, files, forwarded, ntfy, openapi, origin, pages, redirect, topics,
    websocket,
};

/// Answers a request. Every error becomes a response here and nowhere else.
pub(super) async fn respond(context: &Arc<HttpContext>, request: &mut Request) -> Response {
    let settings = &context.settings;
    forwarded::apply(&settings.trusted_proxies, request);
    let response = match admit(context, request) {
        Ok(Some(response)) => response,
        Ok(None) => match route(context, request).await {
            Ok(response) => response,
            Err(error) => pages::error_page(context, request, &error)
                .await
                .unwrap_or_else(|| error.response()),
        },
        Err(error) => error.response(),
    };
    finished(context, request, response)
}

/// With what every answer says.
pub(super) fn finished(
    context: &HttpContext,
    request: &Request,
    mut response: Response,
) -> Response {
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

/// What comes before any handler: the rate limit, and the redirect to https.
fn admit(context: &HttpContext, request: &Request) -> Result<Option<Response>, HttpError> {
    if let Err(wait) = context.limits.admit(request.peer) {
        return Err(HttpError::TooManyRequests(wait.as_secs() + 1));
    }
    // Probes of an orchestrator come unencrypted, from beside us.
    let probe = matches!(request.path.as_str(), "/healthz" | "/readyz");
    if !context.settings.https_redirect || request.secure || probe {
        return Ok(None);
    }
    redirect::to_https(request, context.settings.https_port).map(Some)
}

async fn route(context: &Arc<HttpContext>, request: &mut Request) -> Result<Response, HttpError> {
    let method = request.method().to_owned();
    let method = method.as_str();
    if !matches!(
        method,
        "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "PATCH" | "OPTIONS" | "TRACE" | "QUERY"
    ) {
        return Err(HttpError::UnknownMethod(method.chars().take(20).collect()));
    }
    origin::check(context, request)?;
    if let Some(preflight) = origin::preflight(context, request) {
        return Ok(preflight);
    }
    if asks_who(&request.path) {
        access::identify(context, request).await?;
    }
    let path = request.path.clone();
    let path = path.as_str();
    match path {
        "/openapi.json" => return openapi::respond(request),
        "/healthz" | "/readyz" => return admin::health(context, request),
        "/metrics" => return admin::metrics(context, request),
        // Where nobody speaks MQTT there is no such door.
        "/mqtt" if context.websocket.is_some() => return websocket::upgrade(request),
        "/topics" => return topics::respond(context, request, None).await,
        _ => {}
    }
    if let Some(topic) = path.strip_prefix("/topics/") {
        return topics::respond(context, request, Some(topic)).await;
    }
    if let Some(procedure) = path.strip_prefix("/call/") {
        return call::respond(context, request, procedure).await;
    }
    if path.starts_with("/admin/") {
        return admin::respond(context, request).await;
    }
    if let Some(name) = path.strip_prefix("/gatepost/") {
        return assets::respond(request, name);
    }
    if matches!(method, "GET" | "HEAD" | "POST")
        && let Some(response) = files::respond(context, request).await?
    {
        return Ok(response);
    }
    match path {
        // ntfy's clients publish to the root in JSON.
        "/" if matches!(method, "POST" | "PUT") => {
            access::identify(context, request).await?;
            ntfy::publish_json(context, request).await
        }
        "/" | "/dashboard" | "/status" => {
            access::identify(context, request).await?;
            access::expect_admin(context, request)?;
            if request.path == "/status" {
                admin::procedures(context, request)
            } else {
                assets::dashboard(request)
            }
        }
        _ => {
            access::identify(context, request).await?;
            ntfy::respond(context, request)
                .await
                .unwrap_or_else(|| Err(HttpError::NotFound(request.path.clone())))
        }
    }
}

/// Whether only some may have what is there. Of what is left, pages are for everyone, and the
/// dashboard and ntfy's shapes ask when no page stands in their place.
fn asks_who(path: &str) -> bool {
    ["/topics", "/call/", "/admin/", "/metrics"]
        .iter()
        .any(|prefix| path.starts_with(prefix))
}

/// Refuses a method that the path does not take.
pub(super) fn expect_method(
    request: &Request,
    allowed: &[&str],
    allow: &'static str,
) -> Result<(), HttpError> {
    if allowed.contains(&request.method()) {
        return Ok(());
    }
    Err(HttpError::Method {
        path: request.path.clone(),
        allow,
    })
}
