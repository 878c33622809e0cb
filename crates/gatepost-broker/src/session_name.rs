//! The name of a session.

use std::sync::Arc;

/// The prefix of the client ids of clients that are parts of the server. Listeners refuse clients
/// that use it.
pub const IN_PROCESS_PREFIX: &str = "$sink/";

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
