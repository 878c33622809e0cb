//! A publisher: one for each connection that publishes.
//!
//! A publisher remembers the route of each topic, and collects a batch. Consecutive QoS 0
//! publications on one topic form a *run*: for each wire format their frames are written once, into
//! one buffer, and each subscriber gets that buffer with one `send`. The cost of fan-out thus grows
//! with the number of subscribers and runs, not of subscribers and messages. The caller publishes
//! all messages of one read, then flushes once.
//!
//! Order: a run is closed before anything else is published, so every subscriber sees the
//! publisher's order over all topics, which is more than the standard requires.

mod addressed;
mod batch_traffic;
mod flush;
mod forwarding;
mod groups;
mod logged;
mod pace;
mod rules;
mod run;
mod sparkplug;
mod topics;

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gatepost_message::sparkplug::is_certificate;
use gatepost_message::{MessageId, Publication, Qos, TopicFilter};
use gatepost_store::{StoreChange, Ticket};
use gatepost_topics::RuleViolation;

use crate::limits::{Limit, TokenBucket};
use crate::nodes::LoggedPublication;
use crate::persistence::{Audience, ChangeBatch};
use crate::prefetch::prefetched;
use crate::recent::{Remembered, StaleTopic};
use crate::retained::RetainOutcome;
use crate::route::Route;
use crate::session::Session;
use crate::shared::BrokerShared;
use crate::trace::Trace;
use batch_traffic::BatchTraffic;
use flush::PendingFlush;
use pace::PublisherPace;
use run::PublicationRun;
use topics::KnownTopics;

pub use topics::{EnterError, TopicSlot};

/// The outcome of a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishOutcome {
    /// The number of subscribers that receive it.
    pub receivers: usize,
    /// The reason why it, or a part of the request, was not accepted. An acknowledgement must carry
    /// this.
    pub refused: Option<PublishRefusal>,
    /// Whether it is sent to other nodes, whose subscribers are not among the receivers.
    pub is_forwarded: bool,
}

impl PublishOutcome {
    /// The outcome of a publication that reached no subscriber.
    const fn refused(reason: PublishRefusal) -> Self {
        Self {
            receivers: 0,
            refused: Some(reason),
            is_forwarded: false,
        }
    }
}

/// The reason why a publication was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishRefusal {
    /// The publication was delivered, but the limits do not permit to retain it.
    #[error("the limit of retained messages is reached")]
    Retain,
    /// Every subscriber's queue was full.
    #[error("every subscriber's queue is full")]
    Queues,
    /// The server accepts no messages until it has memory again.
    #[error("the server is out of memory")]
    Memory,
    /// Too many messages wait for the log of the cluster.
    #[error("too many messages wait for the cluster to store them")]
    Log,
    /// It is for later, and too many wait for their time.
    #[error("no room for another delayed message")]
    Delayed,
    /// The topic's rule does not permit it.
    #[error("{0}")]
    Rule(RuleViolation),
}

/// The handle through which one connection publishes.
pub struct Publisher {
    shared: Arc<BrokerShared>,
    session: Option<Arc<Session>>,
    topics: KnownTopics,
    run: Option<PublicationRun>,
    batch: ChangeBatch,
    /// The commit of the last batch with changes: later batches may only be stored after it, so
    /// that the order of publications survives a failure.
    last_ticket: Option<Ticket>,
    /// The outcome of the last publications for the log of all nodes, for the same purpose.
    last_logged: Option<Ticket>,
    /// Present if the settings limit the rate.
    rate: Option<TokenBucket>,
    pace: PublisherPace,
    traffic: BatchTraffic,
    pending_flush: PendingFlush,
    /// Subscribers whose queues became too full.
    congested: Vec<Arc<Session>>,
    /// The ordinals of the sessions whose queue was full for the present publication.
    refused_by: Vec<u64>,
    /// Whether it publishes messages of other nodes.
    is_of_other_nodes: bool,
    /// Whether the present publication leaves the retained message of its topic as it is.
    keeps_retained: bool,
    /// Publications of this batch for the log of all nodes.
    logged: Vec<LoggedPublication>,
    /// The shared subscriptions of which a member received the present publication, if it is one
    /// of the log.
    served_groups: Vec<TopicFilter>,
}

impl Publisher {
    pub(crate) fn new(shared: Arc<BrokerShared>, session: Option<Arc<Session>>) -> Self {
        Self {
            rate: TokenBucket::new(shared.settings.publishes_per_second_max),
            topics: KnownTopics::new(shared.topic_rules.version()),
            shared,
            session,
            run: None,
            batch: ChangeBatch::default(),
            last_ticket: None,
            last_logged: None,
            pace: PublisherPace::default(),
            traffic: BatchTraffic::default(),
            pending_flush: PendingFlush::default(),
            congested: Vec::new(),
            refused_by: Vec::new(),
            is_of_other_nodes: false,
            keeps_retained: false,
            logged: Vec::new(),
            served_groups: Vec::new(),
        }
    }

