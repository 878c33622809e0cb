//! Sending of this node's publications to the other nodes.
//!
//! Consecutive publications on one topic are sent as one bundle. The queue is bounded by messages
//! and bytes, and belongs to one connection: publications that are in it when the connection ends
//! are lost, and counted.

use std::collections::VecDeque;
use std::sync::Arc;

use async_nats::Client;
use bytes::Bytes;
use gatepost_broker::Broker;
use gatepost_message::Publication;
use tokio::sync::mpsc;

use crate::encoding;
use crate::error::BackboneError;
use crate::outgoing::{OutgoingQueue, weight};
use crate::shared::Shared;

/// The length up to which a bundle accepts further publications.
const BUNDLE_BYTES_MAX: usize = 32 * 1024;
/// Publications that are taken from the queue at once.
const BATCH_MAX: usize = 256;

/// Sends the queued publications for as long as the connection lasts.
pub(crate) async fn run(
    shared: Arc<Shared>,
    broker: Broker,
    client: Client,
    outgoing: Arc<OutgoingQueue>,
    mut queue: mpsc::Receiver<Arc<Publication>>,
) -> BackboneError {
    let mut taken = Vec::with_capacity(BATCH_MAX);
    let mut batch = VecDeque::new();
    loop {
        if queue.recv_many(&mut taken, BATCH_MAX).await == 0 {
            return BackboneError::Lost("the queue is closed".to_owned());
        }
        batch.extend(taken.drain(..));
        while let Some(bundle) = next_bundle(&shared, &mut batch) {
            if bundle.bytes.len() > client.server_info().max_payload {
                broker.note_backbone_drops(bundle.messages as u64);
                tracing::warn!(target: "backbone", subject = bundle.subject,
                    bytes = bundle.bytes.len(),
                    "a publication is larger than the NATS servers take: raise their max_payload");
            } else if let Err(error) = client.publish(bundle.subject, bundle.bytes).await {
                return BackboneError::request("publishing", error);
            } else {
                shared.count_forwarded(bundle.messages as u64);
            }
            outgoing.remove(bundle.messages, bundle.weight);
        }
    }
}

/// Publications of one topic.
struct Bundle {
    subject: String,
    bytes: Bytes,
    messages: usize,
    /// The memory of these publications in the queue.
    weight: usize,
}

/// The first publication of the batch, and those that follow it under its topic.
fn next_bundle(shared: &Shared, batch: &mut VecDeque<Arc<Publication>>) -> Option<Bundle> {
    let first = batch.pop_front()?;
    let mut buffer = encoding::begin(shared.next_origin());
    encoding::push(&mut buffer, &first);
    let mut bundle = Bundle {
        subject: shared.subjects.publication(&first.topic),
        bytes: Bytes::new(),
        messages: 1,
        weight: weight(&first),
    };
    while let Some(next) = batch.front()
        && next.topic == first.topic
        && buffer.len() + weight(next) <= BUNDLE_BYTES_MAX
    {
        encoding::push(&mut buffer, next);
        bundle.messages += 1;
        bundle.weight += weight(next);
        batch.pop_front();
    }
    bundle.bytes = buffer.freeze();
    Some(bundle)
}

#[cfg(test)]
mod tests {
    use gatepost_message::{NodeNumber, Topic};
    use gatepost_store::Store;

    use super::*;
    use crate::records::view::RecordsView;
    use crate::settings::BackboneSettings;

    fn publication(topic: &str, bytes: usize) -> Arc<Publication> {
        let topic = Topic::new(topic).expect("a topic");
        Arc::new(Publication::new(topic, vec![b'x'; bytes]))
    }

    #[test]
    fn publications_of_one_topic_share_a_bundle() {
        let store = Store::in_memory().expect("a store");
        let settings = BackboneSettings::default();
        let records = RecordsView::new(&[], true).into();
        let shared = Shared::new(settings, NodeNumber::FIRST, store, records);
        let shared = shared.expect("nothing was stored");
        let topics = ["a", "a", "b", "a"];
        let mut batch: VecDeque<_> = topics.map(|topic| publication(topic, 10)).into();
        batch.push_back(publication("a", BUNDLE_BYTES_MAX));
        let bundles: Vec<Bundle> =
            std::iter::from_fn(|| next_bundle(&shared, &mut batch)).collect();
        let messages: Vec<usize> = bundles.iter().map(|bundle| bundle.messages).collect();
        assert_eq!(messages, [2, 1, 1, 1]);
        let numbers = bundles.into_iter().map(|bundle| {
            let (origin, read) = encoding::read(bundle.bytes).expect("a bundle");
            assert_eq!(read.len(), bundle.messages);
            origin.number
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
