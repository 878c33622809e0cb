//! `/admin/messages`: the journal, searched and paged through, and the story of one message.

use std::time::UNIX_EPOCH;

use gatepost_message::{Action, TopicFilter, UnknownAction};
use gatepost_operations::{Operations, Search};
use serde_json::json;

use super::quarantine::message_id;
use super::{count_of, node_of};
use crate::http::error::HttpError;
use crate::http::parameters::time_of;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// `/admin/messages`, `/admin/messages/ID`
pub(super) async fn respond(
    operations: &Operations,
    request: &HttpRequest,
    id: &str,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    if !id.is_empty() {
        let story = operations
            .story(message_id(request, id)?, node_of(request)?)
            .await?;
        return Ok(HttpResponse::json(200, &story));
    }
    let page = operations
        .messages(search_of(request)?, node_of(request)?)
        .await?;
    let next_time = page.next.map(|next| {
        let since_epoch = next.time().duration_since(UNIX_EPOCH);
        since_epoch.unwrap_or_default().as_millis() as u64
    });
    let mut answer = json!({
        "messages": page.messages,
        "next": page.next.map(|next| next.to_string()),
        "next_unix_ms": next_time,
        "compared": page.compared,
    });
    if let Some(unanswered) = page.unanswered {
        answer["unanswered"] = json!(unanswered);
    }
    Ok(HttpResponse::json(200, &answer))
}

fn search_of(request: &HttpRequest) -> Result<Search, HttpError> {
    let given = |name| request.query_value(name).filter(|text| !text.is_empty());
    let verdict = given("verdict").map(|text| text.parse::<Action>());
    let verdict = verdict.transpose().map_err(|error: UnknownAction| {
        let detail = error.to_string();
        HttpError::Parameter {
            name: "verdict",
            detail,
        }
    })?;
    let before = given("before").map(|text| text.parse());
    let before = before.transpose().map_err(|_| HttpError::Parameter {
        name: "before",
        detail: "write the id of a message".to_owned(),
    })?;
    let topic = given("topic").map(|text| TopicFilter::new(&text));
    Ok(Search {
        text: request.query_value("search").unwrap_or_default(),
        verdict,
        rule: given("rule").unwrap_or_default(),
        topic: topic.transpose()?,
        sender: given("sender").unwrap_or_default(),
        since: time_of(request, "since")?,
        until: time_of(request, "until")?,
        before,
        count: count_of(request)?,
    })
}
