//! `/admin/quarantine`: the messages in quarantine, and the actions of operators on them.
//!
//! A quarantined message is hostile until proven otherwise: its source is sent as plain text that
//! no browser interprets, and excerpts are shown as text, never as markup.

use gatepost_learning::bayes::Class;
use gatepost_message::MessageId;
use gatepost_operations::{
    DecisionOutcome, OperationError, Operations, QuarantineDecision, QuarantineOrder,
    QuarantineSearch, ReleaseRequest,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::rules::class_of;
use super::{body, count_of, node_of, skip_of};
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;
use crate::http::verdict::{add_retry_after, status_of};

/// `/admin/quarantine/…`
pub(super) async fn respond(
    context: &HttpContext,
    operations: &Operations,
    request: &HttpRequest,
    rest: &str,
) -> Result<HttpResponse, HttpError> {
    if rest.is_empty() {
        expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
        return list(operations, request).await;
    }
    let (id, what) = rest.split_once('/').unwrap_or((rest, ""));
    let id = message_id(request, id)?;
    match what {
        "" => one(context, operations, request, id).await,
        "source" => source(operations, request, id).await,
        "release" => release(context, operations, request, id).await,
        "learn" => {
            expect_method(request, &["POST"], "POST")?;
            let decision = match class_of(request)? {
                Class::Spam => QuarantineDecision::LearnSpam,
                Class::Ham => QuarantineDecision::LearnHam,
            };
            decide(context, operations, id, decision).await
        }
        "allow-sender" => {
            expect_method(request, &["POST"], "POST")?;
            decide(context, operations, id, QuarantineDecision::AllowSender).await
        }
        _ => Err(HttpError::NotFound(request.path.clone())),
    }
}

async fn list(operations: &Operations, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
    let order = match request.query_value("sort").as_deref() {
        None | Some("" | "newest") => QuarantineOrder::Newest,
        Some("oldest") => QuarantineOrder::Oldest,
        Some("score") => QuarantineOrder::Score,
        Some("size") => QuarantineOrder::Size,
        Some("sender") => QuarantineOrder::Sender,
        Some(_) => {
            return Err(HttpError::Parameter {
                name: "sort",
                detail: "write newest, oldest, score, size or sender".to_owned(),
            });
        }
    };
    let search = QuarantineSearch {
        text: request.query_value("search").unwrap_or_default(),
        order,
        skip: skip_of(request)?,
        count: count_of(request)?,
    };
    let page = operations.quarantine(search, node_of(request)?).await?;
    let mut answer = json!({
        "messages": page.messages,
        "found": page.found,
        "total": page.total,
    });
    if let Some(unanswered) = page.unanswered {
        answer["unanswered"] = json!(unanswered);
    }
    Ok(HttpResponse::json(200, &answer))
}

/// The body of a release, which may be missing.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ReleaseBody {
    /// Recipients in place of the message's own.
    recipients: Option<Vec<String>>,
    as_attachment: bool,
}

async fn release(
    context: &HttpContext,
    operations: &Operations,
    request: &HttpRequest,
    id: MessageId,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["POST"], "POST")?;
    let how: ReleaseBody = if request.body.is_empty() {
        ReleaseBody::default()
    } else {
        body(request)?
    };
    let how = ReleaseRequest {
        recipients: how.recipients,
        as_attachment: how.as_attachment,
        stays_quarantined: false,
    };
    decide(context, operations, id, QuarantineDecision::Release(how)).await
}

/// Carries out a decision.
async fn decide(
    context: &HttpContext,
    operations: &Operations,
    id: MessageId,
    decision: QuarantineDecision,
) -> Result<HttpResponse, HttpError> {
    let decided = operations.decide(id, decision);
    let id = id.to_string();
    let released = match decided.await? {
        DecisionOutcome::Deleted => return Ok(HttpResponse::empty(204)),
        DecisionOutcome::Learned(learned) => {
            let answer = json!({ "id": id, "learned": learned });
            return Ok(HttpResponse::json(200, &answer));
        }
        DecisionOutcome::Allowed(sender) => {
            let answer = json!({ "id": id, "sender": sender });
            return Ok(HttpResponse::json(200, &answer));
        }
        DecisionOutcome::Released(released) => released,
    };
    let mut answer = json!({
        "id": id,
        "verdict": released.verdict.action.name(),
        "subscribers": released.subscribers,
        "destinations": released.destinations,
    });
    let action = released.verdict.action;
    let status = status_of(action);
    if status != 200 {
        answer["reason"] = Value::from(released.verdict.reason);
    }
    let mut response = HttpResponse::json(status, &answer);
    add_retry_after(context, action, &mut response);
    Ok(response)
}

async fn one(
    context: &HttpContext,
    operations: &Operations,
    request: &HttpRequest,
    id: MessageId,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD", "DELETE"], "GET, HEAD, DELETE")?;
    if request.method() == "DELETE" {
        return decide(context, operations, id, QuarantineDecision::Delete).await;
    }
    let message = operations.quarantined(id).await?;
    let mut answer = message.story;
    answer["text"] = Value::from(message.text);
    answer["source"] = Value::from(String::from_utf8_lossy(&message.source).into_owned());
    Ok(HttpResponse::json(200, &answer))
}

async fn source(
    operations: &Operations,
    request: &HttpRequest,
    id: MessageId,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let message = operations.quarantined(id).await?;
    Ok(
        HttpResponse::new(200, "application/octet-stream", message.source)
            .with("Cache-Control", "no-store")
            // If a browser displays the source nevertheless, the page has no permissions.
            .with("Content-Security-Policy", "default-src 'none'; sandbox")
            .with(
                "Content-Disposition",
                format!("attachment; filename=\"{id}.eml\""),
            ),
    )
}

pub(super) fn message_id(request: &HttpRequest, text: &str) -> Result<MessageId, HttpError> {
    // A text that is not an id matches no message.
    text.parse()
        .map_err(|_| HttpError::NotFound(request.path.clone()))
}

impl From<OperationError> for HttpError {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::NotFound => {
                Self::Missing("there is no message in quarantine with this id".to_owned())
            }
            OperationError::Nowhere(reason) => Self::NoTopic(reason),
            OperationError::NoSender | OperationError::Conflict(_) => {
                Self::Conflict(error.to_string())
            }
            OperationError::NoAnswer(_) => Self::Unavailable(error.to_string()),
            OperationError::NoSuchNode(_) => Self::Parameter {
                name: "node",
                detail: error.to_string(),
            },
            OperationError::Failed(detail) => Self::Unavailable(detail),
        }
    }
}
