//! The broker's figures, for the dashboard, metrics and `$SYS`.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::acknowledged::AcknowledgedDeliveries;
use crate::counters::DropCause;
use crate::limits::Limit;
use crate::session::Session;
use crate::session_table::SessionTable;
use crate::settings::SlowSubscriber;
use crate::shared::BrokerShared;
use crate::stream_queue::StreamQueue;

/// One topic's traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicStats {
    /// Its name.
    pub topic: String,
    /// Publications in the last whole second.
    pub per_second: u64,
    /// Publications since the topic was first used.
    pub messages: u64,
    /// Payload bytes since the topic was first used.
    pub bytes: u64,
}

/// One subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStats {
    /// The client id, or the name of a reader.
    pub client: String,
    /// The user whose session it is.
    pub user: Option<String>,
    /// `mqtt`, `websocket`, `sse`, `jsonl`.
    pub kind: Cow<'static, str>,
    /// Whether it is connected.
    pub connected: bool,
    /// Its subscriptions.
    pub subscriptions: usize,
    /// Publications that wait for it.
    pub queued: usize,
    /// The same, including those that were sent and are not acknowledged.
    pub unfinished: usize,
    /// Bytes that wait for its socket.
    pub queued_bytes: usize,
    /// Publications delivered to it.
    pub delivered: u64,
    /// Publications that it missed.
    pub dropped: u64,
    /// The number of missed publications, by cause; causes without any are omitted.
    pub dropped_by: Vec<(DropCause, u64)>,
    /// The policy for a subscriber that is slower than its publications.
    pub policy: SlowSubscriber,
}

/// All figures at one moment; sums are since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrokerStats {
    /// Publications received.
    pub messages_in: u64,
    /// The payload bytes of these.
    pub bytes_in: u64,
    /// Publications delivered to subscribers.
    pub deliveries: u64,
    /// The bytes of their frames.
    pub bytes_out: u64,
    /// The total number of connections that got a session.
    pub connections: u64,
    /// Deliveries that did not happen, by cause.
    pub dropped: Vec<(DropCause, u64)>,
    /// Deaths of Sparkplug's edge nodes whose payload could not be read.
    pub sparkplug_malformed: u64,
    /// The number of times that each limit was reached.
    pub limits: Vec<(Limit, u64)>,
    /// Subscriptions held now.
    pub subscriptions: usize,
    /// Sessions held now.
    pub sessions: usize,
    /// The number of connected sessions.
    pub sessions_connected: u64,
    /// Readers of streams: server-sent events, JSON lines.
    pub readers: u64,
    /// QoS 1 and 2 messages that wait for sessions.
    pub stored: u64,
    /// Bytes that wait in memory for sessions.
    pub queued_bytes: u64,
    /// Retained messages held now.
    pub retained: usize,
    /// The payload bytes of these.
    pub retained_bytes: usize,
    /// The busiest topics, busiest first.
    pub topics: Vec<TopicStats>,
    /// The sessions with the longest queues, longest first.
    pub queues: Vec<SessionStats>,
}

impl BrokerStats {
    /// Drops of all causes.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().map(|(_, count)| count).sum()
    }
}

/// The figures, with at most `topics` topics and `sessions` sessions. Walks over all of them: for
/// once a second, not for a hot path.
pub(crate) fn collect(table: &SessionTable, topics: usize, sessions: usize) -> BrokerStats {
    let mut stats = without_lists(table);
    stats.topics = busiest_topics(table.shared(), topics);
    stats.queues = longest_queues(table, sessions);
    stats
}

