//! State shared by publishing and subscribing: the subscriptions, the messages kept for topics, the
//! counters and the limits. It knows neither publishers nor the table of sessions, which refer to
//! it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use gatepost_message::TopicFilter;
use gatepost_message::sparkplug::BIRTHS;
use gatepost_store::{ClockSource, Store, StoreError};
use parking_lot::Mutex;

use crate::clock::BrokerClock;
use crate::counters::Counters;
use crate::index::Index;
use crate::limits::{Limit, LimitCounters};
use crate::memory::{MemoryBudget, MemoryGauge};
use crate::nodes::OtherNodes;
use crate::receipts::PendingReceipts;
use crate::recent::RecentMessages;
use crate::retained::{InsufficientMemory, RetainedMessages, RetainedSearch};
use crate::rules_in_force::RulesInForce;
use crate::senders::PendingSenders;
use crate::session::BrokerView;
use crate::session_name::SessionName;
use crate::sessions_on_disk::SessionsOnDisk;
use crate::settings::{BrokerSettings, SlowSubscriber};
use crate::stream_queue::StreamQueue;

/// The part of the broker that every publisher, attachment and reader holds.
pub(crate) struct BrokerShared {
    pub(crate) settings: BrokerSettings,
    pub(crate) store: Option<Store>,
    pub(crate) index: Index,
    pub(crate) retained: RetainedMessages,
    /// Whether the housekeeper looks for expired retained messages in its next tick.
    pub(crate) retained_expiry_is_due: AtomicBool,
    pub(crate) recent: RecentMessages,
    pub(crate) topic_rules: Arc<RulesInForce>,
    pub(crate) counters: Counters,
    pub(crate) limits: LimitCounters,
    pub(crate) memory: MemoryBudget,
    pub(crate) clock: BrokerClock,
    pub(crate) receipts: PendingReceipts,
    pub(crate) senders: Arc<PendingSenders>,
    pub(crate) on_disk: SessionsOnDisk,
    pub(crate) streams: Mutex<Vec<Weak<StreamQueue>>>,
    /// `None` for a server on its own.
    pub(crate) nodes: Option<Arc<dyn OtherNodes>>,
}

impl BrokerShared {
    /// The other nodes, if the session of this name may move to them.
    pub(crate) fn nodes_for(&self, name: &SessionName) -> Option<&dyn OtherNodes> {
        let nodes = self.nodes.as_deref();
        nodes.filter(|_| !name.is_in_process())
    }

    pub(crate) fn new(
        settings: BrokerSettings,
        store: Option<Store>,
        clock: Arc<dyn ClockSource>,
        memory: Arc<dyn MemoryGauge>,
        nodes: Option<Arc<dyn OtherNodes>>,
    ) -> Self {
        let topic_rules = Arc::<RulesInForce>::default();
        let births: &[&str] = if settings.sparkplug { &BIRTHS } else { &[] };
        Self {
            index: Index::new(nodes.clone(), births),
            retained: RetainedMessages::new(
                settings.retained_messages_max,
                settings.retained_bytes_max.as_usize(),
            ),
            retained_expiry_is_due: AtomicBool::new(false),
            recent: RecentMessages::new(
                settings.recent_per_topic,
                settings.recent_bytes_max.as_usize(),
                settings.recent_topics_max,
                topic_rules.clone(),
            ),
            topic_rules,
            counters: Counters::default(),
            limits: LimitCounters::default(),
            memory: MemoryBudget::new(memory, settings.memory_max),
            clock: BrokerClock::new(clock),
            receipts: PendingReceipts::default(),
            senders: Arc::default(),
            on_disk: SessionsOnDisk::default(),
            streams: Mutex::default(),
            settings,
            store,
            nodes,
        }
    }

    /// The retained messages under `filter`; an error if some are on disk and do not fit into
    /// memory.
    pub(crate) fn retained_matching(
        &self,
        filter: &TopicFilter,
    ) -> Result<RetainedSearch, InsufficientMemory> {
        let now = || self.clock.time_of_day();
        if !self.retained.is_any_on_disk() {
            return Ok(self.retained.matching(filter, now));
        }
        let room = self.memory.free_for_one();
        let read = self.retained.matching_with_disk(filter, room, now);
        read.unwrap_or_else(|error| {
            tracing::warn!(target: "broker", %error, "retained messages could not be read");
            Err(InsufficientMemory)
        })
    }

    /// Whether the latest messages of topics may use memory at a start: the reserve for sessions
    /// remains free.
    pub(crate) fn has_room_for_recent(&self) -> bool {
        self.memory.free_beyond_reserve() > 0
    }

    /// Loads retained messages as long as they fit into memory, in at most `steps_max` steps.
    pub(crate) fn load_retained(&self, steps_max: usize) -> Result<(), StoreError> {
        for _ in 0..steps_max {
            if !self.retained.load_next(self.memory.free_beyond_reserve())? {
                break;
            }
        }
        Ok(())
    }

    /// Whether publications are written to the history.
    pub(crate) fn keeps_history(&self) -> bool {
        self.store.as_ref().is_some_and(Store::keeps_history)
    }

    pub(crate) fn view(&self) -> BrokerView<'_> {
        BrokerView {
            settings: &self.settings,
            counters: &self.counters,
            limits: &self.limits,
            clock: &self.clock,
            is_stored: self.store.is_some(),
        }
    }

    /// Counts a limit that this client reached.
    pub(crate) fn reached(&self, limit: Limit, client: &str) {
        self.limits.reached(limit, client, self.clock.now_seconds());
    }

    /// Whether a topic or filter is as short and shallow as the settings demand.
    pub(crate) fn is_within_limits(&self, topic: &str) -> bool {
        let levels_max = self.settings.topic_levels_max;
        topic.len() <= self.settings.topic_bytes_max
            && memchr::memchr_iter(b'/', topic.as_bytes()).count() < levels_max
    }

    /// The policy for a slow session of this user whose listener has the policy `listener`.
    pub(crate) fn policy(
        &self,
        user: Option<&str>,
        listener: Option<SlowSubscriber>,
    ) -> SlowSubscriber {
        let settings = &self.settings;
        let of_user = user.and_then(|user| settings.slow_subscriber_of_user.get(user));
        of_user
            .copied()
            .or(listener)
            .unwrap_or(settings.slow_subscriber)
    }

    /// The queues of all readers that still exist.
    pub(crate) fn live_streams(&self) -> Vec<Arc<StreamQueue>> {
        self.streams
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }
}
