//! Which handler answers which request.
//!
//! A user's own pages come before our pages of the same name (the dashboard at `/`, `/status`),
//! and after the API, whose prefixes are few and fixed.

use std::sync::Arc;

use super::HttpContext;
use super::error::HttpError;
use super::request::Request;
use super::response::Response;
use super::{admin, assets, call, files, ntfy, origin, topics, websocket};

/// Answers a request. Every error becomes a response here and nowhere else.
pub(super) async fn respond(context: &Arc<HttpContext>, request: &Request) -> Response {
    match route(context, request).await {
        Ok(response) => response,
        Err(error) => files::error_page(context, request, &error)
            .await
            .unwrap_or_else(|| error.response()),
    }
}

async fn route(context: &Arc<HttpContext>, request: &Request) -> Result<Response, HttpError> {
    let method = request.method();
    if !matches!(
        method,
        "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "PATCH" | "OPTIONS"
    ) {
        return Err(HttpError::UnknownMethod(method.chars().take(20).collect()));
    }
    origin::check(context, request)?;
    let path = request.path.as_str();
    match path {
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
    if matches!(method, "GET" | "HEAD")
        && let Some(response) = files::respond(context, request).await?
    {
        return Ok(response);
    }
    match path {
        "/" | "/dashboard" => assets::dashboard(request),
        "/status" => admin::procedures(context, request),
        _ => ntfy::respond(context, request)
            .await
            .unwrap_or_else(|| Err(HttpError::NotFound(path.to_owned()))),
    }
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
