//! The mail server that takes mail for delivery, as sinks see it. The SMTP client is that of the
//! listeners, so this is a trait that they implement.

use std::future::Future;
use std::pin::Pin;

use gatepost_message::MessageId;

use super::composition::{self, MailContent};

/// A mail, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailSubmission {
    /// The envelope's sender; empty for mail that must not be answered (RFC 3834, section 3.3).
    pub sender: String,
    /// The envelope's recipients.
    pub recipients: Vec<String>,
    /// Head and body, with CR LF.
    pub text: Vec<u8>,
}

impl MailSubmission {
    /// A mail of plain text about a message, to its recipients.
    pub fn plain(from: &str, to: &[String], subject: &str, body: &str, id: MessageId) -> Self {
        let content = MailContent {
            from,
            to,
            subject,
            body,
            html: None,
            id,
            sink: "email",
        };
        Self::of(&content)
    }

    /// A mail to one recipient as plain text and as HTML. The id and the name determine its
    /// `Message-ID`: a mail that is composed again after a crash is known by it.
    pub fn alternative(
        (from, to): (&str, &str),
        subject: &str,
        (body, html): (&str, &str),
        (id, name): (MessageId, &str),
    ) -> Self {
        Self::of(&MailContent {
            from,
            to: &[to.to_owned()],
            subject,
            body,
            html: Some(html),
            id,
            sink: name,
        })
    }

    fn of(content: &MailContent<'_>) -> Self {
        Self {
            sender: content.from.to_owned(),
            recipients: content.to.to_vec(),
            text: composition::compose(content),
        }
    }

    /// Adds a field at the beginning of the head. The value is ASCII and fits in one line.
    #[must_use]
    pub fn with_field(mut self, name: &str, value: &str) -> Self {
        let field = format!("{name}: {value}\r\n");
        self.text.splice(..0, field.into_bytes());
        self
    }

    /// Whether a mail may be sent from or to this address.
    pub fn is_address(text: &str) -> bool {
        composition::is_address(text)
    }
}

/// A recipient that the smarthost refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRecipient {
    /// The address.
    pub address: String,
    /// The reply, in one line.
    pub reply: String,
    /// Whether a later attempt may succeed (RFC 5321, section 4.2.1, 4yz).
    pub is_transient: bool,
}

/// The end of one attempt: the refused recipients, or the reason why no recipient got the mail.
pub type SendOutcome = Result<Vec<RefusedRecipient>, String>;

/// The outcome of an attempt, when it is known.
pub type Sending<'a> = Pin<Box<dyn Future<Output = SendOutcome> + Send + 'a>>;

/// The outcome of a connection, when it is known.
pub type Checking<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// A mail server that accepts mail for delivery.
pub trait MailTransport: Send + Sync {
    /// Its address.
    fn target(&self) -> String;

    /// Signs a mail and sends it once. Runs on the thread of the sinks.
    fn send<'a>(&'a self, mail: &'a MailSubmission) -> Sending<'a>;

    /// Connects and logs in, and sends nothing.
    fn check(&self) -> Checking<'_>;
}
