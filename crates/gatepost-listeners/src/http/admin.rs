//! What operators and their tools read: health, metrics, the state that the dashboard shows.

use std::sync::Arc;

mod quarantine;
mod rules;
mod senders;
mod users;

use super::HttpContext;
use super::access;
use super::error::HttpError;
use super::request::Request;
use super::response::Response;
use super::routes::expect_method;
use super::topics;

const COUNT_DEFAULT: usize = 100;
const COUNT_MAX: usize = 1_000;

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
        if let Some(address) = below(path, "/admin/senders") {
            return senders::respond(operations, request, address).await;
        }
        match path {
            "/admin/rules" => return rules::rules(operations, request).await,
            "/admin/rules/slowest" => return rules::slowest(operations, request).await,
            "/admin/reload" => return rules::reload(operations, request).await,
            _ => {}
        }
    }
    if let Some(rest) = below(&request.path, "/admin/users") {
        return users::respond(context, request, rest).await;
    }
    if let Some(id) = below(&request.path, "/admin/tokens").filter(|id| !id.is_empty()) {
        return users::revoke(context, request, id).await;
    }
    match request.path.as_str() {
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

/// A request's body, which must be a JSON object of this form.
fn body<T: serde::de::DeserializeOwned>(request: &Request) -> Result<T, HttpError> {
    let kind = request.field("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    // A form of another origin cannot have this type without asking first.
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(HttpError::MediaType("application/json"));
    }
    super::request::json_object(&request.body)
}

/// How many are asked for by `count=`.
fn count_of(request: &Request) -> Result<usize, HttpError> {
    topics::count_of(request, COUNT_DEFAULT, COUNT_MAX)
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
