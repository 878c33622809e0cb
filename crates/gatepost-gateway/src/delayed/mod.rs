//! Messages that are delivered later: they wait on disk until their time has come, over any number
//! of restarts, and may be replaced or cancelled until then.
//!
//! A publication whose user property `delay` names a time in the future is kept here instead of
//! being published. Its publisher is answered when it is on disk. At its time it is published with
//! a new id, so that it is the newest in the history, and removed in the same commit
//! (`delivery.rs`): a crash before that commit may publish it twice, but never loses it.
//!
//! Only the places in the order are in memory, the messages themselves are not. After a commit that
//! failed, memory and disk are the same again (`state.rs`).

mod delivery;
mod due_time;
mod state;
mod stored;
mod waiting;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gatepost_broker::{Broker, PublishRefusal, RuleViolation};
use gatepost_message::{MessageId, Publication, SEQUENCE_ID};
use gatepost_settings::{ByteSize, Period};
use gatepost_store::{Store, StoreError, Ticket};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::delayed_listing::DelayedListing;
use crate::publication_sink::{OtherDestination, PublicationReceipt, PublicationSink};
pub(crate) use due_time::due_time;
pub use due_time::{DELAY, DelayMistake};
use state::DelayedState;
use stored::FoundMessage;
use waiting::{DuePosition, WaitingMessage, WaitingMessages};

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
    state: Mutex<DelayedState>,
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
            state: Mutex::new(DelayedState::new(waiting)),
            changed: Notify::new(),
        })))
    }

    /// The messages that wait, after the changes that could not be stored were undone.
    fn state(&self) -> MutexGuard<'_, DelayedState> {
        let mut state = self.0.state.lock();
        state.settle(&self.0.store);
        state
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
        let mut state = self.state();
        if !state.has_room(&message, &core.settings) {
            return PublicationReceipt {
                refused: Some(PublishRefusal::Delayed),
                ..PublicationReceipt::default()
            };
        }
        let ticket = state.keep(&core.store, place, message, &publication);
        if ticket.is_ok() {
            core.changed.notify_one();
        }
        PublicationReceipt {
            ticket: Some(ticket),
            ..PublicationReceipt::default()
        }
    }

    /// Removes a message that waits.
    fn forget(&self, topic: &str, name: &str) -> Option<Result<Ticket, StoreError>> {
        self.state().forget(&self.0.store, topic, name)
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
        // An update that is for now replaces one that waits.
        let removal = name.and_then(|name| self.forget(publication.topic.as_str(), name));
        let mut receipt = publish(&self.0.broker, publication);
        match removal {
            None => {}
            Some(Err(error)) => receipt.ticket = Some(Err(error)),
            Some(Ok(removal)) => match removal.outcome() {
                Some(Err(error)) => receipt.ticket = Some(Err(error)),
                // It precedes the publication in the store's queue, so that its failure would be
                // one of the publication too.
                _ => receipt.ticket = receipt.ticket.or(Some(Ok(removal))),
            },
        }
        receipt
    }

    /// At most `count` of the messages that wait, after the first `skip`.
    fn listing(&self, skip: usize, count: usize) -> DelayedListing {
        let waiting = &self.state().waiting;
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
            let waiting = &self.state().waiting;
            let wanted = waiting
                .in_order()
                .filter(|(_, message)| wants(&message.topic));
            wanted.map(|(place, _)| *place).take(count).collect()
        };
        let mut found = Vec::new();
        for place in wanted {
            // A message whose commit is in progress is not yet acknowledged.
            if let FoundMessage::Whole(publication) = stored::read(&self.0.store, place)? {
                found.push((place.due(), publication));
            }
        }
        Ok(found)
    }

    /// The topic and the name of the message with this id.
    fn find(&self, id: MessageId) -> Option<(String, String)> {
        let waiting = &self.state().waiting;
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
