//! A publisher: one for each connection that publishes.
//!
//! It remembers for each topic where its publications go, and gathers. Publications that follow
//! each other under one topic at QoS 0 form a *run*: for each wire format their frames are
//! written once, into one buffer, and each subscriber gets that buffer with one `send`. Fan-out
//! thus costs by subscriber and run, not by subscriber and message. The caller publishes all
//! that one read gave, then flushes once.
//!
//! Order: a run is closed before anything else is published, so every subscriber sees the
//! publisher's order over all topics, which is more than the standard asks.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use gatepost_message::{Publication, Qos, Topic, TopicError};
use gatepost_store::{Change, StoreError, Ticket};

use crate::broker::Core;
use crate::counters::Counters;
use crate::encoder::FrameOptions;
use crate::index::{Generations, Place};
use crate::keeping::Gathering;
use crate::limits::{Limit, Rate};
use crate::recent::{Record, TopicKey};
use crate::retained::Kept;
use crate::route::Route;
use crate::session::{Batch, Pressure, Session, expiry_left};
use crate::subscription::Target;

/// Topics that one publisher remembers; beyond that it starts anew.
const TOPICS_MAX: usize = 1024;
/// A run is written out at this length, so that buffers stay in the cache.
const RUN_BYTES_MAX: usize = 64 * 1024;

/// A topic that a publisher remembers; valid until [`Publisher::topics_epoch`] changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicSlot(usize);

impl TopicSlot {
    /// A small number, for tables beside the publisher's own.
    pub const fn index(self) -> usize {
        self.0
    }
}

struct Known {
    topic: Topic,
    record: Arc<Record>,
    place: Place,
    generations: Generations,
    route: Arc<Route>,
}

struct Run {
    route: Arc<Route>,
    /// A buffer for each of the route's classes.
    buffers: Vec<BytesMut>,
    messages: u32,
    /// The server's own figures do not count as deliveries.
    is_ours: bool,
}

/// What became of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// How many subscribers it goes to.
    pub receivers: usize,
    /// Why it, or a part of what was asked, was not taken; whoever promises must tell.
    pub refused: Option<Refused>,
}

/// Why a publication was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It was delivered, but there is no room to retain it.
    #[error("no room for another retained message")]
    Retain,
    /// No subscriber's queue had room.
    #[error("every subscriber's queue is full")]
    Queues,
    /// The server takes nothing in until it has memory again.
    #[error("the server is out of memory")]
    Memory,
}

impl EnterError {
    /// For people, in one line.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Topic(_) => "the topic is refused",
            Self::BeyondLimits => "the topic is longer or deeper than this server allows",
        }
    }
}

/// Why a topic cannot be published to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnterError {
    /// It is none.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// It is longer or deeper than the settings allow.
    #[error("the topic is longer or deeper than this server allows")]
    BeyondLimits,
}

/// One connection's way into the broker.
pub struct Publisher {
    core: Arc<Core>,
    session: Option<Arc<Session>>,
    slots: HashMap<TopicKey, TopicSlot>,
    known: Vec<Known>,
    epoch: u64,
    last: Option<TopicSlot>,
    run: Option<Run>,
    dirty: Vec<Arc<Session>>,
    congested: Vec<Arc<Session>>,
    /// Sessions that may be sent to once the changes are submitted.
    held: Vec<Arc<Session>>,
    gathering: Gathering,
    /// Present where the settings bound it.
    rate: Option<Rate>,
    messages: u64,
    bytes: u64,
    deliveries: u64,
    /// Sessions whose queue had no room for the present publication.
    refusals: usize,
}

impl Publisher {
    pub(crate) fn new(core: Arc<Core>, session: Option<Arc<Session>>) -> Self {
        Self {
            rate: Rate::new(core.settings.publishes_per_second_max),
            core,
            session,
            slots: HashMap::new(),
            known: Vec::new(),
            epoch: 0,
            last: None,
            run: None,
            dirty: Vec::new(),
            congested: Vec::new(),
            held: Vec::new(),
            gathering: Gathering::default(),
            messages: 0,
            bytes: 0,
            deliveries: 0,
            refusals: 0,
        }
    }

