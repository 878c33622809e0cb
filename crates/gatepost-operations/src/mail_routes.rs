//! The destinations of mail other than topics. The listener that received a mail knows them; a
//! release from quarantine queries it again.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use gatepost_message::{Envelope, MessageId, Topic};

/// The destination of one recipient's mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailDestination {
    /// It is published.
    Topic(Topic),
    /// The mailbox of this user.
    Mailbox(String),
    /// The next hop, by its name.
    NextHop(String),
}

/// A mail for the next hops of its recipients.
#[derive(Debug, Clone)]
pub struct OutgoingMail {
    /// The id of the message, for its story.
    pub id: MessageId,
    /// The sender, and the listener that took the mail.
    pub envelope: Envelope,
    /// Recipients whose destination is a next hop.
    pub recipients: Vec<String>,
    /// The whole mail.
    pub mail: Bytes,
}

/// The work of a forward; the error states the recipients and the reply.
pub type Forwarding<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// The recipient maps of the mail listeners.
pub trait MailRoutes: Send + Sync {
    /// The present destination of mail for this recipient, or the reason why there is none.
    fn destination(&self, envelope: &Envelope, recipient: &str) -> Result<MailDestination, String>;

    /// Whether mail for this recipient is the user's: it would be in the user's mailbox, or the
    /// address is the user's by its local part or as a whole.
    fn is_recipient(&self, envelope: &Envelope, recipient: &str, user: &str) -> bool;

    /// Sends a mail to the next hops of its recipients.
    fn forward(&self, mail: OutgoingMail) -> Forwarding<'_>;

    /// The name of this host, for mail that it writes itself.
    fn hostname(&self) -> &str;
}
