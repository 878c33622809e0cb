//! What all parts of the broker share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use gatepost_store::Store;
use parking_lot::Mutex;

use crate::counters::Counters;
use crate::figures::MoreFigures;
use crate::index::Index;
use crate::keeping::Claims;
use crate::limits::{self, Limit, Limits, Rate};
use crate::load::Loads;
use crate::reader::Queue;
use crate::recent::Recent;
use crate::retained::Retained;
use crate::session::{Session, Surroundings};
use crate::settings::{BrokerSettings, SlowSubscriber};
use crate::trace::Traces;

/// What all parts share.
pub(crate) struct Core {
    pub(crate) settings: BrokerSettings,
    pub(crate) store: Option<Store>,
    pub(crate) claims: Claims,
    pub(crate) index: Index,
    pub(crate) retained: Retained,
    pub(crate) recent: Recent,
    pub(crate) counters: Counters,
    pub(crate) limits: Limits,
    pub(crate) traces: Traces,
    pub(crate) memory_share_bytes: usize,
    /// Present where the settings bound it.
    pub(crate) connect_rate: Option<Mutex<Rate>>,
    /// Connections of each user, where the settings bound them.
    pub(crate) connections_of_user: Mutex<HashMap<Arc<str>, usize>>,
    pub(crate) sessions: Mutex<HashMap<Arc<str>, Arc<Session>>>,
    pub(crate) readers: Mutex<Vec<Weak<Queue>>>,
    pub(crate) started: Instant,
    /// Seconds since the start, kept by the housekeeper: a clock that costs one load.
    pub(crate) now_seconds: AtomicU32,
    pub(crate) assigned: AtomicU64,
    pub(crate) loads: Mutex<Loads>,
    /// Figures of other rooms under `$SYS`.
    pub(crate) more_figures: OnceLock<MoreFigures>,
}

impl Core {
    /// Whether publications are written to the history.
    pub(crate) fn keeps_history(&self) -> bool {
        self.store.as_ref().is_some_and(Store::keeps_history)
    }

    pub(crate) fn new(settings: BrokerSettings, store: Option<Store>) -> Self {
        Self {
            index: Index::new(),
            retained: Retained::new(
                settings.retained_messages_max,
                settings.retained_bytes_max.as_usize(),
            ),
            recent: Recent::new(
                settings.recent_per_topic,
                settings.recent_bytes_max.as_usize(),
                settings.recent_topics_max,
            ),
            counters: Counters::default(),
            limits: Limits::default(),
            traces: Traces::new(settings.traced_messages_max),
            memory_share_bytes: limits::memory_share_bytes(),
            connect_rate: Rate::new(settings.connects_per_second_max).map(Mutex::new),
            connections_of_user: Mutex::default(),
            claims: Claims::default(),
            sessions: Mutex::default(),
            readers: Mutex::default(),
            started: Instant::now(),
            now_seconds: AtomicU32::new(0),
            assigned: AtomicU64::new(0),
            loads: Mutex::new(Loads::new(Instant::now())),
            more_figures: OnceLock::new(),
            settings,
            store,
        }
    }

    pub(crate) fn around(&self) -> Surroundings<'_> {
        Surroundings {
            settings: &self.settings,
            counters: &self.counters,
            limits: &self.limits,
            now_seconds: self.now_seconds.load(Ordering::Relaxed),
        }
    }

    /// Counts a bound that was reached by this client.
    pub(crate) fn reached(&self, limit: Limit, client: &str) {
        let now_seconds = self.now_seconds.load(Ordering::Relaxed);
        self.limits.reached(limit, client, now_seconds);
    }

    /// Whether a topic or filter is as short and shallow as the settings demand.
    pub(crate) fn is_within_limits(&self, topic: &str) -> bool {
        let levels_max = self.settings.topic_levels_max;
        topic.len() <= self.settings.topic_bytes_max
            && memchr::memchr_iter(b'/', topic.as_bytes()).count() < levels_max
    }

    /// What is done with a slow session of this user, where its listener says `listener`.
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
}
