//! What a client asks for when it connects, and what it gets.

use std::sync::Arc;
use std::time::Duration;

use gatepost_store::{StoreError, Ticket};
use smallvec::SmallVec;

use crate::attachment::Attachment;
use crate::encoder::{Format, Sink};
use crate::session::Will;
use crate::settings::SlowSubscriber;

/// What a client asks for when it connects.
pub struct ConnectOptions {
    /// Its name; `None` for one that the broker makes.
    pub client_id: Option<String>,
    /// Who logged in, if anybody did; the session is theirs from then on.
    pub user: Option<Arc<str>>,
    /// What it is, for the list of sessions: `mqtt`, `websocket`.
    pub kind: &'static str,
    /// Whether earlier state is forgotten.
    pub clean_start: bool,
    /// How long the session outlives the connection; zero for not at all.
    pub expiry: Duration,
    /// QoS 1 and 2 publications that the client takes at once.
    pub receive_max: u16,
    /// The largest frame that the client takes, in bytes.
    pub frame_bytes_max: Option<u32>,
    /// The highest topic alias that the client understands.
    pub alias_max: u16,
    /// The longest silence after which the client counts as gone.
    pub silence_max: Option<Duration>,
    /// What to publish at its end.
    pub will: Option<Will>,
    /// What is done when it takes less than it is sent, if its listener says; what the broker's
    /// settings say of its user goes before.
    pub slow_subscriber: Option<SlowSubscriber>,
    /// How publications are written for it.
    pub format: Format,
    /// Where they are written to.
    pub sink: Arc<dyn Sink>,
}

/// What the greeting of a new connection tells.
#[derive(Debug, Clone, Copy)]
pub struct Welcome<'a> {
    /// Whether state of an earlier connection is there.
    pub session_present: bool,
    /// The client's name.
    pub client_id: &'a str,
    /// Whether the broker chose it.
    pub was_assigned: bool,
}

/// A connection that has its session.
pub struct Connected {
    /// The hold on it.
    pub attachment: Attachment,
    /// Whether state of an earlier connection is there.
    pub session_present: bool,
    /// What must be durable before the client is greeted: its session, where that is to outlive
    /// the server, and the end of an earlier one. Nothing is written to it before
    /// [`Attachment::begin`], which the broker has called where there is nothing to wait for.
    pub promises: SmallVec<[Result<Ticket, StoreError>; 2]>,
}

/// Why a client gets no session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The bound of the settings is reached.
    #[error("there are as many sessions as the settings allow")]
    TooManySessions,
    /// The user has as many connections as the settings allow.
    #[error("there are as many connections of this user as the settings allow")]
    TooManyOfUser,
    /// More connect in a second than the settings allow.
    #[error("too many connect at once")]
    TooFast,
    /// The server takes nothing in until it has memory again.
    #[error("the server is out of memory")]
    OutOfMemory,
    /// There is a session of this name, and it is another user's.
    #[error("the session is another user's")]
    OtherUser(Arc<str>),
}
