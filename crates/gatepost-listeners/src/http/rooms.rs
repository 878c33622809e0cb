//! What the HTTP listener asks of the rooms behind it. The binary wires it to the gateway, the
//! broker and the procedures; tests put a small world of their own in its place.

use std::sync::Arc;
use std::task::{Context, Poll};

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

/// Takes a subscription's events on the thread that publishes them.
pub trait Taker: Send + Sync {
    /// Takes events from `next` for as long as it has room, without waiting; tells whether it has
    /// room still.
    fn take(&self, next: &mut dyn FnMut() -> Option<Event>) -> bool;
}

/// A running subscription; dropping it ends it.
pub trait Subscription: Send {
    /// The next event; `None` when the broker ends. Must be cancel-safe: a dropped promise loses
    /// no event.
    fn next(&mut self) -> Promise<'_, Option<Event>>;

    /// The next event if it is already there; lets several events share one write.
    fn try_next(&mut self) -> Option<Event>;

    /// Whether these rooms know [`Subscription::attach`].
    fn can_attach(&self) -> bool {
        false
    }

    /// Hands what comes from now on to `taker`, where it is published. What was there before has
    /// been taken with [`Subscription::try_next`].
    fn attach(&mut self, _taker: Arc<dyn Taker>) {}

    /// Hands over what waited for a taker that had no room.
    fn pump(&mut self) {}

    /// With a taker: waits for the broker's end. Wakes the task also when the taker has no room,
    /// which the caller looks at itself.
    fn poll_ended(&mut self, _task: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
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
