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

mod flush;
mod pace;
mod run;
mod topics;

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use gatepost_message::{Publication, Qos};
use gatepost_store::Change;

use crate::core::Core;
use crate::keeping::Gathering;
use crate::limits::{Limit, Rate};
use crate::reader::Queue;
use crate::recent::TopicKey;
use crate::retained::Kept;
use crate::session::Session;
use crate::subscription::Target;
use crate::trace::Trace;
use run::Run;
use topics::Known;

pub use topics::{EnterError, TopicSlot};

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
    /// Readers that are to be handed what was published.
    due: Vec<Arc<Queue>>,
    congested: Vec<Arc<Session>>,
    /// Sessions that may be sent to once the changes are submitted.
    held: Vec<Arc<Session>>,
    gathering: Gathering,
    /// Present where the settings bound it.
    rate: Option<Rate>,
    messages: u64,
    bytes: u64,
    deliveries: u64,
    /// Of the frames of these deliveries, as far as they are shared.
    bytes_out: u64,
    /// Sessions whose queue had no room for the present publication.
    refusals: usize,
    /// Somebody waits for an acknowledgement of what was gathered.
    is_awaited: bool,
    gathers_until: Option<Instant>,
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
            due: Vec::new(),
            congested: Vec::new(),
            held: Vec::new(),
            gathering: Gathering::default(),
            messages: 0,
            bytes: 0,
            deliveries: 0,
            bytes_out: 0,
            refusals: 0,
            is_awaited: false,
            gathers_until: None,
        }
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

    /// Publishes under a topic that need not be known yet.
    pub fn publish(&mut self, publication: Publication) -> Delivery {
        let slot = match self.lookup(publication.topic.as_str()) {
            Some(slot) => slot,
            None => self.remember(publication.topic.clone()),
        };
        self.publish_at(slot, publication)
    }

    /// As [`Publisher::publish`], noting in `trace` what becomes of it.
    pub(crate) fn publish_traced(
        &mut self,
        publication: Publication,
        trace: Option<Arc<Trace>>,
    ) -> Delivery {
        self.gathering.trace = trace;
        let delivery = self.publish(publication);
        self.gathering.trace = None;
        delivery
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
            // In a run nobody is told apart.
            let may_run = publication.qos == Qos::AtMostOnce && !publication.retain;
            if may_run && self.gathering.trace.is_none() {
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
                if reader.push(&publication, self.gathering.trace.as_ref(), &self.core) {
                    self.due.push(reader.clone());
                }
                // Whoever looks at the figures shall not move them.
                self.deliveries += u64::from(!publication.topic.is_internal());
            }
        }
        if self.refusals > 0 && self.refusals == receivers {
            refused = Some(Refused::Queues);
        }
        Delivery { receivers, refused }
    }

    /// Counts, remembers, keeps; tells whether keeping was refused.
    fn account(&mut self, slot: TopicSlot, publication: &Arc<Publication>) -> bool {
        let known = &self.known[slot.index()];
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
        self.is_awaited |= publication.qos > Qos::AtMostOnce;
        if publication.qos > Qos::AtMostOnce && !is_ours && self.core.keeps_history() {
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
}
