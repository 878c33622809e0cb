//! Delivery of other nodes' publications to the subscribers of this node.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::Message;
use bytes::Bytes;
use futures_util::stream::SelectAll;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use gatepost_broker::{Broker, Publisher};
use gatepost_message::{MessageId, Publication};
use tokio::sync::mpsc;

use crate::duplicates::{BundleArrival, Duplicates};
use crate::encoding::{self, BundleOrigin};
use crate::error::BackboneError;
use crate::retained::RetainDecision;
use crate::shared::Shared;

/// The messages of one subscription.
pub(crate) type Incoming = Pin<Box<dyn Stream<Item = Message> + Send>>;

/// Messages that are taken in before their subscribers are written to.
const BATCH_MAX: usize = 256;
/// The ids of a node whose clock is further ahead do not raise those of this server.
const CLOCK_AHEAD_MAX: Duration = Duration::from_mins(10);

/// Publishes the messages of all subscriptions, for as long as the connection lasts.
pub(crate) async fn run(
    shared: Arc<Shared>,
    broker: Broker,
    mut subscriptions: mpsc::Receiver<Incoming>,
) -> BackboneError {
    let mut receiver = Receiver::new(shared, &broker);
    let mut incoming: SelectAll<Incoming> = SelectAll::new();
    loop {
        tokio::select! {
            subscription = subscriptions.recv() => match subscription {
                Some(subscription) => incoming.push(subscription),
                None => return BackboneError::Lost("the subscriptions ended".to_owned()),
            },
            Some(message) = incoming.next(), if !incoming.is_empty() => {
                receiver.take(message.payload);
                for _ in 1..BATCH_MAX {
                    let Some(Some(message)) = incoming.next().now_or_never() else {
                        break;
                    };
                    receiver.take(message.payload);
                }
                receiver.flush();
                // Other tasks of this thread have their turn.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Raises the ids of this server above a received one, so that later publications of this server
/// have later ids.
pub(crate) fn follow_clock(id: MessageId) {
    if id.time() <= SystemTime::now() + CLOCK_AHEAD_MAX {
        MessageId::continue_after(id);
    }
}

/// The publisher of the messages of other nodes.
struct Receiver {
    shared: Arc<Shared>,
    broker: Broker,
    publisher: Publisher,
    duplicates: Duplicates,
}

impl Receiver {
    fn new(shared: Arc<Shared>, broker: &Broker) -> Self {
        Self {
            shared,
            broker: broker.clone(),
            publisher: broker.node_publisher(),
            duplicates: Duplicates::default(),
        }
    }

    fn take(&mut self, bytes: Bytes) {
        match encoding::read(bytes) {
            Ok((origin, publications)) => {
                // A loop is impossible without this too: no connection receives its own messages.
                if origin.node == self.shared.node {
                    return;
                }
                match self.duplicates.note(origin) {
                    BundleArrival::New => {
                        for publication in publications {
                            self.publish(origin, publication);
                        }
                    }
                    BundleArrival::Repeated => {}
                    // They may be lost: an overlapping filter has brought much later ones first.
                    BundleArrival::TooOld => {
                        self.broker.note_backbone_drops(publications.len() as u64);
                    }
                }
            }
            Err(error) => self.shared.note_malformed(error),
        }
    }

    fn publish(&mut self, origin: BundleOrigin, publication: Publication) {
        if publication.topic.is_internal() {
            return;
        }
        follow_clock(publication.id);
        self.shared.count_received();
        let retained = &self.shared.retained;
        let is_known = publication.retain
            && retained.decide_live(&publication, origin.node) == RetainDecision::Ignore;
        if !is_known {
            self.publisher.publish(publication);
        }
    }

    fn flush(&mut self) {
        if let Some(Err(error)) = self.publisher.flush() {
            // Subscribers without a session have it; the store reports its own state.
            tracing::debug!(target: "backbone", %error, "publications were not stored");
        }
    }
}
