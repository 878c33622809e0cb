//! A subscriber's state at the broker, and everything that is done under its lock.
//!
//! One mutex guards a session. It is held for a few dozen nanoseconds, or for one `send`; never
//! across an await and never together with another lock of the broker, so there is no order of
//! locks to keep.
//!
//! The way of bytes: a publisher's task appends to the outbox and writes to the socket itself.
//! When the socket refuses, the outbox is *blocked* and the connection's own task is woken, which
//! waits for writability and goes on; while it is blocked, publishers only append. Thus fan-out
//! needs no wake-up per subscriber, and nobody ever waits for a socket under the lock.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use gatepost_message::{Publication, Qos, Topic};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};

use gatepost_message::TopicFilter;

use crate::acknowledged::{Acknowledged, Delivery, Phase};
use crate::counters::{Counters, DropCause};
use crate::encoder::{Alias, Format, FrameOptions, Sink};
use crate::outbox::{Outbox, Written};
use crate::settings::{BrokerSettings, SlowSubscriber};

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
    /// Bytes wait, and so should the publisher.
    Congested,
}

/// QoS 0 frames that sessions of one format share.
pub(crate) struct Batch {
    pub(crate) bytes: Bytes,
    pub(crate) messages: u32,
    pub(crate) format: Format,
}

/// A live connection of a session.
pub(crate) struct Link {
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) format: Format,
    /// The largest frame that the client takes, in bytes.
    pub(crate) frame_bytes_max: usize,
    pub(crate) in_flight_max: usize,
    pub(crate) aliases: Option<Box<Aliases>>,
}

/// Topic aliases that this connection was told (§ 3.3.2.3.4).
pub(crate) struct Aliases {
    max: u16,
    numbers: HashMap<Topic, u16>,
}

impl Aliases {
    pub(crate) fn new(max: u16) -> Self {
        Self {
            max,
            numbers: HashMap::new(),
        }
    }

    fn of(&mut self, topic: &Topic) -> Option<Alias> {
        if let Some(&number) = self.numbers.get(topic) {
            return Some(Alias {
                number,
                is_new: false,
            });
        }
        let number = self.numbers.len() as u16 + 1;
        if number > self.max {
            return None; // [MQTT-3.1.2-26]
        }
        self.numbers.insert(topic.clone(), number);
        Some(Alias {
            number,
            is_new: true,
        })
    }
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
    pub(crate) link: Option<Link>,
    pub(crate) outbox: Outbox,
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
}

/// A subscriber's state; outlives its connection if it asked to.
pub struct Session {
    pub(crate) client_id: Arc<str>,
    pub(crate) kind: &'static str,
    pub(crate) state: Mutex<State>,
    pub(crate) filters: Mutex<HashSet<TopicFilter>>,
    /// Rises with each connection, so that an old connection's task cannot act for a new one.
    pub(crate) epoch: AtomicU64,
    connected: AtomicBool,
    congested: AtomicBool,
    /// Seconds since the broker's start at which the client was last heard.
    pub(crate) heard_seconds: AtomicU32,
    /// One and a half times the keep alive; 0 for none.
    pub(crate) silence_max_seconds: AtomicU32,
    pub(crate) dropped: AtomicU64,
    pub(crate) delivered: AtomicU64,
}

/// What deliveries need of the broker.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) settings: &'a BrokerSettings,
    pub(crate) counters: &'a Counters,
}

impl Session {
    pub(crate) fn new(client_id: Arc<str>, kind: &'static str) -> Self {
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
            dropped: AtomicU64::new(0),
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
        match &self.state.lock().link {
            None => Service::Away,
            Some(link) if link.aliases.is_none() && link.frame_bytes_max == usize::MAX => {
                Service::Shared(link.format)
            }
            Some(_) => Service::Single,
        }
    }

    fn count_drop(&self, around: Surroundings<'_>, cause: DropCause, count: u64) {
        Counters::add(&self.dropped, count);
        around.counters.drop_messages(cause, count);
    }

