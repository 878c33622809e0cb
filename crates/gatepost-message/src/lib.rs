//! The types that pass through Gatepost: a listener turns bytes into a [`Message`], procedures turn
//! a message into a [`Verdict`], the broker delivers a [`Publication`], and the listener turns the
//! verdict into its protocol's answer.
//!
//! This crate knows no protocol, no rule and no socket, so every other crate may use it and it
//! uses none of them. Payloads are [`bytes::Bytes`] and topics are shared strings: a message
//! that passes between crates is never copied.

pub mod edit;
mod envelope;
mod id;
mod message;
mod publication;
mod reply;
mod topic;
mod verdict;

pub use edit::{Edit, EditedField, MalformedField};
pub use envelope::{Envelope, Listener, Peer, UnknownListener};
pub use id::{MalformedMessageId, MessageId};
pub use message::{Format, Message};
pub use publication::{Properties, Publication, Qos};
pub use reply::{Cookie, MalformedReply, PageReply, SameSite};
pub use topic::{TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX, Topic, TopicError, TopicFilter};
pub use verdict::{Action, Authentication, RuleHit, Score, UnknownAction, Verdict};
