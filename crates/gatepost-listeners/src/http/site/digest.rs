//! `/gatepost/digest`: the page by which a recipient stops the digests of the quarantine.
//!
//! The ticket in the link is the permission, as for `/gatepost/release`. A mail program may stop
//! the digests without the page, by a request that only says so (RFC 8058, section 3.2).

use std::sync::Arc;

use gatepost_operations::quarantine_digest::DigestRecipient;
use gatepost_operations::{AdminChange, Operations};
use serde_json::json;

use super::multipart;
use super::plain_page::PlainPage;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::origin;
use crate::http::request::{HttpRequest, expect_method, parse_form};
use crate::http::response::HttpResponse;

/// The path of the page.
pub(super) const PATH: &str = "/gatepost/digest";
/// The name of the ticket in the link and in the form.
const TICKET: &str = "ticket";

/// The page with the form, or the outcome of the form.
pub(in crate::http) async fn respond(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD", "POST"], "GET, HEAD, POST")?;
    let operations = context.operations();
    let operations = operations.ok_or_else(|| HttpError::NotFound(request.path.clone()))?;
    let mut ticket = request.query_value(TICKET).unwrap_or_default();
    let mut wanted = None;
    if request.method() == "POST" {
        origin::expect_own(request)?;
        for (name, value) in fields(request) {
            match (name.as_str(), value.as_str()) {
                (TICKET, _) => ticket = value,
                ("List-Unsubscribe", "One-Click") | ("action", "stop") => wanted = Some(false),
                ("action", "start") => wanted = Some(true),
                _ => {}
            }
        }
    }
    let Some(mut recipient) = operations.digest_recipient(ticket.clone()).await? else {
        let mut page = begin();
        page.markup(
            "<p role=\"status\">This link is not valid. Open the whole link of the mail, as one \
             line.</p>\n",
        );
        return Ok(page.end(403));
    };
    if let Some(is_on) = wanted {
        operations.switch_digests(&recipient, is_on).await?;
        recipient.is_on = is_on;
        audit(operations, request, &recipient).await;
    }
    Ok(form(&ticket, &recipient))
}

/// The fields of the form, in either coding: mail programs prefer `multipart/form-data` (RFC 8058,
/// section 3.2).
fn fields(request: &HttpRequest) -> Vec<(String, String)> {
    let kind = request.field("content-type").unwrap_or_default();
    multipart::fields(kind, &request.body)
        .unwrap_or_else(|| parse_form(&String::from_utf8_lossy(&request.body)))
}

fn form(ticket: &str, recipient: &DigestRecipient) -> HttpResponse {
    let (state, action, label) = if recipient.is_on {
        ("are sent", "stop", "Stop the digests")
    } else {
        ("are not sent", "start", "Send digests again")
    };
    let mut page = begin();
    page.markup("<p role=\"status\">Digests of the quarantine ");
    page.markup(state);
    page.markup(" to <b dir=\"auto\">");
    page.text(&recipient.name);
    page.markup("</b>.</p>\n<form method=\"post\" action=\"/gatepost/digest\">\n");
    page.hidden(TICKET, ticket);
    page.markup(
        "<p class=\"actions\"><button type=\"submit\" class=\"main\" name=\"action\" value=\"",
    );
    page.markup(action);
    page.markup("\">");
    page.markup(label);
    page.markup("</button></p>\n</form>\n");
    page.end(200)
}

fn begin() -> PlainPage {
    let mut page = PlainPage::begin("Digests of the quarantine", "release", None);
    page.brand("Digests of the quarantine");
    page
}

async fn audit(operations: &Operations, request: &HttpRequest, recipient: &DigestRecipient) {
    let action = if recipient.is_on {
        "start digests by link"
    } else {
        "stop digests by link"
    };
    let change = AdminChange {
        user: None,
        peer: request.peer,
        action: action.to_owned(),
        details: json!({ "recipient": recipient.name }),
    };
    operations.audit(change).await;
}

#[cfg(test)]
mod tests {
    use gatepost_message::Peer;

    use super::*;
    use crate::http::request::HttpVersion;

    #[test]
    fn a_one_click_request_has_either_coding() {
        for (kind, body) in [
            (
                "application/x-www-form-urlencoded",
                "List-Unsubscribe=One-Click",
            ),
            (
                "multipart/form-data; boundary=b",
                "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\n\
                 One-Click\r\n--b--\r\n",
            ),
        ] {
            let head = [("content-type", kind.as_bytes())].into_iter();
            let mut request = HttpRequest::new(
                ("POST", PATH),
                (PATH, ""),
                head,
                HttpVersion::Http11,
                Peer::Local,
            )
            .expect("a request");
            request.body = body.into();
            let expected = ("List-Unsubscribe".to_owned(), "One-Click".to_owned());
            assert_eq!(fields(&request), [expected], "{kind}");
        }
    }
}
