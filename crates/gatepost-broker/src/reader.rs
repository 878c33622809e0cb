//! Subscribers within this process: server-sent events, JSON lines, live pages.
//!
//! Readers receive the publications themselves, not bytes. A reader that falls behind loses the
//! oldest publications; a [`StreamEvent::Gap`] in their place states their number.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};

use gatepost_message::TopicFilter;
use parking_lot::Mutex;

use crate::shared::BrokerShared;
use crate::since::Since;
use crate::stream_queue::{EventConsumer, StreamEvent, StreamQueue};
use crate::subscription::Subscription;

/// A reader's request.
#[derive(Debug, Clone, Default)]
pub struct ReaderOptions {
    /// The start of the subscription.
    pub since: Since,
    /// Its name in the list of sessions.
    pub name: String,
    /// The kind of reader, for the list of sessions: `sse`, `jsonl`.
    pub kind: &'static str,
}

/// A running subscription within this process; dropping it ends it.
pub struct LocalSubscription {
    shared: Arc<BrokerShared>,
    queue: Arc<StreamQueue>,
    filters: Vec<TopicFilter>,
    /// The stored events from before the start, oldest first, preceded by a gap.
    backlog: VecDeque<StreamEvent>,
}

impl LocalSubscription {
    pub(crate) fn new(
        shared: Arc<BrokerShared>,
        filters: &[TopicFilter],
        options: ReaderOptions,
    ) -> Self {
        let queue = Arc::new(StreamQueue {
            name: options.name,
            kind: options.kind,
            filters: filters.len(),
            state: Mutex::default(),
            messages_max: shared.settings.stream_messages_max.max(1),
            bytes_max: shared.settings.stream_bytes_max.as_usize(),
            delivered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        // No topic with readers is published to meanwhile; `recent/mod.rs` describes topics without
        // readers.
        let order = shared.recent.order();
        for filter in filters {
            shared
                .index
                .insert(filter, Subscription::Reader(queue.clone()));
        }
        shared.streams.lock().push(Arc::downgrade(&queue));
        let (events, has_gap) = shared.recent.since(filters, options.since);
        drop(order);
        let gap = has_gap.then_some(StreamEvent::Gap { missed: None });
        Self {
            backlog: gap
                .into_iter()
                .chain(events.into_iter().map(StreamEvent::Publication))
                .collect(),
            shared,
            queue,
            filters: filters.to_vec(),
        }
    }

    /// The next event if it is already there.
    pub fn try_next(&mut self) -> Option<StreamEvent> {
        match self.poll_ready(None) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    /// The next event; `None` when the broker ends. Cancel-safe.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`LocalSubscription::next`], as a poll function.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        self.poll_ready(Some(context.waker()))
    }

    fn poll_ready(&mut self, waker: Option<&Waker>) -> Poll<Option<StreamEvent>> {
        if let Some(event) = self.backlog.pop_front() {
            return Poll::Ready(Some(event));
        }
        let mut state = self.queue.state.lock();
        if let Some(event) = state.next() {
            return Poll::Ready(Some(event));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        if let Some(waker) = waker {
            state.reader = Some(waker.clone());
        }
        Poll::Pending
    }
}

impl LocalSubscription {
    /// Passes later events to `consumer`. The caller must have written all events of
    /// [`LocalSubscription::try_next`] before.
    pub fn attach(&mut self, consumer: Arc<dyn EventConsumer>) {
        let mut state = self.queue.state.lock();
        state.consumer = Some(consumer);
        state.pump();
    }

    /// Passes on the events that waited for free space.
    pub fn pump(&self) {
        self.queue.state.lock().pump();
    }

    /// With a consumer: waits for the broker's end. Also wakes the task when the consumer is full,
    /// which the caller checks itself.
    pub fn poll_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.queue.state.lock();
        if state.closed {
            return Poll::Ready(());
        }
        match &mut state.reader {
            Some(reader) => reader.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for LocalSubscription {
    fn drop(&mut self) {
        for filter in &self.filters {
            self.shared.index.remove(filter, &|subscription| {
                matches!(
                    subscription,
                    Subscription::Reader(queue) if Arc::ptr_eq(queue, &self.queue),
                )
            });
        }
    }
}
