//! Mail that the server itself sends: it waits in a session of the broker until the smarthost has
//! taken it, as the messages of a sink do.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_broker::{Broker, PublishRefusal};
use gatepost_message::{Properties, Publication, Qos, Topic, TopicError};
use gatepost_store::{StoreChange, StoreError};
use parking_lot::RwLock;

use super::smarthost::{MailSubmission, MailTransport};
use crate::frame::SinkDelivery;

/// The topic of mail on its way; a client may not publish to it, and only an administrator may
/// subscribe to it.
pub(crate) const TOPIC: &str = "$mail/outgoing";
const SENDER: &str = "sender";
const RECIPIENT: &str = "recipient";

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
}

impl MailQueue {
    /// Without a smarthost at first.
    pub fn new(broker: Broker) -> Self {
        let smarthost = SharedTransport::default();
        Self { broker, smarthost }
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
    /// the caller commits after it.
    pub fn send(&self, mail: &MailSubmission) {
        if let Ok(publication) = publication(mail) {
            let _ = self.broker.publish_now(publication);
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
        let publication = publication(mail)?;
        let ticket = {
            let mut publisher = self.broker.publisher();
            if let Some(refusal) = publisher.publish(publication).refused {
                return Err(refusal.into());
            }
            publisher.add_changes(changes);
            publisher.flush()
        };
        if let Some(ticket) = ticket {
            ticket?.committed().await?;
        }
        Ok(())
    }
}

/// A mail is not queued.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The store failed.
    #[error("the mail could not be stored; try again later")]
    Store(#[from] StoreError),
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
