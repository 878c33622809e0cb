//! `POST /call/PROCEDURE`: the body is the message, the query holds the arguments, the answer is
//! the verdict. Nothing is published.

use std::sync::Arc;

use gatepost_message::{Action, Format, Message};

use super::HttpContext;
use super::error::HttpError;
use super::request::Request;
use super::response::Response;
use super::routes::expect_method;
use super::topics::{status_of, verdict_json};

/// Has a procedure judge the request's body.
pub(super) async fn respond(
    context: &Arc<HttpContext>,
    request: &Request,
    procedure: &str,
) -> Result<Response, HttpError> {
    expect_method(request, &["POST", "PUT"], "POST, PUT")?;
    let message = Message::new(
        request.envelope(),
        None,
        format_of(request),
        request.body.clone(),
    );
    let id = message.id;
    let path = format!("/{procedure}");
    let verdict = context
        .rooms
        .judge(&path, message, request.parameters())
        .await
        .ok_or(HttpError::NoProcedure(path))?;
    let mut response = Response::json(status_of(verdict.action), &verdict_json(id, &verdict));
    if verdict.action == Action::Defer {
        let seconds = context.settings.retry_after.duration().as_secs();
        response.field("Retry-After", seconds.to_string());
    }
    response.message = Some(id);
    Ok(response)
}

/// A body is mail where its type says so, and also where no type is told: a mail filter's pipe
/// names none, and header fields are what most procedures look at.
fn format_of(request: &Request) -> Format {
    match request.field("content-type") {
        Some(kind)
            if !kind.starts_with("message/rfc822")
                && !kind.starts_with("application/x-www-form-urlencoded") =>
        {
            Format::Payload
        }
        _ => Format::Mail,
    }
}
