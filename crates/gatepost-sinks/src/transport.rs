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
}

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
}
