//! Sessions that move between nodes, as their clients connect to other nodes.
//!
//! A client connects to a node that does not have its persistent session. That node claims the
//! session in the directory by compare-and-set, asks the earlier owner for the content, and stores
//! the content with the publications that the session has missed on the way. Then it answers the
//! client.
//!
//! - `directory.rs`: the keys that say which node has a session;
//! - `ownership.rs`: what a key says;
//! - `directory_writing.rs`: the writing of keys, several at a time;
//! - `transfer.rs`: the content of a session, as bytes and as records of the earlier owner;
//! - `question.rs`: questions between nodes, and their answers;
//! - `forgetting.rs`: the sessions of a node that does not return.
//!
//! This module has the state that outlives a connection. The tasks of a connection are in
//! `moving/`.
//!
//! The order of events follows the model of `tests/handover_model`. Invariants:
//! - A node that has released a session, or denied having it, no longer writes it. Only the claim
//!   of the question is answered, so a question that is late finds nothing.
//! - A claim lists the earlier owners until its node has stored the content, so a node that fails
//!   in between loses nothing.
//! - Nothing here waits for a lock, and no answer waits for another node: a node that is claiming
//!   a session itself says so.

pub(crate) mod directory;
mod directory_writing;
mod forgetting;
pub(crate) mod ownership;
pub(crate) mod question;
pub(crate) mod transfer;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gatepost_broker::{ClaimError, ClaimWait, SessionName, SessionUse};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};

pub use forgetting::forget_node;
use ownership::SessionId;

/// The longest time that a client waits for its session.
pub(crate) const CLAIM_TIME_MAX: Duration = Duration::from_secs(8);
/// Claims that wait to be begun, and ended sessions whose key is not removed.
const WAITING_MAX: usize = 4_096;

/// A claim that a client waits for.
pub(crate) struct ClaimRequest {
    pub(crate) name: SessionName,
    pub(crate) purpose: SessionUse,
    pub(crate) reply: oneshot::Sender<Result<(), ClaimError>>,
}

/// The state of moves, which outlives a connection.
pub(crate) struct SessionMoves {
    requests: mpsc::Sender<ClaimRequest>,
    /// Names of sessions that other nodes are to end.
    replacements: mpsc::Sender<SessionName>,
    /// Sessions that have begun without a claim.
    began: mpsc::Sender<SessionName>,
    /// Sessions that have ended, each with the claim of this node.
    ended: mpsc::Sender<(SessionName, u64)>,
    /// The other ends of these queues, while no connection uses them.
    pub(crate) queues: Mutex<Option<MoveQueues>>,
    /// The claims of the sessions that this node has, or that are about to begin.
    pub(crate) own: Mutex<HashMap<SessionId, u64>>,
    /// Claims that are being made, each with its number once that is known.
    pub(crate) claiming: Mutex<HashMap<SessionId, Option<u64>>>,
    /// A claim has ended.
    pub(crate) freed: Notify,
    /// Released sessions whose records may not be stored yet, with the claim.
    pub(crate) releasing: Mutex<HashSet<(SessionId, u64)>>,
    /// Sessions that join, and are not stored yet.
    pub(crate) joining: Mutex<HashSet<SessionId>>,
    /// Whether sessions of an earlier epoch of this node are not adopted yet.
    has_earlier_epoch: AtomicBool,
    adopted: AtomicU64,
    released: AtomicU64,
}

/// The ends of the queues that a connection empties.
pub(crate) struct MoveQueues {
    pub(crate) requests: mpsc::Receiver<ClaimRequest>,
    pub(crate) replacements: mpsc::Receiver<SessionName>,
    pub(crate) began: mpsc::Receiver<SessionName>,
    pub(crate) ended: mpsc::Receiver<(SessionName, u64)>,
}

