//! The queue of publications that wait for the connection, bounded by messages and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost_message::Publication;
use tokio::sync::mpsc;

use crate::encoding;
use crate::settings::BackboneSettings;

/// The queue of one connection.
pub(crate) struct OutgoingQueue {
    sender: mpsc::Sender<Arc<Publication>>,
    /// The number of publications in the queue.
    messages: AtomicUsize,
    bytes: AtomicUsize,
    bytes_max: usize,
}

/// The memory of a publication in the queue, about.
pub(crate) fn weight(publication: &Publication) -> usize {
    encoding::bundle_bytes_min(publication)
}

impl OutgoingQueue {
    pub(crate) fn new(settings: &BackboneSettings) -> (Self, mpsc::Receiver<Arc<Publication>>) {
        let (sender, receiver) = mpsc::channel(settings.queue_messages_max);
        let outgoing = Self {
            sender,
            messages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            bytes_max: settings.queue_bytes_max.as_usize(),
        };
        (outgoing, receiver)
    }

    /// Appends a publication; returns whether there was room.
    pub(crate) fn push(&self, publication: &Arc<Publication>) -> bool {
        let weight = weight(publication);
        let before = self.bytes.fetch_add(weight, Ordering::Relaxed);
        // A single one that is larger than the bound is taken alone.
        let has_room = before == 0 || before + weight <= self.bytes_max;
        self.messages.fetch_add(1, Ordering::Relaxed);
        let is_queued = has_room && self.sender.try_send(publication.clone()).is_ok();
        if !is_queued {
            self.remove(1, weight);
        }
        is_queued
    }

    /// These publications left the queue.
    pub(crate) fn remove(&self, messages: usize, weight: usize) {
        self.messages.fetch_sub(messages, Ordering::Relaxed);
        self.bytes.fetch_sub(weight, Ordering::Relaxed);
    }

    /// The publications in the queue.
    pub(crate) fn messages(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use gatepost_message::Topic;
    use gatepost_settings::ByteSize;

    use super::*;

    #[test]
    fn the_queue_is_bounded_by_messages_and_bytes() {
        let bounded = |queue_messages_max, bytes| BackboneSettings {
            queue_messages_max,
            queue_bytes_max: ByteSize(bytes),
            ..BackboneSettings::default()
        };
        let one = Arc::new(Publication::new(
            Topic::new("a").expect("a topic"),
            vec![b'x'; 100],
        ));
        let (outgoing, _queue) = OutgoingQueue::new(&bounded(2, 1_000_000));
        let pushed = [(); 3].map(|()| outgoing.push(&one));
        assert_eq!((pushed, outgoing.messages()), ([true, true, false], 2));
        let (outgoing, _queue) = OutgoingQueue::new(&bounded(100, 200));
        let pushed = [(); 3].map(|()| outgoing.push(&one));
        assert_eq!((pushed, outgoing.messages()), ([true, false, false], 1));
    }
}
