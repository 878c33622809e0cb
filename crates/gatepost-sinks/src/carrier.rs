//! The transport of a sink's messages, one after the other or several at once.

use std::future::Future;
use std::pin::Pin;

use crate::attempt::Failure;
use crate::frame::Delivery;

/// The outcome of one attempt, when it is known.
pub(crate) type Attempt<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// A transport of messages to one address.
pub(crate) trait Carrier: Send + Sync {
    /// The kind of the sink, for the list of sessions.
    fn kind(&self) -> &'static str;

    /// The address, without what may be secret.
    fn target(&self) -> String;

    /// Whether the sink ends when the address no longer exists. A sink of the config waits until
    /// the config is changed.
    fn ends_when_gone(&self) -> bool;

    /// Tries once to send a message.
    fn attempt<'a>(&'a self, delivery: &'a Delivery) -> Attempt<'a>;
}