    /// Delivers QoS 0 frames that others share; writes them at once if `send`.
    pub(crate) fn deliver_batch(
        &self,
        batch: &Batch,
        send: bool,
        around: Surroundings<'_>,
        delivered: &mut u64,
    ) -> Pressure {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(link) = &state.link else {
            return Pressure::None; // QoS 0 is for those who are there.
        };
        if link.format.name() != batch.format.name() {
            // Returned in another version since the route was found.
            self.count_drop(around, DropCause::ConnectionLost, u64::from(batch.messages));
            return Pressure::None;
        }
        if !self.make_room(state, batch.bytes.len(), batch.messages, around) {
            return Pressure::None;
        }
        *delivered += u64::from(batch.messages);
        Counters::add(&self.delivered, u64::from(batch.messages));
        if send && !state.blocked {
            let Some(link) = &state.link else {
                return Pressure::None;
            };
            let sent = state
                .outbox
                .send_shared(&batch.bytes, batch.messages, &*link.sink);
            state.dirty = false;
            self.after_write(state, sent);
        } else {
            state.outbox.append_shared(&batch.bytes, batch.messages);
        }
        self.pressure(state, around)
    }

    /// Applies the policy for a full outbox; tells whether the bytes may be appended.
    fn make_room(
        &self,
        state: &mut State,
        bytes: usize,
        messages: u32,
        around: Surroundings<'_>,
    ) -> bool {
        let bytes_max = around.settings.outbox_max.as_usize();
        if state.outbox.bytes() + bytes <= bytes_max || state.outbox.is_empty() {
            return true;
        }
        match around.settings.slow_subscriber {
            // Publishers stop after what they have read; this is for those who cannot stop.
            SlowSubscriber::SlowPublisher => {
                if state.outbox.bytes() < bytes_max.saturating_mul(4) {
                    return true;
                }
                self.count_drop(around, DropCause::OutboxFull, u64::from(messages));
                false
            }
            SlowSubscriber::DropNewest => {
                self.count_drop(around, DropCause::OutboxFull, u64::from(messages));
                false
            }
            SlowSubscriber::DropOldest => {
                let dropped = state.outbox.drop_oldest(bytes_max.saturating_sub(bytes));
                self.count_drop(around, DropCause::OutboxFull, dropped);
                true
            }
            SlowSubscriber::Disconnect => {
                self.end_locked(state, Ended::TooSlow);
                false
            }
        }
    }

    fn pressure(&self, state: &mut State, around: Surroundings<'_>) -> Pressure {
        if state.outbox.is_empty() {
            return Pressure::None;
        }
        let is_full = state.outbox.bytes() > around.settings.outbox_max.as_usize()
            || state.acknowledged.as_ref().is_some_and(|acknowledged| {
                state.link.is_some()
                    && acknowledged.waiting.len() > around.settings.queue_messages_max / 2
            });
        if is_full && around.settings.slow_subscriber == SlowSubscriber::SlowPublisher {
            state.congested_since.get_or_insert_with(Instant::now);
            self.congested.store(true, Ordering::Relaxed);
            state.dirty = true;
            return Pressure::Congested;
        }
        if state.blocked || state.dirty {
            return Pressure::None;
        }
        state.dirty = true;
        Pressure::Dirty
    }

    /// Delivers one publication in a frame of this session's own.
    pub(crate) fn deliver(
        &self,
        publication: &Arc<Publication>,
        target: &crate::subscription::Target,
        retain: bool,
        around: Surroundings<'_>,
    ) -> Pressure {
        let qos = publication.qos.min(target.qos);
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.has_ended {
            return Pressure::None;
        }
        if qos == Qos::AtMostOnce {
            if state.link.is_none() || !self.make_room(state, publication.payload.len(), 1, around)
            {
                return Pressure::None;
            }
            let options = FrameOptions {
                retain,
                identifiers: &target.identifiers,
                expiry_seconds: expiry_left(publication),
                ..FrameOptions::default()
            };
            self.encode(state, publication, &options, around);
        } else {
            let delivery = Delivery {
                publication: publication.clone(),
                qos,
                retain,
                identifiers: target.identifiers.clone(),
            };
            self.enqueue(state, delivery, around);
            self.pump(state, around);
        }
        self.pressure(state, around)
    }

    /// Lets a QoS 1 or 2 delivery wait for its turn.
    fn enqueue(&self, state: &mut State, delivery: Delivery, around: Surroundings<'_>) {
        let queue = state.acknowledged.get_or_insert_default();
        let settings = around.settings;
        let is_full = |queue: &Acknowledged| {
            queue.waiting.len() >= settings.queue_messages_max
                || queue.waiting_bytes() + delivery.publication.payload.len()
                    > settings.queue_bytes_max.as_usize()
        };
        if is_full(queue) && settings.slow_subscriber == SlowSubscriber::DropOldest {
            while is_full(queue) && queue.pop().is_some() {
                self.count_drop(around, DropCause::QueueFull, 1);
            }
        }
        if is_full(queue) {
            self.count_drop(around, DropCause::QueueFull, 1);
            if settings.slow_subscriber == SlowSubscriber::Disconnect && state.link.is_some() {
                self.end_locked(state, Ended::TooSlow);
            }
            return;
        }
        queue.push(delivery);
    }