    /// Looks `name` up among the topics of this publisher, checking it when it is new.
    pub fn enter(&mut self, name: &str) -> Result<TopicSlot, EnterError> {
        if let Some(slot) = self.lookup(name) {
            return Ok(slot);
        }
        if !self.core.is_within_limits(name) {
            self.reached(Limit::Topic);
            return Err(EnterError::BeyondLimits);
        }
        let topic = Topic::new(name)?;
        Ok(self.remember(topic))
    }

    /// Counts a publication against the connection's rate; `false` where it is above it.
    pub fn is_in_time(&mut self) -> bool {
        let Some(rate) = &mut self.rate else {
            return true;
        };
        let is_in_time = rate.take(Instant::now());
        if !is_in_time {
            self.reached(Limit::PublishRate);
        }
        is_in_time
    }

    fn reached(&self, limit: Limit) {
        let client = self
            .session
            .as_ref()
            .map_or("", |session| session.client_id());
        self.core.reached(limit, client);
    }

    fn lookup(&mut self, name: &str) -> Option<TopicSlot> {
        if let Some(last) = self.last
            && self.known[last.0].topic.as_str() == name
        {
            return Some(last);
        }
        self.last = self.slots.get(name).copied();
        self.last
    }

    fn remember(&mut self, topic: Topic) -> TopicSlot {
        if self.known.len() >= TOPICS_MAX {
            self.known.clear();
            self.slots.clear();
            self.epoch += 1;
        }
        let slot = TopicSlot(self.known.len());
        let place = self.core.index.place(topic.as_str());
        let generations = self.core.index.generations(place);
        let route = Route::find(&self.core.index, topic.as_str(), place);
        self.slots.insert(TopicKey(topic.clone()), slot);
        self.known.push(Known {
            record: self.core.recent.record(&topic),
            place,
            generations,
            route: Arc::new(route),
            topic,
        });
        self.last = Some(slot);
        slot
    }

    /// Rises whenever earlier [`TopicSlot`]s lose their meaning.
    pub const fn topics_epoch(&self) -> u64 {
        self.epoch
    }

    /// The topic of a slot.
    pub fn topic(&self, slot: TopicSlot) -> &Topic {
        &self.known[slot.0].topic
    }

    /// Publishes under a topic that need not be known yet.
    pub fn publish(&mut self, publication: Publication) -> Delivery {
        let slot = match self.lookup(publication.topic.as_str()) {
            Some(slot) => slot,
            None => self.remember(publication.topic.clone()),
        };
        self.publish_at(slot, publication)
    }

    /// Publishes under a known topic, which must be the publication's. Nothing is written to a
    /// socket before [`Publisher::flush`].
    pub fn publish_at(&mut self, slot: TopicSlot, publication: Publication) -> Delivery {
        if self.core.limits.is_out_of_memory() && publication.qos > Qos::AtMostOnce {
            self.reached(Limit::Memory);
            return Delivery {
                receivers: 0,
                refused: Some(Refused::Memory),
            };
        }
        let publication = Arc::new(publication);
        let mut refused = self.account(slot, &publication).then_some(Refused::Retain);
        self.refusals = 0;
        let route = self.route(slot);
        let receivers = route.receivers();
        if receivers > 0 {
            if publication.qos == Qos::AtMostOnce && !publication.retain {
                self.add_to_run(&route, &publication);
            } else {
                self.close_run(false);
                for class in &route.classes {
                    self.deliver_to(&class.targets, &publication);
                }
            }
            self.deliver_to(&route.singles, &publication);
            for group in &route.groups {
                if let Some(member) = group.next_member() {
                    self.deliver_to(&[Target::from(&member)], &publication);
                }
            }
            for reader in &route.readers {
                reader.push(&publication, &self.core);
                self.deliveries += 1;
            }
        }
        if self.refusals > 0 && self.refusals == receivers {
            refused = Some(Refused::Queues);
        }
        Delivery { receivers, refused }
    }

