//! The `[broker]` table of the config: policies and bounds.

use gatepost_settings::{ByteSize, Period};
use serde::{Deserialize, Serialize};

/// What happens when a subscriber takes less than it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlowSubscriber {
    /// Publishers wait for it, for as long as `patience` says; then it is disconnected.
    #[default]
    SlowPublisher,
    /// What waits longest makes room.
    DropOldest,
    /// What comes is not taken.
    DropNewest,
    /// It is disconnected at once.
    Disconnect,
}

/// Policies and bounds of the broker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BrokerSettings {
    /// What happens when a subscriber takes less than it is sent.
    pub slow_subscriber: SlowSubscriber,
    /// Bytes that may wait for one subscriber's socket.
    pub outbox_max: ByteSize,
    /// How long publishers wait for a subscriber that takes nothing at all.
    pub patience: Period,
    /// QoS 1 and 2 messages that may wait for one session, connected or not.
    pub queue_messages_max: usize,
    /// Payload bytes that may wait for one session.
    pub queue_bytes_max: ByteSize,
    /// QoS 1 and 2 messages that may be unacknowledged by one subscriber at once; a client's
    /// Receive Maximum may lower it.
    pub inflight_max: u16,
    /// The longest that a session outlives its connection.
    pub session_expiry_max: Period,
    /// Sessions, connected or not.
    pub sessions_max: usize,
    /// Subscriptions of one session.
    pub subscriptions_per_session_max: usize,
    /// Retained messages.
    pub retained_messages_max: usize,
    /// Payload bytes of all retained messages.
    pub retained_bytes_max: ByteSize,
    /// Publications remembered for each topic, for `latest()`, `history()` and resuming readers.
    pub recent_per_topic: usize,
    /// Payload bytes remembered for all topics together.
    pub recent_bytes_max: ByteSize,
    /// Topics that are remembered; the longest unused make room.
    pub recent_topics_max: usize,
    /// Publications that may wait for one reader by SSE or JSON lines.
    pub stream_messages_max: usize,
    /// How often figures are published under `$SYS`; 0 for never.
    pub sys_interval: Period,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        Self {
            slow_subscriber: SlowSubscriber::default(),
            outbox_max: ByteSize::kibibytes(256),
            patience: Period::seconds(10),
            queue_messages_max: 10_000,
            queue_bytes_max: ByteSize::mebibytes(16),
            inflight_max: 1_000,
            session_expiry_max: Period::seconds(7 * 86_400),
            sessions_max: 1_000_000,
            subscriptions_per_session_max: 200_000,
            retained_messages_max: 1_000_000,
            retained_bytes_max: ByteSize::mebibytes(256),
            recent_per_topic: 64,
            recent_bytes_max: ByteSize::mebibytes(32),
            recent_topics_max: 10_000,
            stream_messages_max: 4_096,
            sys_interval: Period::seconds(10),
        }
    }
}
