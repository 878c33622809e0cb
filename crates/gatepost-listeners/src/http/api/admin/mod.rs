//! Read-only endpoints for operators and their tools: health, metrics, the state that the dashboard
//! shows.

use std::sync::Arc;

mod alarms;
mod audit;
mod bans;
mod clock;
mod delayed;
mod digests;
mod messages;
mod procedure_files;
mod quarantine;
mod rules;
mod scopes;
mod scores;
mod senders;
mod series;
mod server;
mod sessions;
mod subscribers;
mod users;

use gatepost_operations::Operations;
use gatepost_procedures::RulesState;
use gatepost_sinks::Sinks;

use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::parameters;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

const COUNT_DEFAULT: usize = 100;
const COUNT_MAX: usize = 1_000;

/// `/admin/…`
pub(in crate::http) async fn respond(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    access::expect_admin(context, request)?;
    let response = dispatch(context, request).await?;
    if let Some(operations) = context.services.operations.as_ref() {
        audit::record(operations, request).await;
    }
    Ok(response)
}

/// Records a change that another part of the API has made for an administrator.
pub(in crate::http) async fn record(context: &HttpContext, request: &HttpRequest) {
    if let Some(operations) = context.services.operations.as_ref() {
        audit::record(operations, request).await;
    }
}

async fn dispatch(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    let operations = context.services.operations.as_ref();
    if let Some(operations) = operations
        && let Some(response) = operate(context, operations, request).await
    {
        return response;
    }
    if let Some(alarm) = below(&request.path, "/admin/alarms") {
        return alarms::respond(context, request, alarm);
    }
    if let Some(id) = below(&request.path, "/admin/delayed") {
        return delayed::respond(context, request, id).await;
    }
    if let Some(network) = below(&request.path, "/admin/bans") {
        return bans::respond(context, request, network).await;
    }
    if let Some(client_id) = below(&request.path, "/admin/sessions") {
        return sessions::respond(context, request, client_id).await;
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
            Ok(HttpResponse::json(
                200,
                &context.services.stats.state().await,
            ))
        }
        "/admin/procedures" => procedures(context, request),
        "/admin/sinks" => sinks(context, request),
        "/admin/subscribers" => subscribers::respond(context, request),
        "/admin/series" => series::respond(context, request).await,
        "/admin/clock" => clock::respond(context, request),
        other => Err(HttpError::NotFound(other.to_owned())),
    }
}

/// The operations of an operator; `None` for the path of something else.
async fn operate(
    context: &Arc<HttpContext>,
    operations: &Operations,
    request: &HttpRequest,
) -> Option<Result<HttpResponse, HttpError>> {
    let path = request.path.as_str();
    if let Some(rest) = below(path, "/admin/quarantine") {
        return Some(quarantine::respond(context, operations, request, rest).await);
    }
    if let Some(id) = below(path, "/admin/messages") {
        return Some(messages::respond(operations, request, id).await);
    }
    if let Some(scope) = below(path, "/admin/scopes") {
        return Some(scopes::respond(operations, request, scope).await);
    }
    if let Some(name) = below(path, "/admin/scores") {
        return Some(scores::respond(operations, request, name).await);
    }
    if let Some(address) = below(path, "/admin/senders") {
        return Some(senders::respond(operations, request, address).await);
    }
    if let Some(recipient) = below(path, "/admin/digests/stopped") {
        return Some(digests::respond(operations, request, recipient).await);
    }
    if let Some(file) = below(path, "/admin/procedures/files") {
        return Some(procedure_files::respond(operations, request, file).await);
    }
    let response = match path {
        "/admin/log" => server::log(operations, request),
        "/admin/settings" => server::settings(operations, request),
        "/admin/learn" => rules::learn(operations, request).await,
        "/admin/rules" => rules::rules(operations, request),
        "/admin/rules/slowest" => rules::slowest(operations, request).await,
        "/admin/changes" => audit::respond(operations, request).await,
        "/admin/reload" => rules::reload(operations, request).await,
        _ => return None,
    };
    Some(response)
}

