//! A subscriber's state at the broker, and everything that is done under its lock.
//!
//! One mutex guards a session. It is held for a few dozen nanoseconds, or for one `send`; never
//! across an await and never together with another lock of the broker, so there is no order of
//! locks to keep. Two are exceptions, of which the holder never waits for a session: the store's
//! own queue is entered under it, and the retained messages are read under it.
//!
//! - `state.rs`: the state under the lock;
//! - `link.rs`: the live connection;
//! - `deliver.rs`: delivery of a publication to the session, and the reasons against it;
//! - `queue.rs`: the same for QoS 1 and 2, which are queued;
//! - `waiting_retained.rs`: retained messages that wait until the session has space
//!   (`retained_space.rs`);
//! - `cache_lines.rs`: what a delivery uses of the session, fetched into the cache;
//! - `write.rs`: writing to the socket, and the task that waits when the socket is full;
//! - `persist.rs`: the part of the session that survives the server.

mod cache_lines;
mod deliver;
mod filters;
mod link;
mod persist;
mod queue;
mod retained_space;
mod state;
mod waiting_retained;
mod write;

use std::borrow::Cow;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gatepost_message::Publication;
use parking_lot::{Mutex, MutexGuard};

use crate::acknowledged::AcknowledgedDeliveries;
use crate::clock::BrokerClock;
use crate::counters::{Counters, DropCause, DropCounters};
use crate::encoder::WireFormat;
use crate::limits::{Limit, LimitCounters};
use crate::session_name::SessionName;
use crate::settings::{BrokerSettings, SlowSubscriber};
use crate::trace::StepOutcome;
pub(crate) use deliver::expiry_left;
pub(crate) use filters::SessionFilters;
pub(crate) use link::{LiveLink, TopicAliases};
pub(crate) use persist::DeferredEffects;
pub(crate) use retained_space::RetainedSpace;
pub(crate) use state::SessionState;
pub(crate) use waiting_retained::WaitingRetained;

/// The reason why the broker ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisconnectCause {
    /// Another connection took over the session (\[MQTT-3.1.4-3\]).
    TakenOver,
    /// The client was silent for one and a half times its keep alive \[MQTT-3.1.2-22\].
    KeepAliveTimeout,
    /// The client read more slowly than messages arrived, and the policy is to disconnect.
    TooSlow,
    /// An operator ended it.
    Administrative,
    /// The user that it belonged to was removed.
    UserRemoved,
    /// The server shuts down.
    ShuttingDown,
    /// The socket failed.
    Broken,
}

/// The way in which QoS 0 publications reach sessions of a connection's kind.
#[derive(Clone)]
pub(crate) enum DeliveryMode {
    /// By bytes shared with all sessions of the same format.
    Shared(WireFormat),
    /// By frames of its own.
    Single,
    /// Not connected: nothing is sent.
    NotConnected,
}

/// The outcome of a delivery, as far as the publisher needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    /// Nothing to do.
    None,
    /// The session has ended.
    Ended,
    /// Bytes wait to be flushed by this publisher.
    Dirty,
    /// The delivery may be sent once the publisher has submitted its changes.
    Held,
    /// The session's queue was full.
    Refused,
    /// The client acknowledges too slowly, and publishers should wait, unless they are such
    /// clients themselves.
    Filling,
    /// Bytes wait, and so should the publisher.
    Congested,
}

/// The limits on waiting publications of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueBounds {
    /// QoS 1 and 2 messages.
    pub messages_max: usize,
    /// Bytes of these messages: topics, payloads, properties.
    pub bytes_max: usize,
}

/// QoS 0 frames that sessions of one format share.
pub(crate) struct SharedFrames {
    pub(crate) bytes: Bytes,
    pub(crate) messages: u32,
    pub(crate) format: WireFormat,
}

/// A publication for the case that the client's connection is lost (section 3.1.2.5).
#[derive(Debug, Clone)]
pub struct SessionWill {
    /// The message to publish.
    pub publication: Publication,
    /// The delay after the connection's end, unless the client returns.
    pub delay: Duration,
}

