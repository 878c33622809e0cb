//! Events of a stream that share one write.

use bytes::Bytes;
use gatepost_broker::StreamEvent;
use smallvec::SmallVec;

use crate::http::event_stream::{StreamFormat, encode_shared};

/// Events that may share one write.
pub(super) const EVENTS_PER_WRITE: usize = 64;
/// Encoded bytes after which no further event shares the write: a slow reader keeps these and one
/// event in memory, beside those in the broker's queue.
const ENCODED_BYTES_PER_WRITE: usize = 256 << 10;

/// Encoded events that share one write.
pub(super) struct EventBatch {
    /// The bytes of the events that the reader wants.
    pub(super) encoded: SmallVec<[Bytes; 4]>,
    /// Whether there was no event at all.
    pub(super) is_empty: bool,
}

impl EventBatch {
    /// Takes and encodes events from `next`, until there are enough for one write.
    pub(super) fn take(
        next: &mut dyn FnMut() -> Option<StreamEvent>,
        format: &StreamFormat,
        chunked: bool,
    ) -> Self {
        let mut encoded = SmallVec::new();
        let (mut taken, mut bytes_taken) = (0, 0);
        while taken < EVENTS_PER_WRITE && bytes_taken < ENCODED_BYTES_PER_WRITE {
            let Some(event) = next() else { break };
            taken += 1;
            if format.wants(&event) {
                let bytes = encode_shared(&event, format, chunked);
                bytes_taken += bytes.len();
                encoded.push(bytes);
            }
        }
        Self {
            encoded,
            is_empty: taken == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gatepost_broker::Remembered;
    use gatepost_message::{Publication, Topic};

    use super::*;
    use crate::http::event_stream::PublicationShape;

    /// The number of events in the first write of many that wait.
    fn events_of_first_write(payload_bytes: usize) -> usize {
        let mut next = || {
            let topic = Topic::new("a").expect("a topic");
            let publication = Arc::new(Publication::new(topic, vec![b'x'; payload_bytes]));
            Some(StreamEvent::Publication(Remembered {
                position: publication.id,
                publication,
            }))
        };
        let format = StreamFormat {
            shape: PublicationShape::SsePayload,
            ends: false,
            topics: String::new(),
            filter: None,
            mount: None,
            names_whole_topics: false,
            scheduled: Bytes::new(),
        };
        EventBatch::take(&mut next, &format, true).encoded.len()
    }

    #[test]
    fn a_write_is_bounded_in_events_and_bytes() {
        assert_eq!(events_of_first_write(10), EVENTS_PER_WRITE);
        assert_eq!(events_of_first_write(100 << 10), 3);
        assert_eq!(events_of_first_write(1 << 20), 1);
    }
}