impl SessionMoves {
    pub(crate) fn new() -> Self {
        let (requests, waiting_requests) = mpsc::channel(WAITING_MAX);
        let (replacements, waiting_replacements) = mpsc::channel(WAITING_MAX);
        let (began, waiting_began) = mpsc::channel(WAITING_MAX);
        let (ended, waiting_ended) = mpsc::channel(WAITING_MAX);
        Self {
            requests,
            replacements,
            began,
            ended,
            queues: Mutex::new(Some(MoveQueues {
                requests: waiting_requests,
                replacements: waiting_replacements,
                began: waiting_began,
                ended: waiting_ended,
            })),
            own: Mutex::default(),
            claiming: Mutex::default(),
            freed: Notify::new(),
            releasing: Mutex::default(),
            joining: Mutex::default(),
            has_earlier_epoch: AtomicBool::new(false),
            adopted: AtomicU64::new(0),
            released: AtomicU64::new(0),
        }
    }

    /// See [`gatepost_broker::OtherNodes::claim`].
    pub(crate) fn claim(&self, name: &SessionName, purpose: SessionUse) -> ClaimWait {
        let (reply, answer) = oneshot::channel();
        let request = ClaimRequest {
            name: name.clone(),
            purpose,
            reply,
        };
        let is_waiting = self.requests.try_send(request).is_ok();
        Box::pin(async move {
            if !is_waiting {
                return Err(ClaimError::NotJoined);
            }
            match tokio::time::timeout(CLAIM_TIME_MAX, answer).await {
                Ok(Ok(answer)) => answer,
                // The connection to the engine ended, or there was none.
                Ok(Err(_)) | Err(_) => Err(ClaimError::NotJoined),
            }
        })
    }

    /// See [`gatepost_broker::OtherNodes::replace_elsewhere`].
    pub(crate) fn replace_elsewhere(&self, name: &SessionName) {
        // Without a connection to the other nodes there is no way to reach them.
        let _ = self.replacements.try_send(name.clone());
    }

    /// See [`gatepost_broker::OtherNodes::owns_session`].
    pub(crate) fn owns(&self, name: &SessionName) -> bool {
        self.own_claim(SessionId::of(name)).is_some()
    }

    /// See [`gatepost_broker::OtherNodes::session_began`].
    pub(crate) fn session_began(&self, name: &SessionName) {
        // A key that is missing is made when this node joins the cluster the next time.
        let _ = self.began.try_send(name.clone());
    }

    /// See [`gatepost_broker::OtherNodes::session_ended`].
    pub(crate) fn session_ended(&self, name: &SessionName) {
        // The claim stays until the key is removed: a session of the same name may be beginning.
        if let Some(claim) = self.own_claim(SessionId::of(name)) {
            // A key that stays is removed when this node joins the cluster the next time.
            let _ = self.ended.try_send((name.clone(), claim));
        }
    }

    /// Another node has adopted all sessions of this one.
    pub(crate) fn forget_all(&self) {
        self.own.lock().clear();
        self.releasing.lock().clear();
    }

    pub(crate) fn set_earlier_epoch(&self, is_there: bool) {
        self.has_earlier_epoch.store(is_there, Ordering::Release);
    }

    /// Whether this node cannot say which sessions it had: they are in the stream of an earlier
    /// epoch.
    pub(crate) fn has_earlier_epoch(&self) -> bool {
        self.has_earlier_epoch.load(Ordering::Acquire)
    }

    pub(crate) fn note_adopted(&self) {
        self.adopted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_released(&self) {
        self.released.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn adopted(&self) -> u64 {
        self.adopted.load(Ordering::Relaxed)
    }

    pub(crate) fn released(&self) -> u64 {
        self.released.load(Ordering::Relaxed)
    }

    /// Whether a session joins, and is not stored yet.
    pub(crate) fn is_joining(&self, id: SessionId) -> bool {
        self.joining.lock().contains(&id)
    }

    /// The claim of a session that this node has.
    pub(crate) fn own_claim(&self, id: SessionId) -> Option<u64> {
        self.own.lock().get(&id).copied()
    }
}