/// The path after `folder` and a slash; empty for the folder itself.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() {
        return Some(rest);
    }
    rest.strip_prefix('/').filter(|rest| !rest.is_empty())
}

/// A request's body, which must be a JSON object of this form.
fn body<T: serde::de::DeserializeOwned>(request: &HttpRequest) -> Result<T, HttpError> {
    let kind = request.field("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    // A form of another origin cannot send this type without a preflight request.
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(HttpError::MediaType("application/json"));
    }
    crate::http::request::json_object(&request.body)
}

/// The number of items requested by `count=`.
fn count_of(request: &HttpRequest) -> Result<usize, HttpError> {
    parameters::count_of(request, COUNT_DEFAULT, COUNT_MAX)
}

/// The node of a cluster that `node=` chooses; `None` for all.
fn node_of(request: &HttpRequest) -> Result<Option<u8>, HttpError> {
    let text = request.query_value("node").filter(|text| !text.is_empty());
    let number = |text: &String| (1..=u8::MAX).find(|number| number.to_string() == *text);
    match text.as_ref().map(number) {
        None => Ok(None),
        Some(Some(number)) => Ok(Some(number)),
        Some(None) => Err(HttpError::Parameter {
            name: "node",
            detail: "write the number of a node, from 1 to 255".to_owned(),
        }),
    }
}

/// The number of items to skip, by `skip=`, so that a list can be paged through.
fn skip_of(request: &HttpRequest) -> Result<usize, HttpError> {
    parameters::skip_of(request)
}

/// `/healthz`: the process answers. `/readyz`: the server is not shutting down, and can store
/// messages; the response also reports whether rules are still being loaded, for which mail waits,
/// and whether this node is separated from its cluster, without which it serves its own clients.
pub(in crate::http) fn health(
    context: &HttpContext,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    if request.path == "/readyz" && context.drain.is_draining() {
        return Err(HttpError::Busy("the server is shutting down"));
    }
    if request.path == "/readyz"
        && let Err(error) = context.services.store.readiness()
    {
        tracing::debug!(target: "http", %error, "not ready");
        return Err(HttpError::Busy(
            "no message can be stored; the log says why",
        ));
    }
    let rules = context.services.gateway.procedures().rules().state();
    let mut text = "ok\n".to_owned();
    if request.path == "/readyz" {
        if rules == RulesState::Loading {
            text.push_str("loading: rules\n");
        }
        let nodes = context.services.broker.nodes_status();
        if nodes.is_some_and(|nodes| nodes.trouble.is_some() || nodes.unreadable > 0) {
            // The reason names addresses, and needs no login here: the log and /metrics have it.
            text.push_str("degraded: backbone\n");
        }
    }
    Ok(HttpResponse::new(200, "text/plain; charset=utf-8", text).with("Cache-Control", "no-store"))
}

/// `/metrics`, in Prometheus' text format.
pub(in crate::http) fn metrics(
    context: &HttpContext,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    access::expect_admin(context, request)?;
    let mut text = String::with_capacity(8 << 10);
    context.push_metrics(&mut text);
    Ok(HttpResponse::new(
        200,
        "text/plain; version=0.0.4; charset=utf-8",
        text,
    ))
}

/// `/admin/sinks`: the status of each sink.
fn sinks(context: &HttpContext, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let sinks = context.services.sinks.as_ref();
    let sinks = sinks.map_or_else(Vec::new, Sinks::status);
    Ok(HttpResponse::json(
        200,
        &serde_json::json!({ "sinks": sinks }),
    ))
}

/// `/status`: the procedures' counters.
pub(in crate::http) fn procedures(
    context: &HttpContext,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let status = context.services.gateway.procedures().status();
    Ok(HttpResponse::json(200, &status))
}
