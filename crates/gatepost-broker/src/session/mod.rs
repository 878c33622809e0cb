//! A subscriber's state at the broker, and everything that is done under its lock.
//!
//! One mutex guards a session. It is held for a few dozen nanoseconds, or for one `send`; never
//! across an await and never together with another lock of the broker (only the store's own queue
//! is entered under it), so there is no order of locks to keep.
//!
//! - `link.rs`: the live connection;
//! - `deliver.rs`: how a publication gets into the session, or why it does not;
//! - `queue.rs`: the same of QoS 1 and 2, which wait for their turn;
//! - `write.rs`: how bytes get out of it, and who waits when they do not;
//! - `keep.rs`: what of it survives the server.

mod deliver;
mod keep;
mod link;
mod queue;
mod write;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use gatepost_message::{Publication, TopicFilter};
use parking_lot::{Mutex, MutexGuard};

use crate::acknowledged::Acknowledged;
use crate::counters::{Counters, DropCause, Drops};
use crate::encoder::Format;
use crate::limits::{Limit, Limits};
use crate::newest::Newest;
use crate::outbox::Outbox;
use crate::settings::{BrokerSettings, SlowSubscriber};
use crate::trace::{Pending, StepOutcome};

pub(crate) use deliver::expiry_left;
pub(crate) use keep::Aftermath;
pub(crate) use link::{Aliases, Link};

/// Why the broker ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Another connection took the session (\[MQTT-3.1.4-3\]).
    TakenOver,
    /// The client was silent for one and a half times its keep alive \[MQTT-3.1.2-22\].
    KeepAliveTimeout,
    /// It took less than it was sent, and the policy is to disconnect.
    TooSlow,
    /// An operator ended it.
    Administrative,
    /// The server goes down.
    ShuttingDown,
    /// The socket failed.
    Broken,
}

/// How sessions of a connection's kind are reached by QoS 0 publications.
#[derive(Clone, Copy)]
pub(crate) enum Service {
    /// By bytes shared with all of the same format.
    Shared(Format),
    /// By frames of its own.
    Single,
    /// Not at all now.
    Away,
}

/// What happened to a delivery, as far as the publisher must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Nothing to do.
    None,
    /// Bytes wait to be flushed by this publisher.
    Dirty,
    /// It may be sent once the publisher has submitted its changes.
    Held,
    /// The session's queue had no room.
    Refused,
    /// The client acknowledges too slowly, and publishers should wait, unless they are such
    /// clients themselves.
    Filling,
    /// Bytes wait, and so should the publisher.
    Congested,
}

/// QoS 0 frames that sessions of one format share.
pub(crate) struct Batch {
    pub(crate) bytes: Bytes,
    pub(crate) messages: u32,
    pub(crate) format: Format,
}

/// A publication that waits for the client's end (§ 3.1.2.5).
#[derive(Debug, Clone)]
pub struct Will {
    /// What to publish.
    pub publication: Publication,
    /// How long after the connection's end, unless the client returns.
    pub delay: Duration,
}

#[derive(Default)]
pub(crate) struct State {
    /// Who may have the session; `None` for whoever comes.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) link: Option<Link>,
    pub(crate) outbox: Outbox,
    /// What is done when it takes less than it is sent.
    pub(crate) policy: SlowSubscriber,
    /// What waits behind the outbox, where only the newest is wanted.
    pub(crate) newest: Option<Box<Newest>>,
    pub(crate) acknowledged: Option<Box<Acknowledged>>,
    pub(crate) will: Option<Box<Will>>,
    /// When the will is due, once the connection is gone.
    pub(crate) will_due: Option<Instant>,
    /// When the session ends, once the connection is gone; `None` for never.
    pub(crate) expires: Option<Instant>,
    pub(crate) expiry: Duration,
    pub(crate) has_ended: bool,
    /// Whether the connection that lost the session had been written everything.
    pub(crate) was_cut_cleanly: bool,
    pub(crate) ended: Option<Ended>,
    /// The connection's own task.
    owner: Option<Waker>,
    /// Publishers that wait for room.
    waiting: Vec<Waker>,
    /// The socket refused; only the owner writes until it takes again.
    blocked: bool,
    dirty: bool,
    /// When the outbox was last seen to shrink while it was too full.
    congested_since: Option<Instant>,
    /// Traced QoS 0 deliveries that may still be lost, by their place among all deliveries.
    traced: Option<Box<Pending>>,
}

/// A subscriber's state; outlives its connection if it asked to.
pub struct Session {
    pub(crate) client_id: Arc<str>,
    pub(crate) kind: Cow<'static, str>,
    pub(crate) state: Mutex<State>,
    /// What it subscribes to. A tree: unlike a hash table it leaves nothing behind as it grows.
    pub(crate) filters: Mutex<BTreeSet<TopicFilter>>,
    /// Rises with each connection, so that an old connection's task cannot act for a new one.
    pub(crate) epoch: AtomicU64,
    connected: AtomicBool,
    congested: AtomicBool,
    /// Seconds since the broker's start at which the client was last heard.
    pub(crate) heard_seconds: AtomicU32,
    /// One and a half times the keep alive; 0 for none.
    pub(crate) silence_max_seconds: AtomicU32,
    pub(crate) dropped: Drops,
    pub(crate) delivered: AtomicU64,
}

/// What deliveries need of the broker.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) settings: &'a BrokerSettings,
    pub(crate) counters: &'a Counters,
    pub(crate) limits: &'a Limits,
    pub(crate) now_seconds: u32,
}

