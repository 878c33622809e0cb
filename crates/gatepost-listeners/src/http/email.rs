//! ntfy's `X-Email`: a message that is published is sent as mail too, by the smarthost.
//!
//! This server must not become a way to send mail to anyone: the settings name the recipients, and
//! bound the mails of each client.

use std::time::Instant;

use gatepost_message::Publication;
use gatepost_sinks::{MailQueue, MailSubmission, Sinks};

use super::context::HttpContext;
use super::error::HttpError;
use super::request::HttpRequest;
use crate::admission::client_network;

/// Whether an address is the pattern, or is at the domain that the pattern names.
fn fits(pattern: &str, address: &str) -> bool {
    let (pattern, address) = (pattern.to_lowercase(), address.to_lowercase());
    let domain = pattern
        .strip_prefix('*')
        .filter(|rest| rest.starts_with('@'));
    domain.map_or(pattern == address, |domain| address.ends_with(domain))
}

/// A mail that may be sent when its message is accepted.
pub(super) struct AllowedEmail<'a> {
    mail: &'a MailQueue,
    from: &'a str,
    to: String,
}

impl<'a> AllowedEmail<'a> {
    /// Whether this request may send a mail to `address`.
    pub(super) fn check(
        context: &'a HttpContext,
        request: &HttpRequest,
        address: &str,
    ) -> Result<Self, HttpError> {
        let refused = |detail: &str| {
            Err(HttpError::Parameter {
                name: "email",
                detail: detail.to_owned(),
            })
        };
        let settings = &context.settings.email;
        let mail = context.services.sinks.as_ref().map(Sinks::mail);
        let Some(mail) = mail.filter(|mail| mail.is_on() && !settings.from.is_empty()) else {
            return refused("this server sends no mail; leave it out");
        };
        let is_allowed = |pattern: &String| fits(pattern, address);
        if !MailSubmission::is_address(address) || !settings.recipients.iter().any(is_allowed) {
            return refused(
                "mail to this address is not allowed (listeners.http.email.recipients)",
            );
        }
        let client = match (request.user(), request.peer.ip()) {
            (Some(user), _) => format!("user {user}"),
            (None, Some(address)) => client_network(address).to_string(),
            (None, None) => "local".to_owned(),
        };
        let taken = context
            .email_allowances
            .take(client, settings.per_hour, Instant::now());
        taken.map_err(|wait| HttpError::TooManyEmails(wait.as_secs() + 1))?;
        Ok(Self {
            mail,
            from: &settings.from,
            to: address.to_owned(),
        })
    }

    /// Sends it; returns when it is on disk.
    pub(super) async fn send(self, publication: &Publication) -> Result<(), HttpError> {
        let property = |name| {
            let properties = publication.properties.as_ref();
            properties.and_then(|properties| properties.user_property(name))
        };
        let topic = publication.topic.as_str();
        let subject = property("title").unwrap_or(topic);
        let mut body = String::from_utf8_lossy(&publication.payload).into_owned();
        if let Some(link) = property("click") {
            body += "\n\n";
            body += link;
        }
        body += "\n\n-- \n";
        body += topic;
        if let Some(tags) = property("tags") {
            body += ": ";
            body += tags;
        }
        let mail = MailSubmission::plain(self.from, &[self.to], subject, &body, publication.id);
        let queued = self.mail.queue(&mail).await;
        queued.map_err(|error| HttpError::Unavailable(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_addresses_and_domains() {
        for (pattern, address, expected) in [
            ("anna@example.org", "Anna@example.org", true),
            ("*@Example.org", "anna@example.org", true),
            ("*@example.org", "anna@bad.example.org", false),
            ("*example.org", "anna@badexample.org", false),
            ("*", "anna@example.org", false),
        ] {
            assert_eq!(fits(pattern, address), expected, "{pattern} {address}");
        }
    }
}
