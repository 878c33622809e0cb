//! Mail that the server itself sends: it waits in a session of the broker until the smarthost has
//! taken it, as the messages of a sink do.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gatepost_broker::{Broker, PublishRefusal, SlowSubscriber};
use gatepost_message::{Properties, Publication, Qos, Topic, TopicError};
use gatepost_settings::Period;
use gatepost_store::{StoreChange, StoreError, Ticket};
use parking_lot::RwLock;

use super::OUTGOING_NAME;
use super::smarthost::{MailSubmission, MailTransport};
use super::unsent::UnsentMail;
use crate::frame::SinkDelivery;
use crate::session::client_id;
use crate::settings::{SinkRetrySettings, SinkSettings};

/// The topic of mail on its way; a client may not publish to it, and only an administrator may
/// subscribe to it.
const TOPIC: &str = "$mail/outgoing";
/// The age at which a mail is given up. RFC 5321, section 4.5.4.1: at least 4 to 5 days.
const AGE_MAX: Period = Period::seconds(5 * 86_400);
const SENDER: &str = "sender";
const RECIPIENT: &str = "recipient";

/// The sink of the server's own mail.
pub(crate) fn outgoing_settings() -> SinkSettings {
    SinkSettings {
        name: OUTGOING_NAME.to_owned(),
        filters: vec![TOPIC.to_owned()],
        // A mail that was taken is not displaced: the next one is refused instead.
        when_full: SlowSubscriber::DropNewest,
        retry: SinkRetrySettings {
            age_max: AGE_MAX,
            ..SinkRetrySettings::default()
        },
        ..SinkSettings::default()
    }
}

/// The smarthost in use, shared by all that sends mail. A reload replaces it.
#[derive(Clone, Default)]
pub(crate) struct SharedTransport(Arc<RwLock<Option<Arc<dyn MailTransport>>>>);

impl SharedTransport {
    pub(crate) fn get(&self) -> Option<Arc<dyn MailTransport>> {
        self.0.read().clone()
    }
}

/// Takes mail of the server itself. Cheap to clone.
#[derive(Clone)]
pub struct MailQueue {
    broker: Broker,
    smarthost: SharedTransport,
    unsent: Arc<OnceLock<Arc<dyn UnsentMail>>>,
}

impl MailQueue {
    /// Without a smarthost at first.
    pub fn new(broker: Broker) -> Self {
        Self {
            broker,
            smarthost: SharedTransport::default(),
            unsent: Arc::default(),
        }
    }

    /// Stores mail that is given up in this place; to be called once, before the sinks start.
    /// Without a place it is only logged.
    pub fn keep_unsent_in(&self, place: Arc<dyn UnsentMail>) {
        let _ = self.unsent.set(place);
    }

    pub(crate) fn unsent(&self) -> Option<&dyn UnsentMail> {
        self.unsent.get().map(|place| &**place)
    }

    /// Sends by this smarthost from now on; by none, all mail waits.
    pub fn use_smarthost(&self, smarthost: Option<Arc<dyn MailTransport>>) {
        *self.smarthost.0.write() = smarthost;
    }

    /// Whether there is a smarthost.
    pub fn is_on(&self) -> bool {
        self.smarthost.get().is_some()
    }

    pub(crate) fn smarthost(&self) -> SharedTransport {
        self.smarthost.clone()
    }

    pub(crate) fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Queues a mail. Nothing waits for the commit: it is in the store's queue before whatever
    /// the caller commits after it. A mail that is refused is logged.
    pub fn send(&self, mail: &MailSubmission) {
        if let Err(error) = self.submit(mail, Vec::new()) {
            tracing::warn!(target: "sinks", to = ?mail.recipients, %error, "a mail is not sent");
        }
    }

    /// Queues a mail; returns when it is on disk.
    pub async fn queue(&self, mail: &MailSubmission) -> Result<(), QueueError> {
        self.queue_with(mail, Vec::new()).await
    }

    /// Queues a mail and stores these changes in the same commit: either both are on disk, or
    /// neither.
    pub async fn queue_with(
        &self,
        mail: &MailSubmission,
        changes: Vec<StoreChange>,
    ) -> Result<(), QueueError> {
        if let Some(ticket) = self.submit(mail, changes)? {
            ticket.committed().await?;
        }
        Ok(())
    }

