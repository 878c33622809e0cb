//! Messages that are delivered later: they wait on disk until their time has come, over any number
//! of restarts, and may be replaced or cancelled until then.
//!
//! A publication whose user property `delay` names a time in the future is kept here instead of
//! being published. Its publisher is answered when it is on disk. At its time it is published with
//! a new id, so that it is the newest in the history, and then forgotten: a crash in between
//! publishes it twice, but never loses it.
//!
//! Only the places in the order are in memory, the messages themselves are not.

mod due_time;
mod stored;
mod waiting;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gatepost_broker::{Broker, PublishRefusal, RuleViolation};
use gatepost_message::{MessageId, Publication, SEQUENCE_ID};
use gatepost_settings::{ByteSize, Period};
use gatepost_store::{Store, StoreChange, StoreError, Ticket};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use crate::delayed_listing::DelayedListing;
use crate::publication_sink::{OtherDestination, PublicationReceipt, PublicationSink};
pub(crate) use due_time::due_time;
pub use due_time::{DELAY, DelayMistake};
use waiting::{DuePosition, WaitingMessage, WaitingMessages};

/// The longest sleep: the clock may be set meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(30);
/// The pause after a message could not be published.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// `[delayed]`: messages that are delivered later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DelayedSettings {
    /// Messages that may wait for their time. With 0 none may, and a delay is refused.
    pub messages_max: usize,
    /// The bytes of their topics and payloads.
    pub bytes_max: ByteSize,
    /// The longest delay.
    pub delay_max: Period,
}

impl Default for DelayedSettings {
    fn default() -> Self {
        Self {
            messages_max: 10_000,
            bytes_max: ByteSize::mebibytes(64),
            delay_max: Period::seconds(30 * 86_400),
        }
    }
}

struct DelayedCore {
    broker: Broker,
    store: Store,
    settings: DelayedSettings,
    waiting: Mutex<WaitingMessages>,
    /// The first place has changed.
    changed: Notify,
}

/// The messages that wait for their time, in front of the broker. Cheap to clone.
#[derive(Clone)]
pub struct DelayedMessages(Arc<DelayedCore>);

impl DelayedMessages {
    /// Reads the messages that wait since earlier runs.
    pub fn open(
        broker: Broker,
        store: Store,
        settings: &DelayedSettings,
    ) -> Result<Self, StoreError> {
        let mut waiting = WaitingMessages::default();
        stored::each(&store, |place, message| waiting.insert(place, message))?;
        Ok(Self(Arc::new(DelayedCore {
            broker,
            store,
            settings: settings.clone(),
            waiting: Mutex::new(waiting),
            changed: Notify::new(),
        })))
    }

