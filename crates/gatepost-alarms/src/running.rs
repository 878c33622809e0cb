//! The loop of one alarm: it reads messages, waits for deadlines, publishes and stores.

use std::collections::BTreeSet;
use std::future::pending;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatepost_broker::{Broker, LocalSubscription, ReaderOptions, Remembered, Since, StreamEvent};
use gatepost_message::{MessageId, TopicFilter};
use gatepost_store::Store;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::notice::{ALARM_PROPERTY, Notice, NoticeState};
use crate::settings::AlarmSettings;
use crate::stored::{self, StoredTopic};
use crate::topic_state::AlarmMoment;
use crate::watch::{AlarmWatch, ObservedMessage};

/// The number of messages that are read before changes are published.
const BATCH_MESSAGES_MAX: usize = 256;

/// The clocks of all alarms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AlarmClock(Instant);

impl AlarmClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> AlarmMoment {
        AlarmMoment {
            steady: self.0.elapsed(),
            unix_ms: unix_ms(SystemTime::now()),
        }
    }

    async fn sleep_until(self, due: Option<Duration>) {
        match due {
            Some(due) => tokio::time::sleep_until(self.0 + due).await,
            None => pending().await,
        }
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

/// A subscription, and the highest message id when it began: messages up to that id came earlier.
struct AlarmReader {
    subscription: LocalSubscription,
    begin: MessageId,
}

pub(crate) struct RunningAlarm {
    pub(crate) broker: Broker,
    pub(crate) store: Store,
    pub(crate) clock: AlarmClock,
    pub(crate) settings: AlarmSettings,
    pub(crate) filter: TopicFilter,
    pub(crate) watch: Mutex<AlarmWatch>,
    /// Wakes the alarm after a request of an operator.
    pub(crate) woken: Notify,
}

impl RunningAlarm {
    pub(crate) async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        self.restore();
        let mut reader = self.subscribe();
        self.watch.lock().begin(self.clock.now());
        loop {
            self.settle();
            let due = self.watch.lock().next_due();
            tokio::select! {
                event = reader.subscription.next() => {
                    let Some(event) = event else { break };
                    if self.take(&mut reader, event).is_break() {
                        // Of the missed messages, only the latest of each topic counts.
                        reader = self.subscribe();
                    }
                }
                () = self.clock.sleep_until(due) => {}
                () = self.woken.notified() => {}
                _ = stop.changed() => break,
            }
            self.watch.lock().elapse(self.clock.now());
            // Under load another message is always ready, so the batch needs a bound.
            tokio::task::yield_now().await;
        }
        self.store_all();
    }

    fn subscribe(&self) -> AlarmReader {
        let options = ReaderOptions {
            since: Since::Latest,
            name: format!("$alarm/{}", self.settings.name),
            kind: "alarm",
        };
        let filters = std::slice::from_ref(&self.filter);
        let subscription = self.broker.subscribe_stream(filters, options);
        let begin = MessageId::highest();
        AlarmReader {
            subscription,
            begin,
        }
    }

    /// Processes the received messages, beginning with this event; stops if messages are missing.
    fn take(&self, reader: &mut AlarmReader, first: StreamEvent) -> ControlFlow<()> {
        let mut watch = self.watch.lock();
        let now = self.clock.now();
        let mut next = Some(first);
        for _ in 0..BATCH_MESSAGES_MAX {
            match next {
                Some(StreamEvent::Publication(publication)) => {
                    observe(&mut watch, &publication, reader.begin, now);
                }
                Some(StreamEvent::Gap { .. }) => return ControlFlow::Break(()),
                None => break,
            }
            next = reader.subscription.try_next();
        }
        // This event is the last of the batch.
        if let Some(StreamEvent::Publication(publication)) = next {
            observe(&mut watch, &publication, reader.begin, now);
        } else if next.is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Restores the states of an earlier run.
    fn restore(&self) {
        let name = &self.settings.name;
        let stored = stored::of_alarm(&self.store, name).unwrap_or_else(|error| {
            tracing::error!(target: "alarms", alarm = name, %error,
                "the states cannot be read; the alarm begins without them");
            Vec::new()
        });
        let now = self.clock.now();
        for known in stored {
            let is_watched = self.filter.matches(&known.topic);
            if is_watched && self.watch.lock().topics().len() < self.settings.topics_max {
                let state = known.state;
                let snoozed = state.snoozed_until_unix_ms;
                let snoozed_until = snoozed
                    .and_then(|until| until.checked_sub(now.unix_ms))
                    .map(|left| AlarmMoment {
                        steady: now.steady + Duration::from_millis(left),
                        unix_ms: now.unix_ms + left,
                    });
                let topic: Arc<str> = Arc::from(known.topic.as_str());
                self.watch.lock().restore(
                    &topic,
                    state.heard_unix_ms,
                    state.raised,
                    snoozed_until,
                    now,
                );
            } else {
                retire(&self.broker, &self.store, name, known);
            }
        }
    }

    /// Publishes and stores the changes.
    fn settle(&self) {
        let changes = self.watch.lock().take_changes();
        let mut topics = BTreeSet::new();
        for change in changes {
            if let Some(notice) = &change.notice {
                self.announce(notice);
            }
            topics.insert(change.topic);
        }
        if topics.is_empty() {
            return;
        }
        let watch = self.watch.lock();
        let name = &self.settings.name;
        let states = topics.iter().map(|topic| {
            let state = watch.topics().get(topic);
            stored::change(name, topic, state)
        });
        submit(&self.store, name, states.collect());
    }

    fn announce(&self, notice: &Notice) {
        let name = &self.settings.name;
        let (topic, cause) = (&*notice.topic, notice.raised.cause.name());
        let is_raised = notice.state == NoticeState::Raised;
        if is_raised {
            tracing::warn!(target: "alarms", alarm = name, topic, cause, value = notice.value,
                "raised");
        } else {
            tracing::info!(target: "alarms", alarm = name, topic, cause, "cleared");
        }
        let has_wildcard = self.filter.has_wildcard();
        let published_on = publish(&self.broker, &self.settings, has_wildcard, notice);
        let mut watch = self.watch.lock();
        match published_on {
            Ok(published_on) if is_raised => watch.announced(topic, &published_on),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(target: "alarms", alarm = name, topic, error,
                    "could not be published; tried again while it is raised");
                watch.not_announced(&notice.topic, self.clock.now());
            }
        }
    }

    /// Stores the time of each topic's last message.
    fn store_all(&self) {
        self.settle();
        let watch = self.watch.lock();
        let name = &self.settings.name;
        let states = watch.topics().iter();
        let states = states.map(|(topic, state)| stored::change(name, topic, Some(state)));
        submit(&self.store, name, states.collect());
    }
}