/// Sessions that have begun in this process.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// A subscriber's state, which outlives its connection if the client requested that.
///
/// In a fan-out each delivery is to another session, whose memory is in no cache by then, so what
/// a delivery costs is the number of cache lines that it touches. What every delivery at QoS 0
/// uses is therefore at the beginning, in the declared order and aligned to a line.
#[repr(C, align(64))]
pub struct Session {
    pub(crate) delivered: AtomicU64,
    congested: AtomicBool,
    /// Whether its socket refuses bytes.
    is_stalled: AtomicBool,
    /// Whether its client sends requests and does not read the answers: its requests are not read
    /// meanwhile.
    has_many_answers: AtomicBool,
    connected: AtomicBool,
    /// Whether its queue is not in memory (see `sessions_on_disk.rs`).
    on_disk: AtomicBool,
    /// Whether its queue has no room, so that others of a group should get the next message.
    has_full_queue: AtomicBool,
    /// Whether the server does not read the client's packets at present.
    pub(crate) is_unread: AtomicBool,
    pub(crate) state: Mutex<SessionState>,
    pub(crate) filters: Mutex<SessionFilters>,
    pub(crate) client_id: Arc<str>,
    pub(crate) kind: Cow<'static, str>,
    /// Its place in the order in which the sessions of this process began.
    pub(crate) ordinal: u64,
    /// Rises with each connection, so that an old connection's task cannot act for a new one.
    pub(crate) epoch: AtomicU64,
    /// Connections whose task has not ended, the present one and earlier ones.
    pub(crate) attachments: AtomicU32,
    /// The time of the client's last packet, in seconds since the broker's start.
    pub(crate) heard_seconds: AtomicU32,
    /// One and a half times the keep alive; 0 for none.
    pub(crate) silence_max_seconds: AtomicU32,
    pub(crate) dropped: DropCounters,
}

/// The broker's parts that deliveries need.
#[derive(Clone, Copy)]
pub(crate) struct BrokerView<'a> {
    pub(crate) settings: &'a BrokerSettings,
    pub(crate) counters: &'a Counters,
    pub(crate) limits: &'a LimitCounters,
    pub(crate) clock: &'a BrokerClock,
    /// Whether there is a store, and so commits that can fail.
    pub(crate) is_stored: bool,
}

impl Session {
    pub(crate) fn new(client_id: Arc<str>, kind: Cow<'static, str>) -> Self {
        Self {
            client_id,
            kind,
            ordinal: SESSIONS.fetch_add(1, Ordering::Relaxed),
            state: Mutex::default(),
            filters: Mutex::default(),
            epoch: AtomicU64::new(0),
            attachments: AtomicU32::new(0),
            connected: AtomicBool::new(false),
            on_disk: AtomicBool::new(false),
            congested: AtomicBool::new(false),
            has_full_queue: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            has_many_answers: AtomicBool::new(false),
            heard_seconds: AtomicU32::new(0),
            silence_max_seconds: AtomicU32::new(0),
            is_unread: AtomicBool::new(false),
            dropped: DropCounters::default(),
            delivered: AtomicU64::new(0),
        }
    }

    /// The client's own id, or the one that the broker chose.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// The name of the session, given its state.
    pub(crate) fn name_of(&self, state: &SessionState) -> SessionName {
        SessionName::new(state.user.clone(), self.client_id.clone())
    }

