//! Sessions that outlive their connection: what a broker must know of them after a restart.
//!
//! A publication that sessions wait for is one row of `message`, however many wait; each session
//! has a small row of `delivery` for it. Most deliveries are over within milliseconds, so a row
//! that is written and removed within one group of changes is neither ([`Cancelled`]).
//!
//! Invariant: session numbers, message numbers and a session's sequences are never used twice, so
//! that a removal can only mean the one row that had the number.

mod cancelled;
mod columns;
mod reading;
mod writing;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gatepost_message::{Publication, Qos, TopicFilter};

pub(crate) use cancelled::Cancelled;

/// A session, without what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Names it in all other rows.
    pub number: u64,
    /// The client id.
    pub client: String,
    /// Who may have it; `None` for whoever comes.
    pub user: Option<String>,
    /// What its connections are, such as `mqtt`.
    pub kind: String,
    /// How long it outlives its connection.
    pub expiry: Duration,
    /// When its connection ended; `None` while it is connected.
    pub ended: Option<SystemTime>,
    /// The highest sequence that may have been sent; `None` where nobody knows, which is while it
    /// is connected.
    pub sent: Option<u64>,
    /// What to publish when the client stays away.
    pub will: Option<WillRow>,
}

/// A will: a message that nobody has published yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WillRow {
    /// The number of the stored message.
    pub message: u64,
    /// How long after the end of the connection it is due.
    pub delay: Duration,
}

/// One subscription of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionRow {
    /// The session's number.
    pub session: u64,
    /// The filter as the client wrote it, with the share name where it is shared.
    pub filter: TopicFilter,
    /// The highest level to deliver at.
    pub qos: Qos,
    /// Not to be sent what the same session published.
    pub no_local: bool,
    /// Keep the retain flag as the publisher set it.
    pub retain_as_published: bool,
    /// A number that deliveries carry.
    pub identifier: Option<u32>,
}

/// One publication's way to one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    /// The session's number.
    pub session: u64,
    /// Its place in the session's order.
    pub sequence: u64,
    /// The number of the stored message.
    pub message: u64,
    /// The level of this delivery.
    pub qos: Qos,
    /// The retain flag of this delivery.
    pub retain: bool,
    /// Whether the client has it and only the end of the exchange is open (QoS 2).
    pub released: bool,
    /// The subscription identifiers that go along.
    pub identifiers: Vec<u32>,
}

/// A change of what sessions keep.
#[derive(Debug, Clone)]
pub enum SessionChange {
    /// Sets the session's own row.
    Keep(Box<SessionRow>),
    /// Forgets the session and all that belongs to it, but no messages.
    End {
        /// Which.
        session: u64,
    },
    /// Sets a subscription.
    Subscribe(Box<SubscriptionRow>),
    /// Removes a subscription.
    Unsubscribe {
        /// Whose.
        session: u64,
        /// As the client wrote it.
        filter: TopicFilter,
    },
    /// Stores a publication that deliveries, or a will, refer to.
    Message {
        /// Its number.
        number: u64,
        /// What is kept.
        publication: Arc<Publication>,
    },
    /// Forgets a publication: nothing refers to it any more.
    ForgetMessage {
        /// Its number.
        number: u64,
    },
    /// Adds a delivery at the end of a session's queue.
    Enqueue(Box<DeliveryRow>),
    /// The client has it (QoS 2); what is left is to end the exchange.
    Release {
        /// Whose.
        session: u64,
        /// Which delivery.
        sequence: u64,
    },
    /// The delivery is over.
    Dequeue {
        /// Whose.
        session: u64,
        /// Which delivery.
        sequence: u64,
    },
    /// The client sent an exactly-once publication under this packet identifier.
    Receive {
        /// Whose.
        session: u64,
        /// The identifier.
        packet: u16,
    },
    /// The client released the identifier.
    Unreceive {
        /// Whose.
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
