//! The boundary to other servers that share topics with this one.
//!
//! The broker announces which filters have subscribers on this server, forwards this server's
//! publications to the others, and can wait until all of them know a new filter. It does not know
//! the transport.
//!
//! Publications at QoS 0 are forwarded. Those at QoS 1 and 2 are appended to a log that every node
//! reads, this one too. Each receiver has one source of them:
//!
//! | | its own node's publications | those of other nodes |
//! | --- | --- | --- |
//! | persistent sessions at QoS 1 and 2, shared subscriptions | the log | the log |
//! | other sessions and subscriptions, readers in this process, the history | directly | the log |
//!
//! So the deliveries to a persistent session and the position in the log up to which they go are
//! stored together: after a crash of the node nothing is delivered twice or left out.
//!
//! A shared subscription may have members on several servers. For each publication the transport
//! chooses one of these servers, and that server's broker chooses the member
//! ([`OtherNodes::serves_group`]).
//!
//! Invariants:
//! - A publication of another node is not forwarded: only the publishers of
//!   [`Broker::node_publisher`] publish it here, and they forward nothing.
//! - A publication is acknowledged when the log has stored it, after this node's own changes.
//! - Topics that begin with `$` belong to one server; they are neither forwarded nor announced.
//! - No method blocks.
//!
//! [`Broker::node_publisher`]: crate::Broker::node_publisher

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gatepost_message::{MessageId, Publication, TopicFilter};
use gatepost_store::{StoreChange, Ticket};
use serde::Serialize;
use smallvec::{SmallVec, smallvec};
use tokio::sync::watch;

use crate::session_name::SessionName;

/// Other servers that share topics with this one.
pub trait OtherNodes: Send + Sync {
    /// A filter got its first subscriber of this server, or lost its last one. Called in the order
    /// of these changes, for each filter.
    fn set_interest(&self, filter: &TopicFilter, is_wanted: bool);

    /// The wait until all changes so far are known to the other nodes; `None` where they are, or
    /// where no other node can be reached.
    fn interest_barrier(&self) -> Option<InterestBarrier>;

    /// Something has changed about the members of a shared subscription on this server, which is
    /// `$share/NAME/FILTER`. Called under locks of the broker, in the order of these changes.
    fn group_changed(&self, group: &TopicFilter, change: GroupChange);

    /// Whether the members of this shared subscription on this server get the publication: of the
    /// servers that have members, one does.
    fn serves_group(&self, group: &TopicFilter, publication: &Publication) -> bool;

    /// A publication of this server is about to be retained. The message that other nodes retain
    /// for this topic must not replace it before [`OtherNodes::forward`] was called with it.
    fn begin_retaining(&self, publication: &Publication);

    /// Forwards a publication of this server at QoS 0, and the retained message of one at QoS 1 or
    /// 2. Returns whether this will be attempted.
    fn forward(&self, publication: &Arc<Publication>) -> bool;

    /// Whether a further publication can wait for the log.
    fn has_room_in_log(&self) -> bool;

    /// The change that keeps a publication in the database until it was read back from the log.
    fn keep_until_logged(&self, logged: &LoggedPublication) -> StoreChange;

    /// Appends publications to the log, in their order. The ticket is committed when the log has
    /// stored them.
    fn append(&self, batch: LoggedBatch<'_>) -> Ticket;

    /// Takes a session over from the node that has it, so that a client can use it here. When the
    /// wait ends with success, the session is here, or there is none.
    fn claim(&self, name: &SessionName, purpose: SessionUse) -> ClaimWait;

    /// A client with a session that ends with its connection has connected here. Other nodes end
    /// their sessions of this name.
    fn replace_elsewhere(&self, name: &SessionName);

    /// Whether this node has claimed the session of this name, and no other node has since. Called
    /// under a lock of the broker before a persistent session begins.
    fn owns_session(&self, name: &SessionName) -> bool;

    /// A persistent session has begun without a claim, under a name that the broker chose.
    fn session_began(&self, name: &SessionName);

    /// A persistent session of this server has ended, or a claimed one does not begin. Called
    /// under locks of the broker.
    fn session_ended(&self, name: &SessionName);

    /// The state, for operators.
    fn status(&self) -> NodesStatus;
}

/// A publication at QoS 1 or 2 on its way through the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedPublication {
    /// The publication.
    pub publication: Arc<Publication>,
    /// The number of the persistent session that published it, which does not receive it under a
    /// subscription with No Local \[MQTT-3.8.3-3\].
    pub session: Option<u64>,
    /// The shared subscription that it is for alone; `None` for all subscriptions.
    pub passed_on: Option<PassedOn>,
}

/// The repetition of a publication for one shared subscription alone: the node that was to serve it
/// has no member any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOn {
    /// The shared subscription, `$share/NAME/FILTER`.
    pub group: TopicFilter,
    /// The id of the publication that the node was to serve.
    pub original: MessageId,
}

/// A change of the members of a shared subscription on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupChange {
    /// A session has subscribed.
    Joined,
    /// A member has left, and others remain, or one has connected or disconnected.
    Varied,
    /// The last member has left.
    Emptied,
}

/// The members of a shared subscription on one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupMembers {
    /// The number of connected members.
    pub connected: u32,
    /// The number of all members.
    pub all: u32,
}