    /// Counts, remembers, keeps; tells whether keeping was refused.
    fn account(&mut self, slot: TopicSlot, publication: &Arc<Publication>) -> bool {
        let known = &self.known[slot.0];
        let length = publication.payload.len() as u64;
        let is_ours = publication.topic.is_internal();
        if !is_ours {
            // The server's own figures are no traffic.
            self.messages += 1;
            self.bytes += length;
        }
        known.record.messages.fetch_add(1, Ordering::Relaxed);
        known.record.bytes.fetch_add(length, Ordering::Relaxed);
        self.core.recent.push(&known.record, publication);
        if publication.qos > Qos::AtMostOnce && !is_ours {
            self.gathering
                .changes
                .push(Change::History(publication.clone()));
        }
        if publication.qos == Qos::ExactlyOnce
            && let Some((session, packet_id)) = self.core.claims.take(publication.id)
        {
            session.receive(packet_id, &mut self.gathering.changes);
        }
        if !publication.retain {
            return false;
        }
        let may_keep = !self.core.limits.is_out_of_memory() || publication.payload.is_empty();
        let kept = if may_keep {
            self.core.retained.keep(publication)
        } else {
            Kept::Nothing
        };
        match kept {
            Kept::Stored if !is_ours => self
                .gathering
                .changes
                .push(Change::Retain(publication.clone())),
            Kept::Cleared if !is_ours => {
                self.gathering
                    .changes
                    .push(Change::Unretain(publication.topic.clone()));
            }
            Kept::Nothing if !publication.payload.is_empty() => {
                self.reached(Limit::Retained);
                return true;
            }
            _ => {}
        }
        false
    }

    /// Where the topic's publications go; looked up again only if something changed.
    fn route(&mut self, slot: TopicSlot) -> Arc<Route> {
        let known = &mut self.known[slot.0];
        let generations = self.core.index.generations(known.place);
        if generations != known.generations {
            let route = Route::find(&self.core.index, known.topic.as_str(), known.place);
            known.route = Arc::new(route);
            known.generations = generations;
        }
        known.route.clone()
    }

    fn add_to_run(&mut self, route: &Arc<Route>, publication: &Publication) {
        if let Some(run) = &self.run {
            let is_full = run
                .buffers
                .iter()
                .any(|buffer| buffer.len() >= RUN_BYTES_MAX);
            if !Arc::ptr_eq(&run.route, route) || is_full {
                self.close_run(is_full);
            }
        }
        let run = self.run.get_or_insert_with(|| Run {
            route: route.clone(),
            buffers: vec![BytesMut::new(); route.classes.len()],
            messages: 0,
            is_ours: publication.topic.is_internal(),
        });
        run.messages += 1;
        let options = FrameOptions {
            expiry_seconds: expiry_left(publication),
            ..FrameOptions::default()
        };
        for (class, buffer) in route.classes.iter().zip(&mut run.buffers) {
            // What no frame can hold, nobody can be sent.
            let _ = class.format.encode(publication, &options, buffer);
        }
    }

    /// Hands the run's buffers to all its subscribers; writes to their sockets if `send`.
    fn close_run(&mut self, send: bool) {
        let Some(run) = self.run.take() else {
            return;
        };
        let core = self.core.clone();
        let mut delivered = 0;
        for (class, buffer) in run.route.classes.iter().zip(run.buffers) {
            let batch = Batch {
                bytes: buffer.freeze(),
                messages: run.messages,
                format: class.format,
            };
            for target in &class.targets {
                if target.no_local && self.is_own(&target.session) {
                    continue; // [MQTT-3.8.3-3]
                }
                let pressure =
                    target
                        .session
                        .deliver_batch(&batch, send, core.around(), &mut delivered);
                self.note(&target.session, pressure);
            }
        }
        if !run.is_ours {
            self.deliveries += delivered;
        }
    }

