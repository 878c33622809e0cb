//! `/admin/sessions`: the MQTT sessions, connected or not, and how an administrator ends one.

use gatepost_broker::SessionStats;
use serde_json::{Value, json};

use super::count_of;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::Response;

/// `/admin/sessions`, `/admin/sessions/CLIENT_ID`
pub(super) async fn respond(
    context: &HttpContext,
    request: &HttpRequest,
    client_id: &str,
) -> Result<Response, HttpError> {
    let broker = &context.services.broker;
    if client_id.is_empty() {
        expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
        let search = request.query_value("search").unwrap_or_default();
        let sessions = broker.sessions(&search, count_of(request)?);
        let sessions: Vec<Value> = sessions.iter().map(shown).collect();
        return Ok(Response::json(200, &json!({ "sessions": sessions })));
    }
    expect_method(request, &["DELETE"], "DELETE")?;
    let user = request.query_value("user");
    let ended = broker.end_sessions(client_id, user.as_deref()).await;
    let ended = ended.map_err(|error| HttpError::Unavailable(error.to_string()))?;
    if ended == 0 {
        return Err(HttpError::NotFound(format!("a session of {client_id}")));
    }
    Ok(Response::json(200, &json!({ "ended": ended })))
}

fn shown(session: &SessionStats) -> Value {
    json!({
        "client": session.client,
        "user": session.user,
        "kind": session.kind,
        "connected": session.connected,
        "subscriptions": session.subscriptions,
        "queued": session.queued,
    })
}
