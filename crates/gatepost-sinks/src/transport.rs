//! The transport of a sink's messages, one after the other or several at once.

use std::future::Future;
use std::pin::Pin;

use crate::attempt::AttemptFailure;
use crate::frame::SinkDelivery;

/// An attempt that is in progress; resolves to its outcome.
pub(crate) type AttemptFuture<'a> =
    Pin<Box<dyn Future<Output = Result<(), AttemptFailure>> + Send + 'a>>;

/// The work that earlier attempts at the same messages have left, for transports that reach some
/// recipients and not others.
#[derive(Default)]
pub(crate) struct RemainingRecipients {
    /// The recipients still to be reached; `None` before the first attempt.
    pub(crate) recipients: Option<Vec<String>>,
    /// The refusals of recipients that will never be reached.
    pub(crate) refusals: Vec<String>,
    /// These recipients.
    pub(crate) refused: Vec<String>,
}

impl RemainingRecipients {
    /// The recipients that the messages have not reached, where `all` were to get them.
    pub(crate) fn unreached(&self, all: Vec<String>) -> Vec<String> {
        let left = self.recipients.clone().unwrap_or(all);
        left.into_iter().chain(self.refused.clone()).collect()
    }
}

/// The storage of a message that is given up; resolves to whether it succeeded.
pub(crate) type KeepFuture<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// A transport of messages to one address.
pub(crate) trait SinkTransport: Send + Sync {
    /// The kind of the sink, for the list of sessions.
    fn kind(&self) -> &'static str;

    /// The address, without parts that may be secret.
    fn target(&self) -> String;

    /// Whether the sink ends when the address no longer exists. A sink of the config waits until
    /// the config is changed.
    fn ends_when_gone(&self) -> bool;

    /// Whether the message has a form on this transport. Others are acknowledged and not sent.
    fn accepts(&self, _: &SinkDelivery) -> bool {
        true
    }

    /// Tries once to send a message, or those of a digest. `remaining` is the part that earlier
    /// attempts at the same messages have left.
    fn attempt<'a>(
        &'a self,
        batch: &'a [SinkDelivery],
        remaining: &'a mut RemainingRecipients,
    ) -> AttemptFuture<'a>;

    /// Stores a message that is given up, where the transport has a place for such messages besides
    /// the dead letter.
    fn keep<'a>(
        &'a self,
        _: &'a SinkDelivery,
        _: &'a RemainingRecipients,
        _: &'a str,
    ) -> KeepFuture<'a> {
        Box::pin(std::future::ready(true))
    }
}
