//! The `[broker]` table of the config: policies and bounds.

use std::collections::BTreeMap;

use gatepost_settings::{ByteSize, Period};
use serde::{Deserialize, Serialize};

/// The policy for a subscriber that is slower than its publications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlowSubscriber {
    /// Publishers wait for it for at most `patience`; then it is disconnected.
    #[default]
    SlowPublisher,
    /// The oldest waiting delivery is dropped.
    DropOldest,
    /// The new publication is refused.
    DropNewest,
    /// Only the newest waiting delivery of each topic is kept.
    NewestOnly,
    /// It is disconnected immediately.
    Disconnect,
}

/// Policies and bounds of the broker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BrokerSettings {
    /// The policy for a subscriber that is slower than its publications.
    pub slow_subscriber: SlowSubscriber,
    /// The same for the sessions of certain users; takes precedence over a listener's setting.
    pub slow_subscriber_of_user: BTreeMap<String, SlowSubscriber>,
    /// Bytes that may wait for one subscriber's socket. Under `slow-publisher`, publishers that
    /// cannot be slowed may fill four times as much before their publications are dropped. A client
    /// with this many bytes of unread answers is not read until it reads some.
    pub outbox_max: ByteSize,
    /// Publications that may wait for one subscriber's socket.
    pub outbox_messages_max: usize,
    /// The time for which publishers wait for a subscriber until half of its queue is free again.
    /// After that it is disconnected, and publishers do not wait for it again before it has caught
    /// up that far.
    pub patience: Period,
    /// The longest delay for which publications at QoS 0 are gathered into larger writes, if they
    /// arrive faster than they can be sent to the subscribers one by one; 0 for never.
    pub gather_max: Period,
    /// QoS 1 and 2 messages that may wait for one session, connected or not.
    pub queue_messages_max: usize,
    /// Bytes that may wait for one session: topics, payloads, properties. As many may be
    /// unacknowledged.
    pub queue_bytes_max: ByteSize,
    /// QoS 1 and 2 messages that may be unacknowledged by one subscriber at once; a client's
    /// Receive Maximum may lower it.
    pub inflight_max: u16,
    /// The longest that a session outlives its connection.
    pub session_expiry_max: Period,
    /// Sessions, connected or not.
    pub sessions_max: usize,
    /// Connections of one user at once; 0 for any number.
    pub connections_per_user_max: usize,
    /// Connections that are accepted in a second, over all listeners; 0 for any number.
    pub connects_per_second_max: u32,
    /// Publications that one connection may send in a second; 0 for any number.
    pub publishes_per_second_max: u32,
    /// Bytes of a topic or filter.
    pub topic_bytes_max: usize,
    /// Levels of a topic or filter.
    pub topic_levels_max: usize,
    /// Resident memory above which new connections, new subscriptions, publications at QoS 1 or 2
    /// and retained messages are refused; queues that do not fit at a start wait on disk. 0 for
    /// three quarters of the memory of the machine or of the control group.
    pub memory_max: ByteSize,
    /// Subscriptions of one session.
    pub subscriptions_per_session_max: usize,
    /// Bytes of the filters of one session.
    pub subscription_bytes_per_session_max: ByteSize,
    /// Retained messages.
    pub retained_messages_max: usize,
    /// Bytes of all retained messages: topics, payloads, properties.
    pub retained_bytes_max: ByteSize,
    /// Publications remembered for each topic, for `latest()`, `history()` and resuming readers.
    pub recent_per_topic: usize,
    /// Bytes remembered for all topics together: topics, payloads, properties.
    pub recent_bytes_max: ByteSize,
    /// Topics that are remembered; the longest unused are forgotten.
    pub recent_topics_max: usize,
    /// Publications that may wait for one reader by SSE or JSON lines.
    pub stream_messages_max: usize,
    /// Bytes that may wait for one reader by SSE or JSON lines: topics, payloads, properties. A
    /// single larger publication may wait alone.
    pub stream_bytes_max: ByteSize,
    /// The number of latest messages whose delivery to each subscriber is remembered, for their
    /// story in the dashboard; 0 for none.
    pub traced_messages_max: usize,
    /// Whether the broker is a Sparkplug aware server: birth certificates are kept as retained
    /// copies under `$sparkplug/certificates/`, and an NDEATH gets the time of its delivery. Not
    /// together with `access.mount`.
    pub sparkplug: bool,
    /// The interval at which statistics are published under `$SYS`, in whole seconds; 0 for never.
    pub sys_interval: Period,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        Self {
            slow_subscriber: SlowSubscriber::default(),
            slow_subscriber_of_user: BTreeMap::new(),
            outbox_max: ByteSize::kibibytes(256),
            outbox_messages_max: 65_536,
            patience: Period::seconds(10),
            gather_max: Period::milliseconds(20),
            queue_messages_max: 10_000,
            queue_bytes_max: ByteSize::mebibytes(16),
            inflight_max: 1_000,
            session_expiry_max: Period::seconds(7 * 86_400),
            sessions_max: 1_000_000,
            connections_per_user_max: 0,
            connects_per_second_max: 0,
            publishes_per_second_max: 0,
            topic_bytes_max: gatepost_message::TOPIC_BYTES_MAX,
            topic_levels_max: gatepost_message::TOPIC_LEVELS_MAX,
            memory_max: ByteSize(0),
            subscriptions_per_session_max: 200_000,
            subscription_bytes_per_session_max: ByteSize::mebibytes(16),
            retained_messages_max: 1_000_000,
            retained_bytes_max: ByteSize::mebibytes(256),
            recent_per_topic: 64,
            recent_bytes_max: ByteSize::mebibytes(32),
            recent_topics_max: 10_000,
            stream_messages_max: 4_096,
            stream_bytes_max: ByteSize::mebibytes(16),
            traced_messages_max: 1_000,
            sparkplug: false,
            sys_interval: Period::seconds(10),
        }
    }
}
