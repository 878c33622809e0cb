//! `POST /call/PROCEDURE`: the body is the message, the query holds the arguments, the answer is
//! the verdict. Nothing is published.

use std::sync::Arc;

use gatepost_message::{Action, Format, Message, Verdict};
use gatepost_procedures::{ProcedureArguments, ProcedureCallError};

use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;
use crate::http::verdict::{add_retry_after, status_of, verdict_json};

/// Runs a procedure on the request's body.
pub(in crate::http) async fn respond(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    procedure: &str,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["POST", "PUT"], "POST, PUT")?;
    access::expect_call(request, procedure)?;
    let message = Message::new(
        request.envelope(),
        None,
        format_of(request),
        request.body.clone(),
    );
    let id = message.id;
    let path = format!("/{procedure}");
    let arguments: ProcedureArguments = request.query_values().into_iter().collect();
    let procedures = context.services.gateway.procedures();
    let verdict = match procedures.call(&path, Arc::new(message), arguments).await {
        Ok(answer) => answer.verdict,
        Err(ProcedureCallError::NoSuchProcedure) => return Err(HttpError::NoProcedure(path)),
        Err(error @ ProcedureCallError::Busy) => Verdict::new(Action::Defer, error.to_string()),
    };
    let mut response = HttpResponse::json(status_of(verdict.action), &verdict_json(id, &verdict));
    add_retry_after(context, verdict.action, &mut response);
    response.message = Some(id);
    Ok(response)
}

/// A body is mail if its type is that of a mail, and also if it has no type: the pipe of a mail
/// filter sends none, and most procedures read header fields.
fn format_of(request: &HttpRequest) -> Format {
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
