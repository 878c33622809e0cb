//! The broker: subscriptions, and the delivery of publications to subscribers.
//!
//! The broker knows no protocol. A listener provides the encoding of publications (an [`Encoder`])
//! and their destination (a [`SubscriberSocket`]), uses a session through its [`Attachment`], and
//! publishes through a [`Publisher`]. Subscribers within the process use a [`LocalSubscription`].
//!
//! The path of a publication: [`Publisher::publish_at`] finds the route of its topic (kept from the
//! last time, `route.rs`), writes the frame once for each wire format, and collects; at
//! [`Publisher::flush`] each subscriber's [`Session`] gets the shared bytes and the publisher's own
//! task writes them to the socket (`session.rs`, `outbox.rs`).
//!
//! Invariants:
//! - Every queue is bounded by a setting, and every delivery that does not happen is counted by
//!   its cause ([`DropCause`]).
//! - Every subscriber receives one publisher's publications in the same order.
//! - A publication is stored before it is acknowledged to its publisher: [`Publisher::flush`]
//!   returns the ticket to wait for. Sessions that outlive their connection are stored with their
//!   queues (`persistence.rs`) and are restored at the next start (`recovery.rs`).
//! - No lock is held across an await; locks of sessions are never held together.

mod acknowledged;
mod attachment;
mod authorization;
#[cfg(test)]
mod bounded_socket;
mod broker;
mod clock;
mod cluster;
mod connect;
mod counters;
mod encoder;
mod figures;
mod filter;
mod held_wills;
mod housekeeping;
mod index;
mod inspection;
mod limits;
mod load;
mod memory;
mod missed;
mod moved_session;
mod newest;
mod nodes;
mod outbox;
mod persistence;
mod prefetch;
mod publisher;
mod reader;
mod receipts;
mod recent;
mod recovery;
mod removed_users;
mod replay;
mod retained;
mod retained_delivery;
mod retained_of_subscription;
mod route;
mod rules_in_force;
mod senders;
mod session;
mod session_name;
mod session_table;
mod sessions_on_disk;
mod settings;
mod shared;
mod since;
mod stats;
mod stream_queue;
mod subscribing;
mod subscription;
mod topic_subscribers;
mod trace;
mod uncommitted;
mod weight;

pub use acknowledged::{Receipt, StrayAcknowledgement};
pub use attachment::{Attachment, Connected, SubscribeError, VerdictReporter};
pub use authorization::{Authorization, OwnerRights};
pub use broker::Broker;
pub use connect::{ConnectError, ConnectOptions, ConnectionClose, ConnectionGreeting};
pub use counters::DropCause;
pub use encoder::{Encoder, FrameOptions, SubscriberSocket, TopicAlias, Unencodable, WireFormat};
pub use filter::{FilterError, RequestedFilter, RetainHandling, SharedFilter, SubscribeOptions};
pub use gatepost_topics::{RuleViolation, TopicRules};
pub use inspection::{ConnectionStats, QueueStats, SessionInspection, WaitCause};
pub use limits::Limit;
pub use memory::{MemoryGauge, memory_available_bytes};
pub use missed::MissedPublications;
pub use moved_session::{
    AdoptedWill, MovedDelivery, MovedSession, SessionAbsence, SessionAdoption, SessionRelease,
};
pub use nodes::{
    ClaimError, ClaimWait, GroupChange, GroupMembers, InterestBarrier, LiveNode, LoggedBatch,
    LoggedPublication, MemberNode, NodesStatus, OtherNodes, OutOfMemory, PassedOn, SessionUse,
};
pub use publisher::{EnterError, PublishOutcome, PublishRefusal, Publisher, TopicSlot};
pub use reader::{LocalSubscription, ReaderOptions};
pub use recent::Remembered;
pub use replay::Replayed;
pub use retained_of_subscription::RetainedOfSubscription;
pub use senders::RecordedSender;
pub use session::{DisconnectCause, QueueBounds, Session, SessionWill};
pub use session_name::{IN_PROCESS_PREFIX, SessionName};
pub use settings::{BrokerSettings, SlowSubscriber};
pub use since::{MalformedSince, Since};
pub use stats::{BrokerStats, SessionStats, TopicStats};
pub use stream_queue::{EventConsumer, StreamEvent};
pub use topic_subscribers::{TopicSubscriber, TopicSubscribers};
pub use trace::{StepOutcome, TraceStep};