/// Publications for the log.
pub struct LoggedBatch<'a> {
    /// The publications; the list is emptied.
    pub publications: &'a mut Vec<LoggedPublication>,
    /// The commit of this server's changes, which comes first.
    pub stored: Option<Ticket>,
    /// The sender's publications before these: if the log does not store them, these fail too, so
    /// that the sender can repeat all of them in order.
    pub earlier: Option<Ticket>,
    /// Whether they are kept in the database: then they are tried until the log has stored them.
    /// Otherwise they fail after some time, when the log may have stored them or not.
    pub are_kept: bool,
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

/// The server has no memory for the deliveries of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

/// A node that is alive, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveNode {
    /// Its number.
    pub node: u8,
    /// The name of its machine.
    pub host: String,
    /// Its version.
    pub version: String,
    /// The latest encoding that it reads of what nodes write for each other; 0 if it is not known.
    pub encoding: u8,
    /// Unix time of its start, in milliseconds.
    pub started_unix_ms: u64,
}

/// A node that has joined the cluster, running or not, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberNode {
    /// Its number.
    pub node: u8,
    /// The version with which it joined last; empty if it is not known.
    pub version: String,
    /// The latest encoding that this version reads; 0 if it is not known.
    pub encoding: u8,
}

/// The state of the connection to other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesStatus {
    /// This node.
    pub this: LiveNode,
    /// The reason why this node is not part of the cluster, or not wholly; `None` while it is.
    pub trouble: Option<String>,
    /// The other nodes that are alive, by number.
    pub others: Vec<LiveNode>,
    /// All nodes that have joined the cluster, running or not, by number.
    pub members: Vec<MemberNode>,
    /// Publications that were sent to the other nodes.
    pub forwarded: u64,
    /// Publications that came from other nodes.
    pub received: u64,
    /// Messages of other nodes that could not be read.
    pub malformed: u64,
    /// The parts that this node does not read further, because a later version has written them.
    pub unreadable: u64,
    /// The reason of the first of these.
    pub unreadable_reason: Option<String>,
    /// Publications that the log has not acknowledged.
    pub log_waiting: u64,
    /// Entries of the log that this node has not read, by partition.
    pub log_unread: Vec<u64>,
    /// Publications that the log did not store in time, so that they were refused.
    pub log_refused: u64,
    /// Acknowledgements of the log.
    pub log_appends: u64,
    /// The time that these have taken together.
    pub log_append_time: Duration,
    /// Entries that the log had removed before this node, or a session that came to it, received
    /// them.
    pub log_missed: u64,
    /// Commits of sessions that clients wait for and the copy of this node does not have yet.
    pub copy_waiting: u64,
    /// Sessions that came from other nodes.
    pub sessions_adopted: u64,
    /// Sessions that went to other nodes.
    pub sessions_released: u64,
    /// The bytes of the mailboxes of the cluster.
    pub mail_bytes: u64,
    /// Messages of the stream of mailboxes that this node has not read.
    pub mail_unread: u64,
    /// Lessons of Bayes that this node has not carried out.
    pub lessons_unread: u64,
    /// Lessons of this node that wait for the cluster.
    pub lessons_unsent: u64,
    /// Lessons of this node that were dropped, since too many waited.
    pub lessons_dropped: u64,
    /// Topics whose retained message the other nodes do not have yet.
    pub retained_unsent: u64,
    /// Subscriptions that were answered before every other node had confirmed them.
    pub unconfirmed_interest: u64,
}

/// The wait until the other nodes know of filters and of members of shared subscriptions.
#[derive(Debug, Clone)]
pub struct InterestBarrier(SmallVec<[KnownChanges; 2]>);

/// A number of changes, and how many the other nodes know.
#[derive(Debug, Clone)]
struct KnownChanges {
    known: watch::Receiver<u64>,
    number: u64,
}

impl InterestBarrier {
    /// A wait until `known` is at least `number`.
    pub fn new(known: watch::Receiver<u64>, number: u64) -> Self {
        Self(smallvec![KnownChanges { known, number }])
    }

    /// Both waits.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Whether the wait is over.
    pub fn is_reached(&self) -> bool {
        self.0.iter().all(|one| *one.known.borrow() >= one.number)
    }

    /// Waits. The wait is also over when this server ends.
    pub async fn reached(self) {
        for KnownChanges { mut known, number } in self.0 {
            let _ = known.wait_for(|known| *known >= number).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_is_reached_by_its_number_or_a_higher_one() {
        let (sender, known) = watch::channel(3);
        let barrier = InterestBarrier::new(known, 5);
        assert!(!barrier.is_reached());
        sender.send_replace(4);
        assert!(!barrier.is_reached());
        sender.send_replace(6);
        assert!(barrier.is_reached());
    }

    #[test]
    fn two_barriers_are_reached_together() {
        let (one, known) = watch::channel(0);
        let (other, known_too) = watch::channel(0);
        let barrier = InterestBarrier::new(known, 1).and(InterestBarrier::new(known_too, 2));
        one.send_replace(1);
        assert!(!barrier.is_reached());
        other.send_replace(2);
        assert!(barrier.is_reached());
    }
}
