//! The types that pass through Gatepost: a listener turns bytes into a [`Message`], procedures turn
//! a message into a [`Verdict`], the broker delivers a [`Publication`], and the listener turns the
//! verdict into a reply of its protocol.
//!
//! This crate depends on no protocol, rule or socket, so every other crate can use it. Payloads are
//! [`bytes::Bytes`] and topics are shared strings, so a message that passes between crates is never
//! copied.

pub mod edit;
mod envelope;
mod id;
mod message;
mod publication;
mod reply;
mod sequence;
pub mod sparkplug;
mod topic;
mod verdict;

pub use edit::{Edit, EditedField, MalformedField};
pub use envelope::{Envelope, Listener, Peer, UnknownListener};
pub use id::{MalformedMessageId, MessageId, NodeNumber};
pub use message::{Format, Message};
pub use publication::{CACHE, Properties, Publication, Qos};
pub use reply::{Cookie, MalformedReply, PageReply, SameSite};
pub use sequence::{SEQUENCE_EVENT, SEQUENCE_ID, SequenceEvent};
pub use topic::{
    BRIDGE_STATE_BYTES_MAX, TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX, Topic, TopicError, TopicFilter,
    filter_covers, is_bridge_state,
};
pub use verdict::{Action, Authentication, RuleHit, Score, UnknownAction, Verdict};
