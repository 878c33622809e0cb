//! Publications with a file, by ntfy's rules: those that name a file, and those whose body is too
//! large for a message or is not text.

use gatepost_gateway::{FileAnnouncement, FileOutcome, SubmissionOutcome};
use gatepost_message::{Message, Publication};

use super::fields::NtfyFields;
use super::is_unified_push;
use crate::admission::file_owner;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::HttpRequest;

/// The announcement of the file that the request's body is; `None` if the body is a message.
pub(super) fn announcement(
    context: &HttpContext,
    request: &HttpRequest,
    fields: &mut NtfyFields,
) -> Result<Option<FileAnnouncement>, HttpError> {
    let property = |name| fields.property(name).map(str::to_owned);
    let (name, link) = (property("filename"), property("attach"));
    if let Some(link) = link {
        return name_link(&link, name, fields).map(|()| None);
    }
    let Some(attachments) = context.services.gateway.attachments() else {
        return Ok(None);
    };
    let body = &request.body;
    if fields.is_json || body.is_empty() || is_unified_push(request) {
        return Ok(None);
    }
    let is_message = || {
        body.len() as u64 <= attachments.settings().message_max.bytes()
            && std::str::from_utf8(body).is_ok()
    };
    if name.is_none() && is_message() {
        return Ok(None);
    }
    let (client, is_anonymous) = file_owner(request.user(), request.peer);
    Ok(Some(FileAnnouncement {
        name: name.unwrap_or_default(),
        text: fields.text.take(),
        client,
        is_anonymous,
        origin: origin(request),
    }))
}

/// Checks the link of a publication without a file of its own. If there is no text, the message
/// names the file.
fn name_link(link: &str, name: Option<String>, fields: &mut NtfyFields) -> Result<(), HttpError> {
    let is_web = ["http://", "https://"].iter().any(|scheme| {
        let start = link.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    if !is_web || link.chars().any(char::is_whitespace) {
        return Err(HttpError::Parameter {
            name: "attach",
            detail: "write a link that begins with http:// or https://".to_owned(),
        });
    }
    if fields.has_no_text() {
        let path = link.split(['?', '#']).next().unwrap_or_default();
        let last = path.rsplit('/').next().unwrap_or_default().to_owned();
        let name = name.unwrap_or(last);
        let name = if name.is_empty() { "attachment" } else { &name };
        fields.text = Some(format!("You received a file: {name}"));
    }
    Ok(())
}

/// The address at which the publisher reached this server.
fn origin(request: &HttpRequest) -> String {
    let scheme = if request.secure { "https" } else { "http" };
    match request.field("host") {
        Some(host) if !host.is_empty() => format!("{scheme}://{host}"),
        _ => String::new(),
    }
}

/// Submits a message with its file, if there is one. Returns the message as subscribers got it.
pub(super) async fn submit(
    context: &HttpContext,
    message: Message,
    announcement: Option<FileAnnouncement>,
) -> Result<(SubmissionOutcome, Option<Publication>), HttpError> {
    let gateway = &context.services.gateway;
    if let Some(announcement) = announcement
        && let Some(attachments) = gateway.attachments()
    {
        let submitted = gateway.submit_file(attachments, message, announcement);
        let FileOutcome {
            outcome,
            publication,
        } = submitted.await?;
        return Ok((outcome, publication));
    }
    let publication = message.publication();
    let outcome = gateway.submit(message).await;
    let delivers = outcome.verdict.action.delivers();
    Ok((outcome, publication.filter(|_| delivers)))
}
