//! The receiver of publications: the broker in the server, a recorder in tests.

use std::time::{Duration, SystemTime};

use gatepost_broker::{PublishRefusal, RuleViolation};
use gatepost_message::{MessageId, Publication};
use gatepost_store::{StoreError, Ticket};

use crate::delayed_listing::DelayedListing;

/// The result of submitting one publication.
#[derive(Debug, Default)]
pub struct PublicationReceipt {
    /// The number of subscribers that received it.
    pub deliveries: u64,
    /// The commit that a successful reply to the sender must wait for.
    pub ticket: Option<Result<Ticket, StoreError>>,
    /// The reason why it was not accepted, so that the sender must try again.
    pub refused: Option<PublishRefusal>,
}

/// A destination of a message other than a subscriber.
#[derive(Debug, Clone, Copy)]
pub enum OtherDestination<'a> {
    /// The mailbox of this user.
    Mailbox(&'a str),
    /// The next hop.
    NextHop {
        /// The recipient's address there.
        recipient: &'a str,
        /// Whether the next hop accepted the message.
        is_accepted: bool,
        /// The next hop's reply, or the reason why there was none.
        reply: &'a str,
    },
}

/// Accepts publications, without waiting.
pub trait PublicationSink: Send + Sync {
    /// Delivers `publication` to the subscribers of its topic.
    fn publish(&self, publication: Publication) -> PublicationReceipt;

    /// The same, and records each delivery for a while under the id of `message`.
    fn publish_traced(&self, publication: Publication, message: MessageId) -> PublicationReceipt {
        let _ = message;
        self.publish(publication)
    }

    /// The reason why the rule of its topic never permits this publication.
    fn rule_violation(&self, publication: &Publication) -> Option<RuleViolation> {
        let _ = publication;
        None
    }

    /// The longest time for which a publication may wait; 0 where none may.
    fn delay_max(&self) -> Duration {
        Duration::ZERO
    }

    /// At most `count` of the publications that wait for their time, after the first `skip`.
    fn delayed(&self, skip: usize, count: usize) -> DelayedListing {
        let _ = (skip, count);
        DelayedListing::default()
    }

    /// At most `count` of the publications that wait for their time on topics that `wants` accepts,
    /// each with its time, in the order of their times. Reads from the disk.
    fn scheduled(
        &self,
        wants: &dyn Fn(&str) -> bool,
        count: usize,
    ) -> Result<Vec<(SystemTime, Publication)>, StoreError> {
        let _ = (wants, count);
        Ok(Vec::new())
    }

    /// The topic and the name of the publication with this id that waits for its time.
    fn find_delayed(&self, id: MessageId) -> Option<(String, String)> {
        let _ = id;
        None
    }

    /// Removes a publication that waits for its time; `None` if none of this name waits.
    fn cancel(&self, topic: &str, name: &str) -> Option<Result<Ticket, StoreError>> {
        let _ = (topic, name);
        None
    }

    /// Adds the delivery of `message` to another destination to that record.
    fn trace_delivery(&self, message: MessageId, destination: OtherDestination<'_>) {
        let _ = (message, destination);
    }
}