/// The figures without the lists of topics and sessions.
pub(crate) fn without_lists(table: &SessionTable) -> BrokerStats {
    let shared = table.shared();
    let counters = &shared.counters;
    let sessions = table.all();
    let (mut stored, mut queued_bytes) = (0, 0);
    for session in &sessions {
        let state = session.lock();
        stored += state.queued() as u64;
        let acknowledged = state.acknowledged.as_deref();
        let waiting_bytes = acknowledged.map_or(0, AcknowledgedDeliveries::waiting_bytes);
        queued_bytes += (state.outbox.bytes() + waiting_bytes) as u64;
    }
    BrokerStats {
        messages_in: counters.messages_in.load(Ordering::Relaxed),
        bytes_in: counters.bytes_in.load(Ordering::Relaxed),
        deliveries: counters.deliveries.load(Ordering::Relaxed),
        bytes_out: counters.bytes_out.load(Ordering::Relaxed),
        connections: counters.connections.load(Ordering::Relaxed),
        sparkplug_malformed: counters.sparkplug_malformed.load(Ordering::Relaxed),
        dropped: counters.dropped().by_cause(),
        limits: Limit::ALL
            .into_iter()
            .map(|limit| (limit, shared.limits.count(limit)))
            .collect(),
        subscriptions: shared.index.len(),
        sessions: sessions.len(),
        sessions_connected: counters.connected.load(Ordering::Relaxed),
        readers: shared.live_streams().len() as u64,
        stored,
        queued_bytes,
        retained: shared.retained.len(),
        retained_bytes: shared.retained.bytes(),
        topics: Vec::new(),
        queues: Vec::new(),
    }
}

fn busiest_topics(shared: &BrokerShared, count: usize) -> Vec<TopicStats> {
    let mut topics: Vec<_> = shared
        .recent
        .all()
        .into_iter()
        .filter(|record| !record.topic.is_internal())
        .map(|record| TopicStats {
            topic: record.topic.to_string(),
            per_second: record.per_second.load(Ordering::Relaxed),
            messages: record.messages.load(Ordering::Relaxed),
            bytes: record.bytes.load(Ordering::Relaxed),
        })
        .filter(|topic| topic.messages > 0)
        .collect();
    topics.sort_unstable_by(|a, b| {
        let busy = |topic: &TopicStats| (topic.per_second, topic.messages);
        busy(b).cmp(&busy(a)).then_with(|| a.topic.cmp(&b.topic))
    });
    keep(&mut topics, count);
    topics
}

/// Keeps the first entries, and memory for these only: the figures of each second are stored for
/// minutes, and memory for all sessions would be stored with them.
fn keep<T>(entries: &mut Vec<T>, count: usize) {
    entries.truncate(count);
    entries.shrink_to_fit();
}

pub(crate) fn of_session(session: &Session) -> SessionStats {
    let subscriptions = session.filters.lock().len();
    let mut dropped_by = session.dropped.by_cause();
    dropped_by.retain(|&(_, count)| count > 0);
    let state = session.lock();
    SessionStats {
        client: session.client_id().to_owned(),
        user: state.user.as_deref().map(str::to_owned),
        kind: session.kind.clone(),
        connected: state.link.is_some(),
        subscriptions,
        queued: state.queued(),
        unfinished: state.queued() + state.in_flight(),
        queued_bytes: state.outbox.bytes(),
        delivered: session.delivered.load(Ordering::Relaxed),
        dropped: dropped_by.iter().map(|(_, count)| count).sum(),
        dropped_by,
        policy: state.policy,
    }
}

/// The session of this client id that belongs to no user.
pub(crate) fn session(table: &SessionTable, client_id: &str) -> Option<SessionStats> {
    table.find(client_id).map(|session| of_session(&session))
}

/// A subscriber of either kind, ranked before its figures are made into texts.
enum RankedSubscriber {
    Session(Arc<Session>),
    Reader(Arc<StreamQueue>),
}

/// The messages that wait for a subscriber, those that it missed, and those delivered to it.
type QueueRank = (usize, u64, u64);

