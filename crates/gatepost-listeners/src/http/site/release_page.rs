//! The pages of `/gatepost/release`. They work without scripts.

use gatepost_operations::quarantine_digest::TicketMessage;
use serde_json::Value;

use super::plain_page::PlainPage;
use crate::http::response::HttpResponse;

/// Characters of the message's text that are shown.
const EXCERPT_CHARACTERS_MAX: usize = 2_000;

/// The form that releases a message.
pub(super) struct ReleaseForm<'a> {
    /// The ticket as it was sent.
    pub ticket: &'a str,
    pub recipient: &'a str,
    pub kept: &'a TicketMessage,
}

/// The page with the message and the form.
pub(super) fn form(form: &ReleaseForm<'_>) -> HttpResponse {
    let story = &form.kept.message.story;
    let text = |name: &str, missing: &'static str| -> String {
        let value = story[name].as_str().filter(|value| !value.is_empty());
        value.unwrap_or(missing).to_owned()
    };
    let mut page = begin();
    page.markup("<h2 dir=\"auto\">");
    page.text(&text("subject", "(no subject)"));
    page.markup("</h2>\n<dl class=\"facts\">");
    fact(&mut page, "From", &text("sender", "(no sender)"));
    fact(&mut page, "To", form.recipient);
    fact(&mut page, "Kept because", &text("reason", "-"));
    page.markup(
        "</dl>\n<pre class=\"excerpt\" dir=\"auto\" tabindex=\"0\" \
         aria-label=\"Text of the message\">",
    );
    page.text(&excerpt(&form.kept.message.text));
    page.markup("</pre>\n<form method=\"post\" action=\"/gatepost/release\">\n");
    page.hidden("ticket", form.ticket);
    page.markup(
        "<p class=\"actions\"><button type=\"submit\" class=\"main\" name=\"action\" \
         value=\"release\">Release</button>\n",
    );
    let has_sender = !matches!(story["sender"], Value::Null) && story["sender"] != "";
    if form.kept.mailbox.is_some() && has_sender {
        page.markup(
            "<button type=\"submit\" name=\"action\" value=\"allow\">Release, and allow the \
             sender from now on</button>\n",
        );
    }
    page.markup("</p>\n</form>\n");
    page.end(200)
}

/// The page after a release.
pub(super) fn released(recipient: &str, allowed_sender: Option<&str>) -> HttpResponse {
    let mut page = begin();
    page.markup("<p role=\"status\">The message was released to <b dir=\"auto\">");
    page.text(recipient);
    page.markup("</b>.</p>\n");
    if let Some(sender) = allowed_sender {
        page.markup("<p>Mail of <b dir=\"auto\">");
        page.text(sender);
        page.markup(
            "</b> is accepted from now on. <a href=\"/senders\">Your list of senders</a></p>\n",
        );
    }
    page.end(200)
}

/// The page for a message that is no longer in quarantine.
pub(super) fn gone() -> HttpResponse {
    notice(
        404,
        "The message is no longer in quarantine: it was released or deleted.",
    )
}

/// The page for a link that has expired.
pub(super) fn expired() -> HttpResponse {
    notice(
        410,
        "This link has expired. Your administrator can still release the message, if it is still \
         in quarantine.",
    )
}

/// The page for a link that this server has not made.
pub(super) fn forged() -> HttpResponse {
    notice(
        403,
        "This link is not valid. Open the whole link of the mail, as one line.",
    )
}

/// The page after a release that failed.
pub(super) fn failed(reason: &str) -> HttpResponse {
    let mut page = begin();
    page.markup("<p class=\"notice-line wrong\" role=\"alert\">The message was not released: ");
    page.text(reason);
    page.markup("</p>\n<p>It is still in quarantine; try again later.</p>\n");
    page.end(503)
}

fn notice(status: u16, text: &str) -> HttpResponse {
    let mut page = begin();
    page.markup("<p role=\"status\">");
    page.text(text);
    page.markup("</p>\n");
    page.end(status)
}

fn begin() -> PlainPage {
    let mut page = PlainPage::begin("Message in quarantine", "release", None);
    page.brand("Message in quarantine");
    page
}

fn fact(page: &mut PlainPage, name: &str, value: &str) {
    page.markup("<dt>");
    page.text(name);
    page.markup("</dt><dd dir=\"auto\">");
    page.text(value);
    page.markup("</dd>");
}

/// The beginning of a text.
fn excerpt(text: &str) -> String {
    let text = text.trim();
    let mut excerpt: String = text.chars().take(EXCERPT_CHARACTERS_MAX).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    excerpt
}
