//! `/admin/sessions`: the MQTT sessions, connected or not, their queues, and requests to
//! disconnect, end or ban one.

use std::time::{Duration, UNIX_EPOCH};

use gatepost_broker::{SessionInspection, SubscribeOptions};
use gatepost_message::TopicFilter;
use gatepost_settings::{PeerNetwork, Period};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{bans, body, count_of, skip_of};
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// Subscriptions of one session that are listed; a session may have more.
const SUBSCRIPTIONS_MAX: usize = 1_000;

/// The body of a POST.
#[derive(Deserialize)]
#[serde(
    tag = "action",
    rename_all = "lowercase",
    deny_unknown_fields,
    expecting = "an object with action = kick or ban"
)]
enum SessionAction {
    /// Ends the connection; the session is kept for its client's next connection.
    Kick,
    /// Ends the connection, and refuses the next ones.
    Ban {
        what: BannedPart,
        /// Without a time, the ban holds until it is lifted.
        #[serde(default)]
        time: Option<Period>,
        #[serde(default)]
        reason: String,
    },
}

/// The part of a session that is banned.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BannedPart {
    Address,
    User,
}

/// `/admin/sessions`, `/admin/sessions/CLIENT_ID`
pub(super) async fn respond(
    context: &HttpContext,
    request: &HttpRequest,
    client_id: &str,
) -> Result<HttpResponse, HttpError> {
    if client_id.is_empty() {
        return list(context, request);
    }
    expect_method(
        request,
        &["GET", "HEAD", "POST", "DELETE"],
        "GET, HEAD, POST, DELETE",
    )?;
    let user = request.query_value("user");
    let user = user.as_deref();
    match request.method() {
        "DELETE" => forget(context, client_id, user).await,
        "POST" => act(context, request, client_id, user).await,
        _ => {
            let found = inspect(context, client_id, user, SUBSCRIPTIONS_MAX)?;
            let sessions: Vec<Value> = found.iter().map(whole).collect();
            Ok(HttpResponse::json(200, &json!({ "sessions": sessions })))
        }
    }
}

fn list(context: &HttpContext, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let search = request.query_value("search").unwrap_or_default();
    let (skip, count) = (skip_of(request)?, count_of(request)?);
    let (sessions, total) = context.services.broker.sessions(&search, skip, count);
    let sessions: Vec<Value> = sessions.iter().map(session_json).collect();
    let answer = json!({ "sessions": sessions, "total": total });
    Ok(HttpResponse::json(200, &answer))
}

/// The sessions of this client id; there is at least one.
fn inspect(
    context: &HttpContext,
    client_id: &str,
    user: Option<&str>,
    subscriptions_max: usize,
) -> Result<Vec<SessionInspection>, HttpError> {
    let broker = &context.services.broker;
    let found = broker.inspect(client_id, user, subscriptions_max);
    if found.is_empty() {
        return Err(no_session(client_id));
    }
    Ok(found)
}

fn no_session(client_id: &str) -> HttpError {
    HttpError::Missing(format!("there is no session of {client_id}"))
}

async fn forget(
    context: &HttpContext,
    client_id: &str,
    user: Option<&str>,
) -> Result<HttpResponse, HttpError> {
    let ended = context.services.broker.end_sessions(client_id, user).await;
    let ended = ended.map_err(|error| HttpError::Unavailable(error.to_string()))?;
    if ended == 0 {
        return Err(no_session(client_id));
    }
    Ok(HttpResponse::json(200, &json!({ "ended": ended })))
}

async fn act(
    context: &HttpContext,
    request: &HttpRequest,
    client_id: &str,
    user: Option<&str>,
) -> Result<HttpResponse, HttpError> {
    let action: SessionAction = body(request)?;
    let found = inspect(context, client_id, user, 0)?;
    let broker = &context.services.broker;
    match action {
        SessionAction::Kick => {
            let kicked = broker.end_connections(client_id, user);
            Ok(HttpResponse::json(200, &json!({ "kicked": kicked })))
        }
        SessionAction::Ban { what, time, reason } => {
            let time = time.map(Period::duration);
            let mut banned = Vec::new();
            let mut kicked = 0;
            for session in &found {
                let (ban, ended) = match what {
                    BannedPart::Address => ban_address(context, session, time, &reason).await?,
                    BannedPart::User => ban_user(context, session, time, &reason).await?,
                };
                banned.push(ban);
                kicked += ended;
            }
            let answer = json!({ "bans": banned, "kicked": kicked });
            Ok(HttpResponse::json(200, &answer))
        }
    }
}