    /// Sends what waits, as far as the client's quota goes \[MQTT-3.3.4-9\].
    fn pump(&self, state: &mut State, around: Surroundings<'_>) {
        while let (Some(link), Some(queue)) = (&state.link, &mut state.acknowledged) {
            if queue.in_flight.len() >= link.in_flight_max {
                return;
            }
            let Some(delivery) = queue.pop() else {
                return;
            };
            let expiry_seconds = expiry_left(&delivery.publication);
            if expiry_seconds == Some(0) {
                self.count_drop(around, DropCause::Expired, 1);
                continue; // [MQTT-3.3.2-5]
            }
            let packet_id = queue.send(delivery.clone());
            if !self.send_delivery(state, &delivery, packet_id, false, around)
                && let Some(queue) = &mut state.acknowledged
            {
                // Too large for the client: as if it were complete [MQTT-3.1.2-25].
                queue.in_flight.pop_back();
            }
        }
    }

    fn send_delivery(
        &self,
        state: &mut State,
        delivery: &Delivery,
        packet_id: NonZeroU16,
        dup: bool,
        around: Surroundings<'_>,
    ) -> bool {
        let options = FrameOptions {
            qos: delivery.qos,
            dup,
            retain: delivery.retain,
            packet_id: Some(packet_id),
            identifiers: &delivery.identifiers,
            alias: None,
            expiry_seconds: expiry_left(&delivery.publication),
        };
        self.encode(state, &delivery.publication, &options, around)
    }

    /// Appends a frame of this session's own; tells whether the client can take it.
    fn encode(
        &self,
        state: &mut State,
        publication: &Publication,
        options: &FrameOptions<'_>,
        around: Surroundings<'_>,
    ) -> bool {
        let Some(link) = &mut state.link else {
            return false;
        };
        let alias = link
            .aliases
            .as_mut()
            .and_then(|aliases| aliases.of(&publication.topic));
        let options = FrameOptions { alias, ..*options };
        // A frame that tells an alias must arrive, or later ones mean nothing.
        let defines_alias = alias.is_some_and(|alias| alias.is_new);
        let droppable = options.qos == Qos::AtMostOnce && !defines_alias;
        let (format, frame_bytes_max) = (link.format, link.frame_bytes_max);
        let is_written = state.outbox.append(1, droppable, |out| {
            let start = out.len();
            let encoded = format.encode(publication, &options, out);
            let fits = encoded.is_ok() && out.len() - start <= frame_bytes_max;
            if !fits {
                out.truncate(start);
            }
            fits
        });
        if is_written {
            Counters::add(&self.delivered, 1);
            let counts = u64::from(!publication.topic.is_internal());
            Counters::add(&around.counters.deliveries, counts);
        } else {
            state.outbox.uncount_message();
            if defines_alias
                && let Some(aliases) = state.link.as_mut().and_then(|link| link.aliases.as_mut())
            {
                aliases.numbers.remove(&publication.topic);
            }
            self.count_drop(around, DropCause::TooLarge, 1);
        }
        is_written
    }

    /// Writes what waits, if the socket takes it and nobody else is at it.
    pub(crate) fn flush(&self) {
        let mut state = self.state.lock();
        if state.dirty {
            self.flush_locked(&mut state);
        }
    }

    /// As [`Session::flush`], when the socket has become writable again.
    pub(crate) fn flush_as_owner(&self, state: &mut State) {
        state.blocked = false;
        self.flush_locked(state);
    }

    fn flush_locked(&self, state: &mut State) {
        state.dirty = false;
        let Some(link) = &state.link else {
            return;
        };
        if state.blocked || state.outbox.is_empty() {
            return;
        }
        let written = state.outbox.write_to(&*link.sink);
        self.after_write(state, written);
    }