impl RankedSubscriber {
    fn rank(&self) -> QueueRank {
        match self {
            Self::Session(session) => (
                session.lock().queued(),
                session.dropped.total(),
                session.delivered.load(Ordering::Relaxed),
            ),
            Self::Reader(reader) => (
                reader.len(),
                reader.dropped.load(Ordering::Relaxed),
                reader.delivered.load(Ordering::Relaxed),
            ),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Session(session) => session.client_id(),
            Self::Reader(reader) => &reader.name,
        }
    }

    fn stats(&self) -> SessionStats {
        match self {
            Self::Session(session) => of_session(session),
            Self::Reader(reader) => of_reader(reader),
        }
    }
}

fn of_reader(reader: &StreamQueue) -> SessionStats {
    let dropped = reader.dropped.load(Ordering::Relaxed);
    let queued = reader.len();
    SessionStats {
        client: reader.name.clone(),
        user: None,
        kind: reader.kind.into(),
        connected: true,
        subscriptions: reader.filters,
        queued,
        unfinished: queued,
        queued_bytes: 0,
        delivered: reader.delivered.load(Ordering::Relaxed),
        dropped,
        dropped_by: (dropped > 0)
            .then_some((DropCause::StreamFull, dropped))
            .into_iter()
            .collect(),
        policy: SlowSubscriber::DropOldest,
    }
}

/// The sessions and readers with the longest queues, longest first. All are ranked, and texts are
/// made of these few only: a server may have tens of thousands.
pub(crate) fn longest_queues(table: &SessionTable, count: usize) -> Vec<SessionStats> {
    let sessions = table.all().into_iter().map(RankedSubscriber::Session);
    let streams = table.shared().live_streams();
    let readers = streams.into_iter().map(RankedSubscriber::Reader);
    let mut ranked: Vec<_> = sessions
        .chain(readers)
        .map(|subscriber| (subscriber.rank(), subscriber))
        .collect();
    let longest_first = |a: &(QueueRank, RankedSubscriber), b: &(QueueRank, RankedSubscriber)| {
        b.0.cmp(&a.0).then_with(|| a.1.name().cmp(b.1.name()))
    };
    if count < ranked.len() {
        ranked.select_nth_unstable_by(count, longest_first);
        ranked.truncate(count);
    }
    ranked.sort_unstable_by(longest_first);
    ranked.iter().map(|(_, one)| one.stats()).collect()
}

#[cfg(test)]
mod tests {
    use gatepost_message::{Publication, Topic, TopicFilter};

    use super::keep;
    use crate::{Broker, BrokerSettings, ReaderOptions};

    #[test]
    fn the_longest_queues_come_first_and_the_rest_is_left_out() {
        let broker = Broker::new(BrokerSettings::default());
        let read = |name: &str, filter: &str| {
            let filter = TopicFilter::new(filter).expect("a filter");
            let name = name.to_owned();
            let options = ReaderOptions {
                name,
                ..ReaderOptions::default()
            };
            broker.subscribe_stream(&[filter], options)
        };
        let _readers = [
            read("none", "other"),
            read("two", "topic/b"),
            read("three", "#"),
            read("also two", "topic/b"),
            read("one", "topic/a"),
        ];
        let mut publisher = broker.publisher();
        for topic in ["topic/a", "topic/b", "topic/b"] {
            let topic = Topic::new(topic).expect("a topic");
            publisher.publish(Publication::new(topic, "x"));
        }
        let stats = broker.stats(0, 3);
        let queues = stats.queues.iter().map(|one| (&*one.client, one.queued));
        let expected = [("three", 3), ("also two", 2), ("two", 2)];
        assert_eq!(queues.collect::<Vec<_>>(), expected);
        assert_eq!(broker.stats(0, 9).queues.len(), 5);
    }

    #[test]
    fn entries_that_are_left_out_hold_no_memory() {
        let mut entries: Vec<u64> = (0..10_000).collect();
        keep(&mut entries, 10);
        assert_eq!(entries, (0..10).collect::<Vec<_>>());
        assert!(entries.capacity() < 100, "{}", entries.capacity());
    }
}
