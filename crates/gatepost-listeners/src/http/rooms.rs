//! What the HTTP listener asks of the rooms behind it. The binary wires it to the gateway, the
//! broker and the procedures; tests put a small world of their own in its place.

use std::sync::Arc;

use gatepost_message::{Message, MessageId, Publication, TopicFilter, Verdict};
pub use gatepost_pages::Promise;
use gatepost_pages::Values;

use super::state::State;

/// What became of a submitted message.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// What the procedures said.
    pub verdict: Verdict,
    /// How many subscribers it was handed to.
    pub subscribers: usize,
}

/// From where a subscription starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Only what comes from now on.
    Now,
    /// First what is remembered after this id; a gap is told if older ones are forgotten.
    After(MessageId),
    /// First everything remembered.
    Everything,
    /// First the last publication of each topic.
    Latest,
}

/// What a subscription yields.
#[derive(Debug, Clone)]
pub enum Event {
    /// A publication.
    Publication(Arc<Publication>),
    /// So many publications are missing here: forgotten before a resume, or dropped because the
    /// reader was too slow.
    Gap {
        /// How many; `None` where nobody knows.
        missed: Option<u64>,
    },
}

/// A running subscription; dropping it ends it.
pub trait Subscription: Send {
    /// The next event; `None` when the broker ends. Must be cancel-safe: a dropped promise loses
    /// no event.
    fn next(&mut self) -> Promise<'_, Option<Event>>;

    /// The next event if it is already there; lets several events share one write.
    fn try_next(&mut self) -> Option<Event>;
}

/// Who reads a subscription, for the list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderName {
    /// `sse`, `json` or `raw`.
    pub kind: &'static str,
    /// The user, or the address.
    pub name: String,
}

/// The rooms behind the listener.
pub trait Rooms: Values {
    /// Judges, publishes or quarantines, and waits until what was promised is durable.
    fn submit(&self, message: Message) -> Promise<'_, Submitted>;

    /// Has the procedure at `path` judge `message`; `None` if there is none of that path.
    fn judge<'a>(
        &'a self,
        path: &'a str,
        message: Message,
        arguments: Vec<(String, String)>,
    ) -> Promise<'a, Option<Verdict>>;

    /// Subscribes to all of `filters`; `reader` is what it is called among the sessions.
    fn subscribe(
        &self,
        filters: &[TopicFilter],
        since: Since,
        reader: ReaderName,
    ) -> Box<dyn Subscription>;

    /// What the dashboard starts from.
    fn state(&self) -> Promise<'_, State>;

    /// The procedures' counters, as `/status` shows them.
    fn procedures(&self) -> serde_json::Value;

    /// Appends metrics in Prometheus' text format.
    fn metrics(&self, text: &mut String);
}
