//! What operators and their tools read: health, metrics, the state that the dashboard shows.

use std::sync::Arc;

use super::HttpContext;
use super::error::HttpError;
use super::request::Request;
use super::response::Response;
use super::routes::expect_method;

/// `/admin/…`
pub(super) async fn respond(
    context: &Arc<HttpContext>,
    request: &Request,
) -> Result<Response, HttpError> {
    match request.path.as_str() {
        "/admin/state" => {
            expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
            Ok(Response::json(200, &context.rooms.state().await))
        }
        "/admin/procedures" => procedures(context, request),
        other => Err(HttpError::NotFound(other.to_owned())),
    }
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
