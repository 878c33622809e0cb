//! The queue between the broker and one reader within this process.
//!
//! Events leave it in one of two ways, always under its lock, so in order. Either the reader's own
//! task takes the next one; or, with an [`EventConsumer`], the publishing thread passes events on,
//! once for each batch of the publisher, like the flush of a session's outbox: no task is woken,
//! and one thread encodes for all. The reader's task is woken only when the consumer is full.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::counters::{Counters, DropCause};
use crate::prefetch::{Prefetch, prefetch, prefetch_all};
use crate::recent::Remembered;
use crate::trace::{OpenSteps, StepOutcome, Trace};
use crate::weight::content_bytes;

/// An item of a reader's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// A publication.
    Publication(Remembered),
    /// Events are missing at this position.
    Gap {
        /// The number of missed events; `None` where that is unknown, because they were forgotten.
        missed: Option<u64>,
    },
}

/// Receives a reader's events on the thread that publishes.
pub trait EventConsumer: Send + Sync {
    /// Takes events from `next` until it is full, without waiting; returns whether it can take
    /// more. Otherwise the reader's task is woken, which frees space and calls `Reader::pump`.
    /// Called under the reader's lock.
    fn take(&self, next: &mut dyn FnMut() -> Option<StreamEvent>) -> bool;
}

#[derive(Default)]
pub(crate) struct StreamState {
    events: VecDeque<Remembered>,
    /// The bytes of `events`.
    bytes: usize,
    missed: u64,
    /// Traced events that the reader has not taken, by message id.
    traced: OpenSteps,
    pub(crate) reader: Option<Waker>,
    /// Receives the events in place of the reader's task.
    pub(crate) consumer: Option<Arc<dyn EventConsumer>>,
    /// Whether a publisher has scheduled this queue to be flushed.
    is_due: bool,
    pub(crate) closed: bool,
}

impl StreamState {
    pub(crate) fn next(&mut self) -> Option<StreamEvent> {
        let missed = std::mem::take(&mut self.missed);
        if missed > 0 {
            let missed = Some(missed);
            return Some(StreamEvent::Gap { missed });
        }
        let publication = self.pop(StepOutcome::Sent)?;
        Some(StreamEvent::Publication(publication))
    }

    /// Removes the oldest event, with this outcome in its trace.
    fn pop(&mut self, outcome: StepOutcome) -> Option<Remembered> {
        let oldest = self.events.pop_front()?;
        self.bytes -= content_bytes(&oldest);
        self.traced.settle(oldest.id.number(), outcome);
        Some(oldest)
    }