    /// Makes this session the sender of the publications that follow; `None` for no session.
    pub(crate) fn act_for(&mut self, session: Option<Arc<Session>>) {
        self.close_run(false);
        self.session = session;
    }

    /// Counts a publication against the connection's rate; returns `false` if the rate is exceeded.
    pub fn is_within_rate(&mut self) -> bool {
        let Some(rate) = &mut self.rate else {
            return true;
        };
        let is_within_rate = rate.take(self.shared.clock.now());
        if !is_within_rate {
            self.reached(Limit::PublishRate);
        }
        is_within_rate
    }

    fn reached(&self, limit: Limit) {
        let client = self
            .session
            .as_ref()
            .map_or("", |session| session.client_id());
        self.shared.reached(limit, client);
    }

    /// Publishes under a topic that need not be known yet.
    pub fn publish(&mut self, publication: Publication) -> PublishOutcome {
        let slot = self.slot_of(&publication.topic);
        self.publish_at(slot, publication)
    }

    /// As [`Publisher::publish`], recording its deliveries in `trace`.
    pub(crate) fn publish_traced(
        &mut self,
        publication: Publication,
        trace: Option<Arc<Trace>>,
    ) -> PublishOutcome {
        self.batch.trace = trace;
        let delivery = self.publish(publication);
        self.batch.trace = None;
        delivery
    }

    /// Whether memory is too short for queues of the topic's subscribers, or the queue of one of
    /// them is on disk.
    fn is_short_of_memory(&mut self, slot: TopicSlot) -> bool {
        self.shared.limits.is_out_of_memory()
            || self.shared.on_disk.is_any() && self.route(slot).has_session_on_disk()
    }

    /// Whether a part of this publication would be lost for lack of memory.
    pub(crate) fn lacks_memory_for(&mut self, publication: &Publication) -> bool {
        let slot = self.slot_of(&publication.topic);
        let is_retained = publication.retain && !publication.payload.is_empty();
        publication.qos > Qos::AtMostOnce && self.is_short_of_memory(slot)
            || is_retained && self.shared.limits.is_out_of_memory()
    }

    /// Whether this publication cannot wait for the log of all nodes.
    pub(crate) fn lacks_room_in_log_for(&self, publication: &Publication) -> bool {
        self.is_logged(publication) && !self.has_room_in_log()
    }

    /// Publishes under a known topic, which must be the publication's. Nothing is written to a
    /// socket before [`Publisher::flush`].
    pub fn publish_at(&mut self, slot: TopicSlot, mut publication: Publication) -> PublishOutcome {
        self.set_time_of_death(slot, &mut publication);
        if let Err(refused) = self.apply_rule(slot, &mut publication) {
            return refused;
        }
        if publication.qos > Qos::AtMostOnce && self.is_short_of_memory(slot) {
            self.reached(Limit::Memory);
            return PublishOutcome::refused(PublishRefusal::Memory);
        }
        if self.lacks_room_in_log_for(&publication) {
            return PublishOutcome::refused(PublishRefusal::Log);
        }
        self.publish_unchanged(slot, Arc::new(publication))
    }

    /// As [`Publisher::publish_at`], for a publication that rules and roles of its topic do not
    /// change, and for which there is room.
    fn publish_unchanged(
        &mut self,
        slot: TopicSlot,
        publication: Arc<Publication>,
    ) -> PublishOutcome {
        let is_logged = self.is_logged(&publication);
        let mut refused = self
            .account(slot, &publication)
            .then_some(PublishRefusal::Retain);
        let receivers = self.deliver(slot, &publication, is_logged);
        if !self.refused_by.is_empty() && self.refused_by.len() == receivers {
            refused = Some(PublishRefusal::Queues);
        }
        let is_forwarded = self.forward(&publication);
        if is_logged {
            self.log(&publication);
        }
        self.keep_certificate(slot, &publication);
        PublishOutcome {
            receivers,
            refused,
            is_forwarded,
        }
    }

    /// Delivers to the receivers of the topic, and returns how many there are. What the log brings
    /// is left to it.
    fn deliver(
        &mut self,
        slot: TopicSlot,
        publication: &Arc<Publication>,
        is_logged: bool,
    ) -> usize {
        self.refused_by.clear();
        let route = self.remember_and_queue(slot, publication);
        let receivers = route.receivers();
        if receivers == 0 {
            return 0;
        }
        if is_logged {
            self.batch.audience = Audience::NotPersistent;
        }
        // Frames of a run are shared, so they cannot be traced one by one.
        let may_run = publication.qos == Qos::AtMostOnce && !publication.retain;
        if may_run && self.batch.trace.is_none() {
            self.add_to_run(&route, publication);
        } else {
            self.close_run(false);
            for class in &route.classes {
                self.deliver_to(&class.targets, publication);
            }
        }
        self.deliver_to(&route.singles, publication);
        self.batch.audience = Audience::All;
        if !is_logged {
            self.deliver_to_groups(&route, publication);
        }
        receivers
    }

