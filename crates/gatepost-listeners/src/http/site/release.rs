//! `/gatepost/release`: the page to which the links in digests of the quarantine lead.
//!
//! The ticket in the link is the permission, so no login is needed. Opening the page changes
//! nothing, since programs that scan mail open every link; only its form releases the message.

use std::sync::Arc;

use gatepost_message::Action;
use gatepost_operations::quarantine_digest::{ReleaseTicket, TicketRefusal};
use gatepost_operations::{AdminChange, OperationError, Operations};
use serde_json::json;

use super::release_page::{self, ReleaseForm};
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::origin;
use crate::http::request::{HttpRequest, expect_method, parse_form};
use crate::http::response::HttpResponse;

/// The path of the page.
pub(super) const PATH: &str = "/gatepost/release";
/// The name of the ticket in the link and in the form.
const TICKET: &str = "ticket";

/// The page with the message, and its form.
pub(in crate::http) async fn respond(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD", "POST"], "GET, HEAD, POST")?;
    let operations = context.operations();
    let operations = operations.ok_or_else(|| HttpError::NotFound(request.path.clone()))?;
    if request.method() == "POST" {
        return release(operations, request).await;
    }
    let text = request.query_value(TICKET).unwrap_or_default();
    let ticket = match operations.release_ticket(text.clone()).await? {
        Ok(ticket) => ticket,
        Err(refusal) => return Ok(refused(refusal)),
    };
    match operations.ticket_message(&ticket).await {
        Ok(kept) => Ok(release_page::form(&ReleaseForm {
            ticket: &text,
            recipient: &ticket.recipient,
            kept: &kept,
        })),
        Err(OperationError::NotFound) => Ok(release_page::gone()),
        Err(error) => Err(error.into()),
    }
}

async fn release(
    operations: &Operations,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    origin::expect_own(request)?;
    let (mut text, mut allows_sender) = (String::new(), false);
    for (name, value) in parse_form(&String::from_utf8_lossy(&request.body)) {
        match name.as_str() {
            TICKET => text = value,
            "action" => allows_sender = value == "allow",
            _ => {}
        }
    }
    let ticket = match operations.release_ticket(text).await? {
        Ok(ticket) => ticket,
        Err(refusal) => return Ok(refused(refusal)),
    };
    let outcome = match operations.release_by_ticket(&ticket, allows_sender).await {
        Ok(outcome) => outcome,
        Err(OperationError::NotFound) => return Ok(release_page::gone()),
        Err(OperationError::Nowhere(reason)) => return Ok(release_page::failed(&reason)),
        Err(error) => return Err(error.into()),
    };
    if outcome.released.verdict.action != Action::Accept {
        return Ok(release_page::failed(&outcome.released.verdict.reason));
    }
    let allowed = outcome.allowed_sender.as_deref();
    audit(operations, request, &ticket, allowed).await;
    Ok(release_page::released(&ticket.recipient, allowed))
}

fn refused(refusal: TicketRefusal) -> HttpResponse {
    match refusal {
        TicketRefusal::Forged => release_page::forged(),
        TicketRefusal::Expired => release_page::expired(),
    }
}

async fn audit(
    operations: &Operations,
    request: &HttpRequest,
    ticket: &ReleaseTicket,
    allowed_sender: Option<&str>,
) {
    let change = AdminChange {
        user: None,
        peer: request.peer,
        action: "release by link".to_owned(),
        details: json!({
            "id": ticket.id.to_string(),
            "recipient": ticket.recipient,
            "allowed_sender": allowed_sender,
        }),
    };
    operations.audit(change).await;
}