    fn after_write(&self, state: &mut State, written: std::io::Result<Written>) {
        match written {
            Ok(Written::All) => self.relieve(state),
            Ok(Written::Blocked) => {
                state.blocked = true;
                wake(&mut state.owner);
            }
            Err(_) => self.end_locked(state, Ended::Broken),
        }
    }

    /// Lets publishers go on.
    fn relieve(&self, state: &mut State) {
        if state.congested_since.take().is_some() {
            self.congested.store(false, Ordering::Relaxed);
        }
        state.waiting.drain(..).for_each(Waker::wake);
    }

    /// After the owner wrote a part: the clock of patience starts again, and publishers go on
    /// when half of the room is free.
    pub(crate) fn note_progress(&self, state: &mut State, around: Surroundings<'_>) {
        if state.congested_since.is_some() {
            state.congested_since = Some(Instant::now());
            if !is_congested(state, around) {
                self.relieve(state);
            }
        }
    }

    /// Registers a publisher that waits; `false` if it need not.
    pub(crate) fn await_room(&self, waker: &Waker, around: Surroundings<'_>) -> bool {
        let mut state = self.state.lock();
        if state.link.is_none() || state.ended.is_some() || !is_congested(&state, around) {
            return false;
        }
        if !state.waiting.iter().any(|known| known.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
        true
    }

    /// Whether it has been congested, without taking anything, since before `since`.
    pub(crate) fn is_stalled(&self, since: Instant) -> bool {
        self.congested.load(Ordering::Relaxed)
            && self
                .state
                .lock()
                .congested_since
                .is_some_and(|congested| congested < since)
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

    /// Writes the first frame of a connection, then what was in flight on the last one.
    pub(crate) fn greet(
        &self,
        state: &mut State,
        write: impl FnOnce(&mut BytesMut),
        around: Surroundings<'_>,
    ) {
        state.outbox.append(0, false, write);
        self.resend(state, around);
        state.dirty = true;
    }

    /// Everything unacknowledged, in its order \[MQTT-4.4.0-1\].
    fn resend(&self, state: &mut State, around: Surroundings<'_>) {
        let Some(mut queue) = state.acknowledged.take() else {
            return;
        };
        for flight in &queue.in_flight {
            if flight.phase == Phase::Sent {
                self.send_delivery(state, &flight.delivery, flight.packet_id, true, around);
            } else if let Some(link) = &state.link {
                let format = link.format;
                state.outbox.append(0, false, |out| {
                    format.encode_release(flight.packet_id, out);
                });
            }
        }
        queue.in_flight.make_contiguous();
        state.acknowledged = Some(queue);
        self.pump(state, around);
    }

    /// Takes the connection away; tells whether everything had been written, that is, whether
    /// the old connection may still be sent a word of its own.
    pub(crate) fn detach(&self, state: &mut State, around: Surroundings<'_>) -> bool {
        state.link = None;
        state.owner = None;
        let was_clean = state.outbox.is_empty();
        let lost = state.outbox.clear();
        let cause = match state.ended {
            Some(Ended::TooSlow) => DropCause::Stalled,
            _ => DropCause::ConnectionLost,
        };
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
        result
    }

    /// Appends frames that are not publications, to be written at the next flush.
    pub(crate) fn append_control<T>(&self, write: impl FnOnce(&mut BytesMut) -> T) -> T {
        let mut state = self.state.lock();
        state.dirty = true;
        state.outbox.append(0, false, write)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    pub(crate) fn set_owner(&mut self, waker: &Waker) {
        if !self
            .owner
            .as_ref()
            .is_some_and(|owner| owner.will_wake(waker))
        {
            self.owner = Some(waker.clone());
        }
    }

    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// QoS 1 and 2 messages that wait or are unacknowledged, and publications in the outbox.
    pub(crate) fn queued(&self) -> usize {
        self.outbox.messages()
            + self
                .acknowledged
                .as_ref()
                .map_or(0, |queue| queue.waiting.len())
    }
}

fn is_congested(state: &State, around: Surroundings<'_>) -> bool {
    state.outbox.bytes() > around.settings.outbox_max.as_usize() / 2
        || state
            .acknowledged
            .as_ref()
            .is_some_and(|queue| queue.waiting.len() > around.settings.queue_messages_max / 4)
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// Only publications that expire need to look at the clock.
pub(crate) fn expiry_left(publication: &Publication) -> Option<u32> {
    publication.properties.as_ref()?.expiry_seconds?;
    publication.expiry_seconds_left(std::time::SystemTime::now())
}
