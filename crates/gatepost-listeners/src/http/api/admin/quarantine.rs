//! `/admin/quarantine` and `/admin/messages`: what was judged, what is in quarantine, and what an
//! operator does with it.
//!
//! A quarantined message is hostile until proven otherwise: its source is sent as plain text that
//! no browser interprets, and what is shown of it is text, never markup.

use gatepost_message::MessageId;
use gatepost_operations::{Lesson, OperationError, Operations, Search};
use serde_json::{Value, json};

use super::count_of;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::Response;
use crate::http::verdict::{add_retry_after, status_of};

/// `/admin/messages`, `/admin/messages/ID`
pub(super) async fn messages(
    operations: &Operations,
    request: &HttpRequest,
    id: Option<&str>,
) -> Result<Response, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    if let Some(id) = id {
        return Ok(Response::json(
            200,
            &operations.story(message_id(request, id)?).await?,
        ));
    }
    let verdict = request
        .query_value("verdict")
        .filter(|text| !text.is_empty());
    let search = Search {
        text: request.query_value("search").unwrap_or_default(),
        verdict: verdict.map(|text| text.parse()).transpose().map_err(
            |error: gatepost_message::UnknownAction| HttpError::Parameter {
                name: "verdict",
                detail: error.to_string(),
            },
        )?,
        count: count_of(request)?,
    };
    let messages = operations.messages(search).await?;
    Ok(Response::json(200, &json!({ "messages": messages })))
}

/// `/admin/quarantine/…`
pub(super) async fn respond(
    context: &HttpContext,
    operations: &Operations,
    request: &HttpRequest,
    rest: &str,
) -> Result<Response, HttpError> {
    if rest.is_empty() {
        expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
        let messages = operations.quarantine(count_of(request)?).await?;
        return Ok(Response::json(200, &json!({ "messages": messages })));
    }
    let (id, what) = rest.split_once('/').unwrap_or((rest, ""));
    let id = message_id(request, id)?;
    match what {
        "" => one(operations, request, id).await,
        "source" => source(operations, request, id).await,
        "release" => {
            expect_method(request, &["POST"], "POST")?;
            let (verdict, subscribers) = operations.release(id).await?;
            let mut answer = json!({
                "id": id.to_string(),
                "verdict": verdict.action.name(),
                "subscribers": subscribers,
            });
            let action = verdict.action;
            let status = status_of(action);
            if status != 200 {
                answer["reason"] = Value::from(verdict.reason);
            }
            let mut response = Response::json(status, &answer);
            add_retry_after(context, action, &mut response);
            Ok(response)
        }
        "learn" => {
            expect_method(request, &["POST"], "POST")?;
            let lesson = match request.query_value("as").as_deref() {
                Some("spam") => Lesson::Spam,
                Some("ham") => Lesson::Ham,
                _ => {
                    return Err(HttpError::Parameter {
                        name: "as",
                        detail: "write spam or ham".to_owned(),
                    });
                }
            };
            let learned = operations.learn(id, lesson).await?;
            Ok(Response::json(
                200,
                &json!({ "id": id.to_string(), "learned": learned }),
            ))
        }
        "allow-sender" => {
            expect_method(request, &["POST"], "POST")?;
            let sender = operations.allow_sender_of(id).await?;
            Ok(Response::json(
                200,
                &json!({ "id": id.to_string(), "sender": sender }),
            ))
        }
        _ => Err(HttpError::NotFound(request.path.clone())),
    }
}

async fn one(
    operations: &Operations,
    request: &HttpRequest,
    id: MessageId,
) -> Result<Response, HttpError> {
    expect_method(request, &["GET", "HEAD", "DELETE"], "GET, HEAD, DELETE")?;
    if request.method() == "DELETE" {
        operations.delete(id).await?;
        return Ok(Response::empty(204));
    }
    let message = operations.quarantined(id).await?;
    let mut answer = message.story;
    answer["text"] = Value::from(message.text);
    answer["source"] = Value::from(String::from_utf8_lossy(&message.source).into_owned());
    Ok(Response::json(200, &answer))
}

async fn source(
    operations: &Operations,
    request: &HttpRequest,
    id: MessageId,
) -> Result<Response, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let message = operations.quarantined(id).await?;
    Ok(
        Response::new(200, "application/octet-stream", message.source)
            .with("Cache-Control", "no-store")
            // Should a browser show it after all, then as a page that can do nothing.
            .with("Content-Security-Policy", "default-src 'none'; sandbox")
            .with(
                "Content-Disposition",
                format!("attachment; filename=\"{id}.eml\""),
            ),
    )
}

fn message_id(request: &HttpRequest, text: &str) -> Result<MessageId, HttpError> {
    // What is no id names nothing.
    text.parse()
        .map_err(|_| HttpError::NotFound(request.path.clone()))
}

impl From<OperationError> for HttpError {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::NotFound => Self::NotFound("this id".to_owned()),
            OperationError::NoTopic => Self::NoTopic,
            OperationError::NoSender => Self::Conflict(error.to_string()),
            OperationError::Failed(detail) => Self::Unavailable(detail),
        }
    }
}