    fn is_own(&self, session: &Arc<Session>) -> bool {
        self.session
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, session))
    }

    fn deliver_to(&mut self, targets: &[Target], publication: &Arc<Publication>) {
        let core = self.core.clone();
        for target in targets {
            if target.no_local && self.is_own(&target.session) {
                continue; // [MQTT-3.8.3-3]
            }
            let retain = publication.retain && target.retain_as_published;
            let pressure = target.session.deliver(
                publication,
                target,
                retain,
                &mut self.gathering,
                core.around(),
            );
            self.note(&target.session, pressure);
        }
    }

    fn note(&mut self, session: &Arc<Session>, pressure: Pressure) {
        match pressure {
            Pressure::None => {}
            Pressure::Dirty => self.dirty.push(session.clone()),
            Pressure::Held => self.held.push(session.clone()),
            Pressure::Refused => self.refusals += 1,
            Pressure::Filling | Pressure::Congested => {
                // It may be held as well; going on flushes too.
                self.held.push(session.clone());
                if pressure == Pressure::Filling && self.must_go_on_reading(session) {
                    return;
                }
                if !self
                    .congested
                    .iter()
                    .any(|known| Arc::ptr_eq(known, session))
                {
                    self.congested.push(session.clone());
                }
            }
        }
    }

    /// Whether this publisher is a subscriber that has yet to acknowledge: not to read from it
    /// until others acknowledge could leave each waiting for the other.
    fn must_go_on_reading(&self, congested: &Arc<Session>) -> bool {
        self.is_own(congested) || self.session.as_ref().is_some_and(|own| own.has_in_flight())
    }

    /// Notes that the exactly-once publication of this packet identifier was received, so that
    /// its repetition is known for one. Durable together with what was published since the last
    /// [`Publisher::flush`].
    pub fn note_received(&mut self, packet_id: NonZeroU16) {
        if let Some(session) = &self.session {
            session.receive(packet_id, &mut self.gathering.changes);
        }
    }

    /// Changes that are to be durable together with what is published.
    pub(crate) fn take_along(&mut self, changes: Vec<Change>) {
        self.gathering.changes.extend(changes);
    }

    /// Writes what was gathered to the sockets, once each. The ticket, where there is one, is
    /// for what must be durable before it is acknowledged.
    pub fn flush(&mut self) -> Option<Result<Ticket, StoreError>> {
        let ticket = self.submit_changes();
        self.close_run(true);
        self.let_held_go_on();
        for session in self.dirty.drain(..) {
            session.flush(self.core.around());
        }
        let counters = &self.core.counters;
        Counters::add(&counters.messages_in, std::mem::take(&mut self.messages));
        Counters::add(&counters.bytes_in, std::mem::take(&mut self.bytes));
        Counters::add(&counters.deliveries, std::mem::take(&mut self.deliveries));
        ticket
    }

    fn submit_changes(&mut self) -> Option<Result<Ticket, StoreError>> {
        let changes = &mut self.gathering.changes;
        let Some(store) = &self.core.store else {
            changes.clear();
            return None;
        };
        if changes.is_empty() {
            return None;
        }
        let ticket = store.submit_all(changes);
        if ticket.is_err() {
            // Nobody is told of success, so nothing of it is owed.
            changes.clear();
        }
        self.gathering.was_submitted(&ticket);
        Some(ticket)
    }

    /// Sends what sessions held back until its rows were submitted.
    fn let_held_go_on(&mut self) {
        let address = |session: &Arc<Session>| Arc::as_ptr(session).cast::<()>() as usize;
        self.held.sort_unstable_by_key(address);
        self.held.dedup_by_key(|session| address(session));
        for session in self.held.drain(..) {
            session.go_on(self.core.around(), &mut self.gathering.changes);
        }
        if let Some(store) = &self.core.store
            && !self.gathering.changes.is_empty()
        {
            // Removals only: refused, they are made at the next flush.
            let _ = store.submit_all(&mut self.gathering.changes);
        }
    }

    /// Whether subscribers asked to be waited for, since the last [`Publisher::poll_relief`].
    pub fn is_congested(&self) -> bool {
        !self.congested.is_empty()
    }

    /// Waits until the subscribers that were too full have room again, or are given up.
    pub fn poll_relief(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let core = &self.core;
        self.congested
            .retain(|session| session.await_room(context.waker(), core.around()));
        if self.congested.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // What was published is published, even if the connection ends between the two calls.
        let _ = self.flush();
    }
}