    /// Whether this publication would be kept in the history on disk.
    pub fn keeps(&mut self, publication: &Publication) -> bool {
        let slot = self.slot_of(&publication.topic);
        self.keeps_history_of(slot, publication)
    }

    /// Whether the publication must be in the history after a restart.
    fn keeps_history_of(&self, slot: TopicSlot, publication: &Publication) -> bool {
        let is_transient = publication.qos == Qos::AtMostOnce || publication.topic.is_internal();
        let rule = self.topics[slot].rule.as_ref();
        !is_transient
            && publication.is_remembered()
            && self.shared.keeps_history()
            && rule.is_none_or(|rule| rule.history_messages_max() != Some(0))
    }

    /// Gives the publication its position, remembers it, and queues it for the topic's readers, in
    /// that order (see `recent/mod.rs`). Returns the route that was used.
    fn remember_and_queue(
        &mut self,
        slot: TopicSlot,
        publication: &Arc<Publication>,
    ) -> Arc<Route> {
        loop {
            let route = self.route(slot);
            let recent = &self.shared.recent;
            let order = (!route.readers.is_empty()).then(|| recent.order());
            let record = &self.topics[slot].record;
            let pushed = recent.push(record, publication, || self.is_current(slot));
            let position = match pushed {
                Ok(position) => position,
                Err(StaleTopic::Route) => continue,
                Err(StaleTopic::Record) => {
                    drop(order);
                    self.renew_record(slot);
                    continue;
                }
            };
            if self.keeps_history_of(slot, publication) {
                keep_in_history(&mut self.batch, position, publication);
            }
            if order.is_some() {
                let remembered = Remembered {
                    position,
                    publication: publication.clone(),
                };
                for reader in prefetched(&route.readers, |reader| &**reader) {
                    let trace = self.batch.trace.as_ref();
                    if reader.push(&remembered, trace, &self.shared.counters) {
                        self.pending_flush.readers.push(reader.clone());
                    }
                }
                // Reading the server's own figures must not change them.
                if !publication.topic.is_internal() {
                    self.traffic.deliveries += route.readers.len() as u64;
                }
            }
            return route;
        }
    }

    /// Counts and retains; returns whether retaining was refused.
    fn account(&mut self, slot: TopicSlot, publication: &Arc<Publication>) -> bool {
        let record = &self.topics[slot].record;
        let length = publication.payload.len() as u64;
        if !publication.topic.is_internal() {
            // The server's own figures are not traffic.
            self.traffic.messages += 1;
            self.traffic.bytes += length;
        }
        record.messages.fetch_add(1, Ordering::Relaxed);
        record.bytes.fetch_add(length, Ordering::Relaxed);
        self.pace.is_awaited |= publication.qos > Qos::AtMostOnce;
        if publication.qos == Qos::ExactlyOnce
            && let Some((session, packet_id)) = self.shared.receipts.take(publication.id)
        {
            session.receive(packet_id, &mut self.batch);
        }
        publication.retain && !self.keeps_retained && self.retain_or_clear(publication)
    }

    /// Retains or clears; returns whether retaining was refused.
    fn retain_or_clear(&mut self, publication: &Arc<Publication>) -> bool {
        let topic = &publication.topic;
        // The server publishes its own figures again after a restart.
        let is_durable = !topic.is_internal() || is_certificate(topic.as_str());
        let may_retain = !self.shared.limits.is_out_of_memory() || publication.payload.is_empty();
        let outcome = if may_retain {
            let is_stored = is_durable && self.shared.store.is_some();
            let commit = is_stored.then(|| self.batch.retaining_commit());
            self.begin_retaining(publication);
            self.shared.retained.retain(publication, commit)
        } else {
            RetainOutcome::Nothing
        };
        match outcome {
            RetainOutcome::Stored if is_durable => {
                self.batch
                    .changes
                    .push(StoreChange::Retain(publication.clone()));
            }
            RetainOutcome::Cleared if is_durable => {
                self.batch
                    .changes
                    .push(StoreChange::Unretain(publication.topic.clone()));
            }
            RetainOutcome::Nothing if !publication.payload.is_empty() => {
                self.reached(Limit::Retained);
                return true;
            }
            _ => {}
        }
        false
    }

    /// Records that the exactly-once publication of this packet identifier was received, so that
    /// its repetition is recognised. The record becomes durable together with the publications
    /// since the last [`Publisher::flush`].
    pub fn note_received(&mut self, packet_id: NonZeroU16) {
        if let Some(session) = &self.session {
            session.receive(packet_id, &mut self.batch);
        }
    }

    /// Adds changes that must become durable together with the publications of this batch.
    pub fn add_changes(&mut self, changes: impl IntoIterator<Item = StoreChange>) {
        self.batch.changes.extend(changes);
    }
}

/// Stores a publication at its position.
fn keep_in_history(batch: &mut ChangeBatch, position: MessageId, publication: &Arc<Publication>) {
    let publication = publication.clone();
    batch.changes.push(if position == publication.id {
        StoreChange::History(publication)
    } else {
        StoreChange::HistoryAt(position, publication)
    });
}