impl Session {
    pub(crate) fn new(client_id: Arc<str>, kind: Cow<'static, str>) -> Self {
        Self {
            client_id,
            kind,
            state: Mutex::default(),
            filters: Mutex::default(),
            epoch: AtomicU64::new(0),
            connected: AtomicBool::new(false),
            congested: AtomicBool::new(false),
            heard_seconds: AtomicU32::new(0),
            silence_max_seconds: AtomicU32::new(0),
            dropped: Drops::default(),
            delivered: AtomicU64::new(0),
        }
    }

    /// The client's name for itself, or the one that it was given.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_connected() && !self.congested.load(Ordering::Relaxed)
    }

    pub(crate) fn service(&self) -> Service {
        let state = self.state.lock();
        let Some(link) = &state.link else {
            return Service::Away;
        };
        let is_plain = link.aliases.is_none()
            && link.frame_bytes_max == usize::MAX
            && state.policy != SlowSubscriber::NewestOnly;
        if is_plain {
            Service::Shared(link.format)
        } else {
            Service::Single
        }
    }

    pub(crate) fn count_drop(&self, around: Surroundings<'_>, cause: DropCause, count: u64) {
        if count == 0 {
            return;
        }
        self.dropped.add(cause, count);
        around.counters.drop_messages(cause, count);
        let limit = match cause {
            DropCause::OutboxFull => Limit::Outbox,
            DropCause::QueueFull => Limit::Queue,
            _ => return,
        };
        around
            .limits
            .reached(limit, &self.client_id, around.now_seconds);
    }

    /// Tells the connection's task to end.
    pub(crate) fn end(&self, why: Ended) {
        self.end_locked(&mut self.state.lock(), why);
    }

    pub(crate) fn end_locked(&self, state: &mut State, why: Ended) {
        if state.link.is_some() && state.ended.is_none() {
            state.ended = Some(why);
        }
        wake(&mut state.owner);
        self.relieve(state);
    }

    /// Gives the session a new connection.
    pub(crate) fn attach(&self, state: &mut State, link: Link) {
        state.link = Some(link);
        state.ended = None;
        state.blocked = false;
        state.dirty = false;
        state.expires = None;
        state.will_due = None;
        self.connected.store(true, Ordering::Release);
    }

    /// Writes the first frame of a connection, then what was in flight on the last one. None of it
    /// leaves before [`State::begin`].
    pub(crate) fn greet(
        &self,
        state: &mut State,
        write: impl FnOnce(&mut BytesMut),
        around: Surroundings<'_>,
    ) {
        state.outbox.append(0, false, write);
        self.resend(state, around);
        state.dirty = true;
        state.blocked = true;
    }

    /// Takes the connection away; tells whether everything had been written, that is, whether
    /// the old connection may still be sent a word of its own.
    pub(crate) fn detach(&self, state: &mut State, around: Surroundings<'_>) -> bool {
        state.link = None;
        state.owner = None;
        let was_clean = state.outbox.is_empty();
        let behind = state.newest.take().map_or(0, |newest| newest.len() as u64);
        let waiting = state.outbox.messages() as u64;
        let lost = state.outbox.clear() + behind;
        let cause = match state.ended {
            Some(Ended::TooSlow) => DropCause::Stalled,
            _ => DropCause::ConnectionLost,
        };
        if let Some(traced) = &mut state.traced {
            let last = self.delivered.load(Ordering::Relaxed);
            let first_lost = last.saturating_sub(waiting);
            traced.settle_range(first_lost, last, StepOutcome::Dropped(cause));
        }
        self.count_drop(around, cause, lost);
        self.connected.store(false, Ordering::Release);
        self.relieve(state);
        was_clean
    }

    /// Runs `act` on the QoS 1 and 2 state, and sends what its outcome makes room for.
    pub(crate) fn with_acknowledged<T>(
        &self,
        around: Surroundings<'_>,
        act: impl FnOnce(&mut Acknowledged) -> T,
    ) -> T {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let result = act(state.acknowledged.get_or_insert_default());
        self.pump(state, around);
        state.dirty |= !state.outbox.is_empty();
        self.note_progress(state, around);
        result
    }

    /// Appends frames that are not publications, to be written at the next flush.
    pub(crate) fn append_control<T>(&self, write: impl FnOnce(&mut BytesMut) -> T) -> T {
        let mut state = self.state.lock();
        state.dirty = true;
        state.outbox.append(0, false, write)
    }

    /// Whether its client has yet to acknowledge something.
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

    pub(crate) fn is_received(&self, packet_id: NonZeroU16) -> bool {
        let state = self.state.lock();
        let queue = state.acknowledged.as_ref();
        queue.is_some_and(|queue| queue.received.contains(&packet_id))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Wakes the connection's own task.
    pub(crate) fn wake_owner(&mut self) {
        wake(&mut self.owner);
    }

    pub(crate) fn set_owner(&mut self, waker: &Waker) {
        if !self
            .owner
            .as_ref()
            .is_some_and(|owner| owner.will_wake(waker))
        {
            self.owner = Some(waker.clone());
        }
    }

    /// The greeting may be written, and what follows it.
    pub(crate) const fn begin(&mut self) {
        self.blocked = false;
    }

    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// QoS 1 and 2 messages that wait or are unacknowledged, and publications in the outbox.
    pub(crate) fn queued(&self) -> usize {
        self.outbox.messages()
            + self.newest.as_ref().map_or(0, |newest| newest.len())
            + self
                .acknowledged
                .as_ref()
                .map_or(0, |queue| queue.waiting.len())
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
