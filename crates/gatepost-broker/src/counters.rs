//! Counters of the broker. Hot paths add once for each batch, not for each message.

use std::sync::atomic::{AtomicU64, Ordering};

/// The cause of a dropped delivery. Every drop is counted under its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum DropCause {
    /// The subscriber's outbox was full, and the policy is to drop.
    OutboxFull,
    /// The session's queue of QoS 1 and 2 messages was full.
    QueueFull,
    /// The subscriber read nothing for too long and was disconnected.
    Stalled,
    /// The connection ended before its outbox was written.
    ConnectionLost,
    /// Larger than the subscriber's Maximum Packet Size.
    TooLarge,
    /// It expired before it could be delivered.
    Expired,
    /// A reader by SSE or JSON lines was too slow; it gets a gap event in their place.
    StreamFull,
    /// The disk refused it, and the publisher got a failure.
    NotStored,
    /// The client may no longer receive it.
    Denied,
    /// A newer message of its topic replaced it, under the policy of keeping the newest.
    Superseded,
    /// The other nodes could not be reached, or it was too large for the way to them.
    Backbone,
}

impl DropCause {
    /// Every cause, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::OutboxFull,
        Self::QueueFull,
        Self::Stalled,
        Self::ConnectionLost,
        Self::TooLarge,
        Self::Expired,
        Self::StreamFull,
        Self::NotStored,
        Self::Denied,
        Self::Superseded,
        Self::Backbone,
    ];

    /// The name in metrics and in `$SYS`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OutboxFull => "outbox_full",
            Self::QueueFull => "queue_full",
            Self::Stalled => "stalled",
            Self::ConnectionLost => "connection_lost",
            Self::TooLarge => "too_large",
            Self::Expired => "expired",
            Self::StreamFull => "stream_full",
            Self::NotStored => "not_stored",
            Self::Denied => "denied",
            Self::Superseded => "superseded",
            Self::Backbone => "backbone",
        }
    }
}

/// Sums since the start. All accesses are relaxed, since the counters order nothing.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) messages_in: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) deliveries: AtomicU64,
    /// Bytes of the frames of deliveries.
    pub(crate) bytes_out: AtomicU64,
    /// Connections that got a session.
    pub(crate) connections: AtomicU64,
    pub(crate) connected: AtomicU64,
    /// The maximum number of connected sessions at any publication of the figures.
    pub(crate) connected_max: AtomicU64,
    /// Deaths of Sparkplug's edge nodes whose payload could not be read.
    pub(crate) sparkplug_malformed: AtomicU64,
    dropped: DropCounters,
}

/// Drops by cause, of the broker or of one session.
#[derive(Debug, Default)]
pub(crate) struct DropCounters([AtomicU64; DropCause::ALL.len()]);

impl DropCounters {
    pub(crate) fn add(&self, cause: DropCause, count: u64) {
        Counters::add(&self.0[cause as usize], count);
    }

    pub(crate) fn of(&self, cause: DropCause) -> u64 {
        self.0[cause as usize].load(Ordering::Relaxed)
    }

    /// The sum of all causes.
    pub(crate) fn total(&self) -> u64 {
        DropCause::ALL.into_iter().map(|cause| self.of(cause)).sum()
    }

    /// Every cause with its sum.
    pub(crate) fn by_cause(&self) -> Vec<(DropCause, u64)> {
        let causes = DropCause::ALL.into_iter();
        causes.map(|cause| (cause, self.of(cause))).collect()
    }
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        if count > 0 {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn drop_messages(&self, cause: DropCause, count: u64) {
        self.dropped.add(cause, count);
    }

    pub(crate) const fn dropped(&self) -> &DropCounters {
        &self.dropped
    }
}