/// Bans the network that counts as the client, and ends its MQTT connections.
async fn ban_address(
    context: &HttpContext,
    session: &SessionInspection,
    time: Option<Duration>,
    reason: &str,
) -> Result<(Value, usize), HttpError> {
    let connection = session.connection.as_ref();
    let ip = connection.and_then(|connection| connection.peer.ip());
    let Some(ip) = ip else {
        return Err(HttpError::Conflict(format!(
            "{} has no address now: it is disconnected, or connected by a Unix socket",
            session.stats.client
        )));
    };
    let network = bans::of_context(context)?.client_network(ip);
    let ban = bans::ban_network(context, network, time, reason).await?;
    let is_in = |network: PeerNetwork, ip| network.holds(ip);
    let broker = &context.services.broker;
    let ended = broker.end_connections_of(|_, peer| is_in(network, peer.ip()));
    Ok((ban, ended))
}

/// Bans the user, and ends its MQTT connections; those of other protocols end by the change of
/// rights.
async fn ban_user(
    context: &HttpContext,
    session: &SessionInspection,
    time: Option<Duration>,
    reason: &str,
) -> Result<(Value, usize), HttpError> {
    let Some(user) = &session.stats.user else {
        return Err(HttpError::Conflict(format!(
            "{} did not log in, so there is no user to ban",
            session.stats.client
        )));
    };
    bans::ban_user(context, user, time, reason).await
}

/// The entry of a session in the list.
fn session_json(session: &SessionInspection) -> Value {
    let (stats, queue) = (&session.stats, &session.queue);
    let waits_for: Vec<&str> = session.waits_for.iter().map(|cause| cause.name()).collect();
    let connection = session.connection.as_ref();
    json!({
        "client": stats.client,
        "user": stats.user,
        "kind": stats.kind,
        "connected": stats.connected,
        "address": connection.map(|connection| connection.peer.to_string()),
        "protocol": connection.map(|connection| connection.protocol.as_str()),
        "subscriptions": stats.subscriptions,
        "queued": stats.queued,
        "queued_bytes": queue.waiting_bytes + queue.outbox_bytes,
        "in_flight": queue.in_flight,
        "delivered": stats.delivered,
        "dropped": stats.dropped,
        "waits_for": waits_for,
        "slows_publishers_seconds": session.slows_publishers_for.map(|time| time.as_secs()),
    })
}

/// The details of one session.
fn whole(session: &SessionInspection) -> Value {
    let mut answer = session_json(session);
    let queue = &session.queue;
    let connection = session.connection.as_ref().map(|connection| {
        let since = connection.since.duration_since(UNIX_EPOCH);
        json!({
            "address": connection.peer.to_string(),
            "protocol": connection.protocol,
            "since": since.unwrap_or_default().as_secs(),
            "silent_seconds": connection.silent_for.as_secs(),
            "silence_max_seconds": connection.silence_max.map(|time| time.as_secs()),
            "in_flight_max": connection.in_flight_max,
            "packet_bytes_max": connection.frame_bytes_max,
        })
    });
    let dropped_by = session.stats.dropped_by.iter();
    let dropped_by = dropped_by.map(|(cause, count)| (cause.name().to_owned(), json!(count)));
    answer["connection"] = json!(connection);
    answer["expiry_seconds"] = json!(session.expiry.as_secs());
    answer["expires_in_seconds"] = json!(session.expires_in.map(|time| time.as_secs()));
    answer["stored"] = json!(session.is_stored);
    answer["queue"] = json!({
        "waiting": queue.waiting,
        "waiting_bytes": queue.waiting_bytes,
        "in_flight": queue.in_flight,
        "unreleased": queue.unreleased,
        "outbox": queue.outbox,
        "outbox_bytes": queue.outbox_bytes,
    });
    answer["dropped_by"] = Value::Object(dropped_by.collect());
    answer["will"] = json!(session.will);
    let filters = session.subscriptions.iter();
    answer["filters"] = filters
        .map(|(filter, options)| subscription(filter, *options))
        .collect();
    answer
}

fn subscription(filter: &TopicFilter, options: SubscribeOptions) -> Value {
    json!({
        "filter": filter.as_str(),
        "qos": options.qos as u8,
        "no_local": options.no_local,
        "retain_as_published": options.retain_as_published,
        "identifier": options.identifier,
    })
}
