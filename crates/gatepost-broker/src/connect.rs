//! A client's request to connect, and the ways in which its connection may end.

use std::sync::Arc;
use std::time::Duration;

use gatepost_message::Peer;

use crate::authorization::Authorization;
use crate::encoder::{SubscriberSocket, WireFormat};
use crate::session::SessionWill;
use crate::session_name::SessionName;
use crate::settings::SlowSubscriber;

/// A client's request to connect.
pub struct ConnectOptions {
    /// Its name; `None` if the broker chooses one.
    pub client_id: Option<String>,
    /// The user that logged in, if any; that user owns the session from then on.
    pub user: Option<Arc<str>>,
    /// The rights of the client; `None` where no login is needed.
    pub authorization: Option<Arc<dyn Authorization>>,
    /// The other end of its connection.
    pub peer: Peer,
    /// The kind of connection, for the list of sessions: `mqtt`, `websocket`.
    pub kind: &'static str,
    /// Whether earlier state is discarded.
    pub clean_start: bool,
    /// The time for which the session outlives the connection; zero if it does not.
    pub expiry: Duration,
    /// The number of QoS 1 and 2 publications that the client accepts at once.
    pub receive_max: u16,
    /// The largest frame that the client accepts, in bytes.
    pub frame_bytes_max: Option<u32>,
    /// The highest topic alias that the client accepts.
    pub alias_max: u16,
    /// The silence after which the connection counts as lost.
    pub silence_max: Option<Duration>,
    /// The message to publish when the connection ends.
    pub will: Option<SessionWill>,
    /// The treatment of a connection that reads more slowly than messages arrive, if its listener
    /// sets one; the broker's setting for the user takes precedence.
    pub slow_subscriber: Option<SlowSubscriber>,
    /// The format in which publications are written for it.
    pub format: WireFormat,
    /// The destination of the session's frames.
    pub socket: Arc<dyn SubscriberSocket>,
}

impl ConnectOptions {
    /// The name of the client's session; `None` if the broker chooses its client id.
    pub(crate) fn name(&self) -> Option<SessionName> {
        let client_id = self.client_id.as_deref()?;
        Some(SessionName::new(self.user.clone(), Arc::from(client_id)))
    }
}

/// The required contents of the first frame of a new connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionGreeting<'a> {
    /// Whether state of an earlier connection is present.
    pub session_present: bool,
    /// The client's name.
    pub client_id: &'a str,
    /// Whether the broker chose it.
    pub was_assigned: bool,
}

/// The reason why a client gets no session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The bound of the settings is reached.
    #[error("there are as many sessions as the settings allow")]
    TooManySessions,
    /// The user has as many connections as the settings allow.
    #[error("there are as many connections of this user as the settings allow")]
    TooManyOfUser,
    /// More clients connect per second than the settings allow.
    #[error("too many clients connect at once; try again later")]
    TooFast,
    /// The client has connected to another server, which has its session.
    #[error("the client has connected to another node")]
    Superseded,
    /// The server accepts no messages until it has memory again.
    #[error("the server is out of memory")]
    OutOfMemory,
}

/// The way in which a connection ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectionClose {
    /// Whether the will is due: the client did not send DISCONNECT, or requested the will in it.
    pub with_will: bool,
    /// The new expiry of the session, if it changed at the end.
    pub expiry: Option<Duration>,
}