    /// Passes events to the consumer, and wakes the task if the consumer is full.
    pub(crate) fn pump(&mut self) {
        // Taken out for the call, which borrows the queue: cheaper than counting a reference.
        let Some(consumer) = self.consumer.take() else {
            return;
        };
        let takes_more = consumer.take(&mut || self.next());
        self.consumer = Some(consumer);
        if !takes_more && let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// The queue between the broker and one reader.
pub(crate) struct StreamQueue {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) filters: usize,
    pub(crate) state: Mutex<StreamState>,
    pub(crate) messages_max: usize,
    pub(crate) bytes_max: usize,
    pub(crate) delivered: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

impl StreamQueue {
    /// Adds a publication; returns whether the publisher is to flush this queue at the end of its
    /// batch.
    pub(crate) fn push(
        &self,
        remembered: &Remembered,
        trace: Option<&Arc<Trace>>,
        counters: &Counters,
    ) -> bool {
        let bytes = content_bytes(remembered);
        let mut state = self.state.lock();
        if !self.has_room(&state, bytes) {
            // A batch as long as the queue must not lose events of a consumer.
            state.pump();
            self.drop_oldest(&mut state, bytes, counters);
        }
        self.delivered.fetch_add(1, Ordering::Relaxed);
        state.events.push_back(remembered.clone());
        state.bytes += bytes;
        if let Some(trace) = trace {
            let step = trace.at_reader(&self.name, self.kind, &remembered.publication);
            state.traced.add(remembered.id.number(), step);
        }
        if state.consumer.is_some() {
            return !std::mem::replace(&mut state.is_due, true);
        }
        if let Some(reader) = state.reader.take() {
            drop(state);
            reader.wake();
        }
        false
    }

    /// Whether a publication of this size may wait: any one may wait alone.
    fn has_room(&self, state: &StreamState, bytes: usize) -> bool {
        let is_within_bytes = state.bytes.saturating_add(bytes) <= self.bytes_max;
        state.events.is_empty() || (is_within_bytes && state.events.len() < self.messages_max)
    }

    /// Drops the oldest events until a publication of this size may wait.
    fn drop_oldest(&self, state: &mut StreamState, bytes: usize, counters: &Counters) {
        let outcome = StepOutcome::Dropped(DropCause::StreamFull);
        let mut dropped = 0;
        while !self.has_room(state, bytes) && state.pop(outcome).is_some() {
            dropped += 1;
        }
        state.missed += dropped;
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
        counters.drop_messages(DropCause::StreamFull, dropped);
    }

    /// Passes the pushed events to the consumer.
    pub(crate) fn flush(&self) {
        let mut state = self.state.lock();
        state.is_due = false;
        state.pump();
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().events.len()
    }

    /// Wakes the reader's task.
    pub(crate) fn wake(&self) {
        let reader = self.state.lock().reader.take();
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }
}

impl Prefetch for StreamQueue {
    fn prefetch(&self) {
        prefetch_all(self);
    }

    fn prefetch_referents(&self) {
        let Some(state) = self.state.try_lock() else {
            return;
        };
        prefetch(state.events.as_slices().0, 0);
        if let Some(consumer) = &state.consumer {
            prefetch_all(&**consumer);
        }
    }
}

#[cfg(test)]
mod tests {
    use gatepost_message::{Publication, Topic};

    use super::*;

    fn queue(messages_max: usize, bytes_max: usize) -> StreamQueue {
        StreamQueue {
            name: String::new(),
            kind: "sse",
            filters: 1,
            state: Mutex::default(),
            messages_max,
            bytes_max,
            delivered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Adds publications with payloads of these sizes, beside a topic of one byte.
    fn push(queue: &StreamQueue, sizes: &[usize]) {
        for &size in sizes {
            let topic = Topic::new("t").expect("a topic");
            let publication = Arc::new(Publication::new(topic, vec![0; size]));
            let remembered = Remembered {
                position: publication.id,
                publication,
            };
            queue.push(&remembered, None, &Counters::default());
        }
    }

    /// The number of missed events that is reported first, and the sizes of the payloads after it.
    fn taken(queue: &StreamQueue) -> (u64, Vec<usize>) {
        let mut state = queue.state.lock();
        let (mut gap, mut sizes) = (0, Vec::new());
        while let Some(event) = state.next() {
            match event {
                StreamEvent::Gap { missed } => gap = missed.expect("a number"),
                StreamEvent::Publication(publication) => sizes.push(publication.payload.len()),
            }
        }
        (gap, sizes)
    }

    #[test]
    fn the_oldest_events_are_dropped_beyond_either_limit() {
        let queue = queue(4, 1_000);
        push(&queue, &[499, 499]);
        assert_eq!(taken(&queue), (0, vec![499, 499]));
        push(&queue, &[499, 499, 9]);
        assert_eq!(taken(&queue), (1, vec![499, 9]));
        push(&queue, &[9, 9, 9, 999]);
        assert_eq!(taken(&queue), (3, vec![999]));
        push(&queue, &[1, 2, 3, 4, 5]);
        assert_eq!(taken(&queue), (1, vec![2, 3, 4, 5]));
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 5);
        assert_eq!(queue.state.lock().bytes, 0);
    }

    #[test]
    fn a_publication_above_the_limit_waits_alone() {
        let queue = queue(4, 1_000);
        push(&queue, &[9, 5_000]);
        assert_eq!(taken(&queue), (1, vec![5_000]));
        push(&queue, &[5_000, 9]);
        assert_eq!(taken(&queue), (1, vec![9]));
    }
}