fn observe(watch: &mut AlarmWatch, publication: &Remembered, begin: MessageId, now: AlarmMoment) {
    let properties = publication.properties.as_ref();
    if properties.is_some_and(|properties| properties.user_property(ALARM_PROPERTY).is_some()) {
        return;
    }
    let message = ObservedMessage {
        topic: publication.topic.as_str(),
        payload: &publication.payload,
        retain: publication.retain,
    };
    if publication.id <= begin {
        watch.observe_earlier(message, unix_ms(publication.id.time()), now);
    } else {
        watch.observe(message, now);
    }
}

/// Publishes a notice; returns its topic, or the reason why it was refused.
fn publish(
    broker: &Broker,
    settings: &AlarmSettings,
    has_wildcard: bool,
    notice: &Notice,
) -> Result<String, String> {
    let publication = notice.publication(settings, has_wildcard);
    let publication = publication.map_err(|error| error.to_string())?;
    let topic = publication.topic.as_str().to_owned();
    let (outcome, ticket) = broker.publish_now(publication);
    if let Some(refused) = outcome.refused {
        return Err(refused.to_string());
    }
    // Commits keep their order, so the state that is stored next reaches the disk after the notice.
    match ticket {
        Some(Err(error)) => Err(error.to_string()),
        _ => Ok(topic),
    }
}

/// Deletes the stored state of a topic that the alarm no longer watches; if the alarm was published
/// as raised, it is published as cleared.
pub(crate) fn retire(broker: &Broker, store: &Store, alarm: &str, known: StoredTopic) {
    if let Some(raised) = known
        .state
        .raised
        .filter(|raised| raised.announced_on.is_some())
    {
        let notice = Notice {
            topic: Arc::from(known.topic.as_str()),
            state: NoticeState::Cleared,
            raised,
            value: None,
            limit: None,
            silence: Duration::ZERO,
            field: String::new(),
        };
        let settings = AlarmSettings {
            name: alarm.to_owned(),
            ..AlarmSettings::default()
        };
        if let Err(error) = publish(broker, &settings, true, &notice) {
            tracing::warn!(target: "alarms", alarm, topic = known.topic, error,
                "the end of an alarm could not be published");
        }
    }
    submit(
        store,
        alarm,
        vec![stored::change(alarm, &known.topic, None)],
    );
}

fn submit(store: &Store, alarm: &str, changes: Vec<gatepost_store::StoreChange>) {
    if let Err(error) = store.submit_deferred(changes) {
        tracing::warn!(target: "alarms", alarm, %error, "a state could not be stored");
    }
}
