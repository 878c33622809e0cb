//! The last judged messages as they arrived, so that changed rules can be tested on them.
//!
//! This is a sample: under load only some messages are kept, large ones never, and the oldest are
//! replaced by new ones. No acknowledgement depends on them, so no caller waits for their commit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use gatepost_message::{Format, Message, MessageId};
use parking_lot::Mutex;

use crate::{Store, StoreChange, StoreError};

/// The key space of originals among the records.
const SPACE: &str = "original";

/// The sample of originals. Cheap to clone; all clones share it.
#[derive(Clone)]
pub struct Originals(Arc<OriginalsCore>);

struct OriginalsCore {
    store: Store,
    sample: Mutex<SampledIds>,
    limits: OriginalsLimits,
}

/// The limits of the sample.
#[derive(Debug, Clone, Copy)]
pub struct OriginalsLimits {
    /// The maximum number that is kept; 0 keeps none.
    pub count_max: usize,
    /// Larger messages are not kept.
    pub message_bytes_max: usize,
    /// The maximum number that is kept per second.
    pub per_second: u32,
}

struct SampledIds {
    /// The oldest first.
    ids: VecDeque<MessageId>,
    second: Instant,
    in_this_second: u32,
}

impl Originals {
    /// Continues with the originals in this database.
    pub fn open(store: &Store, limits: OriginalsLimits) -> Result<Self, StoreError> {
        let keys = store.record_keys(SPACE)?;
        let ids = keys.iter().filter_map(|key| id(key));
        Ok(Self(Arc::new(OriginalsCore {
            store: store.clone(),
            sample: Mutex::new(SampledIds {
                ids: ids.collect(),
                second: Instant::now(),
                in_this_second: 0,
            }),
            limits,
        })))
    }

    /// Keeps the message, unless this second's limit has been reached.
    pub fn keep(&self, message: &Message) {
        let limits = self.0.limits;
        // A caller may give the size without the body.
        let is_whole = message.size == message.body.len() as u64;
        if !is_whole || message.body.len() > limits.message_bytes_max || limits.count_max == 0 {
            return;
        }
        let mut sample = self.0.sample.lock();
        if sample.second.elapsed().as_secs() > 0 {
            (sample.second, sample.in_this_second) = (Instant::now(), 0);
        }
        if sample.in_this_second >= limits.per_second {
            return;
        }
        sample.in_this_second += 1;
        let format = match message.format {
            Format::Mail => b'm',
            Format::Payload => b'p',
        };
        let mut changes = vec![StoreChange::PutRecord {
            space: SPACE,
            key: key(message.id),
            value: [&[format], &message.body[..]].concat().into(),
        }];
        sample.ids.push_back(message.id);
        while sample.ids.len() > limits.count_max {
            changes.extend(
                sample
                    .ids
                    .pop_front()
                    .map(|oldest| StoreChange::DeleteRecord {
                        space: SPACE,
                        key: key(oldest),
                    }),
            );
        }
        if let Err(error) = self.0.store.submit_deferred(changes) {
            tracing::debug!(target: "store", "an original is not kept: {error}");
        }
    }
}

impl Store {
    /// The last kept originals, the newest first.
    pub fn originals(&self, count: usize) -> Result<Vec<(MessageId, Format, Bytes)>, StoreError> {
        let records = self.records(SPACE, b"")?;
        let newest = records.into_iter().rev().take(count);
        let original = |(key, value): (Bytes, Bytes)| {
            let format = match value.first()? {
                b'm' => Format::Mail,
                _ => Format::Payload,
            };
            Some((id(&key)?, format, value.slice(1..)))
        };
        Ok(newest.filter_map(original).collect())
    }
}

fn key(id: MessageId) -> Bytes {
    Bytes::copy_from_slice(&id.number().to_be_bytes())
}

fn id(key: &[u8]) -> Option<MessageId> {
    let number = u64::from_be_bytes(key.try_into().ok()?);
    Some(MessageId::from_number(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::{Envelope, Listener, Peer};

    fn message(body: &str) -> Message {
        let envelope = Envelope::new(Listener::Smtp, Peer::Local);
        Message::new(
            envelope,
            None,
            Format::Mail,
            Bytes::copy_from_slice(body.as_bytes()),
        )
    }

    #[tokio::test]
    async fn the_newest_stay_and_large_ones_and_floods_are_passed_over() {
        let store = Store::in_memory().expect("a store");
        let limits = OriginalsLimits {
            count_max: 3,
            message_bytes_max: 10,
            per_second: 1000,
        };
        let originals = Originals::open(&store, limits).expect("opened");
        for body in ["1", "2", "3", "far too large", "4"] {
            originals.keep(&message(body));
        }
        let slow = Originals::open(
            &store,
            OriginalsLimits {
                per_second: 0,
                ..limits
            },
        );
        slow.expect("opened").keep(&message("5"));
        let done = store.submit([StoreChange::DeleteRecord {
            space: "none",
            key: Bytes::new(),
        }]);
        done.expect("submitted")
            .committed()
            .await
            .expect("committed");
        let originals = store.originals(10).expect("read");
        let bodies: Vec<&[u8]> = originals.iter().map(|(_, _, body)| &body[..]).collect();
        assert_eq!(bodies, [b"4", b"3", b"2"]);
    }
}
