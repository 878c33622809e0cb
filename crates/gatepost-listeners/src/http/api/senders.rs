//! `/v1/senders`: the senders that a user allows or blocks for the user's own mailbox. An
//! administrator may name another user by `user=`.

use gatepost_gateway::{MalformedSenderPattern, SenderListError, SenderListing, SenderPattern};
use gatepost_users::{ListenerAuth, LoginRefusal};
use serde_json::{Value, json};

use super::admin;
use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// `/v1/senders`, `/v1/senders/ENTRY`
pub(in crate::http) async fn respond(
    context: &HttpContext,
    request: &HttpRequest,
    entry: Option<&str>,
) -> Result<HttpResponse, HttpError> {
    let user = user_of(context, request)?;
    let Some(entry) = entry else {
        expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
        return Ok(list(context, &user));
    };
    expect_method(request, &["PUT", "DELETE"], "PUT, DELETE")?;
    let entry: SenderPattern =
        entry
            .parse()
            .map_err(|error: MalformedSenderPattern| HttpError::Parameter {
                name: "entry",
                detail: error.to_string(),
            })?;
    let gateway = &context.services.gateway;
    let is_own = request.user() == Some(user.as_str());
    if request.method() == "DELETE" {
        let entries = gateway.senders_of(&user);
        if !entries.iter().any(|(known, _)| *known == entry) {
            return Err(HttpError::Missing(format!("there is no entry {entry}")));
        }
        gateway.list_sender(&user, &entry, None).await?;
    } else {
        let listing = request.query_value("list").unwrap_or_default();
        let listing = SenderListing::from_name(&listing).ok_or(HttpError::Parameter {
            name: "list",
            detail: "write allow or block".to_owned(),
        })?;
        gateway.list_sender(&user, &entry, Some(listing)).await?;
    }
    if !is_own {
        admin::record(context, request).await;
    }
    Ok(list(context, &user))
}

/// The user whose list is meant.
fn user_of(context: &HttpContext, request: &HttpRequest) -> Result<String, HttpError> {
    let named = request.query_value("user").filter(|name| !name.is_empty());
    let Some(named) = named else {
        let user = request.user().map(str::to_owned);
        return user.ok_or_else(|| unnamed(context));
    };
    if request.user() != Some(named.as_str()) {
        access::expect_admin(context, request)?;
    }
    let users = context.auth.as_ref().map(|auth| auth.users().list());
    let known = users
        .unwrap_or_default()
        .into_iter()
        .find(|user| user.name == named);
    known
        .map(|user| user.name)
        .ok_or_else(|| HttpError::Missing(format!("there is no user {named:?}")))
}

/// The error for a client without a login that names no user.
fn unnamed(context: &HttpContext) -> HttpError {
    if context.auth.as_ref().is_some_and(ListenerAuth::any_user) {
        return HttpError::Denied(LoginRefusal::Anonymous);
    }
    HttpError::Parameter {
        name: "user",
        detail: "name the user of the mailbox, or log in".to_owned(),
    }
}

fn list(context: &HttpContext, user: &str) -> HttpResponse {
    let entries = context.services.gateway.senders_of(user);
    let entries: Vec<Value> = entries
        .iter()
        .map(|(entry, listing)| json!({ "entry": entry.to_string(), "list": listing.name() }))
        .collect();
    HttpResponse::json(200, &json!({ "user": user, "entries": entries }))
        .with("Cache-Control", "no-store")
}

impl From<SenderListError> for HttpError {
    fn from(error: SenderListError) -> Self {
        match error {
            SenderListError::Full => Self::Conflict(error.to_string()),
            SenderListError::Store(_) => Self::Unavailable(error.to_string()),
        }
    }
}