    pub(crate) fn name(&self) -> SessionName {
        self.name_of(&self.state.lock())
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    pub(crate) fn is_on_disk(&self) -> bool {
        self.on_disk.load(Ordering::Acquire)
    }

    pub(crate) fn set_on_disk(&self, is_so: bool) {
        self.on_disk.store(is_so, Ordering::Release);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_connected() && !self.is_congested()
    }

    pub(crate) fn has_full_queue(&self) -> bool {
        self.has_full_queue.load(Ordering::Relaxed)
    }

    pub(crate) fn delivery_mode(&self) -> DeliveryMode {
        let state = self.state.lock();
        let Some(link) = &state.link else {
            return DeliveryMode::NotConnected;
        };
        let is_plain = link.aliases.is_none()
            && link.frame_bytes_max == usize::MAX
            && state.policy != SlowSubscriber::NewestOnly;
        if is_plain {
            DeliveryMode::Shared(link.format.clone())
        } else {
            DeliveryMode::Single
        }
    }

    pub(crate) fn count_drop(&self, broker: BrokerView<'_>, cause: DropCause, count: u64) {
        if count == 0 {
            return;
        }
        self.dropped.add(cause, count);
        broker.counters.drop_messages(cause, count);
        let limit = match cause {
            DropCause::OutboxFull => Limit::Outbox,
            DropCause::QueueFull => Limit::Queue,
            _ => return,
        };
        broker
            .limits
            .reached(limit, &self.client_id, broker.clock.now_seconds());
    }

    /// Makes the connection's task end.
    pub(crate) fn end(&self, why: DisconnectCause) {
        self.end_locked(&mut self.state.lock(), why);
    }

    pub(crate) fn end_locked(&self, state: &mut SessionState, why: DisconnectCause) {
        if state.link.is_some() && state.ended.is_none() {
            state.ended = Some(why);
        }
        wake(&mut state.owner);
        self.wake_publishers(state);
    }

    /// Gives the session a new connection.
    pub(crate) fn attach(&self, state: &mut SessionState, link: LiveLink) {
        state.link = Some(link);
        state.ended = None;
        state.blocked = false;
        state.dirty = false;
        state.expires = None;
        state.will_due = None;
        self.is_unread.store(false, Ordering::Relaxed);
        self.connected.store(true, Ordering::Release);
    }

    /// Appends the first frame of a connection, then the deliveries that were in flight on the last
    /// one. None of them is sent before [`SessionState::begin`].
    pub(crate) fn greet(
        &self,
        state: &mut SessionState,
        write: impl FnOnce(&mut BytesMut),
        broker: BrokerView<'_>,
    ) {
        state.outbox.append(0, false, write);
        self.resend(state, broker);
        state.dirty = true;
        state.blocked = true;
    }

    /// Detaches the connection; returns whether everything had been written, that is, whether the
    /// old connection may still be sent a last frame.
    pub(crate) fn detach(&self, state: &mut SessionState, broker: BrokerView<'_>) -> bool {
        state.link = None;
        state.owner = None;
        state.stalled = None;
        self.is_stalled.store(false, Ordering::Relaxed);
        let was_clean = state.outbox.is_empty();
        self.has_many_answers.store(false, Ordering::Relaxed);
        let newest = state.newest.take().map_or(0, |newest| newest.len() as u64);
        let waiting = state.outbox.messages() as u64;
        let lost = state.outbox.clear() + newest;
        let cause = match state.ended {
            Some(DisconnectCause::TooSlow) => DropCause::Stalled,
            _ => DropCause::ConnectionLost,
        };
        if let Some(traced) = &mut state.traced {
            let last = self.delivered.load(Ordering::Relaxed);
            let first_lost = last.saturating_sub(waiting);
            traced.settle_range(first_lost, last, StepOutcome::Dropped(cause));
        }
        self.count_drop(broker, cause, lost);
        self.connected.store(false, Ordering::Release);
        self.wake_publishers(state);
        was_clean
    }

    /// Runs `act` on the QoS 1 and 2 state, and sends the deliveries that the outcome permits.
    pub(crate) fn with_acknowledged<T>(
        &self,
        broker: BrokerView<'_>,
        act: impl FnOnce(&mut AcknowledgedDeliveries) -> T,
    ) -> T {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let result = act(state.acknowledged.get_or_insert_default());
        self.pump(state, broker);
        state.dirty |= !state.outbox.is_empty();
        self.note_progress(state, broker);
        result
    }

    /// Appends frames that are not publications, to be written at the next flush.
    pub(crate) fn append_control<T>(
        &self,
        write: impl FnOnce(&mut BytesMut) -> T,
        broker: BrokerView<'_>,
    ) -> T {
        let mut state = self.state.lock();
        state.dirty = true;
        let written = state.outbox.append(0, false, write);
        if state.outbox.control_bytes() > broker.settings.outbox_max.as_usize() {
            self.has_many_answers.store(true, Ordering::Relaxed);
        }
        written
    }

    /// Whether a delivery is unacknowledged.
    pub(crate) fn has_in_flight(&self) -> bool {
        let state = self.state.lock();
        let queue = state.acknowledged.as_ref();
        queue.is_some_and(|queue| !queue.in_flight.is_empty())
    }

    /// QoS 2 publications of the client that it has not released.
    pub(crate) fn received_count(&self) -> usize {
        let state = self.state.lock();
        let queue = state.acknowledged.as_ref();
        queue.map_or(0, |queue| queue.received.len())
    }

    pub(crate) fn received_ids(&self) -> Vec<NonZeroU16> {
        let state = self.state.lock();
        let queue = state.acknowledged.as_ref();
        queue.map_or_else(Vec::new, |queue| queue.received.ids().collect())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock()
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
