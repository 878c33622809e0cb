//! Subscriptions that begin with earlier publications (`since`).
//!
//! A session has no order relative to publishers, so the boundary between the history and live
//! publications is that of a reader within the process: while a reader has the filter, all
//! publishers under it take the lock of
//! [`RecentMessages::order`](crate::recent::RecentMessages::order). Under that lock the session
//! first gets the history, and then its subscription. So at the boundary no message is lost or
//! delivered twice, unless the session had the subscription already.
//!
//! Bounds: a replay takes at most half of the session's free space; if the history is larger, its
//! oldest messages are omitted. If messages are missing, the first one has a user property that
//! reports it.

use std::collections::HashSet;
use std::sync::Arc;

use gatepost_message::{Publication, Qos};

use crate::attachment::{Attachment, SubscribeError};
use crate::filter::{RequestedFilter, SubscribeOptions};
use crate::reader::{LocalSubscription, ReaderOptions};
use crate::since::Since;
use crate::stream_queue::StreamEvent;
use crate::weight::content_bytes;

/// The user property of the first message after a gap.
const GAP_PROPERTY: &str = "gap";
/// The value if the number of missing messages is unknown.
const GAP_UNKNOWN: &str = "unknown";

/// The replay with which a subscription began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// The number of messages delivered.
    pub messages: usize,
    /// `true` where some are missing.
    pub has_gap: bool,
    /// See [`RetainedOfSubscription::topics_compared`].
    ///
    /// [`RetainedOfSubscription::topics_compared`]:
    /// crate::RetainedOfSubscription::topics_compared
    pub topics_compared: usize,
}

/// Messages that may be missing before the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gap {
    None,
    /// This number of messages was omitted.
    Known(usize),
    Unknown,
}

/// Free space for messages.
#[derive(Clone, Copy)]
struct FreeSpace {
    messages: usize,
    bytes: usize,
}

impl FreeSpace {
    /// Half of the free part of a bound.
    const fn left(bound: Self, taken: Self) -> Self {
        Self {
            messages: (bound.messages / 2).saturating_sub(taken.messages),
            bytes: (bound.bytes / 2).saturating_sub(taken.bytes),
        }
    }

    /// Takes the space of a message; returns whether there was enough.
    fn take(&mut self, bytes: usize) -> bool {
        let fits = self.messages > 0 && self.bytes >= bytes;
        if fits {
            self.messages -= 1;
            self.bytes -= bytes;
        }
        fits
    }
}

impl Attachment {
    /// As [`Attachment::subscribe`], and delivers immediately the publications since then, and the
    /// retained messages: before the later publications of the same topic, or else as
    /// [`Attachment::deliver_retained`] does. One that is also in the history is sent once.
    pub fn subscribe_since(
        &self,
        requested: &RequestedFilter,
        options: &SubscribeOptions,
        since: Since,
    ) -> Result<Replayed, SubscribeError> {
        let shared = self.shared();
        let reader = ReaderOptions {
            since,
            name: self.session().client_id().to_owned(),
            kind: "replay",
        };
        let filters = std::slice::from_ref(&requested.text);
        let mut reader = LocalSubscription::new(shared.clone(), filters, reader);
        let order = shared.recent.order();
        let mut retained = self.subscribe(requested, options)?;
        let (history, gap) = self.history(&mut reader, options.qos);
        let replayed: HashSet<_> = history.iter().map(|publication| publication.id).collect();
        let topics: HashSet<_> = history
            .iter()
            .map(|publication| &publication.topic)
            .collect();
        let earlier = retained.split_off(|one| !topics.contains(&one.topic));
        let only_retained = earlier.iter().filter(|one| !replayed.contains(&one.id));
        let earlier = only_retained.map(|publication| (publication, true));
        let history = after_gap(history, gap);
        let with_flag = history
            .iter()
            .map(|one| (one, one.retain && options.retain_as_published));
        self.deliver_stored(earlier.chain(with_flag), *options);
        drop(order);
        let topics_compared = retained.topics_compared();
        self.deliver_retained(retained);
        Ok(Replayed {
            topics_compared,
            messages: history.len(),
            has_gap: gap != Gap::None,
        })
    }

    /// The space for replayed messages in the outbox, for QoS 0, and in the queue.
    fn free_space(&self) -> (FreeSpace, FreeSpace) {
        let settings = &self.shared().settings;
        let outbox = FreeSpace {
            messages: settings.outbox_messages_max,
            bytes: settings.outbox_max.as_usize(),
        };
        let queue = FreeSpace {
            messages: settings.queue_messages_max,
            bytes: settings.queue_bytes_max.as_usize(),
        };
        let state = self.session().lock();
        let in_outbox = FreeSpace {
            messages: state.outbox.messages(),
            bytes: state.outbox.bytes(),
        };
        let waiting = state.acknowledged.as_ref();
        let in_queue = FreeSpace {
            messages: waiting.map_or(0, |queue| queue.waiting.len()),
            bytes: waiting.map_or(0, |queue| queue.waiting_bytes()),
        };
        (
            FreeSpace::left(outbox, in_outbox),
            FreeSpace::left(queue, in_queue),
        )
    }

    /// The messages that `reader` has, oldest first, as far as the session has space for them.
    fn history(&self, reader: &mut LocalSubscription, qos: Qos) -> (Vec<Arc<Publication>>, Gap) {
        let mut gap = Gap::None;
        let mut history = Vec::new();
        let now = self.shared().clock.time_of_day();
        while let Some(event) = reader.try_next() {
            match event {
                StreamEvent::Gap { .. } => gap = Gap::Unknown,
                StreamEvent::Publication(one) => {
                    if one.expiry_seconds_left(now) != Some(0) {
                        history.push(one.publication);
                    }
                }
            }
        }
        let (mut outbox, mut queue) = self.free_space();
        let newest = history.iter().rev().take_while(|one| {
            let room = match one.qos.min(qos) {
                Qos::AtMostOnce => &mut outbox,
                Qos::AtLeastOnce | Qos::ExactlyOnce => &mut queue,
            };
            room.take(content_bytes(one))
        });
        let left_out = history.len() - newest.count();
        history.drain(..left_out);
        if left_out > 0 && gap == Gap::None {
            gap = Gap::Known(left_out);
        }
        (history, gap)
    }
}

/// The history with the gap property at its first message.
fn after_gap(mut history: Vec<Arc<Publication>>, gap: Gap) -> Vec<Arc<Publication>> {
    let missing = match gap {
        Gap::None => return history,
        Gap::Known(count) => count.to_string(),
        Gap::Unknown => GAP_UNKNOWN.to_owned(),
    };
    if let Some(first) = history.first_mut() {
        let mut noted = Publication::clone(first);
        let properties = noted.properties.get_or_insert_default();
        properties
            .user
            .insert(0, (GAP_PROPERTY.to_owned(), missing));
        *first = Arc::new(noted);
    }
    history
}