    /// Publishes each message at its time, until `is_down` returns true.
    pub async fn run(self, mut is_down: watch::Receiver<bool>) {
        loop {
            let pause = self.publish_due().await;
            tokio::select! {
                _ = is_down.wait_for(|&is_down| is_down) => return,
                () = self.0.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Publishes the messages that are due, and returns the time of the next check.
    async fn publish_due(&self) -> Duration {
        loop {
            let now = SystemTime::now();
            let first = self.0.waiting.lock().first();
            let Some(place) = first else {
                return SLEEP_MAX;
            };
            if let Ok(left) = place.due().duration_since(now)
                && !left.is_zero()
            {
                return left.min(SLEEP_MAX);
            }
            if !self.publish_at(place).await {
                return RETRY_PAUSE;
            }
        }
    }

    /// Publishes one; `false` where that must be tried again.
    async fn publish_at(&self, place: DuePosition) -> bool {
        let core = &self.0;
        let mut publication = match stored::read(&core.store, place) {
            Ok(Some(publication)) => publication,
            // A message without a commit was never acknowledged; its commit may also be in
            // progress.
            Ok(None) if place.is_overdue() => {
                core.waiting.lock().remove(place);
                return true;
            }
            Ok(None) => return false,
            Err(error) => {
                tracing::warn!(target: "gateway", %error, "a delayed message cannot be read");
                return false;
            }
        };
        // From here on it can be neither replaced nor cancelled.
        let Some(message) = core.waiting.lock().remove(place) else {
            return true;
        };
        publication.id = MessageId::next();
        let published = core.broker.publish(publication).await;
        let is_published = match published {
            Ok(outcome) => match outcome.refused {
                None | Some(PublishRefusal::Retain) => true,
                // The rules of its topic have changed since it was accepted.
                Some(PublishRefusal::Rule(violation)) if !violation.is_temporary() => {
                    tracing::warn!(target: "gateway", topic = message.topic,
                        "a delayed message is dropped: {violation}");
                    true
                }
                Some(_) => false,
            },
            Err(_) => false,
        };
        if is_published {
            // A store that takes no changes has it published again after a restart.
            let _ = core.store.submit_deferred([stored::removal(place)]);
        } else {
            core.waiting.lock().insert(place, message);
        }
        is_published
    }

    /// Keeps a publication until `due`, in place of one with the same sequence id on the same
    /// topic.
    fn keep(&self, mut publication: Publication, due: SystemTime) -> PublicationReceipt {
        let core = &self.0;
        if let Some(properties) = &mut publication.properties {
            properties.user.retain(|(name, _)| name != DELAY);
        }
        let place = DuePosition::new(due, publication.id);
        let message = WaitingMessage::of(&publication);
        let mut waiting = core.waiting.lock();
        let replaced = waiting.place_of(&message.topic, &message.name);
        let freed = replaced.and_then(|place| waiting.remove(place));
        let has_room = waiting.count() < core.settings.messages_max
            && waiting.bytes() + message.bytes <= core.settings.bytes_max.as_usize();
        if !has_room {
            if let (Some(place), Some(freed)) = (replaced, freed) {
                waiting.insert(place, freed);
            }
            return PublicationReceipt {
                refused: Some(PublishRefusal::Delayed),
                ..PublicationReceipt::default()
            };
        }
        let changes = replaced.map(stored::removal).into_iter();
        let changes: Vec<StoreChange> = changes
            .chain([stored::change(place, &publication)])
            .collect();
        // Submitted under the lock: a replacement follows the message that it replaces.
        let ticket = core.store.submit(changes);
        if ticket.is_ok() {
            waiting.insert(place, message);
            core.changed.notify_one();
        } else if let (Some(place), Some(freed)) = (replaced, freed) {
            waiting.insert(place, freed);
        }
        PublicationReceipt {
            ticket: Some(ticket),
            ..PublicationReceipt::default()
        }
    }

    /// Removes a message that waits.
    fn forget(&self, topic: &str, name: &str) -> Option<Result<Ticket, StoreError>> {
        let mut waiting = self.0.waiting.lock();
        let place = waiting.place_of(topic, name)?;
        waiting.remove(place);
        Some(self.0.store.submit([stored::removal(place)]))
    }

    /// The time until which a publication is to be kept; `None` where it is published immediately.
    fn due(&self, publication: &Publication) -> Option<SystemTime> {
        let text = publication.properties.as_ref()?.user_property(DELAY)?;
        // The listener refused a malformed delay, or the property has another meaning.
        let now = SystemTime::now();
        due_time(text, now, self.delay_max()).ok()
    }

    /// Keeps a publication until it is due, or publishes it immediately.
    fn accept(
        &self,
        publication: Publication,
        publish: impl FnOnce(&Broker, Publication) -> PublicationReceipt,
    ) -> PublicationReceipt {
        if let Some(due) = self.due(&publication) {
            return self.keep(publication, due);
        }
        let properties = publication.properties.as_ref();
        let name = properties.and_then(|properties| properties.user_property(SEQUENCE_ID));
        if let Some(name) = name {
            // An update that is for now replaces one that waits.
            let _ = self.forget(publication.topic.as_str(), name);
        }
        publish(&self.0.broker, publication)
    }

    /// At most `count` of the messages that wait, after the first `skip`.
    fn listing(&self, skip: usize, count: usize) -> DelayedListing {
        let waiting = self.0.waiting.lock();
        let messages = waiting.in_order().skip(skip).take(count);
        DelayedListing {
            messages: messages
                .map(|(place, message)| message.delayed_message(*place))
                .collect(),
            total: waiting.count(),
            bytes: waiting.bytes(),
        }
    }

    /// At most `count` of the messages on topics that `wants` accepts.
    fn read(
        &self,
        wants: &dyn Fn(&str) -> bool,
        count: usize,
    ) -> Result<Vec<(SystemTime, Publication)>, StoreError> {
        let wanted: Vec<DuePosition> = {
            let waiting = self.0.waiting.lock();
            let wanted = waiting
                .in_order()
                .filter(|(_, message)| wants(&message.topic));
            wanted.map(|(place, _)| *place).take(count).collect()
        };
        let mut found = Vec::new();
        for place in wanted {
            // A message whose commit is in progress is not yet acknowledged.
            let publication = stored::read(&self.0.store, place)?;
            found.extend(publication.map(|publication| (place.due(), publication)));
        }
        Ok(found)
    }

    /// The topic and the name of the message with this id.
    fn find(&self, id: MessageId) -> Option<(String, String)> {
        let waiting = self.0.waiting.lock();
        let mut all = waiting.in_order();
        let (_, found) = all.find(|(place, _)| place.id == id)?;
        Some((found.topic.clone(), found.name.clone()))
    }
}

impl PublicationSink for DelayedMessages {
    fn publish(&self, publication: Publication) -> PublicationReceipt {
        self.accept(publication, PublicationSink::publish)
    }

    fn publish_traced(&self, publication: Publication, message: MessageId) -> PublicationReceipt {
        self.accept(publication, |broker, publication| {
            PublicationSink::publish_traced(broker, publication, message)
        })
    }

    fn trace_delivery(&self, message: MessageId, destination: OtherDestination<'_>) {
        self.0.broker.trace_delivery(message, destination);
    }

    fn rule_violation(&self, publication: &Publication) -> Option<RuleViolation> {
        self.0.broker.rule_violation(publication)
    }

    fn delay_max(&self) -> Duration {
        if self.0.settings.messages_max == 0 {
            return Duration::ZERO;
        }
        self.0.settings.delay_max.duration()
    }

    fn delayed(&self, skip: usize, count: usize) -> DelayedListing {
        self.listing(skip, count)
    }

    fn scheduled(
        &self,
        wants: &dyn Fn(&str) -> bool,
        count: usize,
    ) -> Result<Vec<(SystemTime, Publication)>, StoreError> {
        self.read(wants, count)
    }

    fn find_delayed(&self, id: MessageId) -> Option<(String, String)> {
        self.find(id)
    }

    fn cancel(&self, topic: &str, name: &str) -> Option<Result<Ticket, StoreError>> {
        self.forget(topic, name)
    }
}
