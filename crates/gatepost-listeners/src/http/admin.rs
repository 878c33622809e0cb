//! What operators and their tools read: health, metrics, the state that the dashboard shows.

use std::sync::Arc;

mod quarantine;

use super::HttpContext;
use super::access;
use super::error::HttpError;
use super::request::Request;
use super::response::Response;
use super::routes::expect_method;

/// `/admin/…`
pub(super) async fn respond(
    context: &Arc<HttpContext>,
    request: &Request,
) -> Result<Response, HttpError> {
    access::expect_admin(context, request)?;
    let operations = context.operations.as_deref();
    if let Some(operations) = operations {
        let path = request.path.as_str();
        if let Some(rest) = below(path, "/admin/quarantine") {
            return quarantine::respond(context, operations, request, rest).await;
        }
        if let Some(id) = below(path, "/admin/messages") {
            let id = (!id.is_empty()).then_some(id);
            return quarantine::messages(operations, request, id).await;
        }
    }
    match request.path.as_str() {
        "/admin/users" => {
            expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
            let operations = operations.ok_or_else(|| HttpError::NotFound(request.path.clone()))?;
            Ok(Response::json(200, &operations.users()))
        }
        "/admin/state" => {
            expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
            Ok(Response::json(200, &context.rooms.state().await))
        }
        "/admin/procedures" => procedures(context, request),
        other => Err(HttpError::NotFound(other.to_owned())),
    }
}

/// What follows `folder` and a slash; empty for the folder itself.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() {
        return Some(rest);
    }
    rest.strip_prefix('/').filter(|rest| !rest.is_empty())
}

/// `/healthz`: the process answers. `/readyz`: and is not about to end.
pub(super) fn health(context: &HttpContext, request: &Request) -> Result<Response, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    if request.path == "/readyz" && context.drain.is_draining() {
        return Err(HttpError::Busy("the server is about to end"));
    }
    Ok(Response::new(200, "text/plain; charset=utf-8", "ok\n").with("Cache-Control", "no-store"))
}

/// `/metrics`, in Prometheus' text format.
pub(super) fn metrics(context: &HttpContext, request: &Request) -> Result<Response, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let mut text = String::with_capacity(8 << 10);
    context.rooms.metrics(&mut text);
    context.push_metrics(&mut text);
    Ok(Response::new(
        200,
        "text/plain; version=0.0.4; charset=utf-8",
        text,
    ))
}

/// `/status`: the procedures' counters.
pub(super) fn procedures(context: &HttpContext, request: &Request) -> Result<Response, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    Ok(Response::json(200, &context.rooms.procedures()))
}