    /// Submits a mail and these changes, if the session of outgoing mail takes the mail: that an
    /// administrator, who may subscribe too, has received it does not count.
    fn submit(
        &self,
        mail: &MailSubmission,
        changes: Vec<StoreChange>,
    ) -> Result<Option<Ticket>, QueueError> {
        let publication = publication(mail)?;
        let mut publisher = self.broker.publisher();
        let taken = publisher.publish_for(&client_id(OUTGOING_NAME), publication);
        match taken.ok_or(QueueError::Closed)?.refused {
            None => {}
            Some(PublishRefusal::Queues) => return Err(QueueError::Full),
            Some(refusal) => return Err(refusal.into()),
        }
        publisher.add_changes(changes);
        Ok(publisher.flush().transpose()?)
    }
}

/// A mail is not queued.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The store failed.
    #[error("the mail could not be stored; try again later")]
    Store(#[from] StoreError),
    /// Too many mails wait.
    #[error("too much mail waits for the smarthost; try again later")]
    Full,
    /// There is no session of outgoing mail: no smarthost is set, or the server has just started.
    #[error("the queue of outgoing mail is not open; try again later")]
    Closed,
    /// The broker has no room.
    #[error("{0}; try again later")]
    Refused(#[from] PublishRefusal),
    /// The topic of mail is none.
    #[error(transparent)]
    Topic(#[from] TopicError),
}

fn publication(mail: &MailSubmission) -> Result<Publication, TopicError> {
    let topic = Topic::new(TOPIC)?;
    let mut publication = Publication::new(topic, Bytes::copy_from_slice(&mail.text));
    publication.qos = Qos::AtLeastOnce;
    let sender = [(SENDER.to_owned(), mail.sender.clone())];
    let recipients = mail.recipients.iter();
    let recipients = recipients.map(|address| (RECIPIENT.to_owned(), address.clone()));
    publication.properties = Some(Box::new(Properties {
        content_type: Some("message/rfc822".to_owned()),
        user: sender.into_iter().chain(recipients).collect(),
        ..Properties::default()
    }));
    Ok(publication)
}

/// The mail that [`MailQueue::send`] queued.
pub(super) fn submission_of(delivery: &SinkDelivery) -> MailSubmission {
    let of = |wanted: &'static str| {
        let user = delivery.properties.user.iter();
        user.filter(move |(name, _)| name == wanted)
            .map(|(_, value)| value.clone())
    };
    MailSubmission {
        sender: of(SENDER).next().unwrap_or_default(),
        recipients: of(RECIPIENT).collect(),
        text: delivery.payload.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{SinkSession, SinkSubscription};
    use gatepost_broker::{BrokerSettings, RequestedFilter, SubscribeOptions};

    /// A session for outgoing mail that reads nothing; one mail is being sent, and one waits.
    async fn open(broker: &Broker, settings: &SinkSettings) -> SinkSession {
        let filter = RequestedFilter::new(TOPIC).expect("a filter");
        let wanted = SinkSubscription {
            filters: vec![(filter, SubscribeOptions::at(Qos::AtLeastOnce))],
            in_flight_max: 1,
            frame_bytes_max: None,
            kind: "mail",
            authorization: None,
        };
        let opened = SinkSession::open(broker, settings, &wanted).await;
        opened.expect("a session")
    }

    #[tokio::test]
    async fn a_full_queue_refuses_mail_that_another_session_takes() {
        let broker = Broker::new(BrokerSettings::default());
        let queue = MailQueue::new(broker.clone());
        let mail = MailSubmission {
            sender: String::new(),
            recipients: vec!["anna@example.org".to_owned()],
            text: b"Subject: x\r\n\r\n".to_vec(),
        };
        let administrator = SinkSettings {
            name: "administrator".to_owned(),
            ..SinkSettings::default()
        };
        let _administrator = open(&broker, &administrator).await;
        let refused = queue.queue(&mail).await;
        assert!(matches!(refused, Err(QueueError::Closed)), "{refused:?}");
        let settings = SinkSettings {
            queue_messages_max: 1,
            ..outgoing_settings()
        };
        let _outgoing = open(&broker, &settings).await;
        for _ in 0..2 {
            queue.queue(&mail).await.expect("room");
        }
        let refused = queue.queue(&mail).await;
        assert!(matches!(refused, Err(QueueError::Full)), "{refused:?}");
        let session = broker
            .session(&client_id(OUTGOING_NAME))
            .expect("a session");
        assert_eq!(session.dropped, 1, "only the one that was refused");
    }
}
