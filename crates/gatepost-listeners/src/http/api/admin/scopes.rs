//! `/admin/scopes`: the scopes, each tried on a message without any effect.

use gatepost_message::Topic;
use gatepost_operations::{Operations, TriedMessage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body;
use super::quarantine::message_id;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;
use crate::http::verdict::verdict_json;

/// The body of a POST: a stored message by its id, or a text with the envelope of a mail or with a
/// topic.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct ScopeTrialBody {
    id: Option<String>,
    text: String,
    sender: String,
    recipients: Vec<String>,
    topic: Option<String>,
    /// The path of a procedure, and its text for this trial.
    edited: Option<(String, String)>,
}

/// `/admin/scopes`, `/admin/scopes/PATH`
pub(super) async fn respond(
    operations: &Operations,
    request: &HttpRequest,
    path: &str,
) -> Result<HttpResponse, HttpError> {
    if path.is_empty() {
        expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
        let scopes = operations.scopes().into_iter();
        let scopes = scopes.map(|(path, run)| json!({ "path": path, "run": run }));
        let scopes: Vec<Value> = scopes.collect();
        let messages = operations.trial_messages().await?;
        let answer = json!({ "scopes": scopes, "messages": messages });
        return Ok(HttpResponse::json(200, &answer).with("Cache-Control", "no-store"));
    }
    expect_method(request, &["POST"], "POST")?;
    let mut trial: ScopeTrialBody = body(request)?;
    let edited = trial.edited.take();
    let message = message_of(request, trial)?;
    let tried = operations.try_scope(format!("/{path}"), message, edited);
    let tried = tried.await?;
    let verdict = tried.verdict.as_ref();
    let verdict = verdict.map(|(id, verdict)| verdict_json(*id, verdict));
    let answer = json!({ "problems": tried.problems, "steps": tried.steps, "verdict": verdict });
    Ok(HttpResponse::json(200, &answer))
}

fn message_of(request: &HttpRequest, trial: ScopeTrialBody) -> Result<TriedMessage, HttpError> {
    let text = trial.text;
    if let Some(id) = &trial.id {
        return Ok(TriedMessage::Stored(message_id(request, id)?));
    }
    let Some(topic) = trial.topic.filter(|topic| !topic.is_empty()) else {
        return Ok(TriedMessage::Mail {
            text,
            sender: trial.sender,
            recipients: trial.recipients,
        });
    };
    let topic = Topic::new(&topic).map_err(|error| HttpError::Parameter {
        name: "topic",
        detail: error.to_string(),
    })?;
    Ok(TriedMessage::Payload { text, topic })
}
