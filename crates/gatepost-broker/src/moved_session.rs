//! Sessions that move between servers: what a move transfers, and its outcomes.
//!
//! A session has one owner. A client that connects to another node makes that node claim the
//! session ([`OtherNodes::claim`](crate::OtherNodes::claim)): the earlier owner
//! [releases](crate::Broker::release_session) it, which ends it there and returns its content, and
//! the new owner [adopts](crate::Broker::adopt_session) the content. Then the client is connected
//! as on a single server.
//!
//! Invariants:
//! - A released session is over before its content is returned, and the content is stored in the
//!   same commit as this end.
//! - An adopted session is stored in one commit, with what the caller adds to it.
//! - A move transfers the identifiers of deliveries: those in flight keep their packet identifiers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gatepost_message::Publication;
use gatepost_store::{DeliveryRow, StoreChange, StoreError, SubscriptionRow, Ticket};

use crate::authorization::Authorization;
use crate::missed::MissedPublications;
use crate::session::SessionWill;
use crate::session_name::SessionName;

/// The content of a persistent session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedSession {
    /// The number that identifies its rows, which stays the same.
    pub number: u64,
    /// Its name.
    pub name: SessionName,
    /// The protocol of its connections, such as `mqtt`.
    pub kind: String,
    /// The time for which it outlives its connection.
    pub expiry: Duration,
    /// The highest sequence of a delivery that may have been sent.
    pub sent: u64,
    /// Its subscriptions.
    pub subscriptions: Vec<SubscriptionRow>,
    /// The packet identifiers of QoS 2 publications that its client has not released.
    pub received: Vec<u16>,
    /// Its deliveries, in their order.
    pub deliveries: Vec<MovedDelivery>,
}

/// A delivery that is not complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedDelivery {
    /// Its row. The number of the message means nothing on another server.
    pub row: DeliveryRow,
    /// The message.
    pub publication: Arc<Publication>,
}

/// The outcome of [`Broker::release_session`](crate::Broker::release_session).
#[derive(Debug)]
pub enum SessionRelease {
    /// There is no persistent session of this name, or it ended with its connection.
    Absent,
    /// The session cannot be released yet: its client's last publications are being stored, or its
    /// queue is on disk.
    Busy,
    /// The session has ended here, when this is committed.
    Released(Result<Ticket, StoreError>),
}

/// The waiting of a session for its client, which is not about to connect: its node has failed.
pub struct SessionAbsence {
    /// The end of the client's connection; `None` if it was connected when the node failed.
    pub ended: Option<SystemTime>,
    /// The message to publish if the client does not return.
    pub will: Option<SessionWill>,
    /// The rights of the session's owner, by which the will is published.
    pub authorization: Arc<dyn Authorization>,
}

/// A session for [`Broker::adopt_session`](crate::Broker::adopt_session).
pub struct SessionAdoption {
    /// The session.
    pub session: MovedSession,
    /// The publications of the log that the session has not received.
    pub missed: MissedPublications,
    /// Changes of the same commit.
    pub changes: Vec<StoreChange>,
    /// `None` if the client is about to connect.
    pub absence: Option<SessionAbsence>,
}

/// A will of a session that was over when its node failed, for
/// [`Broker::adopt_wills`](crate::Broker::adopt_wills).
pub struct AdoptedWill {
    /// The number of the session, by which a repetition is recognized.
    pub number: u64,
    /// The name of the session.
    pub name: SessionName,
    /// The protocol of its connections, such as `mqtt`.
    pub kind: String,
    /// The message to publish.
    pub publication: Publication,
    /// The rights of the session's owner, by which it is published.
    pub authorization: Arc<dyn Authorization>,
}
