//! Sessions that move between servers: their names, what a move transfers, and the outcomes.
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

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gatepost_message::Publication;
use gatepost_store::{DeliveryRow, StoreChange, StoreError, SubscriptionRow, Ticket};

use crate::connect::IN_PROCESS_PREFIX;
use crate::nodes::LoggedPublication;

/// The name of a session. Client ids are per user: a client can neither take over nor block the
/// session of another user by its client id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionName {
    /// `None` for clients that did not log in.
    pub user: Option<Arc<str>>,
    /// The client's own id, or the one that the broker chose.
    pub client_id: Arc<str>,
}

impl SessionName {
    pub(crate) const fn new(user: Option<Arc<str>>, client_id: Arc<str>) -> Self {
        Self { user, client_id }
    }

    /// Whether the client is a part of this server, whose session has nothing to do with that of
    /// another server's part of the same name.
    pub(crate) fn is_in_process(&self) -> bool {
        self.client_id.starts_with(IN_PROCESS_PREFIX)
    }
}

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

/// A session for [`Broker::adopt_session`](crate::Broker::adopt_session).
#[derive(Debug)]
pub struct SessionAdoption {
    /// The session.
    pub session: MovedSession,
    /// The publications of the log that the session has not received, in their order.
    pub missed: Vec<Arc<LoggedPublication>>,
    /// Changes of the same commit.
    pub changes: Vec<StoreChange>,
}

/// The use that a client makes of a session that another node may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionUse {
    /// The session continues, if there is one; otherwise a persistent one begins.
    Continue,
    /// The session continues, if there is one, until its connection ends; otherwise a session
    /// begins that ends with its connection.
    Finish,
    /// The session is discarded, and a persistent one begins.
    Replace,
}

/// The reason why a node cannot give a client its session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// This node is not part of its cluster.
    #[error("this node cannot reach the NATS servers, which know where the session is")]
    NotJoined,
    /// The node that has the session is not running.
    #[error("the session is on node {0}, which is not running")]
    OwnerAbsent(u8),
    /// The node that has the session did not release it in time.
    #[error("node {0}, which has the session, does not release it")]
    NotReleased(u8),
    /// The client has connected to another node meanwhile.
    #[error("the client has connected to another node")]
    Superseded,
    /// The session could not be stored here.
    #[error("the session cannot be stored: {0}")]
    NotStored(String),
}

/// The wait for a claim.
pub type ClaimWait = Pin<Box<dyn Future<Output = Result<(), ClaimError>> + Send>>;
