//! Sessions that outlive their connection, as the broker needs them after a restart.
//!
//! A publication that sessions wait for is one row of `message`, however many sessions wait; each
//! session has a small row of `delivery` for it. Most deliveries end within milliseconds, so a row
//! that would be written and removed within one group of changes is never written
//! ([`CancelledRows`](crate::cancelled::CancelledRows)).
//!
//! Invariant: session numbers, message numbers and a session's sequences are never used twice, so
//! that a removal can only mean the one row that had the number.

pub(crate) mod columns;
mod writing;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gatepost_message::{Publication, Qos, TopicFilter};

/// A session, without its subscriptions and deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// The number that identifies it in all other rows.
    pub number: u64,
    /// The client id.
    pub client: String,
    /// The user it belongs to; `None` for an anonymous client.
    pub user: Option<String>,
    /// The protocol of its connections, such as `mqtt`.
    pub kind: String,
    /// The time for which it outlives its connection.
    pub expiry: Duration,
    /// The time at which its connection ended; `None` while it is connected.
    pub ended: Option<SystemTime>,
    /// The highest sequence that may have been sent; `None`, unknown, while it is connected.
    pub sent: Option<u64>,
    /// The message to publish when the client does not return.
    pub will: Option<WillRow>,
}

/// A will: a message that is published when its client is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WillRow {
    /// The number of the stored message.
    pub message: u64,
    /// The delay after the end of the connection.
    pub delay: Duration,
}

/// One subscription of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionRow {
    /// The session's number.
    pub session: u64,
    /// The filter as the client wrote it, with the share name if it is shared.
    pub filter: TopicFilter,
    /// The highest level to deliver at.
    pub qos: Qos,
    /// Whether publications of the same session are not delivered to it.
    pub no_local: bool,
    /// Whether the retain flag is kept as the publisher set it.
    pub retain_as_published: bool,
    /// A number that deliveries contain.
    pub identifier: Option<u32>,
}

/// The delivery of one publication to one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    /// The session's number.
    pub session: u64,
    /// Its place in the session's order.
    pub sequence: u64,
    /// The number of the stored message.
    pub message: u64,
    /// The quality of service of this delivery.
    pub qos: Qos,
    /// The retain flag of this delivery.
    pub retain: bool,
    /// Whether the client has received it and only the end of the exchange is pending (QoS 2).
    pub released: bool,
    /// The subscription identifiers that are delivered with it.
    pub identifiers: Vec<u32>,
}

/// A change of the stored data of sessions.
#[derive(Debug, Clone)]
pub enum SessionChange {
    /// Sets the session's own row.
    Put(Box<SessionRow>),
    /// Removes the session and all that belongs to it, but no messages.
    End {
        /// The session's number.
        session: u64,
    },
    /// Sets a subscription.
    Subscribe(Box<SubscriptionRow>),
    /// Removes a subscription.
    Unsubscribe {
        /// The session's number.
        session: u64,
        /// As the client wrote it.
        filter: TopicFilter,
    },
    /// Stores a publication to which deliveries, or a will, refer.
    Message {
        /// Its number.
        number: u64,
        /// The publication.
        publication: Arc<Publication>,
    },
    /// Removes a publication to which nothing refers any more.
    ForgetMessage {
        /// Its number.
        number: u64,
    },
    /// Adds a delivery at the end of a session's queue.
    Enqueue(Box<DeliveryRow>),
    /// The client has received it (QoS 2); the exchange is still to be completed.
    Release {
        /// The session's number.
        session: u64,
        /// The delivery's sequence.
        sequence: u64,
    },
    /// The delivery has ended.
    Dequeue {
        /// The session's number.
        session: u64,
        /// The delivery's sequence.
        sequence: u64,
    },
    /// The client sent an exactly-once publication under this packet identifier.
    Receive {
        /// The session's number.
        session: u64,
        /// The identifier.
        packet: u16,
    },
    /// The client released the identifier.
    Unreceive {
        /// The session's number.
        session: u64,
        /// The identifier.
        packet: u16,
    },
}

impl SessionChange {
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Message { publication, .. } => publication.payload.len(),
            _ => 0,
        }
    }
}
